r"""Lower bounds by node prices where frontiers are narrow, so that sweeps find the cheapest block worth its share.

Take the nodes one after the other. Each is before the block S, in it, or behind it, and no edge leads back. Of what
came earlier only the *frontier* matters: the places of nodes with edges to later ones, and which tensors are paid for.
Trees have few such states, and so have grids, where a frontier along a diagonal is a path of the graph. Let prices be
whole numbers, and S be worth its share with R or more of them. For each state and each worth :math:`l \le R` there is a
least cost, and a node v leads from state s to s',

.. math:: c_{s'}(l) = \min \{ c_s(l) + \mathrm{fee}(s, s'), \;
    c_{s}(l - \mathrm{price}(v)) + \mathrm{work}(v) + \mathrm{fee}(s, s') \},

with the second where v joins S, and the time of tensors that are cut for sure as fee. So the cheapest convex set that
is worth R is known exactly, whatever the prices are: a dynamic program along a path decomposition.

The prices are those of a linear program over blocks that were met, each within a few percent of the prices of the best
bound so far. Further away the blocks that are missing in the program decide, and not those that are there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances import Instance, Partition
from instances.deadline import Deadline, Stopwatch
from instances.graph.tensors import FloatArray, IntArray
from mtpp_models.bounds.priced.prices import PriceSearch
from mtpp_models.cuts.max_flow import BoolArray, reachability

# Worth of a block: at first, for each of its nodes, and at most; and entries of all tables.
_SHARE, _FOR_A_NODE, _MOST_SHARE, _MOST_ENTRIES = 1000, 25, 4000, 2**26
# Graphs of fewer nodes that are no forests are left to trees of decisions, which tell first blocks and last ones from
# others.
_FEWEST_NODES = 100
# Nodes, states at a time and ways from state to state in all, pairs in a frontier that no path joins, and nodes that
# may come next: of more the sweep would take too long.
_MOST_NODES, _MOST_STATES, _MOST_WAYS, _MOST_PAIRS, _NEXT = 1000, 2000, 150_000, 80, 40
# Works that are left to others: parts of them are no powers of two that floats have.
_LEAST_SCALE, _MOST_SCALE = 1e-200, 1e200
# Bits of the bottleneck as a whole number, and a cost that counts as none; the sum of two is a whole number of 32 bits.
_BITS, _NEVER = 29, 2**30
# Rounds of searches for the first prices. How far prices move from the best ones in a round, halved when no block is
# new down to the least; how far the goal of a round lies above the bound; and what is tried where a step is too long.
_ROUNDS, _AROUND, _LEAST_AROUND, _ABOVE, _SHORTER = 5, 0.05, 0.005, 0.01, 1 / 3
# Rounds after which a gain counts, which must be this large; blocks of a round.
_PATIENCE, _GAIN, _BLOCKS = 25, 1e-4, 60
# Seconds that a linear program is given at least.
_PROGRAM = 1.0

# Places of nodes: before the block, in it, behind it. What is known of a tensor: up to 3 where readers are, as bits,
# one for the block and one for what is behind it; then the place of its producer; or that no cut of it will count.
_BEFORE, _INSIDE, _BEHIND, _SETTLED = 0, 1, 2, 6
# (7, 3) what is known, with another reader by its place, or with the producer; and whether the tensor is cut by that.
_READ = np.array([[0, 1, 2], [1, 1, 3], [2, 3, 2], [3, 3, 3], [4, 6, 4], [5, 5, 6], [6, 6, 6]], dtype=np.int8)
_MADE = np.array([[4, 5, 6], [6, 5, 6], [4, 6, 6], [6, 6, 6], *[[6] * 3] * 3], dtype=np.int8)
_CUT_BY_READER = (_READ == _SETTLED) & (np.arange(7)[:, None] < _SETTLED)
_CUT_BY_PRODUCER = (_MADE == _SETTLED) & (np.arange(3) < _BEHIND)


class Step(NamedTuple):
    """One node of a sweep, with its c transitions from the states before it to the s states after it.

    Transitions are in groups: the i-th of a group leads to the i-th state.
    """

    node: int
    source: IntArray  # (c,): row of the state before
    inside: BoolArray  # (c,): whether the node joins the block
    fee: FloatArray  # (c,): time of the tensors that are cut for sure now
    groups: list[slice]  # of ways; the first has s

    @property
    def states(self) -> int:
        """Number of states after the node."""
        return self.groups[0].stop

    @property
    def target(self) -> IntArray:
        """(c,) index of the state after the node that each transition leads to."""
        return np.concatenate([np.arange(group.stop - group.start) for group in self.groups])

    def to(self, row: int) -> IntArray:
        """Indices of the transitions that lead to a state after the node."""
        return np.array([group.start + row for group in self.groups if group.start + row < group.stop])


def is_forest(instance: Instance) -> bool:
    """Whether each node reads the outputs of at most one other node, or each has at most one reader."""
    graph = instance.graph
    return any(np.diff(rows[0]).max(initial=0) <= 1 for rows in (graph.predecessors, graph.successors))


def sweep_of(instance: Instance, fewest: int = _FEWEST_NODES) -> list[Step] | None:
    """A sweep with few states over the nodes of a forest, or of a graph of `fewest` nodes; None if there is none.

    There is none where memory may overflow.
    """
    scaled = instance.graph.work.max() > _LEAST_SCALE and instance.graph.work.sum() < _MOST_SCALE
    suits = is_forest(instance) or instance.graph.n >= fewest
    if instance.has_overflow or not scaled or not suits or instance.graph.n > _MOST_NODES:
        return None
    order = _order(instance)
    return None if order is None else _steps(instance, order)


def _order(instance: Instance) -> list[int] | None:
    """A topological order whose frontiers have few pairs of nodes without a path between; None if they have many."""
    graph = instance.graph
    joined = reachability(*graph.successors, graph.topological_order)
    joined |= joined.T
    apart, comparable = ~joined, joined.sum(axis=1)
    np.fill_diagonal(apart, False)
    beside: list[set[int]] = [set() for _ in range(graph.n)]
    for u, v in graph.edges.tolist():
        beside[u].add(v)
        beside[v].add(u)
    left = [len(nodes) for nodes in beside]  # neighbours that are still to come
    order, frontier, coming = list[int](), list[int](), set(range(graph.n))
    following: set[int] = set()
    while coming:
        best: tuple[tuple[int, int, int, int], list[int]] | None = None
        candidates = sorted(following, key=lambda v: (left[v], v))[:_NEXT]
        for v in candidates or [min(coming, key=lambda v: (comparable[v], v))]:
            stay = [u for u in frontier if left[u] > (u in beside[v])]
            stay += [v] if left[v] else []
            pairs = int(apart[np.ix_(stay, stay)].sum()) // 2
            if best is None or ((pairs, len(stay), int(comparable[v]), v), stay) < best:
                best = ((pairs, len(stay), int(comparable[v]), v), stay)
        assert best is not None
        (pairs, *_, v), frontier = best
        if pairs > _MOST_PAIRS:
            return None
        order.append(v)
        coming.discard(v)
        following = (following | beside[v]) & coming
        for u in beside[v]:
            left[u] -= 1
    return order


def _steps(instance: Instance, order: list[int]) -> list[Step] | None:
    """The states of a sweep in a given order; None if they are too many."""
    tensors, n = instance.graph.tensors, instance.graph.n
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    touched: list[list[tuple[int, bool]]] = [[] for _ in range(n)]
    last = np.zeros(len(tensors.producer), dtype=np.int64)
    before: list[set[int]] = [set() for _ in range(n)]
    behind: list[set[int]] = [set() for _ in range(n)]
    for t, producer in enumerate(tensors.producer.tolist()):
        readers = sorted(set(tensors.consumers[tensors.start[t] : tensors.start[t + 1]].tolist()))
        if readers:
            last[t] = place[[producer, *readers]].max()
            touched[producer].append((t, True))
            behind[producer].update(readers)
        for v in readers:
            touched[v].append((t, False))
            before[v].add(producer)
    steps, ways = list[Step](), 0
    # A row each; columns of nodes and of tensors, which begin with n, and one more, so that there is one.
    states, columns = np.zeros((1, 1), dtype=np.int8), [-1]
    for at, v in enumerate(order):
        columns += [v, *(n + t for t, _ in touched[v] if n + t not in columns)]
        low = [columns.index(u) for u in before[v] if place[u] < at]
        high = [columns.index(u) for u in behind[v] if place[u] < at]
        parts, sources, joins, fees = list[NDArray[np.int8]](), list[IntArray](), list[BoolArray](), list[FloatArray]()
        for label in (_BEFORE, _INSIDE, _BEHIND):
            source = np.flatnonzero((states[:, low] <= label).all(axis=1) & (states[:, high] >= label).all(axis=1))
            part = np.zeros((len(source), len(columns)), dtype=np.int8)
            part[:, : states.shape[1]] = states[source]
            part[:, states.shape[1]] = label
            fee = np.zeros(len(source))
            for t, produces in touched[v]:
                column = part[:, columns.index(n + t)]
                cut, following = (_CUT_BY_PRODUCER, _MADE) if produces else (_CUT_BY_READER, _READ)
                fee += cut[column, label] * float(instance.tensor_time[t])
                column[:] = following[column, label]
            parts.append(part)
            sources.append(source)
            joins.append(np.full(len(source), label == _INSIDE))
            fees.append(fee)
        kept = [
            i
            for i, c in enumerate(columns)
            if c < 0 or (last[c - n] if c >= n else max((place[u] for u in before[c] | behind[c]), default=-1)) > at
        ]
        columns, rows = [columns[i] for i in kept], np.ascontiguousarray(np.concatenate(parts)[:, kept])
        _, firsts, target = np.unique(rows.view(f"V{len(kept)}")[:, 0], return_index=True, return_inverse=True)
        ways += len(rows)
        if len(firsts) > _MOST_STATES or ways > _MOST_WAYS:
            return None
        step, by_ways = _grouped(v, target, np.concatenate(sources), np.concatenate(joins), np.concatenate(fees))
        steps.append(step)
        states = rows[firsts[by_ways]]
    return steps


def _grouped(
    node: int, target: IntArray, source: IntArray, inside: BoolArray, fee: FloatArray
) -> tuple[Step, NDArray[np.intp]]:
    """The step of a node with its transitions in groups, and the order in which they now are."""
    count = np.bincount(target)
    by_ways = np.argsort(-count, kind="stable")
    new = np.empty_like(by_ways)
    new[by_ways] = np.arange(len(count))
    order = np.argsort(target, kind="stable")
    group = np.empty_like(order)
    group[order] = np.arange(len(target)) - np.repeat(np.cumsum(count) - count, count)
    order = np.lexsort((new[target], group))
    groups = [slice(begin, end) for begin, end in pairwise([0, *np.cumsum(np.bincount(group)).tolist()])]
    return Step(node, source[order], inside[order], fee[order], groups), by_ways


class FrontierBlocks:
    """Cheapest blocks worth a given share of the prices, by dynamic programming along a sweep.

    Parameters
    ----------
    steps : list of Step
        A sweep over the nodes.
    instance : Instance
    bottleneck : float
        Bottleneck of a known partition, positive; it sets the scale of the whole numbers.
    """

    def __init__(self, steps: list[Step], instance: Instance, bottleneck: float) -> None:
        self._steps, self._unit = steps, 2.0 ** (math.frexp(bottleneck)[1] - _BITS)
        self._fees = [
            np.floor(
                np.minimum(
                    (step.fee + np.where(step.inside, instance.graph.work[step.node], 0.0)) / self._unit, _NEVER - 1
                )
            ).astype(np.int32)
            for step in steps
        ]
        # (c,) per step: what each way costs with all that follows, without another node in the block.
        self._ends: list[NDArray[np.int64]] = []
        rest = np.zeros(1, dtype=np.int64)
        before = [1, *(step.states for step in steps[:-1])]
        for step, fee, states in zip(steps[::-1], self._fees[::-1], before[::-1], strict=True):
            self._ends.append(rest[step.target] + fee)
            rest = np.full(states, _NEVER, dtype=np.int64)
            np.minimum.at(rest, step.source[~step.inside], self._ends[-1][~step.inside])
        self._ends.reverse()

    @property
    def most_share(self) -> int:
        """Largest `share`, a whole number, for which the tables are not too large."""
        return min(_MOST_SHARE, _MOST_ENTRIES // sum(step.states for step in self._steps))

    def price(self, prices: IntArray, share: int) -> None:
        """Fill the tables of least costs for (n,) prices, whole numbers from 0, and the least worth `share`."""
        self._prices, self._share = prices, share
        table = np.full((1, share + 1), _NEVER, dtype=np.int32)
        table[0, 0] = 0
        self._tables = [table]
        for step, fee in zip(self._steps, self._fees, strict=True):
            price = min(int(prices[step.node]), share)
            joined = np.concatenate((np.repeat(table[:, :1], price, axis=1), table[:, : share + 1 - price]), axis=1)
            both, rows = np.concatenate((table, joined)), step.source + step.inside * len(table)
            table = np.full((step.states, share + 1), _NEVER, dtype=np.int32)
            for group in step.groups:
                lower = table[: group.stop - group.start]
                np.minimum(lower, both[rows[group]] + fee[group, None], out=lower)
            self._tables.append(table)

    @property
    def least(self) -> float:
        """Least cost of a convex set with prices of at least the share in sum, rounded down [time unit]."""
        return float(self._tables[-1][0, self._share]) * self._unit

    def blocks(self, ceiling: float) -> list[BoolArray]:
        """A few of the cheapest convex sets with prices of at least the share in sum, as (n,) booleans.

        For each node there is the cheapest set of which it is the last node in the sweep. Sets above `ceiling` are left
        out, except the cheapest of all.
        """
        rows: list[tuple[int, int, int, int]] = []
        for at, (step, ends) in enumerate(zip(self._steps, self._ends, strict=True)):
            ways = np.flatnonzero(step.inside)
            if not len(ways):
                continue
            worth = max(0, self._share - int(self._prices[step.node]))
            costs = self._tables[at][step.source[ways], worth] + ends[ways]
            least = int(costs.argmin())
            rows.append((int(costs[least]), at, int(step.source[ways[least]]), worth))
        rows.sort()
        few = [row for row in rows[:_BLOCKS] if row[0] * self._unit <= ceiling]
        return [self._traced(*row[1:]) for row in few or rows[:1]]

    def _traced(self, at: int, row: int, worth: int) -> BoolArray:
        """(n,) nodes of the cheapest set that leads to state `row` before step `at`, with the node of that step."""
        inside = np.zeros(len(self._prices), dtype=bool)
        inside[self._steps[at].node] = True
        for i in range(at - 1, -1, -1):
            step, table = self._steps[i], self._tables[i]
            ways = step.to(row)
            source, joins = step.source[ways], step.inside[ways]
            worths = np.where(joins, max(0, worth - int(self._prices[step.node])), worth)
            way = int((table[source, worths] + self._fees[i][ways]).argmin())
            inside[step.node] |= joins[way]
            row, worth = int(source[way]), int(worths[way])
        return inside


class FrontierPrices:
    """Search for the best prices of a graph with narrow frontiers; called again, it continues.

    Attributes
    ----------
    value : float
        The highest bound so far [time unit].
    prices : (n,) integers
        Prices that prove the bound.
    order : list of int
        The nodes in the order of the sweep.
    """

    def __init__(self, steps: list[Step], start: Partition, seed: int, threads: int) -> None:
        instance = start.instance
        self.value = 0.0
        self.prices: IntArray = np.ones(instance.graph.n, dtype=np.int64)
        self.order = [step.node for step in steps]
        self._search = PriceSearch(start, seed, threads)
        self._blocks = FrontierBlocks(steps, instance, start.bottleneck)
        self._k = min(instance.k, instance.graph.n)
        self._share = min(max(_SHARE, _FOR_A_NODE * instance.graph.n // instance.k), self._blocks.most_share)
        self._centre: FloatArray | None = None  # the best prices as floats, worth k blocks
        self._around = _AROUND
        self._took = 0.0  # seconds of the last look for the cheapest block
        self._gains = [0.0]  # the value behind each round

    def improve(self, upper: float, deadline: Deadline) -> Iterator[float]:
        """Yield the bound after each round, until it reaches `upper`, no longer rises, or time is up."""
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
            prices, blocks = search.near(self._centre, self._around, deadline), search.block_count
            if prices is None:
                return
            if not self._try(prices, upper):
                self._try(prices * _SHORTER + self._centre * (1 - _SHORTER), upper)
            if search.block_count == blocks:
                if 2 * self._share <= self._blocks.most_share:
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
