"""Certified partitions to split models by, and the bandwidth between processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from heuristics import Limits, search
from instances import InputError, Instance, Partition, Result
from instances.deadline import Deadline
from instances.system.interrupts import catch_interrupt
from mtpp.certifying.certify import certify
from mtpp.stages.links import measure_link
from mtpp.stages.runner import StageError
from mtpp_models import Progress, SolveOptions, SolverNotAvailableError, solve

__all__ = ["find_answers", "measured_bandwidth"]


def find_answers(
    instance: Instance,
    options: SolveOptions,
    *,
    given: Partition | None = None,
    method: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_fault: Callable[[SolverNotAvailableError], None] | None = None,
) -> list[Result]:
    """The partition to split by, and what is proved of it.

    Parameters
    ----------
    instance : Instance
        The question.
    options : SolveOptions
        Solver, time limit and seed.
    given : Partition, optional
        One that is kept; the time is for bounds then.
    method : str, optional
        A search to use alone, with the bound *simple*; otherwise all methods take turns as in `certify`.
    on_progress, on_fault
        As for `certify`.

    Returns
    -------
    list of Result
        Without a partition if none was found.
    """
    if method is None:
        best = certify(instance, options, start=given, on_progress=on_progress, on_fault=on_fault)
        answers = list(best.parts)
    else:
        answers = _quickly(instance, given, method, options)
    if given is None:
        return answers
    return [*(replace(answer, answer=None) for answer in answers), Result("given", instance, given)]


def _quickly(instance: Instance, given: Partition | None, method: str, options: SolveOptions) -> list[Result]:
    result = Result("given", instance, given)
    if given is None:
        with catch_interrupt() as interrupted:
            limits = Limits(Deadline.after(options.time_limit, interrupted))
            result = search(instance, method, np.random.default_rng(options.seed), limits)
    return [result, solve(instance, "simple", options, start=result.partition)]


def measured_bandwidth() -> float:
    """Bytes per second between processes of this machine.

    Raises
    ------
    InputError
        If it cannot be measured.
    """
    try:
        return measure_link().bandwidth
    except StageError as error:
        raise InputError(f"the bandwidth of this machine: {error}") from None
