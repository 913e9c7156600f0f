r"""Lower bounds by node prices for forests, where a knapsack over the tree finds the cheapest block worth its share.

In a forest each node reads the outputs of at most one other node, or only one other node reads its outputs. Let prices
be whole numbers, and a block be worth its share with R or more of them. For each node v and each worth
:math:`l \le R` there are two least costs of sets within the tree below v: of convex sets that hold v, and of those
without v. In the latter nothing is missing between the set and v; below a node that is out of the set but has the set
above it there is nothing. Sets of different subtrees join by a knapsack,

.. math:: (a \oplus b)(l) = \min_i \{ a(i) + b(l - i) \},

and the tensor of v with readers c costs :math:`\tau` unless all of them are on the same side as v. So the cheapest
convex set that is worth R is known exactly, for :math:`k R^2` steps in all, whatever the prices are.

The prices are those of a linear program over blocks that were met, each within a few percent of the prices of the best
bound so far. Further away the blocks that are missing in the program decide, and not those that are there.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from instances import Instance, Partition
from instances.deadline import Deadline, Stopwatch
from instances.graph.tensors import FloatArray, IntArray
from mtpp_models.bounds.priced.price_search import PriceSearch
from mtpp_models.cuts.max_flow import BoolArray

# Worth of a block: at first, for each of its nodes, and at most; the most times the nodes; sums at a time.
_SHARE, _FOR_A_NODE, _MOST_SHARE, _MOST_ENTRIES, _SUMS = 1000, 25, 4000, 2**22, 2**20
# Works that are left to others: parts of them are no powers of two that floats have.
_LEAST_SCALE, _MOST_SCALE = 1e-200, 1e200
# Bits of the bottleneck as a whole number, and a cost that no sum of two exceeds.
_BITS, _NEVER = 40, 2**61
# Rounds of searches for the first prices. How far prices move from the best ones in a round, halved when no block is
# new down to the least; how far the goal of a round lies above the bound; and what is tried where a step is too long.
_ROUNDS, _AROUND, _LEAST_AROUND, _ABOVE, _SHORTER = 5, 0.05, 0.005, 0.01, 1 / 3
# Rounds after which a gain counts, which must be this large; blocks of a round.
_PATIENCE, _GAIN, _BLOCKS = 25, 1e-4, 60
# Seconds that a linear program is given at least.
_PROGRAM = 1.0

# Kinds of tables: of the empty set; with a node more; of sets of two subtrees; of the cheaper of two sets.
_EMPTY, _NODE, _BOTH, _EITHER = range(4)


def is_forest(instance: Instance) -> bool:
    """Whether `ForestPrices` answers: for a forest without overflow that is not too large."""
    scaled = instance.graph.work.max() > _LEAST_SCALE and instance.graph.work.sum() < _MOST_SCALE
    small = instance.graph.n * _first_share(instance) <= _MOST_ENTRIES
    return not instance.has_overflow and scaled and small and tree_edges(instance) is not None


def _first_share(instance: Instance) -> int:
    return max(_SHARE, _FOR_A_NODE * instance.graph.n // instance.k)


@dataclass(frozen=True)
class _Table:
    """How a table follows from those before it, `left` and `right` by number."""

    kind: int
    left: int = 0
    right: int = 0
    node: int = 0  # of `_NODE`
    fee: float = 0.0  # of `_EITHER`: what the set on the right costs more [time unit]


def tree_edges(instance: Instance) -> tuple[list[tuple[int, float, list[int]]], IntArray] | None:
    """The edges of a forest as parent, time and children of each tensor, and the nodes, children first.

    Children with several tensors count for the dearest of these. None if the graph is no forest.
    """
    graph, tensors = instance.graph, instance.graph.tensors
    for rows, order in (
        (graph.predecessors, graph.topological_order[::-1]),
        (graph.successors, graph.topological_order),
    ):
        if np.diff(rows[0]).max(initial=0) > 1:
            continue
        times: dict[tuple[int, tuple[int, ...]], float] = defaultdict(float)
        for t, producer in enumerate(tensors.producer.tolist()):
            readers = sorted(set(tensors.consumers[tensors.start[t] : tensors.start[t + 1]].tolist()))
            if rows is graph.predecessors and readers:
                times[producer, tuple(readers)] += float(instance.tensor_time[t])
            elif readers:
                times[readers[0], (producer,)] += float(instance.tensor_time[t])
        edges, taken = list[tuple[int, float, list[int]]](), set[int]()
        for (parent, group), time in sorted(times.items(), key=lambda item: -item[1]):
            children = [c for c in group if c not in taken]
            taken.update(children)
            if children:
                edges.append((parent, time, children))
        return edges, order
    return None


class ForestBlocks:
    """Cheapest blocks of a forest by their worth, without overflow.

    Parameters
    ----------
    instance : Instance
        Whose graph is a forest.
    bottleneck : float
        Of a known partition, positive; it sets the scale of the whole numbers.
    """

    def __init__(self, instance: Instance, bottleneck: float) -> None:
        described = tree_edges(instance)
        assert described is not None
        edges, order = described
        self._instance, self._unit = instance, 2.0 ** (math.frexp(bottleneck)[1] - _BITS)
        self._tables = [_Table(_EMPTY)]
        n = instance.graph.n
        self._with, without = np.zeros(n, dtype=np.int64), [0] * n  # tables of sets with each node, and without
        self._fee = np.zeros(n)  # time of the tensor between each node and its parent
        below: list[list[tuple[float, list[int]]]] = [[] for _ in range(n)]
        for parent, time, children in edges:
            below[parent].append((time, children))
            self._fee[children] = time
        for v in order.tolist():
            inside = outside = 0
            for time, children in below[v]:
                whole = cut = free = mixed = 0
                for c in children:
                    a, b = int(self._with[c]), without[c]
                    whole, free = self._both(whole, a), self._both(free, b)
                    if len(children) > 1:
                        cut, mixed = self._both(cut, self._either(a, 0)), self._both(mixed, self._either(b, a))
                    else:
                        mixed = a
                inside = self._both(inside, self._either(whole, cut, time))
                outside = self._both(outside, self._either(free, mixed, time))
            self._with[v], without[v] = self._added(_Table(_NODE, inside, node=v)), outside
        self._root = 0
        for v in np.setdiff1d(np.arange(n), [c for _, _, children in edges for c in children]).tolist():
            self._root = self._both(self._root, self._either(without[v], int(self._with[v])))

    def _added(self, table: _Table) -> int:
        self._tables.append(table)
        return len(self._tables) - 1

    def _both(self, left: int, right: int) -> int:
        """The number of the table of sets of two subtrees together."""
        return left or right if not (left and right) else self._added(_Table(_BOTH, left, right))

    def _either(self, left: int, right: int, fee: float = 0.0) -> int:
        """The number of the table of the cheaper of two sets, of which the second costs a fee."""
        return left if left == right else self._added(_Table(_EITHER, left, right, fee=fee))

    def price(self, prices: IntArray, share: int) -> None:
        """Fill all tables for (n,) prices, whole numbers not below 0, and the worth of a block."""
        most = [0] * len(self._tables)
        for number, table in enumerate(self._tables):
            if table.kind == _EITHER:
                most[number] = max(most[table.left], most[table.right])
            elif table.kind != _EMPTY:
                more = int(prices[table.node]) if table.kind == _NODE else most[table.right]
                most[number] = min(share, most[table.left] + more)
        self._prices, self._share, costs = prices, share, list[IntArray]()
        work = np.floor(self._instance.graph.work / self._unit).astype(np.int64)
        for top, table in zip(most, self._tables, strict=True):
            if table.kind == _EMPTY:
                costs.append(np.zeros(1, dtype=np.int64))
                continue
            left, right = costs[table.left], costs[table.right]
            if table.kind == _NODE:
                costs.append(left[np.maximum(np.arange(top + 1) - prices[table.node], 0)] + work[table.node])
            elif table.kind == _BOTH:
                costs.append(_knapsack(left, right, top + 1))
            else:
                either = np.full(top + 1, _NEVER)
                either[: len(left)] = left
                either[: len(right)] = np.minimum(either[: len(right)], right + self._whole(table.fee))
                costs.append(either)
        self._costs = costs

    def _whole(self, time: float) -> int:
        return math.floor(min(time / self._unit, 2.0 ** (_BITS + 1)))

    @property
    def least(self) -> float:
        """Least cost of a convex set that is worth the share, rounded down [time unit]; it exists."""
        return float(self._costs[self._root][self._share]) * self._unit

    def blocks(self, ceiling: float) -> list[BoolArray]:
        """Convex sets worth the share, (n,) booleans each: the cheapest, and for each node the cheapest below it.

        The latter cost at most `ceiling`; there are few, the cheapest ones.
        """
        rows = [(self.least, self._root)]
        for v, number in enumerate(self._with.tolist()):
            if len(self._costs[number]) > self._share:
                rows.append((float(self._costs[number][self._share]) * self._unit + float(self._fee[v]), number))
        rows[1:] = sorted(row for row in rows[1:] if row[0] <= ceiling)[:_BLOCKS]
        return [self._traced(number) for _, number in rows]

    def _traced(self, number: int) -> BoolArray:
        """(n,) the nodes of the cheapest set of a table that is worth the share."""
        inside, stack = np.zeros(len(self._prices), dtype=bool), [(number, self._share)]
        while stack:
            number, worth = stack.pop()
            table = self._tables[number]
            left, right = self._costs[table.left], self._costs[table.right]
            if table.kind == _NODE:
                inside[table.node] = True
                stack.append((table.left, max(0, worth - int(self._prices[table.node]))))
            elif table.kind == _EITHER:
                same = worth < len(left) and left[worth] == self._costs[number][worth]
                stack.append((table.left if same else table.right, worth))
            elif table.kind == _BOTH:
                first = max(0, worth - len(right) + 1)
                part = left[first : worth + 1]
                i = first + int((part + right[worth - first - np.arange(len(part))]).argmin())
                stack += [(table.left, i), (table.right, worth - i)]
        return inside


def _knapsack(left: IntArray, right: IntArray, size: int) -> IntArray:
    """The least sums of a cost of each table, for each worth below `size` of the two together."""
    short, long = sorted((left, right), key=len)
    costs = np.full(size, _NEVER)
    end = len(short) - 1
    fill = np.full(end, _NEVER)
    shifted = np.lib.stride_tricks.sliding_window_view(np.concatenate((fill, long, fill)), size)[end::-1]
    rows = max(1, _SUMS // size)
    for first in range(0, len(short), rows):
        part = short[first : first + rows, None] + shifted[first : first + rows]
        np.minimum(costs, part.min(axis=0), out=costs)
    return costs


class ForestPrices:
    """Search for the best prices of a forest; called again, it continues.

    Attributes
    ----------
    value : float
        The highest bound so far [time unit].
    prices : (n,) integers
        Those that prove it.
    """

    def __init__(self, start: Partition, seed: int, threads: int) -> None:
        self.value = 0.0
        self.prices: IntArray = np.ones(start.instance.graph.n, dtype=np.int64)
        self._search = PriceSearch(start, seed, threads)
        self._blocks = ForestBlocks(start.instance, start.bottleneck)
        self._k = min(start.instance.k, start.instance.graph.n)
        self._share = _first_share(start.instance)
        self._centre: FloatArray | None = None  # the best prices as floats, worth k blocks
        self._around = _AROUND
        self._took = 0.0  # seconds of the last look for the cheapest block
        self._gains = [0.0]  # the value behind each round

    def improve(self, upper: float, deadline: Deadline) -> Iterator[float]:
        """Yield the bound behind each round, until it reaches `upper`, or no longer rises, or time is up."""
        search = self._search
        if self._centre is None:
            search.improve(_ROUNDS, deadline)
            if deadline.passed:
                return
            self._try(search.prices, upper)
            yield self.value
        while self.value < upper and not self.is_over and deadline.left > 2 * self._took and not deadline.passed:
            assert self._centre is not None
            search.aim(min(upper, self.value * (1 + _ABOVE)))
            prices, known = search.near(self._centre, self._around, deadline), search.known
            if prices is None:
                return
            if not self._try(prices, upper):
                self._try(prices * _SHORTER + self._centre * (1 - _SHORTER), upper)
            if search.known == known:
                if 2 * self._share <= min(_MOST_SHARE, _MOST_ENTRIES // len(prices)):
                    self._share *= 2
                else:
                    self._around /= 2
            self._gains.append(self.value)
            yield self.value

    @property
    def is_over(self) -> bool:
        """Whether the bound has not risen for long."""
        late = self._gains[-_PATIENCE - 1] if len(self._gains) > _PATIENCE else 0.0
        return self._around < _LEAST_AROUND or self.value < late * (1 + _GAIN)

    def _try(self, prices: FloatArray, upper: float) -> bool:
        """Find the cheapest block for these prices and add it to the known blocks; return whether the bound rises."""
        watch, total = Stopwatch(), float(prices.sum())
        whole = np.maximum(1, np.rint(prices * (self._share * self._k / total))).astype(np.int64)
        self._blocks.price(whole, -(-int(whole.sum()) // self._k))
        least = self._blocks.least
        for block in self._blocks.blocks(min(upper, self.value * (1 + _ABOVE))):
            self._search.add(block)
        self._took = watch.passed
        if least <= self.value:
            return False
        self.value, self.prices, self._centre = least, whole, prices * (self._k / total)
        return True
