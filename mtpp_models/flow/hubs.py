r"""Whether a flow F is impossible because few devices link all others.

Let each link between two devices end at a *hub* or begin at one. What passes from a layer to the next one stays on a
device that holds both, or leaves a hub that ends there, or enters a hub that begins there: their capacities are F or
more together, as are those of the holders of a layer. A device with c layers is at c layers, and at c - 1 of the L - 1
places between layers, at c + 1 if it is a hub.

Let a device of a class (a kind, and whether it is a hub) that holds c layers weigh :math:`a(c)` at each of its layers,
and :math:`b(c)` at each of these places. Where each multiset of devices with :math:`\sum T(c) \ge F` weighs at least p
at a layer and q at a place between layers, F is impossible if

.. math:: \sum_i \max_c \, \big(c\, a_i(c) + (c \pm 1)\, b_i(c)\big) < p L + q (L - 1).

A linear program finds the weights. Its rows are multisets that weigh least; they hold for smaller flows, too.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from instances.compiled import compiled
from instances.deadline import Deadline
from instances.flow.problem import FlowInstance
from instances.graph.tensors import FloatArray, IntArray

__all__ = ["Hubs"]

# Parts of a flow that capacities are rounded to, rounds of new rows, rows of a round, and what rounding may take.
_PARTS, _ROUNDS, _ROWS, _ROUNDING = 5_000, 300, 40, 1e-9
# What counts as less than a price, and the most that a device weighs at a layer.
_LESS, _MOST = 1e-6, 2.0
# Rows that miss their limit by more are left out of the next round.
_TIGHT = 0.03
# Ways to hold layers that a program is made for.
_MOST_WAYS = 600


class Hubs:
    """Hubs: devices such that each link between devices has one at an end, and the programs for their weights."""

    def __init__(self, instance: FlowInstance) -> None:
        self._instance, n, kinds = instance, instance.n, len(instance.capacity)
        links = instance.rates[:n, :n] + instance.rates[:n, :n].T > 0
        apart: list[int] = []  # not linked to each other, those with few links first
        for i in np.argsort(links.sum(axis=1), kind="stable").tolist():
            if not links[i, apart].any():
                apart.append(i)
        self.devices = sorted(set(range(n)) - set(apart))
        is_hub = np.isin(np.arange(n), self.devices)
        self._counts = np.bincount(2 * instance.kind + is_hub, minlength=2 * kinds)
        rows = np.where(self._counts[:, None] > 0, np.repeat(instance.capacity, 2, axis=0), 0.0)
        # Ways to hold layers: class and number of layers; layers, and places between them, where it is.
        self._group, self._layers = np.nonzero(rows > 0)
        self._capacity = rows[self._group, self._layers]
        self._times = np.array([self._layers, self._layers - 1 + 2 * (self._group % 2)])
        # Rows of the program, at most 0, and the capacity of the multiset of each.
        self._rows = np.zeros((0, len(self._counts) + 2 + 2 * len(self._group)))
        self._covered = np.zeros(0)

    @property
    def are_of_use(self) -> bool:
        """Whether fewer than half of the devices are hubs, and the program for them is not too large."""
        few = 2 * len(self.devices) < self._instance.n
        return few and self._instance.layers > 1 and len(self._group) <= _MOST_WAYS

    def exclude(self, flow: float, deadline: Deadline) -> list[list[float]] | None:
        """Weights which prove that so many requests per second cannot pass; None if none are found in time.

        They have two rows for each kind, at a layer and between layers, by number of layers from 1, and then two for
        its hubs.
        """
        ways, groups = len(self._group), len(self._counts)
        part = np.minimum(np.ceil(self._capacity / flow * _PARTS * (1 + 1e-12)), _PARTS).astype(np.int64)
        sides = np.array([self._instance.layers, self._instance.layers - 1])
        # Columns: the weight of a device of each class, p and q, weights of the ways at layers and between them.
        gain = np.concatenate((self._counts, -sides, np.zeros(2 * ways)))
        all_sides = np.concatenate((np.zeros(groups), sides, np.zeros(2 * ways)))[None]
        own = np.hstack((-np.eye(groups)[self._group], np.zeros((ways, 2)), *map(np.diag, self._times)))
        limits = [(0.0, 4.0 * self._instance.layers)] * groups + [(0.0, _MOST)] * (2 + 2 * ways)
        solution = np.zeros(len(gain))
        for _ in range(_ROUNDS):
            if deadline.passed:
                return None
            known = self._rows[self._covered >= flow]
            tight = known[known @ solution >= -_TIGHT]
            matrix = np.vstack((own, tight))
            answer = linprog(
                gain, matrix, np.zeros(len(matrix)), all_sides, [self._instance.layers], bounds=limits, method="highs"
            )
            if answer.x is None or float(gain @ answer.x) > -_ROUNDING * self._instance.layers:
                return None
            solution = answer.x
            price, weight = solution[groups : groups + 2], np.maximum(solution[groups + 2 :], 0.0).reshape(2, ways)
            more = self._add_rows(part, weight, price, flow)
            if not more and (known @ solution <= _LESS).all():
                return self._safe(part, weight, sides)
        return None

    def _add_rows(self, part: IntArray, weight: FloatArray, price: FloatArray, flow: float) -> bool:
        """Add multisets that weigh less than the price; whether there are some."""
        ways, groups, found = len(self._group), len(self._counts), list[FloatArray]()
        for side in range(2):
            used = np.flatnonzero(self._times[side] > 0)
            least, multiset = _least_covers(part[used], weight[side, used], _PARTS)
            below = [i for i in np.argsort(least)[:_ROWS].tolist() if least[i] < price[side] - _LESS]
            for often in {multiset[i].tobytes(): multiset[i] for i in below}.values():
                row = np.zeros(self._rows.shape[1])
                row[groups + side], row[groups + 2 + side * ways + used] = 1.0, -often
                found.append(row)
        if found:
            self._rows = np.vstack((self._rows, found))
            held = -np.array(found)[:, groups + 2 :] @ np.tile(self._capacity, 2)
            self._covered = np.concatenate((self._covered, np.maximum(held, flow)))
        return bool(found)

    def _safe(self, part: IntArray, weight: FloatArray, sides: IntArray) -> list[list[float]] | None:
        """The weights, if they exclude the flow beyond doubt."""
        needed = 0.0
        for side in range(2):
            used = self._times[side] > 0
            least, _ = _least_covers(part[used], weight[side, used], _PARTS)
            needed += float(sides[side]) * float(least.min(initial=_MOST))
        device = np.zeros(len(self._counts))
        np.maximum.at(device, self._group, (self._times * weight).sum(axis=0))
        if float(self._counts @ device) >= needed * (1 - 2 * _ROUNDING):
            return None
        rows = []
        for group in range(len(self._counts)):
            for side in range(2):
                own = self._group == group
                row = np.zeros(int(self._layers[own].max(initial=0)))
                row[self._layers[own] - 1] = weight[side, own]
                rows.append(row.tolist())
        return rows


@compiled
def _least_covers(part: IntArray, cost: FloatArray, parts: int) -> tuple[FloatArray, IntArray]:
    """For each item, the least cost of a multiset with it that covers all parts; how often each item is in that."""
    count = len(part)
    least, last = np.zeros(parts + 1), np.zeros(parts + 1, dtype=np.int64)
    for x in range(1, parts + 1):
        least[x] = np.inf
        for i in range(count):
            value = least[max(0, x - part[i])] + cost[i]
            if value < least[x]:
                least[x], last[x] = value, i
    own, often = np.zeros(count), np.zeros((count, count), dtype=np.int64)
    for i in range(count):
        x = max(0, parts - part[i])
        own[i] = least[x] + cost[i]
        often[i, i] += 1
        while x > 0:
            often[i, last[x]] += 1
            x = max(0, x - part[last[x]])
    return own, often
