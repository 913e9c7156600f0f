"""Plans whose stages all have as many replicas, as runtimes want them.

For each number of stages that divides the devices, layers are cut for the least largest compute time by an exact
program, devices taken in the order of `recursive_device_order`; then single cuts move while the simulated time falls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from heuristics.limits import Limits
from heuristics.planning.device_order import recursive_device_order
from heuristics.planning.orders import execute_orders, portfolio
from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray
from instances.planning import Iteration, Plan, Timeline, TrainingInstance

__all__ = ["equal_replicas"]

_STAGES = 64


def equal_replicas(
    instance: TrainingInstance, legal: Callable[[Plan], bool], orders: str = "auto", limits: Limits | None = None
) -> Iteration:
    """Plan on all devices with equal stages in numbers of replicas.

    Parameters
    ----------
    instance : TrainingInstance
        On shared network cards.
    legal : callable
        Whether a plan may be the answer.
    orders : str
        Of passes: "auto", "unsplit", or how their names begin.
    limits : Limits, optional
        Looked at before each move of a cut.

    Raises
    ------
    InputError
        If no such plan is legal and fits into memory.
    """
    limits, best = limits or Limits(), None
    order = recursive_device_order(instance.cluster)
    for stages in _divisors(instance.cluster.n, min(instance.chain.n, _STAGES)):
        cuts = _even(instance.chain.forward + instance.chain.backward, stages)
        found = _timed(instance, cuts, order, legal, orders)
        while found is not None and not limits.reached(found.makespan):
            moved = (_timed(instance, near, order, legal, orders) for near in _neighbours(found.plan.cuts))
            better = min((one for one in moved if one is not None), key=lambda one: one.makespan, default=found)
            if better.makespan >= found.makespan:
                break
            found = better
        if found is not None and (best is None or found.makespan < best.makespan):
            best = found
    if best is None:
        raise instance.no_plan
    return Iteration(instance, (best,))


def _divisors(devices: int, most: int) -> list[int]:
    return [stages for stages in range(1, most + 1) if devices % stages == 0]


def _even(time: FloatArray, stages: int) -> tuple[int, ...]:
    """Cuts of the least largest sum: a program over the number of stages and their last layer."""
    sums, n = np.concatenate(([0.0], np.cumsum(time))), len(time)
    largest = np.full((stages + 1, n + 1), np.inf)
    largest[0, 0] = 0
    before: IntArray = np.zeros((stages + 1, n + 1), dtype=np.int64)
    for count in range(1, stages + 1):
        for end in range(count, n + 1):
            begins = np.arange(count - 1, end)
            costs = np.maximum(largest[count - 1, begins], sums[end] - sums[begins])
            before[count, end] = begins[int(costs.argmin())]
            largest[count, end] = costs.min()
    cuts = [n]
    for count in range(stages, 0, -1):
        cuts.append(int(before[count, cuts[-1]]))
    return tuple(reversed(cuts))


def _neighbours(cuts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The same cuts with one moved by a layer."""
    for i in range(1, len(cuts) - 1):
        for cut in (cuts[i] - 1, cuts[i] + 1):
            near = (*cuts[:i], cut, *cuts[i + 1 :])
            if all(a < b for a, b in pairwise(near)):
                yield near


def _timed(
    instance: TrainingInstance, cuts: tuple[int, ...], order: IntArray, legal: Callable[[Plan], bool], orders: str
) -> Timeline | None:
    """The plan in the order of passes that ends first; None if it is not legal or does not fit."""
    stages = len(cuts) - 1
    try:
        plan = Plan.along(instance, cuts, [instance.cluster.n // stages] * stages, order.tolist())
    except InputError:
        return None
    if not legal(plan):
        return None
    named = [
        (name, passes)
        for name, passes in portfolio(plan)
        if orders == "auto" or name.startswith(orders) or (orders == "unsplit" and not name.startswith("zb"))
    ]
    timelines = [execute_orders(plan, passes, name) for name, passes in named]
    return min(timelines, key=lambda timeline: timeline.makespan, default=None)
