"""Bounds for kinds of devices under the names that the command line and the tables use."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from instances import Bound, InputError, Partition, Result
from instances.deadline import Deadline, Stopwatch
from instances.partitioning.kinds.no_fit import proof_of_no_fit
from instances.partitioning.kinds.partition import UnlikePartition
from instances.partitioning.kinds.problem import UnlikeInstance
from instances.partitioning.kinds.reductions import KindContraction, reduce_kinds
from instances.registry import find
from instances.system.interrupts import catch_interrupt
from mtpp_models.bounds.algorithm import Algorithm
from mtpp_models.bounds.kinds.ideals import ideals_of_kinds
from mtpp_models.bounds.kinds.pinned import pinned_kinds
from mtpp_models.bounds.kinds.priced import PricesOfKinds
from mtpp_models.bounds.kinds.simple import simple_by_kinds, speed_bound, speed_shares
from mtpp_models.cuts.max_flow import MOST_PAIRED
from mtpp_models.solvers.interface import Controls, Progress, SolveOptions

__all__ = ["KIND_MODELS", "KindModel", "prices_that_go_on", "prove_kinds"]


def _of(prove: Callable[[UnlikePartition, Controls], Result]) -> Callable[[Partition, Controls], Result]:
    return lambda start, controls: prove(cast(UnlikePartition, start), controls)


def _timed(prove: Callable[[UnlikePartition, Deadline | None], Result]) -> Callable[[Partition, Controls], Result]:
    return _of(lambda start, controls: prove(start, controls.deadline))


class KindModel(Algorithm):
    """Bound for kinds of devices, whose start is a partition over them."""


#: Name to model, in order of effort.
KIND_MODELS: dict[str, KindModel] = {
    model.name: model
    for model in (
        KindModel(
            "simple",
            "devices of several kinds: the speed of all of them together, and the heaviest node",
            "this project, mtpp_models/bounds/kinds/simple.py",
            _timed(simple_by_kinds),
        ),
        KindModel(
            "pinned",
            "minimum cut around each node",
            "this project, mtpp_models/bounds/kinds/pinned.py",
            _timed(pinned_kinds),
        ),
        KindModel(
            "ideals",
            "dynamic program over ideals, for narrow graphs",
            "this project, mtpp_models/bounds/kinds/ideals.py",
            _timed(lambda start, deadline: ideals_of_kinds(start.instance, start, deadline)),
            exact=True,
        ),
        KindModel(
            "priced",
            "best prices of nodes and kinds",
            "this project, mtpp_models/bounds/kinds/priced.py",
            _of(lambda start, controls: PricesOfKinds()(start, controls)),
            MOST_PAIRED,
        ),
    )
}


def prices_that_go_on() -> KindModel:
    """The model `priced`, which continues when it is called again."""
    return replace(KIND_MODELS["priced"], run=_of(PricesOfKinds()))


def prove_kinds(
    instance: UnlikeInstance,
    model: Any,
    options: SolveOptions = SolveOptions(),
    *,
    start: Partition | None = None,
    known: float = 0.0,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Prove a bound, after the lossless reductions; as `mtpp_models.solve` for devices that are alike.

    Parameters
    ----------
    model : str or a model
        A name of `KIND_MODELS`, or a model of that name for devices that are alike.

    Raises
    ------
    InputError
        If there is no such model for kinds, or the start belongs to another instance.
    """
    name = model if isinstance(model, str) else model.name
    chosen = model if isinstance(model, KindModel) else find(KIND_MODELS, name, "model for several kinds of devices")
    if start is not None and start.instance.key != instance.key:
        raise InputError("The start belongs to another instance; give a partition of this one.")
    with catch_interrupt() as interrupted:
        if (reason := proof_of_no_fit(instance)) is not None:
            return Result(name, instance, impossible=reason)
        deadline = Deadline.after(options.time_limit, interrupted)
        controls = Controls(options, deadline, report=on_progress or (lambda moment: None), known=known)
        watch, reduction = Stopwatch(), reduce_kinds(instance)
        fits = isinstance(start, UnlikePartition) and start.bottleneck < math.inf
        begin = reduction.restrict(cast(UnlikePartition, start)) if fits else _one_block(reduction.instance)
        result: Result
        if chosen.exact:
            result = ideals_of_kinds(reduction.instance, begin if fits else None, deadline)
        elif begin.bottleneck <= 0 or (chosen.most_nodes is not None and begin.instance.graph.n > chosen.most_nodes):
            result = Result(name, begin.instance, None, _least(begin.instance))
        else:
            result = chosen.run(begin, controls)
        spent, stopped = watch.seconds(solve=watch.passed), interrupted.is_set()
        return replace(_expanded(result, reduction, start), seconds=spent, interrupted=stopped)


def _least(instance: UnlikeInstance) -> Bound:
    shares = speed_shares(instance)
    return Bound(speed_bound(instance, shares), "simple", optimal=False, witness={"shares": shares.tolist()})


def _one_block(instance: UnlikeInstance) -> UnlikePartition:
    """All nodes in one block on the kind where that takes least, which memory may not allow."""
    soft = replace(instance, platform=replace(instance.platform, fit=False))
    block = np.zeros(instance.graph.n, dtype=np.int64)
    if instance.devices.is_fixed:
        return UnlikePartition(soft, block)
    kinds = (np.full(instance.k, t) for t in range(instance.kinds))
    return min((UnlikePartition(soft, block, kind) for kind in kinds), key=lambda known: known.bottleneck)


def _expanded(result: Result, reduction: KindContraction, start: Partition | None) -> Result:
    """The same result for the original question, with the better of start and answer."""
    instance, found = reduction.original, [] if start is None else [start]
    if isinstance(result.answer, UnlikePartition):
        answer = result.answer
        own = UnlikePartition(reduction.instance, answer.block, answer.kind, answer.order)
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


def _mapped(key: str, value: Any, reduction: KindContraction) -> Any:
    """Member of a witness, mapped to the nodes of the original question."""
    if key == "nodes":
        return reduction.anchor[value].tolist()
    if key == "prices":
        prices = np.zeros(reduction.original.graph.n)
        prices[reduction.anchor] = value
        return prices.tolist()
    return value
