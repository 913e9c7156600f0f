"""Coefficients of the models, in a unit that suits solvers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from instances import Instance, Partition
from instances.partitioning.memory import needs_of, room
from mtpp_models.simple import one_block, simple

#: Of what a solution costs, or of the unit: beyond that, coefficients are too large for solvers.
OUT_OF_REACH = 1e3


@dataclass(frozen=True)
class ScaledInstance:
    """The coefficients of the models; times are in multiples of `unit`, so that objectives are near 1."""

    instance: Instance
    unit: float  # positive; the bottleneck of a known partition is a good choice

    @classmethod
    def near(cls, instance: Instance, start: Partition | None) -> ScaledInstance:
        """Scale by what `start` costs in the models, else by a time that is near the optimum."""
        if start is not None:
            costs = Partition(instance.relaxed(), start.block, start.order)
            return cls(instance, costs.bottleneck or 1.0)
        return cls(instance, max(simple(instance), one_block(instance).bottleneck / instance.k) or 1.0)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.instance.graph.n

    @property
    def k(self) -> int:
        """Number of blocks; at most n unless constraints distinguish blocks."""
        return self.instance.k if self.instance.constraints else min(self.instance.k, self.n)

    @property
    def is_free(self) -> bool:
        """Whether all nodes in one block are an answer."""
        return not (self.instance.constraints or self.instance.platform.fit)

    @cached_property
    def work(self) -> list[float]:
        """Work of each node."""
        return (self.instance.graph.work / self.unit).tolist()

    @cached_property
    def tensors(self) -> list[int]:
        """Tensors that have readers."""
        start = self.instance.graph.tensors.start
        return (start[1:] > start[:-1]).nonzero()[0].tolist()

    @cached_property
    def cut_time(self) -> dict[int, float]:
        """output_bytes / B of each tensor.

        What no solution within reach pays is capped, so that the coefficients stay within what solvers accept:
        all nodes in one block cut nothing, and lower costs keep a bound valid. Where one block is no answer, more is
        within reach.
        """
        reach = min(one_block(self.instance).bottleneck, self.k * self.unit)
        reach *= 1.0 if self.is_free else OUT_OF_REACH
        times = np.minimum(self.instance.tensor_time, OUT_OF_REACH * reach if reach > 0 else math.inf)
        return {t: float(times[t]) / self.unit for t in self.tensors}

    @cached_property
    def reads(self) -> list[tuple[int, int, int]]:
        """The edges as (tensor, its producer, one consumer)."""
        graph = self.instance.graph
        return [(t, u, v) for t, (u, v) in zip(graph.edge_tensor.tolist(), graph.edges.tolist(), strict=True)]

    @cached_property
    def arcs(self) -> list[tuple[int, int]]:
        """The edges as (producer, consumer), each pair of nodes once."""
        return sorted({(u, v) for _, u, v in self.reads})

    @property
    def has_overflow(self) -> bool:
        """Whether a block can overflow, and by times that solvers can tell from the work.

        Beside bytes held for a million units, the tolerances of a solver are no longer small, and its bounds not safe;
        a model without overflow is the weaker, safe one.
        """
        return self._can_overflow and self._total_time < OUT_OF_REACH**2

    @property
    def leaves_out_overflow(self) -> bool:
        """Whether a block can overflow, but by times that solvers cannot tell from the work."""
        return self._can_overflow and not self.has_overflow

    @property
    def _can_overflow(self) -> bool:
        may = self.instance.has_overflow and not self.instance.platform.fit
        return may and self.spare_time < self._total_time

    @property
    def _total_time(self) -> float:
        return self._byte_time(self.instance.graph.held_total) + max(self.need_time)

    @cached_property
    def need_time(self) -> list[float]:
        """Least peak / B of a block with each node; 0 if a buffer replaces it."""
        return [self._byte_time(size) for size in needs_of(self.instance).tolist()]

    @cached_property
    def held_time(self) -> list[float]:
        """The bytes that each node holds / B."""
        return [self._byte_time(size) for size in self.instance.graph.held_bytes.tolist()]

    @cached_property
    def shared_time(self) -> list[float]:
        """The bytes / B of each shared parameter."""
        return [self._byte_time(parameter.bytes) for parameter in self.instance.graph.parameters]

    @cached_property
    def uses(self) -> list[tuple[int, int]]:
        """Pairs (shared parameter, node that uses it)."""
        return [(g, v) for g, shared in enumerate(self.instance.graph.parameters) for v in sorted(set(shared.users))]

    @cached_property
    def spare_time(self) -> float:
        """(M - buffer) / B."""
        return self._byte_time(room(self.instance))

    def _byte_time(self, size: float) -> float:
        """Bytes in multiples of the unit; under a hard memory limit, in multiples of the memory."""
        platform = self.instance.platform
        return size / (platform.memory or 1.0) if platform.fit else size / platform.bandwidth / self.unit
