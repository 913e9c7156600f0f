"""Whether blocks below a goal cover all nodes over kinds of devices: paths through all ideals, in integers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cache
from math import ceil, lcm, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtpp.verification.partitioning.exact_instance import ExactInstance
from mtpp.verification.verdict import Clock, UndecidedError

# Ideals are bits of whole numbers. From each of them blocks grow node by node; then, ideal by ideal, there is a table
# for the numbers of devices that lead there, which each block shifts by one along the axis of its kind. It holds how
# many of the k places of the pipeline are passed at the least: nodes may have windows of these, and places may be
# empty.


# Ideals, blocks that are looked at, numbers in all tables of truths, and sums.
_MOST_IDEALS, _MOST_BLOCKS, MOST_TRUTHS, _MOST_SUMS = 20_000, 10_000_000, 2**29, 2**28
_Window = Callable[[int, int], tuple[int, int]]


def blocks_lead_below(
    exact: ExactInstance, goal: Fraction | None, clock: Clock, windows: Sequence[tuple[int, int, int]] = ()
) -> bool:
    """Whether a partition may exist whose blocks all cost less than the goal.

    With rates for pairs of kinds, transfers count at these rates if the nodes are in a row, else at the fastest rate of
    each kind. If that excludes nothing, transfers count at the rates of the kinds of neighbouring blocks, and then at
    the fastest rates from kinds used before a block and to kinds left after it. For a row with windows, a partition has
    to exist by both counts.

    Parameters
    ----------
    goal : Fraction, optional
        None: no limit on costs.
    windows : sequence of (node, first, last)
        First and last of the k device slots in which a node may run.

    Raises
    ------
    UndecidedError, OutOfTimeError
    """
    if exact.is_rated and goal is not None and is_a_row(exact):
        if not row_leads_below(exact, goal, clock):
            return False
        if not windows:
            return True
    return _some_path_is_below(exact, goal, clock, windows)


def _some_path_is_below(
    exact: ExactInstance, goal: Fraction | None, clock: Clock, windows: Sequence[tuple[int, int, int]]
) -> bool:
    """Whether a path of blocks covers all nodes, each below the goal at its fastest rates."""
    prices, rows = BlockPrices(exact), _rows_of_kinds(exact, goal)
    ideals = _ideals(prices, clock)
    is_below = _some_path_has(prices, ideals, rows, clock, windows)
    if not is_below or goal is None or not exact.is_rated:
        return is_below
    with suppress(UndecidedError):
        if not _pairs_lead_below(prices, ideals, goal, clock):
            return False
    return _some_path_has(prices, ideals, _rows_by_state(exact, goal), clock, windows)


def _some_path_has(
    prices: BlockPrices,
    ideals: Sequence[int],
    rows: Sequence[BlockRow],
    clock: Clock,
    windows: Sequence[tuple[int, int, int]],
) -> bool:
    """Whether a path of blocks, priced by these rows, covers all nodes."""
    place = {ideal: i for i, ideal in enumerate(ideals)}
    exact, count = prices.exact, 0
    blocks: list[list[list[int]]] = []
    for ideal in ideals[:-1]:
        clock.raise_if_late()
        blocks.append([[place[end] for end in ends] for ends in _ends_of_blocks(prices, ideal, rows)])
        count += sum(map(len, blocks[-1]))
        if count > _MOST_BLOCKS:
            raise UndecidedError("there are too many blocks to look at")
    nodes_by_first, nodes_by_last = dict[int, int](), dict[int, int]()
    for v, first, last in windows:
        nodes_by_first[first] = nodes_by_first.get(first, 0) | 1 << v
        nodes_by_last[last] = nodes_by_last.get(last, 0) | 1 << v

    def window(i: int, j: int) -> tuple[int, int]:
        block = ideals[j] & ~ideals[i]
        first = max((first for first, nodes in nodes_by_first.items() if block & nodes), default=0)
        return first, min((last for last, nodes in nodes_by_last.items() if block & nodes), default=exact.k - 1)

    return blocks_lead_through(exact, blocks, clock, window if windows else None, rows)


class BlockRow(NamedTuple):
    """Prices, in integers, of blocks on a kind of device with the same rates in and out."""

    kind: int
    states: NDArray[np.bool_] | None = None  # devices used before them, or the device of a fixed order; None: all
    cost: int = 1  # price of a unit of the kind's cost without transfers
    received: int = 0  # price of a unit of bytes that comes in
    sent: int = 0  # price of a unit of bytes that goes out
    goal: int | None = None  # cost that each block must stay below; None: no limit


def _rows_of_kinds(exact: ExactInstance, goal: Fraction | None) -> list[BlockRow]:
    """A row of prices for each kind, at its fastest rate."""
    return [
        BlockRow(t, None, 1, scale.bytes, scale.bytes, None if goal is None else ceil(goal / scale.unit))
        for t, scale in enumerate(exact.scales)
    ]


def _rows_by_state(exact: ExactInstance, goal: Fraction) -> list[BlockRow]:
    """Rows of prices that depend on the kinds used before a block and left after it.

    Raises
    ------
    UndecidedError
        If there are too many combinations of numbers of devices.
    """
    kinds, states = range(len(exact.counts)), dict[tuple[int, Fraction, Fraction], NDArray[np.bool_]]()
    sizes = [count + 1 for count in exact.counts]
    if exact.sequence is not None:
        used = np.array([[exact.sequence[:d].count(t) for d in range(len(exact.sequence))] for t in kinds])
    elif prod(sizes) * len(kinds) * (len(kinds) + 1) ** 2 > MOST_TRUTHS:
        raise UndecidedError(f"there are {prod(sizes)} numbers of devices for pairs of {len(kinds)} kinds")
    else:
        used = np.indices(sizes)
    for t in kinds:
        left = [count - used[r] - (r == t) for r, count in enumerate(exact.counts)]
        near = sum((number > 0).astype(np.int64) << b for b, number in enumerate([*used, *left]))
        for bits in np.unique(near).tolist():
            before, behind = ([p for p in kinds if bits >> (p + shift) & 1] for shift in (0, len(kinds)))
            into = min((exact.receiving[p][t] for p in before), default=Fraction(0))
            out = min((exact.sending[t][r] for r in behind), default=Fraction(0))
            states[t, into, out] = (near == bits) | states.get((t, into, out), np.False_)
    rows = []
    for (t, into, out), truths in states.items():
        unit = exact.scales[t].unit
        whole = lcm(unit.denominator, into.denominator, out.denominator)
        rows.append(BlockRow(t, truths, int(unit * whole), int(into * whole), int(out * whole), ceil(goal * whole)))
    return rows


def blocks_lead_through(
    exact: ExactInstance,
    blocks: Sequence[Sequence[Sequence[int]]],
    clock: Clock,
    window: _Window | None = None,
    rows: Sequence[BlockRow] = (),
) -> bool:
    """Whether a path of blocks leads from the first position to the last, with idle devices allowed.

    Parameters
    ----------
    blocks : sequence of lists
        For each position but the last and each row, the later positions where a block may end.
    window : callable, optional
        Function of two positions: first and last of the k device slots in which the block between them may run.
    rows : sequence of BlockRow
        Kind and prices of blocks; by default a row for each kind.

    Raises
    ------
    UndecidedError, OutOfTimeError
    """
    window = window or (lambda i, j: (0, exact.k - 1))
    rows = rows or [BlockRow(t) for t in range(len(exact.counts))]
    if exact.sequence is not None:
        return _path_exists_in_sequence(exact.sequence, rows, blocks, window)
    return _path_exists(exact, rows, blocks, clock, window)


def _ideals(prices: BlockPrices, clock: Clock) -> list[int]:
    """All ideals, sorted by size."""
    level, ideals = {0}, [0]
    while level:
        clock.raise_if_late()
        level = {larger for ideal in level for _, larger in prices.larger(ideal)}
        ideals += sorted(level)
        if len(ideals) > _MOST_IDEALS:
            raise UndecidedError(f"there are more than {_MOST_IDEALS} ideals")
    return ideals


def _bits(rows: Sequence[Sequence[int]]) -> list[int]:
    return [sum(1 << v for v in nodes) for nodes in rows]


class BlockPrices:
    """Costs of blocks, which are sets of nodes as bits, on each kind of device."""

    def __init__(self, exact: ExactInstance) -> None:
        self.exact, self._before = exact, _bits(exact.before)
        self.barred = _bits([sorted(nodes) for nodes in exact.barred])
        self._tensors = [(1 << maker, sum(1 << v for v in readers), size) for maker, readers, size in exact.tensors]
        self._users = [(sum(1 << v for v in users), size) for users, size in exact.shared]
        self.larger, self.crossing = cache(self._larger), cache(self._crossing)

    def _larger(self, ideal: int) -> list[tuple[int, int]]:
        """Each node that may be added to an ideal, and the larger ideal."""
        nodes = (v for v in range(self.exact.n) if not ideal >> v & 1 and self._before[v] & ~ideal == 0)
        return [(v, ideal | 1 << v) for v in nodes]

    def _crossing(self, ideal: int) -> list[tuple[int, int, int]]:
        """Producer and readers, as bits, and size of each tensor made in an ideal and read outside it."""
        return [tensor for tensor in self._tensors if tensor[0] & ideal and tensor[1] & ~ideal]

    def costs(self, block: Block) -> list[int | None]:
        """(T,) costs without transfers, in each kind's unit; None where the block is infeasible."""
        exact, shared = self.exact, sum(size for users, size in self._users if users & block.nodes)
        load = block.held + shared + (block.need if exact.buffer is None else exact.buffer)
        costs: list[int | None] = []
        for limit, barred, work, scale in zip(exact.memory, self.barred, block.works, exact.scales, strict=True):
            over = 0 if limit is None else max(0, load - limit)
            runs = not (exact.fit and over) and not block.nodes & barred
            costs.append(work * scale.work + over * scale.bytes if runs else None)
        return costs

    def moved(self, first: int, last: int) -> tuple[int, int]:
        """Bytes that the block between two ideals receives, and bytes that it sends [`byte_unit`]."""
        block = last & ~first
        received = sum(size for _, readers, size in self.crossing(first) if readers & block)
        return received, sum(size for maker, _, size in self.crossing(last) if maker & block)

    def blocks_from(self, first: int, rows: Sequence[BlockRow]) -> Iterator[tuple[int, Block]]:
        """Yield (ideal at its end, block) for the blocks behind an ideal whose work is below the goal of some row."""
        exact, level = self.exact, {first: Block.empty(self.exact)}
        while level:
            following: dict[int, Block] = {}
            for last, block in level.items():
                if last != first:
                    yield last, block
                for v, larger in self.larger(last):
                    if larger in following:
                        continue
                    grown = block.with_node(exact, v)
                    if any(
                        not grown.nodes & self.barred[row.kind]
                        and (
                            row.goal is None
                            or grown.works[row.kind] * exact.scales[row.kind].work * row.cost < row.goal
                        )
                        for row in rows
                    ):
                        following[larger] = grown
            level = following


