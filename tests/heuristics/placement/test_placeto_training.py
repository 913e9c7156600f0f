"""Placeto learns, repeats itself, and is written to files; all on tiny graphs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from heuristics.method import Limits
from heuristics.placement.placeto import Checkpoint, optimise, require_torch, zero_shot
from heuristics.placement.placeto.environment import Environment, PlacementArrays
from instances import ComputationGraph, InputError
from instances.machines import Kind, Machines
from instances.placement.networks import BANDWIDTH, PLACEMENT_FAMILIES
from instances.placement.problem import PlacementInstance

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from heuristics.placement.placeto import network, training  # noqa: E402 - they need PyTorch


def twins(k: int = 2, memory: float = np.inf) -> PlacementInstance:
    """Two chains of five nodes; it takes half as long to run them on two devices."""
    edges = [(v, v + 1) for v in (*range(4), *range(5, 9))]
    graph = ComputationGraph.from_edges(edges, np.ones(10), [1.0] * 10, [1.0] * 10)
    return PlacementInstance(graph, Machines.alike(k, 2.0, memory=memory))


def few(**changes: object) -> training.Training:
    return training.Training(**{"updates": 2, "episodes": 4} | changes)  # type: ignore[arg-type]


def environment(instance: PlacementInstance, seed: int = 0) -> Environment:
    start = np.random.default_rng(seed).integers(instance.devices, size=(3, instance.graph.n))
    return Environment(PlacementArrays(instance), start, instance.graph.topological_order)


def small(seed: int = 0, **options: int) -> network.Placeto:
    return network.create(seed, **{"devices": 2, "width": 4, "rounds": 2} | options)


#: Arguments of the network, and of its ablations.
DESIGNS = ({}, {"rounds": 0}, {"rounds": 0, "pooled": False}, {"outer": False}, {"timed": False}, {"width": 0})


def test_same_seed_same_weights() -> None:
    weights, curves = [], []
    for _ in range(2):
        made = small(1)
        curves.append(training.train(made, [twins()], few(seed=3)))
        weights.append(network.capture(made).weights)
    assert curves[0] == curves[1]
    assert all((weights[0][key] == weights[1][key]).all() for key in weights[0])


def test_training_changes_the_weights() -> None:
    made = small(1)
    before = network.capture(made).weights
    training.train(made, [twins()], few(updates=1))
    assert any((before[key] != after).any() for key, after in network.capture(made).weights.items())


@pytest.mark.parametrize("design", DESIGNS)
def test_checkpoints_come_back(design: dict[str, int], tmp_path: Path) -> None:
    made = small(2, **design)
    network.capture(made, seed=2).save(tmp_path / "policy.npz")
    read = Checkpoint.load(tmp_path / "policy.npz")
    assert read.about == {"seed": 2}
    e = environment(twins())
    (a,), (b,) = (network.scorer(net)([e]) for net in (made, network.restore(read)))
    assert (a == b).all()
    assert a.shape == (3, 2)


@pytest.mark.parametrize("design", DESIGNS)
def test_rows_do_not_depend_on_each_other(design: dict[str, int]) -> None:
    """Many episodes and graphs in one call give what each gives alone."""
    score, a, b = network.scorer(small(2, **design)), environment(twins()), environment(diamond())
    together = score([a, b])
    assert together[0] == pytest.approx(score([a])[0], abs=1e-5)
    assert together[1] == pytest.approx(score([b])[0], abs=1e-5)
    one = Environment(a.question, a.place[1:2], a.order)
    assert together[0][1] == pytest.approx(score([one])[0][0], abs=1e-5)


def diamond() -> PlacementInstance:
    graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)], [1, 2, 2, 1], [3, 3, 3, 0])
    return PlacementInstance(graph, Machines.alike(2, 3.0))


@pytest.mark.parametrize("reward", ["step", "terminal"])
def test_learns_which_device_is_fast(reward: str) -> None:
    """A chain and two devices, one of which takes four times as long."""
    machines = Machines([Kind("fast", 1), Kind("slow", 1, speed=0.25)], bandwidth=2.0)
    chain = ComputationGraph.from_edges([(v, v + 1) for v in range(5)], np.ones(6), [1.0] * 6)
    how = training.Training(updates=40, episodes=16, reward=reward, seed=1)  # type: ignore[arg-type]
    curve = training.train(small(), [PlacementInstance(chain, machines)], how)
    assert curve[0].mean > 2
    assert curve[-1].mean < 1.1
    assert curve[-1].entropy < curve[0].entropy
    assert [point.update for point in curve] == list(range(1, 41))
    assert curve[-1].episodes == 640


def test_returns() -> None:
    history = np.array([[1.0], [0.8], [1.2], [0.5]])
    assert training.returns_of(history, "step", 1.0)[:, 0] == pytest.approx([0.5, 0.3, 0.7])
    assert training.returns_of(history, "step", 0.5)[:, 0] == pytest.approx([0.2 - 0.2 + 0.175, -0.4 + 0.35, 0.7])
    assert training.returns_of(history, "terminal", 0.5)[:, 0] == pytest.approx([-0.5] * 3)


def test_the_penalty_for_memory_is_what_is_learned_from() -> None:
    """Where everything on one device overflows, the objective of that start says so."""
    (free,), (tight,) = (
        training.train(small(), [twins(memory=memory)], few(updates=1, start=("single",))) for memory in (np.inf, 6.0)
    )
    assert tight.mean > free.mean


@pytest.mark.parametrize("changes", [{"updates": 0}, {"episodes": 0}, {"reward": "praise"}])
def test_senseless_trainings_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"must be at least 1|give one of step"):
        few(**changes)


def test_training_on_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="at least one"):
        training.train(small(), [], few())


class TestPlanner:
    def test_emits_a_device_per_node_and_repeats_itself(self) -> None:
        answers = []
        for _ in range(2):
            torch.manual_seed(0)
            made = network.Planner(2, hidden=8)
            answers.append([p.device.tolist() for p in network.train_planner(made, [twins(), diamond()], updates=4)])
            answers[-1].append(network.plan(made, twins(), None).device.tolist())
        assert answers[0] == answers[1]
        assert [len(devices) for devices in answers[0]] == [10, 4, 10]

    def test_learns_on_one_graph(self) -> None:
        torch.manual_seed(0)
        made, means = network.Planner(2, hidden=16), []
        (best,) = network.train_planner(
            made, [twins()], updates=60, rate=1e-2, watch=lambda times: means.append(float(times.mean()))
        )
        assert np.mean(means[-5:]) < np.mean(means[:5])
        assert best.penalised_time <= min(means)


class TestCheckpoint:
    def test_other_files_are_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "policy.npz"
        for content in (b"", b"no archive", b"PK\x03\x04 torn"):
            path.write_bytes(content)
            with pytest.raises(InputError, match="no checkpoint"):
                Checkpoint.load(path)
        np.savez(path, weight=np.zeros(3))
        with pytest.raises(InputError, match="no checkpoint"):
            Checkpoint.load(path)
        np.savez(path, checkpoint=np.array({}, dtype=object))  # would need unpickling
        with pytest.raises(InputError, match="no checkpoint"):
            Checkpoint.load(path)


class TestPlacer:
    @pytest.mark.parametrize("family", PLACEMENT_FAMILIES)
    def test_is_never_worse_than_one_device(self, family: str) -> None:
        instance = PlacementInstance(PLACEMENT_FAMILIES[family].graph(1000), Machines.alike(3, BANDWIDTH))
        checkpoint = network.capture(small(devices=3))
        assert zero_shot(instance, np.random.default_rng(0), Limits(), checkpoint).relative_time <= 1

    def test_same_seed_same_answer(self) -> None:
        checkpoint = network.capture(small(devices=3))
        a, b = (zero_shot(twins(k=3), np.random.default_rng(1), None, checkpoint) for _ in range(2))
        assert a.device.tolist() == b.device.tolist()

    def test_stops_at_a_target(self) -> None:
        target = 0.95 * twins().total_work
        reached = optimise(twins(), np.random.default_rng(0), Limits(target=target))
        assert optimise(twins(), np.random.default_rng(0), Limits(evaluations=2000)).step_time <= reached.step_time
        assert reached.step_time <= target

    def test_one_device(self) -> None:
        assert optimise(twins(k=1), np.random.default_rng(0)).relative_time == 1


def test_pytorch_is_not_imported_unasked() -> None:
    """Searches do without; where PyTorch is missing, the error names the extra."""
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import heuristics.placement.placeto as placeto\n"
        "from heuristics.placement.registry import PLACERS\n"
        "try: placeto.require_torch()\n"
        "except ValueError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "install the extra: pip install torch" in run.stdout
    require_torch()
