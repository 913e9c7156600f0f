"""The question of a certificate in whole numbers.

Every float is a rational number, so all times have a common unit and nothing is rounded. Only what the file states
is read here: works, bytes, producers and readers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from instances.partitioning.problem import Instance

__all__ = ["ExactInstance", "Rational", "Tensor", "at_most"]

#: Numbers without rounding.
Rational = int | Fraction


def at_most(values: Iterable[Rational], most: Rational) -> list[Rational]:
    """Return the values, those above `most` replaced by it."""
    return [value if value <= most else most for value in values]


class Tensor(NamedTuple):
    """Tensor of a node: its producer, its readers, the time to move it, and its memory."""

    producer: int
    readers: frozenset[int]
    time: int
    size: int


@dataclass(frozen=True)
class ExactInstance:
    """Question whose times are whole multiples of a unit; bytes count as the time to move them.

    Where moving takes no time and the memory is a hard limit, bytes have a unit of their own.
    """

    n: int  # nodes
    k: int  # blocks
    unit: Fraction  # in the time unit of the work
    work: Sequence[int]  # of each node
    tensors: Sequence[Tensor]  # those that nobody reads too: they take memory
    held: Sequence[int]  # parameters and state of each node
    shared: Sequence[tuple[frozenset[int], int]]  # users and size of each parameter with several users
    memory: int | None  # None if there is no limit that matters
    buffer: int | None  # memory kept for activations; None if the peak of the order counts
    fit: bool  # whether the memory is a hard limit
    need: Sequence[int]  # memory of each node's inputs and outputs, live when it runs; 0 where no peak counts
    runs_nodes: bool  # whether peaks count, and each node is one that an order runs, no group of several

    @classmethod
    def of(cls, instance: Instance) -> ExactInstance:
        """Read an instance."""
        graph, platform = instance.graph, instance.platform
        columns = [graph.work.tolist(), graph.tensors.bytes.tolist(), graph.param_bytes.tolist()]
        columns += [graph.state_bytes.tolist()]
        columns += [[p.bytes for p in graph.parameters], [platform.memory, platform.activation_buffer or 0.0]]
        finite = [[x if math.isfinite(x) else 0.0 for x in column] for column in columns]
        # Floats are whole numbers over powers of two, so that the largest of these divides them all.
        scale = max(x.as_integer_ratio()[1] for column in finite for x in column)
        work, sizes, params, states, shared, (memory, buffer) = (
            [_times(x, scale) for x in column] for column in finite
        )
        rate, per = (1, 0) if math.isinf(platform.bandwidth) else platform.bandwidth.as_integer_ratio()
        limited = math.isfinite(platform.memory) and (per > 0 or platform.fit)
        share = per or 1
        start, readers = graph.tensors.start.tolist(), graph.tensors.consumers.tolist()
        tensors = [
            Tensor(producer, frozenset(readers[start[t] : start[t + 1]]), size * per, size * share)
            for t, (producer, size) in enumerate(zip(graph.tensors.producer.tolist(), sizes, strict=True))
        ]
        peaks = limited and platform.activation_buffer is None
        return cls(
            n=len(work),
            k=platform.k,
            unit=Fraction(1, scale * rate),
            work=[x * rate for x in work],
            tensors=tensors,
            held=[(x + y) * share for x, y in zip(params, states, strict=True)],
            shared=[(frozenset(p.users), x * share) for p, x in zip(graph.parameters, shared, strict=True)],
            memory=memory * share if limited else None,
            buffer=None if platform.activation_buffer is None else buffer * share,
            fit=platform.fit,
            need=_needs(len(work), tensors) if peaks else [0] * len(work),
            runs_nodes=peaks and instance.need is None and not instance.by_need,
        )

    @cached_property
    def edges(self) -> frozenset[tuple[int, int]]:
        """Pairs of a producer and a reader."""
        return frozenset((tensor.producer, v) for tensor in self.tensors for v in tensor.readers)

    @cached_property
    def after(self) -> list[list[int]]:
        """The readers of each node's tensors."""
        return self._neighbours(0)

    @cached_property
    def before(self) -> list[list[int]]:
        """The producers of what each node reads."""
        return self._neighbours(1)

    def _neighbours(self, end: int) -> list[list[int]]:
        rows: list[list[int]] = [[] for _ in range(self.n)]
        for edge in sorted(self.edges):
            rows[edge[end]].append(edge[1 - end])
        return rows

    @cached_property
    def room(self) -> int | None:
        """Memory of a block for its parameters and, without a buffer, its peak; negative if the buffer is larger."""
        return None if self.memory is None else self.memory - (self.buffer or 0)

    @cached_property
    def loads(self) -> list[int]:
        """Parameters of each node, shared ones included, and what it reads and writes."""
        loads = [held + need for held, need in zip(self.held, self.need, strict=True)]
        for users, size in self.shared:
            for v in users:
                loads[v] += size
        return loads

    @cached_property
    def total_load(self) -> int:
        """Lower bound on the memory of all nodes in one block."""
        return sum(self.held) + sum(size for _, size in self.shared) + max(self.need)

    @cached_property
    def may_overflow(self) -> bool:
        """Whether not everything is known to fit into one block."""
        return self.room is not None and self.total_load > self.room

    @cached_property
    def may_overflow_in_order(self) -> bool:
        """As `may_overflow`, but all tensors may be live at a time where the peaks of orders count."""
        if not self.runs_nodes or self.room is None:
            return self.may_overflow
        return self.total_load - max(self.need) + sum(tensor.size for tensor in self.tensors) > self.room

    @property
    def excess(self) -> int:
        """Lower bound on the overflow of all blocks together."""
        if self.room is None:
            return 0
        return max(0, self.total_load - max(self.room, self.room * self.k))  # one block is not empty

    @property
    def nothing_fits(self) -> bool:
        """Whether a hard limit leaves nothing: all blocks together are too small, or one is for some node."""
        return self.fit and self.room is not None and (self.excess > 0 or max(self.loads) > self.room)

    @cached_property
    def work_bound(self) -> Fraction:
        """The larger of the dearest node and the cost per block, eq. (13), in the time unit of the work."""
        alone = self.work
        if self.room is not None:
            alone = [work + max(0, load - self.room) for work, load in zip(self.work, self.loads, strict=True)]
        return max(Fraction(max(alone)), Fraction(sum(self.work) + self.excess, self.k)) * self.unit

    @cached_property
    def order(self) -> list[int]:
        """Some topological order."""
        missing = [len(nodes) for nodes in self.before]
        order = [v for v in range(self.n) if not missing[v]]
        for u in order:  # grows
            for v in self.after[u]:
                missing[v] -= 1
                if not missing[v]:
                    order.append(v)
        return order


def _needs(n: int, tensors: Sequence[Tensor]) -> list[int]:
    needs = [0] * n
    for tensor in tensors:
        for v in {tensor.producer, *tensor.readers}:
            needs[v] += tensor.size
    return needs


def _times(x: float, scale: int) -> int:
    top, bottom = x.as_integer_ratio()
    return top * (scale // bottom)
