r"""Check of bounds by node prices where the nodes that have prices form a forest.

Let k' be the smaller of k and the number of nodes with a price, all prices whole numbers, and R their sum over k',
rounded up. Some block of any partition is worth R. Of the cheapest convex set S that is worth R only the nodes with a
price are looked at: without the others it stays convex in their graph, and cuts no more. Hang the forest up at its
roots. With h(w) the least cost of a part of S that is worth w or more, parts of several subtrees come to

.. math:: h(w) = \min_{u} \{ h_1(u) + h_2(w - u) \}.

A node that is out of S has members of S below it only if it has none above. A tensor costs its time where its producer
and some reader are on different sides of S. Children that read several tensors of their parent count for one of these,
a lower cost. Overflow counts nothing. Times are parts of the goal, rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtpp.verification.partitioning.cuts import CutBound
from mtpp.verification.partitioning.exact_instance import KindQuestion, Rational
from mtpp.verification.verdict import Clock

# The goal as a whole number, more than all costs, and rows between looks at the clock; the largest worth of a block and
# of all nodes, which tables have as many entries as.
_GOAL, _NONE, _ROWS, _MOST_WORTH, _MOST_IN_ALL = 2**40, 2**60, 500, 2**16, 2**24

_Ints = NDArray[np.int64]


def forest_bound(exact: KindQuestion, prices: Sequence[Rational], value: Fraction, clock: Clock) -> CutBound | str:
    """Lower bound on the bottleneck that whole prices prove, at most `value`; a fault of the prices in words.

    Parameters
    ----------
    exact : KindQuestion
    prices : numbers
        Price of each node of `exact`, not negative, not all 0.
    value : Fraction
        Positive.
    clock : Clock

    Raises
    ------
    OutOfTimeError
    """
    nodes = [v for v in range(exact.n) if prices[v]]
    share = math.ceil(Fraction(sum(prices)) / min(exact.k, len(nodes)))
    if any(Fraction(price).denominator > 1 for price in prices) or share > _MOST_WORTH or sum(prices) > _MOST_IN_ALL:
        most = f"{_MOST_WORTH} a block and {_MOST_IN_ALL} in all at most"
        return f"without branches of a tree parameters.prices are whole numbers, {most}"
    families = _families(exact, set(nodes))
    if families is None:
        return "without branches of a tree the nodes with parameters.prices are a forest"
    goal = value / exact.unit

    def scaled(time: Rational) -> int:
        return math.floor(min(time, 2 * goal) * _GOAL / goal)

    def join(left: _Ints, right: _Ints) -> _Ints:
        return _joined(left, right, share + 1, clock)

    def crossing(same: Sequence[_Ints], other: Sequence[_Ints], fee: int) -> _Ints:
        """Parts below a tensor: all on the side of its producer, or for its time each on either side."""
        either = (_cheaper(*both) for both in zip(same, other, strict=True))
        return _cheaper(reduce(join, same), reduce(join, either) + fee)

    empty = np.zeros(1, dtype=np.int64)
    tables: dict[int, tuple[_Ints, _Ints]] = {}  # of parts that hold a node, and of parts without it
    for v in families.order:
        inside = outside = empty
        for time, children in families.below.get(v, ()):
            with_child, without = zip(*(tables.pop(child) for child in children), strict=True)
            inside = join(inside, crossing(with_child, [empty] * len(children), scaled(time)))
            outside = join(outside, crossing(without, with_child, scaled(time)))
        shift = min(share, int(prices[v]))
        tables[v] = np.concatenate((np.repeat(inside[:1], shift), inside))[: share + 1] + scaled(exact.work[v]), outside
    whole = empty
    for tables_of_root in tables.values():
        whole = join(whole, _cheaper(*tables_of_root))
    least = min(_GOAL, int(whole[share]))
    return CutBound(value * least / _GOAL, value * 3 * len(nodes) / _GOAL, 1)


class _Families(NamedTuple):
    order: list[int]  # the nodes, each behind its children
    below: dict[int, list[tuple[int, list[int]]]]  # of each parent, time and children of each tensor


def _families(exact: KindQuestion, nodes: set[int]) -> _Families | None:
    """The forest of some nodes, hung up at producers or at readers; None if they are none."""
    order = [v for v in exact.order if v in nodes]
    read = [
        (tensor.producer, tensor.readers & nodes, tensor.time) for tensor in exact.tensors if tensor.producer in nodes
    ]
    before: dict[int, set[int]] = {v: set() for v in order}
    after: dict[int, set[int]] = {v: set() for v in order}
    for producer, readers, _ in read:
        after[producer] |= readers
        for v in readers:
            before[v].add(producer)
    if max(map(len, before.values())) <= 1:
        order.reverse()
        hung = [(producer, readers, time) for producer, readers, time in read if readers]
    elif max(map(len, after.values())) <= 1:
        hung = [(next(iter(readers)), frozenset((producer,)), time) for producer, readers, time in read if readers]
    else:
        return None
    times: dict[tuple[int, frozenset[int]], int] = {}
    for parent, children, time in hung:
        times[parent, children] = times.get((parent, children), 0) + time
    below: dict[int, list[tuple[int, list[int]]]] = {}
    seen: set[int] = set()
    for (parent, children), time in sorted(times.items(), key=lambda item: item[1], reverse=True):
        if fresh := sorted(children - seen):
            below.setdefault(parent, []).append((time, fresh))
            seen.update(fresh)
    return _Families(order, below)


def _cheaper(left: _Ints, right: _Ints) -> _Ints:
    """The lower cost of each worth."""
    short, long = sorted((left, right), key=len)
    lower = long.copy()
    lower[: len(short)] = np.minimum(lower[: len(short)], short)
    return lower


def _joined(left: _Ints, right: _Ints, size: int, clock: Clock) -> _Ints:
    """Costs of the cheapest parts of two subtrees together, of each worth below `size`."""
    short, long = sorted((left, right), key=len)
    if len(short) == 1:
        return long + short[0]
    costs = np.full(min(size, len(short) + len(long) - 1), _NONE)
    for worth, cost in enumerate(short.tolist()):
        row = long[: len(costs) - worth] + cost
        np.minimum(costs[worth : worth + len(row)], row, out=costs[worth : worth + len(row)])
        if worth % _ROWS == 0:
            clock.raise_if_late()
    return costs