class Block(NamedTuple):
    """A set of nodes as bits, with its work on each kind and its memory."""

    nodes: int
    works: Sequence[int]  # work on each kind
    held: int  # units of bytes held, without shared parameters
    need: int  # largest need of a node

    @classmethod
    def empty(cls, exact: ExactInstance) -> Block:
        """The block without nodes."""
        return cls(0, [0] * len(exact.work), 0, 0)

    def with_node(self, exact: ExactInstance, v: int) -> Block:
        """The block and one more node."""
        works = [work + row[v] for work, row in zip(self.works, exact.work, strict=True)]
        return Block(self.nodes | 1 << v, works, self.held + exact.params[v], max(self.need, exact.need[v]))


def _ends_of_blocks(prices: BlockPrices, first: int, rows: Sequence[BlockRow]) -> list[list[int]]:
    """For each row, the ideals at which blocks below the goal end that begin behind the ideal `first`."""
    ends: list[list[int]] = [[] for _ in rows]
    for last, block in prices.blocks_from(first, rows):
        costs, (received, sent) = prices.costs(block), prices.moved(first, last)
        for row, reached in zip(rows, ends, strict=True):
            cost = costs[row.kind]
            moves = received * row.received + sent * row.sent
            if cost is not None and (row.goal is None or cost * row.cost + moves < row.goal):
                reached.append(last)
    return ends


