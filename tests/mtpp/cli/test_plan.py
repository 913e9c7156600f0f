"""The verb plan: what it prints and writes, its pictures, and what it refuses."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import mtpp

from heuristics.planning import PLANNERS
from instances import FalseCertificateError, InputError
from instances.devices import cluster_document
from instances.json_files import read_json, write_json
from instances.planning import Cluster, LayerChain, TrainingInstance
from instances.planning.problem import chain_document
from mtpp.certifying.methods import certify_plan
from mtpp.plots.plans import plan_figure, plot_stages
from mtpp.plots.report.plans import schedule_section
from mtpp.plots.style import draw
from mtpp.questions.files import cut_of_plan
from mtpp.questions.planning import load_cluster

SERVERS = "--cluster 2x2 --bandwidth 128Gbps,32Gbps"


def tiny(microbatches: int = 4) -> TrainingInstance:
    """Four layers of 3 s on two servers of two devices."""
    chain = LayerChain([1] * 4, [2] * 4, [4] * 3, [2] * 3, [6] * 4, name="tiny")
    return TrainingInstance(chain, Cluster.of_servers([2, 2], 2.0, 1.0, "pairs"), microbatches)


def value(out: str, label: str) -> float:
    found = re.search(rf"^{label}\s+([\d.e+-]+)", out, re.MULTILINE)
    assert found is not None
    return float(found[1])


@pytest.fixture
def files(folder: Path) -> Path:
    """The tiny instance as files."""
    write_json(folder / "chain.json", chain_document(tiny().chain))
    write_json(folder / "cluster.json", cluster_document(tiny().cluster))
    return folder


@pytest.mark.parametrize("planner", PLANNERS)
def test_every_planner_prints_stages_time_and_bound(
    planner: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mtpp(f"plan chain.json --cluster cluster.json --network paper --microbatches 4 --planner {planner}") == 0
    out = capsys.readouterr().out
    time = PLANNERS[planner].run(tiny(), np.random.default_rng(0)).time
    assert value(out, "iteration") == pytest.approx(time, rel=1e-5)
    assert re.search(r"^stage +layers +number +devices +replicas", out, re.MULTILINE)
    if planner.startswith("hetpipe"):
        assert "not covered" in out
    else:
        assert 0 < value(out, "bound") <= time
        gap = 100 * (value(out, "iteration") / value(out, "bound") - 1)
        assert value(out, "gap") == pytest.approx(gap, abs=0.01)


def test_plan_is_written_and_drawn(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file holds the plan that was printed; the pictures are there."""
    command = "plan chain.json --cluster cluster.json --network paper --microbatches 4 --planner spp --full-duplex"
    assert mtpp(f"{command} --out plan.json --plot plan.svg") == 0
    out = capsys.readouterr().out
    plan = cut_of_plan(read_json("plan.json"))[0]
    assert plan.instance.key == replace(tiny(), full_duplex=True).key
    assert plan.n_stages == len(re.findall(r"^\d+ ", out, re.MULTILINE))
    assert json.loads(Path("plan.json").read_text())["question"]["full_duplex"] is True
    assert "<svg" in Path("plan.svg").read_text()


