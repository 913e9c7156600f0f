r"""Weights of devices that exclude a flow: by patterns of devices, with links and hubs.

**Whether a flow F is impossible, by weights of devices that every layer needs.**

The devices that carry a flow of F hold each layer with capacities of F or more together. Let a device of kind t that
holds c layers spread a weight :math:`\mu_t` evenly over them. If every multiset of kinds and numbers of layers with
:math:`\sum T_t(c) \ge F` weighs :math:`\sum \mu_t / c \ge 1`, all devices weigh at least L; where
:math:`\sum_t N_t \mu_t < L`, F is impossible.

With links: parts of the devices that are joined by links of at least F each are components. Between two layers with a
single holder each, all of F stays on a device or takes one link, so a run of such layers stays in one component. So one
component holds all layers, which its own weights exclude, or some layer has two holders. If a single holder weighs at
least 1, and two or more at least :math:`1 + \delta`, F is impossible where :math:`\sum_t N_t \mu_t < L + \delta`.

The least weight of a multiset is a knapsack to be covered; capacities are rounded up to parts of F, which is safe.

**Whether a flow F is impossible because few devices link all others.**

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

from typing import NamedTuple

import numpy as np
import scipy

from instances.compiled import compiled
from instances.deadline import Deadline
from instances.flow.problem import FlowInstance
from instances.graph.tensors import FloatArray, IntArray, components

# Parts of F that capacities are rounded to, columns that a program is given, and what rounding may take.
_PARTS, _COLUMNS, _ROUNDING = 20_000, 400, 1e-9
_MOST_SECOND = 2.0


class Exclusion(NamedTuple):
    """Proof that a flow is impossible by weights of devices."""

    weights: list[list[float]]  # weights of the kinds: for all devices, then, with links, for each component
    second: float  # extra weight where a layer has two holders or more (delta in the formula)

    @property
    def has_links(self) -> bool:
        """Whether the proof uses links between devices."""
        return len(self.weights) > 1


class _Items(NamedTuple):
    """Items of the covering knapsack: one for each kind of device and number of layers that it may hold."""

    kind: IntArray
    layers: IntArray
    part: IntArray  # capacity in units of the flow / `_PARTS`, rounded up, at most `_PARTS`


def exclude(instance: FlowInstance, flow: float, deadline: Deadline) -> Exclusion | None:
    """Weights which prove that a flow [requests/s] is impossible; None if there are none, or time is up."""
    n, counts = instance.n, instance.counts
    whole = _weights(instance, counts, flow, deadline, second=False)
    if whole is not None:
        return Exclusion([whole[0].tolist()], 0.0)
    links = instance.rates[:n, :n] >= flow
    site = components(np.argwhere(links), n, directed=False)
    if not site.any():
        return None
    both = _weights(instance, counts, flow, deadline, second=True)
    if both is None:
        return None
    rows = [both[0].tolist()]
    weights_of: dict[bytes, list[float]] = {}
    for part in range(int(site.max()) + 1):
        counts_of_part = np.bincount(instance.kind[site == part], minlength=len(counts))
        if counts_of_part.tobytes() not in weights_of:
            excluding = _weights(instance, counts_of_part, flow, deadline, second=False)
            if excluding is None:
                return None
            weights_of[counts_of_part.tobytes()] = excluding[0].tolist()
        rows.append(weights_of[counts_of_part.tobytes()])
    return Exclusion(rows, both[1])


def _items(instance: FlowInstance, flow: float) -> _Items:
    kind, layers = np.nonzero(instance.capacity > 0)
    part = np.ceil(instance.capacity[kind, layers] / flow * _PARTS * (1 + 1e-12)).astype(np.int64)
    return _Items(kind, layers, np.minimum(part, _PARTS))


def _weights(
    instance: FlowInstance, counts: IntArray, flow: float, deadline: Deadline, *, second: bool
) -> tuple[FloatArray, float] | None:
    """Weights of the kinds, and extra weight of a second holder, that exclude a flow; None if there are none.

    `counts` are the numbers of devices of each kind. With `second`, layers with several holders count separately.
    """
    items, kinds, layers = _items(instance, flow), len(counts), instance.layers
    if len(items.kind) == 0 or not counts.any():
        return np.zeros(kinds), 0.0
    least = np.zeros(kinds)
    if second:  # a single holder weighs at least 1
        alone = items.part >= _PARTS
        np.maximum.at(least, items.kind[alone], items.layers[alone].astype(np.float64))
    gain = np.append(counts, -1.0 if second else 0.0)
    # What too few devices are there for costs nothing, and needs a limit.
    bounds = [(low, max(low, 4.0 * layers)) for low in least.tolist()] + [(0.0, _MOST_SECOND if second else 0.0)]
    rows: list[FloatArray] = []
    for _ in range(_COLUMNS):
        if deadline.passed:
            return None
        matrix = np.array(rows) if rows else None
        limit = -np.ones(len(rows)) if rows else None
        answer = scipy.optimize.linprog(gain, matrix, limit, bounds=bounds, method="highs")
        if answer.x is None or float(gain @ answer.x) >= layers * (1 - _ROUNDING):
            return None
        weight, extra = np.maximum(answer.x[:kinds], 0.0), float(answer.x[kinds])
        cost = weight[items.kind] / items.layers
        value, pattern = _least_cover(items.part, cost, _PARTS, second)
        if value >= 1 + extra - 1e-7:
            return _safe(weight, extra, value, counts, layers, second=second)
        row = np.zeros(kinds + 1)
        np.subtract.at(row, items.kind, pattern / items.layers)
        row[kinds] = 1.0 if second else 0.0
        rows.append(row)
    return None


def _safe(
    weight: FloatArray, extra: float, value: float, counts: IntArray, layers: int, *, second: bool
) -> tuple[FloatArray, float] | None:
    """The weights, scaled so that covers weigh enough despite rounding; None if they then exclude the flow no more."""
    if second:
        extra = min(extra, value * (1 - _ROUNDING) - 1)
        weight = weight * (1 + _ROUNDING)
    else:
        weight = weight * ((1 + _ROUNDING) / min(value, 1.0))
    if extra < 0 or float(counts @ weight) >= (layers + extra) * (1 - _ROUNDING):
        return None
    return weight, extra


@compiled
def _least_cover(part: IntArray, cost: FloatArray, parts: int, second: bool) -> tuple[float, IntArray]:
    """Least cost of a multiset of items whose parts sum to at least `parts`, and (items,) how often it holds each.

    With `second`, only multisets of two or more items count.
    """
    count = len(part)
    few = np.full(parts + 1, np.inf)  # of any number of items, or of a single one
    last = np.full(parts + 1, -1)
    if not second:
        few[0] = 0.0
    for x in range(parts + 1):
        for i in range(count):
            if second:
                if part[i] >= x and cost[i] < few[x]:
                    few[x], last[x] = cost[i], i
            elif x > 0:
                value = few[max(0, x - part[i])] + cost[i]
                if value < few[x]:
                    few[x], last[x] = value, i
    chosen = np.zeros(count, dtype=np.int64)
    x = parts
    if second:
        many = np.full(parts + 1, np.inf)
        item, single = np.full(parts + 1, -1), np.zeros(parts + 1, dtype=np.bool_)
        for x in range(parts + 1):
            for i in range(count):
                y = max(0, x - part[i])
                if few[y] + cost[i] < many[x]:
                    many[x], item[x], single[x] = few[y] + cost[i], i, True
                if y < x and many[y] + cost[i] < many[x]:
                    many[x], item[x], single[x] = many[y] + cost[i], i, False
        value = many[parts]
        x = parts
        while item[x] >= 0:
            chosen[item[x]] += 1
            y = max(0, x - part[item[x]])
            if single[x]:
                chosen[last[y]] += 1
                break
            x = y
        return value, chosen
    while x > 0 and last[x] >= 0:
        chosen[last[x]] += 1
        x = max(0, x - part[last[x]])
    return few[parts], chosen


# Parts of a flow that capacities are rounded to, rounds of new rows, rows of a round, and what rounding may take.
_PARTS_WITH_HUBS, _ROUNDS, _ROWS, _TOLERANCE = 5_000, 300, 40, 1e-9
# What counts as less than a price, and the most that a device weighs at a layer.
_LESS, _MOST = 1e-6, 2.0
# Rows that miss their limit by more are left out of the next round.
_TIGHT = 0.03
# Ways to hold layers that a program is made for.
_MOST_WAYS = 600


class Hubs:
    """Bounds by hubs, a vertex cover of the links between devices, and the linear programs for weights of devices."""

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
        """Whether fewer than half of the devices are hubs, and the linear program is not too large."""
        few = 2 * len(self.devices) < self._instance.n
        return few and self._instance.layers > 1 and len(self._group) <= _MOST_WAYS

    def exclude(self, flow: float, deadline: Deadline) -> list[list[float]] | None:
        """Weights which prove that a flow [requests/s] is impossible; None if there are none, or time is up.

        Each kind of device has four rows: weights at a layer and between layers of devices that are no hubs, then the
        same for hubs. A row has an entry for each number of layers, from 1.
        """
        ways, groups = len(self._group), len(self._counts)
        part = np.ceil(self._capacity / flow * _PARTS_WITH_HUBS * (1 + 1e-12))
        part = np.minimum(part, _PARTS_WITH_HUBS).astype(np.int64)
        sides = np.array([self._instance.layers, self._instance.layers - 1])
        # Columns: the weight of a device of each class, p and q, weights of the ways at layers and between them.
        gain = np.concatenate((self._counts, -sides, np.zeros(2 * ways)))
        all_sides = np.concatenate((np.zeros(groups), sides, np.zeros(2 * ways)))[None]
        covers = np.hstack((-np.eye(groups)[self._group], np.zeros((ways, 2)), *map(np.diag, self._times)))
        limits = [(0.0, 4.0 * self._instance.layers)] * groups + [(0.0, _MOST)] * (2 + 2 * ways)
        solution = np.zeros(len(gain))
        for _ in range(_ROUNDS):
            if deadline.passed:
                return None
            rows = self._rows[self._covered >= flow]
            tight = rows[rows @ solution >= -_TIGHT]
            matrix = np.vstack((covers, tight))
            answer = scipy.optimize.linprog(
                gain, matrix, np.zeros(len(matrix)), all_sides, [self._instance.layers], bounds=limits, method="highs"
            )
            if answer.x is None or float(gain @ answer.x) > -_TOLERANCE * self._instance.layers:
                return None
            solution = answer.x
            price, weight = solution[groups : groups + 2], np.maximum(solution[groups + 2 :], 0.0).reshape(2, ways)
            more = self._add_rows(part, weight, price, flow)
            if not more and (rows @ solution <= _LESS).all():
                return self._safe(part, weight, sides)
        return None

    def _add_rows(self, part: IntArray, weight: FloatArray, price: FloatArray, flow: float) -> bool:
        """Add rows for multisets that cover the flow and weigh less than the price; return whether there are any."""
        ways, groups, rows = len(self._group), len(self._counts), list[FloatArray]()
        for side in range(2):
            used = np.flatnonzero(self._times[side] > 0)
            least, multiset = _least_covers(part[used], weight[side, used], _PARTS_WITH_HUBS)
            below = [i for i in np.argsort(least)[:_ROWS].tolist() if least[i] < price[side] - _LESS]
            for often in {multiset[i].tobytes(): multiset[i] for i in below}.values():
                row = np.zeros(self._rows.shape[1])
                row[groups + side], row[groups + 2 + side * ways + used] = 1.0, -often
                rows.append(row)
        if rows:
            self._rows = np.vstack((self._rows, rows))
            flows = -np.array(rows)[:, groups + 2 :] @ np.tile(self._capacity, 2)
            self._covered = np.concatenate((self._covered, np.maximum(flows, flow)))
        return bool(rows)

    def _safe(self, part: IntArray, weight: FloatArray, sides: IntArray) -> list[list[float]] | None:
        """The weights as rows for each kind; None if they do not exclude the flow with a margin for rounding."""
        needed = 0.0
        for side in range(2):
            used = self._times[side] > 0
            least, _ = _least_covers(part[used], weight[side, used], _PARTS_WITH_HUBS)
            needed += float(sides[side]) * float(least.min(initial=_MOST))
        device = np.zeros(len(self._counts))
        np.maximum.at(device, self._group, (self._times * weight).sum(axis=0))
        if float(self._counts @ device) >= needed * (1 - 2 * _TOLERANCE):
            return None
        rows = []
        for group in range(len(self._counts)):
            for side in range(2):
                members = self._group == group
                row = np.zeros(int(self._layers[members].max(initial=0)))
                row[self._layers[members] - 1] = weight[side, members]
                rows.append(row.tolist())
        return rows


@compiled
def _least_covers(part: IntArray, cost: FloatArray, parts: int) -> tuple[FloatArray, IntArray]:
    """For each item, the least cost of a multiset with it that covers `parts`, and counts of the items in that."""
    count = len(part)
    least, last = np.zeros(parts + 1), np.zeros(parts + 1, dtype=np.int64)
    for x in range(1, parts + 1):
        least[x] = np.inf
        for i in range(count):
            value = least[max(0, x - part[i])] + cost[i]
            if value < least[x]:
                least[x], last[x] = value, i
    cover_cost, often = np.zeros(count), np.zeros((count, count), dtype=np.int64)
    for i in range(count):
        x = max(0, parts - part[i])
        cover_cost[i] = least[x] + cost[i]
        often[i, i] += 1
        while x > 0:
            often[i, last[x]] += 1
            x = max(0, x - part[last[x]])
    return cover_cost, often
