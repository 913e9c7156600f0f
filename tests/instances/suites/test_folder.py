"""Suites of the files in a folder: what cannot be read is told and left out, equal graphs count once."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from instances import ComputationGraph, InputError, Partition, save_graph
from instances.errors import InputWarning
from instances.suites import find_suite, is_suite

DOT = "digraph { a [weight=1]; b [weight=2]; a -> b [weight=3]; }\n"

#: The example in the description of REGAL's data set (google-deepmind/deepmind-research, regal/README.md).
REGAL = """
node { name: "_SOURCE" }
node { name: "node_0" id: 1 control_input: 0 }
node { name: "node_1" id: 2 output_info { size: 70 alias_input_port: -1 } control_input: 0 compute_cost: 58 }
node { name: "node_2" id: 3 output_info { size: 52 alias_input_port: -1 } control_input: 0 compute_cost: 47 }
node {
  name: "node_3" id: 4 input_info { preceding_node: 2 } output_info { size: 55 alias_input_port: -1 }
  control_input: 0 compute_cost: 58
}
"""


def chain(folder: Path, name: str, *work: float) -> None:
    graph = ComputationGraph.from_edges([(i, i + 1) for i in range(len(work) - 1)], work, [1.0] * len(work), name=name)
    save_graph(graph, folder / f"{name}.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    chain(tmp_path, "bert-1", 1.0, 2.0)
    chain(tmp_path, "bert-8", 8.0, 16.0)
    (tmp_path / "net.dot").write_text(DOT)
    return tmp_path


def test_all_files_by_name(folder: Path) -> None:
    (folder / ".hidden").write_text("x")
    (folder / "more").mkdir()
    suite = find_suite(str(folder))
    assert is_suite(str(folder))
    assert [entry.name for entry, _ in suite.graphs()] == ["bert-1", "bert-8", "net"]
    assert [entry.family for entry in suite.entries] == ["bert-1", "bert-8", "net"]
    with pytest.raises(InputError, match="has no bandwidth; add one to"):
        suite.instances(2)


def test_settings(folder: Path) -> None:
    (folder / "suite.toml").write_text('bandwidth = 2\nk = [2, 4]\n[clusters]\n"bert-*" = "bert"\n')
    suite = find_suite(str(folder))
    assert suite.k == (2, 4)
    found = suite.instances(2)
    assert [instance.family for instance in found] == ["bert", "bert", "net"]
    assert {instance.platform.bandwidth for instance in found} == {2.0}
    assert [instance.with_k(3).family for instance in found] == ["bert", "bert", "net"]


def test_a_broken_file_among_many_is_told_and_the_others_go_on(folder: Path) -> None:
    (folder / "broken.json").write_text('{"format": "mtpp-graph/1", "nodes": [')
    left_out: list[str] = []
    with pytest.warns(InputWarning, match=r"broken\.json: not valid JSON .* This file is left out\.$"):
        found = [entry.name for entry, graph in find_suite(str(folder)).graphs(left_out) if graph is not None]
    assert found == ["bert-1", "bert-8", "net"]
    assert len(left_out) == 1
    assert left_out[0].startswith(str(folder / "broken.json"))


def test_equal_graphs_count_once(folder: Path) -> None:
    (folder / "again.json").write_text((folder / "bert-1.json").read_text())
    (folder / "suite.toml").write_text("bandwidth = 1.0\n")
    with pytest.warns(InputWarning, match="bert-1 is the same graph as again; it counts once"):
        assert [instance.name for instance in find_suite(str(folder)).instances(2)] == ["again", "bert-8", "net"]


def test_names_with_the_same_stem_keep_their_suffix(folder: Path) -> None:
    (folder / "bert-1.dot").write_text(DOT.replace("1", "5"))
    assert [entry.name for entry in find_suite(str(folder)).entries] == ["bert-1.dot", "bert-1.json", "bert-8", "net"]


def test_nothing_to_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file in this folder"):
        find_suite(str(tmp_path))
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "b.json").write_text("[")
    with pytest.warns(InputWarning), pytest.raises(InputError, match="none of 2 graphs can be had; the last: "):
        list(find_suite(str(tmp_path)).graphs())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bandwith = 1", "There is no word 'bandwith'; did you mean bandwidth"),
        ("bandwidth = 0", "bandwidth must be a number"),
        ("bandwidth = true", "bandwidth must be a number"),
        ("bandwidth = inf", "bandwidth must be a number"),
        ("bandwidth = nan", "bandwidth must be a number"),
        (f"bandwidth = {'9' * 400}", "bandwidth must be a number"),
        ('bandwidth = "25GB/s"', "bandwidth must be a number"),
        ("k = [0]", "k must be a list"),
        ("k = [2.5]", "k must be a list"),
        ("k = []", "k must be a list"),
        ("clusters = 3", "clusters must be a table"),
        ("clusters = {bert-1 = 3}", "clusters must be a table"),
        ("clusters = {nobody = 'x'}", "clusters: no graph is called 'nobody'; there are bert-1, bert-8, net"),
        ("k = ", "not valid TOML"),
        ("k = " + "[" * 100_000, "not valid TOML"),
        ("", "the file is empty"),
    ],
)
def test_settings_that_are_refused(folder: Path, text: str, message: str) -> None:
    (folder / "suite.toml").write_text(text)
    with pytest.raises(InputError, match="suite.toml.*" + message.replace("(", r"\(")):
        find_suite(str(folder))


def test_regal_files_in_the_reading_of_the_paper(tmp_path: Path) -> None:
    """A byte takes a microsecond; node_3 reads the node with id 2, which is node_1, and runs with it or pays 70."""
    (tmp_path / "graph_7.pbtxt").write_text(REGAL)
    (tmp_path / "other.pbtxt").write_text(REGAL)
    for k, best in ((1, 163.0), (2, 116.0), (3, 116.0), (4, 116.0)):
        (instance,) = find_suite(f"regal:{tmp_path}").instances(k)
        assert (instance.name, instance.time_unit) == ("graph_7", "us")
        assert instance.graph.names == ("node_0", "node_1", "node_2", "node_3")
        blocks = itertools.product(range(k), repeat=4)
        assert min(Partition(instance, block).cost for block in blocks if block[1] <= block[3]) == best


def test_of_several_outputs_of_a_regal_node_the_least_counts_once(tmp_path: Path) -> None:
    several = 'node { name: "a" output_info { size: 9 } output_info { size: 4 } compute_cost: 1 }\n'
    several += 'node { name: "b" id: 1 input_info { } input_info { preceding_port: 1 } control_input: 0 }\n'
    (tmp_path / "graph_1.pbtxt").write_text(several)
    (instance,) = find_suite(f"regal:{tmp_path}").instances(2)
    assert Partition(instance, (0, 1)).cost == 5.0


def test_regal_folders_that_are_refused(tmp_path: Path) -> None:
    for word, message in (("", "no such folder"), ("/nowhere", "no such folder"), (tmp_path, r"no file graph_\*")):
        with pytest.raises(InputError, match=f"^regal:.*{message}"):
            find_suite(f"regal:{word}")
    (tmp_path / "graph_1.pbtxt").write_text('node { name: "_SOURCE" }')
    with pytest.warns(InputWarning, match="left out"), pytest.raises(InputError, match="none of 1 graphs"):
        find_suite(f"regal:{tmp_path}").instances(2)
