"""Solvers: the same optimum from all, starts that arrive, limits and Ctrl-C that leave what is proved."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import mtpp_models
from heuristics import HEURISTICS
from instances import ComputationGraph, InputError, Instance, Partition, Platform
from instances.deadline import Deadline
from instances.random_graphs import regal_style
from instances.readers import load_graph
from mtpp_models import MODELS, ScaledInstance, SolveOptions, available_solvers, solve
from mtpp_models.solvers.highs import run_highs
from mtpp_models.solvers.interface import Controls, SolverOutcome, Termination
from mtpp_models.solvers.modeling import pyo
from mtpp_models.solvers.pyomo_solvers import ScipWithoutGil
from mtpp_models.solvers.registry import SOLVERS, Solver


@pytest.fixture(scope="module")
def small() -> Instance:
    return Instance(regal_style("watts-strogatz", 14, seed=0), Platform(3, 1.0))


@pytest.fixture(scope="module")
def large() -> Instance:
    """Too hard for every solver within seconds, small enough for Gurobi's free licence at k = 5."""
    return Instance(regal_style("barabasi-albert", 70, seed=0), Platform(5, 1.0))


@pytest.fixture(scope="module")
def start(large: Instance) -> Partition:
    return HEURISTICS["brkga-100"].run(large, np.random.default_rng(0))


def test_every_solver_proves_the_same_optimum(solver: str, small: Instance) -> None:
    result, reference = solve(small, "exact", SolveOptions(solver=solver)), solve(small, "exact")
    assert result.proved
    assert result.partition is not None
    assert reference.partition is not None
    assert result.partition.bottleneck == pytest.approx(reference.partition.bottleneck, rel=1e-6)
    assert result.solver is not None
    assert result.solver.startswith(solver)


@pytest.mark.parametrize("model", ["bottleneck", "guess-the-bottleneck"])
def test_every_solver_proves_the_same_bound(solver: str, model: str, small: Instance) -> None:
    result, reference = solve(small, model, SolveOptions(solver=solver)).bound, solve(small, model).bound
    assert result is not None
    assert reference is not None
    assert result.value == pytest.approx(reference.value, rel=3e-6)


def test_a_time_limit_leaves_a_proved_bound(solver: str, large: Instance, start: Partition) -> None:
    if solver == "gurobi":
        pytest.skip("Gurobi's free licence is limited to 2000 variables and constraints")
    result = solve(large, "exact", SolveOptions(solver=solver, time_limit=3), start=start)
    assert result.bound is not None
    assert result.partition is not None
    assert not result.bound.optimal
    assert result.bound.value <= result.partition.bottleneck <= start.bottleneck


START_LINES = {
    "highs": "MIP start solution is feasible",
    "scip": "feasible solution found by completesol heuristic",
    "gurobi": "Loaded user MIP start",
    "cbc": "MIPStart provided solution",
}


def test_the_start_reaches_the_solver(solver: str, small: Instance) -> None:
    if solver not in START_LINES:
        pytest.skip(f"{solver} takes no start")
    start = HEURISTICS["random-1"].run(small, np.random.default_rng(0))
    assert START_LINES[solver] in solve(small, "exact", SolveOptions(solver=solver), start=start).log


@pytest.mark.parametrize("model", ["bottleneck", "bottleneck-no-dag", "bottleneck-no-cut-io", "exact"])
def test_highs_accepts_the_start_of_every_model(model: str, large: Instance, start: Partition) -> None:
    """It ends at the first bound."""
    assert START_LINES["highs"] in solve(large, model, SolveOptions(time_limit=600, gap=0.99), start=start).log


@pytest.mark.parametrize("name", ["highs", "scip"])
def test_progress_is_live_and_in_the_units_of_the_instance(name: str, large: Instance, start: Partition) -> None:
    if name not in available_solvers():
        pytest.skip(f"{name} is not installed")
    seen: list[mtpp_models.Progress] = []

    def show(progress: mtpp_models.Progress) -> None:
        whole = [None not in (one.incumbent, one.bound, one.nodes) for one in (*seen, progress)]
        seen.append(progress)
        if whole[-1] and sum(whole) == 1:  # a second Ctrl-C would raise
            signal.raise_signal(signal.SIGINT)

    result = solve(large, "exact", SolveOptions(solver=name, time_limit=600), start=start, on_progress=show)
    assert result.bound is not None
    assert seen[-1].incumbent == pytest.approx(start.bottleneck, rel=0.2)
    assert seen[-1].bound is not None
    assert 0.5 < seen[-1].bound / result.bound.value < 1.001
    assert seen[-1].nodes is not None


