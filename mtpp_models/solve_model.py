"""Solve a formulation and keep only what is proved."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from instances import Bound, InputError, Instance, Partition, Result
from instances.deadline import Deadline
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
from mtpp_models.solvers.interface import Controls, SolveOptions, SolverFaultError
from mtpp_models.solvers.registry import Solver, find_solver

__all__ = ["Progress", "solve"]

# Times below are rounded by too much for any proof: the numbers that floats hold end near 1e-308.
_SMALLEST = 1e-290
# Of the time limit, at most; and relative.
_FOR_CONFLICTS, _ROUNDING = 0.2, 1e-9


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
    options: SolveOptions = SolveOptions(),
    *,
    start: Partition | None = None,
    relaxation: bool = False,
    strengthening: Strengthening | None = None,
    reduce: bool = True,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Prove a lower bound on the bottleneck, and with the exact model find a partition.

    Parameters
    ----------
    instance : Instance
    model : str, Algorithm or Formulation
        A name of `MODELS`, or a model; algorithms use no solver.
    options : SolveOptions
        Solver, time limit, gap, threads and seed. The cases of a model share the time: one that is not solved to its
        end counts with its dual bound, one that is not started with *simple*.
    start : Partition, optional
        Warm start, also the unit in which the model is scaled.
    relaxation : bool
        Solve the linear relaxation instead; the method is then called "…-lp".
    strengthening : Strengthening, optional
        What to add to a model of superblocks, as "exact+all" and alike do by name; it needs a `start`.
    reduce : bool
        Apply the lossless reductions first.
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
        If the model or the solver is unknown, the start belongs to another instance, or a model of the caller excludes
        a known partition although it says that it is a bound.
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
    if start is not None and start.instance.key != instance.key:
        raise InputError("The start belongs to another instance; give a partition of this one.")
    driver = None if isinstance(chosen, Algorithm) else find_solver(options.solver)
    with catch_interrupt() as interrupted:
        controls = Controls(options, Deadline.after(options.time_limit, interrupted))

        def prove(instance: Instance, start: Partition | None) -> Result:
            known = start or _one_block(instance)
            if 0 < known.bottleneck < _SMALLEST:
                return Result("simple", instance, known, Bound(simple(instance), "simple", optimal=False))
            if isinstance(chosen, Algorithm):
                begin = time.monotonic()
                result = chosen.prove(known, replace(controls, report=_reporter(chosen.name, 1.0, on_progress)))
                result = replace(result, seconds={"solve": time.monotonic() - begin})
                return result if start is not None or chosen.exact else replace(result, answer=None)
            assert driver is not None
            return _solve_cases(instance, chosen, driver, controls, start, relaxation, on_progress)

        if reduce:
            reduction = reduce_instance(instance)
            result = prove(reduction.instance, None if start is None else reduction.restrict(start))
            kept = start if isinstance(chosen, Algorithm) or chosen.is_bound else None
            result = _expanded(result, reduction, kept)
        else:
            result = prove(instance, start)
        return replace(result, interrupted=interrupted.is_set())


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
    answers, deadline = [], controls.deadline
    question = pose(instance, model, start, solver.margin, deadline.share(_FOR_CONFLICTS))
    data, cases = question.data, question.cases
    posed = time.monotonic() - begin
    for number, case in enumerate(cases):
        if deadline.passed:
            break
        report, share = _reporter(case.name, data.unit, on_progress), deadline.share(1 / (len(cases) - number))
        told = replace(controls, deadline=share, report=report)
        answers.append(solve_case(case, data, solver, told, question.start, relaxation))
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
    options = {key: value for key, value in vars(controls.options).items() if key != "solver"}
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
    return Result(name, instance, best, bound, seconds, f"{solver.name} {solver.version()}", log)


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
