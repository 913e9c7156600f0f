"""What every registered heuristic and every registered model must do."""

from __future__ import annotations

import numpy as np
import pytest

from heuristics import HEURISTICS, Limits
from instances import ComputationGraph, Instance, Platform
from mtpp_models import MODELS, SolveOptions, solve

FEW = Limits(evaluations=100)

# Answers that are compared must not depend on the speed of a machine.
TO_THE_END = SolveOptions()


def diamond(k: int = 3, **platform: float) -> Instance:
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]
    graph = ComputationGraph.from_edges(edges, [3, 5, 4, 2, 6], [1, 2, 1, 1, 0], [4, 4, 4, 4, 4])
    return Instance(graph, Platform(k, bandwidth=2.0, **platform))


EDGE_CASES = {
    "one node": (ComputationGraph.from_edges([], [7.0]), 3, 7.0),
    "no edges": (ComputationGraph.from_edges([], [1, 2, 3], [9, 9, 9]), 3, 3.0),
    "more blocks than nodes": (ComputationGraph.from_edges([(0, 1)], [2, 3], [0, 0]), 64, 3.0),
    "all work zero": (ComputationGraph.from_edges([(0, 1)], [0, 0], [5, 0]), 2, 0.0),
    "all numbers zero": (ComputationGraph.from_edges([(0, 1), (1, 2)], [0, 0, 0]), 2, 0.0),
    "one block": (ComputationGraph.from_edges([(0, 1)], [2, 3], [5, 0]), 1, 5.0),
    "no outputs": (ComputationGraph.from_edges([], [2, 3], [[], []]), 2, 3.0),
}


@pytest.fixture(params=EDGE_CASES)
def edge_case(request: pytest.FixtureRequest) -> tuple[Instance, float]:
    graph, k, optimum = EDGE_CASES[request.param]
    return Instance(graph, Platform(k, bandwidth=1.0)), optimum


@pytest.mark.parametrize("name", HEURISTICS)
class TestHeuristic:
    def test_same_seed_same_answer(self, name: str) -> None:
        a, b = (HEURISTICS[name].run(diamond(), np.random.default_rng(7), FEW) for _ in range(2))
        assert a.block.tolist() == b.block.tolist()

    def test_answers_the_question_it_was_asked(self, name: str) -> None:
        instance = diamond()
        assert HEURISTICS[name].run(instance, np.random.default_rng(0), FEW).instance is instance

    def test_edge_cases_are_solved(self, name: str, edge_case: tuple[Instance, float]) -> None:
        instance, optimum = edge_case
        assert HEURISTICS[name].run(instance, np.random.default_rng(0), FEW).bottleneck == optimum

    @pytest.mark.parametrize("platform", [{"memory": 9.0}, {"memory": 9.0, "activation_buffer": 3.0}])
    def test_overflow_counts(self, name: str, platform: dict[str, float]) -> None:
        free = HEURISTICS[name].run(diamond(), np.random.default_rng(0), FEW)
        bounded = HEURISTICS[name].run(diamond(**platform), np.random.default_rng(0), FEW)
        assert bounded.bottleneck > free.bottleneck


@pytest.mark.parametrize("name", MODELS)
class TestModel:
    def test_same_seed_same_bound(self, name: str) -> None:
        a, b = (solve(diamond(), name, SolveOptions(seed=3)).bound for _ in range(2))
        assert a == b

    def test_edge_cases_are_bounded(self, name: str, edge_case: tuple[Instance, float]) -> None:
        instance, optimum = edge_case
        bound = solve(instance, name, TO_THE_END).bound
        assert bound is not None
        assert bound.optimal
        assert 0 <= bound.value <= optimum

    def test_renaming_nodes_changes_nothing(self, name: str) -> None:
        renamed = [3, 0, 4, 1, 2]
        graph = diamond().graph
        edges = [(renamed[u], renamed[v]) for u, v in graph.edges.tolist()]
        back = np.argsort(renamed)
        same = ComputationGraph.from_edges(edges, graph.work[back], graph.tensors.bytes[back])
        a, b = (solve(Instance(g, Platform(3, 2.0)), name, TO_THE_END).bound for g in (graph, same))
        assert a is not None
        assert b is not None
        assert a.value == pytest.approx(b.value, rel=2e-6)

    def test_a_start_that_is_optimal_does_not_change_the_bound(self, name: str) -> None:
        start = HEURISTICS["brkga-100"].run(diamond(), np.random.default_rng(0))
        a, b = (solve(diamond(), name, TO_THE_END, start=known).bound for known in (None, start))
        assert a is not None
        assert b is not None
        # From another start the search for prices ends with others, which prove nearly the same.
        assert a.value == pytest.approx(b.value, rel=1e-3 if name == "priced" else 2e-6)

    def test_no_time_still_gives_the_simple_bound(self, name: str) -> None:
        if name == "pinned":
            return  # cuts know nothing of averages
        bound, simple = solve(diamond(), name, SolveOptions(time_limit=1e-9)).bound, solve(diamond(), "simple").bound
        assert bound is not None
        assert simple is not None
        assert bound.value >= simple.value


def test_exact_proves_the_edge_cases(edge_case: tuple[Instance, float]) -> None:
    result = solve(edge_case[0], "exact")
    assert result.ratio == 1
    assert result.partition is not None
    assert result.partition.bottleneck == edge_case[1]