def _path_exists(
    exact: ExactInstance,
    rows: Sequence[BlockRow],
    blocks: Sequence[Sequence[Sequence[int]]],
    clock: Clock,
    window: _Window,
) -> bool:
    """Whether a path of blocks uses at most the devices of each kind, and k in all."""
    shape = tuple(count + 1 for count in exact.counts)
    last, states, k = len(blocks), int(np.prod(shape, dtype=np.float64)), exact.k
    if (last + 1) * states > MOST_TRUTHS:
        raise UndecidedError(f"there are {states} numbers of devices for {last + 1} ideals")
    dtype = np.min_scalar_type(k + 2)
    passed = [np.full(shape, k + 1, dtype=dtype) for _ in range(last + 1)]
    passed[0].flat[0] = 0
    for i, ends in enumerate(blocks):
        clock.raise_if_late()
        if passed[i].min() >= k:
            continue
        for row, places in zip(rows, ends, strict=True):
            before = np.full(shape, k + 1, dtype=dtype)
            target, source = [slice(None)] * len(shape), [slice(None)] * len(shape)
            target[row.kind], source[row.kind] = slice(1, None), slice(None, -1)
            begun = passed[i] if row.states is None else np.where(row.states, passed[i], dtype.type(k + 1))
            before[tuple(target)] = begun[tuple(source)]
            behind: dict[tuple[int, int], NDArray[np.unsignedinteger]] = {}
            for j in places if before.min() < k else ():
                first, final = window(i, j)
                if (first, final) not in behind:
                    moved = np.maximum(before, dtype.type(first)) + dtype.type(1)
                    behind[first, final] = np.where(moved <= final + 1, moved, dtype.type(k + 1))
                np.minimum(passed[j], behind[first, final], out=passed[j])
    return bool(passed[last].min() <= k)


