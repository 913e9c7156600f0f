"""Question of serving: cut the layers of a decoder into stages, for a large context and a small bottleneck.

A stage holds its weights, a cache of keys and values that grows with the context, and its largest activation. The
*capacity* of a cut is the largest context that all stages have room for; its bottleneck is that of its partition. More
of one can cost some of the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from instances.errors import InputError, word
from instances.graph.tensors import FloatArray, sums_by
from instances.partitioning.partition import IDLE, Partition
from instances.partitioning.stated_serving import ServingQuestion

#: Contexts are floats: up to here they are whole, and one more token is another number.
MOST_TOKENS = 2**53


@dataclass(frozen=True, eq=False)
class ServingInstance(ServingQuestion):
    """Question of serving: a chain of layers whose caches grow with the context.

    Parameters
    ----------
    instance : Instance
        Each node but the first reads from the one before it. The times of the nodes hold at `context`. The memory, that
        of each kind if there are several, is finite and a hard limit. The states of the nodes do not count:
        `token_bytes` do in their place.
    token_bytes : (n,) floats
        What the cache of each node takes for one more token of each sequence [bytes], all sequences together.
    window : (n,) floats
        Tokens after which the cache of a node does not grow any more; infinite for full attention.
    context : int
        Tokens of each sequence that an answer has to hold, 1 or more.
    batch : int
        Sequences.
    source : ServedDecoder, optional
        What the chain was made of, so that others can make it again.

    Raises
    ------
    InputError
        If the nodes are no chain, a memory is infinite, or a number is out of its range.
    """

    @cached_property
    def question_hash(self) -> str:
        """Hash of the whole question, computed once."""
        return self.true_hash

    @property
    def key(self) -> str:
        """Hash of everything that costs depend on."""
        return self.question_hash

    @property
    def time_unit(self) -> str:
        """Time unit of its costs."""
        return self.instance.time_unit

    def __post_init__(self) -> None:
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
                "less memory."
            )
        if self.context < 1 or self.batch < 1:
            raise InputError(
                f"{graph.name}: context and batch are {self.context} and {self.batch}; both are 1 or more."
            )


@dataclass(frozen=True, eq=False)
class ServedPartition:
    """An answer: a partition, and what its stages hold."""

    question: ServingInstance
    partition: Partition

    @property
    def bottleneck(self) -> float:
        """Time of the slowest stage at the context of the question [time unit of the graph]."""
        return self.partition.bottleneck

    @cached_property
    def stage_capacity(self) -> tuple[float, ...]:
        """(k,) largest context of each stage [tokens of each sequence], exact.

        Infinite where the cache does not grow for ever, -1 if not even weights and activations fit.
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
            capacities.append(largest_context(free, question.token_bytes[nodes], question.window[nodes]))
        return tuple(capacities)

    @property
    def capacity(self) -> float:
        """The largest context that fits [tokens of each sequence]."""
        return min(self.stage_capacity)

    def cache_bytes(self, context: float) -> FloatArray:
        """(k,) keys and values of each stage at a context [bytes]."""
        cached = self.question.token_bytes * np.minimum(context, self.question.window)
        return sums_by(self.partition.block, cached, self.question.instance.k)


def largest_context(free: Fraction, token_bytes: FloatArray, window: FloatArray) -> float:
    """The largest context for which caches take at most `free` bytes [tokens]; exact.

    Examples
    --------
    >>> largest_context(Fraction(100), np.array([1.0, 2.0]), np.array([np.inf, 10.0]))
    80.0
    """
    if free < 0:
        return -1.0
    remaining, begin = free, Fraction(0)
    growing = sorted((limit, Fraction(rate)) for limit, rate in zip(window.tolist(), token_bytes.tolist(), strict=True))
    rate = sum((growth for _, growth in growing), Fraction(0))
    for limit, growth in growing:
        if rate == 0:
            return math.inf
        if limit == math.inf or rate * (Fraction(limit) - begin) > remaining:
            break
        remaining -= rate * (Fraction(limit) - begin)
        begin, rate = Fraction(limit), rate - growth
    return math.inf if rate == 0 else float(math.floor(begin + remaining / rate))
