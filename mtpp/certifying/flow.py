"""Certification of a flow: search and bounds, in turns, until they meet or time is up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from heuristics import Limits
from heuristics.flow.search import search_flow
from instances import Result, combine
from instances.deadline import Deadline
from instances.flow.answer import FlowAnswer
from instances.flow.problem import FlowInstance
from instances.system.interrupts import catch_interrupt
from mtpp_models import Progress
from mtpp_models.flow.bounds import bound_flow

__all__ = ["FlowResult", "certify_flow", "find_flow"]

#: Outcome of a search for layers of devices, or of its certification.
FlowResult = Result[FlowInstance, FlowAnswer]

# Part of the time left for the first search, and for bounds behind it.
_SEARCH, _PROVE = 0.2, 0.4
# A gap that bounds by parts of a flow cannot close.
_RESOLUTION = 1e-4


def find_flow(
    instance: FlowInstance, seed: int, time_limit: float | None, start: FlowAnswer | None = None
) -> FlowResult:
    """Search alone; Ctrl-C ends it and keeps the best."""
    with catch_interrupt() as interrupted:
        limits = Limits(Deadline.after(time_limit, interrupted))
        return search_flow(instance, np.random.default_rng(seed), limits, start)


def certify_flow(
    instance: FlowInstance,
    seed: int,
    time_limit: float | None,
    on_progress: Callable[[Progress], None] = lambda moment: None,
) -> FlowResult:
    """Search, prove, and search again up to what is proved; its `parts` hold the bounds of all methods."""
    with catch_interrupt() as interrupted:
        deadline, rng = Deadline.after(time_limit, interrupted), np.random.default_rng(seed)
        found = search_flow(instance, rng, Limits(deadline.share(_SEARCH)))
        if found.impossible is not None:
            return found
        best: FlowResult = found
        answers = [found, *bound_flow(instance, best.answer, deadline.share(_PROVE), _telling(best, on_progress))]
        best = combine(*answers)
        on_progress(_moment(best))
        if best.bound is not None and (best.gap or 0.0) > _RESOLUTION and not deadline.passed:
            limits = Limits(deadline.share(1 - _PROVE), target=best.bound.value * (1 + 1e-6))
            answers.append(search_flow(instance, rng, limits, best.answer))
            again = combine(*answers)
            if again.cost != best.cost:
                answers += bound_flow(instance, again.answer, deadline)
        kept = _best_of_each(answers)
        return replace(combine(*kept), interrupted=interrupted.is_set())


def _best_of_each(answers: list[FlowResult]) -> list[FlowResult]:
    """Of each method the best bound, and all that have none."""
    best: dict[str, FlowResult] = {}
    for answer in answers:
        known = best.get(answer.method)
        if answer.bound and (known is None or known.bound is None or answer.bound.value > known.bound.value):
            best[answer.method] = answer
    return [answer for answer in answers if answer.bound is None or answer is best[answer.method]]


def _moment(known: FlowResult) -> Progress:
    bound = None if known.bound is None else known.bound.value
    return Progress("flow", known.spent, known.cost, bound, None)


def _telling(known: FlowResult, on_progress: Callable[[Progress], None]) -> Callable[[str, float], None]:
    return lambda method, flow: on_progress(Progress(method, known.spent, known.cost, 1 / flow if flow else None, None))
