"""Measures of the study besides the planners' own answers: guarantees, both sides of cuts, cycles, Table III."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from experiments.studies.spp.paper import BASELINES
from heuristics.planning import PLANNERS
from heuristics.planning.execution import iteration_time, pe
from heuristics.planning.spp import fastest, plans_by_stages, recursive_device_order, spp, spp_plans
from instances import InputError
from instances.planning import Iteration, TrainingInstance
from mtpp_models.planning.bounds import iteration_bound, lemma_1, lemma_2, theorem_1

#: A spread below this is "stable" or "similar".
STABLE = 1.15

#: Speed of links over the stated one, and time of an AllReduce over that of equation (1).
SETTINGS = tuple(product((1.0, 0.5, 0.25, 0.125, 0.0625), (1.0, 2.0, 4.0)))


def both_sides(instance: TrainingInstance) -> float:
    """Time of SPP with the better device order: the smaller or the larger side of each cut first [s]."""
    larger = recursive_device_order(instance.cluster, smaller_first=False)
    plan = fastest(instance, [*spp_plans(instance), *plans_by_stages(instance, larger, pe)])
    return iteration_time(plan, pe(plan.n_stages, instance.microbatches))


def guarantees(instance: TrainingInstance) -> dict[str, list[float]]:
    """Both sides of the inequalities of Lemma 1, Lemma 2 and Theorem 1 [s]."""
    iteration = spp(instance)
    (schedule,) = iteration.schedules
    least = min(plan.workload for plan in spp_plans(instance) if plan is not None)
    bound = iteration_bound(instance, allow_idle=False, ceiling=iteration.time)
    inequalities = (lemma_1(schedule), lemma_2(instance, least), theorem_1(instance, iteration.time, bound.value))
    return {inequality.name: [inequality.left, inequality.right] for inequality in inequalities}


def calibrated(instance: TrainingInstance) -> dict[str, Any]:
    """Times of the planners of Table III in all `SETTINGS`, in their order, and bytes on a device in the first."""
    times: dict[str, list[float | None]] = {}
    needs = {}
    for planner in ("spp", *BASELINES):
        iterations = [_answer(planner, _at(instance, *setting)) for setting in SETTINGS]
        times[planner] = [None if iteration is None else iteration.time for iteration in iterations]
        needs[planner] = None if iterations[0] is None else max(_memory(iterations[0]))
    return {"settings": times, "needs": needs}


def cycles(stages: int, microbatches: int) -> int:
    """Cycles of PE's queues: in each, every block that has a microbatch passes one on (Algorithm 1)."""
    waiting, count = [microbatches] + [0] * (4 * stages - 4), 0
    while any(waiting):
        served = [queue > 0 for queue in waiting]
        waiting = [
            queue - now + before for queue, now, before in zip(waiting, served, [False, *served[:-1]], strict=True)
        ]
        count += 1
    return count


def flat_from(workloads: Sequence[float]) -> int:
    """Number of stages from which on W is stable, that of the plan with one stage being first.

    Examples
    --------
    >>> flat_from([4.0, 2.0, 1.1, 1.0, 1.05])
    3
    """
    tails = (workloads[first:] for first in range(len(workloads)))
    return next(i for i, tail in enumerate(tails, start=1) if max(tail) < STABLE * min(tail))


def _at(instance: TrainingInstance, speed: float, synchronisation: float) -> TrainingInstance:
    """The question with bandwidth times `speed`, and AllReduces `synchronisation` times as long; memory stays."""
    chain, cluster = instance.chain, instance.cluster
    return replace(
        instance,
        chain=replace(chain, param_bytes=chain.param_bytes * synchronisation),
        cluster=replace(cluster, bandwidth=cluster.bandwidth * speed),
        parameter_copies=instance.parameter_copies / synchronisation,
    )


def _answer(planner: str, instance: TrainingInstance) -> Iteration | None:
    try:
        return PLANNERS[planner].run(instance, np.random.default_rng(0))
    except InputError:
        return None


def _memory(iteration: Iteration) -> Iterator[float]:
    """Bytes on the fullest device of each pipeline; one stage alone keeps all its samples of the iteration at once."""
    for schedule in iteration.schedules:
        plan, alone = schedule.plan, schedule.plan.n_stages == 1
        yield float((plan.memory_needed([plan.instance.microbatches]) if alone else schedule.memory_needed).max())
