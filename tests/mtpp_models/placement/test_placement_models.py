"""Exact models of placements: the optimum of all devices and orders, whatever the question, and faults of solvers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placement_oracle import best_ordered, random_question

from instances import InputError
from instances.deadline import Deadline
from instances.machines import Machines
from instances.placement.networks import BANDWIDTH, PLACEMENT_FAMILIES, group_nodes
from instances.placement.placement import OrderedPlacement, Placement
from instances.placement.problem import PlacementInstance
from mtpp_models import SolveOptions, SolverFaultError, SolverNotAvailableError
from mtpp_models.placement import cp
from mtpp_models.placement.bounds import heads_of, share_devices
from mtpp_models.placement.exact import exact
from mtpp_models.placement.registry import bound_placement
from mtpp_models.placement.scaled_placement import ScaledPlacement
from mtpp_models.solvers.interface import Controls


def first_placement(instance: PlacementInstance) -> Placement:
    return Placement(instance, np.arange(instance.graph.n) % instance.devices)


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_the_exact_model_finds_the_best_order(seed: int) -> None:
    """With gaps, zeros, several outputs, broadcasts and unequal devices."""
    instance = random_question(np.random.default_rng(seed), 4)
    best = best_ordered(instance)
    result = bound_placement(first_placement(instance), "place-exact")
    assert result.bound is not None
    assert result.cost == pytest.approx(best.time, rel=1e-5)
    assert best.time * (1 - 2e-6) <= result.bound.value <= best.time


def test_the_golden_orders_are_optimal() -> None:
    """9 where the first that is ready is served first takes 11."""
    from instances import ComputationGraph

    graph = ComputationGraph.from_edges([(0, 2), (1, 3)], [3, 1, 1, 6], [1, 1, 0, 0])
    instance = PlacementInstance(graph, Machines.alike(2, 1))
    result = bound_placement(Placement(instance, [0, 0, 1, 1]), "place-exact")
    assert result.proved
    assert result.cost <= 9


def test_transfers_that_follow_one_another_have_no_order() -> None:
    """Of two paths side by side the transfers of one never meet; without a gap those of two may wait for each other."""
    from instances import ComputationGraph

    graph = ComputationGraph.from_edges([(0, 1), (1, 2), (3, 4), (4, 5)], [1] * 6, [1, 1, 0] * 2)
    instance = PlacementInstance(graph, Machines.alike(2, 1))
    start = OrderedPlacement.of(Placement(instance, [0] * 6))
    data = ScaledPlacement(start, share_devices(heads_of(instance), 2 * start.step_time, Deadline()))
    sender = [data.producer[transfer.tensor] for transfer in data.deliveries]
    pairs = {(sender[b], sender[c]) for b, c in exact(data).Q}
    assert pairs == {(0, 3), (0, 4), (1, 3), (1, 4)}


def test_bug_devices_that_nobody_needs_were_modelled() -> None:
    """With 12 nodes on 64 devices the model took half a minute; now as many devices as nodes are in it."""
    from instances import ComputationGraph

    graph = ComputationGraph.from_edges([(0, 2), (1, 2)], [3, 4, 2], [1, 1, 0])
    instance = PlacementInstance(graph, Machines.alike(1000, 1))
    result = bound_placement(Placement(instance, [0, 999, 500]), "place-exact")
    assert result.proved
    assert result.cost == 6


def test_the_exact_model_closes_groups_of_a_family(solver: str) -> None:
    few = 6 if solver == "gurobi" else 10  # its free licence takes small models only
    graph = group_nodes(PLACEMENT_FAMILIES["ptb"].graph(8000), few).graph
    instance = PlacementInstance(graph, Machines.alike(2, BANDWIDTH))
    result = bound_placement(first_placement(instance), "place-exact", SolveOptions(solver, 60.0))
    assert isinstance(result.answer, OrderedPlacement)
    assert result.ratio < 1.01


def test_large_graphs_are_refused() -> None:
    instance = PlacementInstance(PLACEMENT_FAMILIES["ptb"].graph(8000), Machines.alike(2, BANDWIDTH))
    with pytest.raises(InputError, match="at most 40 nodes, this one has 61"):
        bound_placement(first_placement(instance), "place-exact")
    with pytest.raises(InputError, match="no model of placements 'exact'"):
        bound_placement(first_placement(instance), "exact")


@pytest.mark.parametrize("model", ["windows", "energetic", "colocation"])
def test_bounds_of_one_device_are_its_work(model: str) -> None:
    instance = PlacementInstance(PLACEMENT_FAMILIES["ptb"].graph(8000), Machines.alike(1, BANDWIDTH))
    assert bound_placement(first_placement(instance), model).ratio == pytest.approx(1, abs=1e-8)


def small() -> Placement:
    return first_placement(random_question(np.random.default_rng(3), 4))


def test_a_missing_solver_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        SolverNotAvailableError, match=r"^Solver cp-sat is not available; .*: pip install 'ortools>=[0-9.]+'$"
    ):
        bound_placement(small(), "place-cp")


PROCESSES = {
    "import os; os.kill(os.getpid(), 9)": "was killed .SIGKILL.",
    "raise SystemExit('no licence')": "failed .no licence.",
    "print('hello')": "failed .no answer.",
    'print(\'{"status": "INFEASIBLE"}\')': "no placement, against one that is known",
    'print(\'{"status": "OPTIMAL", "bound": 1e9, "device": null}\')': "states the bound",
}


@pytest.mark.parametrize("code", list(PROCESSES))
def test_a_process_that_fails_is_one_line(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0")
    command = [sys.executable, "-c", code]
    monkeypatch.setattr("instances.system.processes.module_command", lambda module: (command, {}))
    with pytest.raises(SolverFaultError, match=PROCESSES[code]) as caught:
        bound_placement(small(), "place-cp")
    assert "\n" not in str(caught.value)


def test_the_question_has_whole_numbers_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time is above what it stands for; sequences of the answer are read off also where times became 0."""
    instance = random_question(np.random.default_rng(11), 5)
    start = OrderedPlacement.of(first_placement(instance))
    asked: list[dict[str, object]] = []

    def answer(question: dict[str, object], deadline: object) -> dict[str, object]:
        asked.append(json.loads(json.dumps(question)))
        hint = question["hint"]
        return {"status": "FEASIBLE", "bound": 0.0, **hint}  # type: ignore[dict-item]

    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0")
    monkeypatch.setattr(cp, "_ask", answer)
    result = bound_placement(start, "place-cp")
    assert result.cost <= start.step_time
    unit = min(instance.total_work, start.step_time) / 20000
    for node, work in zip(asked[0]["nodes"], instance.graph.work.tolist(), strict=True):  # type: ignore[call-overload]
        assert all(time * unit <= work / min(instance.speeds) for time in node["time"])


