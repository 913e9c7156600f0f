"""The largest flow of small questions, by branch and bound over the layers of one device after the other.

A branch fixes the layers of some devices. Its relaxed network gives each other device all links it may have with any
layers, from the source and each device that ends before the last layer, to the sink and each that begins behind the
first, and the capacity with its best number of layers. The maximum flow there is an upper bound. So is the capacity
for each layer of the devices that hold it and of all that are not fixed; and so is that for all layers together, where
each device that is not fixed counts with its best number of layers. Where one of the three is no larger than the best
flow, the branch ends.

Of interchangeable devices each begins no earlier than the one before it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances import Bound, Result
from instances.compiled import compiled
from instances.deadline import Deadline, Stopwatch
from instances.flow.answer import FlowAnswer, longest_path, push_most
from instances.flow.problem import SINK, SOURCE, FlowInstance
from instances.graph.tensors import FloatArray, IntArray

# Relative: by how much a flow is better, and what the best one is raised by before it is stated.
_BETTER, _SAFE = 1e-9, 4e-9
# Branches between two looks at the clock, and the largest logarithm of the number of all intervals of all devices.
_CHUNK, _LARGEST = 20_000, math.log(1e14)


class Branches(NamedTuple):
    """The search tree: devices in the order of branching, and the intervals of layers that each may hold."""

    way: IntArray  # (w, 2) first layer and end of each interval, device by device
    start: IntArray  # (n + 1,) index in `way` of the first interval of each device
    alike: NDArray[np.bool_]  # (n,) whether it can be exchanged with the device before it
    capacity: FloatArray  # (n, L + 1) requests/s
    rates: FloatArray  # (n + 2, n + 2) requests/s; source and sink are the last two


class Enumerated(NamedTuple):
    """Result of an enumeration: the largest flow above a given flow, if there is one."""

    flow: float  # requests/s
    interval: IntArray | None  # (n, 2) layers of the devices; None if no flow is larger than the given one
    branches: int  # number of branches explored


def enumerate_flows(
    instance: FlowInstance, branches: int, start: FlowAnswer | None = None, deadline: Deadline | None = None
) -> Result[FlowInstance, FlowAnswer] | None:
    """The largest flow, with proof; None if the limit on branches or the time does not suffice.

    Parameters
    ----------
    branches : int
        Largest number of partial assignments to explore.
    start : FlowAnswer, optional
        A known answer; the result is no worse.
    """
    watch = Stopwatch()
    largest = enumerate_above(instance, 0.0 if start is None else start.flow, branches, deadline or Deadline())
    if largest is None:
        return None
    if largest.flow <= 0:
        reason = instance.unreachable() or "whatever layers the devices hold, no request passes"
        return Result("enumeration", instance, impossible=reason, seconds=watch.seconds(bound=watch.passed))
    answer = start if largest.interval is None else FlowAnswer(instance, largest.interval)
    bound = Bound(1 / (largest.flow * (1 + _SAFE)), "enumeration", True)
    return Result("enumeration", instance, answer, bound, watch.seconds(bound=watch.passed))


def is_small(instance: FlowInstance) -> bool:
    """Whether devices and layers are few enough for an enumeration."""
    ways = [sum(instance.layers - c + 1 for c in np.flatnonzero(row).tolist()) for row in instance.capacity]
    return sum(math.log(max(1, ways[t])) for t in instance.kind.tolist()) <= _LARGEST


def enumerate_above(instance: FlowInstance, flow: float, branches: int, deadline: Deadline) -> Enumerated | None:
    """The largest flow above `flow` [requests/s]; None if the limit on branches or the time does not suffice."""
    if not is_small(instance):
        return None
    order, tree = _branches(instance)
    table, improved, remaining = np.zeros((instance.n, 2), dtype=np.int64), False, branches
    way, depth = np.full(instance.n, -1), 0
    while depth >= 0:
        if remaining <= 0 or deadline.passed:
            return None
        better, depth = branch(tree, way, depth, flow, table, instance.longest, min(_CHUNK, remaining))
        improved |= better > flow
        flow, remaining = better, remaining - _CHUNK
    interval = np.empty_like(table)
    interval[order] = table
    return Enumerated(flow, interval if improved else None, branches - remaining)


def alike_devices(instance: FlowInstance) -> list[list[int]]:
    """Families of interchangeable devices, as lists of indices; devices with the largest capacities come first."""
    capacity = instance.capacity[instance.kind]
    carried = (capacity * np.arange(instance.layers + 1)).max(axis=1)
    waiting, families = np.argsort(-carried, kind="stable").tolist(), list[list[int]]()
    while waiting:
        first = waiting[0]
        families.append([i for i in waiting if i == first or _can_be_exchanged(instance, first, i)])
        waiting = [i for i in waiting if i not in families[-1]]
    return families


def _branches(instance: FlowInstance) -> tuple[IntArray, Branches]:
    """(n,) the devices in the order of branching, interchangeable ones consecutive, and the search tree."""
    n, layers, rates = instance.n, instance.layers, instance.rates
    capacity, families = instance.capacity[instance.kind], alike_devices(instance)
    order = [i for family in families for i in family]
    alike = [i != family[0] for family in families for i in family]
    ways, start = list[tuple[int, int]](), [0]
    for i in order:
        intervals = [(a, a + c) for c in np.flatnonzero(capacity[i]).tolist() for a in range(layers - c + 1)]
        # No layers at all are better than some only where these make a path too long.
        ways += sorted(intervals) if intervals and instance.longest == n else [*sorted(intervals), (0, 0)]
        start.append(len(ways))
    numbers = np.array(order)
    place = np.array([*order, n + SOURCE, n + SINK])
    return numbers, Branches(
        np.array(ways), np.array(start), np.array(alike), capacity[numbers], rates[np.ix_(place, place)].copy()
    )


def _can_be_exchanged(instance: FlowInstance, i: int, j: int) -> bool:
    """Whether two devices have the same capacities and links."""
    place = np.arange(instance.n + 2)
    place[i], place[j] = j, i
    return bool(instance.kind[i] == instance.kind[j] and (instance.rates[np.ix_(place, place)] == instance.rates).all())


@compiled
def branch(
    tree: Branches, way: IntArray, depth: int, best: float, interval: IntArray, longest: int, branches: int
) -> tuple[float, int]:
    """Explore `branches` more branches of the tree.

    Parameters
    ----------
    way : (n,) integers
        State of the search, updated: for each device before `depth` the index of its interval; for the device at
        `depth` that of the last interval tried, -1 if none.
    best : float
        Largest known flow; branches that cannot exceed it are cut off.
    interval : (n, 2) integers
        Receives the layers of the devices for the best flow.
    longest : int
        Largest number of devices on the path of a request.

    Returns
    -------
    tuple
        The best flow, and the depth to continue at, which is negative once the tree is exhausted.
    """
    n, layers = len(way), tree.capacity.shape[1] - 1
    table = np.zeros((n, 2), dtype=np.int64)
    for i in range(depth):
        table[i] = tree.way[tree.start[i] + way[i]]
    network = np.empty((2 * n + 2, 2 * n + 2))
    while depth >= 0 and branches > 0:
        way[depth] += 1
        if way[depth] >= tree.start[depth + 1] - tree.start[depth]:
            depth -= 1
            continue
        branches -= 1
        table[depth] = tree.way[tree.start[depth] + way[depth]]
        goal = best * (1 + _BETTER)
        if longest < n and longest_path(layers, table[: depth + 1], tree.rates) > longest:
            continue
        if not _layers_carry(tree.capacity, table, depth + 1, goal):
            continue
        fill_network(tree, table, depth + 1, layers, network)
        flow = push_most(network)
        if flow <= goal:
            continue
        if depth == n - 1:
            best = flow
            interval[:] = table
        else:
            depth += 1
            way[depth] = way[depth - 1] - 1 if tree.alike[depth] else -1
    return best, depth


@compiled
def _layers_carry(capacity: FloatArray, table: IntArray, given: int, goal: float) -> bool:
    """Whether each layer, and all together, can carry more than `goal`.

    Only the layers of the first `given` devices are fixed; each other device may hold any.
    """
    n, layers = len(table), capacity.shape[1] - 1
    apart, together = 0.0, 0.0
    for i in range(given, n):
        apart += capacity[i].max()
        carried = 0.0
        for c in range(1, layers + 1):
            carried = max(carried, c * min(capacity[i, c], goal))
        together += carried
    missing = 0.0
    for layer in range(layers):
        passed = 0.0
        for i in range(given):
            if table[i, 0] <= layer < table[i, 1]:
                passed += capacity[i, table[i, 1] - table[i, 0]]
        if passed + apart <= goal:
            return False
        missing += max(0.0, goal - passed)
    # Where both are the same for many flows, rounding must not decide.
    return missing <= together + _BETTER * goal * layers


@compiled
def fill_network(tree: Branches, table: IntArray, given: int, layers: int, network: FloatArray) -> None:
    """Write the arc capacities of the relaxed network into `network`, indexed as in `instances.flow.answer.network_of`.

    Only the layers of the first `given` devices are fixed; each other device may hold any.
    """
    n = len(table)
    network[:] = 0.0
    for i in range(n):
        begin, end, any_layers = table[i, 0], table[i, 1], i >= given
        if begin == end and not any_layers:
            continue
        network[2 + i, 2 + n + i] = tree.capacity[i].max() if any_layers else tree.capacity[i, end - begin]
        if any_layers or begin == 0:
            network[0, 2 + i] = tree.rates[n, i]
        if any_layers or end == layers:
            network[2 + n + i, 1] = tree.rates[i, n + 1]
        if not any_layers and end == layers:
            continue
        for j in range(n):
            if j == i or (j < given and (table[j, 0] == 0 or (not any_layers and table[j, 0] != end))):
                continue
            network[2 + n + i, 2 + j] = tree.rates[i, j]
