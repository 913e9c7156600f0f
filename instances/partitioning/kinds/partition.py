"""Answer of partitioning over kinds of devices: a block for every node, and a kind for every block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from instances.errors import InputError
from instances.graph.display import Rows, figures
from instances.graph.tensors import FloatArray, IntArray, freeze, sorted_unique, sums_by
from instances.partitioning.kinds.problem import UnlikeInstance
from instances.partitioning.partition import BlockCosts, Partition

__all__ = ["IDLE", "UnlikePartition"]

#: In place of the kind of a block without nodes.
IDLE = -1


@dataclass(frozen=True, eq=False, repr=False)
class UnlikePartition(Partition):
    """Answer for devices of several kinds: a block for every node, and a kind of device for every block.

    A block costs what it takes on a device of its kind; no edge points backwards.

    Parameters
    ----------
    instance : UnlikeInstance
    block : (n,) integers
        As of a `Partition`.
    kind : (k,) integers, optional
        Kind of the device of each block; what it says of empty ones is not looked at. In a fixed order it follows.
    order : (n,) integers, optional
        As of `Partition`.

    Raises
    ------
    InputError
        As `Partition`, and if a kind is out of range, or has more blocks than devices.
    """

    instance: UnlikeInstance
    kind: IntArray

    def __init__(
        self, instance: UnlikeInstance, block: ArrayLike, kind: ArrayLike | None = None, order: ArrayLike | None = None
    ) -> None:
        super().__init__(instance, block, order)
        devices = instance.devices
        if kind is None and not devices.is_fixed:
            raise InputError("The kinds of the blocks are missing; give one a block.")
        kinds = np.array(devices.sequence if kind is None or devices.is_fixed else kind)
        if kinds.shape != (instance.k,) or kinds.dtype.kind not in "iu":
            raise InputError(f"There are {kinds.size} kinds for {instance.k} blocks; give one number a block.")
        kinds = np.where(np.bincount(self.block, minlength=instance.k) > 0, kinds, IDLE).astype(np.int64)
        used = kinds[kinds != IDLE]
        if ((used < 0) | (used >= instance.kinds)).any():
            raise InputError(f"A block is on a kind that there is not; they run from 0 to {instance.kinds - 1}.")
        for t, count in enumerate(np.bincount(used, minlength=instance.kinds).tolist()):
            if count > devices.counts[t]:
                own = devices.kinds[t]
                raise InputError(f"{count} blocks are on {own.name}, of which there are {own.count}; move some.")
        freeze(kinds)
        object.__setattr__(self, "kind", kinds)

    @property
    def kinds_by_name(self) -> list[str | None]:
        """Name of the kind of each block, None where it is empty."""
        return [None if t == IDLE else self.instance.devices.kinds[t].name for t in self.kind.tolist()]

    @property
    def kind_names(self) -> Sequence[str]:
        """Name of the kind of each block, "–" where it is empty."""
        return [name or "–" for name in self.kinds_by_name]

    @property
    def device(self) -> IntArray:
        """(k,) number of the device of each block, in the order in which the kinds are given; `IDLE` without one."""
        devices = self.instance.devices
        free = [np.flatnonzero(np.array(devices.sequence) == t).tolist() for t in range(len(devices.kinds))]
        if devices.is_fixed:
            return np.where(self.kind == IDLE, IDLE, np.arange(self.instance.k))
        return np.array([IDLE if t == IDLE else free[t].pop(0) for t in self.kind.tolist()])

    @property
    def memories(self) -> FloatArray:
        """(k,) memory of the device of each block [bytes], infinite for empty ones."""
        own = [*(kind.memory for kind in self.instance.devices.kinds), math.inf]
        return np.array([own[t] for t in self.kind.tolist()])

    @cached_property
    def _of_kinds(self) -> dict[int, Partition]:
        used = set(self.kind.tolist()) - {IDLE}
        return {t: Partition(self.instance.of_kind(t), self.block, self.order) for t in used}

    @cached_property
    def costs(self) -> BlockCosts:
        """Receive, work, overflow and send time of each block on a device of its kind, as in `Partition.costs`.

        The work is infinite where a node cannot run on that kind.
        """
        terms = np.zeros((len(BlockCosts._fields), self.instance.k))
        for t, partition in self._of_kinds.items():
            terms[:, self.kind == t] = np.array(partition.costs)[:, self.kind == t]
        for t, v in np.argwhere(~self.instance.able).tolist():
            if self.kind[self.block[v]] == t:
                terms[1, self.block[v]] = math.inf
        if self.instance.rates is None:
            return BlockCosts(*terms)
        entered, home, times, sent = self._transfers
        receive, send = sums_by(entered, times, self.instance.k), sums_by(home, sent, self.instance.k)
        return BlockCosts(receive, terms[1], terms[2], send)

    @cached_property
    def _transfers(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        """At rates for pairs: block and time of each tensor that enters one; home of each tensor, time it is sent."""
        instance, tensors, k = self.instance, self.instance.graph.tensors, self.instance.k
        assert instance.rates is not None
        home, reader = self.block[tensors.producer], self.block[tensors.consumers]
        crosses = home[instance.graph.edge_tensor] != reader
        tensor, entered = np.divmod(sorted_unique(instance.graph.edge_tensor[crosses] * k + reader[crosses]), k)
        times = tensors.bytes[tensor] / instance.rates[self.kind[home[tensor]], self.kind[entered]]
        sent = np.zeros(len(home))
        np.maximum.at(sent, tensor, times)
        return entered, home, times, sent

    @cached_property
    def tensor_times(self) -> FloatArray:
        """Time to move each tensor out of the block that makes it, (t,)."""
        if self.instance.rates is not None:
            return self._transfers[3]
        home = self.kind[self.block[self.instance.graph.tensors.producer]]
        times = np.zeros(len(home))
        for t in self._of_kinds:
            times[home == t] = self.instance.of_kind(t).tensor_time[home == t]
        return times

    @cached_property
    def excess(self) -> FloatArray:
        """(k,) bytes of parameters, states and peak beyond the memory of the device of each block."""
        excess = np.zeros(self.instance.k)
        for t, partition in self._of_kinds.items():
            excess[self.kind == t] = partition.excess[self.kind == t]
        return excess

    def _rows(self) -> Rows:
        counts = np.bincount(self.block, minlength=self.instance.k).tolist()
        times = np.column_stack((self.block_costs, *self.costs)).tolist()
        rows = [
            [str(b), name, str(counts[b]), *map(figures, row)]
            for b, (name, row) in enumerate(zip(self.kind_names, times, strict=True))
        ]
        return ["block", "device", "nodes", f"cost [{self.instance.graph.time_unit}]", *BlockCosts._fields], rows
