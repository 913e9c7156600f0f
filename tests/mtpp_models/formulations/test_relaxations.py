"""Linear relaxations: their values are those of the written models, with points and duals, and bound the optimum."""

from __future__ import annotations

import json
import math
from pathlib import Path

import highspy
import pandas as pd
import pytest
from brute_force import optimum
from command_line import mtpp as run
from hypothesis import given, settings
from kinds_cases import GOLDEN
from strategies import questions

import mtpp
from instances import ComputationGraph, InputError, Instance, Partition, Platform
from instances.graph.graph import save_graph
from instances.random_graphs import regal_style
from mtpp_models import (
    MODELS,
    Formulation,
    SolveOptions,
    available_solvers,
    build,
    relaxation,
    simple,
    solve,
    write_model,
)
from mtpp_models.solvers.modeling import pyo

CHAIN = ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)], work=[8, 1, 1, 2], output_bytes=[1, 1, 1, 0])
FORMULATIONS = [name for name, model in MODELS.items() if isinstance(model, Formulation)]


@pytest.fixture(scope="module")
def instance() -> Instance:
    return Instance(regal_style("watts-strogatz", 12, seed=0), Platform(3, 1.0))


def test_the_relaxation_of_a_chain_is_half_of_simple(solver: str) -> None:
    """Worth 4, where *simple* says 8: the bound is the larger one, and both are told."""
    linear = relaxation(Instance(CHAIN, Platform(3, 1.0)), "exact", SolveOptions(solver=solver))
    assert linear.value == pytest.approx(4.0, rel=1e-6)
    assert linear.bound is not None
    assert 4.0 * (1 - 1e-5) < linear.bound < 4.0
    result = solve(Instance(CHAIN, Platform(3, 1.0)), "exact", SolveOptions(solver=solver), relaxation=True)
    assert result.bound is not None
    assert (result.bound.value, result.bound.method) == (8.0, "exact:lp")
    assert result.bound.witness["relaxation"] == linear.value
    assert any("simple" in note for note in result.notes)


@pytest.mark.parametrize("name", FORMULATIONS)
def test_installed_solvers_agree(instance: Instance, name: str) -> None:
    values = [relaxation(instance, name, SolveOptions(solver=solver)).value for solver in available_solvers()]
    assert values == pytest.approx([values[0]] * len(values), rel=1e-6)


@settings(max_examples=40)
@given(questions(max_nodes=5))
def test_relaxations_bound_the_optimum(instance: Instance) -> None:
    """Also where nodes stay together, lie in windows, or have to fit."""
    best = optimum(instance)
    for name in ("exact", "bottleneck", "guess-the-bottleneck-tight"):
        linear = relaxation(instance, name)
        assert linear.value is None or best is None or linear.value <= best * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("name", FORMULATIONS)
def test_it_is_that_of_the_written_model(instance: Instance, name: str, tmp_path: Path) -> None:
    """By variables and rows, for each case."""
    linear, files = relaxation(instance, name), write_model(instance, name, tmp_path / "m.mps")
    assert linear.value == min(case.value for case in linear.cases if case.value is not None)
    for case, file in zip(linear.cases, files, strict=True):
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.readModel(str(file))
        columns = {highs.getColName(j)[1] for j in range(highs.getNumCol())}
        assert case.point.keys() <= columns
        highs.setOptionValue("solve_relaxation", True)
        highs.run()
        unit = build(instance).unit
        assert highs.getObjectiveValue() * unit == pytest.approx(case.value, rel=1e-6)


def test_point_and_duals_are_optimal(instance: Instance) -> None:
    """The point satisfies the rows, and a row with a dual is tight."""
    linear, built = relaxation(instance), build(instance)
    pyo.TransformationFactory("core.relax_integer_vars").apply_to(built.model)
    for variable in built.model.component_data_objects(pyo.Var):
        if not variable.fixed:
            variable.set_value(linear.point.get(built.labels(variable), 0.0), skip_validation=True)
    assert linear.duals is not None
    for row in built.model.component_data_objects(pyo.Constraint):
        slack = min(row.lslack(), row.uslack())
        assert slack >= -1e-6
        assert abs(linear.duals[built.labels(row)] * slack) <= 1e-6 * built.unit
    assert linear.point["bottleneck"] * built.unit == pytest.approx(linear.value)
    assert linear.fractional > 0
    assert linear.rows == len(linear.duals)


def test_a_dual_is_the_change_of_the_value() -> None:
    """One more on the right of all rows of the blocks, which are at most 0, is a second less of the bottleneck."""
    graphs = [ComputationGraph.from_edges([], work=[1.0, 1.0, 2.0 + more]) for more in (0.0, 0.01)]
    before, after = (relaxation(Instance(graph, Platform(2, 1.0))) for graph in graphs)
    assert before.duals is not None
    slowest = sum(dual for name, dual in before.duals.items() if name.startswith("slowest"))
    assert slowest == pytest.approx(-before.value)
    assert after.value == pytest.approx(before.value + 0.005)


def test_a_strengthened_model_is_worth_at_most_its_start(instance: Instance) -> None:
    start = solve(instance, "exact").partition
    assert start is not None
    linear = relaxation(instance, "exact+all", start=start)
    plain = relaxation(instance, "exact")
    assert plain.value <= linear.value <= start.bottleneck * (1 + 1e-9)
    whole = Instance(ComputationGraph.from_edges([], work=[4.0, 1.0]), Platform(2, 1.0))
    nothing = relaxation(whole, "exact+all", start=Partition(whole, [0, 1]))
    assert nothing.value == pytest.approx(4.0)
    assert (nothing.cases, dict(nothing.point)) == ((), {})


