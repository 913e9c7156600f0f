"""Simulated annealing of placements of layers, compiled by numba.

**Layers cut into consecutive stages.**

A stage is a number of layers and the devices that hold them. Terms are the capacity of each stage, and the maximum flow
between neighbouring stages, also from the source and to the sink: all are upper bounds on the flow. The energy for a
goal is the sum, over all terms, of the square of the fraction of the goal that is lacking; it is 0 where a flow of the
goal may pass. The flow itself is computed only where all terms are above the best flow so far.

**Any interval of layers for each device.**

A move gives one device other layers, exchanges those of two devices, moves an end that several intervals share, or lays
a route: it gives consecutive layers to linked devices, from the source or from the end of a device's interval, which
opens paths that no change of a single device opens. The objective is the flow itself.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heuristics.local_search.annealing import Cooling, factor_of
from instances.compiled import compiled
from instances.flow.answer import longest_path, network_of, push_most
from instances.graph.tensors import FloatArray, IntArray

Truths = NDArray[np.bool_]

#: Of the moves: a device to another stage, an exchange of two devices, a layer; the rest changes the row of stages.
_DEVICE, _SWAP, _LAYER = 0.4, 0.35, 0.15


class DeviceArrays(NamedTuple):
    """Capacities of the devices, and of the links between them."""

    kind: IntArray  # (n,) row of `capacity`
    capacity: FloatArray  # (kinds, L + 1) requests per second, by number of layers
    rates: FloatArray  # (n + 2, n + 2) requests per second; source and sink are the last two


@compiled
def anneal_stages(
    devices: DeviceArrays,
    stage: IntArray,
    length: IntArray,
    count: int,
    layer_limit: int,
    goal: float,
    best: float,
    cooling: Cooling,
    seed: int,
) -> tuple[float, IntArray, IntArray]:
    """Run simulated annealing from stages towards a flow.

    Parameters
    ----------
    stage : (n,) integers
        Stage of each device, -1 for none; updated in place.
    length : (L,) integers
        Number of layers of each of the `count` stages, L in all; updated in place.
    layer_limit : int
        Largest number of stages.
    goal, best : float
        Flow at which the walk ends, and flow that must be exceeded [requests/s].

    Returns
    -------
    tuple
        The best flow [requests/s], its (n, 2) intervals of layers, and (1,) number of improvements: if it is 0, the
        flow is `best` and the intervals are empty.
    """
    np.random.seed(seed)
    n, layers = len(stage), len(length)
    interval = np.zeros((n, 2), dtype=np.int64)
    terms = np.empty(2 * layers + 1)
    new_stage, new_length, new_terms = stage.copy(), length.copy(), terms.copy()
    members, start = np.empty(n, dtype=np.int64), np.empty(layers + 2, dtype=np.int64)
    touched = np.ones(layers + 1, dtype=np.bool_)  # that of idle devices is the first
    _fill(devices, stage, length, count, touched, members, start, terms)
    energy, least = _energy(terms, count, goal)
    temperature, factor = cooling.hot, factor_of(cooling)
    hits = np.zeros(1, dtype=np.int64)
    for _ in range(cooling.moves):
        temperature *= factor
        new_stage[:], new_length[:], new_terms[:] = stage, length, terms
        touched[:] = False
        new_count = _change(new_stage, new_length, count, layer_limit, touched)
        _fill(devices, new_stage, new_length, new_count, touched, members, start, new_terms)
        new_energy, least = _energy(new_terms, new_count, goal)
        if new_energy > energy and np.random.random() >= math.exp((energy - new_energy) / temperature):
            continue
        stage[:], length[:], terms[:], count, energy = new_stage, new_length, new_terms, new_count, new_energy
        if least > best * (1 + 1e-9):
            table = _intervals(stage, length, count)
            capacity = np.empty(n)
            for i in range(n):
                capacity[i] = devices.capacity[devices.kind[i], table[i, 1] - table[i, 0]]
            flow = push_most(network_of(layers, table, capacity, devices.rates))
            if flow > best:
                best, interval = flow, table
                hits[0] += 1
        if energy <= 0.0:
            break
    return best, interval, hits


@compiled
def _intervals(stage: IntArray, length: IntArray, count: int) -> IntArray:
    begin = np.zeros(count + 1, dtype=np.int64)
    for s in range(count):
        begin[s + 1] = begin[s] + length[s]
    table = np.zeros((len(stage), 2), dtype=np.int64)
    for i in range(len(stage)):
        if stage[i] >= 0:
            table[i, 0], table[i, 1] = begin[stage[i]], begin[stage[i] + 1]
    return table


@compiled
def _change(stage: IntArray, length: IntArray, count: int, layer_limit: int, touched: Truths) -> int:
    """Make a random move in place and mark the stages that it changes in `touched`; return the number of stages."""
    n = len(stage)
    draw = np.random.random()
    if draw < _DEVICE + _SWAP:
        i, j = np.random.randint(n), np.random.randint(n)
        old, new = stage[i], stage[j] if draw >= _DEVICE else np.random.randint(count + 1) - 1
        if old != new:
            stage[i] = new
            if draw >= _DEVICE:
                stage[j] = old
            touched[old + 1] = touched[new + 1] = True
        return count
    draw -= _DEVICE + _SWAP
    a, b = np.random.randint(count), np.random.randint(count)
    if draw < _LAYER:
        if length[a] > 1 and a != b:
            length[a] -= 1
            length[b] += 1
            touched[a + 1] = touched[b + 1] = True
        return count
    touched[:] = True
    which = np.random.randint(4)
    if which == 0:  # one stage to another place
        _place(stage, length, a, b)
    elif which == 1:  # the stages from one to another in reverse
        low, high = min(a, b), max(a, b)
        for i in range(n):
            if low <= stage[i] <= high:
                stage[i] = low + high - stage[i]
        length[low : high + 1] = length[low : high + 1][::-1].copy()
    elif which == 2:  # one stage in two
        if length[a] > 1 and count < layer_limit:
            for i in range(n):
                if stage[i] > a or (stage[i] == a and np.random.random() < 0.5):
                    stage[i] += 1
            for s in range(count, a + 1, -1):
                length[s] = length[s - 1]
            part = 1 + np.random.randint(length[a] - 1)
            length[a + 1] = length[a] - part
            length[a] = part
            return count + 1
    elif a + 1 < count:  # two stages in one
        for i in range(n):
            if stage[i] > a:
                stage[i] -= 1
        length[a] += length[a + 1]
        for s in range(a + 1, count - 1):
            length[s] = length[s + 1]
        length[count - 1] = 0
        return count - 1
    return count


@compiled
def _place(stage: IntArray, length: IntArray, a: int, b: int) -> None:
    """Move stage a to position b in the row; stages in between shift by one."""
    moved = length[a]
    step = 1 if b > a else -1
    for s in range(a, b, step):
        length[s] = length[s + step]
    length[b] = moved
    for i in range(len(stage)):
        if stage[i] == a:
            stage[i] = b
        elif (a < stage[i] <= b) or (b <= stage[i] < a):
            stage[i] -= step


@compiled
def _fill(
    devices: DeviceArrays,
    stage: IntArray,
    length: IntArray,
    count: int,
    touched: Truths,
    members: IntArray,
    start: IntArray,
    terms: FloatArray,
) -> None:
    """Update `terms` for touched stages s: the capacity at 2 s + 1, maximum flow into it at 2 s, out of it at 2 s + 2.

    `members` and `start` are scratch for the devices sorted by stage, idle ones first.
    """
    kind, capacity, rates = devices
    n = len(kind)
    start[:] = 0
    for i in range(n):
        start[stage[i] + 1] += 1
    total = 0
    for s in range(count + 1):
        total += start[s]
        start[s] = total
    start[count + 1] = n
    for i in range(n):
        start[stage[i] + 1] -= 1
        members[start[stage[i] + 1]] = i
    for s in range(count):
        if touched[s + 1]:
            stage_capacity = 0.0
            for x in range(start[s + 1], start[s + 2]):
                stage_capacity += capacity[kind[members[x]], length[s]]
            terms[2 * s + 1] = stage_capacity
    for s in range(count + 1):
        if not ((s > 0 and touched[s]) or (s < count and touched[s + 1])):
            continue
        total_flow = 0.0
        if s == 0:  # from the source, the last but one row of rates
            for x in range(start[1], start[2]):
                i = members[x]
                total_flow += min(capacity[kind[i], length[0]], rates[n, i])
        elif s == count:  # into the sink, the last column
            for x in range(start[count], start[count + 1]):
                i = members[x]
                total_flow += min(capacity[kind[i], length[count - 1]], rates[i, n + 1])
        else:
            total_flow = _between(
                devices,
                members[start[s] : start[s + 1]],
                members[start[s + 1] : start[s + 2]],
                length[s - 1],
                length[s],
                min(terms[2 * s - 1], terms[2 * s + 1]),
            )
        terms[2 * s] = total_flow


@compiled
def _energy(terms: FloatArray, count: int, goal: float) -> tuple[float, float]:
    """Sum of the squared fractions of the goal that the terms lack, and the least term [requests/s]."""
    energy, least = 0.0, np.inf
    for x in range(2 * count + 1):
        least = min(least, terms[x])
        lack = max(0.0, 1.0 - terms[x] / goal)
        energy += lack * lack
    return energy, least


@compiled
def _between(
    devices: DeviceArrays, senders: IntArray, receivers: IntArray, before: int, after: int, limit: float
) -> float:
    """Maximum flow from senders with `before` layers each to receivers with `after`; at most `limit` [requests/s]."""
    kind, capacity, rates = devices
    free = True
    for i in senders:
        for j in receivers:
            free &= rates[i, j] >= min(capacity[kind[i], before], capacity[kind[j], after])
    if free or limit <= 0.0:
        return limit
    if len(senders) == 1 or len(receivers) == 1:
        total = 0.0
        for i in senders:
            for j in receivers:
                total += min(rates[i, j], min(capacity[kind[i], before], capacity[kind[j], after]))
        return min(total, limit)
    size = len(senders) + len(receivers)
    arcs = np.zeros((size + 2, size + 2))
    for x, i in enumerate(senders):
        arcs[0, 2 + x] = capacity[kind[i], before]
        for y, j in enumerate(receivers):
            arcs[2 + x, 2 + len(senders) + y] = rates[i, j]
    for y, j in enumerate(receivers):
        arcs[2 + len(senders) + y, 1] = capacity[kind[j], after]
    return push_most(arcs)


#: Of the moves: a route, other layers for a device, an exchange, layers of another device; the rest moves an end.
_ROUTE, _LAYERS, _EXCHANGE, _COPY = 0.25, 0.3, 0.15, 0.15
# Devices that are drawn until a link leads to one; parts of the routes from a device, all the way, and past others.
_DRAWS, _FROM_DEVICE, _TO_THE_END, _ON = 6, 0.5, 0.3, 0.5
# Part of the devices whose end goes along with that of another one.
_ALONG = 0.9


@compiled
def anneal_intervals(
    devices: DeviceArrays, interval: IntArray, longest: int, best: float, cooling: Cooling, seed: int
) -> tuple[float, IntArray, float]:
    """Run simulated annealing from `interval` over arbitrary intervals of layers.

    Parameters
    ----------
    interval : (n, 2) integers
        Layers of each device, from begin to before end; updated in place.
    longest : int
        Largest number of devices that a request may pass.
    best : float
        Flow that must be exceeded [requests/s].
    cooling : Cooling
        Its temperatures are fractions of the best flow.

    Returns
    -------
    tuple
        The best flow [requests/s] and its (n, 2) intervals, which mean nothing if the flow is still `best`; and the
        flow of the last `interval`.
    """
    np.random.seed(seed)
    best_interval, changed = interval.copy(), interval.copy()
    flow = _flow_of(devices, interval, longest)
    scale, temperature, factor = max(flow, best), cooling.hot, factor_of(cooling)
    for _ in range(cooling.moves):
        temperature *= factor
        changed[:] = interval
        if not _change_interval(devices, interval, changed):
            continue
        new = _flow_of(devices, changed, longest)
        if new < flow and (scale <= 0.0 or np.random.random() >= math.exp((new - flow) / (scale * temperature))):
            continue
        interval[:], flow = changed, new
        if flow > best * (1 + 1e-9):
            best, scale = flow, flow
            best_interval[:] = interval
    return best, best_interval, flow


@compiled
def _flow_of(devices: DeviceArrays, interval: IntArray, longest: int) -> float:
    """Maximum flow [requests/s]; -1 if a device has layers that it cannot hold, or a path is too long."""
    n, layers = len(interval), devices.capacity.shape[1] - 1
    capacity = np.zeros(n)
    for i in range(n):
        count = interval[i, 1] - interval[i, 0]
        if count > 0:
            capacity[i] = devices.capacity[devices.kind[i], count]
            if capacity[i] <= 0.0:
                return -1.0
    if longest < n and longest_path(layers, interval, devices.rates) > longest:
        return -1.0
    return push_most(network_of(layers, interval, capacity, devices.rates))


@compiled
def _change_interval(devices: DeviceArrays, interval: IntArray, changed: IntArray) -> bool:
    """Write a random move into `changed`, a copy of `interval`; return whether it is possible."""
    n, layers = len(interval), devices.capacity.shape[1] - 1
    i, j = np.random.randint(n), np.random.randint(n)
    draw = np.random.random()
    if draw < _ROUTE:
        _lay_route(devices, interval, changed, i)
        return True
    draw -= _ROUTE
    if draw < _LAYERS:
        k = np.random.randint(n)
        begin, end = 0 if j == i else interval[j, 1], layers if k == i else interval[k, 0]
        free = np.random.randint(3)
        if free == 0:
            end = begin + 1 + np.random.randint(layers)
        elif free == 1:
            begin = end - 1 - np.random.randint(layers)
        changed[i, 0], changed[i, 1] = begin, end
        return 0 <= begin < end <= layers
    draw -= _LAYERS
    if draw < _EXCHANGE:
        changed[i], changed[j] = interval[j], interval[i]
        return i != j
    if draw < _EXCHANGE + _COPY:
        changed[i] = interval[j]
        return i != j
    old = interval[j, np.random.randint(2)]
    step = 1 + int(np.random.exponential(0.5))
    new = old + step if np.random.random() < 0.5 else old - step
    if not (0 < old < layers and 0 < new < layers):
        return False
    for x in range(n):
        for side in range(2):
            if interval[x, side] == old and (x == j or np.random.random() < _ALONG):
                changed[x, side] = new
        if changed[x, 0] > changed[x, 1]:
            return False
    return True


@compiled
def _lay_route(devices: DeviceArrays, interval: IntArray, changed: IntArray, first: int) -> None:
    """Write consecutive layers for linked devices into `changed`, until other devices can continue.

    The route begins at the source or behind device `first`.
    """
    kind, capacity, rates = devices
    n, layers = len(interval), capacity.shape[1] - 1
    at, layer = n, 0  # the source is behind the devices in `rates`
    if 0 < interval[first, 1] < layers and np.random.random() < _FROM_DEVICE:
        at, layer = first, interval[first, 1]
    for _ in range(n):
        to = -1
        for _ in range(_DRAWS):
            drawn = np.random.randint(n)
            if drawn != at and rates[at, drawn] > 0.0:
                to = drawn
                break
        if to < 0:
            return
        count = layers - layer
        if np.random.random() >= _TO_THE_END:
            count = 1 + np.random.randint(count)
        while count > 0 and capacity[kind[to], count] <= 0.0:
            count -= 1
        if count == 0:
            return
        changed[to, 0], changed[to, 1] = layer, layer + count
        at, layer = to, layer + count
        goes_on = layer == layers
        for x in range(n):
            goes_on |= changed[x, 0] == layer and changed[x, 1] > layer and rates[at, x] > 0.0
        if layer == layers or (goes_on and np.random.random() >= _ON):
            return