def test_scip_survives_a_log_longer_than_a_pipe(large: Instance) -> None:
    """Pyomo's interface stood still for ever once the log had filled a pipe of 64 KiB."""
    if "scip" not in available_solvers():
        pytest.skip("scip is not installed")
    (case,) = MODELS["exact"].cases(ScaledInstance.near(large, None))
    talkative = {"display/freq": 1, "display/headerfreq": 1, "limits/nodes": 400, "separating/maxroundsroot": 0}
    results = ScipWithoutGil().solve(
        case.model(),
        load_solutions=False,
        raise_exception_on_nonoptimal_result=False,
        solver_options=talkative,
    )
    assert len(results.solver_log) > 2**16


# Pyomo swallows what is printed while SCIP runs, so the script speaks through a stream of its own.
CTRL_C = """
import os, sys
out = os.fdopen(os.dup(1), "w")
from instances import Instance, Platform
from instances.random_graphs import regal_style
from mtpp_models import SolveOptions, solve
instance = Instance(regal_style("barabasi-albert", 70, seed=0), Platform(5, 1.0))
def show(progress):
    print("running", file=out, flush=True)
result = solve(instance, "exact", SolveOptions(solver=sys.argv[1], time_limit=1000), on_progress=show)
print("interrupted", result.interrupted, "bound", result.bound.value)
"""


