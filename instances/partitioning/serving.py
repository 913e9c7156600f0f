"""Question of serving: cut the layers of a decoder into stages, for a large context and a small bottleneck.

A stage holds its weights, caches of keys and values that grow with the context, and its largest activation. While a
batch is in a stage, others are in flight elsewhere, and every stage holds the caches of all. With m batches in flight
a stage is busy for m times its time in a *cycle*, from one token of a sequence to its next one, and a batch needs the
sum S of the stages: the cycle takes max(m B, S), where B is the slowest stage, and first come, first served reaches it.
So a batch is done every max(B, S / m). The *capacity* of a cut is the largest context that all stages have room for.
More speed can cost some of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from instances.errors import InputError, word
from instances.graph.display import figures
from instances.graph.tensors import FloatArray, sums_by
from instances.partitioning.partition import IDLE, Partition
from instances.partitioning.problem import Instance
from instances.partitioning.stated import ServingQuestion

#: Contexts are floats: up to here they are whole, and one more token is another number.
MOST_TOKENS = 2**53


@dataclass(frozen=True, eq=False, repr=False)
class ServingInstance(ServingQuestion):
    """Question of serving: a chain of layers whose caches grow with the context.

    Parameters
    ----------
    instance : Instance
        Each node but the first reads from the one before it. The times of the nodes hold at `context`. The memory, that
        of each kind if there are several, is finite and a hard limit. The states of the nodes do not count:
        `token_bytes` do in their place.
    token_bytes : (n,) floats
        What the cache of each node takes for one more token of each sequence of a batch [bytes].
    window : (n,) floats
        Tokens after which the cache of a node does not grow any more; infinite for full attention.
    context : int
        Tokens of each sequence that an answer has to hold, 1 or more.
    batch : int
        Sequences that pass a stage together.
    source : ServedDecoder, optional
        The decoder from which the chain was made, for checks that make it again.
    in_flight : int, optional
        Batches in flight, 1 to k. None as in older files: as many as the bottleneck needs count for the speed, and the
        caches of one for the context.

    Raises
    ------
    InputError
        If the nodes are no chain, a memory is infinite, or a number is out of its range.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        graph = self.instance.graph
        links = set(map(tuple, graph.edges.tolist()))
        for v in range(1, graph.n):
            if (v - 1, v) not in links:
                raise InputError(f"{graph.name}: node {v} does not read from node {v - 1}; give a chain of layers.")
        memories = [kind.memory for kind in self.instance.machines.kinds]
        if max(memories) == math.inf:
            raise InputError(f"{graph.name}: without a limit of memory any context fits; give {word('memory')}.")
        for name, values in (("token_bytes", self.token_bytes), ("window", self.window)):
            if np.shape(values) != (graph.n,) or not (np.asarray(values) >= 0).all():
                raise InputError(f"{graph.name}: give {graph.n} numbers for {name}, each 0 or more.")
        if not np.isfinite(self.token_bytes).all():
            raise InputError(f"{graph.name}: token_bytes must be finite.")
        least = min((float(size) for size in self.token_bytes if size > 0), default=math.inf)
        if least * MOST_TOKENS <= max(memories):
            raise InputError(
                f"{graph.name}: a cache of {least:g} bytes a token has room for more than {MOST_TOKENS} tokens; give "
                f"less {word('memory')}."
            )
        if self.context < 1 or self.batch < 1:
            raise InputError(
                f"{graph.name}: context and batch are {self.context} and {self.batch}; both are 1 or more."
            )

    def _title(self) -> str:
        return self.label

    def _facts(self) -> dict[str, str]:
        facts = {"layers": str(self.instance.graph.n), "stages": str(self.instance.k), "batch": str(self.batch)}
        flight = {} if self.in_flight is None else {"batches in flight": str(self.in_flight)}
        return facts | flight | {"context": figures(self.context, "tokens")}


