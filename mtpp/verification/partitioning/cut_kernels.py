r"""The least cost of blocks with some nodes and without others, compiled, in whole numbers alone.

In a convex set S that holds the nodes IN and none of OUT, all between two nodes of IN is IN; a node that may not
share a set with one of IN is OUT; what lies behind IN and behind a node of OUT is OUT, and likewise before. For a
multiplier ℓ and weights w let :math:`q_v = \lceil \ell w_v / 2^{40} \rceil`. Where :math:`w(S) \ge 2^{40}`,
q(S) ≥ ℓ, and so f(S) ≥ f(S) − q(S) + ℓ, the least of which is a minimum cut. With ℓ = 0 and full weights it is the
least of f.

The network has drains work − q and supplies q − work at the nodes of the graph; a tensor with one reader is an arc each
way, one with several has a node out and one in, with arcs to and from its readers without limit. Arcs without limit
keep sets convex: u → v for an edge u → v with v before IN, and v → u with u behind IN. A set costs what its cut does,

.. math:: \sum_{v \in IN} (work_v - q_v) + \ell - \sum_{v \notin IN} supply_v + cut(S),

and no cut is below a flow. The flow is checked, capacities, conservation and value, behind the loop that found it: an
error there lowers bounds and makes none false. Times are rounded down and q up, both to the safe side.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled

#: Decisions on nodes.
IN, OUT = 1, 2
#: Weight of a block that is worth its share, and most of a node.
SHARE = 2**40

# More than all flows together; and the sum of q that is still looked at. No sum of a few of them reaches 2^63.
_UNLIMITED, _MOST = 2**61, 2**60
# ℓ w needs more bits than there are: the digits of w are used up in turns.
_TURNS, _DIGITS = 5, 8
_FORWARD, _BACKWARD = 1, 2

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
_States = NDArray[np.int8]


class Arcs(NamedTuple):
    """Arcs of a network in compressed rows, each with its reverse."""

    start: _Ints  # (N + 1,): the arcs of node v are ``start[v]`` to ``start[v + 1]``
    head: _Ints  # (a,): where each arc leads
    mate: _Ints  # (a,): the reverse of each arc

    @classmethod
    def of(cls, tail: _Ints, head: _Ints, nodes: int) -> tuple[Arcs, _Ints]:
        """Arcs from `tail` to `head` and, behind these, their reverses; and the order in which they now are."""
        tails = np.concatenate((tail, head))
        order = np.argsort(tails, kind="stable")
        place = np.argsort(order)
        rows = np.searchsorted(tails[order], np.arange(nodes + 1))
        return cls(rows, np.concatenate((head, tail))[order], np.roll(place, len(tail))[order]), order


class CutNetwork(NamedTuple):
    """Data of a question; the nodes of the graph come first, those of tensors and shared parameters behind them."""

    arcs: Arcs
    along: NDArray[np.int8]  # (a,): 1 where an edge of the graph leads the same way, 2 where one leads back, else 0
    capacity: _Ints  # (a,)
    work: _Ints  # (N,): of nodes; and of parameters that several nodes share
    constant: _Ints  # (n,): further cost of a block with the node; of several nodes the largest counts
    goal: int  # costs above it count as equal
    behind: tuple[_Ints, _Ints]  # rows of the successors of each node: their starts, (n + 1,), and the nodes
    before: tuple[_Ints, _Ints]  # the same of predecessors


@compiled
def least_cost(
    network: CutNetwork, decided: _States, weight: _Ints, multiplier: int, apart_start: _Ints, apart: _Ints
) -> int:
    """Lower bound, at most the goal, on the cost of convex sets that obey decisions and weigh `SHARE`; may be negative.

    Parameters
    ----------
    network : CutNetwork
    decided : (n,) integers
        `IN`, `OUT`, or 0.
    weight : (n,) integers
        From 0 to `SHARE`.
    multiplier : int
        From 0 to below 2^55.
    apart_start, apart : integers
        Rows of the nodes that may not share a set with each node.
    """
    state = decided.copy()
    n = len(state)
    before, behind = reached(state == IN, network.before), reached(state == IN, network.behind)
    if not _close(state, before, behind, network, apart_start, apart):
        return network.goal
    supply, drain = np.zeros(len(network.work), dtype=np.int64), network.work.copy()
    fixed, weighs, paid = multiplier, 0, 0
    for v in range(n):
        if state[v] == OUT:
            drain[v] = _UNLIMITED
            continue
        weighs = min(SHARE, weighs + weight[v])
        q = _part(multiplier, weight[v])
        paid += q
        if paid > _MOST:
            return 0
        drain[v] -= q
        if state[v] == IN:
            fixed += drain[v]
            supply[v], drain[v] = _UNLIMITED, 0
        elif drain[v] < 0:
            fixed += drain[v]
            supply[v], drain[v] = -drain[v], 0
    if weighs < SHARE:
        return network.goal
    fixed += _constant(network.constant, state)
    capacity = network.capacity.copy()
    for a in range(len(capacity)):
        w = network.arcs.head[a]
        if (network.along[a] == _FORWARD and before[w]) or (network.along[a] == _BACKWARD and behind[w]):
            capacity[a] += _UNLIMITED
    return min(network.goal, fixed + flow_value(network.arcs, capacity, supply, drain, network.goal - fixed))


@compiled
def flow_value(arcs: Arcs, capacity: _Ints, supply: _Ints, drain: _Ints, limit: int) -> int:
    """Value of a flow from supplies to drains, at least the limit if one is; no cut is below it.

    Parameters
    ----------
    arcs : Arcs
    capacity : (a,) integers
        Below 2^62, as are `supply` and `drain`, (N,).
    limit : int
        Below 2^60.
    """
    residual, excess, spare = capacity.copy(), supply.copy(), drain.copy()
    _push(arcs, residual, excess, spare, limit)
    return _checked_value(arcs, capacity, residual, supply, excess, drain, spare)


@compiled
def _part(multiplier: int, weight: int) -> int:
    """Product of a multiplier and a weight over `SHARE`, rounded up: rounding up digit by digit comes to the same."""
    result, digits = 0, (1 << _DIGITS) - 1
    for _ in range(_TURNS):
        result = (multiplier * (weight & digits) + result + digits) >> _DIGITS
        weight >>= _DIGITS
    return result + multiplier * weight


@compiled
def _constant(constant: _Ints, state: _States) -> int:
    """The largest constant of the nodes decided as `IN` or, without such nodes, the least of those not `OUT`."""
    largest, least, some = 0, 0, False
    for v in range(len(state)):
        if state[v] == IN:
            largest, some = (max(largest, constant[v]) if some else constant[v]), True
    if some:
        return largest
    for v in range(len(state)):
        if state[v] != OUT:
            least, some = (min(least, constant[v]) if some else constant[v]), True
    return least


@compiled
def reached(nodes: _Bools, rows: tuple[_Ints, _Ints]) -> _Bools:
    """(n,) booleans: some nodes, and all nodes reachable from them by the rows."""
    start, after = rows
    marked = nodes.copy()
    queue = np.empty(len(nodes), dtype=np.int64)
    size = 0
    for v in range(len(nodes)):
        if marked[v]:
            queue[size] = v
            size += 1
    i = 0
    while i < size:
        v = queue[i]
        i += 1
        for a in range(start[v], start[v + 1]):
            w = after[a]
            if not marked[w]:
                marked[w], queue[size] = True, w
                size += 1
    return marked


@compiled
def _close(
    state: _States, before: _Bools, behind: _Bools, network: CutNetwork, apart_start: _Ints, apart: _Ints
) -> bool:
    """Decide in place the nodes that the decisions imply; return whether any set may be left."""
    n = len(state)
    for v in range(n):
        if before[v] and behind[v]:
            if state[v] == OUT:
                return False
            state[v] = IN
    for v in range(n):
        if state[v] == IN:
            for a in range(apart_start[v], apart_start[v + 1]):
                if state[apart[a]] == IN:
                    return False
                state[apart[a]] = OUT
    # What comes behind a node that is out and lies behind the block itself cannot be in: the former would lie between.
    for ahead in range(2):
        near, rows = (behind, network.behind) if ahead == 0 else (before, network.before)
        ends = np.zeros(n, dtype=np.int8)
        for v in range(n):
            if state[v] == OUT and near[v]:
                ends[v] = OUT
        cut_off = reached(ends == OUT, rows)
        for v in range(n):
            if cut_off[v]:
                if state[v] == IN:
                    return False
                state[v] = OUT
    return True


@compiled
def _push(arcs: Arcs, residual: _Ints, excess: _Ints, spare: _Ints, limit: int) -> None:
    """Push flow from supplies to drains on shortest paths (Dinic, 1970), in place, until `limit` or no path is left."""
    start, head, mate = arcs
    size = len(spare)
    level, queue = np.zeros(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    arc, path = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    total = 0
    while total < limit and _levels(arcs, residual, excess, spare, level, queue):
        arc[:] = start[:size]
        for source in range(size):
            while excess[source] > 0 and level[source] > 0 and total < limit:
                v, depth = source, 0
                while v >= 0 and spare[v] == 0:
                    while arc[v] < start[v + 1] and not (
                        residual[arc[v]] > 0 and level[head[arc[v]]] > 0 and level[head[arc[v]]] == level[v] - 1
                    ):
                        arc[v] += 1
                    if arc[v] < start[v + 1]:
                        path[depth] = arc[v]
                        depth, v = depth + 1, head[arc[v]]
                    else:  # a dead end
                        level[v] = 0
                        depth -= 1
                        v = head[mate[path[depth]]] if depth >= 0 else -1
                if v < 0:
                    break
                amount = min(excess[source], spare[v], limit - total)
                for i in range(depth):
                    amount = min(amount, residual[path[i]])
                for i in range(depth):
                    residual[path[i]] -= amount
                    residual[mate[path[i]]] += amount
                excess[source] -= amount
                spare[v] -= amount
                total += amount


@compiled
def _levels(arcs: Arcs, residual: _Ints, excess: _Ints, spare: _Ints, level: _Ints, queue: _Ints) -> bool:
    """Set `level` to 1 + the number of arcs to the nearest drain, 0 without a path; return whether a supply has one."""
    start, head, mate = arcs
    size, reaches = 0, False
    level[:] = 0
    for v in range(len(spare)):
        if spare[v] > 0:
            level[v], queue[size] = 1, v
            size += 1
    i = 0
    while i < size:
        w = queue[i]
        i += 1
        reaches |= excess[w] > 0
        for a in range(start[w], start[w + 1]):
            v = head[a]
            if level[v] == 0 and residual[mate[a]] > 0:
                level[v], queue[size] = level[w] + 1, v
                size += 1
    return reaches


@compiled
def _checked_value(
    arcs: Arcs, capacity: _Ints, residual: _Ints, supply: _Ints, excess: _Ints, drain: _Ints, spare: _Ints
) -> int:
    """Value of a flow; 0 if it violates capacities or conservation."""
    value = 0
    for v in range(len(drain)):
        gone = 0
        for a in range(arcs.start[v], arcs.start[v + 1]):
            pushed = capacity[a] - residual[a]
            mate = arcs.mate[a]
            back = capacity[mate] - residual[mate]
            if residual[a] < 0 or pushed + back != 0 or arcs.head[mate] != v or arcs.mate[mate] != a:
                return 0
            gone += pushed
        comes, arrives = supply[v] - excess[v], drain[v] - spare[v]
        if comes < 0 or excess[v] < 0 or arrives < 0 or spare[v] < 0 or comes != gone + arrives:
            return 0
        value += arrives
    return value
