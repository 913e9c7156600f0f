"""Rows that contradict each other: irreducible sets, by every solver."""

from __future__ import annotations

import pytest

from instances import ComputationGraph, InputError, Instance, Platform
from instances.planning.chains import simulation
from instances.random_graphs import regal_style
from mtpp_models import MODELS, BuiltModel, Formulation, SolveOptions, build, build_replication, explain_infeasible
from mtpp_models.exchange.files import builders
from mtpp_models.solvers.modeling import pyo


def restricted() -> BuiltModel:
    """The last block does the most, and each block a little more than a third."""
    built = build(Instance(regal_style("watts-strogatz", 8, seed=0), Platform(3, 1.0)))
    m = built.model
    total = sum(m.work[v] for v in m.V)

    @m.Constraint(m.B)
    def share(m: pyo.ConcreteModel, b: int) -> object:
        return sum(m.work[v] * m.x[v, b] for v in m.V) >= 0.34 * total

    m.harmless = pyo.Constraint(expr=m.bottleneck <= 1000)
    m.free = pyo.Constraint(expr=m.bottleneck >= 0)
    m.elastic = pyo.Constraint(expr=m.bottleneck >= 0)
    return built


def has_solution(model: pyo.ConcreteModel) -> bool:
    results = pyo.SolverFactory("appsi_highs").solve(model, load_solutions=False)
    return results.solver.termination_condition == pyo.TerminationCondition.optimal


def test_none_of_the_rows_can_be_left_out(solver: str) -> None:
    """Alone they contradict each other; without any of them they do not."""
    built = restricted()
    rows = explain_infeasible(built, SolveOptions(solver=solver))
    names = {row.name for row in rows}
    assert {"share.1", "share.2", "share.3"} <= names
    assert "harmless" not in names
    assert all(row.words == "a row of your own" for row in rows if row.name.startswith("share"))
    m = built.model.clone()
    kept = []
    for row in m.component_data_objects(pyo.Constraint):
        row.deactivate()
        if built.labels(row) in names:
            kept.append(row)
    for row in kept:
        row.activate()
    assert not has_solution(m)
    for row in kept:
        row.deactivate()
        assert has_solution(m)
        row.activate()


def test_a_model_with_a_solution_has_none() -> None:
    built = build(Instance(ComputationGraph.from_edges([(0, 1)], work=[3.0, 1.0]), Platform(2, 1.0)))
    built.model.own = pyo.Constraint(expr=built.model.x[0, 1] == 1)
    assert explain_infeasible(built) == ()
    assert has_solution(built.model)


def test_values_that_are_fixed_stay() -> None:
    """The edge is what is left to blame."""
    built = build(Instance(ComputationGraph.from_edges([(0, 1)], work=[3.0, 1.0], names=("a", "b")), Platform(2, 1.0)))
    built.model.y[0, 1].fix(0)
    built.model.y[1, 1].fix(1)
    (row,) = explain_infeasible(built)
    assert row.name == "dag.a.b.1"
    assert row.words.startswith("(8)")
    assert "y.a.1" in row.text


def test_plans_are_explained_as_well() -> None:
    built = build_replication(simulation(0, servers=(2,), microbatches=2))
    m = built.model
    m.no_stage = pyo.Constraint(expr=sum(m.x.values()) == 0)
    assert {row.name for row in explain_infeasible(built)} == {"no_stage", "path"}


def test_without_time_there_is_one_line() -> None:
    with pytest.raises(InputError, match="within the time_limit; give more"):
        explain_infeasible(restricted(), SolveOptions(time_limit=1e-6))


def test_all_rows_of_models_say_what_they_are() -> None:
    """So that rows without words are those of the user."""
    graph = regal_style("watts-strogatz", 8, seed=0)
    instance = Instance(graph, Platform(3, 1.0, memory=10.0, activation_buffer=1.0))
    for model in MODELS.values():
        if isinstance(model, Formulation):
            for make in builders(instance, model).values():
                assert all(row.doc for row in make().model.component_objects(pyo.Constraint))
