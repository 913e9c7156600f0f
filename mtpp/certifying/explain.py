"""Explanation of a partition: the best bound, a better partition if one is found, the least cost of a stage."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from instances import Bound, InputError, Partition, Result
from instances.deadline import Deadline
from instances.results import PROOF_TOLERANCE
from instances.system.interrupts import catch_interrupt
from mtpp.certifying.certify import certify
from mtpp.certifying.findings import Findings
from mtpp_models import Progress, SolveOptions, SolverNotAvailableError
from mtpp_models.bounds.pinned import pinned

__all__ = ["explain", "explain_partition"]

# Part of the time limit that minimum cuts around the slowest stage's nodes may take.
_CUTS = 0.2


def explain(
    partition: Partition,
    options: SolveOptions,
    *,
    stated: Sequence[Bound] = (),
    on_progress: Callable[[Progress], None] | None = None,
    on_fault: Callable[[SolverNotAvailableError], None] | None = None,
) -> tuple[Findings, bool]:
    """Find out how good a partition is and why it is not better.

    Parameters
    ----------
    options : SolveOptions
        The time limit is for everything together.
    stated : sequence of Bound
        What a file says, none above the bottleneck. If one says that the partition is optimal, nothing is proved.
    on_progress, on_fault : callable, optional
        As of `certify`.

    Returns
    -------
    Findings, bool
        And whether Ctrl-C ended the work early.

    Raises
    ------
    InputError, SolverNotAvailableError
        As `certify`.
    """
    fits = partition.bottleneck < math.inf
    bounds, known = list(stated), Result("given", partition.instance, partition if fits else None)
    best = max(bounds, key=lambda bound: bound.value, default=None)
    if best is None or _is_more(partition.bottleneck, best.value):
        told = replace(options, time_limit=Deadline.after(options.time_limit).share(1 - _CUTS).time_limit)
        start = partition if fits else None
        known = certify(partition.instance, told, start=start, on_progress=on_progress, on_fault=on_fault)
        if known.bound is not None and (best is None or known.bound.value > best.value):
            best = known.bound
    found = Findings(
        partition=partition,
        bound=best,
        stated=best is not None and best is not known.bound,
        better=known.partition if known.cost is not None and _is_more(partition.bottleneck, known.cost) else None,
        impossible=known.impossible,
    )
    if known.interrupted or not 0 < partition.bottleneck < math.inf or partition.kind_names:
        return found, known.interrupted
    nodes = np.flatnonzero(partition.block == found.slowest).tolist()
    with catch_interrupt() as interrupted:
        cut = pinned(partition, Deadline.after(options.time_limit, interrupted).share(_CUTS), nodes).bound
    return replace(found, cut=cut), interrupted.is_set()


def _is_more(cost: float, other: float) -> bool:
    """Whether a cost is larger by more than what counts as the same."""
    return cost > other * (1 + PROOF_TOLERANCE)


def explain_partition(
    result: Result,
    options: SolveOptions,
    on_progress: Callable[[Progress], None] | None = None,
    on_fault: Callable[[SolverNotAvailableError], None] | None = None,
) -> tuple[Findings, bool]:
    """Find out about the partition of a result as `explain`; its bound is stated.

    Raises
    ------
    InputError
        If there is no partition, or the bound is above its cost.
    """
    if result.partition is None:
        raise InputError(f"{result.method} found no partition, so that there is nothing to explain; give one.")
    stated = [] if result.bound is None else [result.bound]
    return explain(result.partition, options, stated=stated, on_progress=on_progress, on_fault=on_fault)