def test_the_model_of_a_planner_is_written(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Along the order of its search; other planners are no models."""
    command = f"plan simulation {SERVERS} --microbatches 4 --export model.lp --planner"
    assert mtpp(f"{command} milp-load") == 0
    assert capsys.readouterr().out == "model.lp\n"
    assert "arc-flow" in Path("model.lp").read_text().splitlines()[0]
    assert json.loads(Path("model.names.json").read_text())["model"] == "arc-flow"
    assert mtpp(f"{command} improved") == 2
    assert "there are milp, milp-load, milp-compact" in capsys.readouterr().err


def test_guarantees_are_printed_for_spp(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lemma 1 and 2, and in half duplex Theorem 1, with their slack."""
    for option, names in (("", ["Lemma 1", "Lemma 2", "Theorem 1"]), (" --full-duplex", ["Lemma 1", "Lemma 2"])):
        assert (
            mtpp(f"plan chain.json --cluster cluster.json --network paper --microbatches 4 --planner spp{option}") == 0
        )
        out = capsys.readouterr().out
        assert re.findall(r"^(Lemma \d|Theorem \d): .* holds, slack", out, re.MULTILINE) == names


def test_memory_changes_the_plan_or_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    """Less memory never makes it faster; with next to none there is no plan."""
    command = f"plan simulation {SERVERS} --microbatches 4 --planner spp"
    times = []
    for memory in ("64GiB", "6GiB"):
        assert mtpp(f"{command} --memory {memory}") == 0
        out = capsys.readouterr().out
        times.append(value(out, "iteration"))
        used = [float(line.split()[-1]) for line in out.splitlines() if re.match(r"\d+ ", line)]
        assert max(used) <= float(memory.removesuffix("GiB"))
    assert times[0] < times[1]
    assert mtpp(f"{command} --memory 1MiB") == 5
    assert "nothing fits into 1.04858 MB a device: layer" in capsys.readouterr().err


def test_bug_what_nothing_fits_into_was_called_bad_input(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of three layers that keep 10 GB two share a device: 5 for one, 15 for each half, and 20 in truth."""
    write_json(folder / "chain.json", chain_document(LayerChain([1] * 3, [2] * 3, [0] * 2, [0] * 2, [10e9] * 3)))
    for memory, planner, code, message in (
        ("9GB", "improved", 5, "layer 0 (0) alone needs 10 GB on each"),
        ("14GB", "spp", 5, "all layers, divided evenly, need 15 GB on each of 2"),
        ("19GB", "improved", 1, "each layer fits alone, and all of them need 15 GB on each of 2"),
        ("19GB", "gpipe", 1, "Stage 0 needs 2e+10 bytes on each device"),
        ("20GB", "improved", 0, ""),
    ):
        words = f"--parameter-copies 1 --memory {memory} --planner {planner} --network paper"
        assert mtpp(f"plan chain.json --cluster 1x2 --bandwidth 1GB/s,1GB/s --microbatches 2 {words}") == code
        err = capsys.readouterr().err
        assert message in err
        assert len(err.strip().splitlines()) <= 1


def test_same_seed_same_answer(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert mtpp("plan chain.json --cluster cluster.json --microbatches 4 --seed 3") == 0
    first, second = capsys.readouterr().out.split("chain  ")[1:]
    assert first == second


def test_published_profile_is_planned(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A PipeDream profile is a chain with its own backward times."""
    profile = data / "pipedream" / "vgg16.graph.txt"
    assert mtpp(f"plan {profile} {SERVERS} --microbatches 4 --planner spp") == 0
    assert value(capsys.readouterr().out, "bound") > 0


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("plan missing.json --cluster 2x2 --bandwidth 1 --microbatches 2", "missing.json"),
        ("plan chain.json --cluster missing.csv --microbatches 2", "missing.csv"),
        ("plan chain.json --cluster 2x2 --microbatches 2", "--bandwidth"),
        ("plan chain.json --cluster 2x2 --bandwidth 1,2,3 --microbatches 2", "--bandwidth 1,2,3"),
        ("plan chain.json --cluster 2x2 --bandwidth 1GB,2 --microbatches 2", "--bandwidth 1GB"),
        ("plan chain.json --cluster 0x2 --bandwidth 1 --microbatches 2", "--cluster 0x2"),
        ("plan chain.json --cluster 99x99 --bandwidth 1 --microbatches 2", "--cluster 99x99"),
        ("plan chain.json --cluster 2x0 --bandwidth 1 --microbatches 2", "--cluster 2x0"),
        ("plan chain.json --cluster cluster.json --bandwidth 1 --microbatches 2", "--bandwidth 1"),
        ("plan chain.json --cluster v100-4 --bandwidth 1 --microbatches 2", "--bandwidth 1"),
        ("plan chain.json --cluster chain.json --microbatches 2", "chain.json"),
        ("plan cluster.json --cluster cluster.json --microbatches 2", "cluster.json"),
        ("plan chain.json --cluster cluster.json", "--microbatches"),
        ("plan chain.json --microbatches 2", "--cluster"),
        ("plan chain.json --cluster cluster.json --microbatches 0", "--microbatches 0: it must be at least 1"),
        ("plan chain.json --cluster cluster.json --microbatches x", "--microbatches"),
        ("plan chain.json --cluster cluster.json --microbatches 2 --planner none", "no planner 'none'"),
        ("plan chain.json --cluster cluster.json --microbatches 2 --memory lots", "--memory lots"),
        ("plan chain.json --cluster cluster.json --microbatches 2 --parameter-copies -1", "--parameter-copies -1:"),
        ("plan chain.json --cluster cluster.json --microbatches 2 --dim batch=2", "--dim batch=2"),
        ("plan simulation --cluster cluster.json --microbatches 2 --dim batch=2", "leave out --dim"),
        ("plan chain.json --cluster cluster.json --microbatches 2 --plot plan.gif", "plan.gif"),
        ("plan chain.json --cluster cluster.json --microbatches 2 --out nowhere/plan.json", "nowhere"),
        ("plan chain.json --cluster cluster.json --microbatches 2 --planner hetpipe --out plan.json", "plan.json"),
    ],
)
def test_wrong_use_is_one_line(command: str, named: str, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp(command) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("mtpp: ")
    assert named in line
    assert not Path("plan.json").exists()


def test_planners_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("list planners") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(PLANNERS)


def test_clusters_from_words() -> None:
    """Servers of several sizes, one rate for all links, the testbeds, and the random clusters by seed."""
    mixed = load_cluster("2x1+1x3", "10B/s,2B/s")
    assert mixed.servers == (1, 1, 3)
    assert sorted(set(mixed.links.tolist())) == [2, 10]
    assert set(load_cluster("3x2", "40Gbps").links.tolist()) == {5e9}
    assert load_cluster("1080ti-8").n == 8
    assert load_cluster("simulation-4").content_hash == load_cluster("simulation-4").content_hash
    assert load_cluster("simulation-4").content_hash != load_cluster("simulation-5").content_hash


def test_certificates_are_true() -> None:
    """The ratio is time over bound; a bound above the time is refused; side by side there is none."""
    answer = certify_plan(tiny(), np.random.default_rng(0))
    assert answer.bound is not None
    assert answer.ratio == answer.cost / answer.bound.value >= 1
    assert answer.gap == answer.ratio - 1
    with pytest.raises(FalseCertificateError):
        replace(answer, bound=replace(answer.bound, value=2 * answer.cost))
    aside = certify_plan(tiny(), np.random.default_rng(0), "hetpipe")
    assert (aside.bound, aside.ratio, aside.gap) == (None, None, None)
    with pytest.raises(InputError, match="no planner 'none'"):
        certify_plan(tiny(), np.random.default_rng(0), "none")


def test_schedule_is_drawn_to_scale() -> None:
    """One box for each operation, as wide as it takes, in the row of its stage, or of the one that sends."""
    (schedule,) = PLANNERS["gpipe"].run(tiny(), np.random.default_rng(0)).schedules
    ax = draw(schedule_section(schedule))
    (shapes,) = ax.collections
    extents = [path.get_extents() for path in shapes.get_paths()]
    rows = [operation.stage + (operation.kind == "return") for operation in schedule.operations()]
    times = [(operation.start, operation.end) for operation in schedule.operations()]
    boxes = sorted((round(box.y0 + 0.01), *np.round((box.x0, box.x1), 9)) for box in extents)
    assert boxes == sorted((row, *np.round(pair, 9)) for row, pair in zip(rows, times, strict=True))
    assert ax.get_xlim() == pytest.approx((0, schedule.makespan), rel=0.01)
    assert ax.get_xlabel() == "time [s]"


def test_devices_show_their_stage() -> None:
    """Replicas carry the number of their stage, idle devices nothing."""
    instance = replace(tiny(), cluster=Cluster.of_servers([4, 2], 2.0, 1.0))
    (schedule,) = PLANNERS["gpipe"].run(instance, np.random.default_rng(0)).schedules
    texts = [text.get_text() for text in plot_stages(schedule.plan).texts]
    assert [text for text in texts if "…" not in text] == ["0", "1", "2", "3", "", "", "between servers 1 bytes/s"]


def test_pipelines_side_by_side_are_all_drawn() -> None:
    iteration = PLANNERS["hetpipe"].run(tiny(), np.random.default_rng(0))
    figure = plan_figure(iteration)
    assert len(figure.axes) == 2 * len(iteration.schedules) == 4
    assert "AllReduce between" in figure.get_suptitle()
