"""What every placer must do, what is special about each, and the verb that runs them."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import assert_impossible, columns, mtpp

from heuristics.method import Limits
from heuristics.placement import PLACERS
from heuristics.placement.annealing import anneal_placement, climb
from heuristics.placement.rivals import expert, greedy, heft, metis, rank_order, scotch, upward_rank
from heuristics.placement.simulator import SimulatorArrays, peak_memory, simulate, step_times, workspace
from instances import ComputationGraph, InputError
from instances.deadline import Deadline
from instances.machines import Machines
from instances.placement.networks import BANDWIDTH, PLACEMENT_FAMILIES
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from mtpp.plots.partitions import placement_figure

NMT = PLACEMENT_FAMILIES["nmt"].graph(1)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def instance(edges: list[tuple[int, int]], work: list[float], sizes: list[float], k: int = 2) -> PlacementInstance:
    return PlacementInstance(ComputationGraph.from_edges(edges, work, sizes), Machines.alike(k, 1.0))


def installed(name: str) -> str:
    """The name, or a skip if the placer needs what is not there."""
    if name == "metis":
        pytest.importorskip("pymetis", reason="pymetis is not installed")
    if name == "placeto":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    if name == "scotch" and not (shutil.which("gpart") or shutil.which("scotch_gpart")):
        pytest.skip("Scotch's gpart is not on the path")
    return name


@pytest.fixture(params=list(PLACERS))
def placer(request: pytest.FixtureRequest) -> Any:
    return PLACERS[installed(request.param)].run


def test_same_seed_same_placement(placer: Any) -> None:
    """A deadline that is far away changes nothing, nor does it allow more evaluations."""
    question = PlacementInstance(NMT, Machines.alike(3, BANDWIDTH))
    limits = (Limits(deadline, evaluations=2000) for deadline in (Deadline(), Deadline.after(1e6)))
    first, second = (placer(question, rng(5), limit) for limit in limits)
    assert first.instance is question
    assert first.device.tolist() == second.device.tolist()


@pytest.mark.parametrize("k", [1, 2, 5])
def test_small_graphs_are_placed(placer: Any, k: int) -> None:
    """One node; nodes without edges; an edge; fewer nodes than devices."""
    for edges, n in (([], 1), ([], 3), ([(0, 1)], 2), ([(0, 2), (1, 2)], 3)):
        question = instance(edges, [1.0] * n, [1.0] * n, k)
        assert placer(question, rng(), Limits(evaluations=50)).step_time >= question.lower_bound


def test_walks_never_end_worse_than_they_start() -> None:
    question = PlacementInstance(NMT, Machines.alike(4, BANDWIDTH))
    start = heft(question, rng())
    for walk, calls in itertools.product((anneal_placement, climb), (1, 2, 300)):
        found = walk(question, rng(), Limits(evaluations=calls), start=start)
        assert found.penalised_time <= start.penalised_time
    assert climb(question, rng(), Limits(evaluations=1), start=start).device.tolist() == start.device.tolist()


def test_more_simulations_pay() -> None:
    """On a real question: annealing below climbing for as long, both below HEFT and the best of random ones."""
    question = PlacementInstance(PLACEMENT_FAMILIES["nmt"].graph(1000), Machines.alike(4, BANDWIDTH))
    times = {name: PLACERS[name].run(question, rng(), Limits()).step_time for name in ("heft", "random")}
    limits = Limits(evaluations=20000)
    assert anneal_placement(question, rng(), limits).step_time < 0.9 * min(times.values())
    assert climb(question, rng(), limits).step_time < min(times.values())


def test_annealing_finds_optima() -> None:
    """All placements of six nodes on two devices, by brute force."""
    for seed in range(8):
        generator = rng(seed)
        edges = [(u, v) for u in range(6) for v in range(u + 1, 6) if generator.random() < 0.4]
        question = instance(edges, generator.integers(1, 9, 6).tolist(), generator.integers(0, 4, 6).tolist())
        best = step_times(question, list(itertools.product((0, 1), repeat=6))).min()
        assert anneal_placement(question, generator, Limits(evaluations=2000)).step_time == best


def test_walks_stop_at_a_target() -> None:
    question = PlacementInstance(NMT, Machines.alike(2, BANDWIDTH))
    easy = 0.95 * question.total_work
    stopped, full = (
        anneal_placement(question, rng(), Limits(evaluations=20000, target=x)).step_time for x in (easy, None)
    )
    assert full < stopped <= easy


@pytest.mark.parametrize("walk", [anneal_placement, climb])
def test_walks_without_time_stay_where_they_are(walk: Any) -> None:
    start = heft(PlacementInstance(NMT, Machines.alike(2, BANDWIDTH)), rng())
    assert walk(start.instance, rng(), Limits(Deadline.after(0)), start=start).device.tolist() == start.device.tolist()


def test_the_memory_limit_binds() -> None:
    """With 0.6 of what one device needs, the fastest placements do not fit, and annealing finds one that does."""
    graph = PLACEMENT_FAMILIES["cifar10"].graph(3)
    alone = Placement(PlacementInstance(graph, Machines.alike(2, BANDWIDTH)), np.zeros(graph.n, dtype=int))
    question = PlacementInstance(graph, Machines.alike(2, BANDWIDTH, memory=0.6 * alone.peak_memory[0]))
    found = anneal_placement(question, rng(), Limits(evaluations=6000))
    assert not Placement(question, alone.device).fits
    assert found.fits
    assert found.penalised_time == found.relative_time


def test_upward_rank() -> None:
    """Work to the end, and half of the transfers on two devices."""
    question = instance([(0, 1), (0, 2), (1, 3)], [1, 2, 7, 3], [4, 6, 0, 0])
    assert upward_rank(question).tolist() == [1 + 2 + 2 + 3 + 3, 2 + 3 + 3, 7, 3]


def test_heft_spreads_what_is_independent_and_keeps_a_chain_together() -> None:
    assert heft(instance([], [4, 3, 3, 2], [0] * 4), rng()).step_time == 6.0
    assert len(set(heft(instance([(0, 1), (1, 2)], [1, 1, 1], [9, 9, 0]), rng()).device.tolist())) == 1


def test_heft_sees_the_queue_on_the_bus() -> None:
    """Three readers of a tensor that takes as long as they do: the third transfer is not worth its wait."""
    question = instance([(0, 1), (0, 2), (0, 3)], [1, 3, 3, 3], [3, 0, 0, 0], k=4)
    placement = heft(question, rng())
    assert placement.step_time == 7.0
    assert sorted(np.bincount(placement.device, minlength=4).tolist()) == [0, 0, 1, 3]


def test_heft_takes_weights_to_their_first_reader() -> None:
    """Node 0 is without work; wherever its reader is, nothing is sent."""
    placement = heft(instance([(0, 2), (1, 3)], [0, 5, 4, 1], [9, 1, 0, 0]), rng())
    assert placement.device[0] == placement.device[2] != placement.device[1]
    assert placement.step_time == 6.0


def test_experts_follow_lanes() -> None:
    question = PlacementInstance(NMT, Machines.alike(2, BANDWIDTH))
    assert expert(question, rng()).device.tolist() == [lane % 2 for lane in NMT.attributes["lane"]]


def test_experts_cut_layers_into_equal_work() -> None:
    """Nodes 3 to 5 are the gradients of nodes 2 to 0, so that all of a layer is on one device."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5), (1, 4)]
    graph = ComputationGraph.from_edges(edges, [1, 1, 2, 4, 2, 2], attributes={"training": True})
    assert expert(PlacementInstance(graph, Machines.alike(2, 1.0)), rng()).device.tolist() == [0, 0, 1, 1, 0, 0]
    inference = ComputationGraph.from_edges(edges[:5], [1, 1, 2, 4, 2, 2])
    assert expert(PlacementInstance(inference, Machines.alike(2, 1.0)), rng()).device.tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("name", ["metis", "scotch"])
