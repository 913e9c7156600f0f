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
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from instances.errors import InputError
from instances.graph.display import Displayed, Rows, figures
from instances.graph.graph import ComputationGraph
from instances.graph.groups import parameters_by
from instances.graph.tensors import FloatArray, IntArray, cached_array, freeze, sorted_unique, sums_by
from instances.partitioning.memory import block_peaks, largest_needs, overflow_bytes
from instances.partitioning.problem import Instance

__all__ = ["BlockCosts", "Partition", "check_order"]


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

    Raises
    ------
    InputError
        If a block is out of range, an edge points backwards (the message names it), a constraint of the instance is
        broken (the message names the nodes), or `order` is not a topological order.
    """

    instance: Instance
    block: IntArray
    order: IntArray

    cost_name: ClassVar[str] = "bottleneck"

    def __init__(self, instance: Instance, block: ArrayLike, order: ArrayLike | None = None) -> None:
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

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        freeze(*(value for value in state.values() if isinstance(value, np.ndarray)))  # pickling forgets it

    @cached_property
    def costs(self) -> BlockCosts:
        """Receive, work, overflow and send time of each block, eq. (1) to (3).

        Where the memory is a hard limit, the overflow of a block that exceeds it is infinite.
        """
        graph, k = self.instance.graph, self.instance.k
        sender = self.block[graph.tensors.producer[graph.edge_tensor]]
        reader = self.block[graph.tensors.consumers]
        crosses = sender != reader
        # A tensor enters each block once, however many of its nodes read it, and leaves its own once.
        tensor, entered = np.divmod(sorted_unique(graph.edge_tensor[crosses] * k + reader[crosses]), k)
        left = sorted_unique(tensor)
        time = self.instance.tensor_time
        costs = BlockCosts(
            receive=sums_by(entered, time[tensor], k),
            work=sums_by(self.block, graph.work, k),
            overflow=self._overflow(),
            send=sums_by(self.block[graph.tensors.producer[left]], time[left], k),
        )
        freeze(*costs)
        return costs

    @cached_array
    def block_costs(self) -> FloatArray:
        """(k,) cost of each block, eq. (3)."""
        receive, work, overflow, send = self.costs
        return receive + work + overflow + send

    @cached_property
    def bottleneck(self) -> float:
        """Cost of the slowest block, eq. (4)."""
        return float(self.block_costs.max())

    @property
    def kind_names(self) -> Sequence[str]:
        """Name of the kind of device of each block; empty where all devices are alike."""
        return ()

    @property
    def memories(self) -> FloatArray:
        """(k,) memory of the device of each block [bytes]."""
        return np.full(self.instance.k, self.instance.platform.memory)

    @property
    def tensor_times(self) -> FloatArray:
        """Time to move each tensor out of the block that makes it, (t,)."""
        return self.instance.tensor_time

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
        """Time of one inference through the pipeline, k times the bottleneck."""
        return self.instance.k * self.bottleneck

    @cached_array
    def peaks(self) -> FloatArray:
        """(k,) activation memory of each block [bytes]: the platform's buffer, or the peak of the order.

        Of a question by need, the largest need of a node.
        """
        buffer = self.instance.platform.activation_buffer
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
        """Whether what every block holds, and its peak, are within the memory."""
        return not self.excess.any()

    @cached_array
    def excess(self) -> FloatArray:
        """(k,) bytes of parameters, states and peak beyond the memory of each block."""
        platform = self.instance.platform
        if not math.isfinite(platform.memory):
            return np.zeros(platform.k)
        if self.instance.has_exact_bytes:
            held = self.param_bytes + self.state_bytes
            return np.maximum(0.0, held + self.peaks - platform.memory)
        return overflow_bytes(self.instance, self.block, self.order)

    def _overflow(self) -> FloatArray:
        if self.instance.platform.fit:
            return np.where(self.excess > 0, math.inf, 0.0)
        if not self.instance.has_overflow:
            return np.zeros(self.instance.k)
        return self.excess / self.instance.platform.bandwidth

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
        rows = [[str(b), str(counts[b]), *map(figures, row)] for b, row in enumerate(times)]
        return ["block", "nodes", f"cost [{self.instance.graph.time_unit}]", *BlockCosts._fields], rows


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
