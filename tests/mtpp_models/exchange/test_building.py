"""Models with rows of one's own: the partition comes back, checked; nothing makes a bound of what was restricted."""

from __future__ import annotations

import contextlib
import itertools

import numpy as np
import pytest
from brute_force import optimum
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances, questions

from instances import ComputationGraph, InputError, Instance, Partition, Platform
from instances.random_graphs import regal_style
from mtpp_models import BuiltModel, build, cases, read_partition, solve
from mtpp_models.solvers.modeling import pyo


def solved(built: BuiltModel) -> Partition:
    pyo.SolverFactory("appsi_highs").solve(built.model)
    return read_partition(built)


@settings(max_examples=30)
@given(instances(max_nodes=5, huge_ratio=False, overflow=False), st.data())
def test_the_best_partition_that_keeps_a_row_of_ones_own(instance: Instance, data: st.DataObject) -> None:
    """Two nodes apart, against every assignment."""
    n = instance.graph.n
    u, v = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, n - 1))
    built = build(instance)
    m = built.model

    @m.Constraint(m.B)
    def apart(m: pyo.ConcreteModel, b: int) -> object:
        return m.x[u, b] + m.x[v, b] <= 1

    results = pyo.SolverFactory("appsi_highs").solve(m, load_solutions=False)
    blocks = [block for block in itertools.product(range(instance.k), repeat=n) if block[u] != block[v]]
    forward = [block for block in blocks if all(block[s] <= block[t] for s, t in instance.graph.edges.tolist())]
    if not forward:
        assert results.solver.termination_condition == pyo.TerminationCondition.infeasible
        return
    m.solutions.load_from(results)
    found = read_partition(built)
    assert found.block[u] != found.block[v]
    best = min(Partition(instance, block).bottleneck for block in forward)
    assert found.bottleneck == pytest.approx(best, rel=1e-5, abs=1e-5 * built.unit)


def test_a_strengthened_model_reads_back_on_the_original_graph() -> None:
    instance = Instance(regal_style("erdos-renyi", 20, seed=1), Platform(3, 1.0))
    start = Partition(instance, np.zeros(20, dtype=np.int64))
    found = solved(build(instance, "exact+all", start=start))
    assert found.instance is instance
    assert found.bottleneck < start.bottleneck


def test_there_is_no_bound_of_a_restricted_question() -> None:
    """What a solver proves with a row of the user's own holds for that question only."""
    assert not [name for name in dir(BuiltModel) if "bound" in name]


def test_what_cannot_be_read_is_refused() -> None:
    graph = ComputationGraph.from_edges([(0, 1)], [3.0, 1.0], names=("a", "b"))
    instance = Instance(graph, Platform(2, 1.0))
    built = build(instance)
    with pytest.raises(InputError, match="solve the model first"):
        read_partition(built)
    built.model.y[0, 1].set_value(0)
    built.model.y[1, 1].set_value(1)
    with pytest.raises(InputError, match="points backwards"):
        read_partition(built)
    built.model.y[0, 1].set_value(0.5)
    with pytest.raises(InputError, match=r"y\.a\.1 is 0\.5, neither 0 nor 1"):
        read_partition(built)
    built.model.y[0, 1].set_value(float("nan"), skip_validation=True)
    with pytest.raises(InputError, match=r"y\.a\.1 is nan"):
        read_partition(built)
    with pytest.raises(InputError, match="its blocks are merged"):
        read_partition(build(instance, "coarse-2"))
    with pytest.raises(InputError, match="needs no solver"):
        build(instance, "simple")
    with pytest.raises(InputError, match="partition to start from"):
        build(instance, "exact+all")


def test_a_case_is_named_or_numbered() -> None:
    """The least of all cases is the bound of the model; without a name the message lists them."""
    instance = Instance(regal_style("watts-strogatz", 12, seed=0), Platform(3, 1.0))
    assert cases(instance, "guess-the-bottleneck") == ["r = 1", "r = 2", "r = 3"]
    assert cases(instance, "exact") == ["exact"]
    values = []
    for case in (1, "r = 2", 3):
        built = build(instance, "guess-the-bottleneck", case=case)
        pyo.SolverFactory("appsi_highs").solve(built.model)
        values.append(pyo.value(built.model.objective) * built.unit)
    bound = solve(instance, "guess-the-bottleneck").bound
    assert bound is not None
    assert bound.value == pytest.approx(min(values), rel=1e-4)
    for case in (None, 0, 4, -1, True, "r = 4", 1.5):
        with pytest.raises(InputError, match=r"has the cases 1 to 3: r = 1, r = 2, r = 3; name one by case=") as error:
            build(instance, "guess-the-bottleneck", case=case)  # type: ignore[arg-type]
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="has the cases 1: exact"):
        build(instance, case=2)


@settings(max_examples=25)
@given(questions(max_nodes=5))
def test_side_constraints_are_in_the_model(instance: Instance) -> None:
    """Groups are one node there, and what does not fit is refused where memory is a hard limit."""
    built = build(instance)
    results = pyo.SolverFactory("appsi_highs").solve(built.model, load_solutions=False)
    if results.solver.termination_condition != pyo.TerminationCondition.optimal:
        return
    built.model.solutions.load_from(results)
    if instance.platform.fit:
        with contextlib.suppress(InputError):  # of peaks the model knows only what single nodes need
            assert optimum(instance) <= read_partition(built).bottleneck < np.inf
    else:
        assert optimum(instance) <= read_partition(built).bottleneck