def _path_exists_in_sequence(
    sequence: Sequence[int], rows: Sequence[BlockRow], blocks: Sequence[Sequence[Sequence[int]]], window: _Window
) -> bool:
    """Whether a path of blocks uses the devices in their order, some of them idle."""
    size = len(sequence)
    used = [0] + [size] * (len(blocks) - 1) + [size + 1]  # least number of devices that lead to each place
    for i, ends in enumerate(blocks):
        for row, places in zip(rows, ends, strict=True):
            following = [size]  # for each device the next one of the row
            for d in range(size - 1, -1, -1):
                is_next = sequence[d] == row.kind and (row.states is None or row.states[d])
                following.append(d if is_next else following[-1])
            for j in places:
                first, final = window(i, j)
                device = following[size - max(used[i], first)]
                if device <= final:
                    used[j] = min(used[j], device + 1)
    return used[-1] <= size


# Layers in a row with a rate for each pair of kinds of devices, in exact numbers.


_Truths = NDArray[np.bool_]
_Sums = NDArray[np.object_]


def is_a_row(exact: ExactInstance) -> bool:
    """Whether the nodes form a row, in which each node is read only by the next node."""
    return exact.edges == frozenset(zip(exact.order, exact.order[1:], strict=False))


def row_leads_below(exact: ExactInstance, goal: Fraction, clock: Clock) -> bool:
    """Whether consecutive layers have a partition whose blocks all cost less than the goal."""
    order, prices = exact.order, BlockPrices(exact)
    place, passing = {v: i for i, v in enumerate(order)}, [0] * (exact.n + 1)
    for tensor in exact.tensors:
        if tensor.readers:
            passing[place[tensor.producer] + 1] += tensor.size
    return stages_lead_below(exact, passing, lambda i: _costs_from(prices, order, i), goal, clock)


def stages_lead_below(
    exact: ExactInstance,
    passing: Sequence[int],
    costs_from: Callable[[int], Sequence[Sequence[Fraction | None]]],
    goal: Fraction | None,
    clock: Clock,
) -> bool:
    """Whether a path of blocks of consecutive layers, each below the goal, covers all layers.

    For each position, kind of the block before it and kind of the block behind it, a Boolean table tells with which
    numbers of devices the position can be reached.

    Parameters
    ----------
    passing : sequence of int
        Bytes that cross each position [`byte_unit`].
    costs_from : callable
        Function of a position: for each kind the costs, without transfers, of the blocks that begin there, the shortest
        first; None for a block that is not allowed.
    goal : Fraction, optional
        None: no limit on costs.

    Raises
    ------
    UndecidedError, OutOfTimeError
    """

    def steps_from(i: int) -> Iterator[_Step]:
        for t, costs in enumerate(costs_from(i)):
            ends = ((j, cost) for j, cost in enumerate(costs, i + 1) if cost is not None)
            yield from (_Step(t, j, cost, passing[i], passing[j]) for j, cost in ends)

    return _steps_lead_below(exact, len(passing) - 1, steps_from, exact.receiving, goal, clock)


class _Step(NamedTuple):
    """A block on a device of a kind."""

    kind: int
    end: int  # place
    cost: Fraction | int  # without what it receives and sends at the rates of pairs
    received: int  # units of bytes
    sent: int