def test_partitioners_cut_where_it_is_thin(name: str) -> None:
    """Two dense halves with one edge between them."""
    run = {"metis": metis, "scotch": scotch}[installed(name)]
    halves = [(u + half, v + half) for half in (0, 6) for u in range(6) for v in range(u + 1, 6)]
    device = run(instance([*halves, (5, 6)], [1.0] * 12, [5.0] * 12), rng()).device
    assert len(set(device[:6])) == len(set(device[6:])) == 1
    assert device[0] != device[6]


def test_missing_partitioners_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    monkeypatch.setenv("PATH", "")
    question = instance([(0, 1)], [1, 1], [1, 1])
    with pytest.raises(InputError, match="install the extra: pip install 'pymetis"):
        metis(question, rng())
    with pytest.raises(InputError, match="package scotch"):
        scotch(question, rng())


def test_pictures_show_all_nodes_and_transfers() -> None:
    placement = heft(PlacementInstance(NMT, Machines.alike(3, BANDWIDTH)), rng())
    graph, timeline = placement_figure(placement).axes
    assert sum(len(dots.get_offsets()) for dots in graph.collections if dots.get_label().startswith("device")) == NMT.n
    nodes = np.count_nonzero(placement.timeline.end > placement.timeline.start)
    targets = sum(len(transfer.targets) for transfer in placement.timeline.transfers)
    assert len(timeline.collections[0].get_paths()) == nodes + targets
    assert timeline.get_title(loc="left").startswith("step time")


