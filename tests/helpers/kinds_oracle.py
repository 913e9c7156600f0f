"""Optima of tiny questions over kinds of devices, in fractions, from plain numbers; shares no code with the project."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

__all__ = ["KindsCase", "Peak", "draw_case", "optimum_of"]

Number = Fraction | None


@dataclass(frozen=True)
class KindsCase:
    """A question as plain numbers; a set of nodes is a whole number whose bit v says whether v is in it."""

    works: list[list[float]]  # a row a kind
    params: list[float]
    tensors: list[tuple[int, float, list[int]]]  # producer, bytes, readers
    counts: list[int]
    bandwidths: list[float]
    memories: list[float]
    buffer: float | None
    fit: bool
    fixed: bool
    k: int
    rates: list[list[float]] | None = None  # from a device of a kind to one of another
    together: tuple[tuple[int, ...], ...] = ()  # nodes that share a block
    windows: tuple[tuple[int, int, int], ...] = ()  # node, first and last place; places may be empty
    uncut: tuple[int, ...] = ()  # nodes whose readers are in their block
    at_least: tuple[tuple[int, tuple[int, ...]], ...] = ()  # so many of these nodes in every block
    on: tuple[tuple[int, tuple[int, ...]], ...] = ()  # node, and kinds that may run it
    shared: tuple[tuple[tuple[int, ...], float], ...] = ()  # users of a parameter, and its bytes

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.params)


#: Least bytes that are live at a time in a block with these nodes.
Peak = Callable[[KindsCase, list[int]], Fraction]


def draw_case(
    rng: random.Random,
    *,
    chain: bool = False,
    most: int = 7,
    rated: bool = False,
    grouped: bool = False,
    windowed: bool = False,
    barred: bool = False,
) -> KindsCase:
    """A random question with few nodes, of sizes that tie often or span many powers.

    Perhaps with rates for pairs of kinds, with nodes that are together, with windows, which may contradict, and with
    nodes that some kinds cannot run.
    """
    n, kinds = rng.randint(1, most), rng.randint(1, 3)
    wild = rng.random() < 0.3

    def size() -> float:
        return float(10 ** rng.uniform(-4, 4)) if wild else float(rng.randint(0, 6))

    pairs = [(u, v) for u in range(n) for v in range(u + 1, n) if (v == u + 1 if chain else rng.random() < 0.4)]
    tensors = []
    for u in range(n):
        readers = [v for a, v in pairs if a == u]
        tensors.append((u, size(), readers))
    base = [size() for _ in range(n)]
    related = rng.random() < 0.5
    speeds = [rng.choice([0.25, 0.4, 1.0, 2.0]) for _ in range(kinds)]
    works = [[w / s if related else size() for w in base] for s in speeds]
    counts = [rng.randint(1, 2) for _ in range(kinds)]
    limited = rng.random() < 0.5
    memories = [rng.choice([float(rng.randint(1, 12)), float("inf")]) if limited else float("inf") for _ in counts]
    fixed = rng.random() < 0.2
    buffer = rng.choice([None, float(rng.randint(0, 3))])
    fit = any(m < float("inf") for m in memories) and rng.random() < 0.4
    case = KindsCase(
        works=works,
        params=[float(rng.randint(0, 4)) for _ in range(n)],
        tensors=tensors,
        counts=counts,
        bandwidths=[rng.choice([0.5, 1.0, 3.0, float("inf")]) for _ in counts],
        memories=memories,
        buffer=buffer,
        fit=fit,
        fixed=fixed,
        k=sum(counts) if fixed else rng.randint(1, sum(counts)),
        rates=[[rng.choice([0.25, 0.5, 1.0, 3.0, float("inf")]) for _ in counts] for _ in counts] if rated else None,
        together=tuple(tuple(rng.sample(range(n), 2)) for _ in range(rng.randint(1, 2))) if grouped and n > 1 else (),
    )
    if barred:
        for v in range(n):
            for t in rng.sample(range(kinds), rng.randint(0, kinds - 1)):
                works[t][v] = float("inf") if rng.random() < 0.4 else works[t][v]
    if not windowed:
        return case
    spans = [sorted(rng.randrange(case.k) for _ in range(2)) for _ in range(rng.randint(1, 3))]
    return replace(case, windows=tuple((rng.randrange(n), *span) for span in spans))


def optimum_of(case: KindsCase, peak: Peak | None = None) -> Number:
    """Least bottleneck, None if nothing fits; the peak of a block is the buffer, or else the largest need of a node."""
    everything = (1 << case.n) - 1
    before = [0] * case.n
    for u, _, readers in case.tensors:
        for v in readers:
            before[v] |= 1 << u
    ideals = [s for s in range(everything + 1) if all(before[v] & ~s == 0 for v in range(case.n) if s >> v & 1)]
    groups = [*case.together, *((u, *readers) for u, _, readers in case.tensors if u in case.uncut)]
    ideals = [s for s in ideals if all(len({s >> v & 1 for v in group}) == 1 for group in groups)]

    @cache
    def cost(block: int, t: int) -> Number:
        return _cost(case, block, t, peak)

    sequence = [t for t, count in enumerate(case.counts) for _ in range(count)]
    if case.rates is not None:
        return min(_of_all(case, ideals, sequence, peak), default=None)

    @cache
    def rest(done: int, left: tuple[int, ...]) -> Number:
        """Least bottleneck of what is not done, with devices left: a count a kind, or the number of the next one."""
        if done == everything:
            return None if case.at_least and _remaining(sequence, case.fixed, left) else Fraction(0)
        best: Number = None
        for t, place, following in _choices(case, sequence, left):
            for ideal in ideals:
                if ideal != done and ideal & done == done and _may_be(case, ideal & ~done, place):
                    here, behind = cost(ideal & ~done, t), rest(ideal, following)
                    if here is not None and behind is not None and (best is None or max(here, behind) < best):
                        best = max(here, behind)
        return best

    return rest(0, (0,) if case.fixed else (*case.counts, case.k))


def _of_all(case: KindsCase, ideals: list[int], sequence: list[int], peak: Peak | None) -> Iterator[Fraction]:
    """Bottlenecks of all partitions that fit."""
    everything = (1 << case.n) - 1

    def longer(done: int, left: tuple[int, ...], blocks: list[tuple[int, int]]) -> Iterator[Fraction]:
        if done == everything:
            if case.at_least and _remaining(sequence, case.fixed, left):
                return
            costs = [_rated_cost(case, blocks, b, peak) for b in range(len(blocks))]
            possible = [cost for cost in costs if cost is not None]
            if len(possible) == len(costs):
                yield max(possible)
            return
        for t, place, following in _choices(case, sequence, left):
            for ideal in ideals:
                if ideal != done and ideal & done == done and _may_be(case, ideal & ~done, place):
                    yield from longer(ideal, following, [*blocks, (ideal & ~done, t)])

    return longer(0, (0,) if case.fixed else (*case.counts, case.k), [])


def _rated_cost(case: KindsCase, blocks: list[tuple[int, int]], b: int, peak: Peak | None) -> Number:
    """Cost of a block: by its kind alone without transfers, and all that enters, and all that leaves once."""
    inside, t = blocks[b]
    ample = replace(case, memories=[float("inf")] * len(case.counts))
    alone, moving = _cost(case, inside, t, peak), _cost(ample, inside, t, None)
    if alone is None or moving is None:
        return None
    total = alone - moving + sum(Fraction(case.works[t][v]) for v in range(case.n) if inside >> v & 1)
    for u, size, readers in case.tensors:
        home = next(i for i, (block, _) in enumerate(blocks) if block >> u & 1)
        there = {i for i, (block, _) in enumerate(blocks) if any(block >> v & 1 for v in readers)} - {home}
        if home == b and there:
            total += max(_passing(case, size, t, blocks[i][1]) for i in there)
        if b in there:
            total += _passing(case, size, blocks[home][1], t)
    return total


def _passing(case: KindsCase, size: float, s: int, t: int) -> Fraction:
    assert case.rates is not None
    rate = min(case.rates[s][t], case.bandwidths[s], case.bandwidths[t])
    return Fraction(0) if rate == float("inf") else Fraction(size) / Fraction(rate)


def _choices(case: KindsCase, sequence: list[int], left: tuple[int, ...]) -> list[tuple[int, int, tuple[int, ...]]]:
    """Kind and place of the next block, and what is left behind it."""
    if case.fixed:
        return [(sequence[d], d, (d + 1,)) for d in range(left[0], len(sequence))]
    *counts, most = left
    choices = []
    skips = case.windows and not case.at_least  # places may stay empty
    for behind in range(most) if skips else range(most - 1, most):  # places that are left behind the block
        for t, count in enumerate(counts):
            if count and most:
                choices.append((t, case.k - 1 - behind, (*counts[:t], count - 1, *counts[t + 1 :], behind)))
    return choices


def _remaining(sequence: list[int], fixed: bool, left: tuple[int, ...]) -> int:
    """Blocks that would stay empty."""
    return len(sequence) - left[0] if fixed else left[-1]


def _may_be(case: KindsCase, block: int, place: int) -> bool:
    return all(first <= place <= last for v, first, last in case.windows if block >> v & 1) and all(
        sum(block >> v & 1 for v in nodes) >= count for count, nodes in case.at_least
    )


def _cost(case: KindsCase, block: int, t: int, peak: Peak | None) -> Number:
    inside = [v for v in range(case.n) if block >> v & 1]
    moved, needs = Fraction(0), [Fraction(0)] * case.n
    for u, size, readers in case.tensors:
        within = [v for v in readers if block >> v & 1]
        for v in {u, *readers}:
            needs[v] += Fraction(size)
        if (len(within) < len(readers)) if block >> u & 1 else within:
            moved += Fraction(size)
    rate = case.bandwidths[t]
    free = rate == float("inf")
    over = Fraction(0)
    if case.memories[t] < float("inf"):
        live = max(needs[v] for v in inside) if case.buffer is None else Fraction(case.buffer)
        live = live if peak is None else peak(case, inside)
        held = sum(Fraction(case.params[v]) for v in inside)
        held += sum(Fraction(size) for users, size in case.shared if any(block >> v & 1 for v in users))
        over = max(Fraction(0), held + live - Fraction(case.memories[t]))
    if over and case.fit:
        return None
    if any(case.works[t][v] == float("inf") for v in inside):
        return None
    if any(t not in kinds for v, kinds in case.on if block >> v & 1):
        return None
    work = sum(Fraction(case.works[t][v]) for v in inside)
    return work + (Fraction(0) if free else (moved + over) / Fraction(rate))
