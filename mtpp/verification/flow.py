"""Check of flows with independent code: the flow from its definition, bounds by their weights."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from math import lcm

import numpy as np

from instances.certificates import Claim
from instances.flow.problem import SINK, SOURCE, FlowCertificate, FlowInstance, flow_from_document
from instances.json_files import Value
from mtpp.verification.verdict import (
    Check,
    Clock,
    Limits,
    Verdict,
    as_float,
    unequal,
    verdict_of,
)

# Whether weights of devices exclude a flow, by knapsacks in whole numbers.
#
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
    instance: FlowInstance,
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
        One a kind: for all devices, then, with `links`, for each component, by its first device.

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
    total = sum(count * mu for count, mu in zip(instance.counts.tolist(), weights[0], strict=True))
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


def _components(instance: FlowInstance, flow: Fraction) -> list[list[int]]:
    """Devices that are joined by links of a flow or more, by their first device."""
    n, rates = instance.n, instance.rates.tolist()
    home = list(range(n))
    for i in range(n):
        for j in range(n):
            if i != j and rates[i][j] > 0 and Fraction(rates[i][j]) >= flow and home[i] != home[j]:
                old, new = max(home[i], home[j]), min(home[i], home[j])
                home = [new if other == old else other for other in home]
    return [[i for i in range(n) if home[i] == first] for first in sorted(set(home))]


def _ways(instance: FlowInstance, flow: Fraction, weights: Sequence[Fraction]) -> list[tuple[int, Fraction]]:
    """Parts of the flow, rounded up, and weight of a layer, for each kind and number of layers."""
    return [
        (part_of(rate, flow), weights[t] / c)
        for t, row in enumerate(instance.capacity.tolist())
        for c, rate in enumerate(row)
        if rate > 0
    ]


def part_of(rate: float, flow: Fraction) -> int:
    """Parts of a flow that a capacity is, rounded up, at most all of them."""
    return int(min(_PARTS, -(-Fraction(rate) * _PARTS // flow)))


def _alone(instance: FlowInstance, flow: Fraction, weights: Sequence[Fraction]) -> bool:
    """Whether each device that carries all of the flow weighs 1 or more on each of its layers."""
    return all(weight >= 1 for part, weight in _ways(instance, flow, weights) if part >= _PARTS)


def least_weight(ways: Sequence[tuple[int, Fraction]], fewest: int, clock: Clock) -> Fraction:
    """Least weight of a multiset of ways with the flow together and so many devices, 1 or 2, at the least.

    Weights are rounded down, so that it is no larger than the true one.

    Parameters
    ----------
    ways : pairs
        Parts of the flow, and a weight.

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
    instance: FlowInstance, flow: Fraction, hubs: Sequence[str], weights: Sequence[Sequence[Fraction]], clock: Clock
) -> str | None:
    """Why weights do not exclude a flow; None if they do.

    Parameters
    ----------
    hubs : names
    weights : rows of numbers
        By number of layers from 1: at a layer and between layers, of the devices of each kind that are no hubs, then of
        those that are.

    Raises
    ------
    OutOfTimeError
    """
    devices, rates = instance.devices, instance.rates.tolist()
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
    for t, capacity in enumerate(instance.capacity.tolist()):
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


# Check the certificate of a flow in exact rational numbers: the flow of its intervals, and its bounds.


# A stated time may be larger than what is proved by this part.
_ROUNDING = Fraction(1, 10**9)


def verify_flow(document: Value, limits: Limits) -> Verdict:
    """Check everything in the certificate that can be checked.

    Raises
    ------
    InputError
        If this is none, or the parameters of a bound are not of the kind that its method needs.
    """
    certificate = flow_from_document(document)
    clock, faults, cost, fault = Clock(limits.seconds), [], None, None
    if certificate.interval is not None:
        fault = _fault_of_intervals(certificate.instance, certificate.interval)
    if certificate.interval is not None and fault is None:
        flow = _most_flow(certificate.instance, certificate.interval, clock)
        stated = certificate.flow
        if stated is None or abs(Fraction(stated) - flow) > _ROUNDING * flow:
            faults.append(unequal("answer.flow", stated, as_float(flow)))
        cost, fault = (1 / flow, None) if flow > 0 else (None, "answer.intervals: no request passes")
    return verdict_of(certificate, cost, faults, lambda claim: _check(certificate, claim, clock), limits, fault=fault)


def _fault_of_intervals(instance: FlowInstance, interval: Sequence[tuple[int, int]]) -> str | None:
    for i, (begin, end) in enumerate(interval):
        if not 0 <= begin <= end <= instance.layers:
            return f"intervals: device {instance.devices[i]} holds layers {begin} to {end} of {instance.layers}"
    return None


