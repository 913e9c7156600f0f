"""The most that a decoder serves with any number of batches in flight and any tick, by branch and bound over both.

A bracket is a number of batches in flight and ticks from a first to a last one. What each device serves in it at the
most makes a question without steps; where that lets no more pass than the best flow, the bracket is closed, and else
cut in two. Of a single tick it is the question itself.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

from instances import Bound, Result
from instances.deadline import Deadline, Stopwatch
from instances.flow.answer import FlowAnswer
from instances.flow.problem import FlowInstance
from mtpp_models.flow.bounds import ends, shared_layers
from mtpp_models.flow.enumeration import enumerate_above, is_small
from mtpp_models.flow.weights import exclude

# Relative: what is no more than the best flow, by how much more weights exclude, and what is stated is raised by.
_EQUAL, _CLOSE, _SAFE = 1e-9, 2e-5, 4e-9
# Branches over the layers of devices for a bracket, and those that a bracket counts as.
_BRANCHES, _BRACKET = 50_000, 100


class Bracket(NamedTuple):
    """Ticks with a number of batches in flight."""

    order: float  # the most that passes, negative [requests/s]
    in_flight: int
    first: int  # of the ticks with so many batches
    last: int
    method: str  # whose bound it is
    weights: list[float]  # of the kinds, where they exclude more


def bound_ticks(
    instance: FlowInstance, branches: int, start: FlowAnswer | None = None, deadline: Deadline | None = None
) -> Result[FlowInstance, FlowAnswer]:
    """A bound on the time of a request, and the best answer that it comes across.

    Parameters
    ----------
    branches : int
        Over layers of devices, for all brackets together.
    start : FlowAnswer, optional
        The answer is no worse.
    """
    assert instance.steps is not None
    deadline, watch, best = deadline or Deadline(), Stopwatch(), start
    if (reason := instance.unreachable()) is not None:
        return Result("ticks", instance, impossible=reason, seconds=watch.seconds(bound=watch.passed))
    ticks: dict[int, list[float]] = {m: instance.steps.ticks(m).tolist() for m in instance.numbers_in_flight}
    waiting = [_bracket(instance, ticks, m, 0, len(times) - 1) for m, times in ticks.items() if times]
    heapq.heapify(waiting)
    closed, flow, open_ones = list[Bracket](), 0.0 if best is None else best.flow, list[Bracket]()
    while waiting and -waiting[0].order > flow * (1 + _EQUAL) and branches > 0 and not deadline.passed:
        bracket = heapq.heappop(waiting)
        inside = _inside(instance, ticks, bracket)
        largest = enumerate_above(inside, flow, min(branches, _BRANCHES), deadline)
        branches -= _BRACKET + (largest.branches if largest is not None else _BRANCHES if is_small(inside) else 0)
        if largest is not None and largest.interval is not None:
            answer = FlowAnswer(instance, largest.interval)
            if answer.flow > flow:
                best, flow = answer, answer.flow
        if largest is not None and (largest.interval is None or bracket.first == bracket.last):
            closed.append(bracket._replace(order=-flow, method="enumeration"))
            continue
        above = flow * (1 + _CLOSE)
        weights = exclude(inside, above, deadline) if largest is None and flow > 0 else None
        if weights is not None and not weights.has_links:
            closed.append(bracket._replace(order=-above, method="patterns", weights=weights.weights[0]))
        elif bracket.first == bracket.last:
            open_ones.append(bracket)
            break
        else:
            middle = (bracket.first + bracket.last) // 2
            for first, last in ((bracket.first, middle), (middle + 1, bracket.last)):
                heapq.heappush(waiting, _bracket(instance, ticks, bracket.in_flight, first, last))
    leaves = [*closed, *open_ones, *waiting]
    most = max([flow, *(-bracket.order for bracket in leaves)])
    if most <= 0:
        reason = "whatever layers the devices hold and batches are in flight, no request passes"
        return Result("ticks", instance, impossible=reason, seconds=watch.seconds(bound=watch.passed))
    rows = [_written(ticks, bracket) for bracket in sorted(leaves, key=lambda bracket: bracket[1:3])]
    bound = Bound(1 / (most * (1 + _SAFE)), "ticks", True, {"brackets": rows})
    return Result("ticks", instance, best, bound, watch.seconds(bound=watch.passed))


def _bracket(instance: FlowInstance, ticks: dict[int, list[float]], in_flight: int, first: int, last: int) -> Bracket:
    """A bracket with the better of two bounds by formulas."""
    bracket = Bracket(0.0, in_flight, first, last, "shared-layers", [])
    inside = _inside(instance, ticks, bracket)
    flow, through = shared_layers(inside), ends(inside)
    return bracket._replace(order=-min(flow, through), method="ends" if through < flow else "shared-layers")


def _inside(instance: FlowInstance, ticks: dict[int, list[float]], bracket: Bracket) -> FlowInstance:
    """The question of a bracket; before its first tick what ends in time is that of the bracket before."""
    times = ticks[bracket.in_flight]
    return instance.at(bracket.in_flight, times[bracket.first], times[bracket.last])


def _written(ticks: dict[int, list[float]], bracket: Bracket) -> list[Any]:
    """The bracket in a file: batches in flight, the first and the last tick, the method, and perhaps weights."""
    times = ticks[bracket.in_flight]
    return [bracket.in_flight, times[bracket.first], times[bracket.last], bracket.method, bracket.weights]
