"""Solve a formulation and keep only what is proved."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from instances import Bound, InputError, Instance, Partition, Result
from instances.graph.tensors import IntArray
from instances.interrupts import catch_interrupt
from instances.partitioning.reductions import Contraction, reduce_instance
from instances.results import PROOF_TOLERANCE
from mtpp_models.contradictions import contradiction
from mtpp_models.formulations.formulation import Algorithm, Formulation
from mtpp_models.formulations.parts import Strengthening
from mtpp_models.formulations.strengthened import pose, strengthened
from mtpp_models.registry import find_model
from mtpp_models.simple import simple
from mtpp_models.solve_case import solve_case
from mtpp_models.solvers.interface import Controls, SolverFaultError
from mtpp_models.solvers.registry import Solver, find_solver

__all__ = ["Progress", "solve"]


@dataclass(frozen=True)
class Progress:
    """A moment of a running solve, in the time unit of the instance.

    Parameters
    ----------
    case : str
        The case that is being solved.
    seconds : float
        Since the case was started.
    incumbent, bound : float, optional
        Objective of the best solution of the case and its dual bound, as the solver states them.
    nodes : int, optional
        Branch-and-bound nodes.
    """

    case: str
    seconds: float
    incumbent: float | None
    bound: float | None
    nodes: int | None


def solve(
    instance: Instance,
    model: str | Algorithm | Formulation = "exact",
    *,
    solver: str = "highs",
    time_limit: float | None = None,
    gap: float = 0.0,
    threads: int = 1,
    seed: int = 0,
    start: Partition | None = None,
    relaxation: bool = False,
    reduce: bool = True,
    strengthening: Strengthening | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Prove a lower bound on the bottleneck, and with the exact model find a partition.

    Parameters
    ----------
    instance : Instance
    model : str, Algorithm or Formulation
        A name of `MODELS`, or a model; algorithms use no solver.
    solver : str
        A name of `SOLVERS` or of a plugin of Pyomo.
    time_limit : float, optional
        Seconds for all cases together. A case that is not solved to its end counts with its dual bound, one
        that is not started with *simple*.
    gap : float
        Relative gap at which a solver may stop.
    threads, seed : int
    start : Partition, optional
        Warm start, also the unit in which the model is scaled.
    relaxation : bool
        Solve the linear relaxation instead; the method is then called "…-lp".
    reduce : bool
        Apply the lossless reductions first.
    strengthening : Strengthening, optional
        What to add to a model of superblocks, as "exact+all" and alike do by name; it needs a `start`.
    on_progress : callable, optional
        Receives a `Progress` now and then.

    Returns
    -------
    Result
        The bound is never above the optimum: a solver's dual bound less its margin, or *simple*. The partition is
        the better of `start` and what the exact model found. Ctrl-C returns what is proved so far. Of a formulation
        that is no bound (`Formulation.is_bound`) there is only the partition that the solver found.

    Raises
    ------
    InputError
        If an option is out of its range, the model or the solver is unknown, or a model of the caller excludes a
        known partition although it says that it is a bound.
    SolverNotAvailableError
        If the solver cannot run here.
    SolverFaultError
        If the solver fails, does not end in time, or states what is not true.
    FalseCertificateError
        If a bound of this project's own exceeds a bottleneck, which is a bug.
    """
    chosen = find_model(model)
    if strengthening is not None:
        chosen = strengthened(chosen, strengthening)
    _check(instance, time_limit, gap, threads, seed, start)
    driver = None if isinstance(chosen, Algorithm) else find_solver(solver)
    controls = Controls(time_limit=time_limit, gap=gap, threads=threads, seed=seed)

    def prove(instance: Instance, start: Partition | None) -> Result:
        known = start or _one_block(instance)
        if 0 < known.bottleneck < _SMALLEST:
            return Result("simple", instance, known, Bound(simple(instance), "simple", optimal=False))
        if isinstance(chosen, Algorithm):
            report = _reporter(chosen.name, 1.0, on_progress)
            result = chosen.prove(known, replace(controls, report=report))
            return result if start is not None or chosen.exact else replace(result, answer=None)
        assert driver is not None
        return _solve_cases(instance, chosen, driver, controls, start, relaxation, on_progress)

    if not reduce:
        return prove(instance, start)
    reduction = reduce_instance(instance)
    result = prove(reduction.instance, None if start is None else reduction.restrict(start))
    return _expanded(result, reduction, start if isinstance(chosen, Algorithm) or chosen.is_bound else None)


def _one_block(instance: Instance) -> Partition:
    return Partition(instance, np.zeros(instance.graph.n, dtype=np.int64))


