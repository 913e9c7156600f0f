"""Whether weights of devices exclude a flow, by knapsacks in whole numbers.

Every layer of a flow F is held by devices with capacities of F together.
If each such multiset weighs 1 or more when a device spreads its weight over its layers, all devices weigh as much as
there are layers. With links, a component of links of F or more that holds all layers is excluded by weights of its own,
and else some layer has two holders, which weigh more by `second`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from instances.flow.problem import FlowInstance
from mtpp.verification.clock import Clock

__all__ = ["excludes", "least_weight", "part_of"]

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
        own = (*counts, weights.index(row))
        if own in done:
            continue
        done.add(own)
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
