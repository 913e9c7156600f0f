"""Proof that no chain of ideals has all blocks below a goal, without a witness: `ideal_kernel`, and numbers for it.

Times are multiplied by 2^50 over the goal and rounded down, those above twice the goal count as that, and a block is
below the goal where it is below 2^50 less as many units as its cost has terms. So where there is a chain each block
costs less than the goal, and where there is none no bottleneck is below it but for these units. Where blocks can
overflow, there are fewer digits, so that the sums of bytes fit into 64 bits; where they must not, bytes count in a unit
that divides them all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from mtpp.verification.clock import Clock
from mtpp.verification.partitioning.exact_instance import ExactInstance, Rational, at_most
from mtpp.verification.partitioning.ideal_kernel import (
    FOUND,
    FULL,
    PAUSED,
    fill_slots,
    search_ideals,
)
from mtpp.verification.partitioning.ideal_records import IdealQuestion, IdealSearch, IdealTable
from mtpp.verification.partitioning.merging import merge
from mtpp.verification.partitioning.swaps import NO_SWAPS, Family, Swaps, checked_swaps, side_by_side

__all__ = ["UndecidedError", "fits_nowhere", "ideals_bound"]

# Bits of the goal at most and at least, and of all sums.
_BITS, _FEWEST, _SUM = 50, 20, 60
# Nodes of the largest graph, bytes of the largest table, ideals of the first, and steps between two looks at the clock.
_NODES, _TABLE, _FIRST, _STEPS = 8192, 2**30, 1024, 1_000_000
# Memory does not matter, overflow takes time, or is forbidden.
_FREE, _PRICED, _FORBIDDEN = range(3)

_Ints = NDArray[np.int64]


class UndecidedError(Exception):
    """Question that the ideals of this graph do not decide, within the memory that a check may take."""


def ideals_bound(exact: ExactInstance, value: Fraction, clock: Clock, swaps: Swaps = NO_SWAPS) -> Fraction | None:
    """Bound on all bottlenecks close to a value, or None where k blocks, each of a cost below it, hold all nodes.

    With finite memory and no activation buffer, the peak of a block counts as what one of its nodes reads and writes.

    Parameters
    ----------
    exact : ExactInstance
    value : Fraction
        Positive, in the time unit of the work.
    clock : Clock
    swaps : Swaps
        Equal branches: one ideal stands for all that become one another where these change places.

    Raises
    ------
    UndecidedError
        If the graph has too many nodes or ideals, or bytes are rounded and it matters.
    FalseSwapError
        If branches cannot change places.
    OutOfTimeError
    """
    merged, number = merge(exact, clock)
    families = checked_swaps(swaps, merged, number, clock)
    if families:
        merged, families = side_by_side(merged, families)
    goal = value / exact.unit
    twice, room = 2 * goal, max(0, merged.room or 0)
    work, time = at_most(merged.work, twice), at_most((tensor.time for tensor in merged.tensors), twice)
    sizes: list[list[Rational]] = [[*merged.held], [size for _, size in merged.shared], [*merged.need]]
    terms = 2 * merged.n + 2 * len(time) + len(merged.shared) + 4
    bits = min(_BITS, _SUM - (terms + merged.k).bit_length())
    kind = _FREE if not merged.may_overflow else _FORBIDDEN if merged.fit else _PRICED
    if kind == _PRICED:
        held, shared, need = sizes = [at_most(column, room + twice) for column in sizes]
        bits = min(bits, _SUM - math.ceil((sum(held) + sum(shared) + max(need) + room) / goal).bit_length())
        if bits < _FEWEST:
            raise UndecidedError("the memory is too large beside the times")
    scale = 2**bits / goal
    times = [[math.floor(value * scale) for value in values] for values in (work, time)]
    if kind == _PRICED:
        load, are_exact = [[math.floor(size * scale) for size in column] for column in sizes], True
        limit_of_room = math.ceil((merged.room or 0) * scale)
    else:
        load, limit_of_room, are_exact = _whole_loads(merged)
    question = _question(merged, times, load, limit_of_room, kind, 2**bits - terms, families)
    if not _has_chain(question, clock):
        return value * question.limit / 2**bits
    if not are_exact:
        raise UndecidedError("it depends on the last digits of bytes")
    return None


def fits_nowhere(exact: ExactInstance, clock: Clock) -> bool:
    """Whether no chain of k blocks fits into a memory that is a hard limit; needs of single nodes stand for peaks.

    Raises
    ------
    UndecidedError
        As `ideals_bound`.
    OutOfTimeError
    """
    if not exact.fit or not exact.may_overflow:
        return False
    merged, _ = merge(exact, clock)
    load, room, are_exact = _whole_loads(merged)
    times = [[0] * merged.n, [0] * len(merged.tensors)]
    found = _has_chain(_question(merged, times, load, room, _FORBIDDEN, 1), clock)
    if found and not are_exact:
        raise UndecidedError("it depends on the last digits of bytes")
    return not found


def _whole_loads(exact: ExactInstance) -> tuple[list[list[int]], int, bool]:
    """Parameters of nodes, shared ones, needs; room; all in a unit that divides them, or else rounded down."""
    sizes = [list(exact.held), [size for _, size in exact.shared], list(exact.need)]
    unit = math.gcd(*(size for values in sizes for size in values)) or 1
    total = sum(map(sum, sizes)) // unit
    rounded = 1 << max(0, total.bit_length() - _SUM)
    load = [[size // (unit * rounded) for size in values] for values in sizes]
    return load, min((exact.room or 0) // (unit * rounded), 2**_SUM), rounded == 1


def _question(
    exact: ExactInstance,
    times: Sequence[Sequence[int]],
    load: Sequence[Sequence[int]],
    room: int,
    kind: int,
    limit: int,
    families: Sequence[Family] = (),
) -> IdealQuestion:
    """Arrays of a merged question whose tensors are sorted by their producers."""
    if exact.n > _NODES:
        raise UndecidedError(f"more than {_NODES} nodes")
    work, time = times
    held, shared, need = load
    read: list[list[int]] = [[] for _ in range(exact.n)]
    used: list[list[int]] = [[] for _ in range(exact.n)]
    for t, tensor in enumerate(exact.tensors):
        for v in tensor.readers:
            read[v].append(t)
    for g, (users, _) in enumerate(exact.shared):
        for v in users:
            used[v].append(g)
    producer = _whole([tensor.producer for tensor in exact.tensors])
    branches = [row for family in families for row in family]
    branch = np.full(exact.n, -1)
    for b, row in enumerate(branches):
        branch[row] = b
    return IdealQuestion(
        k=min(exact.k, exact.n),  # more blocks than nodes never help
        limit=limit,
        total=sum(work),
        work=_whole(work),
        need=_whole(need),
        held=_whole(held),
        time=_whole(time),
        readers=_whole([len(tensor.readers) for tensor in exact.tensors]),
        producer=producer,
        made=np.searchsorted(producer, np.arange(exact.n + 1)),
        read=_rows(read),
        used=_rows(used),
        shared=_whole(shared),
        behind=_rows(exact.after),
        before=_whole([len(nodes) for nodes in exact.before]),
        room=room,
        fit=kind,
        code=np.random.default_rng(0).integers(0, 2**64, exact.n, dtype=np.uint64),
        branch=branch,
        family=_whole([f for f, family in enumerate(families) for _ in family]),
        branches=_rows(branches),
    )


def _has_chain(question: IdealQuestion, clock: Clock) -> bool:
    """Whether the ideals hold a chain of k blocks below the limit."""
    n, tensors, words = len(question.work), len(question.time), -(-len(question.work) // 64)
    if question.work.max() >= question.limit or question.total >= question.k * question.limit:
        return False
    table = _table(_FIRST, words)
    fill_slots(table, question.code, 1)  # the empty set
    search = IdealSearch(
        at=np.array([0, -1, 1, 0]),
        taken=np.zeros(n + 1, dtype=np.int32),
        first=np.zeros(n + 2, dtype=np.int64),
        following=np.zeros(n + 1, dtype=np.int64),
        ready=np.zeros(n * (n + 1) // 2 + n + 1, dtype=np.int32),
        **{name: np.zeros(n + 1, dtype=np.int64) for name in ("work", "received", "sent", "held", "need", "cut")},
        inside=np.zeros(n, dtype=np.int8),
        missing=np.zeros(n, dtype=np.int64),
        left=np.zeros(tensors, dtype=np.int64),
        reading=np.zeros(tensors, dtype=np.int64),
        using=np.zeros(len(question.shared), dtype=np.int64),
        words=np.zeros(words, dtype=np.uint64),
        image=np.zeros(words, dtype=np.uint64),
        hash=np.zeros(1, dtype=np.uint64),
    )
    while True:
        clock.raise_if_late()
        outcome = search_ideals(question, table, search, _STEPS)
        if outcome == FULL:
            table = _grown(table, question.code, int(search.at[2]))
        elif outcome != PAUSED:
            return outcome == FOUND


def _table(size: int, words: int) -> IdealTable:
    if size * (8 * words + 8 + 4 * 8) > _TABLE:
        raise UndecidedError(f"there are more than {size // 4} ideals")
    ideals, level = np.zeros((size, words), dtype=np.uint64), np.zeros(size, dtype=np.int64)
    return IdealTable(ideals, level, np.full(4 * size, -1))


def _grown(table: IdealTable, code: NDArray[np.uint64], count: int) -> IdealTable:
    """A table four times as large with the same ideals."""
    larger = _table(4 * len(table.level), table.ideals.shape[1])
    larger.ideals[:count], larger.level[:count] = table.ideals[:count], table.level[:count]
    fill_slots(larger, code, count)
    return larger


def _rows(lists: Sequence[Sequence[int]]) -> tuple[_Ints, _Ints]:
    return _whole([0, *accumulate(map(len, lists))]), _whole([item for items in lists for item in items])


def _whole(values: Iterable[int]) -> _Ints:
    return np.array(list(values), dtype=np.int64)
