"""One run of a heuristic as a `Result`: the twin of `mtpp_models.solve`."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from heuristics.method import Limits, Method
from heuristics.registry import HEURISTICS, go_on, heuristic_of
from instances import Instance, Partition, Result
from instances.deadline import Stopwatch
from instances.errors import NothingFoundError, OneKindError
from instances.partitioning.memory import proof_of_no_fit
from instances.partitioning.peaks import with_least_peaks
from instances.results import Recorder


def search(
    instance: Instance,
    method: str | Method[Instance, Partition] | Callable[..., Partition],
    rng: np.random.Generator,
    limits: Limits | None = None,
    *,
    start: Partition | None = None,
) -> Result:
    """Search for a partition.

    Parameters
    ----------
    instance : Instance
        The question.
    method : str, Method or callable
        A name of `HEURISTICS`, a heuristic, or a function of an instance, a generator and `Limits` that returns a
        `Partition`.
    rng : numpy.random.Generator
        Source of all randomness of the heuristic.
    limits : Limits, optional
        None by default: the heuristic's own number of evaluations.
    start : Partition, optional
        Partition from which `portfolio` and `local-search` begin; the others ignore it.

    Returns
    -------
    Result
        Without a bound, and without a partition where none was found that obeys the constraints and fits; `impossible`
        says why none can fit where sums show it, and `interrupted` whether the deadline was.

    Raises
    ------
    InputError
        If the heuristic is unknown, or is for devices that are alike, and those of the question are not.

    Examples
    --------
    >>> from instances import ComputationGraph, Platform
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[1, 1, 2], output_bytes=[1, 0, 0])
    >>> search(Instance(graph, Platform(k=2, bandwidth=1)), "kahn", np.random.default_rng(0)).partition.bottleneck
    2.0
    """
    heuristic, partition = heuristic_of(method), None
    name = heuristic.name
    if heuristic.kinds == "one" and not instance.is_alike:
        others = [other.name for other in HEURISTICS.values() if other.kinds == "any"]
        raise OneKindError(f"{name} is for devices that are all alike; use {' or '.join(others)}.")
    if (reason := proof_of_no_fit(instance)) is not None:
        return Result(name, instance, impossible=reason)
    limits, watch, recorder = limits or Limits(), Stopwatch(), Recorder()
    with suppress(NothingFoundError):
        candidate = None if start is None else go_on(name, start, rng, limits)
        candidate = with_least_peaks(candidate or heuristic.run(instance, rng, limits))
        partition = candidate if candidate.bottleneck < math.inf else None
    spent, interrupted = watch.seconds(search=watch.passed), limits.deadline.interrupted.is_set()
    recorder.note(name, None if partition is None else partition.bottleneck, None, end=True)
    return Result(name, instance, partition, seconds=spent, interrupted=interrupted, moments=recorder.moments)
