"""Solve a formulation and keep only what is proved."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from instances import Bound, FalseCertificateError, InputError, Instance, Partition, Result
from instances.deadline import Deadline, Stopwatch
from instances.partitioning.memory import proof_of_no_fit
from instances.partitioning.symmetry import Contraction, contract_groups, reduce_instance
from instances.registry import find
from instances.system.processes import catch_interrupt
from mtpp_models.bounds.cuts import Algorithm
from mtpp_models.bounds.kinds.ideals import ideals_of_kinds
from mtpp_models.formulations.formulation import ExcludedPartitionError
from mtpp_models.formulations.kinds import KindFormulation
from mtpp_models.formulations.strengthening import Strengthening
from mtpp_models.registry import KIND_MODELS, MODELS, KindModel, Model, find_model
from mtpp_models.simple import as_answer, one_block, one_block_of_kinds, simple, speed_bound, speed_shares
from mtpp_models.solvers.interface import Controls, Progress, SolveOptions

# Times below are rounded by too much for any proof: the numbers that floats hold end near 1e-308.
_SMALLEST = 1e-290


def solve(
    instance: Instance,
    model: str | Model = "exact",
    options: SolveOptions = SolveOptions(),
    *,
    start: Partition | None = None,
    relaxation: bool = False,
    strengthening: Strengthening | None = None,
    reduce: bool = True,
    known: float = 0.0,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Prove a lower bound on the bottleneck, and with the exact model find a partition.

    Parameters
    ----------
    instance : Instance
        The question.
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
        Apply the lossless reductions first; nodes that have to share a block are merged in any case.
    known : float
        A lower bound that others have proved: *priced* begins above it. Nothing that is proved rests on it.
    on_progress : callable, optional
        Receives a `Progress` now and then.

    Returns
    -------
    Result
        The bound is never above the optimum: a solver's dual bound less its margin, or *simple*. The partition is
        the better of `start` and what the exact model found. Ctrl-C returns what is proved so far. Of a formulation
        that is no bound (`Formulation.is_bound`) there is only the partition that the solver found. Where no partition
        fits or obeys the constraints there is neither, and `Result.impossible` says why.

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
    if start is not None and start.instance.key != instance.key:
        raise InputError("The start belongs to another instance; give a partition of this one.")
    report = on_progress or (lambda moment: None)
    if not instance.is_alike:
        if strengthening is not None:
            raise InputError(f"{instance.name}: models can be strengthened for devices that are all alike.")
        return _solve_kinds(instance, model, options, start, relaxation, known, report)
    chosen = find_model(model, strengthening)
    with catch_interrupt() as interrupted:
        deadline = Deadline.after(options.time_limit, interrupted)
        reduction = reduce_instance(instance) if reduce else contract_groups(instance)
        question = reduction.instance
        # Of merged nodes the peak may be less than what one of them needs.
        if question.need is not None or not (isinstance(chosen, Algorithm) and chosen.exact):
            question = question.modelled()
        begin = None if start is None else _modelled(question, reduction.restrict(start))
        controls = Controls(options, deadline, report=report, relaxation=relaxation, known=known)
        if (reason := proof_of_no_fit(instance)) is not None:
            return Result(chosen.name, instance, impossible=reason)
        result = _prove(chosen, question, begin, controls)
        result = _expanded(result, reduction, start if chosen.is_bound else None)
        return replace(result, interrupted=interrupted.is_set())


def _solve_kinds(
    instance: Instance,
    model: str | Model,
    options: SolveOptions,
    start: Partition | None,
    relaxation: bool,
    known: float,
    report: Callable[[Progress], None],
) -> Result:
    """As `solve`, over kinds of devices."""
    name = model if isinstance(model, str) else model.name
    chosen: KindModel | KindFormulation
    if isinstance(model, KindModel | KindFormulation):
        chosen = model
    else:
        chosen = find(KIND_MODELS, name, "model for several kinds of devices")
    with catch_interrupt() as interrupted:
        if (reason := proof_of_no_fit(instance)) is not None:
            return Result(name, instance, impossible=reason)
        deadline = Deadline.after(options.time_limit, interrupted)
        controls = Controls(options, deadline, report=report, relaxation=relaxation, known=known)
        watch, reduction = Stopwatch(), reduce_instance(instance)
        fits = start is not None and start.bottleneck < math.inf
        # Of merged nodes the peak may be less than what one of them needs.
        question = reduction.instance if reduction.instance.need is None else reduction.instance.modelled()
        # Of bounds only the exact ones know windows.
        free = question.without_constraints()
        begin = one_block_of_kinds(free)
        if start is not None and fits:
            own = reduction.restrict(start)
            begin = Partition(free, own.block, own.order, own.kind)
        result: Result
        if isinstance(chosen, KindFormulation) and begin.bottleneck >= _SMALLEST:
            asked = question if chosen.exact else free
            result = _solved(chosen, asked.modelled(), begin if fits else None, controls)
        elif chosen.exact and isinstance(chosen, KindModel):
            known_one = Partition(question, begin.block, begin.order, begin.kind) if fits else None
            result = ideals_of_kinds(question, known_one, deadline)
        elif isinstance(chosen, KindFormulation) or begin.bottleneck <= 0 or chosen.is_too_large(begin.instance):
            result = Result(name, begin.instance, None, _least(begin.instance))
        else:
            result = chosen.run(begin, controls)
        spent, stopped = watch.seconds(solve=watch.passed), interrupted.is_set()
        return replace(_expanded_kinds(result, reduction, start), seconds=result.seconds or spent, interrupted=stopped)


def _solved(model: KindFormulation, question: Instance, start: Partition | None, controls: Controls) -> Result:
    begin = None if start is None else Partition(question, start.block, start.order, start.kind)
    try:
        return model.prove(question, begin, controls)
    except ExcludedPartitionError as error:
        raise FalseCertificateError(f"{error.excludes}; please report this as a bug.") from None


def _least(instance: Instance) -> Bound:
    shares = speed_shares(instance)
    return Bound(speed_bound(instance, shares), "simple", optimal=False, witness={"shares": shares.tolist()})


def _expanded_kinds(result: Result, reduction: Contraction, start: Partition | None) -> Result:
    """The same result for the original question, with the better of start and answer."""
    instance, found = reduction.original, [] if start is None else [start]
    if result.partition is not None:
        answer = result.partition
        with suppress(InputError):  # where it breaks a window
            own = Partition(reduction.instance, answer.block, answer.order, answer.kind)
            found.append(reduction.expand(own))
    best = min(
        (known for known in found if known.bottleneck < math.inf), key=lambda known: known.bottleneck, default=None
    )
    bound = result.bound
    if bound is not None:
        bound = replace(bound, witness={key: _mapped(key, value, reduction) for key, value in bound.witness.items()})
    if result.impossible is not None:
        best, bound = None, None
    return replace(result, instance=instance, answer=best, bound=bound)


def _modelled(question: Instance, start: Partition) -> Partition | None:
    """The start as a partition of the modelled question, where it costs no more; None if it is no answer there."""
    return as_answer(question, Partition(question, start.block, start.order))


def _prove(model: Model, instance: Instance, start: Partition | None, controls: Controls) -> Result:
    incumbent = start or one_block(instance)
    if 0 < incumbent.bottleneck < _SMALLEST:
        answer = as_answer(instance, incumbent)
        return Result("simple", instance, answer, Bound(simple(instance), "simple", optimal=False))
    try:
        return model.prove(instance, start, controls)
    except ExcludedPartitionError as error:
        if model in MODELS.values():
            raise FalseCertificateError(f"{error.excludes}; please report this as a bug.") from None
        raise


def _expanded(result: Result, reduction: Contraction, start: Partition | None) -> Result:
    """The result for the original instance; `start` is the answer if it is at least as good."""
    partition = None
    if result.partition is not None:
        answer = result.partition
        expanded = reduction.expand(Partition(reduction.instance, answer.block, answer.order))
        partition = as_answer(reduction.original, expanded)
    if start is not None and start.bottleneck < math.inf:
        partition = min(
            (start, *([] if partition is None else [partition])), key=lambda candidate: candidate.bottleneck
        )
    bound = result.bound
    if bound is not None:
        bound = replace(bound, witness={key: _mapped(key, value, reduction) for key, value in bound.witness.items()})
    return replace(result, instance=reduction.original, answer=partition, bound=bound)


def _mapped(key: str, value: Any, reduction: Contraction) -> Any:
    """The value of a member of a witness in nodes of the original instance; the two ends stay the last nodes."""
    anchor = np.append(reduction.anchor, reduction.original.graph.n + np.arange(2))
    if key in ("nodes", "apart"):
        return anchor[np.array(value, dtype=np.int64)].tolist()
    if key == "swaps":
        return [[reduction.anchor[row].tolist() for row in family] for family in value]
    if key == "tree":
        return [entry if entry < 0 else int(anchor[entry]) for entry in value]
    if key == "prices":
        prices = np.zeros(reduction.original.graph.n + len(value) - len(reduction.anchor))
        prices[anchor[: len(value)]] = value
        return prices.tolist()
    return value
