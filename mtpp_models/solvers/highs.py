"""HiGHS through its own interface: the compiled model is passed once, with a start, progress and a clean Ctrl-C.

Pyomo's own interface to HiGHS passes no start, loses everything on Ctrl-C and takes three times as long
to hand a model over. Its standard-form compiler does the part that is about Pyomo.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping
from typing import Any

import highspy
import numpy as np
import scipy

from instances import InputError
from instances.graph.tensors import FloatArray
from mtpp_models.solvers.interface import (
    Controls,
    Progress,
    SolverFaultError,
    SolverOptionsError,
    SolverOutcome,
    Termination,
)
from mtpp_models.solvers.modeling import pyo, standard_form

_TERMINATION = {
    highspy.HighsModelStatus.kOptimal: Termination.OPTIMAL,
    highspy.HighsModelStatus.kModelEmpty: Termination.OPTIMAL,
    highspy.HighsModelStatus.kInfeasible: Termination.INFEASIBLE,
}


# Without smaller programs around what is known or relaxed.
_PROOF_ALONE = {
    "mip_heuristic_effort": 0.0,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_root_reduced_cost": False,
    "mip_heuristic_run_feasibility_jump": False,
}


def version() -> str | None:
    """Version of the HiGHS library."""
    return f"{highspy.HIGHS_VERSION_MAJOR}.{highspy.HIGHS_VERSION_MINOR}.{highspy.HIGHS_VERSION_PATCH}"


def forget_threads() -> None:
    """Stop the threads that HiGHS keeps after a run; a forked copy of this process would wait for them forever."""
    highspy.Highs.resetGlobalScheduler(True)


def run_highs(model: pyo.ConcreteModel, controls: Controls) -> SolverOutcome:
    """Minimise a linear model with HiGHS; the solution, if any, is left in its variables.

    The values of its integer variables are the start, unless they are None.
    """
    compiled = standard_form(model)
    if compiled is None:
        return SolverOutcome(Termination.INFEASIBLE)
    if controls.deadline.passed:
        return SolverOutcome(Termination.STOPPED)
    columns = compiled.columns
    linear = _linear_program(compiled)
    # The scheduler of HiGHS keeps the number of threads of its first run in the process.
    forget_threads()
    highs = _new()
    lines: list[str] = []
    _set_options(highs, controls)
    if highs.passModel(linear) == highspy.HighsStatus.kError:
        raise SolverFaultError(
            "highs", "refuses the model, whose numbers span too wide a range (check units of work and bytes)"
        )
    is_mip = any(variable.is_integer() for variable in columns)
    start = [(j, float(v.value)) for j, v in enumerate(columns) if v.is_integer() and v.value is not None]
    if start:
        indices, values = zip(*start, strict=True)
        highs.setSolution(len(indices), np.array(indices, np.int32), np.array(values))
    highs.cbLogging += lambda event: lines.append(event.message)
    highs.cbMipLogging += lambda event: _report(event.data_out, controls)
    for callback in (highs.cbMipInterrupt, highs.cbSimplexInterrupt, highs.cbIpmInterrupt):
        callback += lambda event: event.interrupt() if controls.deadline.interrupted.is_set() else None
    highs.run()
    outcome = _read(highs, columns, is_mip, "".join(lines))
    if outcome.termination is Termination.OPTIMAL and (duals := model.component("dual")) is not None:
        for row, value in zip(compiled.rows, highs.getSolution().row_dual, strict=True):
            duals[row.constraint] = duals.get(row.constraint, 0.0) + value
    return outcome


def solve_lp(
    matrix: scipy.sparse.csr_array, gain: FloatArray, capacity: FloatArray, time_limit: float = math.inf
) -> FloatArray | None:
    """An interior solution of max gain x subject to matrix x <= capacity and 0 <= x <= 1, to three digits.

    It is in the middle of the optimal face, not a vertex of it. None if there is no solution within `time_limit`
    seconds.
    """
    highs = _new()
    options: dict[str, Any] = {"output_flag": False, "threads": 1, "presolve": "off", "time_limit": time_limit}
    _set(highs, {**options, "solver": "ipm", "run_crossover": "off", "ipm_optimality_tolerance": 1e-3})
    rows, columns = matrix.shape
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = columns, rows
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = -gain, np.zeros(columns), np.ones(columns)
    lp.row_lower_, lp.row_upper_ = np.full(rows, -np.inf), capacity
    _fill(lp, matrix, highspy.MatrixFormat.kRowwise)
    highs.passModel(lp)
    highs.run()
    solution = np.array(highs.getSolution().col_value)
    stopped = highs.getModelStatus() == highspy.HighsModelStatus.kTimeLimit
    return solution if len(solution) == columns and not stopped else None


def _new() -> highspy.Highs:
    _drop_banner()
    return highspy.Highs()


@functools.cache
def _drop_banner() -> None:
    """Create a first HiGHS object, as from 1.16 on it prints a banner before options can be set."""
    try:
        output = os.dup(1)
    except OSError:  # there is no standard output
        return
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        highspy.Highs()
        os.dup2(output, 1)
    os.close(output)


def _set_options(highs: highspy.Highs, controls: Controls) -> None:
    options: dict[str, Any] = {
        "log_to_console": False,
        "mip_rel_gap": controls.options.gap,
        "mip_abs_gap": 0.0,
        "mip_feasibility_tolerance": controls.tolerance,
        # By default coefficients below 1e-9 are dropped, and a row can lose solutions to many of them.
        "small_matrix_value": 1e-12,
        "threads": controls.options.threads,
        "random_seed": controls.options.seed,
    }
    if controls.time_limit is not None:
        options["time_limit"] = controls.time_limit
    merged = controls.with_user_options(options if controls.improves else options | _PROOF_ALONE)
    try:
        _set(highs, merged)
    except InputError as error:
        if not controls.options.solver_options:
            raise
        raise SolverOptionsError(controls.options, str(error)) from None


def _set(highs: highspy.Highs, options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if highs.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            raise InputError(f"HiGHS refuses {name} = {value}; choose an option and a value that it has.")


def _linear_program(compiled: Any) -> highspy.HighsLp:
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(compiled.columns), len(compiled.rows)
    lp.col_cost_ = np.asarray(compiled.c.todense(), dtype=np.float64).ravel()
    lp.offset_ = float(compiled.c_offset[0])
    bounds = [variable.bounds for variable in compiled.columns]
    lp.col_lower_ = np.array([-math.inf if low is None else low for low, _ in bounds])
    lp.col_upper_ = np.array([math.inf if high is None else high for _, high in bounds])
    sense = np.array([row.bound_type for row in compiled.rows])  # 1: at most, 0: equal, -1: at least
    lp.row_lower_ = np.where(sense <= 0, compiled.rhs, -math.inf)
    lp.row_upper_ = np.where(sense >= 0, compiled.rhs, math.inf)
    _fill(lp, compiled.A, highspy.MatrixFormat.kColwise)
    kinds = highspy.HighsVarType
    lp.integrality_ = [kinds.kInteger if v.is_integer() else kinds.kContinuous for v in compiled.columns]
    return lp


def _fill(lp: highspy.HighsLp, matrix: Any, layout: highspy.MatrixFormat) -> None:
    lp.a_matrix_.format_ = layout
    lp.a_matrix_.start_ = matrix.indptr.astype(np.int32)
    lp.a_matrix_.index_ = matrix.indices.astype(np.int32)
    lp.a_matrix_.value_ = matrix.data


def _report(event: Any, controls: Controls) -> None:
    incumbent, bound = event.mip_primal_bound, event.mip_dual_bound
    controls.report(
        Progress(
            case="",
            seconds=event.running_time,
            incumbent=incumbent if math.isfinite(incumbent) else None,
            bound=bound if math.isfinite(bound) else None,
            nodes=int(event.mip_node_count),
        )
    )


def _read(highs: highspy.Highs, columns: list[Any], is_mip: bool, log: str) -> SolverOutcome:
    termination = _TERMINATION.get(highs.getModelStatus(), Termination.STOPPED)
    info = highs.getInfo()
    has_solution = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    # The objective of a linear program is a bound at its optimum alone.
    has_bound = is_mip or termination is Termination.OPTIMAL
    bound = info.mip_dual_bound if is_mip else info.objective_function_value
    status = highs.getModelStatus()
    is_doubtful = status == highspy.HighsModelStatus.kOptimal and not has_solution
    if has_solution and is_mip:
        # HiGHS 1.16.0 forgets the offset of its presolve in the objective and in the bound if it has a start.
        cost = float(np.dot(highs.getLp().col_cost_, highs.getSolution().col_value)) + highs.getLp().offset_
        is_doubtful |= not abs(cost - info.objective_function_value) <= 1e-6 * max(1.0, abs(cost))
    if is_doubtful or status == highspy.HighsModelStatus.kUnknown:
        return SolverOutcome(Termination.STOPPED, 0.0, None, log)  # numbers too hard for it, but no cost is below 0
    objective = info.objective_function_value if has_solution else None
    if has_solution:
        for variable, value in zip(columns, highs.getSolution().col_value, strict=True):
            variable.set_value(value, skip_validation=True)
    return SolverOutcome(termination, bound if has_bound and math.isfinite(bound) else None, objective, log)
