"""Beyond SPP: plans of least makespan bound along several device orders, then annealing of the makespan.

W, which SPP minimises, charges its AllReduce to every stage and knows nothing of how long the pipeline takes to fill
and to drain. The bound Z does, and the simulated makespan is what counts in the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from heuristics.limits import Limits
from heuristics.planning.arrays import PlanState
from heuristics.planning.device_order import recursive_device_order
from heuristics.planning.execution import execute, iteration_time, steady
from heuristics.planning.kernels import anneal_plan
from heuristics.planning.spp import spp_plans
from instances.graph.tensors import IntArray
from instances.planning import Iteration, Plan, TrainingInstance
from instances.planning.link_speeds import speeds_along
from instances.planning.makespan_bound import z_points

__all__ = ["device_orders", "improved", "least_bound_plans"]

#: Candidates of each number of stages along each order, and the largest number of stages that is searched.
_PLANS, _STAGES = 8, 16
#: Annealing: plans to start from, of different numbers of stages; most changes of each; operations simulated in all;
#: first and last temperature.
_STARTS, _STEPS, _OPERATIONS, _HOT, _COLD = 4, 100_000, 80_000_000, 0.005, 0.0002


class _Candidate(NamedTuple):
    time: float
    plan: Plan
    distance: int  # of `steady`; 4 is PE's


def improved(instance: TrainingInstance, rng: np.random.Generator, limits: Limits | None = None) -> Iteration:
    """Plan for the simulated makespan; never worse than SPP.

    An interrupt counts from the first plan on; limits are checked before each annealing; an evaluation is a change of
    one annealing, a target a time.

    Raises
    ------
    InputError
        If no plan fits into memory.
    """
    found = list(_fitting((plan for plan in spp_plans(instance) if plan is not None), (4,)))
    ceiling = min((candidate.time for candidate in found), default=np.inf)
    limits = limits or Limits()
    for order in device_orders(instance):
        if found and limits.deadline.interrupted.is_set():
            break
        found += _fitting(least_bound_plans(instance, order, ceiling), (1, 2, 3, 4, instance.microbatches))
    if not found:
        raise instance.no_plan
    found.sort(key=lambda candidate: candidate.time)
    best_by_stages = {candidate.plan.n_stages: candidate for candidate in reversed(found)}
    starts = sorted(best_by_stages.values(), key=lambda candidate: candidate.time)[:_STARTS]
    for start in starts:
        if not limits.reached(min(candidate.time for candidate in found)):
            found.append(_annealed(start, rng, limits))
    best = min(found, key=lambda candidate: candidate.time)
    warmup = steady(best.plan.n_stages, instance.microbatches, best.distance)
    return Iteration(instance, (execute(best.plan, warmup),))


def _fitting(plans: Iterable[Plan], distances: Sequence[int]) -> Iterator[_Candidate]:
    """Plans with each of the distances that leave them in memory."""
    for plan in plans:
        for distance in distances:
            warmup = steady(plan.n_stages, plan.instance.microbatches, distance)
            if (plan.memory_needed(warmup) <= plan.instance.memory).all():
                yield _Candidate(iteration_time(plan, warmup), plan, distance)


def device_orders(instance: TrainingInstance) -> list[IntArray]:
    """Orders of the devices that are tried."""
    cluster = instance.cluster
    order = recursive_device_order(cluster)
    return [order, order[::-1], recursive_device_order(cluster, smaller_first=False), np.arange(cluster.n)]


def least_bound_plans(instance: TrainingInstance, order: IntArray, ceiling: float) -> Iterator[Plan]:
    """Plans along `order` with the least bounds Z below `ceiling`, a few of each number of stages."""
    levels = min(instance.chain.n, instance.cluster.n, _STAGES)
    in_flight = steady(levels, instance.microbatches, 1)[::-1]
    points = z_points(
        instance, speeds_along(instance.cluster, order, instance.ports), ceiling, in_flight, allow_idle=True
    )
    taken: Counter[int] = Counter()
    for point in points.first.tolist():
        cuts, replicas, start = points.stages(point)
        taken[len(replicas)] += 1
        if taken[len(replicas)] <= _PLANS:
            yield Plan.along(instance, cuts, replicas, order[start:])


def _annealed(start: _Candidate, rng: np.random.Generator, limits: Limits) -> _Candidate:
    instance, stages = start.plan.instance, start.plan.n_stages
    steps = min(_STEPS, _OPERATIONS // (_STARTS * 4 * stages * instance.microbatches))
    steps = limits.allow(steps)
    state = PlanState.of(start.plan, start.distance)
    _, best = anneal_plan(instance.arrays, state, steps, _HOT, _COLD, int(rng.integers(2**31)))
    plan, distance = best.plan(instance), int(best.counts[1])
    warmup = steady(plan.n_stages, instance.microbatches, distance)
    return _Candidate(iteration_time(plan, warmup), plan, distance)
