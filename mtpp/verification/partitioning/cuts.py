r"""Least costs of blocks that hold some nodes and not others, in whole parts of a goal, computed a second time.

f(S) without overflow is a cut, and so is ``params(S) + need - memory`` in place of the overflow, where need is the
largest of what one of the nodes that S surely holds reads and writes: parameters of one node add to its work, and those
of several are one more arc to the sink behind all their users. f(S) is no less than either, and no less than what lies
between them: with any part, from 0 to 1, of what takes the place of the overflow.

Times are multiplied by 2^44 over the goal and rounded down, those above twice the goal count as that; and parameters
above the memory and twice the goal count as these. Where the sums would not fit into 64 bits, there are fewer digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtpp.verification.partitioning.exact_instance import ExactInstance, Rational, at_most
from mtpp.verification.partitioning.kernel import IN, OUT, SHARE, Network, least_cost
from mtpp.verification.verdict import Clock

#: The goal as a whole number.
UNIT = 2**44

# Bits of the sum of all capacities at most, and of the goal at least.
_SUM, _FEWEST = 57, 20
# Parts of the overflow that count.
_ALL_OR_NONE = (Fraction(0), Fraction(1))
# Capacity of arcs without limit, more than what passes them.
_FREE = 2**60

_Ints = NDArray[np.int64]


class CutBound(NamedTuple):
    """Bound proved by minimum cuts, its possible loss by rounding, and the number of cuts."""

    least: Fraction
    lost: Fraction
    cuts: int


class BlockCuts:
    """Minimum cuts of a question below a positive goal, in the time unit of the work.

    `weights`, (n,) from 0 to `SHARE`, are for multipliers; by default each node alone weighs enough. Nodes of `pairs`
    share no set. Of the bounds by `parts` of the overflow, from 0 to 1, the best counts.
    """

    def __init__(
        self,
        exact: ExactInstance,
        goal: Fraction,
        weights: Sequence[int] | None = None,
        pairs: Iterable[tuple[int, int]] = (),
        parts: Sequence[Fraction] = _ALL_OR_NONE,
    ) -> None:
        both = [pair for u, v in pairs for pair in ((u, v), (v, u))]
        self._n = exact.n
        self._weights = np.full(exact.n, SHARE) if weights is None else np.array(weights, dtype=np.int64)
        self._apart = _rows(exact.n, both)
        counted = parts if exact.may_overflow else (Fraction(0),)
        networks = [_network(exact, goal / exact.unit, part) for part in counted]
        self._networks = [network for network in networks if network is not None]
        #: By how much a minimum cut may be above what is said of it: each capacity is rounded down. All of the goal
        #: where a network would have too few digits.
        self.lost = goal * max(
            Fraction(1) if network is None else Fraction(len(network.head) + len(network.work), network.goal)
            for network in networks
        )

    def least(self, inside: Iterable[int], outside: Iterable[int] = (), multiplier: int = 0) -> int:
        """Lower bound on the cost of blocks with the nodes inside and none outside, from 0 to `UNIT`, the goal.

        With weights only of blocks that weigh `SHARE`. The multiplier is from 0 to below 2^55.
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


