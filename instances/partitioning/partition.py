r"""Answer of partitioning: a block for every node, and the cost of each block.

.. math::

    \mathrm{io}(S, T) &= \tfrac1B \sum \{ \mathrm{bytes}(t) : t \text{ produced in } S, \text{ read in } T \}   (1)\\
    \mathrm{overflow}(S) &= \tfrac1B \max(0, \mathrm{held}(S) + \mathrm{peak}(S) - M)                          (2)\\
    f(S) &= \mathrm{io}(V \setminus S, S) + \mathrm{work}(S) + \mathrm{overflow}(S)
            + \mathrm{io}(S, V \setminus S)                                                                    (3)\\
    \mathrm{OPT} &= \min_{P_1, \dots, P_k} \max_i f(P_i)                                                       (4)

from "Practical Performance Guarantees for Pipelined DNN Inference" (Archer, Fahrbach, Liu, Prabhu; ICML
2024), where a block holds its parameters; here it holds the states of its nodes too, such as caches of keys and
values. This file is the only definition of cost; everything else in the project is tested against it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from instances.errors import InputError, OneKindError
from instances.graph.display import Displayed, Rows, figures
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray, IntArray, cached_array, freeze, sorted_unique, sums_by
from instances.graph.views import parameters_by, transfers
from instances.partitioning.memory import block_peaks, largest_needs, overflow_bytes
from instances.partitioning.problem import Instance
from instances.partitioning.stated import Crossing, StageReport

#: Stands for the kind of a block without nodes.
IDLE = -1


class BlockCosts(NamedTuple):
    """The four terms of eq. (3) for each block, (k,) floats each, in the time unit of the work."""

    receive: FloatArray
    work: FloatArray
    overflow: FloatArray
    send: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class Partition(Displayed):
    """Answer to a question of partitioning: a block for every node such that no edge points backwards.

    Its costs are computed here and nowhere else, by equations (1) to (4).

    Parameters
    ----------
    instance : Instance
    block : (n,) integers
        Block of each node, 0 to k - 1; blocks may be empty.
    order : (n,) integers, optional
        The topological order in which blocks execute their nodes; it matters for peak memory only. By
        default nodes run by depth, then by index.
    kind : (k,) integers, optional
        Kind of the device of each block, ignored for empty blocks. It follows where devices are alike, or in a fixed
        order.

    Raises
    ------
    InputError
        If a block is out of range, an edge points backwards (the message names it), a constraint of the instance is
        broken (the message names the nodes), `order` is not a topological order, or a kind is out of range or has more
        blocks than devices.
    """

    instance: Instance
    block: IntArray
    order: IntArray

    def __init__(
        self, instance: Instance, block: ArrayLike, order: ArrayLike | None = None, kind: ArrayLike | None = None
    ) -> None:
        graph = instance.graph
        block = _integers(block, "block")
        order = graph.topological_order if order is None else check_order(graph, order)
        if block.shape != (graph.n,):
            raise InputError(f"The partition has {block.size} blocks for {graph.n} nodes; give one per node.")
        for v in np.flatnonzero((block < 0) | (block >= instance.k))[:1]:
            where = f"Node {v} ({graph.names[v]}) is in block {block[v]}"
            raise InputError(f"{where}; blocks run from 0 to {instance.k - 1}.")
        u, v = graph.edges[:, 0], graph.edges[:, 1]
        for e in np.flatnonzero(block[u] > block[v])[:1]:
            raise InputError(
                f"Edge {u[e]} -> {v[e]} ({graph.names[u[e]]} -> {graph.names[v[e]]}) points backwards, "
                f"from block {block[u[e]]} to block {block[v[e]]}."
            )
        if instance.constraints:
            instance.rules.check(graph, block, instance.k)
        freeze(block, order)
        object.__setattr__(self, "instance", instance)
        object.__setattr__(self, "block", block)
        object.__setattr__(self, "order", order)
        if not instance.is_alike:
            self.__dict__["kind"] = self._checked_kinds(kind)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        freeze(*(value for value in state.values() if isinstance(value, np.ndarray)))  # pickling forgets it

    def under(self, instance: Instance) -> Partition:
        """The same blocks as an answer to another question of the same graph and devices.

        Raises
        ------
        InputError
            If they break one of its constraints.
        """
        return self if instance is self.instance else Partition(instance, self.block, self.order, self.kind)

    def _checked_kinds(self, kind: ArrayLike | None) -> IntArray:
        """(k,) kind of each block, `IDLE` for empty ones; `InputError` if there are not as many devices."""
        k, machines = self.instance.k, self.instance.machines
        if kind is None and not machines.is_fixed:
            raise OneKindError("The kinds of the blocks are missing; give one a block.")
        kinds = np.array(machines.sequence if kind is None or machines.is_fixed else kind)
        if kinds.shape != (k,) or kinds.dtype.kind not in "iu":
            raise InputError(f"There are {kinds.size} kinds for {k} blocks; give one number a block.")
        busy = np.bincount(self.block, minlength=k) > 0
        kinds = np.where(busy, kinds, IDLE).astype(np.int64)
        used, last = kinds[busy], len(machines.kinds) - 1
        if ((used < 0) | (used > last)).any():
            raise InputError(f"A block is on a kind that there is not; they run from 0 to {last}.")
        for owned, count in zip(machines.kinds, np.bincount(used, minlength=last + 1).tolist(), strict=True):
            if count > owned.count:
                raise InputError(f"{count} blocks are on {owned.name}, of which there are {owned.count}; move some.")
        freeze(kinds)
        return kinds

    @cached_property
    def kind(self) -> IntArray:
        """(k,) kind of the device of each block; `IDLE` for empty ones."""
        kinds = np.where(np.bincount(self.block, minlength=self.instance.k) > 0, 0, IDLE)
        freeze(kinds)
        return kinds

    @cached_property
    def costs(self) -> BlockCosts:
        """Receive, work, overflow and send time of each block on a device of its kind, eq. (1) to (3).

        Where the memory is a hard limit, the overflow of a block that exceeds it is infinite; so is the work of a node
        that cannot run on that kind.
        """
        instance, k = self.instance, self.instance.k
        graph, tensors = instance.graph, instance.graph.tensors
        home, (tensor, entered) = self.block[tensors.producer], self.transfers
        senders = sorted_unique(tensor)
        if instance.is_alike:
            work, receive = graph.work, instance.tensor_time[tensor]
        else:
            work = instance.work[self.kind[self.block], np.arange(graph.n)]
            receive = tensors.bytes[tensor] / self._rates_between(home[tensor], entered)
        costs = BlockCosts(
            receive=sums_by(entered, receive, k),
            work=sums_by(self.block, work, k),
            overflow=self._overflow(),
            send=sums_by(home[senders], self.tensor_times[senders], k),
        )
        freeze(*costs)
        return costs

    @cached_property
    def transfers(self) -> tuple[IntArray, IntArray]:
        """Tensors that leave their blocks, and the blocks that they enter, each tensor once."""
        tensor, entered = transfers(self.instance.graph, self.block, self.instance.k)
        freeze(tensor, entered)
        return tensor, entered

    def _rates_between(self, sender: IntArray, reader: IntArray) -> FloatArray:
        """For each pair of blocks, the rate from `sender` to `reader` [bytes per unit of time]."""
        if self.instance.rates is not None:
            return self.instance.rates[self.kind[sender], self.kind[reader]]
        return np.array(self.instance.bandwidths)[self.kind[reader]]

    @cached_property
    def tensor_times(self) -> FloatArray:
        """(t,) time to send each tensor from its block [time unit of the graph], to its slowest reader."""
        instance, tensors = self.instance, self.instance.graph.tensors
        if instance.is_alike:
            return instance.tensor_time
        home = self.block[tensors.producer]
        if instance.rates is None:
            sizes = np.where(np.diff(tensors.start) > 0, tensors.bytes, 0.0)
            return sizes / np.array(instance.bandwidths)[self.kind[home]]
        times, (tensor, entered) = np.zeros(len(home)), self.transfers
        np.maximum.at(times, tensor, tensors.bytes[tensor] / self._rates_between(home[tensor], entered))
        return times

    @cached_array
    def block_costs(self) -> FloatArray:
        """(k,) cost of each block, eq. (3) [time unit of the graph]."""
        receive, work, overflow, send = self.costs
        return receive + work + overflow + send

    @cached_property
    def bottleneck(self) -> float:
        """Cost of the slowest block, eq. (4) [time unit of the graph]."""
        return float(self.block_costs.max())

    @property
    def kinds_by_name(self) -> list[str | None]:
        """Name of the kind of each block, None where it is empty."""
        return [None if t == IDLE else self.instance.machines.kinds[t].name for t in self.kind.tolist()]

    @property
    def kind_names(self) -> Sequence[str]:
        """Name of the kind of each block, "–" for an empty block; no names where all devices are alike."""
        return () if self.instance.is_alike else [name or "–" for name in self.kinds_by_name]

    @property
    def device(self) -> IntArray:
        """(k,) number of the device of each block, in the order in which the kinds are given; `IDLE` without one."""
        machines = self.instance.machines
        if machines.is_fixed or self.instance.is_alike:
            return np.where(self.kind == IDLE, IDLE, np.arange(self.instance.k))
        free = [np.flatnonzero(np.array(machines.sequence) == t).tolist() for t in range(len(machines.kinds))]
        return np.array([IDLE if t == IDLE else free[t].pop(0) for t in self.kind.tolist()])

    @property
    def memories(self) -> FloatArray:
        """(k,) memory of the device of each block [bytes]; infinite for empty blocks if devices differ."""
        if self.instance.is_alike:
            return np.full(self.instance.k, self.instance.platform.memory)
        return np.array([*(kind.memory for kind in self.instance.machines.kinds), math.inf])[self.kind]

    @property
    def cost(self) -> float:
        """The bottleneck."""
        return self.bottleneck

    @property
    def preference(self) -> tuple[float, float]:
        """The smaller the better: the bottleneck, then, if that is infinite, the most bytes that do not fit."""
        return self.bottleneck, 0.0 if self.bottleneck < math.inf else float(self.excess.max())

    @property
    def throughput(self) -> float:
        """Inferences per unit of time, 1 / bottleneck."""
        return 1 / self.bottleneck if self.bottleneck > 0 else math.inf

    @property
    def latency(self) -> float:
        """Time of one inference through the pipeline, k times the bottleneck [time unit of the graph]."""
        return self.instance.k * self.bottleneck

    @cached_array
    def peaks(self) -> FloatArray:
        """(k,) activation memory of each block [bytes]: the platform's buffer, or the peak of the order of nodes.

        For questions that take peaks by need, it is the largest need of a node in the block.
        """
        buffer = self.instance.activation_buffer
        if buffer is None and self.instance.by_need:
            return largest_needs(self.instance.needs, self.block, self.instance.k)
        if buffer is None:
            return block_peaks(self.instance.graph, self.block, self.order, self.instance.k)
        return np.where(np.bincount(self.block, minlength=self.instance.k) > 0, buffer, 0.0)

    @cached_array
    def param_bytes(self) -> FloatArray:
        """(k,) parameters of each block [bytes]; a shared one counts once in each block that uses it."""
        return parameters_by(self.instance.graph, self.block, self.instance.k)

    @cached_array
    def state_bytes(self) -> FloatArray:
        """(k,) what the nodes of each block keep from run to run, such as caches of keys and values [bytes]."""
        return sums_by(self.block, self.instance.graph.state_bytes, self.instance.k)

    @property
    def fits(self) -> bool:
        """Whether each block's parameters, states and peak together fit into its device's memory."""
        return not self.excess.any()

    @cached_array
    def excess(self) -> FloatArray:
        """(k,) bytes of parameters, states and peak beyond the memory of each block."""
        instance = self.instance
        if not instance.machines.is_limited:
            return np.zeros(instance.k)
        if instance.has_exact_bytes:
            limits = instance.platform.memory if instance.is_alike else self.memories
            return np.maximum(0.0, self.param_bytes + self.state_bytes + self.peaks - limits)
        return overflow_bytes(instance, self.block, self.order, self.memories)

    def _overflow(self) -> FloatArray:
        if self.instance.fit:
            return np.where(self.excess > 0, math.inf, 0.0)
        if self.instance.is_alike:
            return self.excess / self.instance.platform.bandwidth
        return self.excess / np.array(self.instance.bandwidths)[self.kind]

    def _title(self) -> str:
        return self.instance.name

    def _facts(self) -> dict[str, str]:
        unit = self.instance.graph.time_unit
        return {
            "k": str(self.instance.k),
            "bottleneck": figures(self.bottleneck, unit),
            "throughput": figures(self.throughput, f"per {unit}"),
        }

    @property
    def measures(self) -> dict[str, str]:
        """Blocks, throughput and latency in words."""
        used, k, unit = len(set(self.block.tolist())), self.instance.k, self.instance.graph.time_unit
        empty = {} if used == k else {"blocks": f"{used} of {k} used, the others are empty"}
        rate = figures(self.throughput, f"per {unit}")
        return {**empty, "throughput": rate, "latency": figures(self.latency, unit)}

    def _rows(self) -> Rows:
        counts = np.bincount(self.block, minlength=self.instance.k).tolist()
        times = np.column_stack((self.block_costs, *self.costs)).tolist()
        names = [[name] for name in self.kind_names] or [[]] * self.instance.k
        rows = [[str(b), *names[b], str(counts[b]), *map(figures, row)] for b, row in enumerate(times)]
        device = ["device"] if self.kind_names else []
        return ["block", *device, "nodes", f"cost [{self.instance.time_unit}]", *BlockCosts._fields], rows


def check_order(graph: ComputationGraph, order: ArrayLike) -> IntArray:
    """Return `order` as integers.

    Raises
    ------
    InputError
        If it is not a topological order of `graph`.
    """
    checked = _integers(order, "order")
    if not np.array_equal(np.sort(checked), np.arange(graph.n)):
        raise InputError(f"The order is not a permutation of the nodes 0 to {graph.n - 1}.")
    position = np.argsort(checked)
    for u, v in graph.edges[position[graph.edges[:, 0]] > position[graph.edges[:, 1]]][:1]:
        raise InputError(f"Edge {u} -> {v} points backwards in the order.")
    return checked


def _integers(values: ArrayLike, label: str) -> IntArray:
    try:
        array = np.array(values)
    except ValueError:
        raise InputError(f"The {label} must be a plain list of whole numbers.") from None
    whole = array.dtype.kind in "iu" or (array.dtype.kind == "f" and np.array_equal(array, np.round(array)))
    if array.size and not whole:
        raise InputError(f"The {label} must be whole numbers.")
    return array.astype(np.int64)


# Stages of a partition, one record for each, and the tensors that move between them.


def stages(partition: Partition) -> tuple[StageReport, ...]:
    """A report on each block that holds a node, in order; empty blocks cost nothing and are left out."""
    names, bottleneck = partition.instance.graph.names, partition.bottleneck
    by_block = partition.order[np.argsort(partition.block[partition.order], kind="stable")]
    occupied, begin = np.unique(partition.block[by_block], return_index=True)
    terms = {name: times.tolist() for name, times in partition.costs._asdict().items()}
    sizes = {name: getattr(partition, name).tolist() for name in ("param_bytes", "state_bytes")}
    costs, peaks = partition.block_costs.tolist(), partition.peaks.tolist()
    return tuple(
        StageReport(
            stage=b,
            first=names[nodes[0]],
            last=names[nodes[-1]],
            nodes=len(nodes),
            **{name: times[b] for name, times in (terms | sizes).items()},
            cost=costs[b],
            share=1.0 if costs[b] == bottleneck else costs[b] / bottleneck,
            peak_bytes=peaks[b],
        )
        for b, nodes in zip(occupied.tolist(), np.split(by_block, begin[1:]), strict=True)
    )


def crossings(partition: Partition) -> tuple[Crossing, ...]:
    """The tensors that are read outside the block that makes them, by producer and output."""
    graph, time = partition.instance.graph, partition.tensor_times
    tensors, home = graph.tensors, partition.block[graph.tensors.producer]
    crossing, entered = partition.transfers
    moved, begin = np.unique(crossing, return_index=True)
    return tuple(
        Crossing(
            producer=graph.names[node],
            node=node,
            output=t - int(graph.output_start[node]),
            source=int(home[t]),
            readers=tuple(blocks.tolist()),
            bytes=float(tensors.bytes[t]),
            time=float(time[t]),
        )
        for t, node, blocks in zip(
            moved.tolist(), tensors.producer[moved].tolist(), np.split(entered, begin)[1:], strict=True
        )
    )