def _solve_cases(
    instance: Instance,
    model: Formulation,
    solver: Solver,
    controls: Controls,
    start: Partition | None,
    relaxation: bool,
    on_progress: Callable[[Progress], None] | None,
) -> Result:
    begin = time.monotonic()
    name = f"{model.name}-lp" if relaxation else model.name
    one_block = _one_block(instance)
    if one_block.bottleneck == 0 and model.is_bound:
        return Result(name, instance, one_block, Bound(0.0, name), {"solve": time.monotonic() - begin})
    answers = []
    with catch_interrupt() as interrupted:
        limit = controls.time_limit
        question = pose(instance, model, start, solver.margin, None if limit is None else _FOR_CONFLICTS * limit)
        data, cases = question.data, question.cases
        posed = time.monotonic() - begin
        for number, case in enumerate(cases):
            left = None if limit is None else limit - (time.monotonic() - begin)
            if interrupted.is_set() or (left is not None and left <= 0):
                break
            share = replace(
                controls,
                time_limit=None if left is None else left / (len(cases) - number),
                report=_reporter(case.name, data.unit, on_progress),
                interrupted=interrupted,
            )
            answers.append(solve_case(case, data, solver, share, question.start, relaxation))
        stopped = interrupted.is_set()
    # A case that was not started has proved nothing beyond *simple*.
    floor, finished = simple(instance), len(answers) == len(cases)
    proved = min((question.ceiling, *(answer.bound for answer in answers))) if finished else floor
    blocks = [answer.superblock for answer in answers if answer.superblock is not None] if model.exact else []
    found = [_partition(instance, block[question.group], solver) for block in blocks]
    known = [start, *found] if start is not None and model.is_bound else found
    best = min(known, key=lambda partition: partition.bottleneck, default=None)
    least = min((*known, one_block), key=lambda partition: partition.bottleneck)
    if model.is_bound and proved > least.bottleneck * (1 + _ROUNDING):
        raise contradiction(model, question, solver, proved, least)
    options = {key: getattr(controls, key) for key in ("time_limit", "gap", "threads", "seed")}
    most_possible = min((question.ceiling, *(answer.found for answer in answers)))
    # What the solver found may be this much more: far below the unit it says nothing.
    surely = most_possible + solver.margin * data.unit
    closed = (
        finished
        and not data.leaves_out_overflow
        and (proved >= most_possible * (1 - PROOF_TOLERANCE) or floor >= surely)
    )
    bound = Bound(max(floor, proved), name, closed, options) if model.is_bound else None
    seconds = {phase: sum(getattr(answer, phase) for answer in answers) for phase in ("build", "solve")}
    seconds["build"] += posed
    log = "\n".join(answer.log for answer in answers)
    return Result(name, instance, best, bound, seconds, f"{solver.name} {solver.version()}", log, stopped)


_MOST_THREADS = 64
# Times below are rounded by too much for any proof: the numbers that floats hold end near 1e-308.
_SMALLEST = 1e-290
# Of the time limit, at most; and relative.
_FOR_CONFLICTS, _ROUNDING = 0.2, 1e-9


def _check(
    instance: Instance, time_limit: float | None, gap: float, threads: int, seed: int, start: Partition | None
) -> None:
    if time_limit is not None and not 0 < time_limit < math.inf:
        raise InputError(f"The time limit is {time_limit}; it must be positive and finite.")
    if not 0 <= gap < 1:
        raise InputError(f"The gap is {gap}; it must be at least 0 and below 1.")
    if not 1 <= threads <= _MOST_THREADS:
        raise InputError(f"There are {threads} threads; use 1 to {_MOST_THREADS}.")
    if not 0 <= seed < 2**31:
        raise InputError(f"The seed is {seed}; it must be at least 0 and below 2^31.")
    if start is not None and start.instance.key != instance.key:
        raise InputError("The start belongs to another instance; give a partition of this one.")


def _reporter(
    case: str, unit: float, on_progress: Callable[[Progress], None] | None
) -> Callable[[float, float | None, float | None, int | None], None]:
    def report(seconds: float, incumbent: float | None, bound: float | None, nodes: int | None) -> None:
        if on_progress is not None:
            incumbent, bound = (None if value is None else value * unit for value in (incumbent, bound))
            on_progress(Progress(case, seconds, incumbent, bound, nodes))

    return report


def _partition(instance: Instance, block: IntArray, solver: Solver) -> Partition:
    """The partition of a solution; its cost is computed anew."""
    try:
        return Partition(instance, block)
    except InputError as error:
        raise SolverFaultError(solver.name, f"gives a solution that is no partition ({error})") from None


def _expanded(result: Result, reduction: Contraction, start: Partition | None) -> Result:
    """The same result for the original instance; `start` stays where it is as good."""
    partition = None if result.partition is None else reduction.expand(result.partition)
    if start is not None and partition is not None and start.bottleneck <= partition.bottleneck:
        partition = start
    bound = result.bound
    if bound is not None:
        bound = replace(bound, witness={key: _mapped(key, value, reduction) for key, value in bound.witness.items()})
    return replace(result, instance=reduction.original, answer=partition, bound=bound)


def _mapped(key: str, value: Any, reduction: Contraction) -> Any:
    """What a bound rests on, in the nodes of the original instance."""
    if key == "nodes":
        return reduction.anchor[value].tolist()
    if key == "prices":
        prices = np.zeros(reduction.original.graph.n)
        prices[reduction.anchor] = value
        return prices.tolist()
    return value