def block_bound(exact: ExactInstance, value: Fraction, pins: Iterable[Iterable[int]], clock: Clock) -> CutBound:
    """Least cost of a block that holds one of some sets of nodes, with overflow or where it has to fit, up to a value.

    Parameters
    ----------
    exact : ExactInstance
    value : Fraction
        Positive; what shall be proved.
    pins : iterable of iterable of int
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
        least, count = min(least, cuts.least(nodes)), count + 1
    return CutBound(value * least / UNIT, cuts.lost, count)


def _alone(exact: ExactInstance, nodes: Sequence[int]) -> float | Fraction:
    """Least cost of a block with these nodes by overflow alone, infinite where it has to fit and does not."""
    if not exact.may_overflow or exact.room is None:
        return Fraction(0)
    inside = set(nodes)
    if exact.fit:  # no edge points backwards, so that it holds all between them too
        inside = _reachable(exact.before, nodes) & _reachable(exact.after, nodes)
    held = sum(exact.held[v] for v in inside) + sum(size for users, size in exact.shared if users & inside)
    over = max(0, held + max(exact.need[v] for v in inside) - exact.room)
    return math.inf if over and exact.fit else over * exact.unit


def _reachable(neighbours: Sequence[Sequence[int]], nodes: Iterable[int]) -> set[int]:
    seen, stack = set(nodes), list(nodes)
    while stack:
        fresh = set(neighbours[stack.pop()]) - seen
        seen |= fresh
        stack += fresh
    return seen


def _network(exact: ExactInstance, goal: Fraction, part: Fraction) -> Network | None:
    """The network of a question whose goal is in its unit; a part of parameters and peak counts, less the memory.

    None where the goal would have too few digits.
    """
    n, read = exact.n, [tensor for tensor in exact.tensors if tensor.readers]
    twice, room = 2 * goal, exact.room or 0
    users, shared, constants = list[frozenset[int]](), list[Rational](), [Fraction(0)] * n
    held: Sequence[Rational] = [0] * n
    if part:
        most = max(room, 0) + twice / part
        held, sizes = at_most(exact.held, most), at_most((size for those, size in exact.shared if those), most)
        users = [those for those, _ in exact.shared if those]
        shared = [part * size for size in sizes]
        # More room than for all that is held changes no overflow, and would take digits.
        least = -sum(held) - sum(sizes)
        constants = [part * max(least, min(twice / part, Fraction(need - room))) for need in exact.need]
    dear = twice - min(Fraction(0), *constants)  # what costs this is above the goal, whatever room is left
    time, work = at_most((tensor.time for tensor in read), dear), at_most(exact.work, dear)
    work = [time + part * size for time, size in zip(work, held, strict=True)]
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
    for those in users:
        arcs += [(v, place, _FREE, 0) for v in sorted(those)]
        place += 1
    drains = [scaled(time) for time in work] + [0] * (place - n - len(shared)) + [scaled(size) for size in shared]
    constant = [scaled(cost) for cost in constants]
    both = [(u, v, there, there) for (u, v), there in direct.items()] + arcs
    return _compressed(n, both, len(edges), drains, constant, 2**bits, edges)


def _compressed(
    n: int,
    arcs: Sequence[tuple[int, int, int, int]],
    edges: int,
    drains: Sequence[int],
    constant: Sequence[int],
    goal: int,
    pairs: Sequence[tuple[int, int]],
) -> Network:
    """Arcs in rows by their tails, each with its reverse; the first `edges` of them are edges of the graph."""
    tail, head, there, back = np.array(arcs, dtype=np.int64).reshape(-1, 4).T
    count = len(tail)
    tails, heads = np.concatenate((tail, head)), np.concatenate((head, tail))
    along = np.zeros(2 * count, dtype=np.int8)
    along[:edges], along[count : count + edges] = 1, 2
    order = np.argsort(tails, kind="stable")
    place = np.empty(2 * count, dtype=np.int64)
    place[order] = np.arange(2 * count)
    return Network(
        start=np.searchsorted(tails[order], np.arange(len(drains) + 1)),
        head=heads[order],
        mate=np.roll(place, count)[order],
        along=along[order],
        capacity=np.concatenate((there, back))[order],
        work=np.array(drains, dtype=np.int64),
        constant=np.array(constant, dtype=np.int64),
        goal=goal,
        behind=_rows(n, pairs),
        before=_rows(n, [(v, u) for u, v in pairs]),
    )


def _rows(n: int, pairs: Iterable[tuple[int, int]]) -> tuple[_Ints, _Ints]:
    """Pairs as compressed rows of their first numbers."""
    ordered = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    return np.searchsorted(ordered[:, 0], np.arange(n + 1)), np.ascontiguousarray(ordered[:, 1])