def _steps_lead_below(
    exact: ExactInstance,
    last: int,
    steps_from: Callable[[int], Iterable[_Step]],
    rates: Sequence[Sequence[Fraction | int]],
    goal: Fraction | int | None,
    clock: Clock,
) -> bool:
    """Whether blocks lead from position 0 to the last, with tables as in `stages_lead_below`; times are in one unit."""
    kinds, (none, shift) = range(len(exact.counts)), _states(exact)
    if (last + 1) * len(kinds) * (len(kinds) + 1) * none.size > MOST_TRUTHS:
        raise UndecidedError(f"there are {none.size} numbers of devices for {last} layers and pairs of kinds")
    begin = none.copy()
    begin.flat[0] = True
    reached: list[dict[tuple[int | None, int], _Truths]] = [{} for _ in range(last)]
    reached[0] = {(None, q): begin for q in kinds}
    for i, tables in enumerate(reached):
        clock.raise_if_late()
        extended = {(p, q): shift(table, q) for (p, q), table in tables.items()}
        begun = [[(p, truths) for (p, q), truths in extended.items() if q == t and truths.any()] for t in kinds]
        for t, j, cost, received, sent in steps_from(i) if any(begun) else ():
            for p, truths in begun[t]:
                price = cost if p is None else cost + received * rates[p][t]
                if goal is not None and price >= goal:
                    continue
                if j == last:
                    return True
                for r in kinds:
                    if goal is None or price + sent * rates[t][r] < goal:
                        reached[j][t, r] = reached[j].get((t, r), none) | truths
        tables.clear()
    return False


def _pairs_lead_below(prices: BlockPrices, ideals: Sequence[int], goal: Fraction, clock: Clock) -> bool:
    """Whether blocks below the goal cover all nodes, if transfers between neighbours count at the rate of their kinds.

    If an ideal has a single last node, that node is in the block before; if the other nodes have a single first node,
    that node is in the block behind. Tensors made by that last node, or read by that first node, count at the rate of
    the two kinds when they are received or sent; all others count at the fastest rates.
    """
    exact, kinds, place = prices.exact, range(len(prices.exact.counts)), {ideal: i for i, ideal in enumerate(ideals)}
    whole = lcm(*(x.denominator for row in exact.receiving for x in row), *(x.unit.denominator for x in exact.scales))
    rates = [[int(x * whole) for x in row] for row in exact.receiving]
    units = [int(scale.unit * whole) for scale in exact.scales]
    others = [[p for p in kinds if p != t or exact.counts[t] > 1] for t in kinds]
    # One device alone moves nothing.
    into = [min((rates[p][t] for p in others[t]), default=0) for t in kinds]
    out = [min((rates[t][r] for r in others[t]), default=0) for t in kinds]
    rows = _rows_of_kinds(exact, goal)
    last, first = [0] * len(ideals), [sum(1 << v for v, _ in prices.larger(ideal)) for ideal in ideals]
    for ideal in ideals:
        for v, larger in prices.larger(ideal):
            last[place[larger]] |= 1 << v
    last, first = ([nodes if nodes.bit_count() == 1 else 0 for nodes in ends] for ends in (last, first))

    def steps_from(i: int) -> Iterator[_Step]:
        handed = [(readers, size) for maker, readers, size in prices.crossing(ideals[i]) if maker == last[i]]
        for end, block in prices.blocks_from(ideals[i], rows):
            j, (received, sent) = place[end], prices.moved(ideals[i], end)
            accepted = sum(size for readers, size in handed if readers & block.nodes)
            crossing = ((maker, size) for maker, readers, size in prices.crossing(end) if readers & first[j])
            announced = sum(size for maker, size in crossing if maker & block.nodes)
            for t, cost in enumerate(prices.costs(block)):
                if cost is not None:
                    price = cost * units[t] + (received - accepted) * into[t] + (sent - announced) * out[t]
                    yield _Step(t, j, price, accepted, announced)

    return _steps_lead_below(exact, len(ideals) - 1, steps_from, rates, ceil(goal * whole), clock)


