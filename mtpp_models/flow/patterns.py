r"""Whether a flow F is impossible, by weights of devices that every layer needs.

The devices that carry a flow of F hold each layer with capacities of F or more together. Let a device of kind t that
holds c layers spread a weight :math:`\mu_t` evenly over them. If every multiset of kinds and numbers of layers with
:math:`\sum T_t(c) \ge F` weighs :math:`\sum \mu_t / c \ge 1`, all devices weigh at least L; where
:math:`\sum_t N_t \mu_t < L`, F is impossible.

With links: parts of the devices that are joined by links of at least F each are components. Between two layers with a
single holder each, all of F stays on a device or takes one link, so a run of such layers stays in one component. So one
component holds all layers, which its own weights exclude, or some layer has two holders. If a single holder weighs at
least 1, and two or more at least :math:`1 + \delta`, F is impossible where :math:`\sum_t N_t \mu_t < L + \delta`.

The least weight of a multiset is a knapsack to be covered; capacities are rounded up to parts of F, which is safe.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from instances.compiled import compiled
from instances.deadline import Deadline
from instances.flow.problem import FlowInstance
from instances.graph.tensors import FloatArray, IntArray

__all__ = ["Exclusion", "exclude"]

# Parts of F that capacities are rounded to, columns that a program is given, and what rounding may take.
_PARTS, _COLUMNS, _ROUNDING = 20_000, 400, 1e-9
_MOST_SECOND = 2.0


class Exclusion(NamedTuple):
    """Proof that a flow is impossible: weights of devices."""

    weights: list[list[float]]  # of the kinds: for all devices, then, with links, for each component
    second: float  # the weight of a second holder

    @property
    def has_links(self) -> bool:
        """Whether links count."""
        return len(self.weights) > 1


class _Items(NamedTuple):
    """Ways to hold layers."""

    kind: IntArray
    layers: IntArray
    part: IntArray  # capacity in parts of F, rounded up, at most all of them


def exclude(instance: FlowInstance, flow: float, deadline: Deadline) -> Exclusion | None:
    """Weights which prove that so many requests per second cannot pass; None if none are found in time."""
    n, counts = instance.n, instance.counts
    whole = _weights(instance, counts, flow, deadline, second=False)
    if whole is not None:
        return Exclusion([whole[0].tolist()], 0.0)
    links = instance.rates[:n, :n] >= flow
    parts, site = connected_components(csr_array(links.astype(np.float64)), directed=False)
    if parts == 1:
        return None
    both = _weights(instance, counts, flow, deadline, second=True)
    if both is None:
        return None
    rows = [both[0].tolist()]
    known: dict[bytes, list[float]] = {}
    for part in range(parts):
        own = np.bincount(instance.kind[site == part], minlength=len(counts))
        if own.tobytes() not in known:
            found = _weights(instance, own, flow, deadline, second=False)
            if found is None:
                return None
            known[own.tobytes()] = found[0].tolist()
        rows.append(known[own.tobytes()])
    return Exclusion(rows, both[1])


def _items(instance: FlowInstance, flow: float) -> _Items:
    kind, layers = np.nonzero(instance.capacity > 0)
    part = np.ceil(instance.capacity[kind, layers] / flow * _PARTS * (1 + 1e-12)).astype(np.int64)
    return _Items(kind, layers, np.minimum(part, _PARTS))


def _weights(
    instance: FlowInstance, counts: IntArray, flow: float, deadline: Deadline, *, second: bool
) -> tuple[FloatArray, float] | None:
    """Weights of the kinds, and of a second holder, that exclude a flow for so many devices; None if none are found."""
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
        answer = linprog(gain, matrix, limit, bounds=bounds, method="highs")
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
    """The weights such that covers weigh enough beyond doubt; None if all devices then weigh too much."""
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
    """Least cost of a multiset of items that covers all parts, of two or more if asked; how often each is in."""
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
