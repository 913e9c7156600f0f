"""Search for blocks of high price and low cost: propagation and branching in trees, and simulated annealing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances import ComputationGraph
from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.peaks import KernelArrays
from mtpp_models.bounds.priced.relaxation import (
    IN,
    OUT,
    BlockQuestion,
    Flows,
    LeastOverflow,
    Sets,
    copy_flow,
    no_sets,
    relax,
)
from mtpp_models.cuts.cuts import UNIT
from mtpp_models.cuts.max_flow import BoolArray, reachability

# Consequences of decisions on nodes, and a lower bound on the cost of all blocks that agree with them.


# Rounding must not make sets of nodes look worth less than their share.
_SHORT = 1e-9


@compiled
def bound_of(
    state: NDArray[np.int8],
    question: BlockQuestion,
    flows: Flows,
    sets: Sets,
    multiplier: float,
    patient: bool,
) -> tuple[int, float, float]:
    """Lower bound on the cost of all blocks that agree with decisions; its multiplier; and the cost of `Sets.many`.

    It is the largest bound by `relax` over the cases, which count rising parts of the overflow; if no block agrees, it
    is the goal. The consequences of the decisions are added to `state`. `sets` receives the sets of the last case.
    """
    least, cost = UNIT, np.inf
    if _propagate(state, question, sets.before, sets.behind):
        least = 0
        for case in range(len(question.drain)):
            reached, multiplier, cost = relax(state, question, case, flows, sets, multiplier, patient)
            least = max(least, reached)
            if least >= UNIT:
                break
    return least, multiplier, cost


@compiled
def _propagate(state: NDArray[np.int8], question: BlockQuestion, before: BoolArray, behind: BoolArray) -> bool:
    """Add all consequences of the decisions to `state`; return whether they do not contradict each other.

    `before` and `behind` are set to the nodes with a path to the block and from it.
    """
    n, reach = len(state), question.reach
    grown = True
    while grown:
        grown = False
        before[:] = False
        behind[:] = False
        for u in np.flatnonzero(state == IN):
            for w in range(n):
                before[w] |= reach[w, u]
                behind[w] |= reach[u, w]
                if question.apart[u, w]:
                    if state[w] == IN:
                        return False
                    state[w] = OUT
        for w in range(n):
            if before[w] and behind[w] and state[w] != IN:
                if state[w] == OUT:
                    return False
                state[w] = IN
                grown = True
    for x in np.flatnonzero(state == OUT):
        for w in range(n):
            if (behind[x] and reach[x, w]) or (before[x] and reach[w, x]):
                state[w] = OUT
    worth = 0.0
    for v in range(n):
        if state[v] != OUT:
            worth += question.worth[v]
    return worth >= 1.0 - _SHORT


# Choice of the node to decide next: both decisions should raise the bound (pseudo-costs).
#
# A node that was never decided is tried both ways first (reliability branching; Achterberg, Koch & Martin, 2005).


# How much the worth of the nodes that a choice keeps out counts beside its own, and how much more a node counts that is
# in one tied set alone. Measured on REGAL-style graphs, as is the power of each part of the score.
_EXCLUDED, _IN_ONE = 0.3, 2.0
# No gain counts less, in parts of the goal.
_LEAST_GAIN = 1e-6


class Gains(NamedTuple):
    """Pseudo-costs: how much past decisions on each node, to put it into the block or keep it out, raised the bound."""

    rise: FloatArray  # (2, n): sum of the rises, in parts of the goal; inside, then outside
    times: FloatArray  # (2, n): number of decisions

    @classmethod
    def none(cls, n: int) -> Gains:
        """Pseudo-costs before any decision, all 0."""
        return cls(np.zeros((2, n)), np.zeros((2, n)))


@compiled
def note(gains: Gains, node: int, decision: int, rise: float) -> None:
    """Record that a decision on a node, `IN` or `OUT`, raised the bound by `rise` [2^-36 of the goal]."""
    gains.rise[decision - IN, node] += max(0.0, rise) / UNIT
    gains.times[decision - IN, node] += 1.0


@compiled
def stakes_of(state: NDArray[np.int8], question: BlockQuestion) -> FloatArray:
    """(n,) branching weight of each undecided node, 0 for decided ones.

    It is the worth of the node and a part of the worth of the nodes that it excludes.
    """
    free, stakes = np.flatnonzero(state == 0), np.zeros(len(state))
    for v in free:
        stakes[v] = max(_LEAST_GAIN, question.worth[v])
        for w in free:
            if question.apart[v, w]:
                stakes[v] += _EXCLUDED * question.worth[w]
    return stakes


@compiled
def choose(stakes: FloatArray, gains: Gains, few: BoolArray, many: BoolArray) -> int:
    """The undecided node with the highest branching score, of those with pseudo-costs; -1 if there is none."""
    node, best = -1, -1.0
    for v in np.flatnonzero(stakes):
        if gains.times[0, v] > 0:
            inside, outside = gains.rise[0, v] / gains.times[0, v], gains.rise[1, v] / gains.times[1, v]
            score = max(inside, _LEAST_GAIN) * math.sqrt(max(outside, _LEAST_GAIN) * stakes[v])
            if many[v] and not few[v]:
                score *= _IN_ONE
            if score > best:
                node, best = int(v), score
    return node


@compiled
def untried(stakes: FloatArray, gains: Gains, few: BoolArray, many: BoolArray) -> NDArray[np.intp]:
    """Undecided nodes without pseudo-costs, by falling stakes; nodes in `many` but not in `few` come first."""
    nodes = np.flatnonzero((stakes > 0) & (gains.times[0] == 0))
    order = stakes[nodes]
    for i, v in enumerate(nodes):
        if many[v] and not few[v]:
            order[i] += 2.0 * len(stakes)  # all nodes together are worth k
    return nodes[np.argsort(-order)]


@compiled
def try_out(
    nodes: NDArray[np.intp],
    state: NDArray[np.int8],
    question: BlockQuestion,
    flows: Flows,
    gains: Gains,
    least: int,
    multiplier: float,
) -> None:
    """Strong branching: record how much each decision on each of the nodes raises the bound above `least`."""
    trial, sets = state.copy(), no_sets(len(state))
    copy_flow(flows, 0, 1)
    for v in nodes:
        for decision in (IN, OUT):
            trial[:] = state
            trial[v] = decision
            reached = bound_of(trial, question, flows, sets, multiplier, False)[0]
            note(gains, int(v), decision, float(reached - least))
            copy_flow(flows, 1, 0)


# Search for one block that is worth much and costs little, compiled by numba.
#
# A block is a convex set of nodes: whatever lies on a path between two of its nodes belongs to it. A move adds a node
# or takes one out, mostly of the block or beside it: few others are of use. For each node the ancestors and the
# descendants that it has in the block are counted, and sets are kept as bits, so that whether a move leaves the set
# convex takes n / 64 steps; its cost takes time proportional to the degree.


_WORD = 64
_STEEP = 8.0
# Parts of the moves that try any node, and one of the block; the others try what is beside such a one.
_ANY, _INSIDE = 0.1, 0.3


class _Members(NamedTuple):
    """The nodes of a block as a list, from which one is drawn in constant time."""

    nodes: IntArray  # (n,)
    place: IntArray  # (n,): where each node of the block stands in it
    size: IntArray  # (1,)


class Relations(NamedTuple):
    """Reachability of all pairs of nodes, as booleans and as bits."""

    reach: BoolArray  # (n, n): whether a path leads from the row to the column
    behind: NDArray[np.uint64]  # (n, ceil(n / 64)): nodes that each node reaches, as bits
    before: NDArray[np.uint64]  # (n, ceil(n / 64)): nodes that reach each node, as bits

    @classmethod
    def of(cls, graph: ComputationGraph) -> Relations:
        """The relations of a graph; no node reaches itself."""
        reach = reachability(*graph.successors, graph.topological_order)
        np.fill_diagonal(reach, False)
        return cls(reach, _bits(reach), _bits(reach.T))


def _bits(rows: BoolArray) -> NDArray[np.uint64]:
    padded = np.zeros((len(rows), -(-rows.shape[1] // _WORD) * _WORD), dtype=bool)
    padded[:, : rows.shape[1]] = rows
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


@compiled(nogil=True)
def heaviest_block(
    inside: BoolArray,
    price: FloatArray,
    ceiling: float,
    arrays: KernelArrays,
    overflow: LeastOverflow,
    relations: Relations,
    moves: int,
    hot: float,
    cold: float,
    penalty: float,
    seed: int,
) -> tuple[float, BoolArray]:
    """Search for a block with a large sum of prices that costs at most `ceiling`, by simulated annealing.

    Parameters
    ----------
    inside : (n,) booleans
        The convex set to begin with.
    price : (n,) floats
        Not negative.
    ceiling : float
        Largest cost of the blocks, positive [time unit].
    overflow : LeastOverflow
        Data of the overflow, which is part of a block's cost.
    hot, cold : float
        Temperatures, in the unit of the prices, at the first move and at the last.
    penalty : float
        Price subtracted for a cost above the ceiling, per multiple of the ceiling (see `_fine`).

    Returns
    -------
    tuple
        The price of the best block seen and its nodes; -1 if all cost more than `ceiling`.
    """
    np.random.seed(seed)
    n, words = len(inside), relations.behind.shape[1]
    reads, uses = np.zeros(len(arrays.tensor_time), dtype=np.int32), np.zeros(len(overflow.shared), dtype=np.int32)
    ancestors, descendants = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
    # Bits: the block, what reaches into it, and what it reaches.
    block, above, below = np.zeros(words, np.uint64), np.zeros(words, np.uint64), np.zeros(words, np.uint64)
    start, inside = inside, np.zeros(n, dtype=np.bool_)
    members = _Members(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(1, np.int64))
    # Without overflow, what the nodes stream, their largest excess, and the price.
    moved, streamed, excess, value = 0.0, 0.0, -math.inf, 0.0
    for v in range(n):
        if not start[v]:
            continue
        moved += _cost_of_joining(v, inside, reads, arrays, 0)
        streamed, excess = streamed + _stream_of(v, uses, overflow, 0), max(excess, overflow.excess[v])
        _use(v, 1, uses, overflow)
        value += price[v]
        _flip(v, inside, members, reads, ancestors, descendants, block, above, below, arrays, relations)
    best, best_inside, cost = -1.0, inside.copy(), moved + max(0.0, streamed + excess)
    if cost <= ceiling:
        best = value
    temperature, cooling = hot, (cold / hot) ** (1.0 / moves)
    for _ in range(moves):
        temperature *= cooling
        v = _draw(members, arrays)
        sign = -1.0 if inside[v] else 1.0
        new_moved = moved + sign * _cost_of_joining(v, inside, reads, arrays, 1 if inside[v] else 0)
        new_streamed = streamed + sign * _stream_of(v, uses, overflow, 1 if inside[v] else 0)
        new_excess = _excess_without(v, excess, members, overflow) if inside[v] else max(excess, overflow.excess[v])
        new_cost = new_moved + max(0.0, new_streamed + new_excess)
        rise = sign * price[v] - _fine(new_cost / ceiling, penalty) + _fine(cost / ceiling, penalty)
        if rise < 0 and np.random.random() >= math.exp(rise / temperature):
            continue
        if inside[v]:
            if ancestors[v] > 0 and descendants[v] > 0:
                continue
        elif not _fits(v, block, above, below, relations):
            continue
        _use(v, -1 if inside[v] else 1, uses, overflow)
        _flip(v, inside, members, reads, ancestors, descendants, block, above, below, arrays, relations)
        moved, streamed, excess = new_moved, new_streamed, new_excess
        cost, value = new_cost, value + sign * price[v]
        if value > best and cost <= ceiling:
            best = value
            best_inside[:] = inside
    return best, best_inside


@compiled(allocates=False)
def _draw(members: _Members, arrays: KernelArrays) -> int:
    """A random node: of the graph (with probability `_ANY`), of the block (`_INSIDE`), or a neighbour of the latter."""
    part, size = np.random.random(), members.size[0]
    if size == 0 or part < _ANY:
        return np.random.randint(len(members.nodes))
    u = members.nodes[np.random.randint(size)]
    first, begin = arrays.successor_start[u], arrays.input_start[u]
    behind, before = arrays.successor_start[u + 1] - first, arrays.input_start[u + 1] - begin
    if part < _ANY + _INSIDE or behind + before == 0:
        return int(u)
    i = np.random.randint(behind + before)
    if i < behind:
        return int(arrays.successor[first + i])
    return int(arrays.producer[arrays.input_tensor[begin + i - behind]])


@compiled(inline="always")
def _fine(cost: float, penalty: float) -> float:
    """Penalty for a cost, given in multiples of the ceiling: 0 up to 1, then linear plus quadratic.

    The quadratic part grows faster than any economy of scale, so no set far above the ceiling pays.
    """
    over = max(0.0, cost - 1.0)
    return penalty * over * (1.0 + _STEEP * over)


@compiled
def _fits(
    v: int, block: NDArray[np.uint64], above: NDArray[np.uint64], below: NDArray[np.uint64], relations: Relations
) -> bool:
    """Whether the block with `v` is convex: no node outside of it lies on a path between `v` and the block."""
    for w in range(len(block)):
        between = (relations.behind[v, w] & above[w]) | (relations.before[v, w] & below[w])
        if between & ~block[w]:
            return False
    return True


@compiled
def _flip(
    v: int,
    inside: BoolArray,
    members: _Members,
    reads: NDArray[np.int32],
    ancestors: NDArray[np.int32],
    descendants: NDArray[np.int32],
    block: NDArray[np.uint64],
    above: NDArray[np.uint64],
    below: NDArray[np.uint64],
    arrays: KernelArrays,
    relations: Relations,
) -> None:
    """Add `v` to the block, or remove it if it is there; all counts and bits are updated."""
    inside[v] = not inside[v]
    step = 1 if inside[v] else -1
    if inside[v]:
        members.nodes[members.size[0]], members.place[v] = v, members.size[0]
    else:  # the last one takes its place
        last, place = members.nodes[members.size[0] - 1], members.place[v]
        members.nodes[place], members.place[last] = last, place
    members.size[0] += step
    block[v // _WORD] ^= np.uint64(1) << np.uint64(v % _WORD)
    for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
        reads[arrays.input_tensor[e]] += step
    for u in range(len(inside)):
        if relations.reach[v, u]:
            _count(u, step, ancestors, below)
        if relations.reach[u, v]:
            _count(u, step, descendants, above)


@compiled(allocates=False)
def _count(u: int, step: int, counts: NDArray[np.int32], positive: NDArray[np.uint64]) -> None:
    """Add `step` to the count of node `u`; its bit in `positive` becomes 1 if the count is positive, else 0."""
    counts[u] += step
    bit = np.uint64(1) << np.uint64(u % _WORD)
    if counts[u] > 0:
        positive[u // _WORD] |= bit
    else:
        positive[u // _WORD] &= ~bit


@compiled(allocates=False)
def _stream_of(v: int, uses: NDArray[np.int32], overflow: LeastOverflow, counted: int) -> float:
    """Time to stream the bytes that the block holds only because of `v`; `counted`: 1 if `uses` counts `v`, else 0."""
    time = overflow.stream[v]
    for i in range(overflow.start[v], overflow.start[v + 1]):
        if uses[overflow.used[i]] == counted:
            time += overflow.shared[overflow.used[i]]
    return float(time)


@compiled(allocates=False)
def _use(v: int, change: int, uses: NDArray[np.int32], overflow: LeastOverflow) -> None:
    """Add `change` (1 or -1) to the number of nodes in the block that use each parameter of `v`."""
    for i in range(overflow.start[v], overflow.start[v + 1]):
        uses[overflow.used[i]] += change


@compiled(allocates=False)
def _excess_without(v: int, excess: float, members: _Members, overflow: LeastOverflow) -> float:
    """Largest excess over the nodes of the block except `v`; `excess` is the largest over all of them."""
    if overflow.excess[v] < excess:
        return excess
    largest = -math.inf
    for place in range(members.size[0]):
        u = members.nodes[place]
        if u != v:
            largest = max(largest, overflow.excess[u])
            if largest == excess:
                break
    return largest


@compiled
def _cost_of_joining(v: int, inside: BoolArray, reads: NDArray[np.int32], arrays: KernelArrays, counted: int) -> float:
    """Cost of the block with `v` minus its cost without; `counted` is 1 if `reads` counts `v` already, else 0."""
    cost = arrays.work[v]
    for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
        t = arrays.input_tensor[e]
        others = reads[t] - counted
        if inside[arrays.producer[t]]:
            if others == arrays.readers[t] - 1:  # v is the last reader outside
                cost -= arrays.tensor_time[t]
        elif others == 0:
            cost += arrays.tensor_time[t]
    for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
        if reads[t] < arrays.readers[t]:
            cost += arrays.tensor_time[t]
        if reads[t] > 0:
            cost -= arrays.tensor_time[t]
    return cost


# Round of searches for blocks that are worth much, by several threads.


# Known blocks to begin with are drawn from so many that are worth most. Measured on REGAL-style graphs, as are the
# temperature at last, in multiples of the mean price, and the penalty. No graph counts as one of fewer nodes.
_DEAREST, _COLD, _PENALTY, _FEWEST_NODES = 60, 0.04, 1.3, 50


@dataclass(frozen=True)
class Effort:
    """Number, length and initial temperature of annealing runs."""

    searches: int  # number of annealing runs
    moves: int  # moves of each run, per node
    hot: float  # initial temperature, in multiples of the mean price


def heavy_blocks(
    blocks: BoolArray,
    price: FloatArray,
    ceiling: float,
    arrays: KernelArrays,
    overflow: LeastOverflow,
    relations: Relations,
    fresh: Effort,
    again: Effort,
    rng: np.random.Generator,
    deadline: Deadline,
    threads: int,
) -> Iterator[BoolArray]:
    """Yield blocks with a large sum of prices that cost at most `ceiling`, at most one for each annealing run.

    Parameters
    ----------
    blocks : (b, n) booleans
        Convex sets, a row each.
    price : (n,) floats
        Not negative, not all 0.
    ceiling : float
        Largest cost of the blocks, positive [time unit].
    arrays : KernelArrays
        Arrays of the instance, whose work and tensors make the cost.
    overflow : LeastOverflow
        Data of the overflow, which is part of a block's cost.
    relations : Relations
        Pairs of nodes that a path connects.
    fresh, again : Effort
        Effort of runs that begin with no block, and of those that begin with a row of `blocks`.
    rng : numpy.random.Generator
        Source of the seeds of the runs.
    deadline : Deadline
        Checked after each run.
    threads : int
        Number of threads; without a deadline, the blocks do not depend on it.
    """
    n, mean = len(price), float(price.mean())
    dearest = np.argsort(-(blocks @ price), kind="stable")[:_DEAREST]
    begins = [(np.zeros(n, dtype=bool), fresh)] * fresh.searches
    begins += [(blocks[i], again) for i in rng.choice(dearest, again.searches)]
    seeds = rng.integers(2**31, size=len(begins)).tolist()

    def search(number: int) -> tuple[float, BoolArray]:
        (inside, effort), seed = begins[number], seeds[number]
        moves, hot = effort.moves * max(n, _FEWEST_NODES), effort.hot * mean
        question = price, ceiling, arrays, overflow, relations
        return heaviest_block(inside, *question, moves, hot, _COLD * mean, _PENALTY, seed)

    with ThreadPoolExecutor(threads) as pool:
        run = pool.map if threads > 1 else map  # to hand a run to a thread takes half as long as the run
        for first in range(0, len(begins), threads):
            for worth, block in run(search, range(first, min(first + threads, len(begins)))):
                if worth > 0:
                    yield block
            if deadline.passed:
                return
