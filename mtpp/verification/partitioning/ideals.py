"""Dynamic program over ideals, written a second time in exact whole numbers and plain Python."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from mtpp.verification.clock import Clock
from mtpp.verification.partitioning.exact_instance import ExactInstance
from mtpp.verification.partitioning.merging import merge

__all__ = ["PAIRS", "TooManyIdealsError", "some_chain_is_below"]

#: Most pairs (ideal, larger ideal) that are looked at.
PAIRS = 10_000_000

# Sets are whole numbers with a bit for each node; beyond this many nodes they take too much memory.
_NODES = 8192


class TooManyIdealsError(Exception):
    """Graph with too many ideals to enumerate."""


def some_chain_is_below(exact: ExactInstance, value: Fraction, clock: Clock, pairs: int = PAIRS) -> bool:
    """Whether k blocks, each of a cost below `value`, can hold all nodes; if not, no bottleneck is below it.

    A partition is a chain of ideals, the predecessor-closed node sets. Level b holds the ideals that b blocks below
    `value` can fill but fewer cannot. With finite memory and no activation buffer, the peak of a block counts as what
    one of its nodes reads and writes.

    Raises
    ------
    TooManyIdealsError
        If there are more than `pairs` pairs, or too many nodes.
    OutOfTimeError
    """
    merged = merge(exact, clock)
    if merged.n > _NODES:
        raise TooManyIdealsError(f"more than {_NODES} nodes")
    question = _Bits.of(merged, value)
    everything, total = (1 << len(question.work)) - 1, sum(question.work)
    reached, level = {0}, [(0, 0)]
    looked = 0
    for left in reversed(range(min(exact.k, len(question.work)))):  # more blocks than nodes never help
        for ideal, _ in level:
            clock.raise_if_late()
            if question.cost(everything & ~ideal) < question.limit:
                return True
        following = []
        for ideal, done in level if left else ():
            for larger, work, cost in question.extensions(ideal, clock):
                looked += 1
                if looked > pairs:
                    raise TooManyIdealsError(f"more than {pairs} pairs of ideals")
                rest = total - done - work
                if cost < question.limit and larger not in reached and rest <= left * question.limit:
                    reached.add(larger)
                    following.append((larger, done + work))
        level = following
    return False


#: A tensor: the producer and the readers as bits, and the time to move it.
_Tensor = tuple[int, int, int]


@dataclass(frozen=True)
class _Bits:
    """The instance with node sets as the bits of whole numbers.

    `before` and `after` hold the neighbours of each node, `inputs` and `outputs` the tensors that it reads and
    produces; `held` are parameters of nodes and `shared` those of several, (users, time); `need` is the least peak of a
    block with a node. `room` is that for parameters and peak, None with infinite memory; `fit` makes it a hard limit.
    """

    before: list[int]
    after: list[int]
    work: list[int]
    inputs: list[list[_Tensor]]
    outputs: list[list[_Tensor]]
    held: list[int]
    shared: list[tuple[int, int]]
    need: list[int]
    room: int | None
    fit: bool
    limit: int

    @classmethod
    def of(cls, exact: ExactInstance, value: Fraction) -> _Bits:
        """Convert an instance whose tensors all have readers."""
        inputs: list[list[_Tensor]] = [[] for _ in range(exact.n)]
        outputs: list[list[_Tensor]] = [[] for _ in range(exact.n)]
        for producer, readers, time, _ in exact.tensors:
            outputs[producer].append((1 << producer, _mask(readers), time))
            for v in readers:
                inputs[v].append(outputs[producer][-1])
        return cls(
            before=[_mask(nodes) for nodes in exact.before],
            after=[_mask(nodes) for nodes in exact.after],
            work=list(exact.work),
            inputs=inputs,
            outputs=outputs,
            held=list(exact.held),
            shared=[(_mask(users), size) for users, size in exact.shared],
            need=list(exact.need),
            room=exact.room,
            fit=exact.fit,
            limit=math.ceil(value / exact.unit),
        )

    def cost(self, nodes: int) -> int:
        """Cost of a node set, eq. (3)."""
        members = list(_members(nodes))
        total = sum(self.work[v] for v in members)
        for producer, readers, time in (tensor for tensors in self.outputs for tensor in tensors):
            if readers & ~nodes if producer & nodes else readers & nodes:
                total += time
        params = sum(self.held[v] for v in members) + sum(size for users, size in self.shared if users & nodes)
        return total + self.overflow(params + max((self.need[v] for v in members), default=0))

    def overflow(self, load: int) -> int:
        """Cost of the overflow of a block with this load: 0 if it fits; the limit if the memory is a hard limit."""
        if self.room is None or load <= self.room:
            return 0
        return self.limit if self.fit else load - self.room

    def extensions(self, ideal: int, clock: Clock) -> Iterator[tuple[int, int, int]]:
        """Yield each larger ideal whose new nodes stay below the limit before cuts, with their work and their cost."""
        seen = {ideal}
        ready = _mask(v for v, before in enumerate(self.before) if not before & ~ideal and not ideal >> v & 1)
        stack = [(ideal, ready, 0, 0, 0, 0)]
        while stack:
            filled, ready, work, cut, params, need = stack.pop()
            for v in _members(ready):
                clock.raise_if_late()
                larger = filled | 1 << v
                if larger in seen:
                    continue
                seen.add(larger)
                old, new = filled & ~ideal, larger & ~ideal
                kept = params + self.held[v]
                kept += sum(size for users, size in self.shared if users >> v & 1 and not users & old)
                most = max(need, self.need[v])
                overflow = self.overflow(kept + most)
                if work + self.work[v] + overflow >= self.limit:
                    continue  # more nodes have more work, more parameters and no smaller peak
                change = sum(time for _, _, time in self.outputs[v])
                for producer, readers, time in self.inputs[v]:
                    if not producer & new:
                        change += 0 if readers & old else time  # received, once
                    elif not readers & ~new:
                        change -= time  # was sent before its last reader came
                freed = _mask(s for s in _members(self.after[v]) if not self.before[s] & ~larger)
                stack.append((larger, ready ^ 1 << v | freed, work + self.work[v], cut + change, kept, most))
                yield larger, work + self.work[v], work + self.work[v] + cut + change + overflow


def _mask(nodes: Iterable[int]) -> int:
    return sum(1 << v for v in set(nodes))


def _members(mask: int) -> Iterator[int]:
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1