def test_place_writes_what_it_prints(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file of a graph of three nodes, a family and its picture."""
    assert mtpp("place path.json -k 2 --bandwidth 1 --method anneal --out placement.json --plot placement.png") == 0
    row = columns(capsys.readouterr().out)
    assert (row["step time [s]"], row["of one device"], row["fits"]) == ("6", "1.0000", "yes")
    assert json.loads((folder / "placement.json").read_text())["cost"] == 6.0
    assert (folder / "placement.png").stat().st_size > 1000


def test_place_searches_groups_and_answers_for_operators(capsys: pytest.CaptureFixture[str]) -> None:
    command = "place squeezenet --training -k 2 --method heft --groups 20 --bandwidth 1e12"
    assert mtpp(command) == 0
    out = capsys.readouterr().out
    row = columns(out)
    assert "searched with 20 groups of nodes." in out
    assert int(row["n"]) > 100
    assert float(row["ratio"]) >= 1
    assert mtpp("place nmt-1 -k 2 --method heft") == 0
    expected = heft(PlacementInstance(NMT, Machines.alike(2, BANDWIDTH)), rng()).step_time
    assert columns(capsys.readouterr().out)["step time [s]"] == f"{expected:.6g}"


def test_place_tells_what_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    """It may fit otherwise, or it is proved that it does not, and why."""
    assert mtpp("place nmt-1 -k 2 --method single --memory 100MB") == 1
    assert columns(capsys.readouterr().out)["fits"] == "no"
    assert_impossible(
        capsys,
        "place nmt-1 -k 2 --method single --memory 1MB",
        "bytes with what it reads and makes, the largest device has 1e+06",
    )


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("place nmt-1 -k 2 --method best", "There is no placer 'best'; there are single, "),
        ("place nmt-1 -k 0", "-k"),
        ("place nmt-1 -k 2 --dim batch=2", "no options"),
        ("place nmt-x -k 2", "nmt-x"),
        ("place nmt-1 -k 2 --bandwidth 0", "--bandwidth"),
        ("place nmt-1 -k 2 --memory 0", "--memory 0: it must be positive"),
        ("place nmt-1 -k 2 --groups 0", "--groups"),
        ("place nmt-1 -k 2 --time-limit -1", "--time-limit -1: give more than 0"),
        ("place nmt-1 -k 2 --plot a.txt", "--plot"),
    ],
)
def test_place_refuses_in_one_line(command: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp(command) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert len(captured.err.strip().splitlines()) == 1


def test_placers_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("list placers") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(PLACERS)


def test_greedy_counts_its_simulations() -> None:
    """Three devices: nodes beyond a third of the simulations allowed stay on device 0."""
    question = instance([], [1.0] * 6, [0.0] * 6, k=3)
    assert np.bincount(greedy(question, rng(), Limits()).device).tolist() == [2, 2, 2]
    assert greedy(question, rng(), Limits(evaluations=8)).device.tolist() == [0, 1, 0, 0, 0, 0]


def test_greedy_decides_like_the_simulator() -> None:
    """Step by step: no other device would have been better for the node placed last."""
    question = PlacementInstance(PLACEMENT_FAMILIES["ptb"].graph(2), Machines.alike(3, BANDWIDTH))
    device = greedy(question, rng()).device.copy()
    last = rank_order(question)[-1]
    rows = np.tile(device, (3, 1))
    rows[:, last] = range(3)
    assert step_times(question, rows).min() == step_times(question, device)


def test_nodes_without_a_device_are_left_out() -> None:
    """The first half of a graph by itself costs what it costs with the rest left out."""
    graph = PLACEMENT_FAMILIES["ptb"].graph(2)
    order = graph.topological_order
    kept = np.sort(order[: graph.n // 2])
    device = np.full(graph.n, -1)
    device[kept] = np.arange(len(kept)) % 3
    index = {int(v): i for i, v in enumerate(kept)}
    first = graph.output_start
    half = ComputationGraph.from_edges(
        [
            (index[u], index[v], t - first[u])
            for (u, v), t in zip(graph.edges.tolist(), graph.edge_tensor.tolist(), strict=True)
            if u in index and v in index
        ],
        graph.work[kept],
        [graph.tensors.bytes[first[v] : first[v + 1]].tolist() for v in kept],
    )
    alone = Placement(PlacementInstance(half, Machines.alike(3, BANDWIDTH)), device[kept])
    arrays = SimulatorArrays.of(PlacementInstance(graph, Machines.alike(3, BANDWIDTH, memory=1e15)))
    space = workspace(arrays)
    assert simulate(arrays, device, space) == alone.step_time
    peak_memory(arrays, device, space)
    assert space.peak.tolist() == pytest.approx(alone.peak_memory.tolist())
