r"""A bound for plans whose devices run several stages in turns, in Megatron-LM's order.

For a model of equal layers with one layer before and one after them, as language models have. Group g of S holds some
of the equal layers, the first group also what comes before, the last one what comes after. In this order it keeps at
least min(S, 2 (S - g) - 1) microbatches of all its layers at once, as it begins with :math:`(v - 1) S + 2 (S - g) -
1` forward passes, S of each turn but the last, and S divides M. So its layers take M τ, τ the time of both passes
with the least recomputation that fits, and that lies between g forward and g backward passes of other groups, of one
layer or more each: :math:`T ≥ M τ + g λ`, λ both passes of a layer at the highest speed (of the first group any
layer).

A time is impossible if, for all degrees and S, groups that stay below it cannot hold all layers: the most layers of
each group and degree are added up by a program over devices. The bound is the largest such time, by bisection.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instances.graph.tensors import FloatArray
from instances.planning.grid.arrays import GridArrays
from instances.planning.grid.plan import GridPlan
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.program import StageCosts, stage_costs
from instances.planning.grid.settings import Setting, even_work

__all__ = ["turns_bound"]

_STEPS = 24


def turns_bound(plan: GridPlan, settings: Sequence[tuple[Setting, GridArrays]]) -> float | None:
    """Time that no plan in turns is below, at most that of this plan [s]; None if the layers are of other kinds."""
    question, high, rooms = plan.instance, plan.time, list[_Room]()
    if question.layers < 4 or any(len({layer.kind for layer in c.layers[1:-1]}) > 1 for c in question.chains):
        return None
    for setting, arrays in settings:
        if even_work(question, setting, arrays) < high:
            rooms.append(_Room(question, setting, arrays))
    low = min([high, *(even_work(question, *one) for one in settings)])
    if not any(room.holds(high) for room in rooms):
        return high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if any(room.holds(middle) for room in rooms):
            high = middle
        else:
            low = middle
    return low


class _Room:
    """Times of groups of one setting by their numbers of equal layers."""

    def __init__(self, question: GridInstance, setting: Setting, arrays: GridArrays) -> None:
        self.M = question.global_batch // (setting.pipelines * setting.micro_batch)
        self.K = question.servers.devices // (setting.pipelines * setting.context)
        self.equal, fixed = question.layers - 2, question.fixed.pp
        most = min(self.equal, self.K)
        self.groups = [S for S in range(1, most + 1) if self.M % S == 0 and fixed in (None, S)]
        held = min(self.M, max(self.groups, default=1))
        self.costs: StageCosts = stage_costs(question, arrays, setting, held)
        L, tau = question.layers, self.costs.tau
        counts = np.arange(1, self.equal + 1)
        self.inner = tau[:, :, 1, 1 + counts]  # (H, T, L - 2)
        self.first = tau[:, :, 0, 1 + counts]
        self.last = tau[:, :, L - 1 - counts, L]
        self.whole = tau[:, :, 0, L]
        self.layer = float(self.costs.floor[:, 1].min())
        self.any_layer = float(self.costs.floor.min())

    def holds(self, ceiling: float) -> bool:
        """Whether some number of groups may hold all layers below a time."""
        return any(self._holds(S, ceiling) for S in self.groups)

    def _holds(self, S: int, ceiling: float) -> bool:
        if S == 1:
            return bool((self.M * self.whole[0][self.costs.degrees <= self.K] < ceiling).any())
        covered = np.zeros(self.K + 1)
        for s in range(1, S + 1):
            before = S - s
            budget = ceiling - (self.any_layer + (before - 1) * self.layer if before else 0.0)
            table: FloatArray = self.last if s == 1 else self.first if s == S else self.inner
            most = (self.M * table[min(S, 2 * s - 1) - 1] < budget).sum(axis=1)
            more = np.full(self.K + 1, -np.inf)
            for t, number in zip(self.costs.degrees.tolist(), most.tolist(), strict=True):
                if number and t <= self.K:
                    more[t:] = np.maximum(more[t:], covered[: self.K + 1 - t] + number)
            covered = more
        return bool(covered.max() >= self.equal)
