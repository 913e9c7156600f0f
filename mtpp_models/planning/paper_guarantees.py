r"""Guarantees of the paper for its planner, as inequalities that can be checked, and a stronger bound.

With :math:`\Gamma = \sum_l (p^f_l + p^b_l) / V`, the most work of a layer :math:`p_{max}`, the most bytes between two
layers :math:`d_{max}` and the slowest and fastest links :math:`b_{min}, b_{max}`,

.. math::

    \Phi = \frac{\max(p_{max} b_{max}, d_{max})}{\Gamma} \Big( \frac{1}{b_{min}} - \frac{1}{b_{max}} \Big).

The optima on the right hand sides are not known. A lower bound in their place makes an inequality stronger, so if that
holds, so does the one of the paper; otherwise nothing is decided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from instances import Bound, InputError
from instances.planning import Timeline, TrainingInstance
from instances.planning.link_speeds import fastest_speeds
from instances.planning.makespan_bound import least_z

__all__ = ["COVERED", "Guarantee", "iteration_bound", "lemma_1", "lemma_2", "link_factor", "theorem_1"]

#: The plans that `iteration_bound` speaks of.
COVERED = "any plan with one stage a device, backward unsplit and links that share nothing"

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Guarantee:
    """An inequality: `left` is at most `right`."""

    name: str
    statement: str
    left: float  # seconds
    right: float  # seconds

    @property
    def slack(self) -> float:
        """Right over left, less 1; infinite if the left side is 0."""
        return self.right / self.left - 1 if self.left > 0 else math.inf

    @property
    def holds(self) -> bool:
        """Whether it is true, up to rounding."""
        return self.left <= self.right * (1 + _ROUNDING)

    def __str__(self) -> str:
        verdict = f"holds, slack {self.slack:.1%}" if self.holds else "not decided"
        return f"{self.name}: {self.statement}: {self.left:.6g} ≤ {self.right:.6g} s, {verdict}"


def iteration_bound(instance: TrainingInstance, *, allow_idle: bool = True, ceiling: float = math.inf) -> Bound:
    """Lower bound on the time of any plan with one stage a device, on any devices and in any schedule.

    Z-DP with links between any groups of devices as fast as they can be. The backward pass of a stage is one piece, and
    transfers over different links do not slow each other down. Not covered are devices with several stages, as in
    interleaved schedules, backward passes that are split, and, as what replicas do alike they do at once, servers that
    run pipelines of their own (HetPipe).

    Parameters
    ----------
    allow_idle : bool
        Whether plans that leave devices idle count.
    ceiling : float
        The bound is at most that; a known time makes it faster [s].

    Raises
    ------
    InputError
        If no plan fits into memory.
    """
    value = least_z(instance, fastest_speeds(instance.cluster), ceiling, allow_idle=allow_idle)
    if math.isinf(value):
        raise instance.no_plan
    return Bound(value, "z-any-order")


def lemma_1(schedule: Timeline) -> Guarantee:
    """PE takes at most M + 4 S - 4 cycles and the longest AllReduce, for a schedule by PE."""
    plan = schedule.plan
    cycles = plan.instance.microbatches + 4 * plan.n_stages - 4
    most = cycles * plan.cycle_time + float(plan.allreduce_time.max())
    return Guarantee("Lemma 1", "T_PE ≤ (M + 4 S - 4) C + max A", schedule.makespan, most)


def lemma_2(instance: TrainingInstance, workload: float) -> Guarantee:
    """The least W of PRM, over all numbers of stages, is at most 1 + Φ times that of any plan on all devices.

    Every plan has W of at least M Γ, the work of a device.

    Raises
    ------
    InputError
        If replicas do not share the work evenly, which the lemma takes for granted.
    """
    least = instance.microbatches * _work(instance)
    return Guarantee("Lemma 2", "W_PRM ≤ (1 + Φ) W*, W* ≥ M Γ", workload, (1 + link_factor(instance)) * least)


def theorem_1(instance: TrainingInstance, time: float, bound: float) -> Guarantee:
    """SPP takes at most (2 + (4 V - 4) / M) (1 + Φ) times as long as any plan on all devices.

    The time is that of SPP, and no plan on all devices goes below the bound, both in seconds.

    Raises
    ------
    InputError
        If replicas do not share the work evenly, or in full duplex, where W is no bound.
    """
    if instance.full_duplex:
        raise InputError("Theorem 1 does not hold for channels in full duplex; use half duplex.")
    factor = (2 + (4 * instance.cluster.n - 4) / instance.microbatches) * (1 + link_factor(instance))
    return Guarantee("Theorem 1", "T_SPP ≤ (2 + (4 V - 4) / M) (1 + Φ) T*, T* ≥ bound", time, factor * bound)


def link_factor(instance: TrainingInstance) -> float:
    """Φ; 0 if all links are equal, infinite where one is missing."""
    chain, links = instance.chain, instance.cluster.links
    gamma = _work(instance)
    if not links.size or links.min() == links.max():
        return 0.0
    if links.min() == 0 or gamma == 0:
        return math.inf
    work = float((chain.forward + chain.backward).max())
    size = float((chain.forward_bytes + chain.backward_bytes).max(initial=0.0))
    return max(work * links.max(), size) / gamma * (1 / links.min() - 1 / links.max())


def _work(instance: TrainingInstance) -> float:
    """Γ, the work of a device on a microbatch [s]."""
    if instance.replica_share is not None:
        raise InputError(
            "The guarantees of the paper need replicas that share the work evenly; leave replica_share out."
        )
    return instance.chain.time / instance.cluster.n
