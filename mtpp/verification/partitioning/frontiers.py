r"""Check of bounds by node prices with a sweep over the nodes in the order that the file names.

Let k' be the smaller of k and the number of nodes with a price, all prices whole numbers, and R their sum over k',
rounded up. Some block of any partition is worth R. Around a convex set S each node can be named *before* it, *in* it or
*behind* it such that no edge leads back. The sweep names one node after the other and forgets those whose neighbours
are all named. For all names that it remembers it knows the least cost h(w) of a set that is worth w or more:

.. math:: h(w) = \min \{ h_1(w), \; h_2(w - \mathrm{price}(v)) + \mathrm{work}(v) \}.

A tensor costs its time where its producer is in S and some reader behind it, or the producer before S and some reader
in it; that is known once all of them have names. Nodes that the order leaves out come behind the first of their
neighbours. Overflow counts nothing. Times are parts of the goal, rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mtpp.verification.partitioning.cuts import CutBound
from mtpp.verification.partitioning.exact_instance import KindQuestion, Rational
from mtpp.verification.verdict import Clock

# The goal as a whole number, more than all costs; the largest worth of a block; entries of all tables together, and as
# how many of them the names of a table count.
_GOAL, _NONE, _MOST_WORTH, _MOST_ENTRIES, _NAMES = 2**40, 2**60, 2**16, 2**24, 1000

_Ints = NDArray[np.int64]
# Names of nodes, and by tensor the name of its producer, if it has one, and the names of readers that matter.
_Names = tuple[tuple[int, int], ...]
_Known = tuple[tuple[int, tuple[int | None, frozenset[int]]], ...]
_BEFORE, _IN, _BEHIND = range(3)


def frontier_bound(
    exact: KindQuestion, prices: Sequence[Rational], order: Sequence[int], value: Fraction, clock: Clock
) -> CutBound | str:
    """Lower bound on the bottleneck that whole prices prove, at most `value`; a fault of the witness in words.

    Parameters
    ----------
    exact : KindQuestion
    prices : numbers
        Price of each node of `exact`, not negative, not all 0.
    order : numbers
        Different nodes of `exact`.
    value : Fraction
        Positive.
    clock : Clock

    Raises
    ------
    OutOfTimeError
    """
    priced = [v for v in range(exact.n) if prices[v]]
    share = math.ceil(Fraction(sum(prices)) / min(exact.k, len(priced)))
    if any(Fraction(price).denominator > 1 for price in prices) or share > _MOST_WORTH:
        return f"without parameters.multipliers, prices are whole numbers, {_MOST_WORTH} a block at most"
    sweep = _complete(exact, order)
    if not set(priced) <= set(sweep):
        return "without parameters.multipliers, parameters.tree names all nodes that have prices"
    goal = value / exact.unit

    def scaled(time: Rational) -> int:
        return math.floor(min(time, 2 * goal) * _GOAL / goal)

    of: dict[int, list[int]] = {v: [] for v in sweep}
    ends = [(tensor.producer, tensor.readers & of.keys()) for tensor in exact.tensors]
    for t, (producer, readers) in enumerate(ends):
        if readers and producer in of:
            for v in {producer, *readers}:
                of[v].append(t)
    place = {v: at for at, v in enumerate(sweep)}
    last = [max((place.get(v, -1) for v in (producer, *readers)), default=-1) for producer, readers in ends]
    until = {v: max((place.get(u, -1) for u in (*exact.before[v], *exact.after[v])), default=-1) for v in sweep}
    times = [scaled(tensor.time) for tensor in exact.tensors]
    tables: dict[tuple[_Names, _Known], _Ints] = {((), ()): np.append(np.int64(0), np.full(share, _NONE))}
    for at, v in enumerate(sweep):
        shift, work = min(share, int(prices[v])), scaled(exact.work[v])
        following: dict[tuple[_Names, _Known], _Ints] = {}
        for (names, tensors), table in tables.items():
            clock.raise_if_late()
            if len(following) * (share + _NAMES) > _MOST_ENTRIES:
                return "parameters.tree is an order of the nodes with too many states"
            joined = np.concatenate((np.repeat(table[:1], shift), table[: share + 1 - shift])) + work
            named = dict(names)
            lowest = max((named[u] for u in exact.before[v] if u in named), default=_BEFORE)
            highest = min((named[u] for u in exact.after[v] if u in named), default=_BEHIND)
            for name in range(lowest, highest + 1):
                marks = _with(name, [(t, ends[t][0] == v) for t in of[v]], tensors)
                cost = sum(times[t] for t, (_, readers) in marks.items() if readers and last[t] == at)
                key = (
                    tuple((u, other) for u, other in (*names, (v, name)) if until[u] > at),
                    tuple(item for item in marks.items() if last[item[0]] > at),
                )
                costs = (joined if name == _IN else table) + cost
                before = following.get(key)
                following[key] = costs if before is None else np.minimum(before, costs)
        tables = following
    [whole] = tables.values()
    least = min(_GOAL, int(whole[share]))
    return CutBound(value * least / _GOAL, value * 3 * len(sweep) / _GOAL, 1)


def _with(
    name: int, touched: Sequence[tuple[int, bool]], tensors: _Known
) -> dict[int, tuple[int | None, frozenset[int]]]:
    """Names of producer and readers of each tensor, after node `name` is added to the tensors that it touches.

    `touched` lists (tensor, whether the node produces it). A tensor with a named producer has named readers exactly if
    it is cut.
    """
    marks = dict(tensors)
    for t, produces in touched:
        producer, readers = marks.get(t, (None, frozenset()))
        if produces:
            producer = name
        else:
            readers |= {name}
        marks[t] = producer, readers - {_BEFORE} if producer is None else readers & {producer + 1}
    return marks


def _complete(exact: KindQuestion, order: Sequence[int]) -> list[int]:
    """The order with the nodes that it leaves out, each behind the first of its neighbours."""
    named, missing = list[int](), set(range(exact.n)) - set(order)
    for v in dict.fromkeys(order):
        stack = [v]
        while stack:
            u = stack.pop()
            named.append(u)
            beside = missing.intersection((*exact.before[u], *exact.after[u]))
            missing -= beside
            stack += sorted(beside, reverse=True)
    return named