@settings(max_examples=8)
@given(st.integers(0, 2**32))
def test_cp_sat_finds_the_best_order(seed: int) -> None:
    pytest.importorskip("ortools", reason="the extra 'place-cp' is not installed")
    instance = random_question(np.random.default_rng(seed), 4)
    best = best_ordered(instance)
    result = bound_placement(first_placement(instance), "place-cp", SolveOptions(time_limit=60.0))
    assert result.bound is not None
    assert best.time * (1 - 2e-3) <= result.bound.value <= best.time
    assert result.cost <= best.time * (1 + 2e-3)


@settings(max_examples=4)
@given(st.integers(0, 2**32), st.floats(0.3, 1.1))
def test_cp_sat_refutes_no_time_that_a_step_takes(seed: int, part: float) -> None:
    pytest.importorskip("ortools", reason="the extra 'place-cp' is not installed")
    instance = random_question(np.random.default_rng(seed), 4)
    best, start = best_ordered(instance).time, OrderedPlacement.of(first_placement(instance))
    nothing = cp._Incumbent(start, 0.0, optimal=False)
    known = cp._solve(nothing, heads_of(instance), min(part * best, start.step_time), Controls())
    assert known.low <= best


def test_cp_sat_takes_options_keeps_its_output_and_refuses_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("ortools", reason="the extra 'place-cp' is not installed")
    own = {"cp_model_presolve": "false", "search_branching": "FIXED_SEARCH", "max_deterministic_time": 5}
    result = bound_placement(small(), "place-cp", SolveOptions(solver_options=own, log=tmp_path))
    assert result.bound is not None
    assert result.bound.witness == {"solver_options": own}
    (log,) = tmp_path.iterdir()
    assert "cp_model_presolve: false" in log.read_text()
    for name, value, reason in (
        ("no_such_thing", 1, "takes no no_such_thing=1"),
        ("cp_model_presolve", "perhaps", "takes no cp_model_presolve=perhaps"),
        ("num_workers", 2, "num_workers is set here already"),
        ("cp_model_presolve", "false num_workers: 2", "is no name with one value"),
        ("cp_model_presolve: false num_workers", 2, "is no name with one value"),
    ):
        with pytest.raises(SolverNotAvailableError, match=f"Solver cp-sat fails .*{reason}") as error:
            bound_placement(small(), "place-cp", SolveOptions(solver_options={name: value}))
        assert "\n" not in str(error.value)


def test_a_time_that_is_refuted_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lies above the one before; where the process ends without an answer, that is the end."""
    graph = group_nodes(PLACEMENT_FAMILIES["nmt"].graph(8000), 12).graph
    start = OrderedPlacement.of(first_placement(PlacementInstance(graph, Machines.alike(2, BANDWIDTH))))
    said = [{"status": "UNKNOWN", "bound": 0.0, "device": None}, {"status": "INFEASIBLE", "bound": 0.0}]
    asked: list[dict[str, int]] = []

    def answer(question: dict[str, int], deadline: object) -> dict[str, object]:
        asked.append(question)
        return said[min(len(asked) - 1, 1)] if len(asked) < 4 else said[0]

    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0")
    monkeypatch.setattr(cp, "_ask", answer)
    result = bound_placement(start, "place-cp")
    assert len(asked) == 4
    assert [question["least"] for question in asked] == sorted(question["least"] for question in asked)
    assert result.answer is start
    assert result.bound is not None
    assert asked[3]["least"] / asked[0]["horizon"] == pytest.approx(result.bound.value / start.step_time, rel=1e-3)
