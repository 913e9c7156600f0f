"""Search over ideals: whether k blocks below a goal cover all nodes, up to exchanges of equal branches."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from instances.json_files import Value
from mtpp.verification.partitioning.exact_instance import (
    IdealQuestion,
    IdealSearch,
    IdealTable,
    KindQuestion,
    LiveTensors,
    Tensor,
    at_most,
)
from mtpp.verification.partitioning.ideal_kernels import (
    FOUND,
    FULL,
    PAUSED,
    fill_slots,
    search_ideals,
    sets_along_edges,
)
from mtpp.verification.verdict import Clock, UndecidedError

# Equal branches that a bound over ideals names: read, and each exchange checked node by node and tensor by tensor.
#
# Where the first branch of a family can change places with each other one, so can any two, by way of the first.


Family = list[list[int]]


class FalseSwapError(Exception):
    """A stated family whose branches are not interchangeable."""


class Swaps(NamedTuple):
    """Families of equal branches, by the nodes of a file."""

    families: Sequence[Family]
    group: Sequence[int]  # node of the question that holds each node of the file


#: No branch can change places.
NO_SWAPS = Swaps((), ())


def read_swaps(parameters: Value, group: Sequence[int]) -> Swaps:
    """Read the member `swaps` of a bound, if there is one.

    Raises
    ------
    InputError
        If a family names an unknown node, or a node twice, or its branches differ in length.
    """
    members, seen = parameters.open_members(()), set[int]()
    families = members["swaps"].items() if "swaps" in members else []
    for number, family in enumerate(families):
        rows = [row.whole_numbers() for row in family.items()]
        for v in (v for row in rows for v in row):
            if not 0 <= v < len(group):
                family.fail(f"family {number} names node {v}; there are {len(group)}.")
            if v in seen:
                family.fail(f"family {number} names node {v}, which is named before.")
            seen.add(v)
        if len({len(row) for row in rows}) != 1 or not rows[0]:
            family.fail(f"family {number} has branches of {', '.join(map(str, map(len, rows)))} nodes; none is empty.")
    return Swaps([[row.whole_numbers() for row in family.items()] for family in families], group)


def checked_swaps(swaps: Swaps, merged: KindQuestion, number: Sequence[int], clock: Clock) -> list[Family]:
    """Families of branches in the nodes of a merged question; `number` maps each node to its merged node.

    Nodes that are merged into one with those of other branches stay where they are.

    Raises
    ------
    FalseSwapError
        If some branches cannot change places there.
    OutOfTimeError
    """
    result, near = [], _tensors_of(merged)
    for f, family in enumerate(swaps.families):
        rows = [list(dict.fromkeys(number[swaps.group[v]] for v in row)) for row in family]
        times = Counter(v for row in rows for v in row)
        rows = [[v for v in row if times[v] == 1] for row in rows]
        if {len(row) for row in rows} != {len(rows[0]) or -1}:
            continue
        for b, row in enumerate(rows):
            clock.raise_if_late()
            names = {number[swaps.group[v]]: v for v in reversed((*family[0], *family[b]))}
            for fault in _faults(merged, near, rows[0], row, names) if b else ():
                raise FalseSwapError(f"family {f}, branch {b}: {fault}")
        result.append(rows)
    return result


def _faults(
    exact: KindQuestion, near: Sequence[Sequence[int]], first: list[int], other: list[int], names: Mapping[int, int]
) -> Iterator[str]:
    """Yield reasons why two branches are not interchangeable."""
    for u, v in zip(first, other, strict=True):
        for what, values in (("work", exact.work), ("parameters", exact.params), ("need", exact.need)):
            if values[u] != values[v]:
                yield f"nodes {names[u]} and {names[v]} differ in {what}"
    moves = dict(zip([*first, *other], [*other, *first], strict=True))
    before, after = Counter[Tensor](), Counter[Tensor]()
    for t in {t for v in moves for t in near[v]}:
        tensor = exact.tensors[t]
        inside = tensor.readers & moves.keys()
        images = {moves[v] for v in inside}
        if tensor.producer in moves or images != inside:
            before[tensor] += 1
            readers = tensor.readers - inside | images
            after[tensor._replace(producer=moves.get(tensor.producer, tensor.producer), readers=readers)] += 1
    if before != after:
        yield "what its nodes read or make differs from the first branch"
    users = Counter(exact.shared)
    if users != Counter((frozenset(moves.get(v, v) for v in nodes), size) for nodes, size in exact.shared):
        yield "its nodes use other shared parameters than the first branch"


def _tensors_of(exact: KindQuestion) -> list[list[int]]:
    """Tensors that each node produces or reads."""
    near: list[list[int]] = [[] for _ in range(exact.n)]
    for t, tensor in enumerate(exact.tensors):
        for v in {tensor.producer, *tensor.readers}:
            near[v].append(t)
    return near


def side_by_side(exact: KindQuestion, families: Sequence[Family]) -> tuple[KindQuestion, list[Family]]:
    """The question in a topological order that lists corresponding nodes of branches together."""
    depth = [0] * exact.n
    for v in exact.order:
        depth[v] = max((depth[u] + 1 for u in exact.before[v]), default=0)
    key = {v: (depth[v], 0, 0, v) for v in range(exact.n)}
    for f, family in enumerate(families):
        for b, row in enumerate(family):
            key |= {v: (depth[v], f + 1, place, b) for place, v in enumerate(row)}
    order = sorted(key, key=lambda v: key[v])
    rank = {v: i for i, v in enumerate(order)}
    tensors = [
        tensor._replace(producer=rank[tensor.producer], readers=frozenset(rank[v] for v in tensor.readers))
        for tensor in exact.tensors
    ]
    question = replace(
        exact,
        work=[exact.work[v] for v in order],
        params=[exact.params[v] for v in order],
        need=[exact.need[v] for v in order],
        tensors=sorted(tensors, key=lambda tensor: tensor.producer),
        shared=[(frozenset(rank[v] for v in users), size) for users, size in exact.shared],
    )
    return question, [[sorted(rank[v] for v in row) for row in family] for family in families]


# Merges of nodes that leave the optimum as it is, each proved by two inequalities.
#
# Overflow counts parameters and, where no buffer is kept, the largest need of a node, as the program over ideals does.
# Let v have no work, and no larger need than u.
#
# (a) v reads nothing, and one node u alone reads all that v produces. Move v to the block of u. The block that v leaves
#     costs no more than before: v took no time there and received nothing. The block of u saves to receive the tensors
#     of v, and pays at most for the parameters of v: it costs no more where **saved >= paid**.
# (b) Nobody reads what v produces, and v reads from one node u alone. Move v to the block of u. The block that v leaves
#     costs no more. The block of u saves to send what v alone read, and pays at most for the parameters of v: it costs
#     no more where **saved >= paid**.
#
# Where everything fits into one block, nothing overflows and parameters cost nothing. Where the memory is a hard limit,
# no saving pays for parameters that do not fit.


def merge(exact: KindQuestion, clock: Clock) -> tuple[KindQuestion, list[int]]:
    """A smaller question with the same optimum, provided that a block's peak is the largest need of its nodes.

    Nodes are renumbered; tensors without readers are removed. The list has the new number of each node.

    Raises
    ------
    OutOfTimeError
    """
    home = list(range(exact.n))  # where each node has gone
    work, params = list(exact.work), list(exact.params)
    shared = [(set(users), size) for users, size in exact.shared]
    tensors = [tensor for tensor in exact.tensors if tensor.readers]
    readers = [set(tensor.readers) for tensor in tensors]
    outputs: list[set[int]] = [set() for _ in range(exact.n)]
    read: list[set[int]] = [set() for _ in range(exact.n)]
    for t, tensor in enumerate(tensors):
        outputs[tensor.producer].add(t)
        for v in tensor.readers:
            read[v].add(t)
    used: list[set[int]] = [set() for _ in range(exact.n)]
    for g, (users, _) in enumerate(shared):
        for v in users:
            used[v].add(g)

    def target(v: int) -> int | None:
        """The node that v may be merged with."""
        if work[v] or (read[v] and outputs[v]) or not (read[v] or outputs[v]):
            return None
        others = {tensors[t].producer for t in read[v]} | {u for t in outputs[v] for u in readers[t]}
        if len(others) > 1 or exact.need[v] > exact.need[u := others.pop()]:
            return None
        saved = sum(tensors[t].time for t in outputs[v]) + sum(tensors[t].time for t in read[v] if readers[t] == {v})
        paid = params[v] + sum(shared[g][1] for g in used[v]) if exact.may_overflow else 0
        return u if (0 if exact.fit else saved) >= paid else None

    waiting = list(range(exact.n))
    while waiting:
        clock.raise_if_late()
        v = waiting.pop()
        if home[v] != v or (u := target(v)) is None:
            continue
        home[v] = u
        params[u] += params[v]
        for g in used[v]:
            shared[g][0].discard(v)
            shared[g][0].add(u)
            used[u].add(g)
        for t in outputs[v]:  # read by u alone
            read[u].discard(t)
        for t in read[v]:  # produced by u
            readers[t].discard(v)
            if not readers[t]:
                outputs[u].discard(t)
        outputs[v], read[v] = set(), set()
        waiting.append(u)
    nodes = [v for v in range(exact.n) if home[v] == v]
    number = {v: i for i, v in enumerate(nodes)}
    made_by = [(v, t) for v in nodes for t in sorted(outputs[v])]
    merged = replace(
        exact,
        n=len(nodes),
        work=[work[v] for v in nodes],
        tensors=[
            Tensor(number[u], frozenset(number[v] for v in readers[t]), tensors[t].time, tensors[t].size)
            for u, t in made_by
        ],
        params=[params[v] for v in nodes],
        shared=[(frozenset(number[v] for v in users), size) for users, size in shared],
        need=[exact.need[v] for v in nodes],
        runs_nodes=False,
    )

    def where(v: int) -> int:
        while home[v] != v:
            v = home[v]
        return number[v]

    return merged, [where(v) for v in range(exact.n)]


# Proof that no chain of ideals has all blocks below a goal, without a witness: numbers for `search_ideals`.
#
# Times are multiplied by 2^50 over the goal and rounded down, those above twice the goal count as that, and a block is
# below the goal where it is below 2^50 less as many units as its cost has terms. So where there is a chain each block
# costs less than the goal, and where there is none no bottleneck is below it but for these units. Where blocks can
# overflow, there are fewer digits, so that the sums of bytes fit into 64 bits; where they must not, bytes count in a
# unit that divides them all.


# Bits of the goal at most and at least, and of all sums.
_BITS, _FEWEST, _SUM = 50, 20, 60
# Nodes of the largest graph, bytes of the largest table, ideals of the first, and steps between two looks at the clock.
_NODES, _TABLE, _FIRST, _STEPS = 8192, 2**30, 1024, 1_000_000
# Memory does not matter, overflow takes time, or is forbidden.
_FREE, _PRICED, _FORBIDDEN = range(3)

_Ints = NDArray[np.int64]
Proof = TypeVar("Proof")


def ideals_bound(exact: KindQuestion, value: Fraction, clock: Clock, swaps: Swaps = NO_SWAPS) -> Fraction | None:
    """Bound on all bottlenecks close to a value; None if k cheaper blocks may cover all nodes.

    With finite memory and no activation buffer, the peak of a block counts as what is live at one of its nodes in
    every order; or, in a smaller question, as what one of them reads and writes.

    Parameters
    ----------
    exact : KindQuestion
    value : Fraction
        Positive, in the time unit of the work.
    clock : Clock
    swaps : Swaps
        Equal branches: one ideal stands for all ideals that exchanges of these branches make of it.

    Raises
    ------
    UndecidedError
        If the graph has too many nodes or ideals, or bytes are rounded and it matters.
    FalseSwapError
        If branches cannot change places.
    OutOfTimeError
    """
    return _by_either(exact, clock, lambda question, number: _bound(question, number, value, clock, swaps))


def _by_either(
    exact: KindQuestion, clock: Clock, prove: Callable[[KindQuestion, Sequence[int]], Proof | None]
) -> Proof | None:
    """Proof for the merged question, or else for the original with peaks; None if both fail.

    `prove` takes a question and the number that each original node has in it.

    Raises
    ------
    UndecidedError
        If there is no proof, and one of the two questions was not decided within its limits.
    """
    doubt, questions = None, [merge(exact, clock)]
    if exact.runs_nodes and exact.may_overflow_in_order:
        questions.append((exact, list(range(exact.n))))
    for question, number in questions:
        try:
            if (proved := prove(question, number)) is not None:
                return proved
        except UndecidedError as error:
            doubt = error
    if doubt is not None:
        raise doubt
    return None


def _bound(exact: KindQuestion, number: Sequence[int], value: Fraction, clock: Clock, swaps: Swaps) -> Fraction | None:
    families = checked_swaps(swaps, exact, number, clock)
    if families:
        exact, families = side_by_side(exact, families)
    goal = value / exact.unit
    twice, room = 2 * goal, max(0, exact.room or 0)
    work, time = at_most(exact.work, twice), at_most((tensor.time for tensor in exact.tensors), twice)
    terms = 2 * exact.n + 2 * len(time) + len(exact.shared) + 4
    bits = min(_BITS, _SUM - (terms + exact.k).bit_length())
    kind = _FREE if not exact.may_overflow_in_order else _FORBIDDEN if exact.fit else _PRICED
    if kind == _PRICED:
        params, shared, need, live = sizes = [at_most(column, room + twice) for column in _sizes(exact)]
        total = sum(params) + sum(shared) + max(need) + sum(live) + room
        bits = min(bits, _SUM - math.ceil(total / goal).bit_length())
        if bits < _FEWEST:
            raise UndecidedError("the memory is too large beside the times")
    scale = 2**bits / goal
    times = [[math.floor(value * scale) for value in values] for values in (work, time)]
    if kind == _PRICED:
        load, are_exact = [[math.floor(size * scale) for size in column] for column in sizes], True
        limit_of_room = math.ceil((exact.room or 0) * scale)
    else:
        load, limit_of_room, are_exact = _whole_loads(exact)
    question = _question(exact, times, load, limit_of_room, kind, 2**bits - terms, families)
    if not _has_chain(question, clock):
        return value * question.limit / 2**bits
    if not are_exact:
        raise UndecidedError("it depends on the last digits of bytes")
    return None


def fits_nowhere(exact: KindQuestion, clock: Clock) -> bool:
    """Whether no chain of k blocks fits into hard limits on memory.

    Raises
    ------
    UndecidedError
        As `ideals_bound`.
    OutOfTimeError
    """
    if not exact.fit or not exact.may_overflow_in_order:
        return False
    return _by_either(exact, clock, lambda question, _: _is_too_large(question, clock) or None) is not None


def _is_too_large(exact: KindQuestion, clock: Clock) -> bool:
    load, room, are_exact = _whole_loads(exact)
    times = [[0] * exact.n, [0] * len(exact.tensors)]
    has_chain = _has_chain(_question(exact, times, load, room, _FORBIDDEN, 1), clock)
    if has_chain and not are_exact:
        raise UndecidedError("it depends on the last digits of bytes")
    return not has_chain


def _sizes(exact: KindQuestion) -> list[list[int]]:
    """Bytes of nodes, of shared parameters, of needs of nodes and, where peaks depend on the order, of tensors."""
    live = exact.tensors if exact.runs_nodes else ()
    return [[*exact.params], [size for _, size in exact.shared], [*exact.need], [tensor.size for tensor in live]]


def _whole_loads(exact: KindQuestion) -> tuple[list[list[int]], int, bool]:
    """Sizes as in `_sizes`, and the memory, in a common unit, rounded down; and whether nothing was rounded."""
    sizes = _sizes(exact)
    unit = math.gcd(*(size for values in sizes for size in values)) or 1
    total = sum(map(sum, sizes)) // unit
    rounded = 1 << max(0, total.bit_length() - _SUM)
    load = [[size // (unit * rounded) for size in values] for values in sizes]
    return load, min((exact.room or 0) // (unit * rounded), 2**_SUM), rounded == 1


def _question(
    exact: KindQuestion,
    times: Sequence[Sequence[int]],
    load: Sequence[Sequence[int]],
    room: int,
    kind: int,
    limit: int,
    families: Sequence[Family] = (),
) -> IdealQuestion:
    """Arrays for the search over ideals, from times and loads scaled to whole numbers.

    Tensors are sorted by their producers; `limit` is the cost that blocks must stay below, `kind` the treatment of
    overflow (`IdealQuestion.fit`).
    """
    if exact.n > _NODES:
        raise UndecidedError(f"more than {_NODES} nodes")
    work, time = times
    params, shared, need, size = load
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
    behind, reads = _rows(exact.after), _rows(read)
    return IdealQuestion(
        k=min(exact.k, exact.n),  # more blocks than nodes never help
        limit=limit,
        total=sum(work),
        work=_whole(work),
        need=_whole(need),
        params=_whole(params),
        time=_whole(time),
        readers=_whole([len(tensor.readers) for tensor in exact.tensors]),
        producer=producer,
        outputs=np.searchsorted(producer, np.arange(exact.n + 1)),
        read=reads,
        used=_rows(used),
        shared=_whole(shared),
        behind=behind,
        before=_whole([len(nodes) for nodes in exact.before]),
        room=room,
        fit=kind,
        code=np.random.default_rng(0).integers(0, 2**64, exact.n, dtype=np.uint64),
        branch=branch,
        family=_whole([f for f, family in enumerate(families) for _ in family]),
        branches=_rows(branches),
        live=_live_tensors(exact, size, reads, behind),
    )


def _live_tensors(
    exact: KindQuestion, size: Sequence[int], reads: tuple[_Ints, _Ints], behind: tuple[_Ints, _Ints]
) -> LiveTensors:
    """Tensors with scaled sizes, and the nodes at which each may be live, for an empty block."""
    n, words = exact.n, -(-exact.n // 64) if size else 0
    before, after = sets_along_edges(_whole(exact.order), behind, words)
    touch = np.zeros((len(size), words), dtype=np.uint64)
    for t, tensor in enumerate(exact.tensors[: len(size)]):
        for v in (tensor.producer, *tensor.readers):
            touch[t, v // 64] |= np.uint64(1 << v % 64)
    return LiveTensors(
        size=_whole(size),
        producer=_whole([tensor.producer for tensor in exact.tensors]),
        readers=_rows([sorted(tensor.readers) for tensor in exact.tensors]),
        read=reads,
        touch=touch,
        before=before,
        behind=after,
        downstream=np.zeros_like(touch),
        earlier=np.zeros((len(reads[1]), words), dtype=np.uint64),
        passed=np.zeros_like(touch),
        fresh=np.zeros((len(reads[1]), words), dtype=np.uint64),
        bytes=np.zeros(n, dtype=np.int64),
    )


def _has_chain(question: IdealQuestion, clock: Clock) -> bool:
    """Whether k blocks below the limit lead through ideals to all nodes."""
    n, tensors, words = len(question.work), len(question.time), -(-len(question.work) // 64)
    if question.work.max() >= question.limit or question.total >= question.k * question.limit:
        return False
    table = _table(_FIRST, words)
    fill_slots(table, question.code, 1)  # the empty set
    search = IdealSearch(
        at=np.array([0, -1, 1, 0]),
        path=np.zeros(n + 1, dtype=np.int32),
        first=np.zeros(n + 2, dtype=np.int64),
        following=np.zeros(n + 1, dtype=np.int64),
        ready=np.zeros(n * (n + 1) // 2 + n + 1, dtype=np.int32),
        **{name: np.zeros(n + 1, dtype=np.int64) for name in ("work", "received", "sent", "params", "need", "cut")},
        inside=np.zeros(n, dtype=np.int8),
        missing=np.zeros(n, dtype=np.int64),
        unread=np.zeros(tensors, dtype=np.int64),
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
    """A hash table four times as large with the same ideals."""
    larger = _table(4 * len(table.level), table.ideals.shape[1])
    larger.ideals[:count], larger.level[:count] = table.ideals[:count], table.level[:count]
    fill_slots(larger, code, count)
    return larger


def _rows(lists: Sequence[Sequence[int]]) -> tuple[_Ints, _Ints]:
    return _whole([0, *accumulate(map(len, lists))]), _whole([item for items in lists for item in items])


def _whole(values: Iterable[int]) -> _Ints:
    return np.array(list(values), dtype=np.int64)
