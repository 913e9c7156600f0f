"""The decision process of Placeto: what a step does, and what comes out of an episode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from heuristics.method import Limits
from heuristics.placement.placeto import play_episodes
from heuristics.placement.placeto.environment import (
    ANCESTOR,
    DESCENDANT,
    PARALLEL,
    Environment,
    PlacementArrays,
    relations,
    roll_out,
    start_place,
    traversal,
)
from instances import ComputationGraph, InputError
from instances.machines import Machines
from instances.placement.networks import BANDWIDTH, PLACEMENT_FAMILIES
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance


def diamond(k: int = 2, **platform: float) -> PlacementInstance:
    graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)], [1, 2, 2, 1], [3, 3, 3, 0])
    return PlacementInstance(graph, Machines.alike(k, 3.0, platform.pop("memory", np.inf)), **platform)


def family_instance(name: str = "ptb", seed: int = 0, k: int = 3, memory: float = np.inf) -> PlacementInstance:
    return PlacementInstance(PLACEMENT_FAMILIES[name].graph(seed), Machines.alike(k, BANDWIDTH, memory))


def environment(instance: PlacementInstance, episodes: int = 3, seed: int = 0) -> Environment:
    question, rng = PlacementArrays(instance), np.random.default_rng(seed)
    start = rng.integers(instance.devices, size=(episodes, instance.graph.n))
    return Environment(question, start, traversal(question, "topological", 2, rng))


def play(e: Environment, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    roll_out([e], lambda active: [rng.integers(a.question.instance.devices, size=len(a.place)) for a in active])


class TestEnvironment:
    @pytest.mark.parametrize("memory", [np.inf, 4e8])
    def test_objectives_are_those_of_the_placements(self, memory: float) -> None:
        instance = family_instance(memory=memory)
        e = environment(instance)
        play(e)
        assert e.objective == pytest.approx([Placement(instance, row).penalised_time for row in e.place], rel=1e-12)
        assert e.best == pytest.approx([Placement(instance, row).penalised_time for row in e.best_place], rel=1e-12)

    def test_times_are_those_of_the_timeline(self) -> None:
        instance = family_instance()
        e = environment(instance)
        play(e)
        for i, row in enumerate(e.place):
            timeline = Placement(instance, row).timeline
            assert e.begin[i] == pytest.approx(timeline.start)
            assert e.end[i] == pytest.approx(timeline.end)

    def test_best_is_the_least_of_the_history(self) -> None:
        e = environment(family_instance())
        play(e)
        assert e.best.tolist() == np.min(e.history, axis=0).tolist()
        assert len(e.history) == len(e.order) + 1

    def test_of_equal_placements_the_first_is_kept(self) -> None:
        path = PlacementInstance(ComputationGraph.from_edges([(0, 1)], [1, 1], [9, 0]), Machines.alike(2, 1.0))
        e = Environment(PlacementArrays(path), np.zeros((1, 2)), np.arange(2))
        roll_out([e], lambda active: [np.ones(1, dtype=np.int64)])
        assert e.place.tolist() == [[1, 1]]
        assert e.best_place.tolist() == [[0, 0]]

    def test_staying_costs_no_simulation(self) -> None:
        e = environment(diamond())
        roll_out([e], lambda active: [a.place[:, a.node] for a in active])
        assert e.simulations == len(e.place)

    def test_graphs_of_different_size_step_together(self) -> None:
        a, b = environment(diamond()), environment(family_instance())
        roll_out([a, b], lambda active: [np.zeros(len(e.place), dtype=np.int64) for e in active])
        for e in (a, b):
            assert e.finished
            assert (e.place == 0).all()

    def test_memory_binds(self) -> None:
        free = Placement(family_instance(k=1), np.zeros(61, dtype=np.int64))
        tight = family_instance(memory=0.6 * float(free.peak_memory.max()))
        e = Environment(PlacementArrays(tight), np.zeros((1, 61)), np.arange(1))
        assert e.objective[0] > 1.5  # 1, and twice the overflow


class TestEmptyStart:
    """Episodes that begin with no node placed."""

    def test_simulations_leave_out_what_is_not_placed(self) -> None:
        e = Environment(PlacementArrays(diamond()), np.full((1, 4), -1), np.arange(4))
        assert e.objective.tolist() == [0]
        for device, until in zip((0, 0, 1, 0), (1, 3, 4, 6), strict=True):  # node 2 waits for the output of node 0
            e.act(np.array([device]))
            assert e.objective[0] == pytest.approx(until / 6)
            assert e.begin[0, e.step :].tolist() == [0] * (4 - e.step)

    def test_best_is_one_device_until_all_is_placed(self) -> None:
        e = Environment(PlacementArrays(diamond()), np.full((1, 4), -1), np.arange(4))
        for step in range(4):
            assert e.best_place.tolist() == [[0, 0, 0, 0]]
            assert e.best.tolist() == [1]
            e.act(np.array([int(step > 0)]))
        assert e.best_place.tolist() == [[0, 0, 0, 0]]  # 0 | 1, 2, 3 takes 7

    def test_ancestors_that_are_not_placed_go_along(self) -> None:
        e = Environment(PlacementArrays(diamond()), np.full((2, 4), -1), np.array([1, 3, 2, 0]))
        e.act(np.array([0, 1]))
        assert e.place.tolist() == [[0, 0, -1, -1], [1, 1, -1, -1]]
        e.act(np.array([1, 0]))
        assert e.place.tolist() == [[0, 0, 1, 1], [1, 1, 0, 0]]

    def test_all_is_placed_after_a_sweep_in_any_order(self) -> None:
        question, rng = PlacementArrays(family_instance()), np.random.default_rng(0)
        for order in ("topological", "reverse", "random"):
            e = Environment(question, start_place(question, "empty", 2, rng), traversal(question, order, 1, rng))
            play(e)
            assert e.place.min() == 0
            times = [Placement(question.instance, row).relative_time for row in e.place]
            assert e.objective == pytest.approx(times, rel=1e-12)


class TestTraversal:
    @pytest.mark.parametrize("order", ["topological", "reverse", "random"])
    def test_each_sweep_visits_every_node_once(self, order: str) -> None:
        question = PlacementArrays(family_instance())
        steps = traversal(question, order, 3, np.random.default_rng(0))
        for sweep in steps.reshape(3, -1):
            assert sorted(sweep) == list(range(question.instance.graph.n))

    def test_random_orders_are_topological_and_differ(self) -> None:
        sweeps = traversal(PlacementArrays(diamond()), "random", 20, np.random.default_rng(0)).reshape(20, 4)
        assert {tuple(sweep) for sweep in sweeps} == {(0, 1, 2, 3), (0, 2, 1, 3)}

    @pytest.mark.parametrize("order", ["topological", "reverse", "random"])
    def test_weights_come_last(self, order: str) -> None:
        graph = ComputationGraph.from_edges([(0, 2), (1, 2)], [0, 1, 1], [1, 1, 0])
        question = PlacementArrays(PlacementInstance(graph, Machines.alike(2, 1.0)))
        assert traversal(question, order, 2, np.random.default_rng(0)).tolist() in ([1, 2, 0] * 2, [2, 1, 0] * 2)

    def test_unknown_names_are_refused(self) -> None:
        question, rng = PlacementArrays(diamond()), np.random.default_rng(0)
        with pytest.raises(InputError, match="choose one of topological"):
            traversal(question, "depth", 1, rng)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="choose one of empty, single, random"):
            start_place(question, "all", 1, rng)  # type: ignore[arg-type]

    def test_episodes_share_a_random_start(self) -> None:
        places = start_place(PlacementArrays(family_instance()), "random", 4, np.random.default_rng(0))
        assert (places == places[0]).all()
        assert len(set(places[0])) == 3


def test_relations_of_a_diamond() -> None:
    a, d, p = ANCESTOR, DESCENDANT, PARALLEL
    assert relations(diamond().graph).tolist() == [[0, d, d, d], [a, 0, p, d], [a, p, 0, d], [a, a, a, 0]]


def shrug(active: Sequence[Environment]) -> list[np.ndarray]:
    """The same logit for each device."""
    return [np.zeros((len(e.place), e.question.instance.devices)) for e in active]


class TestEpisodes:
    def test_a_scorer_that_loves_device_one(self) -> None:
        love = np.array([0.0, 50.0])
        episodes = play_episodes(
            diamond(), lambda active: [np.tile(love, (len(e.place), 1)) for e in active], _rng(), ["single"]
        )
        assert episodes.last().device.tolist() == [1, 1, 1, 1]
        assert episodes.answer().step_time <= 6
        assert episodes.simulations == 5

    def test_an_episode_from_each_start(self) -> None:
        alone = [play_episodes(family_instance(), shrug, _rng(), [start]) for start in ("single", "random")]
        both = play_episodes(family_instance(), shrug, _rng(), ["single", "random"])
        assert both.simulations == sum(episodes.simulations for episodes in alone)
        assert both.answer().relative_time == min(episodes.answer().relative_time for episodes in alone)
        assert both.answer().penalised_time <= both.last().penalised_time

    def test_drawn_devices_follow_the_logits(self) -> None:
        """Of 100 episodes that draw, and one that takes the likeliest device."""
        logits = np.log([0.7, 0.2, 0.1])
        episodes = play_episodes(
            family_instance(),
            lambda active: [np.tile(logits, (len(e.place), 1)) for e in active],
            _rng(),
            ["single"] * 101,
            drawn=[True] * 100,
        )
        assert np.bincount(episodes.place[:100].ravel()) / 6100 == pytest.approx([0.7, 0.2, 0.1], abs=0.03)
        assert (episodes.place[100] == 0).all()

    @pytest.mark.parametrize("evaluations", [1, 3, 5, 30])
    def test_simulations_are_limited(self, evaluations: int) -> None:
        starts, limits = ("empty", "single", "random", "random"), Limits(evaluations=evaluations)
        episodes = play_episodes(family_instance(), shrug, _rng(), starts, drawn=[True] * 4, limits=limits)
        assert episodes.simulations <= evaluations
        assert episodes.finished

    def test_a_target_ends_them(self) -> None:
        reached = Limits(target=diamond().total_work)
        assert play_episodes(diamond(), shrug, _rng(), ["single"], drawn=[True], limits=reached).simulations == 1


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)
