r"""Checks of bounds by cuts, and by a sweep over the nodes.

**Lower bounds on costs of blocks that hold some nodes and not others, in integer parts of a goal.**

The cost f(S) without overflow is a cut, and so is f(S) with ``params(S) + need - memory`` in place of the overflow,
where need is the largest number of bytes that a node surely in S reads and writes: parameters of one node add to its
work, and those of several are one more arc to the sink behind all their users. f(S) is no less than either, and so no
less than f(S) with any part, from 0 to 1, of that difference in place of the overflow.

Times are multiplied by 2^44 over the goal and rounded down; times above twice the goal count as twice the goal, and
parameters above the memory and twice the goal count as these. Where the sums would not fit into 64 bits, there are
fewer digits.

**Bounds by node prices with a sweep over the nodes in the order that the file names.**

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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.json_files import Value
from mtpp.verification.partitioning.cut_kernels import IN, OUT, SHARE, Arcs, CutNetwork, least_cost
from mtpp.verification.partitioning.exact_instance import KindQuestion, Rational, at_most, reachable, with_ends
from mtpp.verification.verdict import Clock

#: The goal as a whole number.
UNIT = 2**44

# Bits of the sum of all capacities at most, and of the goal at least.
_SUM, _FEWEST = 57, 20
# Parts of the overflow that count.
_ALL_OR_NONE = (Fraction(0), Fraction(1))
# Capacity of arcs without limit, more than what passes them.
_FREE = 2**60

# Entry of a tree that is a leaf; most leaves, and the largest multiplier in parts of the goal.
_LEAF, _MOST_LEAVES, _LARGEST = -1, 50_000, 2047.0
# Parts of the overflow by which leaves are bounded.
_PARTS = tuple(Fraction(part, 4) for part in range(5))

_Ints = NDArray[np.int64]


class CutBound(NamedTuple):
    """Bound proved by minimum cuts, its possible loss by rounding, and the number of cuts."""

    least: Fraction
    lost: Fraction
    cuts: int


class BlockCuts:
    """Minimum cuts that bound the costs of blocks below a positive `goal`, in the time unit of the work.

    `weights` are (n,) integers from 0 to `SHARE`, for use with multipliers; by default each node weighs `SHARE`. Two
    nodes of a pair share no block. `parts` are fractions of the overflow, from 0 to 1, that cuts count in place of the
    overflow; the largest bound is the result.
    """

    def __init__(
        self,
        exact: KindQuestion,
        goal: Fraction,
        weights: Sequence[int] | None = None,
        pairs: Iterable[tuple[int, int]] = (),
        parts: Sequence[Fraction] = _ALL_OR_NONE,
    ) -> None:
        directed = [pair for u, v in pairs for pair in ((u, v), (v, u))]
        self._n = exact.n
        self._weights = np.full(exact.n, SHARE) if weights is None else np.array(weights, dtype=np.int64)
        self._apart = rows_of_pairs(exact.n, directed)
        counted = parts if exact.may_overflow else (Fraction(0),)
        networks = [_network(exact, goal / exact.unit, part) for part in counted]
        self._networks = [network for network in networks if network is not None]
        #: By how much a minimum cut may be above what is said of it: each capacity is rounded down. All of the goal
        #: where a network would have too few digits.
        self.lost = goal * max(
            Fraction(1) if network is None else Fraction(len(network.arcs.head) + len(network.work), network.goal)
            for network in networks
        )

    def least(self, inside: Iterable[int], outside: Iterable[int] = (), multiplier: int = 0) -> int:
        """Lower bound on the cost of blocks that contain `inside` and avoid `outside`, in units of goal / `UNIT`.

        With weights, it is for blocks that weigh at least `SHARE`. The multiplier is from 0 to below 2^55.
        """
        decided = np.zeros(self._n, dtype=np.int8)
        decided[list(outside)] = OUT
        nodes = list(inside)
        if (decided[nodes] == OUT).any():  # no block is there
            return UNIT
        decided[nodes] = IN
        return self.least_decided(decided, multiplier)

    def least_decided(self, decided: NDArray[np.int8], multiplier: int) -> int:
        """As `least`, for (n,) decisions `IN`, `OUT` or 0."""
        best = 0
        for network in self._networks:
            digits = UNIT // network.goal
            cost = least_cost(network, decided, self._weights, multiplier // digits, *self._apart)
            best = max(best, cost * digits)
            if best >= UNIT:  # else the others need not say more
                break
        return best


def block_bound(exact: KindQuestion, value: Fraction, pins: Iterable[Iterable[int]], clock: Clock) -> CutBound:
    """Lower bound on the cost of blocks that contain one of several sets of nodes, at most `value`.

    Where the kind cannot run a node of each set, there is no such block, and the value is proved.

    Parameters
    ----------
    exact : KindQuestion
    value : Fraction
        Positive; the bound to prove.
    pins : iterable of iterable of int
        The sets.
    clock : Clock

    Raises
    ------
    OutOfTimeError
    """
    cuts = BlockCuts(exact, value)
    least, count = UNIT, 0
    for pin in pins:
        clock.raise_if_late()
        nodes = list(pin)
        if _alone(exact, nodes) >= value:
            continue
        least, count = min(least, cuts.least(nodes, exact.barred)), count + 1
    return CutBound(value * least / UNIT, cuts.lost, count)


def _alone(exact: KindQuestion, nodes: Sequence[int]) -> float | Fraction:
    """Least cost of a block with these nodes by overflow alone; infinite if it must fit and does not."""
    if not exact.may_overflow or exact.room is None:
        return Fraction(0)
    inside = set(nodes)
    if exact.fit:  # no edge points backwards, so that it holds all between them too
        inside = reachable(exact.before, nodes) & reachable(exact.after, nodes)
    load = sum(exact.params[v] for v in inside) + sum(size for users, size in exact.shared if users & inside)
    over = max(0, load + max(exact.need[v] for v in inside) - exact.room)
    return math.inf if over and exact.fit else over * exact.unit


def _network(exact: KindQuestion, goal: Fraction, part: Fraction) -> CutNetwork | None:
    """Network whose minimum cut is the cheapest block, in integers; None if the goal would have too few digits.

    `goal` is in `exact.unit`. `part` is the fraction of the overflow that counts; at 0, parameters and peaks are left
    out.
    """
    n, read = exact.n, [tensor for tensor in exact.tensors if tensor.readers]
    twice, room = 2 * goal, exact.room or 0
    users, shared, constants = list[frozenset[int]](), list[Rational](), [Fraction(0)] * n
    params: Sequence[Rational] = [0] * n
    if part:
        limit = max(room, 0) + twice / part
        params, sizes = at_most(exact.params, limit), at_most((size for group, size in exact.shared if group), limit)
        users = [group for group, _ in exact.shared if group]
        shared = [part * size for size in sizes]
        # More room than for all that is held changes no overflow, and would take digits.
        least = -sum(params) - sum(sizes)
        constants = [part * max(least, min(twice / part, Fraction(need - room))) for need in exact.need]
    dear = twice - min(Fraction(0), *constants)  # what costs this is above the goal, whatever room is left
    time, work = at_most((tensor.time for tensor in read), dear), at_most(exact.work, dear)
    work = [time + part * size for time, size in zip(work, params, strict=True)]
    total = sum(work) + 2 * sum(time) + sum(shared) + max(max(constants), -min(constants))
    bits = min(UNIT.bit_length() - 1, _SUM - math.ceil(total / goal).bit_length())
    if bits < _FEWEST:
        return None
    scale = 2**bits / goal

    def scaled(value: Rational) -> int:
        return math.floor(value * scale)

    edges, arcs, place = sorted(exact.edges), [], n  # tail, head, capacity there and back
    direct = dict.fromkeys(edges, 0)
    for (producer, readers, _, _), cost in zip(read, time, strict=True):
        if len(readers) == 1:
            direct[producer, next(iter(readers))] += scaled(cost)
            continue
        arcs += [(producer, place, scaled(cost), 0), (place + 1, producer, scaled(cost), 0)]
        for v in sorted(readers):
            arcs += [(place, v, _FREE, 0), (v, place + 1, _FREE, 0)]
        place += 2
    for group in users:
        arcs += [(v, place, _FREE, 0) for v in sorted(group)]
        place += 1
    drains = [scaled(time) for time in work] + [0] * (place - n - len(shared)) + [scaled(size) for size in shared]
    constant = [scaled(cost) for cost in constants]
    both = [(u, v, capacity, capacity) for (u, v), capacity in direct.items()] + arcs
    return _compressed(n, both, len(edges), drains, constant, 2**bits, edges)


def _compressed(
    n: int,
    arcs: Sequence[tuple[int, int, int, int]],
    edges: int,
    drains: Sequence[int],
    constant: Sequence[int],
    goal: int,
    pairs: Sequence[tuple[int, int]],
) -> CutNetwork:
    """The network, with arcs and their reverses as compressed rows by tail; the first `edges` arcs are of the graph."""
    tail, head, forward, backward = np.array(arcs, dtype=np.int64).reshape(-1, 4).T
    count = len(tail)
    along = np.zeros(2 * count, dtype=np.int8)
    along[:edges], along[count : count + edges] = 1, 2
    rows, order = Arcs.of(tail, head, len(drains))
    return CutNetwork(
        arcs=rows,
        along=along[order],
        capacity=np.concatenate((forward, backward))[order],
        work=np.array(drains, dtype=np.int64),
        constant=np.array(constant, dtype=np.int64),
        goal=goal,
        behind=rows_of_pairs(n, pairs),
        before=rows_of_pairs(n, [(v, u) for u, v in pairs]),
    )


def rows_of_pairs(n: int, pairs: Iterable[tuple[int, int]]) -> tuple[_Ints, _Ints]:
    """Pairs as compressed rows, by their first numbers."""
    ordered = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    return np.searchsorted(ordered[:, 0], np.arange(n + 1)), np.ascontiguousarray(ordered[:, 1])


# Check of bounds by node prices: a tree of decisions in each leaf of which no cheap block is worth its share.
#
# Let k' be the smaller of k and the number of nodes with a price above 0, and w_v = ⌈2^40 k' price_v / Σ price⌉. The
# blocks of any partition share all prices, at most k' of them have any, and so some block S has w(S) ≥ 2^40. If S holds
# two nodes of a listed pair, it costs at least what a block with both does. Else it lies in one leaf of the tree, with
# all that follows from the decisions there for blocks without such pairs, and costs at least the bound of that leaf by
# its multiplier. So the least of all pairs and leaves is a bound on every bottleneck.
#
# All of this is of the graph in the file, where nodes that have to share a block are one: no other reduction is
# trusted.


class PriceTree(NamedTuple):
    """Decision tree in pre-order with a multiplier for each leaf, and pairs of nodes that share no block."""

    entries: Sequence[int]
    multipliers: Sequence[float]  # in parts of the value that shall be proved
    pairs: Sequence[tuple[int, int]]


def read_tree(parameters: Value, n: int) -> PriceTree:
    """Read the members `tree`, `multipliers` and `apart` of a bound; n is the number of nodes in the file.

    Raises
    ------
    InputError
        If the members are no tree over these nodes.
    """
    fields = parameters.open_members(("tree", "multipliers", "apart"))
    entries, multipliers = fields["tree"].whole_numbers(), fields["multipliers"].numbers()
    leaves = entries.count(_LEAF)
    if leaves > _MOST_LEAVES:
        fields["tree"].fail(f"it has {leaves} leaves; {_MOST_LEAVES} are the most.")
    if len(entries) != 2 * leaves - 1:
        fields["tree"].fail(f"{leaves} leaves among {len(entries)} entries are no tree; it may be cut short.")
    if len(multipliers) != leaves:
        fields["multipliers"].fail(f"there are {len(multipliers)} for {leaves} leaves.")
    for i, multiplier in enumerate(multipliers):
        if not 0 <= multiplier <= _LARGEST:
            fields["multipliers"].fail(f"number {i} is {multiplier}; they are from 0 to {_LARGEST:g}.")
    pairs = [pair.whole_numbers() for pair in fields["apart"].items()]
    for name, nodes in (("tree", [v for v in entries if v != _LEAF]), ("apart", [v for pair in pairs for v in pair])):
        for v in nodes:
            if not 0 <= v < n:
                fields[name].fail(f"there is no node {v}; there are {n}.")
    if any(len(pair) != 2 for pair in pairs):
        fields["apart"].fail("an item has not two nodes.")
    for _ in _leaves(entries, range(n), fields["tree"]):
        pass
    return PriceTree(entries, multipliers, [(u, v) for u, v in pairs])


def tree_bound(
    exact: KindQuestion,
    group: Sequence[int],
    prices: Sequence[Rational],
    tree: PriceTree,
    value: Fraction,
    clock: Clock,
) -> CutBound:
    """Lower bound on the bottleneck that prices and a decision tree prove, at most `value`.

    Parameters
    ----------
    exact : KindQuestion
    group : (n,) integers
        Node of `exact` that holds each node of the file.
    prices : numbers
        Price of each node of `exact`, not negative, not all 0.
    tree : PriceTree
    value : Fraction
        Positive.
    clock : Clock

    Raises
    ------
    OutOfTimeError
    """
    full = Fraction(SHARE * min(exact.k, sum(price > 0 for price in prices))) / sum(prices)
    weights = [min(SHARE, (full * price).__ceil__()) for price in prices]
    pairs = {(group[u], group[v]) for u, v in tree.pairs}
    alone = BlockCuts(exact, value)
    least = UNIT
    for u, v in pairs:
        clock.raise_if_late()
        least = min(least, alone.least((u, v)))
    cuts = BlockCuts(exact, value, weights, pairs, _PARTS)
    for decided, multiplier in zip(_leaves(tree.entries, group), tree.multipliers, strict=True):
        clock.raise_if_late()
        least = min(least, cuts.least_decided(decided, int(multiplier * UNIT)))
        if least == 0:
            break
    return CutBound(value * least / UNIT, cuts.lost, len(pairs) + len(tree.multipliers))


def _leaves(entries: Sequence[int], group: Sequence[int], place: Value | None = None) -> Iterator[NDArray[np.int8]]:
    """Yield the decisions on groups of nodes at each leaf of a tree in pre-order.

    Where nodes of one group are decided one below the other, the first decision stays: a leaf that decides less covers
    more blocks, so nothing is excluded wrongly. A tree that is malformed is refused at `place`.
    """
    decided = np.zeros(max(group) + 1, dtype=np.int8)
    path: list[tuple[int, bool, bool]] = []  # node, whether it was decided here, whether it is now left out
    ended = False
    for i, entry in enumerate(entries):
        if ended and place is not None:
            place.fail(f"the tree ends before entry {i}.")
        if entry != _LEAF:
            v = group[entry]
            if decided[v] and place is not None:
                place.fail(f"node {entry} of entry {i} is decided above.")
            path.append((v, not decided[v], False))
            decided[v] = decided[v] or IN
            continue
        yield decided
        while path and path[-1][2]:
            v, is_first, _ = path.pop()
            decided[v] = 0 if is_first else decided[v]
        ended = not path
        if path:
            v, is_first, _ = path.pop()
            path.append((v, is_first, True))
            decided[v] = OUT if is_first else decided[v]


# Check of bounds by two halves, the first h blocks and the others, with h = ⌈k / 2⌉.
#
# Merged, each costs at most h bottlenecks: what either holds beyond h times the memory its blocks hold beyond theirs,
# if a block has room at all, and in any case a half with nodes has a block with nodes. Two more nodes, before all
# others and behind them, belong to the first half and the last. So a h-th of what a price tree proves of two blocks of
# the longer graph bounds the bottleneck. The prices are fixed: each node has its work, and each of the two more all
# work together.


def halves_bound(exact: KindQuestion, group: Sequence[int], tree: PriceTree, value: Fraction, clock: Clock) -> CutBound:
    """Lower bound by division into two halves, proved by a tree, at most `value`; parameters as for `tree_bound`."""
    halves, total = -(-exact.k // 2), sum(exact.work)
    if not total:
        return CutBound(Fraction(0), Fraction(0), 0)
    ends = [exact.n, exact.n + 1]
    times = halves if exact.room is not None and exact.room >= 0 else 1
    two = replace(
        with_ends(exact),
        k=2,
        memory=None if exact.memory is None else times * exact.memory,
        buffer=None if exact.buffer is None else times * exact.buffer,
    )
    bound = tree_bound(two, [*group, *ends], [*exact.work, total, total], tree, value * halves, clock)
    return CutBound(bound.least / halves, bound.lost / halves, bound.cuts)


# The goal as a whole number, more than all costs; the largest worth of a block; entries of all tables together, and as
# how many of them the names of a table count.
_GOAL, _NONE, _MOST_WORTH, _MOST_ENTRIES, _NAMES = 2**40, 2**60, 2**16, 2**24, 1000

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
