"""Solution of a model: a proved bound, and for exact models a partition."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from instances import FalseCertificateError, InputError, Instance, Partition, Result
from instances.deadline import Deadline
from instances.partitioning.memory import proof_of_no_fit
from instances.partitioning.symmetry import Contraction, contract_groups, reduce_instance
from instances.results import Recorder
from instances.system.processes import catch_interrupt
from mtpp_models.formulations.formulation import ExcludedPartitionError, Formulation, Relaxation
from mtpp_models.formulations.strengthening import Strengthening
from mtpp_models.registry import MODELS, Algorithm, Model, model_for
from mtpp_models.simple import as_answer, one_block, simple_bound
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
    lower: float = 0.0,
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
        Solve the linear relaxation of a formulation instead, as its file has it, without reductions; the method is then
        called "…:lp". The value of the relaxation is in the witness of the bound; `relaxation` returns more.
    strengthening : Strengthening, optional
        Parts to add to a model of superblocks, as names such as "exact+all" do; it needs a `start`.
    reduce : bool
        Apply the lossless reductions first; nodes that have to share a block are merged in any case.
    lower : float
        A lower bound by another method: *priced* begins above it. No proof depends on it.
    on_progress : callable, optional
        Called with a `Progress` from time to time.

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
        a known partition although it claims to be a bound.
    SolverNotAvailableError
        If the solver cannot run here.
    SolverFaultError
        If the solver fails, does not end in time, or returns a wrong bound or solution.
    FalseCertificateError
        If a bound of this project's own exceeds a bottleneck, which is a bug.
    """
    chosen = model_for(instance, model, strengthening)
    controls = Controls(
        options,
        report=on_progress or (lambda moment: None),
        relaxation=(lambda linear: None) if relaxation else None,
        lower=lower,
    )
    return _solved(instance, chosen, controls, start, reduce=reduce)


def relaxation(
    instance: Instance,
    model: str | Formulation = "exact",
    options: SolveOptions = SolveOptions(),
    *,
    start: Partition | None = None,
) -> Relaxation:
    """Solve the linear relaxation of a formulation as `write_model` writes it, with its point and duals.

    Parameters
    ----------
    instance : Instance
        The question.
    model : str or Formulation
    options : SolveOptions
        Solver, time limit, threads and seed. The cases of a model share the time.
    start : Partition, optional
        The unit in which the model is scaled is its bottleneck; needed by a strengthened model.

    Returns
    -------
    Relaxation
        Its value is None where time ended it, or times are below 1e-290; infinite where no partition fits or obeys.

    Raises
    ------
    InputError
        As `solve`, and if the model needs no solver.
    KeyboardInterrupt
        At Ctrl-C.
    SolverNotAvailableError, SolverFaultError, FalseCertificateError
        As `solve`.

    Examples
    --------
    >>> from instances import ComputationGraph, Instance, Platform
    >>> chain = ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)], work=[8, 1, 1, 2], output_bytes=[1, 1, 1, 0])
    >>> round(relaxation(Instance(chain, Platform(3, 1.0))).value, 6)
    4.0
    """
    chosen = model_for(instance, model)
    if not isinstance(chosen, Formulation):
        raise InputError(f"The model {chosen.name} needs no solver and has no relaxation; name a formulation.")
    linear: list[Relaxation] = []
    result = _solved(instance, chosen, Controls(options, relaxation=linear.append), start)
    if result.interrupted:
        raise KeyboardInterrupt
    return linear[0] if linear else Relaxation(None if result.impossible is None else math.inf)


def _solved(
    instance: Instance, chosen: Model, controls: Controls, start: Partition | None, *, reduce: bool = True
) -> Result:
    """The result of a model; the time limit begins with this call."""
    if start is not None and start.instance.key != instance.key:
        raise InputError("The start belongs to another instance; give a partition of this one.")
    recorder = Recorder()
    cost = None if start is None else start.bottleneck

    def report(moment: Progress) -> None:
        if tells_of_question(chosen):
            recorder.note(chosen.name, moment.incumbent, moment.bound, end=False)
        controls.report(moment)

    recorder.note(chosen.name, cost, None, end=False)
    with catch_interrupt() as interrupted:
        within = replace(controls, report=report, deadline=Deadline.after(controls.options.time_limit, interrupted))
        if (reason := proof_of_no_fit(instance)) is not None:
            return Result(chosen.name, instance, impossible=reason)
        as_written = controls.relaxation is not None if isinstance(chosen, Formulation) else chosen.literal
        reduction = reduce_instance(instance) if reduce and not as_written else contract_groups(instance)
        question = reduction.instance
        # Of merged nodes the peak may be less than what one of them needs.
        if question.need is not None or not (isinstance(chosen, Algorithm) and chosen.in_order):
            question = question.modelled()
        # Of the modelled question it costs no more; None where it is no answer there.
        begin = None if start is None else as_answer(question, reduction.restrict(start).under(question))
        result = _prove(chosen, question, begin, within)
        result = _expanded(result, reduction, start if chosen.is_bound else None)
        recorder.note(chosen.name, result.cost, None if result.bound is None else result.bound.value, end=True)
        return replace(result, interrupted=interrupted.is_set(), moments=recorder.moments)


def tells_of_question(model: Model) -> bool:
    """Whether a model's progress reports are about the question itself, not about one case of the model."""
    return model.exact or model.name in ("priced", "priced-quick")


def _prove(model: Model, instance: Instance, start: Partition | None, controls: Controls) -> Result:
    incumbent = start or one_block(instance)
    if 0 < incumbent.bottleneck < _SMALLEST:
        answer = as_answer(instance, incumbent)
        return Result("simple", instance, answer, simple_bound(instance, optimal=False))
    try:
        return model.prove(instance, start, controls)
    except ExcludedPartitionError as error:
        if model.name in MODELS.shipped and MODELS[model.name] is model:
            raise FalseCertificateError(f"{error.excludes}; please report this as a bug.") from None
        raise


def _expanded(result: Result, reduction: Contraction, start: Partition | None) -> Result:
    """The result for the original instance; `start` is the answer if it is at least as good."""
    partition = None
    if result.partition is not None:
        partition = as_answer(reduction.original, reduction.expand(result.partition.under(reduction.instance)))
    if start is not None and start.bottleneck < math.inf:
        partition = min(
            (start, *([] if partition is None else [partition])), key=lambda candidate: candidate.bottleneck
        )
    bound = result.bound
    if bound is not None:
        bound = replace(bound, witness={key: _mapped(key, value, reduction) for key, value in bound.witness.items()})
    return replace(result, instance=reduction.original, answer=partition, bound=bound)


def _mapped(key: str, value: Any, reduction: Contraction) -> Any:
    """The value of a witness's member `key`, with nodes of the reduced instance replaced by original ones.

    In both graphs, the two numbers after those of the nodes stand for source and sink.
    """
    anchor = np.append(reduction.anchor, reduction.original.graph.n + np.arange(2))
    if key in ("nodes", "turn", "apart"):
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
