"""Simulated annealing of placements in which each device holds any interval of layers, compiled by numba.

A move gives one device other layers, exchanges those of two devices, moves an end that several intervals share, or lays
a route: it gives consecutive layers to linked devices, from the source or from the end of a device's interval, which
opens paths that no change of a single device opens. The objective is the flow itself.
"""

from __future__ import annotations

import math

import numpy as np

from heuristics.flow.stages import DeviceArrays
from heuristics.local_search.annealing import Cooling, factor_of
from instances.compiled import compiled
from instances.flow.answer import longest_path, network_of, push_most
from instances.graph.tensors import IntArray

#: Of the moves: a route, other layers for a device, an exchange, layers of another device; the rest moves an end.
_ROUTE, _LAYERS, _SWAP, _COPY = 0.25, 0.3, 0.15, 0.15
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
        if not _change(devices, interval, changed):
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
def _change(devices: DeviceArrays, interval: IntArray, changed: IntArray) -> bool:
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
    if draw < _SWAP:
        changed[i], changed[j] = interval[j], interval[i]
        return i != j
    if draw < _SWAP + _COPY:
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
