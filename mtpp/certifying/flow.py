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
from mtpp.certifying.loop import Loop, Method, ignore
from mtpp_models import Progress, SolveOptions
from mtpp_models.flow.bounds import bound_flow
from mtpp_models.solvers.interface import Controls

__all__ = ["FlowResult", "certify_flow", "find_flow", "flow_methods"]

#: Outcome of a search for layers of devices, or of its certification.
FlowResult = Result[FlowInstance, FlowAnswer]

# Part of the time left for the first search, and for bounds behind it.
_SEARCH, _PROVE = 0.2, 0.4
# A gap that bounds by parts of a flow cannot close.
_RESOLUTION = 1e-4
# A search ends this far above a bound, rounding aside.
_JUST_ABOVE = 1e-6


def find_flow(
    instance: FlowInstance, seed: int, time_limit: float | None, start: FlowAnswer | None = None
) -> FlowResult:
    """Search alone; Ctrl-C ends it and keeps the best."""
    with catch_interrupt() as interrupted:
        limits = Limits(Deadline.after(time_limit, interrupted))
        found = search_flow(instance, np.random.default_rng(seed), limits, start)
        return replace(found, clocked=time_limit is not None)


def certify_flow(
    instance: FlowInstance,
    seed: int,
    time_limit: float | None,
    on_progress: Callable[[Progress], None] = ignore,
) -> FlowResult:
    """Search, prove, and search again up to what is proved; its `parts` hold the bounds of all methods."""
    with catch_interrupt() as interrupted:
        deadline = Deadline.after(time_limit, interrupted)
        answers = list[FlowResult]()
        loop = Loop(instance, SolveOptions(seed=seed), deadline, answers, on_progress=on_progress)
        loop.steps(flow_methods(instance, np.random.default_rng(seed)))
        return loop.result()


def flow_methods(instance: FlowInstance, rng: np.random.Generator) -> list[Method[FlowInstance, FlowAnswer]]:
    """A search, bounds, and both once more where that can close the gap."""

    def search(best: FlowResult, controls: Controls) -> FlowResult:
        target = None if best.bound is None else best.bound.value * (1 + _JUST_ABOVE)
        return search_flow(instance, rng, Limits(controls.deadline, target=target), best.answer)

    def search_again(best: FlowResult, controls: Controls) -> FlowResult | None:
        return search(best, controls) if (best.gap or 0.0) > _RESOLUTION else None

    def prove(best: FlowResult, controls: Controls) -> FlowResult:
        def tell(_: str, flow: float) -> None:
            controls.report(Progress("bounds", 0.0, best.cost, 1 / flow if flow else None, None))

        return combine(*bound_flow(instance, best.answer, controls.deadline, tell))

    def prove_again(best: FlowResult, controls: Controls) -> FlowResult | None:
        return prove(best, controls) if best.answer is not best.parts[0].answer else None

    return [
        Method("annealing", search, _SEARCH, timeless=True),
        Method("bounds", prove, _PROVE, timeless=True, exact=True),
        Method("annealing again", search_again, 1 - _PROVE),
        Method("bounds again", prove_again, timeless=True, exact=True),
    ]
