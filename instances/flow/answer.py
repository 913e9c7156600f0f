"""Answer of flow: layers for each device, and the most requests that pass them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from instances.compiled import compiled
from instances.errors import InputError
from instances.flow.problem import FlowInstance
from instances.graph.display import Displayed, Rows, figures, how_many
from instances.graph.tensors import FloatArray, IntArray, freeze


class Turns(NamedTuple):
    """Batches of sequences that take turns on a group of devices."""

    members: NDArray[np.bool_]  # (n,) the devices of the group
    in_flight: int  # number of batches in flight
    tick: float  # time from step to step [s]; 0 where no request passes
    sizes: IntArray  # (n,) sequences that each device of the group takes in a step; 0 for other devices

    def __str__(self) -> str:
        sizes = sorted(set(self.sizes[self.sizes > 0].tolist()))
        of = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else "".join(map(str, sizes)) or "no"
        sequences, devices = "sequence" if of == "1" else "sequences", how_many(int((self.sizes > 0).sum()), "device")
        turns = f"{how_many(self.in_flight, 'batch')} of {of} {sequences} on {devices}"
        return f"{turns}, a step each {figures(self.tick, 's')}"


@dataclass(frozen=True, eq=False, repr=False)
class FlowAnswer(Displayed):
    """Answer of flow: an interval of layers for each device.

    Parameters
    ----------
    instance : FlowInstance
    interval : (n, 2) integers
        First layer and the one behind the last of each device; equal where it holds none.
    group : (n,) integers, optional
        Number of the group of each device, only for questions with steps. Requests stay in a group, whose devices step
        together; by default all devices are one.

    Raises
    ------
    InputError
        If an interval is out of range, requests pass too many devices, or there are groups and no steps.
    """

    instance: FlowInstance
    interval: IntArray
    group: IntArray

    def __init__(self, instance: FlowInstance, interval: ArrayLike, group: ArrayLike | None = None) -> None:
        table = np.array(interval)
        if table.shape != (instance.n, 2) or table.dtype.kind not in "iu":
            raise InputError(f"There are intervals for {table.shape}; give two whole numbers for {instance.n} devices.")
        table = table.astype(np.int64)
        for i, (begin, end) in enumerate(table.tolist()):
            if not 0 <= begin <= end <= instance.layers:
                place = f"device {instance.devices[i]} holds layers {begin} to {end}"
                raise InputError(f"{place}; they run from 0 to {instance.layers}.")
        numbers = np.zeros(instance.n, dtype=np.int64) if group is None else np.array(group)
        if numbers.shape != (instance.n,) or numbers.dtype.kind not in "iu":
            raise InputError(f"There are groups for {numbers.shape}; give a whole number for {instance.n} devices.")
        if instance.steps is None and numbers.any():
            raise InputError("The question has no steps, so that no groups step together; leave groups out.")
        freeze(table)
        freeze(numbers)
        object.__setattr__(self, "instance", instance)
        object.__setattr__(self, "interval", table)
        object.__setattr__(self, "group", numbers)
        path = longest_path(instance.layers, table, self.rates)
        if path > instance.longest:
            raise InputError(f"Requests pass {path} devices one after the other; they may pass {instance.longest}.")

    @cached_property
    def rates(self) -> FloatArray:
        """(n + 2, n + 2) requests per second that each link can carry; 0 between two groups of devices."""
        n, rates = self.instance.n, np.array(self.instance.rates)
        rates[:n, :n][self.group[:, None] != self.group] = 0.0
        return rates

    @cached_property
    def turns(self) -> tuple[Turns, ...]:
        """Batches and ticks with the largest flow, for each group that holds layers; empty without steps.

        If the question leaves their number free, there are as many batches as devices on the longest path.
        """
        steps, instance, turns = self.instance.steps, self.instance, list[Turns]()
        if steps is None:
            return ()
        for group in np.unique(self.group[self._counts > 0]).tolist():
            members = self.group == group
            intervals = np.where(members[:, None], self.interval, 0)
            in_flight = steps.in_flight or max(1, longest_path(instance.layers, intervals, self.rates))
            tick = _best_tick(instance, intervals, self.rates, in_flight)
            sizes = np.where(members, steps.batch(in_flight, tick)[instance.kind, self._counts], 0)
            turns.append(Turns(members, in_flight, tick, sizes))
        return tuple(turns)

    @property
    def _counts(self) -> IntArray:
        """(n,) number of layers of each device."""
        counts: IntArray = self.interval[:, 1] - self.interval[:, 0]
        return counts

    @cached_property
    def network(self) -> FloatArray:
        """(2n + 2, 2n + 2) capacities as `network_of` has them [requests/s]."""
        capacities: FloatArray = network_of(self.instance.layers, self.interval, self.capacity, self.rates)
        return capacities

    @cached_property
    def flow(self) -> float:
        """Maximum flow from the source to the sink [requests/s]."""
        return push_most(self.network.copy())

    @cached_property
    def passing(self) -> FloatArray:
        """(2n + 2, 2n + 2) flow on each arc of the network in one maximum flow [requests/s]."""
        residual = self.network.copy()
        push_most(residual)
        return np.maximum(0.0, self.network - residual)

    def document(self) -> dict[str, list[int]]:
        """Layers of each device by its name, as files have them."""
        return dict(zip(self.instance.devices, self.interval.tolist(), strict=True))

    @cached_property
    def capacity(self) -> FloatArray:
        """(n,) requests per second of each device with its layers."""
        steps, instance = self.instance.steps, self.instance
        if steps is None:
            capacity: FloatArray = instance.capacity[instance.kind, self._counts]
            return capacity
        capacity = np.zeros(instance.n)
        for members, in_flight, tick, _ in self.turns:
            table = steps.capacity(in_flight, tick, tick)[instance.kind, self._counts]
            capacity[members] = table[members]
        return capacity

    @property
    def cost(self) -> float:
        """Time for each token of the sequences, or for each request, 1 / flow [s]."""
        return 1 / self.flow if self.flow > 0 else math.inf

    def _title(self) -> str:
        return self.instance.name

    @property
    def measures(self) -> dict[str, str]:
        """The flow, and the batches that take turns for it, as texts by label."""
        alike = Counter(map(str, self.turns))
        groups = [text if count == 1 else f"{count} groups, each {text}" for text, count in alike.items()]
        waiting = {"in flight": "; ".join(groups)} if groups else {}
        return {"flow": figures(self.flow, self.instance.rate_unit), **waiting}

    def _facts(self) -> dict[str, str]:
        return self.measures

    def _rows(self) -> Rows:
        order = np.lexsort((self.interval[:, 1], self.interval[:, 0], self.group))
        sizes = {i: str(turns.sizes[i]) for turns in self.turns for i in np.flatnonzero(turns.members).tolist()}
        rows = [
            [
                self.instance.devices[i],
                f"{begin}–{end - 1}" if end > begin else "–",
                *([sizes.get(i, "0")] if self.turns else []),
                figures(self.capacity[i]),
            ]
            for i in order.tolist()
            for begin, end in [self.interval[i].tolist()]
        ]
        return ["device", "layers", *(["sequences"] if self.turns else []), self.instance.rate_unit], rows


def _best_tick(instance: FlowInstance, interval: IntArray, rates: FloatArray, in_flight: int) -> float:
    """Step interval of the devices [s] that gives the largest flow; 0 if no interval gives any."""
    assert instance.steps is not None
    steps, counts, layer = instance.steps, interval[:, 1] - interval[:, 0], np.arange(instance.layers)
    seconds, room = steps.seconds[instance.kind, counts], (steps.slots // in_flight)[instance.kind, counts]
    ends_in_time = (steps.sizes <= room[:, None]) & (seconds < math.inf) & (counts > 0)[:, None]
    ticks = np.unique(seconds[ends_in_time]).tolist()
    capacities = [steps.capacity(in_flight, tick, tick)[instance.kind, counts] for tick in ticks]
    holds = (interval[:, :1] <= layer) & (layer < interval[:, 1:])
    limits = [float((capacity @ holds).min()) for capacity in capacities]  # no layer lets more pass
    best, flow = 0.0, 0.0
    for x in sorted(range(len(ticks)), key=lambda x: -limits[x]):
        if limits[x] <= flow:
            break
        passing = push_most(network_of(instance.layers, interval, capacities[x], rates))
        if passing > flow:
            best, flow = ticks[x], passing
    return best


@compiled
def network_of(layers: int, interval: IntArray, capacity: FloatArray, rates: FloatArray) -> FloatArray:
    """(2n + 2, 2n + 2) capacities of arcs [requests/s].

    Node 0 is the source, 1 the sink, 2 + i the entry and 2 + n + i the exit of device i.
    """
    n = len(interval)
    source, sink = n, n + 1  # in `rates`
    arcs = np.zeros((2 * n + 2, 2 * n + 2))
    for i in range(n):
        if interval[i, 1] <= interval[i, 0]:
            continue
        arcs[2 + i, 2 + n + i] = capacity[i]
        if interval[i, 0] == 0:
            arcs[0, 2 + i] = rates[source, i]
        if interval[i, 1] == layers:
            arcs[2 + n + i, 1] = rates[i, sink]
        for j in range(n):
            if j != i and interval[j, 0] == interval[i, 1] and interval[j, 1] > interval[j, 0]:
                arcs[2 + n + i, 2 + j] = rates[i, j]
    return arcs


@compiled
def longest_path(layers: int, interval: IntArray, rates: FloatArray) -> int:
    """Number of devices on the longest path of links from the source to the sink; 0 without a path."""
    n, longest = len(interval), 0
    source, sink = len(rates) - 2, len(rates) - 1
    devices = np.zeros(n, dtype=np.int64)  # on the longest way to each, with itself
    for i in np.argsort(interval[:, 0]):
        begin, end = interval[i, 0], interval[i, 1]
        if begin == end:
            continue
        if begin == 0 and rates[source, i] > 0.0:
            devices[i] = 1
        for j in range(n):
            if interval[j, 1] == begin and devices[j] > 0 and rates[j, i] > 0.0:
                devices[i] = max(devices[i], devices[j] + 1)
        if end == layers and rates[i, sink] > 0.0:
            longest = max(longest, devices[i])
    return longest


@compiled
def push_most(residual: FloatArray) -> float:
    """Maximum flow from node 0 to node 1 (Edmonds and Karp, 1972); `residual` becomes the residual capacities."""
    size = len(residual)
    leaving, entering = 0.0, 0.0  # at the most
    for v in range(size):
        leaving += min(residual[0, v], residual[v].sum())
        entering += min(residual[v, 1], residual[:, v].sum())
    smallest = 1e-12 * min(leaving, entering)
    total = 0.0
    parent, queue = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    while True:
        parent[:] = -1
        parent[0] = 0
        queue[0] = 0
        first, last = 0, 1
        while first < last and parent[1] < 0:
            u = queue[first]
            first += 1
            for v in range(size):
                if parent[v] < 0 and residual[u, v] > smallest:
                    parent[v] = u
                    queue[last] = v
                    last += 1
        if parent[1] < 0:
            return total
        least, v = np.inf, 1
        while v != 0:
            least = min(least, residual[parent[v], v])
            v = parent[v]
        v = 1
        while v != 0:
            residual[parent[v], v] -= least
            residual[v, parent[v]] += least
            v = parent[v]
        total += least
