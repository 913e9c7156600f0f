"""Equal branches that a bound over ideals names: read, and each exchange checked node by node and tensor by tensor.

Where the first branch of a family can change places with each other one, so can any two, by way of the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from instances.json_files import Value
from mtpp.verification.clock import Clock
from mtpp.verification.partitioning.exact_instance import ExactInstance, Tensor

__all__ = ["NO_SWAPS", "FalseSwapError", "Family", "Swaps", "checked_swaps", "read_swaps", "side_by_side"]

Family = list[list[int]]


class FalseSwapError(Exception):
    """A family whose branches cannot change places."""


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
        If a family names a node that there is not, or one twice, or its branches have not the same length.
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


def checked_swaps(swaps: Swaps, merged: ExactInstance, number: Sequence[int], clock: Clock) -> list[Family]:
    """Families by the nodes of a merged question; `number` says which of these holds each node of the question.

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
    exact: ExactInstance, near: Sequence[Sequence[int]], one: list[int], other: list[int], names: Mapping[int, int]
) -> Iterator[str]:
    """Say why two branches cannot change places."""
    for u, v in zip(one, other, strict=True):
        for what, values in (("work", exact.work), ("parameters", exact.held), ("need", exact.need)):
            if values[u] != values[v]:
                yield f"nodes {names[u]} and {names[v]} differ in {what}"
    moves = dict(zip([*one, *other], [*other, *one], strict=True))
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


def _tensors_of(exact: ExactInstance) -> list[list[int]]:
    """Tensors that each node makes or reads."""
    near: list[list[int]] = [[] for _ in range(exact.n)]
    for t, tensor in enumerate(exact.tensors):
        for v in {tensor.producer, *tensor.readers}:
            near[v].append(t)
    return near


def side_by_side(exact: ExactInstance, families: Sequence[Family]) -> tuple[ExactInstance, list[Family]]:
    """The same question in a topological order where the images of each node stand side by side, branch by branch."""
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
        held=[exact.held[v] for v in order],
        need=[exact.need[v] for v in order],
        tensors=sorted(tensors, key=lambda tensor: tensor.producer),
        shared=[(frozenset(rank[v] for v in users), size) for users, size in exact.shared],
    )
    return question, [[sorted(rank[v] for v in row) for row in family] for family in families]
