"""The question: a computation graph, the devices it shall run on, and the bottleneck to minimise."""

from __future__ import annotations

import hashlib
import math
import numbers
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from instances.errors import InputError
from instances.graph.display import Displayed, figures
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray

__all__ = ["Instance", "Platform"]

# Whole numbers up to this are floats.
_EXACT = 2.0**53
_MOST_BLOCKS = 10**6


@dataclass(frozen=True)
class Platform:
    """`k` equal devices in a row.

    Parameters
    ----------
    k : int
        Number of blocks, from 1 to a million; what is known of a block takes memory for each.
    bandwidth : float
        Bytes per unit of work time between any two blocks, positive; infinite makes communication free.
    memory : float
        Fast memory of each block [bytes]; infinite by default.
    activation_buffer : float, optional
        Part of `memory` reserved for activations [bytes]. If given, it stands for the peak memory of
        every non-empty block; otherwise the peak of the partition's own order counts.

    Raises
    ------
    InputError
        If a value is out of its range.
    """

    k: int
    bandwidth: float
    memory: float = math.inf
    activation_buffer: float | None = None

    def __post_init__(self) -> None:
        given = {"k": self.k, "bandwidth": self.bandwidth, "memory": self.memory}
        if self.activation_buffer is not None:
            given["activation_buffer"] = self.activation_buffer
        for name, value in given.items():  # one type for each, or equal platforms had different keys
            if not isinstance(value, numbers.Real):
                raise InputError(f"{name} is {value!r}; it must be a number.")
            try:
                object.__setattr__(self, name, float(value) + 0.0)
            except OverflowError:
                raise InputError(f"{name} is too large for a number; give a smaller one.") from None
        if not (math.isfinite(self.k) and self.k >= 1 and self.k == int(self.k)):
            raise InputError(f"k is {self.k}; the number of blocks must be a whole number, 1 or more.")
        if self.k > _MOST_BLOCKS:
            raise InputError(f"k is {self.k:g}; the number of blocks must be {_MOST_BLOCKS} or less.")
        object.__setattr__(self, "k", int(self.k))
        if not self.bandwidth > 0:
            raise InputError(f"bandwidth is {self.bandwidth}; it must be positive.")
        if not self.memory >= 0:
            raise InputError(f"memory is {self.memory}; it must be 0 or more.")
        if self.activation_buffer is not None and not 0 <= self.activation_buffer < math.inf:
            raise InputError(f"activation_buffer is {self.activation_buffer}; it must be finite, 0 or more.")


@dataclass(frozen=True, eq=False, repr=False)
class Instance(Displayed):
    """One question: how to cut `graph` for `platform`.

    Parameters
    ----------
    graph : ComputationGraph
    platform : Platform
    name : str, optional
        By default the name of the graph.

    Raises
    ------
    InputError
        If k times the cost of a block can exceed the largest number.
    """

    graph: ComputationGraph
    platform: Platform
    name: str = ""

    def __post_init__(self) -> None:
        if not math.isfinite(self.k * self._longest):
            raise InputError(
                f"With k = {self.k} and a bandwidth of {self.platform.bandwidth:g} costs of {self.graph.name!r} exceed "
                "the largest number; give times and sizes in larger units."
            )
        if not self.name:
            object.__setattr__(self, "name", self.graph.name)

    @property
    def k(self) -> int:
        """Number of blocks."""
        return self.platform.k

    @property
    def label(self) -> str:
        """What people call it."""
        return f"{self.name}, k = {self.k}"

    @property
    def time_unit(self) -> str:
        """Of its costs."""
        return self.graph.time_unit

    @cached_property
    def tensor_time(self) -> FloatArray:
        """(t,) time to move each tensor once: bytes over bandwidth, and 0 where nobody reads it."""
        tensors = self.graph.tensors
        with np.errstate(over="ignore"):  # `_longest` finds out
            return np.where(np.diff(tensors.start) > 0, tensors.bytes, 0.0) / self.platform.bandwidth

    @property
    def has_overflow(self) -> bool:
        """Whether the memory is finite, and what does not fit takes time."""
        return math.isfinite(self.platform.memory) and math.isfinite(self.platform.bandwidth)

    @cached_property
    def has_exact_bytes(self) -> bool:
        """Whether sums of bytes are exact as floats: whole numbers, all of them together below 2^53."""
        graph, platform = self.graph, self.platform
        single = (platform.memory, platform.activation_buffer or 0.0, *(p.bytes for p in graph.parameters))
        sizes = np.concatenate((graph.tensors.bytes, graph.param_bytes, graph.state_bytes, single))
        with np.errstate(over="ignore"):
            return bool(sizes.sum() < _EXACT and (sizes == np.floor(sizes)).all())

    @cached_property
    def communication_over_work(self) -> float | None:
        """Time to move every tensor that is read once, over the total work; None without work."""
        work = float(self.graph.work.sum())
        return float(self.tensor_time.sum()) / work if work > 0 else None

    @cached_property
    def key(self) -> str:
        """Hash of everything that costs depend on."""
        return hashlib.sha256(f"{self.graph.content_hash}{self.platform!r}".encode()).hexdigest()

    def _title(self) -> str:
        return self.name

    def _facts(self) -> dict[str, str]:
        graph, platform = self.graph, self.platform
        facts = {"nodes": str(graph.n), "edges": str(graph.m), "k": str(self.k)}
        facts["bandwidth"] = figures(platform.bandwidth, f"bytes/{graph.time_unit}")
        if math.isfinite(platform.memory):
            facts["memory"] = figures(platform.memory, "bytes")
        if platform.activation_buffer is not None:
            facts["activation buffer"] = figures(platform.activation_buffer, "bytes")
        return facts

    @property
    def _longest(self) -> float:
        """More than any block costs."""
        with np.errstate(over="ignore"):
            longest = self.graph.work.sum() + self.tensor_time.sum()
            if self.has_overflow:
                buffer = self.platform.activation_buffer
                held = self.graph.tensors.bytes.sum() if buffer is None else buffer
                longest += (self.graph.held_total + held) / self.platform.bandwidth
        return float(longest)

    def with_k(self, k: int) -> Instance:
        """The same question for another number of blocks."""
        return self if k == self.k else replace(self, platform=replace(self.platform, k=k))

    def without_peaks(self) -> Instance:
        """The question that bounds and models speak of: without a fixed buffer the peak counts as 0."""
        buffer = self.platform.activation_buffer or 0.0
        return replace(self, platform=replace(self.platform, activation_buffer=buffer))