@pytest.mark.parametrize("name", ["highs", "scip"])
def test_ctrl_c_returns_what_is_proved(name: str, large: Instance) -> None:
    if name not in available_solvers():
        pytest.skip(f"{name} is not installed")
    root = Path(mtpp_models.__file__).parents[1]
    run = subprocess.Popen(
        [sys.executable, "-c", CTRL_C, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "running\n"
    run.send_signal(signal.SIGINT)
    out, err = run.communicate()
    assert err == ""
    words = out.split()
    assert words[words.index("interrupted") + 1] == "True"
    simple = solve(large, "simple").bound
    assert simple is not None
    assert float(words[-1]) >= simple.value


def test_an_unknown_model_is_refused(small: Instance) -> None:
    with pytest.raises(InputError, match="no model 'exakt'; did you mean exact"):
        solve(small, "exakt")


def test_a_start_of_another_instance_is_refused(small: Instance, start: Partition) -> None:
    with pytest.raises(InputError, match="another instance"):
        solve(small, start=start)


def stub(monkeypatch: pytest.MonkeyPatch, run: Callable[[pyo.ConcreteModel, Controls], SolverOutcome]) -> str:
    """Register a solver that does what a test needs, and return its name."""
    monkeypatch.setitem(SOLVERS, "stub", Solver("stub", "none", lambda: "1", run, 0.0))
    return "stub"


def test_the_cases_of_a_model_share_the_time(small: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one case leaves over goes to those behind it."""
    given: list[float] = []

    def run(_: pyo.ConcreteModel, controls: Controls) -> SolverOutcome:
        assert controls.time_limit is not None
        given.append(controls.time_limit)
        return SolverOutcome(Termination.STOPPED, bound=0.0)

    solve(small, "guess-the-bottleneck", SolveOptions(solver=stub(monkeypatch, run), time_limit=3000))
    assert given == [pytest.approx(3000 / cases, rel=0.2) for cases in (3, 2, 1)]
    assert all(seconds <= 3000 / cases for seconds, cases in zip(given, (3, 2, 1), strict=True))


def test_cases_that_were_not_started_prove_no_more_than_simple(
    small: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_: pyo.ConcreteModel, controls: Controls) -> SolverOutcome:
        controls.deadline.interrupted.set()
        return SolverOutcome(Termination.STOPPED, bound=5.0, objective=5.0)

    simple = solve(small, "simple").bound
    result = solve(small, "guess-the-bottleneck", SolveOptions(solver=stub(monkeypatch, run)))
    assert result.bound is not None
    assert simple is not None
    assert (result.interrupted, result.bound.optimal) == (True, False)
    assert result.bound.value == pytest.approx(simple.value)


def test_a_fractional_solution_is_no_partition(small: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounded it would be one, but nobody vouches for it."""

    def run(model: pyo.ConcreteModel, _: Controls, share: float) -> SolverOutcome:
        for variable in model.y.values():
            variable.set_value(float(variable.value) if variable.fixed else share, skip_validation=True)
        return SolverOutcome(Termination.STOPPED, bound=0.0, objective=1.0)

    for share, found in ((0.4, False), (0.01, False), (1e-9, True)):
        result = solve(small, "exact", SolveOptions(solver=stub(monkeypatch, partial(run, share=share))))
        assert (result.partition is not None) == found


def test_a_gap_ends_the_search_early(small: Instance) -> None:
    loose, exact = solve(small, "exact", SolveOptions(gap=0.3)), solve(small, "exact")
    assert loose.ratio is not None
    assert loose.bound is not None
    assert exact.bound is not None
    assert (loose.bound.optimal, exact.bound.optimal) == (False, True)
    assert exact.proved
    assert 1.001 < loose.ratio <= 1 / (1 - 0.3) + 1e-6


@pytest.mark.parametrize("name", ["highs", "scip", "gurobi"])
def test_handing_over_counts_against_the_time_limit(name: str, large: Instance) -> None:
    """A model that takes longer to hand over than the limit is left as soon as the solver has it."""
    if name not in available_solvers():
        pytest.skip(f"{name} is not installed")
    (case,) = MODELS["exact"].cases(ScaledInstance.near(large, None))
    outcome = SOLVERS[name].run(case.model(), Controls(deadline=Deadline.after(1e-3)))
    assert outcome.termination is Termination.STOPPED
    assert outcome.bound is None or outcome.bound < 0.9


def test_a_linear_program_that_was_stopped_proves_nothing(large: Instance) -> None:
    """Its objective is a bound at the optimum alone."""
    (case,) = MODELS["exact"].cases(ScaledInstance.near(large, None))
    stop = threading.Event()
    stop.set()
    relaxed = pyo.TransformationFactory("core.relax_integer_vars").create_using(case.model())
    stopped = run_highs(relaxed, Controls(deadline=Deadline(interrupted=stop)))
    assert (stopped.termination, stopped.bound) == (Termination.STOPPED, None)
    done = run_highs(relaxed, Controls())
    assert done.termination is Termination.OPTIMAL
    assert done.bound == done.objective


@pytest.mark.parametrize(
    ("file", "optimum"), [("bert24_layer_inference", 47.478953), ("gnmt_layer_inference", 93.194348)]
)
def test_published_optima_at_k_2(data: Path, file: str, optimum: float) -> None:
    """Costs are exactly those in the files."""
    graph = load_graph(data / "msr" / f"{file}.json", communication="cost")
    instance = Instance(graph, Platform(2, bandwidth=1.0))
    start = HEURISTICS["random-100"].run(instance, np.random.default_rng(0))
    result = solve(instance, "exact", SolveOptions(time_limit=300), start=start)
    assert result.proved
    assert result.partition is not None
    assert result.partition.bottleneck == pytest.approx(optimum, abs=5e-7)


@pytest.mark.parametrize("model", ["bottleneck", "bottleneck-no-dag", "bottleneck-no-cut-io"])
def test_works_next_to_nothing_count_in_the_share(solver: str, model: str) -> None:
    """Solvers drop coefficients below 1e-9; here 1,998 of them decide whether one heavy node is enough."""
    if solver == "gurobi":
        pytest.skip("2,000 nodes are beyond Gurobi's free licence")
    n = 2000
    work = [1.0, *[0.9e-9] * (n - 2), 1.0]
    graph = ComputationGraph.from_edges([(v, v + 1) for v in range(n - 1)], work=work, output_bytes=[0.0] * n)
    instance = Instance(graph, Platform(2, bandwidth=1.0))
    optimum = Partition(instance, [0] * (n // 2) + [1] * (n // 2)).bottleneck
    bound = solve(instance, model, SolveOptions(solver=solver, time_limit=20)).bound
    assert bound is not None
    assert bound.value <= optimum * (1 + 1e-9)