@dataclass(frozen=True, eq=False)
class ServedPartition:
    """An answer: a partition, and what its stages hold."""

    question: ServingInstance
    partition: Partition

    @property
    def instance(self) -> Instance:
        """The chain, devices and constraints of its question."""
        return self.question.instance

    @property
    def bottleneck(self) -> float:
        """Time of the slowest stage at the context of the question [time unit of the graph]."""
        return self.partition.bottleneck

    @property
    def cost(self) -> float:
        """Time from one batch to the next that leaves the last stage [time unit of the graph]."""
        question = self.question
        if not question.waits:
            return self.bottleneck
        assert question.in_flight is not None
        return max(self.bottleneck, math.fsum(self.partition.block_costs.tolist()) / question.in_flight)

    @property
    def cycle(self) -> float | None:
        """Time from one token of a sequence to its next [time unit]; None if the batches in flight are not known."""
        return None if self.question.in_flight is None else self.question.in_flight * self.cost

    @property
    def throughput(self) -> float:
        """Sequences that leave the last stage: tokens in decoding, prompts in prefill [1/time unit]."""
        return self.question.batch / self.cost if self.cost else math.inf

    @property
    def _caches(self) -> int:
        """Number of batches whose caches each stage holds."""
        return self.question.in_flight or 1

    @cached_property
    def stage_capacity(self) -> tuple[float, ...]:
        """(k,) largest context of each stage [tokens of each sequence], exact.

        Infinite where the cache stops growing and fits, -1 if not even weights and activations fit.
        """
        question, partition, block = self.question, self.partition, self.partition.block
        graph, memories = question.instance.graph, partition.memories.tolist()
        if not partition.instance.is_alike:
            memories = np.where(partition.kind == IDLE, 0.0, partition.memories).tolist()
        params = [Fraction(size) for size in graph.param_bytes.tolist()]
        capacities = []
        for stage, (memory, activations) in enumerate(zip(memories, partition.peaks.tolist(), strict=True)):
            nodes = np.flatnonzero(block == stage).tolist()
            free = Fraction(memory) - Fraction(activations) - sum(params[v] for v in nodes)
            free -= sum(Fraction(p.bytes) for p in graph.parameters if not set(p.users).isdisjoint(nodes))
            rates: dict[float, Fraction] = {}
            for limit, rate in zip(question.window[nodes].tolist(), question.token_bytes[nodes].tolist(), strict=True):
                rates[limit] = rates.get(limit, Fraction(0)) + Fraction(rate)
            capacities.append(largest_context(free / self._caches, rates))
        return tuple(capacities)

    @property
    def capacity(self) -> float:
        """The largest context that fits [tokens of each sequence]."""
        return min(self.stage_capacity)

    @property
    def usable_context(self) -> float:
        """The capacity, limited by the longest context of the model if its graph states it [tokens of a sequence]."""
        longest = self.question.instance.graph.attributes.get("longest")
        return min(self.capacity, longest) if type(longest) is int else self.capacity

    def cache_bytes(self, context: float) -> FloatArray:
        """(k,) keys and values of each stage at a context, of all batches in flight [bytes]."""
        cached = self.question.token_bytes * np.minimum(context, self.question.window)
        return self._caches * sums_by(self.partition.block, cached, self.question.instance.k)


def largest_context(free: Fraction | int, rates: Mapping[float, Fraction | int]) -> float:
    """The largest context for which caches take at most `free` bytes [tokens]; exact.

    Parameters
    ----------
    free : int or Fraction
        [bytes, or another unit]
    rates : mapping of float to int or Fraction
        What a token takes of the caches with each window [tokens] in the same unit.

    Examples
    --------
    >>> largest_context(Fraction(100), {math.inf: Fraction(1), 10: Fraction(2)})
    80.0
    """
    if free < 0:
        return -1.0
    remaining, begin, rate = free, Fraction(0), sum(rates.values(), 0)
    for limit, growth in sorted(rates.items()):
        if rate == 0:
            return math.inf
        if limit == math.inf or rate * (Fraction(limit) - begin) > remaining:
            break
        remaining -= rate * (Fraction(limit) - begin)
        begin, rate = Fraction(limit), rate - growth
    return math.inf if rate == 0 else float((begin * rate + remaining) // rate)