@pytest.mark.parametrize("name", GOLDEN)
def test_kinds_of_devices_have_relaxations(name: str) -> None:
    instance, best = GOLDEN[name]
    for model in ("exact", "bottleneck"):
        linear = relaxation(instance, model)
        assert 0 < linear.value <= best * (1 + 1e-6)
        assert linear.point


def test_what_has_no_value_says_none() -> None:
    """Without time for the solver; infinite where nothing fits."""
    large = Instance(regal_style("erdos-renyi", 200, seed=0), Platform(8, 1.0))
    assert relaxation(large, options=SolveOptions(time_limit=0.001)).value is None
    graph = ComputationGraph.from_edges([], work=[1.0, 1.0], param_bytes=[5.0, 5.0])
    assert relaxation(Instance(graph, Platform(2, 1.0, memory=4.0, fit=True))).value == math.inf
    with pytest.raises(InputError, match="simple needs no solver and has no relaxation"):
        relaxation(large, "simple")


def test_bug_a_relaxation_of_no_work_has_no_bound_below_0() -> None:
    """The tolerance of the solver was taken off all the same."""
    nothing = Instance(ComputationGraph.from_edges([], work=[0.0, 0.0]), Platform(2, 1.0))
    assert (relaxation(nothing).value, relaxation(nothing).bound) == (0.0, 0.0)
    assert mtpp.compare(nothing, 2, "exact:lp")["bound"].tolist() == [0.0]


def test_comparisons_show_the_value_itself() -> None:
    """The method exact:lp states less than *simple*, where the relaxation is worth less; simple:lp is refused."""
    frame = mtpp.compare(CHAIN, 3, ["kahn", "simple", "exact:lp", "exact", "coarse-2+all:lp"], bandwidth=1)
    bounds = dict(zip(frame["method"], frame["bound"], strict=True))
    assert bounds["exact:lp"] == pytest.approx(4.0, rel=1e-5)
    assert bounds["exact:lp"] <= bounds["simple"] <= bounds["exact"]
    assert bounds["coarse-2+all:lp"] <= bounds["exact"] * (1 + 1e-6)
    with pytest.raises(InputError, match="simple:lp: simple needs no solver"):
        mtpp.compare(CHAIN, 3, "simple:lp")


def test_a_function_lp_of_a_file_is_none(tmp_path: Path) -> None:
    """A heuristic of the caller may be called so."""
    mine = tmp_path / "exact.py"
    mine.write_text(
        "from instances import Partition\ndef lp(instance, rng, limits):\n    return [0] * instance.graph.n\n"
    )
    frame = mtpp.compare(CHAIN, 2, [f"{mine}:lp"], bandwidth=1)
    assert list(frame["method"]) == ["exact.py:lp"]


def test_relaxations_of_several_k() -> None:
    linear = mtpp.relaxation(CHAIN, [2, 3], bandwidth=1)
    assert [entry.value for entry in linear] == pytest.approx([6.0, 4.0], rel=1e-6)
    assert simple(Instance(CHAIN, Platform(3, 1.0))) == 8.0


def test_files_with_bounds_of_relaxations_are_read(tmp_path: Path) -> None:
    result = mtpp.bound(CHAIN, 3, bandwidth=1, relaxation=True)
    result.save(tmp_path / "c.json")
    document = json.loads((tmp_path / "c.json").read_text())
    document["bounds"][0]["value"] = document["bound"] = 8.5
    (tmp_path / "c.json").write_text(json.dumps(document))
    assert mtpp.verify(tmp_path / "c.json").rests_on_trust
    (check,) = mtpp.verify(tmp_path / "c.json", rerun=True).checks
    assert check.fault


@pytest.mark.slow
def test_a_table_of_relaxations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As published and strengthened by each part: exact:lp <= with parts <= optimum, and none is above its model."""
    monkeypatch.chdir(tmp_path)
    published = [name for name in FORMULATIONS if name not in ("exact", "coarse-4")]
    relaxed = [*(f"{name}:lp" for name in published), "exact+each:lp", "coarse-4+each:lp"]
    methods = ",".join(["kahn", *relaxed, *FORMULATIONS])
    for family in ("watts-strogatz", "barabasi-albert"):
        save_graph(regal_style(family, 9, seed=0), tmp_path / f"{family}.json")
    graphs = "watts-strogatz.json barabasi-albert.json"
    assert run(f"table {graphs} -k 3 --bandwidth 1 --methods {methods} --time-limit 60 --out runs.jsonl") == 0
    frame = pd.DataFrame(map(json.loads, Path("runs.jsonl").read_text().splitlines()))
    assert frame["error"].isna().all()
    for _, runs in frame.groupby("question"):
        bound = runs.set_index("method")["bound"]
        best = bound["exact"] * (1 + 1e-5)
        assert (bound.dropna() <= best).all()
        assert (bound.filter(like="exact+").filter(like=":lp") >= bound["exact:lp"] * (1 - 1e-5)).all()
        for name in FORMULATIONS:
            assert bound[f"{name}:lp"] <= bound[name] * (1 + 1e-5)
