"""Question of partitioning: a computation graph, its devices, and the bottleneck to minimise."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import InitVar, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from instances.devices.platform import Platform
from instances.errors import InputError
from instances.graph.display import figures
from instances.graph.graph import ComputationGraph
from instances.graph.memory import touched_bytes
from instances.graph.question_lines import GraphQuestion
from instances.graph.tensors import FloatArray
from instances.partitioning.constraints import NO_CONSTRAINTS, BlockRules, Constraints
from instances.partitioning.node_names import NodeName, Windows
from instances.partitioning.question_lines import (
    instance_in_words,
    instance_lines,
    platform_in_words,
)

__all__ = ["Instance"]

# Whole numbers up to this are floats.
_EXACT = 2.0**53


@dataclass(frozen=True, eq=False, repr=False)
class Instance(GraphQuestion):
    """Question of partitioning: how to cut a graph into k blocks, so that the slowest block is as fast as possible.

    An answer is a `Partition`; questions with equal `key` have the same answers at the same costs.

    Parameters
    ----------
    graph : ComputationGraph
    platform : Platform
    name : str, optional
        By default the name of the graph.
    constraints : Constraints
        Side constraints in node numbers.
    need : (n,) floats, optional
        For merged nodes, the most that one of them read and wrote [bytes].
    by_need : bool
        Without a fixed buffer, the peak of a block is not that of its order but the largest need of its nodes.
    together, windows, uncut, at_least
        More constraints, as `Constraints.of` takes them.
    cluster : str, optional
        The network or random graph that this is a variant of, such as one of several batches; statistics count
        clusters, as variants are not independent. By default the name. No cost depends on it.

    Raises
    ------
    InputError
        If graph or platform are something else, k times the cost of a block can exceed the largest number, or the
        constraints contradict one another.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[1, 2, 3], names=("a", "b", "c"))
    >>> Instance(graph, Platform(2, 1.0), together=[["a", "c"]], windows={"b": 1}).rules.first.tolist()
    [1, 1, 1]
    """

    problem: ClassVar[str] = "partitioning"

    graph: ComputationGraph
    platform: Platform
    name: str = ""
    constraints: Constraints = NO_CONSTRAINTS
    need: FloatArray | None = None
    by_need: bool = False
    together: InitVar[Iterable[Sequence[NodeName] | str]] = ()
    windows: InitVar[Windows | None] = None
    uncut: InitVar[Iterable[NodeName]] = ()
    at_least: InitVar[Iterable[tuple[int, Iterable[NodeName] | str]]] = ()
    cluster: str = ""

    def __post_init__(
        self,
        together: Iterable[Sequence[NodeName] | str],
        windows: Windows | None,
        uncut: Iterable[NodeName],
        at_least: Iterable[tuple[int, Iterable[NodeName] | str]],
    ) -> None:
        if not (isinstance(self.graph, ComputationGraph) and isinstance(self.platform, Platform)):
            raise InputError(
                f"An instance is made of a ComputationGraph and a Platform, not of {type(self.graph).__name__} and "
                f"{type(self.platform).__name__}; `mtpp.load` makes a graph of what describes one."
            )
        given: dict[str, Any] = {"together": together, "windows": windows, "uncut": uncut, "at_least": at_least}
        if not all(said is None or (isinstance(said, tuple) and not said) for said in given.values()):
            object.__setattr__(self, "constraints", self.constraints + Constraints.of(self.graph, **given))
        if self.constraints:
            self.rules  # noqa: B018 - a contradiction shows here
        if self.constraints.on:
            raise InputError("The constraints say on which kinds nodes are, and devices are alike; leave 'on' out.")
        if not math.isfinite(self.k * self._longest):
            raise InputError(
                f"With k = {self.k} and a bandwidth of {self.platform.bandwidth:g} costs of {self.graph.name!r} exceed "
                "the largest number; give times and sizes in larger units."
            )
        if not self.name:
            object.__setattr__(self, "name", self.graph.name)
        if not self.cluster:
            object.__setattr__(self, "cluster", self.name)

    @property
    def k(self) -> int:
        """Number of blocks."""
        return self.platform.k

    @property
    def label(self) -> str:
        """Name of the graph and number of blocks, as messages and tables show them."""
        return f"{self.name}, k = {self.k}"

    @cached_property
    def rules(self) -> BlockRules:
        """Constraints, resolved to arrays over the nodes."""
        return BlockRules.of(self.graph, self.k, self.constraints)

    @cached_property
    def needs(self) -> FloatArray:
        """(n,) bytes that are live while a node runs, all that it reads and writes; of merged nodes the most of one."""
        return touched_bytes(self.graph) if self.need is None else self.need

    @cached_property
    def tensor_time(self) -> FloatArray:
        """Time to move each tensor once, (t,): bytes over bandwidth; 0 for tensors without readers."""
        tensors = self.graph.tensors
        with np.errstate(over="ignore"):  # `_longest` finds out
            return np.where(np.diff(tensors.start) > 0, tensors.bytes, 0.0) / self.platform.bandwidth

    @property
    def has_overflow(self) -> bool:
        """Whether the memory is finite, and what does not fit takes time."""
        return math.isfinite(self.platform.memory) and math.isfinite(self.platform.bandwidth)

    @property
    def limits_memory(self) -> bool:
        """Whether it matters what fits into the memory: it has to, or what does not fit takes time."""
        return self.platform.fit or self.has_overflow

    @cached_property
    def has_exact_bytes(self) -> bool:
        """Whether sums of bytes are exact as floats: whole numbers, all of them together below 2^53."""
        graph, platform = self.graph, self.platform
        single = (platform.memory, platform.activation_buffer or 0.0, *(p.bytes for p in graph.parameters))
        need = () if self.need is None else self.need
        sizes = np.concatenate((graph.tensors.bytes, graph.param_bytes, graph.state_bytes, single, need))
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
        digest = hashlib.sha256(f"{self.graph.content_hash}{self.platform.key}".encode())
        if self.constraints and self.rules.forbid(self.k):
            for array in vars(self.rules).values():
                digest.update(array.tobytes() + b"|")
        if self.need is not None:
            digest.update(self.need.tobytes())
        if self.by_need:
            digest.update(b"by need")
        return digest.hexdigest()

    def lines(self) -> Iterator[str]:
        """All lines of the question but the first two."""
        return instance_lines(self.graph, self.platform, self.constraints, self.need, self.by_need)

    @property
    def question_words(self) -> str:
        """The question without names, in one line."""
        devices = self._devices_in_words()
        return instance_in_words(self.graph, devices, self.constraints, self.k, self.need, self.by_need)

    def _devices_in_words(self) -> list[str]:
        return platform_in_words(self.platform, self.time_unit)

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
        """Upper bound on the cost of any block, and on its bytes where they matter and moving takes no time."""
        with np.errstate(over="ignore"):
            longest = self.graph.work.sum() + self.tensor_time.sum()
            if self.limits_memory:
                buffer, bandwidth = self.platform.activation_buffer, self.platform.bandwidth
                held = self.graph.tensors.bytes.sum() if buffer is None else buffer
                held = max(held, 0.0 if self.need is None else self.need.max())
                longest += (self.graph.held_total + held) / (bandwidth if math.isfinite(bandwidth) else 1.0)
        return float(longest)

    def with_k(self, k: int) -> Instance:
        """The same question for another number of blocks."""
        return self if k == self.k else replace(self, platform=replace(self.platform, k=k))

    @property
    def needs_peaks(self) -> bool:
        """Whether it matters what is live while the nodes of a block run: memory does, and no buffer is fixed."""
        return self.limits_memory and self.platform.activation_buffer is None

    def modelled(self) -> Instance:
        """Instance of the bounds and models: a block's peak is its nodes' largest need."""
        return replace(self, by_need=True) if self.needs_peaks and not self.by_need else self

    def without_constraints(self) -> Instance:
        """Instance without constraints."""
        return replace(self, constraints=NO_CONSTRAINTS) if self.constraints else self

    def relaxed(self) -> Instance:
        """The modelled question without constraints, where what does not fit takes time at most.

        Each answer to this question is one to that, and costs no more there.
        """
        free = self.modelled().without_constraints()
        return replace(free, platform=replace(free.platform, fit=False)) if free.platform.fit else free
