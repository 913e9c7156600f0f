"""Input nodes of PipeDream's profiles: with their time or without."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from command_line import mtpp

from instances import InputError, InputWarning, load_graph
from instances.planning.plan_files import load_chain
from instances.readers.profiles import read_pipedream
from instances.suites import SUITES

PROFILE = """\
node1 -- Input0 -- forward_compute_time=6, backward_compute_time=1, activation_size=50, parameter_size=0
node2 -- Linear(3, 4) -- forward_compute_time=3, backward_compute_time=5, activation_size=60, parameter_size=9
node3 -- InputNorm(4) -- forward_compute_time=1, backward_compute_time=2, activation_size=7, parameter_size=0
\tnode1 -- node2
\tnode2 -- node3
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "net.graph.txt"
    file.write_text(PROFILE)
    return file


def test_input_nodes_keep_their_time_and_this_is_said(path: Path) -> None:
    """Only nodes that read nothing are inputs, as PipeDream has it: `InputNorm` is a layer."""
    with pytest.warns(InputWarning, match=r"net\.graph\.txt: Input nodes take 60% of the work"):
        graph = load_graph(path)
    np.testing.assert_allclose(graph.work, [0.006, 0.003, 0.001])
    assert len(graph.attributes["warnings"]) == 1


@pytest.mark.parametrize(("choice", "work"), [("keep", [7, 8, 3]), ("drop", [0, 8, 3])])
@pytest.mark.filterwarnings("error")
def test_a_choice_is_followed_in_silence(choice: str, work: list[float], path: Path) -> None:
    graph = load_graph(path, training=True, input_work=choice)
    np.testing.assert_allclose(graph.work * 1000, work)
    assert graph.tensors.bytes.tolist() == [100, 120, 14]
    assert "warnings" not in graph.attributes


@pytest.mark.filterwarnings("error")
def test_a_chain_of_a_profile_drops_both_passes_of_its_inputs(path: Path) -> None:
    kept, dropped = (load_chain(path, input_work=choice) for choice in ("keep", "drop"))
    assert (kept.forward.sum(), kept.backward.sum()) == pytest.approx((0.010, 0.008))
    assert (dropped.forward.sum(), dropped.backward.sum()) == pytest.approx((0.004, 0.007))


@pytest.mark.filterwarnings("error")
def test_times_near_the_largest_number_have_a_share(tmp_path: Path) -> None:
    path = tmp_path / "net.graph.txt"
    path.write_text(PROFILE.replace("time=6", "time=1.7e308").replace("time=3", "time=1.7e308"))
    assert "take 50% of the work" in read_pipedream(path).attributes["warnings"][0]


@pytest.mark.parametrize(
    "verb", ["partition FILE -k 2 --time-limit 1", "place FILE -k 2 --time-limit 1", "import FILE"]
)
def test_each_verb_says_it_once_and_takes_the_choice(verb: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = verb.replace("FILE", str(path))
    assert mtpp(command) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert lines == [
        f"mtpp: warning: {path}: Input nodes take 60% of the work, and none in PipeDream's own optimizer; choose with "
        "--input-work keep or drop."
    ]
    assert mtpp(f"{command} --input-work drop") == 0
    assert "warning" not in capsys.readouterr().err


def test_a_plan_says_it_too(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"plan {path} --cluster 1x2 --bandwidth 1GB/s --microbatches 2"
    assert mtpp(command) == 0
    assert capsys.readouterr().err.count("warning") == 1
    assert mtpp(f"{command} --input-work drop") == 0
    assert "warning" not in capsys.readouterr().err
    assert mtpp("plan simulation --cluster 1x2 --bandwidth 1GB/s --microbatches 2 --input-work drop") == 2


def test_other_choices_and_other_files_are_refused(path: Path) -> None:
    with pytest.raises(InputError, match="input_work is 'some'; give one of keep, drop"):
        read_pipedream(path, input_work="some")
    with pytest.raises(InputError, match=r"take no time_unit; leave it out \(piper, dot do\)"):
        load_graph(path, time_unit="ms")
    with pytest.raises(InputError, match="architectures take no input_work"):
        load_graph("bert-base", input_work="drop")


def test_the_inputs_of_published_profiles(data: Path) -> None:
    """62 % of squeezenet's work, forward and backward, is the loading of data."""
    path = data / "pipedream" / "squeezenet1_0.graph.txt"
    with pytest.warns(InputWarning, match="take 62% of the work"):
        load_graph(path, training=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_graph(data / "pipedream" / "gnmt.graph.txt")  # its inputs have no time


@pytest.mark.usefixtures("data")
@pytest.mark.filterwarnings("error")
def test_the_suite_of_profiles_has_chosen() -> None:
    names = {instance.name for instance in SUITES["profiles"].instances(2)}
    assert "pipedream-squeezenet1_0" in names
