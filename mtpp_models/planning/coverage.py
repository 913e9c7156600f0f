"""Lower bounds on the time of an iteration, each named by the plans that it covers.

=========  ====================================================================
fixed      a device runs one stage, backward passes are in one piece
split      a device runs one stage, backward passes may be split
any        all plans, with interleaved stages too
=========  ====================================================================

Devices, replicas, cuts and schedules are free in all of them. Replicas of a stage do alike at once; servers that run
pipelines of their own (HetPipe) are not covered.
"""

from __future__ import annotations

import math

import numpy as np

from instances import Bound, InputError
from instances.planning import Plan, Timeline, TrainingInstance
from instances.planning.link_speeds import fastest_speeds
from instances.planning.makespan_bound import least_z
from mtpp_models.planning.shared_cards_bound import least_z_on_servers

__all__ = ["CLASSES", "bounds_by_coverage", "class_of", "port_bound", "work_bound"]

#: Descriptions of the classes of plans, the narrowest first.
CLASSES = {
    "fixed": "any plan with one stage a device and backward passes in one piece",
    "split": "any plan with one stage a device, backward passes split or not",
    "any": "any plan, interleaved or not",
}

#: States of the program that knows servers; more take too long, and it is left out.
_MOST_STATES = 4_500_000
#: States that take seconds.
_LARGE = 1_000_000


def bounds_by_coverage(
    instance: TrainingInstance, ceiling: float = math.inf, *, hurried: bool = False, stopped: bool = False
) -> dict[str, Bound]:
    """Bounds on the time on shared network cards, by class of plans; a bound of a wider class holds for a narrower one.

    Parameters
    ----------
    instance : TrainingInstance
        With a network.
    ceiling : float
        Bounds of the classes are at most that; a time of the class makes it faster [s].
    hurried : bool
        Whether a large question gets one program without servers, for split backward passes; its bound holds for
        unsplit ones as well.
    stopped : bool
        Whether no program runs at all, so that an even share of the work is the bound of every class.

    Raises
    ------
    InputError
        If no plan fits into memory.
    """
    work = work_bound(instance)
    if stopped:
        return {"fixed": work, "split": work, "any": work}
    if hurried and _states(instance) > _LARGE:
        both = Bound(max(_without_servers(instance, ceiling, split=True), work.value), "z-split")
        if math.isinf(both.value):
            raise instance.no_plan
        return {"fixed": both, "split": both, "any": work}
    fixed = _least(instance, ceiling, split=False)
    if math.isinf(fixed):
        raise instance.no_plan
    split = min(_least(instance, min(ceiling, fixed), split=True), fixed)
    return {
        "fixed": Bound(max(fixed, work.value), "z-fixed"),
        "split": Bound(max(split, work.value), "z-split"),
        "any": work,
    }


def class_of(timeline: Timeline) -> str:
    """The narrowest class that holds a plan with its order."""
    if timeline.interleaved:
        return "any"
    return "split" if timeline.split else "fixed"


def port_bound(plan: Plan) -> float:
    """Time that the busiest port is loaded in an iteration of this plan, whatever its order [s]."""
    M, S = plan.instance.microbatches, plan.n_stages
    loads = M * plan.loads[: 2 * S - 2].sum(axis=0) + plan.loads[2 * S - 2 :].sum(axis=0)
    return float(loads.max(initial=0.0))


def _least(instance: TrainingInstance, ceiling: float, *, split: bool) -> float:
    if _states(instance) > _MOST_STATES:
        return _without_servers(instance, ceiling, split=split)
    return min(least_z_on_servers(instance, ceiling, split=split), _at_once(instance))


def _without_servers(instance: TrainingInstance, ceiling: float, *, split: bool) -> float:
    value = least_z(instance, fastest_speeds(instance.cluster), ceiling, allow_idle=True, split=split)
    return min(value, _at_once(instance))


def _states(instance: TrainingInstance) -> int:
    """Estimate the number of states of the program with servers."""
    return int(instance.chain.n * instance.cluster.n**2 * (2 * max(instance.cluster.servers) + 2))


def _at_once(instance: TrainingInstance) -> float:
    """Bound of the one plan that takes all samples at once, which rounds them up less; infinite if none does."""
    if instance.samples is None:
        return math.inf
    try:
        return Plan(instance, (0, instance.chain.n), (tuple(range(instance.cluster.n)),)).makespan_bound
    except InputError:
        return math.inf


def work_bound(instance: TrainingInstance) -> Bound:
    """An even share of all work, which whole samples or uneven shares only add to [s]; it needs no program."""
    rows = np.diff(instance.arrays.forward + instance.arrays.backward, axis=1).min(axis=0)
    if instance.samples is not None:
        rows = instance.chain.forward + instance.chain.backward
    return Bound(float(instance.microbatches * rows.sum() / instance.cluster.n), "work-any")
