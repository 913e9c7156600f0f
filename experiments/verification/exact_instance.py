"""The question of a certificate in whole numbers.

Every float is a rational number, so all times have a common unit and nothing is rounded. Only what the file states
is read here: works, bytes, producers and readers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from instances.partitioning.problem import Instance

__all__ = ["ExactInstance", "Tensor", "as_float"]


def as_float(value: Fraction) -> float:
    """The nearest float, infinite beyond the largest; for people to read."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


class Tensor(NamedTuple):
    """What a node produces: producer, readers, and the time to move it."""

    producer: int
    readers: frozenset[int]
    time: int


@dataclass(frozen=True)
class ExactInstance:
    """A question whose times are whole multiples of a unit; bytes count as the time to move them."""

    n: int  # nodes
    k: int  # blocks
    unit: Fraction  # in the time unit of the work
    work: Sequence[int]  # of each node
    tensors: Sequence[Tensor]  # those that nobody reads too: they take memory
    held: Sequence[int]  # parameters and state of each node
    shared: Sequence[tuple[frozenset[int], int]]  # users and size of each parameter with several users
    memory: int | None  # None if there is no limit that costs time
    buffer: int | None  # what is kept for activations; None if the peak of the order counts

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
        limited = math.isfinite(platform.memory) and per > 0
        start, readers = graph.tensors.start.tolist(), graph.tensors.consumers.tolist()
        return cls(
            n=len(work),
            k=platform.k,
            unit=Fraction(1, scale * rate),
            work=[x * rate for x in work],
            tensors=[
                Tensor(producer, frozenset(readers[start[t] : start[t + 1]]), size * per)
                for t, (producer, size) in enumerate(zip(graph.tensors.producer.tolist(), sizes, strict=True))
            ],
            held=[(x + y) * per for x, y in zip(params, states, strict=True)],
            shared=[(frozenset(p.users), x * per) for p, x in zip(graph.parameters, shared, strict=True)],
            memory=memory * per if limited else None,
            buffer=None if platform.activation_buffer is None else buffer * per,
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
    def work_bound(self) -> Fraction:
        """The larger of the heaviest node and the work per block, eq. (13), in the time unit of the work."""
        return max(Fraction(max(self.work)), Fraction(sum(self.work), self.k)) * self.unit

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


def _times(x: float, scale: int) -> int:
    top, bottom = x.as_integer_ratio()
    return top * (scale // bottom)
