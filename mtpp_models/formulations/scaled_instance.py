"""Coefficients of the models, in a unit that suits solvers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from instances import Instance, Partition
from instances.graph.tensors import FloatArray
from instances.partitioning.memory import needs_of, room
from mtpp_models.simple import one_block, simple

# Of what a solution costs, or of the unit: beyond that, coefficients are too large for solvers.
_OUT_OF_REACH = 1e3
# By how much a known bottleneck is widened, so that rounding loses no answer that is better.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class ScaledInstance:
    """The coefficients of the models; times are in multiples of `unit`, so that objectives are near 1."""

    instance: Instance
    unit: float  # positive; the bottleneck of a known partition is a good choice

    @classmethod
    def near(cls, instance: Instance, start: Partition | None) -> ScaledInstance:
        """The coefficients in units of the cost of `start` in the models, else of an estimate of the optimum."""
        if not instance.is_alike:
            return ScaledKinds.near(instance, start)
        if start is not None:
            return cls(instance, start.under(instance.relaxed()).bottleneck or 1.0)
        return cls(instance, max(simple(instance), one_block(instance).bottleneck / instance.k) or 1.0)

    @property
    def cutoff(self) -> float:
        """Cost above which models may exclude answers; infinite if they exclude none [time unit]."""
        return math.inf

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
        """Whether one block with all nodes is feasible."""
        return not (self.instance.constraints or self.instance.platform.fit)

    @cached_property
    def work(self) -> list[float]:
        """(n,) work of each node [unit]."""
        return (self.instance.graph.work / self.unit).tolist()

    @cached_property
    def tensors(self) -> list[int]:
        """Indices of the tensors that have readers."""
        start = self.instance.graph.tensors.start
        return (start[1:] > start[:-1]).nonzero()[0].tolist()

    @cached_property
    def cut_time(self) -> dict[int, float]:
        """Transfer time, output_bytes / B, of each tensor with readers [unit].

        Times are capped far above the cost of any useful solution, so that solvers accept the coefficients: one block
        with all nodes cuts nothing, and lower costs keep a bound valid. Where that block is infeasible, the cap is
        higher.
        """
        reach = min(one_block(self.instance).bottleneck, self.k * self.unit)
        reach *= 1.0 if self.is_free else _OUT_OF_REACH
        times = np.minimum(self.instance.tensor_time, _OUT_OF_REACH * reach if reach > 0 else math.inf)
        return {t: float(times[t]) / self.unit for t in self.tensors}

    @cached_property
    def reads(self) -> list[tuple[int, int, int]]:
        """The edges as (tensor, its producer, one consumer)."""
        graph = self.instance.graph
        return [(t, u, v) for t, (u, v) in zip(graph.edge_tensor.tolist(), graph.edges.tolist(), strict=True)]

    @cached_property
    def arcs(self) -> list[tuple[int, int]]:
        """The edges as (producer, consumer), parallel ones once."""
        return sorted({(u, v) for _, u, v in self.reads})

    @property
    def has_overflow(self) -> bool:
        """Whether a block can overflow, and coefficients of overflow suit the tolerances of solvers.

        If all bytes take a million units or more to stream, these tolerances are no longer small and bounds not safe; a
        model without overflow is weaker, but safe.
        """
        return self._can_overflow and self._total_time < _OUT_OF_REACH**2

    @property
    def leaves_out_overflow(self) -> bool:
        """Whether blocks can overflow, but the model leaves it out; see `has_overflow`."""
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
        """(n,) least peak of a block with each node, over the bandwidth, as in `held_time`; 0 with a fixed buffer."""
        return [self._byte_time(size) for size in needs_of(self.instance).tolist()]

    @cached_property
    def held_time(self) -> list[float]:
        """(n,) bytes that each node holds, over the bandwidth B [unit]; fractions of a hard limit on memory."""
        return [self._byte_time(size) for size in self.instance.graph.held_bytes.tolist()]

    @cached_property
    def shared_time(self) -> list[float]:
        """Bytes of each shared parameter over the bandwidth, in the unit of `held_time`."""
        return [self._byte_time(parameter.bytes) for parameter in self.instance.graph.parameters]

    @cached_property
    def uses(self) -> list[tuple[int, int]]:
        """Pairs (shared parameter, node that uses it)."""
        return [(g, v) for g, shared in enumerate(self.instance.graph.parameters) for v in sorted(set(shared.users))]

    @cached_property
    def spare_time(self) -> float:
        """Memory of a block less its activation buffer, over the bandwidth, in the unit of `held_time`."""
        return self._byte_time(room(self.instance))

    def _byte_time(self, size: float) -> float:
        """Time to move or stream `size` bytes [unit]; with a hard limit on memory, their fraction of it."""
        platform = self.instance.platform
        return size / (platform.memory or 1.0) if platform.fit else size / platform.bandwidth / self.unit


@dataclass(frozen=True)
class ScaledKinds(ScaledInstance):
    """The coefficients of the model over kinds of devices; arrays of times have a row for each kind."""

    incumbent: float = math.inf  # in units: an answer of that cost is known

    @classmethod
    def near(cls, instance: Instance, start: Partition | None) -> ScaledKinds:
        """The coefficients in units of the bottleneck of `start`, else of an estimate of the optimum."""
        if start is not None and start.bottleneck > 0:
            return cls(instance, start.bottleneck, 1.0 + _ROUNDING)
        return cls(instance, max(simple(instance), one_block(instance).bottleneck / instance.k) or 1.0)

    @property
    def cutoff(self) -> float:
        """The bottleneck of the partition used for scaling."""
        return self.unit if self.incumbent < math.inf else math.inf

    @property
    def is_free(self) -> bool:
        """Whether one block with all nodes is feasible."""
        return super().is_free and bool(self.instance.able.all())

    @property
    def k(self) -> int:
        """Number of blocks; at most n unless each is on a device of its own, or windows tell them apart."""
        are_distinct = self.instance.machines.is_fixed or self.instance.has_windows
        return self.instance.k if are_distinct else min(self.instance.k, self.n)

    @cached_property
    def of_kinds(self) -> list[ScaledInstance]:
        """The question of each kind alone, in the same unit."""
        return [ScaledInstance(self.instance.of_kind(t), self.unit) for t in range(self.instance.kinds)]

    @cached_property
    def works(self) -> FloatArray:
        """(T, n) work of each node on each kind [unit]; 0 where it cannot run, and capped as transfer times are."""
        works = np.minimum([alone.work for alone in self.of_kinds], self._cap)
        return np.where(self.instance.able, works, 0.0)

    @cached_property
    def cut_times(self) -> FloatArray:
        """(T, e) time on each of T kinds to transfer each of `tensors`, bytes over bandwidth [unit]."""
        times = [[alone.cut_time[t] for t in self.tensors] for alone in self.of_kinds]
        return np.minimum(np.reshape(times, (len(times), len(self.tensors))), self._cap)

    @cached_property
    def pair_times(self) -> FloatArray | None:
        """(e, T, T) time of each of `tensors` from a device of one kind to one of another; None without such rates."""
        if self.instance.rates is None:
            return None
        sizes = self.instance.graph.tensors.bytes[self.tensors]
        return np.minimum(sizes[:, None, None] / self.instance.rates / self.unit, self._cap)

    @cached_property
    def most_moved(self) -> FloatArray:
        """(T,) transfer time of all tensors together on each kind [unit], by which receiving or sending is bounded."""
        if self.pair_times is None:
            return self.cut_times.sum(axis=1)
        return np.full(self.instance.kinds, self.pair_times.max(axis=(1, 2)).sum())

    @property
    def _cap(self) -> float:
        # k units are no less than the optimum where all nodes in one block are an answer.
        return 2.0 * min(self.incumbent, self.k * (1.0 if self.is_free else _OUT_OF_REACH))

    @cached_property
    def excess_rates(self) -> list[float]:
        """(T,) streaming time [unit] of each unit of bytes above `spares`, by kind; 0 where overflow does not count."""
        return [
            self._bytes / rate / self.unit if alone.has_overflow else 0.0
            for rate, alone in zip(self.instance.bandwidths, self.of_kinds, strict=True)
        ]

    @cached_property
    def spares(self) -> list[float]:
        """Memory of each kind less the activation buffer, in the unit of `held_time`; infinite without a limit."""
        return [self._byte_time(room(alone.instance)) for alone in self.of_kinds]

    @cached_property
    def whole_load(self) -> float:
        """Load of one block with all nodes: held bytes, shared bytes and the largest need, as in `held_time`."""
        return math.fsum([*self.held_time, *self.shared_time, max(self.need_time)])

    @property
    def leaves_out_overflow(self) -> bool:
        """Whether blocks can overflow on some kind, but the model leaves it out; see `ScaledInstance.has_overflow`."""
        return any(alone.leaves_out_overflow for alone in self.of_kinds)

    def exceeding(self, t: int, s: int) -> float:
        r"""Largest excess over the bottleneck of the cost on kind t of a block that is on kind s: U_ts of the model.

        Two bounds hold. All nodes and tensors together take :math:`U_t` on kind t, as a block moves a tensor once. If
        no node or tensor takes more than :math:`\rho` times as long on t as on s, the excess is at most :math:`(1 -
        1/\rho)\,U_t` and, in answers that are no worse than a known one, at most :math:`\rho - 1` times its bottleneck.
        With rates for pairs, transfers take equally long on both.
        """
        of_t, of_s = self.works[t], self.works[s]
        if self.pair_times is None:
            of_t, of_s = (np.concatenate((self.works[kind], self.cut_times[kind])) for kind in (t, s))
        longer = of_t > of_s
        if not longer.any():
            return 0.0
        whole, ratio = float(of_t.sum()), math.inf
        if of_s[longer].min() > 0:
            ratio = float((of_t[longer] / of_s[longer]).max()) * (1 + _ROUNDING)
        return min(whole * (1 - 1 / ratio), (ratio - 1) * self.incumbent)

    @cached_property
    def _bytes(self) -> float:
        """Number of bytes that is 1 in rows on memory: sent in a unit by the slowest link, or the largest memory."""
        limits = [kind.memory for kind in self.instance.machines.kinds if math.isfinite(kind.memory)]
        if self.instance.platform.fit:
            return max(limits, default=1.0)
        rates = [
            rate for rate, alone in zip(self.instance.bandwidths, self.of_kinds, strict=True) if alone.has_overflow
        ]
        return min(rates, default=1.0) * self.unit

    def _byte_time(self, size: float) -> float:
        return size / self._bytes
