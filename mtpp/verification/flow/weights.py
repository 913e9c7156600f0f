"""Check, in whole numbers, that device weights, or device and link prices, prove a flow impossible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from instances.flow.problem import SINK, SOURCE
from mtpp.verification.flow.enumeration import ExactFlow
from mtpp.verification.verdict import Clock

# Every layer of a flow F is held by devices with capacities of F together. If each such multiset weighs 1 or more when
# a device spreads its weight over its layers, all devices weigh as much as there are layers. With links, a component of
# links of F or more that holds all layers is excluded by weights of its own, and else some layer has two holders, which
# weigh more by `second`.


# Parts of the flow that capacities are rounded up to.
_PARTS = 20_000
_BETWEEN_LOOKS = 500
# Weights are whole multiples of this; more than enough counts as enough.
_UNIT, _ENOUGH = Fraction(1, 2**50), Fraction(4)


def excludes(
    instance: ExactFlow,
    flow: Fraction,
    weights: Sequence[Sequence[Fraction]],
    second: Fraction,
    clock: Clock,
    *,
    links: bool,
) -> str | None:
    """Why weights do not exclude a flow; None if they do.

    Parameters
    ----------
    weights : rows of numbers
        In each row a weight for each kind of devices. The first row is for all devices; with `links`, a row follows for
        each component of fast links, in the order of their first devices.

    Raises
    ------
    OutOfTimeError
    """
    kinds = len(instance.counts)
    parts = _components(instance, flow) if links else []
    if (
        len(weights) != 1 + len(parts)
        or any(len(row) != kinds or min(row) < 0 for row in weights)
        or not 0 <= second <= 2
    ):
        return f"parameters.weights are not {1 + len(parts)} rows of {kinds} numbers, none below 0"
    total = sum(count * mu for count, mu in zip(instance.counts, weights[0], strict=True))
    if total >= instance.layers + second:
        return "all devices weigh as much as the layers need"
    if links:
        if not _alone(instance, flow, weights[0]):
            return "a device that holds layers alone weighs too little for them"
        if least_weight(_ways(instance, flow, weights[0]), 2, clock) < 1 + second:
            return "two devices that hold a layer weigh too little for it"
    elif second > 0 or least_weight(_ways(instance, flow, weights[0]), 1, clock) < 1:
        return "devices that hold a layer weigh too little for it"
    done: set[tuple[int, ...]] = set()
    for row, devices in zip(weights[1:], parts, strict=True):
        counts = [0] * kinds
        for i in devices:
            counts[instance.kind[i]] += 1
        component = (*counts, weights.index(row))
        if component in done:
            continue
        done.add(component)
        if sum(count * mu for count, mu in zip(counts, row, strict=True)) >= instance.layers:
            return "the devices of a component weigh as much as the layers need"
        if least_weight(_ways(instance, flow, row), 1, clock) < 1:
            return "devices of a component that hold a layer weigh too little for it"
    return None


def _components(instance: ExactFlow, flow: Fraction) -> list[list[int]]:
    """Groups of devices joined by links of at least this flow, as sorted lists of numbers."""
    n, rates = instance.n, instance.rates
    home = list(range(n))
    for i in range(n):
        for j in range(n):
            if i != j and rates[i][j] > 0 and Fraction(rates[i][j]) >= flow and home[i] != home[j]:
                old, new = max(home[i], home[j]), min(home[i], home[j])
                home = [new if other == old else other for other in home]
    return [[i for i in range(n) if home[i] == first] for first in sorted(set(home))]


def _ways(instance: ExactFlow, flow: Fraction, weights: Sequence[Fraction]) -> list[tuple[int, Fraction]]:
    """(part of the flow carried, weight per layer) of each kind and number of layers with a positive capacity."""
    return [
        (part_of(rate, flow), weights[t] / c)
        for t, row in enumerate(instance.capacity)
        for c, rate in enumerate(row)
        if rate > 0
    ]


def part_of(rate: Fraction, flow: Fraction) -> int:
    """Fraction of `flow` that a device of this rate carries, in units of 1 / `_PARTS`, rounded up; at most `_PARTS`."""
    return int(min(_PARTS, -(-rate * _PARTS // flow)))


def _alone(instance: ExactFlow, flow: Fraction, weights: Sequence[Fraction]) -> bool:
    """Whether each device that carries the whole flow has weight 1 or more on each layer."""
    return all(weight >= 1 for part, weight in _ways(instance, flow, weights) if part >= _PARTS)


def least_weight(ways: Sequence[tuple[int, Fraction]], fewest: int, clock: Clock) -> Fraction:
    """Least weight of a multiset of ways that carry the whole flow, by 1 or 2 devices at least.

    Weights are rounded down, so that it is no larger than the true one.

    Parameters
    ----------
    ways : pairs
        The part of the flow carried, in units of 1 / `_PARTS`, and the weight.

    Raises
    ------
    OutOfTimeError
    """
    if not ways:
        return _ENOUGH
    top = int(_ENOUGH / _UNIT)
    part = np.array([part for part, _ in ways], dtype=np.int64)
    cost = np.array([min(top, weight // _UNIT) for _, weight in ways], dtype=np.int64)
    # Of any devices, and of two at the least, that have so many parts together.
    least = np.zeros(_PARTS + 1, dtype=np.int64)
    if fewest == 1:
        for x in range(1, _PARTS + 1):
            if x % _BETWEEN_LOOKS == 0:
                clock.raise_if_late()
            least[x] = min(top, int((least[np.maximum(0, x - part)] + cost).min()))
        return int(least[_PARTS]) * _UNIT
    single = np.array([cost[part >= x].min(initial=top) for x in range(_PARTS + 1)])
    least[0] = min(top, single[0] + int(cost.min()))
    for x in range(1, _PARTS + 1):
        if x % _BETWEEN_LOOKS == 0:
            clock.raise_if_late()
        rest = np.maximum(0, x - part)
        least[x] = min(top, int((np.minimum(single[rest], least[rest]) + cost).min()))
    return int(least[_PARTS]) * _UNIT


# Whether weights exclude a flow where each link between devices touches a hub.
#
# What passes from one layer to the next stays on a device, or leaves or enters a hub, so that these devices have the
# flow together, as the holders of a layer have. A device is at each of its layers, and at the places between layers
# before, in and behind them if it is a hub, else in them alone. If at each layer and at each place devices with the
# flow together weigh as much as the least such multiset does, all of them weigh the sum over layers and places.


def excludes_with_hubs(
    instance: ExactFlow, flow: Fraction, hubs: Sequence[str], weights: Sequence[Sequence[Fraction]], clock: Clock
) -> str | None:
    """Why weights do not exclude a flow; None if they do.

    Parameters
    ----------
    hubs : names
        Devices of which each link touches at least one.
    weights : rows of numbers
        Four rows for each kind of devices: at a layer and between layers of devices that are no hubs, and the same of
        hubs. Each row has a weight for each number of layers from 1.

    Raises
    ------
    OutOfTimeError
    """
    devices, rates = instance.devices, instance.rates
    is_hub = [name in set(hubs) for name in devices]
    for i, name in enumerate(devices):
        for j, other in enumerate(devices):
            if i != j and rates[i][j] > 0 and not is_hub[i] and not is_hub[j]:
                return f"parameters.hubs: the link from {name} to {other} touches none of them"
    if len(weights) != 4 * len(instance.counts) or any(min(row, default=0) < 0 for row in weights):
        return f"parameters.weights are not {4 * len(instance.counts)} rows of numbers, none below 0"
    at_layers: list[tuple[int, Fraction]] = []
    between: list[tuple[int, Fraction]] = []
    total = Fraction(0)
    for t, capacity in enumerate(instance.capacity):
        for hub in (False, True):
            count = sum(instance.kind[i] == t and is_hub[i] == hub for i in range(len(devices)))
            layer_counts = [c for c, rate in enumerate(capacity) if rate > 0]
            if count == 0 or not layer_counts:
                continue
            rows = weights[4 * t + 2 * hub : 4 * t + 2 * hub + 2]
            if any(len(row) != layer_counts[-1] for row in rows):
                return f"parameters.weights: a row of kind {t} has not {layer_counts[-1]} numbers"
            heaviest = Fraction(0)
            for c in layer_counts:
                part, layer, place = part_of(capacity[c], flow), rows[0][c - 1], rows[1][c - 1]
                places = c + 1 if hub else c - 1
                heaviest = max(heaviest, c * layer + places * place)
                at_layers.append((part, layer))
                if places > 0:
                    between.append((part, place))
            total += count * heaviest
    layers = instance.layers
    if total >= layers * least_weight(at_layers, 1, clock) + (layers - 1) * least_weight(between, 1, clock):
        return "all devices weigh as much as the layers and the places between them need"
    return None


# Neither a device nor a link carries more than the flow. A request pays for each link on its way, at the layers that
# are done there, what its tail and what its head ask. A device pays both for all that its links may carry where its
# layers end and begin, at most its price; a request that passes it pays its part of what is left. So all requests
# together pay no more than all devices have, and what links cost wherever they are used. If that is less than the flow
# times the cost of the cheapest way from the source to the sink, whatever layers its devices hold, so much cannot pass.


# What a request pays is counted in parts of 1, rounded down.
_FEE_UNIT = 2**60


#: A link by both ends, rows of rates, and the layers that are done there.
_Place = tuple[int, int, int]


def excludes_by_prices(
    question: ExactFlow,
    flow: Fraction,
    devices: Sequence[Fraction],
    links: Mapping[tuple[int, int], Fraction],
    places: Mapping[_Place, tuple[Fraction, Fraction]],
    clock: Clock,
) -> str | None:
    """Why prices do not exclude a flow; None if they do.

    Parameters
    ----------
    devices : numbers
        The price of each device [requests/s].
    links : mapping
        Price of each link (tail, head), numbered as the rows of rates, at any number of layers; others are 0.
    places : mapping
        Prices that tail and head of a link ask at (tail, head, number of layers done); others are 0.

    Raises
    ------
    OutOfTimeError
    """
    if min([*devices, *links.values(), *(price for both in places.values() for price in both)]) < 0:
        return "a price is below 0"
    sent, taken = ([[Fraction(0)] * (question.layers + 1) for _ in range(question.n + 2)] for _ in range(2))
    for (u, v, done), (tail, head) in places.items():
        rate = min(Fraction(question.rates[u][v]), flow)
        sent[u][done] += tail * rate
        taken[v][done] += head * rate
    fees: list[
        list[list[tuple[int, int]]]
    ] = []  # by device and first layer: numbers of layers, and what a request pays
    for i, t in enumerate(question.kind):
        fees.append([])
        for first in range(question.layers):
            clock.raise_if_late()
            fees[i].append([])
            for c, rate in enumerate(question.capacity[t][: question.layers - first + 1]):
                left = devices[i] - taken[i][first] - sent[i][first + c]
                if rate > 0 and left < 0:
                    return f"the price of {question.devices[i]} is less than what its links cost"
                if rate > 0:
                    fees[i][first].append((c, int(left * _FEE_UNIT / min(rate, flow))))
    paid = sum(devices) + sum(min(Fraction(question.rates[u][v]), flow) * price for (u, v), price in links.items())
    paid += sum(sum(row) for side in (sent, taken) for row in side[question.n :])  # of links without a device there
    tolls = {link: int(price * _FEE_UNIT) for link, price in links.items()}
    further = {place: int(sum(both) * _FEE_UNIT) for place, both in places.items()}
    cheapest = _cheapest(question, fees, tolls, further, clock)
    if cheapest is not None and paid * _FEE_UNIT >= flow * cheapest:
        return "all prices together are no less than what so many requests pay on the cheapest way"
    return None


def _cheapest(
    question: ExactFlow,
    fees: Sequence[Sequence[Sequence[tuple[int, int]]]],
    tolls: Mapping[tuple[int, int], int],
    further: Mapping[_Place, int],
    clock: Clock,
) -> int | None:
    """Price of the cheapest path from the source to the sink, rounded down; None without a path."""
    n, layers = question.n, question.layers
    to = [[v for v, rate in enumerate(row) if rate > 0] for row in question.rates]

    def toll(u: int, v: int, done: int) -> int:
        return tolls.get((u, v), 0) + further.get((u, v, done), 0)

    # By layers that are done, the least price up to each device, and behind it.
    before: list[dict[int, int]] = [{} for _ in range(layers + 1)]
    behind: list[dict[int, int]] = [{} for _ in range(layers + 1)]
    before[0] = {v: toll(n + SOURCE, v, 0) for v in to[n + SOURCE] if v < n}
    for done in range(layers):
        for u, price in behind[done].items():
            clock.raise_if_late()
            for v in to[u]:
                if v < n:
                    more = price + toll(u, v, done)
                    before[done][v] = min(more, before[done].get(v, more))
        for i, price in before[done].items():
            clock.raise_if_late()
            for c, more in fees[i][done]:
                at = behind[done + c]
                at[i] = min(price + more, at.get(i, price + more))
    ends = [price + toll(u, n + SINK, layers) for u, price in behind[layers].items() if n + SINK in to[u]]
    return min(ends, default=None)