def least_sum_of_stages(
    exact: ExactInstance,
    passing: Sequence[int],
    costs_from: Callable[[int], Sequence[Sequence[Fraction | None]]],
    goal: Fraction | None,
    clock: Clock,
) -> Fraction | None:
    """Least sum of costs over paths of blocks that each cost less than the goal; None if there is no path.

    Parameters and tables are as for `stages_lead_below`; the tables hold least sums, in a unit in which all are
    integers. Kinds of neighbouring blocks matter only with rates for pairs of kinds.

    Raises
    ------
    UndecidedError, OutOfTimeError
    """
    kinds, last = range(len(exact.counts)), len(passing) - 1
    others: Sequence[int | None] = kinds if exact.is_rated else [None]
    truths, _ = _states(exact)
    if truths.size * len(kinds) * len(others) ** 2 * last**2 > _MOST_SUMS:
        raise UndecidedError(f"there are {truths.size} numbers of devices for {last} layers")

    def moved(place: int, before: int | None, behind: int | None) -> Fraction:
        """Time to move the bytes that cross a position, from one kind to another; 0 without a kind."""
        return Fraction(0) if before is None or behind is None else passing[place] * exact.receiving[before][behind]

    costs = [costs_from(i) for i in range(last)]
    every = [cost for rows in costs for row in rows for cost in row if cost is not None]
    every += [moved(place, p, q) for place in range(last) for p in others for q in others]
    unit = lcm(*(number.denominator for number in every))
    never = (3 * last * int(max(every, default=Fraction(0)) * unit)) + 1
    reached: list[dict[tuple[int | None, int | None], _Sums]] = [{} for _ in range(last)]
    begin = np.full(truths.shape, never, dtype=object)
    begin.flat[0], best = 0, never
    reached[0] = {(None, q): begin for q in others}
    for i, tables in enumerate(reached):
        clock.raise_if_late()
        for (p, announced), table in tables.items():
            for q in kinds if announced is None else [announced]:
                extended = _with_device(exact, table, q, never)
                ends = [(j, cost) for j, cost in enumerate(costs[i][q], i + 1) if cost is not None]
                for j, cost in ends:
                    for r in others if j < last else [None]:
                        price = cost + moved(i, p, announced) + moved(j, announced, r)
                        if goal is not None and price >= goal:
                            continue
                        sums = extended + int(price * unit)
                        if j == last:
                            best = min(best, sums.min())
                        else:
                            key = announced, r
                            reached[j][key] = np.minimum(reached[j][key], sums) if key in reached[j] else sums
        tables.clear()
    return Fraction(best, unit) if best < never else None


def _with_device(exact: ExactInstance, table: _Sums, t: int, never: int) -> _Sums:
    """Least sums by devices used, after one more device of kind t; `never` if none is left."""
    moved = np.full(table.shape, never, dtype=object)
    if (sequence := exact.sequence) is not None:
        least = np.minimum.accumulate(table)
        for d, kind in enumerate(sequence):
            moved[d + 1] = least[d] if kind == t else never
        return moved
    along = (slice(None),) * t
    moved[(*along, slice(1, None))] = table[(*along, slice(None, -1))]
    moved[np.indices(table.shape).sum(axis=0) > exact.k] = never
    return moved


def _costs_from(prices: BlockPrices, order: Sequence[int], i: int) -> list[list[Fraction | None]]:
    """For each kind, costs without transfers of the blocks that begin at position i; None if infeasible."""
    exact, block = prices.exact, Block.empty(prices.exact)
    rows: list[list[Fraction | None]] = [[] for _ in exact.work]
    for v in order[i:]:
        block = block.with_node(exact, v)
        for row, scale, cost in zip(rows, exact.scales, prices.costs(block), strict=True):
            row.append(None if cost is None else cost * scale.unit)
    return rows


def _states(exact: ExactInstance) -> tuple[_Truths, Callable[[_Truths, int], _Truths]]:
    """An empty table over states (devices used), and a function that adds a device to all states.

    A state says which devices are used: how many of each kind or, in a fixed order, how many of the first ones.
    """
    if (sequence := exact.sequence) is not None:
        return np.zeros(len(sequence) + 1, dtype=bool), lambda table, t: _next_in_sequence(table, sequence, t)
    shape = tuple(count + 1 for count in exact.counts)
    allowed: _Truths = np.indices(shape).sum(axis=0) <= exact.k

    def shift(table: _Truths, t: int) -> _Truths:
        moved = np.roll(table, 1, axis=t)
        moved[(slice(None),) * t + (0,)] = False
        return moved & allowed

    return np.zeros(shape, dtype=bool), shift


def _next_in_sequence(table: _Truths, sequence: Sequence[int], t: int) -> _Truths:
    """Boolean table by number of devices passed, after the next device of kind t has been taken."""
    following = np.zeros_like(table)
    for d in np.flatnonzero(table).tolist():
        if t in sequence[d:]:
            following[sequence.index(t, d) + 1] = True
    return following