def _most_flow(instance: FlowInstance, interval: Sequence[tuple[int, int]], clock: Clock) -> Fraction:
    """Most flow from the source to the sink, by blocking flows along shortest paths (Dinic, 1970)."""
    arcs, unit = _network(instance, interval)
    source, sink = 2 * instance.n, 2 * instance.n + 1
    total = 0
    while True:
        level, queue = {source: 0}, deque([source])
        while queue:
            u = queue.popleft()
            for v, capacity in arcs.get(u, {}).items():
                if capacity > 0 and v not in level:
                    level[v] = level[u] + 1
                    queue.append(v)
        if sink not in level:
            return total * unit
        ways = {u: [v for v in arcs[u] if level.get(v) == level[u] + 1] for u in level}
        path = [source]
        while path:
            clock.raise_if_late()
            u = path[-1]
            if u == sink:
                pairs = list(pairwise(path))
                least = min(arcs[a][b] for a, b in pairs)
                for a, b in pairs:
                    arcs[a][b] -= least
                    arcs[b][a] += least
                total += least
                path = path[: 1 + next(k for k, (a, b) in enumerate(pairs) if arcs[a][b] == 0)]
                continue
            while ways[u] and arcs[u][ways[u][-1]] == 0:
                ways[u].pop()
            if ways[u]:
                path.append(ways[u][-1])
            else:
                path.pop()
                if path:
                    ways[path[-1]].pop()


def _network(instance: FlowInstance, interval: Sequence[tuple[int, int]]) -> tuple[dict[int, dict[int, int]], Fraction]:
    """Capacities of arcs in whole multiples of a unit, and the unit.

    A device is the nodes i and n + i; source and sink are behind them.
    """
    n = instance.n
    capacity, rates = instance.capacity.tolist(), instance.rates.tolist()
    exact: dict[tuple[int, int], Fraction] = {}
    source, sink = 2 * n, 2 * n + 1
    for i, (begin, end) in enumerate(interval):
        if begin == end:
            continue
        exact[i, n + i] = Fraction(capacity[instance.kind[i]][end - begin])
        if begin == 0:
            exact[source, i] = Fraction(rates[n + SOURCE][i])
        if end == instance.layers:
            exact[n + i, sink] = Fraction(rates[i][n + SINK])
        for j, (first, last) in enumerate(interval):
            if j != i and first == end and last > first:
                exact[n + i, j] = Fraction(rates[i][j])
    unit = Fraction(1, lcm(*(rate.denominator for rate in exact.values())))
    arcs: dict[int, dict[int, int]] = {}
    for (tail, head), rate in exact.items():
        if rate > 0:
            arcs.setdefault(tail, {})[head] = int(rate / unit)
            arcs.setdefault(head, {}).setdefault(tail, 0)
    return arcs, unit


def _check(certificate: FlowCertificate, claim: Claim, clock: Clock) -> Check:
    """Prove a bound again: a little more than its flow is impossible."""
    clock.raise_if_late()
    if claim.value <= 0:
        return Check(claim, Fraction(0), "nothing to prove")
    value = Fraction(claim.value) * (1 - _ROUNDING / 2)
    flow = 1 / value
    if claim.method in _FORMULAS:
        is_too_much, what = _FORMULAS[claim.method]
        if is_too_much(certificate.instance, flow):
            return Check(claim, value, "re-proved by its formula")
        return Check(claim, None, "false", f"{claim.value!r} is claimed, and {what} allow a flow of {as_float(flow)!r}")
    fault, knapsacks = _fault_of_weights(certificate.instance, flow, claim, clock)
    if fault is None:
        return Check(claim, value, f"re-proved by {knapsacks} knapsack{'s' if knapsacks > 1 else ''}")
    return Check(claim, None, "false", fault)


def _fault_of_weights(instance: FlowInstance, flow: Fraction, claim: Claim, clock: Clock) -> tuple[str | None, int]:
    """Why the weights of a claim do not exclude a flow, None if they do; number of knapsacks."""
    has_hubs, links = claim.method == "patterns-with-hubs", claim.method == "patterns-with-links"
    fields = claim.parameters.open_members(("weights", "hubs" if has_hubs else "second"))
    weights = [[Fraction(number) for number in row.numbers()] for row in fields["weights"].items()]
    if has_hubs:
        hubs = [name.text() for name in fields["hubs"].items()]
        return excludes_with_hubs(instance, flow, hubs, weights, clock), 2
    second = Fraction(fields["second"].number())
    return excludes(instance, flow, weights, second, clock, links=links), len(weights)


def _is_too_much_for_layers(instance: FlowInstance, flow: Fraction) -> bool:
    """Whether the layers of all devices together carry less than a flow on each layer; then so for any larger flow."""
    best = []
    for row in instance.capacity.tolist():
        best.append(max((c * min(Fraction(rate), flow) for c, rate in enumerate(row)), default=Fraction(0)))
    return sum(count * best[t] for t, count in enumerate(instance.counts.tolist())) < instance.layers * flow


def _is_too_much_for_ends(instance: FlowInstance, flow: Fraction) -> bool:
    """Whether all devices together take less than a flow from the source, or give less to the sink."""
    n, fastest = instance.n, [max(row) for row in instance.capacity.tolist()]
    carried = [Fraction(fastest[t]) for t in instance.kind.tolist()]
    inflow = sum(
        min(Fraction(rate), limit) for rate, limit in zip(instance.rates[n + SOURCE, :n].tolist(), carried, strict=True)
    )
    outflow = sum(
        min(Fraction(rate), limit) for rate, limit in zip(instance.rates[:n, n + SINK].tolist(), carried, strict=True)
    )
    return min(inflow, outflow) < flow


# Of each method with a formula, whether a flow is too much, and for what.
_FORMULAS: dict[str, tuple[Callable[[FlowInstance, Fraction], bool], str]] = {
    "shared-layers": (_is_too_much_for_layers, "the layers"),
    "ends": (_is_too_much_for_ends, "links to source and sink"),
}
