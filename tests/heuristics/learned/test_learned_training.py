"""Policies that propose orders learn, repeat themselves, and come with the package."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from heuristics import HEURISTICS
from heuristics.learned import OrderTraining, Weights, regal_instances, shipped, train_intervals, train_orders
from heuristics.learned.policies import PROPOSERS
from heuristics.learned.training import OrderTrainingPoint, score_gradient
from heuristics.placement.placeto.checkpoints import Checkpoint
from instances import InputError, Instance, Platform
from instances.graph.tensors import FloatArray
from instances.random_graphs import regal_style
from instances.suites import SUITES

TRAIN = {"orders": train_orders, "intervals": train_intervals}


def small() -> list[Instance]:
    return [Instance(regal_style("erdos-renyi", 40, seed), Platform(4, bandwidth=1)) for seed in range(300, 304)]


@pytest.mark.parametrize("name", PROPOSERS)
class TestTraining:
    def test_learns(self, name: str) -> None:
        """On a small family, orders of the last updates are better than those of the first."""
        _, curve = TRAIN[name](small(), OrderTraining(30, graphs=4, seed=1))
        assert np.mean([point.mean for point in curve[-5:]]) < np.mean([point.mean for point in curve[:5]])
        assert curve[-1].deviation < curve[0].deviation
        assert [point.update for point in curve] == list(range(1, 31))
        assert curve[-1].orders == 30 * 4 * 32

    def test_same_seed_same_weights(self, name: str) -> None:
        how = OrderTraining(2, graphs=2, orders=8, seed=5)
        (a, curve), (b, again) = (TRAIN[name](small(), how) for _ in range(2))
        other, _ = TRAIN[name](small(), replace(how, seed=6))
        assert curve == again
        assert all((a.weights[key] == b.weights[key]).all() for key in a.weights)
        assert (a.weights["mean"] != other.weights["mean"]).any()

    def test_survives_a_file(self, name: str, tmp_path: Path) -> None:
        """A policy just trained answers as the one read from its file."""
        made, _ = TRAIN[name](small(), OrderTraining(1, graphs=1, orders=4), family="erdos-renyi")
        made.save(tmp_path / "policy.npz")
        read = Checkpoint.load(tmp_path / "policy.npz")
        assert read.about == made.about
        assert read.about["family"] == "erdos-renyi"
        a, b = (Weights.of(checkpoint) for checkpoint in (made, read))
        assert (a.mean == b.mean).all()
        assert (a.deviation == b.deviation).all()

    def test_progress_is_the_curve(self, name: str) -> None:
        seen: list[OrderTrainingPoint] = []
        _, curve = TRAIN[name](small(), OrderTraining(2, graphs=1, orders=4), seen.append)
        assert seen == curve

    def test_graphs_that_teach_nothing_do_no_harm(self, name: str) -> None:
        """All orders of a graph without work or edges are equally good."""
        nothing = replace(
            small()[0].graph, work=np.zeros(40), tensors=replace(small()[0].graph.tensors, bytes=np.zeros(40))
        )
        made, _ = TRAIN[name]([Instance(nothing, Platform(4, bandwidth=1))], OrderTraining(1))
        assert (made.weights["mean"] == 0).all()
        assert (made.weights["deviation"] == 0.5).all()

    def test_needs_instances(self, name: str) -> None:
        with pytest.raises(InputError, match="at least one"):
            TRAIN[name]([], OrderTraining(1))


def log_density(x: FloatArray, parameters: FloatArray) -> FloatArray:
    mean, log_deviation = np.split(parameters, 2)
    return (-0.5 * ((x - mean) / np.exp(log_deviation)) ** 2 - log_deviation).sum(axis=-1)


def test_the_gradient_is_that_of_the_density() -> None:
    """By central differences; the two best of six orders are rewarded, a tie with the second as well."""
    rng = np.random.default_rng(0)
    weights = Weights(PROPOSERS["orders"], rng.standard_normal(10), rng.uniform(0.2, 2.0, 10))
    drawn, values = weights.draw(6, rng), np.array([3.0, 1.0, 2.0, 4.0, 2.0, 5.0])
    advantage = np.array([-1.0, 1, 1, -1, 1, -1])
    at = np.concatenate((weights.mean, np.log(weights.deviation)))
    h = 1e-6
    by_hand = [
        advantage @ (log_density(drawn, at + h * e) - log_density(drawn, at - h * e)) / (2 * h) / 6 for e in np.eye(20)
    ]
    assert score_gradient(weights, drawn, values, good=2) == pytest.approx(np.array(by_hand), abs=1e-6)


@pytest.mark.parametrize("changes", [{"updates": 0}, {"graphs": 0}, {"orders": 0}, {"good": 0}, {"good": 32}])
def test_senseless_trainings_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(InputError, match=r"at least 1|reward fewer"):
        OrderTraining(**{"updates": 1} | changes)


@pytest.mark.parametrize("name", PROPOSERS)
class TestShipped:
    def test_is_small_and_says_how_it_was_made(self, name: str) -> None:
        checkpoint = shipped(name)
        assert len(files("heuristics.learned").joinpath(f"{name}.npz").read_bytes()) < 10_000
        assert checkpoint.policy == name
        assert {"family", "trained_on", "updates", "seed", "features"} <= checkpoint.about.keys()
        assert np.isfinite(Weights.of(checkpoint).mean).all()
        assert (Weights.of(checkpoint).deviation >= 0.1 * (1 - 1e-6)).all()

    def test_beats_as_many_random_orders_on_unseen_graphs(self, name: str) -> None:
        """101 orders against 100 random ones; a fifth of a per cent would be luck, it is about three."""
        unseen = regal_instances(range(200_000, 200_008))
        ratios = [
            HEURISTICS[f"learned-{name}-101"].run(instance, np.random.default_rng(0)).bottleneck
            / HEURISTICS["random-100"].run(instance, np.random.default_rng(0)).bottleneck
            for instance in unseen
        ]
        assert np.exp(np.mean(np.log(ratios))) < 0.985


def test_neither_was_trained_on_the_suite() -> None:
    training = {instance.graph.content_hash for instance in regal_instances(range(100_000, 100_064))}
    assert all("range(100000, 100064)" in shipped(name).about["trained_on"] for name in PROPOSERS)
    suite = SUITES["regal-style"].instances(k=4)
    assert training.isdisjoint(instance.graph.content_hash for instance in suite)


def test_regal_instances_repeat_themselves() -> None:
    a, b = (regal_instances([7, 8]) for _ in range(2))
    assert [i.key for i in a] == [i.key for i in b]
    assert {i.k for i in regal_instances(range(30))} == {4, 8, 16}
