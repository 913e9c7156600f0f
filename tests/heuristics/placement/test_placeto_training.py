"""Placeto learns, repeats itself, and is written to files; all on tiny graphs."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from heuristics.method import Limits
from heuristics.placement.placeto import Checkpoint, place, require_torch, shipped, zero_shot
from heuristics.placement.placeto.environment import Environment, PlacementArrays
from heuristics.placement.placeto.zero_shot import explore
from instances import ComputationGraph, InputError
from instances.placement.networks import BANDWIDTH, PLACEMENT_FAMILIES
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from heuristics.placement.placeto import policy, recurrent_planner, shipped_training, training  # noqa: E402 - they need PyTorch

OPTIONS = {"fast": {}, "device-pool": {"width": 4, "rounds": 2}, "placeto": {"devices": 2, "width": 4, "rounds": 2}}


def twins(k: int = 2, memory: float = np.inf) -> PlacementInstance:
    """Two chains of five nodes; it takes half as long to run them on two devices."""
    edges = [(v, v + 1) for v in (*range(4), *range(5, 9))]
    graph = ComputationGraph.from_edges(edges, np.ones(10), [1.0] * 10, [1.0] * 10)
    return PlacementInstance(graph, k, bandwidth=2.0, memory=memory)


def few(**changes: object) -> training.Training:
    return training.Training(**{"updates": 2, "graphs": 1, "episodes": 4, "sweeps": 1} | changes)  # type: ignore[arg-type]


def environment(instance: PlacementInstance, seed: int = 0) -> Environment:
    start = np.random.default_rng(seed).integers(instance.devices, size=(3, instance.graph.n))
    return Environment(PlacementArrays(instance), start, instance.graph.topological_order)


@pytest.fixture(params=policy.POLICIES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


class TestEveryPolicy:
    def test_same_seed_same_weights(self, name: str) -> None:
        weights, curves = [], []
        for _ in range(2):
            made = policy.create(name, 1, **OPTIONS[name])
            curves.append(training.train(made, [twins()], few(seed=3)))
            weights.append(policy.capture(made).weights)
        assert curves[0] == curves[1]
        assert all((weights[0][key] == weights[1][key]).all() for key in weights[0])

    def test_training_changes_the_weights(self, name: str) -> None:
        made = policy.create(name, 1, **OPTIONS[name])
        before = policy.capture(made).weights
        training.train(made, [twins()], few(updates=1))
        assert any((before[key] != after).any() for key, after in policy.capture(made).weights.items())

    def test_checkpoints_come_back(self, name: str, tmp_path: Path) -> None:
        made = policy.create(name, 2, **OPTIONS[name])
        policy.capture(made, seed=2).save(tmp_path / "policy.npz")
        read = Checkpoint.load(tmp_path / "policy.npz")
        assert read.about == {"seed": 2}
        e = environment(twins())
        (a,), (b,) = (policy.scorer(p)([e]) for p in (made, policy.restore(read)))
        assert (a == b).all()
        assert a.shape == (3, 2)

    def test_rows_do_not_depend_on_each_other(self, name: str) -> None:
        """Many episodes and graphs in one call give what each gives alone."""
        made = policy.create(name, 2, **OPTIONS[name])
        score, a, b = policy.scorer(made), environment(twins()), environment(diamond())
        together = score([a, b])
        assert together[0] == pytest.approx(score([a])[0], abs=1e-5)
        assert together[1] == pytest.approx(score([b])[0], abs=1e-5)
        one = Environment(a.question, a.place[1:2], a.order)
        assert together[0][1] == pytest.approx(score([one])[0][0], abs=1e-5)


def diamond() -> PlacementInstance:
    graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)], [1, 2, 2, 1], [3, 3, 3, 0])
    return PlacementInstance(graph, 2, bandwidth=3.0)


@pytest.mark.parametrize("name", ["fast", "device-pool"])
def test_devices_have_no_names(name: str) -> None:
    """With devices renamed, the logits are renamed; and any number of devices will do."""
    score = policy.scorer(policy.create(name, 5, **OPTIONS[name]))
    instance = PlacementInstance(PLACEMENT_FAMILIES["ptb"].graph(0), 5, BANDWIDTH)
    renamed = np.array([3, 0, 4, 1, 2])
    question, start = PlacementArrays(instance), np.random.default_rng(0).integers(5, size=(1, instance.graph.n))
    (a,), (b,) = (score([Environment(question, s, np.array([30]))]) for s in (start, renamed[start]))
    assert b[:, renamed] == pytest.approx(a, abs=1e-4)


def test_numpy_and_pytorch_agree_on_the_fast_policy() -> None:
    made = policy.create("fast", 5)
    e = environment(twins(k=3))
    assert policy.capture(made).scorer()([e])[0] == pytest.approx(policy.scorer(made)([e])[0], abs=1e-5)


@pytest.mark.parametrize("reward", ["step", "terminal"])
def test_learns_to_use_two_devices(reward: str) -> None:
    """From random starts, after a few updates the likeliest devices are those of the optimum or nearly so."""
    made = policy.create("fast", 0)
    how = training.Training(updates=40, graphs=1, episodes=16, sweeps=2, reward=reward, seed=1)  # type: ignore[arg-type]
    curve = training.train(made, [twins()], how)
    assert np.mean([point.mean for point in curve[-5:]]) < np.mean([point.mean for point in curve[:5]])
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
        training.train(policy.create("fast", 0), [twins(memory=memory)], few(updates=1, start=("single",)))
        for memory in (np.inf, 6.0)
    )
    assert tight.mean > free.mean


@pytest.mark.parametrize("changes", [{"updates": 0}, {"episodes": 0}, {"reward": "praise"}])
def test_senseless_trainings_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"must be at least 1|choose step"):
        few(**changes)


def test_training_on_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="at least one"):
        training.train(policy.create("fast", 0), [], few())


def test_unknown_policies_are_refused() -> None:
    with pytest.raises(InputError, match=r"no policy .*there are fast, device-pool, placeto"):
        policy.create("slow", 0)


class TestPlanner:
    def test_emits_a_device_per_node_and_repeats_itself(self) -> None:
        answers = []
        for _ in range(2):
            torch.manual_seed(0)
            made = recurrent_planner.Planner(2, hidden=8)
            answers.append(
                [p.device.tolist() for p in recurrent_planner.train_planner(made, [twins(), diamond()], updates=4)]
            )
            answers[-1].append(recurrent_planner.plan(made, twins(), None).device.tolist())
        assert answers[0] == answers[1]
        assert [len(devices) for devices in answers[0]] == [10, 4, 10]

    def test_learns_on_one_graph(self) -> None:
        torch.manual_seed(0)
        made, means = recurrent_planner.Planner(2, hidden=16), []
        (best,) = recurrent_planner.train_planner(
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

    def test_policies_that_need_pytorch_say_so(self) -> None:
        with pytest.raises(InputError, match="needs PyTorch"):
            policy.capture(policy.create("device-pool", 0)).scorer()


class TestShipped:
    def test_is_small(self) -> None:
        checkpoint = shipped()
        assert checkpoint.policy == "fast"
        assert sum(weight.nbytes for weight in checkpoint.weights.values()) < 1_000_000

    def test_is_what_training_again_would_make(self) -> None:
        """As far as it says so itself; to repeat the weights takes minutes."""
        short = shipped_training.retrain(dataclasses.replace(shipped_training.TRAINING, updates=1))
        stated = json.loads(json.dumps(dict(short.about)))
        assert dict(shipped().about) == stated | {"updates": shipped_training.TRAINING.updates}
        shapes, again = ({key: weight.shape for key, weight in c.weights.items()} for c in (shipped(), short))
        assert shapes == again

    def test_was_trained_where_memory_binds_too(self) -> None:
        instances = shipped_training.mixture()
        alone = [Placement(instance, np.zeros(instance.graph.n, dtype=np.int64)) for instance in instances]
        assert {instance.devices for instance in instances} == {2, 4, 8}
        assert sum(placement.fits for placement in alone) == len(instances) // 2

    @pytest.mark.parametrize("family", PLACEMENT_FAMILIES)
    @pytest.mark.parametrize("k", [2, 4, 8])
    def test_is_never_worse_than_one_device(self, family: str, k: int) -> None:
        instance = PlacementInstance(PLACEMENT_FAMILIES[family].graph(1000), k, BANDWIDTH)
        assert zero_shot(instance, np.random.default_rng(0)).relative_time <= 1

    def test_uses_the_devices_of_an_unseen_graph(self) -> None:
        instance = PlacementInstance(PLACEMENT_FAMILIES["nmt"].graph(1001), 4, BANDWIDTH)
        assert zero_shot(instance, np.random.default_rng(0)).relative_time < 0.7

    def test_same_seed_same_answer(self) -> None:
        a, b = (zero_shot(twins(k=3), np.random.default_rng(1)) for _ in range(2))
        assert a.device.tolist() == b.device.tolist()

    @pytest.mark.parametrize("evaluations", [1, 3, 5, 30])
    def test_keeps_to_its_simulations(self, evaluations: int) -> None:
        episodes = explore(twins(k=3), np.random.default_rng(1), Limits(evaluations=evaluations))
        assert episodes.simulations <= evaluations
        assert episodes.finished

    def test_stops_at_a_target(self) -> None:
        placement = zero_shot(twins(), np.random.default_rng(0), Limits(target=10.0))
        assert placement.step_time <= 10

    def test_one_device(self) -> None:
        assert zero_shot(twins(k=1), np.random.default_rng(0)).relative_time == 1

    def test_last_and_best_are_both_told(self) -> None:
        outcome = place(twins(), shipped().scorer(), np.random.default_rng(0))
        assert isinstance(outcome.last, Placement)
        assert outcome.best.penalised_time <= outcome.last.penalised_time


def test_pytorch_is_not_imported_unasked() -> None:
    """Placing with the shipped policy does without; where PyTorch is missing, the error names the extra."""
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import heuristics.placement.placeto as placeto\n"
        "from heuristics.placement.registry import PLACERS\n"
        "try: placeto.require_torch()\n"
        "except ValueError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ".[learn]" in run.stdout
    require_torch()
