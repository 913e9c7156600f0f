"""Optima and costs of tiny questions from plain numbers, in floats or in fractions; shares no code with the project.

A `Case` is a question as plain lists. A set of nodes is a whole number whose bit v says whether node v is in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

__all__ = ["Case", "block_costs", "least_block_around", "least_peak", "numbers", "optimum", "peak"]


@dataclass(frozen=True)
class Case:
    """A graph on a platform, as plain lists.

    Parameters
    ----------
    work, params : list of float
        Of each node.
    tensors : list of (producer, bytes, readers)
    shared : list of (bytes, users)
    k : int
    bandwidth, memory : float
    buffer : float, optional
    fit : bool
        Whether what does not fit is no answer.
    """

    work: list[float]
    params: list[float]
    tensors: list[tuple[int, float, list[int]]]
    shared: list[tuple[float, list[int]]]
    k: int
    bandwidth: float
    memory: float
    buffer: float | None
    fit: bool = False

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.work)

    @property
    def overflows(self) -> bool:
        """Whether what does not fit takes time, or is no answer."""
        return self.memory < math.inf and (self.fit or self.bandwidth < math.inf)


class _Numbers:
    """The numbers of a case as times, in floats or fractions."""

    def __init__(self, case: Case, kind: Any) -> None:
        free = case.bandwidth == math.inf
        rate = kind(1) if free else kind(case.bandwidth)
        self.case, self.kind, self.zero = case, kind, kind(0)
        self.work = [kind(w) for w in case.work]
        self.time = [self.zero if free else kind(size) / rate for _, size, _ in case.tensors]
        self.rate = rate
        if case.overflows:
            self.params = [kind(p) for p in case.params]
            self.shared = [kind(size) for size, _ in case.shared]
            self.memory = kind(case.memory)
        self.masks = [(1 << u, sum(1 << v for v in readers)) for u, _, readers in case.tensors]
        self.users = [sum(1 << v for v in users) for _, users in case.shared]

    def cost(self, block: int, peak: Any | None) -> Any:
        """What a block costs; infinite if it has to fit and does not, and without overflow if the peak is None."""
        cost = self.zero
        for v, work in enumerate(self.work):
            if block >> v & 1:
                cost += work
        for (home, readers), time in zip(self.masks, self.time, strict=True):
            if readers & ~block if home & block else readers & block:
                cost += time
        if peak is not None and self.case.overflows and block:
            held = self.zero
            for v, size in enumerate(self.params):
                if block >> v & 1:
                    held += size
            for users, size in zip(self.users, self.shared, strict=True):
                if users & block:
                    held += size
            over = held - (self.memory - peak)
            if over > 0:
                cost += math.inf if self.case.fit else over / self.rate
        return cost


def numbers(case: Case, *, exact: bool) -> _Numbers:
    """The times of a case, as fractions if `exact`."""
    return _Numbers(case, Fraction if exact else float)


def optimum(times: _Numbers, *, orders: bool = False) -> Any:
    """Least bottleneck of all partitions into at most k blocks, where the peak counts as the buffer or the largest need
    of a node, all that it reads and writes; with `orders`, as the least peak of all orders.

    All chains of ideals are tried: an ideal holds all that comes before its nodes, a block is the difference of two.
    """
    case = times.case
    everything, before = (1 << case.n) - 1, [0] * case.n
    for u, _, readers in case.tensors:
        for v in readers:
            before[v] |= 1 << u
    ideals = [s for s in range(1 << case.n) if all(before[v] & ~s == 0 for v in range(case.n) if s >> v & 1)]
    needs = [sum((times.kind(s) for u, s, rs in case.tensors if v == u or v in rs), times.zero) for v in range(case.n)]

    def least_live(block: int) -> Any:
        if case.buffer is not None:
            return times.kind(case.buffer)
        if orders:
            return least_peak(times, block)
        return max(needs[v] for v in range(case.n) if block >> v & 1)

    costs: dict[int, Any] = {}
    best = {0: times.zero}
    for _ in range(min(case.k, case.n)):
        reached = dict(best)
        for small, value in best.items():
            for large in ideals:
                if small & ~large or small == large:
                    continue
                block = large & ~small
                if block not in costs:
                    costs[block] = times.cost(block, least_live(block))
                cost = max(value, costs[block])
                if large not in reached or cost < reached[large]:
                    reached[large] = cost
        best = reached
    return best[everything]


def least_block_around(times: _Numbers) -> Any:
    """The largest, over all nodes, of the least cost without overflow of any set with that node."""
    n = times.case.n
    costs = [times.cost(s, None) for s in range(1 << n)]
    return max(min(costs[s] for s in range(1 << n) if s >> v & 1) for v in range(n))


def block_costs(times: _Numbers, blocks: Sequence[int], order: Sequence[int]) -> list[Any]:
    """Cost of each block, which runs its nodes in `order`; peaks count where no buffer is fixed."""
    case = times.case
    costs = []
    for b in range(case.k):
        nodes = [v for v in order if blocks[v] == b]
        live = times.kind(case.buffer) if case.buffer is not None else peak(times, nodes)
        costs.append(times.cost(sum(1 << v for v in nodes), live))
    return costs


def least_peak(times: _Numbers, block: int) -> Any:
    """Least peak of a block of all orders of its nodes: the least over the sets that may run first, node by node."""
    nodes = [v for v in range(times.case.n) if block >> v & 1]
    before = dict.fromkeys(nodes, 0)
    for u, _, readers in times.case.tensors:
        for v in set(readers) & set(nodes):
            before[v] |= 1 << u & block
    touched = [(home | readers) & block for home, readers in times.masks]
    sizes = [times.kind(size) for _, size, _ in times.case.tensors]
    reached = {0: times.zero}
    for _ in nodes:
        larger: dict[int, Any] = {}
        for done, most in reached.items():
            for v in nodes:
                if done >> v & 1 or before[v] & ~done:
                    continue
                now = done | 1 << v
                live = sum((s for t, s in zip(touched, sizes, strict=True) if t & now and t & ~done), times.zero)
                larger[now] = min(larger.get(now, math.inf), max(most, live))
        reached = larger
    return reached[block]


def peak(times: _Numbers, nodes: list[int]) -> Any:
    """Most bytes alive at a step: from the producer, or the first reader, to the last reader in the block."""
    most = times.zero
    for step in range(len(nodes)):
        live = times.zero
        for u, size, readers in times.case.tensors:
            touched = [i for i, v in enumerate(nodes) if v == u or v in readers]
            if touched and touched[0] <= step <= touched[-1]:
                live += times.kind(size)
        most = max(most, live)
    return most
