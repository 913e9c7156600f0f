"""A second opinion on the program over ideals, in exact whole numbers and plain Python."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from instances import Instance
from instances.contraction import reduce_instance

__all__ = ["PAIRS", "TooManyIdealsError", "some_chain_is_below"]

#: Most pairs (ideal, larger ideal) that are looked at.
PAIRS = 10_000_000


class TooManyIdealsError(Exception):
    """The graph is too wide to look at all its ideals."""


def some_chain_is_below(instance: Instance, value: float, pairs: int = PAIRS) -> bool:
    """Whether k blocks, each of a cost below `value`, can hold all nodes.

    A partition is a chain of ideals, the predecessor-closed node sets. Level b holds the ideals that b blocks below
    `value` can fill but fewer cannot. The lossless reductions of `instances.contraction` come first. With finite
    memory and no activation buffer the peak counts as 0.

    Parameters
    ----------
    instance : Instance
    value : float
        In the time unit of the work.
    pairs : int
        When to give up.

    Returns
    -------
    bool
        False proves that no partition has a bottleneck below `value`.

    Raises
    ------
    TooManyIdealsError
        If there are more pairs.
    """
    instance = reduce_instance(instance).instance
    question = _Question.of(instance, value)
    everything, total = (1 << instance.graph.n) - 1, sum(question.work)
    reached, level = {0}, [(0, 0)]
    looked = 0
    for left in reversed(range(instance.k)):
        if any(question.cost(everything & ~ideal) < question.limit for ideal, _ in level):
            return True
        following = []
        for ideal, done in level if left else ():
            for larger, work, cost in question.extensions(ideal):
                looked += 1
                if looked > pairs:
                    raise TooManyIdealsError
                rest = total - done - work
                if cost < question.limit and larger not in reached and rest <= left * question.limit:
                    reached.add(larger)
                    following.append((larger, done + work))
        level = following
    return False


#: A tensor: the producer and the readers as bits, and the time to move it.
_Tensor = tuple[int, int, int]


@dataclass(frozen=True)
class _Question:
    """The instance with node sets as the bits of whole numbers, and times as multiples of a common unit.

    `before` and `after` hold the neighbours of each node, `inputs` and `outputs` the tensors that it reads and
    produces; `held` are parameters of nodes and `shared` those of several, (users, time). `base` is the overflow of a
    block without parameters, negative where there is room, and None with infinite memory.
    """

    before: list[int]
    after: list[int]
    work: list[int]
    inputs: list[list[_Tensor]]
    outputs: list[list[_Tensor]]
    held: list[int]
    shared: list[tuple[int, int]]
    base: int | None
    limit: int

    @classmethod
    def of(cls, instance: Instance, value: float) -> _Question:
        graph, platform = instance.graph, instance.platform
        rate = Fraction(0) if math.isinf(platform.bandwidth) else 1 / Fraction(platform.bandwidth)
        work = [Fraction(x) for x in graph.work.tolist()]
        sizes = [Fraction(x) * rate for x in graph.tensors.bytes.tolist()]
        held = [Fraction(x) * rate for x in graph.param_bytes.tolist()]
        shared = [Fraction(parameter.bytes) * rate for parameter in graph.parameters]
        finite = math.isfinite(platform.memory)
        buffer = Fraction(platform.activation_buffer or 0.0)
        base = (buffer - Fraction(platform.memory)) * rate if finite else Fraction(0)
        unit = math.lcm(*(x.denominator for x in (*work, *sizes, *held, *shared, base)))
        before, after = [0] * graph.n, [0] * graph.n
        for u, v in graph.edges.tolist():
            before[v] |= 1 << u
            after[u] |= 1 << v
        inputs: list[list[_Tensor]] = [[] for _ in range(graph.n)]
        outputs: list[list[_Tensor]] = [[] for _ in range(graph.n)]
        for t, producer in enumerate(graph.tensors.producer.tolist()):
            readers = graph.tensors.consumers[graph.tensors.start[t] : graph.tensors.start[t + 1]].tolist()
            if readers:
                outputs[producer].append((1 << producer, _mask(readers), int(sizes[t] * unit)))
                for v in readers:
                    inputs[v].append(outputs[producer][-1])
        return cls(
            before,
            after,
            [int(x * unit) for x in work],
            inputs,
            outputs,
            [int(x * unit) for x in held],
            [(_mask(p.users), int(x * unit)) for p, x in zip(graph.parameters, shared, strict=True)],
            int(base * unit) if finite else None,
            math.ceil(Fraction(value) * unit),
        )

    def cost(self, nodes: int) -> int:
        """Cost of a node set, eq. (3)."""
        members = list(_members(nodes))
        total = sum(self.work[v] for v in members)
        for producer, readers, time in (tensor for tensors in self.outputs for tensor in tensors):
            if readers & ~nodes if producer & nodes else readers & nodes:
                total += time
        if self.base is not None and members:
            params = sum(self.held[v] for v in members) + sum(size for users, size in self.shared if users & nodes)
            total += max(0, self.base + params)
        return total

    def extensions(self, ideal: int) -> Iterator[tuple[int, int, int]]:
        """Each larger ideal whose new nodes stay below the limit before cuts, with their work and their cost."""
        seen = {ideal}
        ready = _mask(v for v, before in enumerate(self.before) if not before & ~ideal and not ideal >> v & 1)
        stack = [(ideal, ready, 0, 0, 0)]
        while stack:
            filled, ready, work, cut, params = stack.pop()
            for v in _members(ready):
                larger = filled | 1 << v
                if larger in seen:
                    continue
                seen.add(larger)
                old, new = filled & ~ideal, larger & ~ideal
                kept, overflow = params, 0
                if self.base is not None:
                    kept += self.held[v] + sum(
                        size for users, size in self.shared if users >> v & 1 and not users & old
                    )
                    overflow = max(0, self.base + kept)
                if work + self.work[v] + overflow >= self.limit:
                    continue  # more nodes have more work and more parameters
                change = sum(time for _, _, time in self.outputs[v])
                for producer, readers, time in self.inputs[v]:
                    if not producer & new:
                        change += 0 if readers & old else time  # received, once
                    elif not readers & ~new:
                        change -= time  # was sent before its last reader came
                freed = _mask(s for s in _members(self.after[v]) if not self.before[s] & ~larger)
                stack.append((larger, ready ^ 1 << v | freed, work + self.work[v], cut + change, kept))
                yield larger, work + self.work[v], work + self.work[v] + cut + change + overflow


def _mask(nodes: Iterable[int]) -> int:
    return sum(1 << v for v in set(nodes))


def _members(mask: int) -> Iterator[int]:
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1
