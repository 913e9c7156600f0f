r"""Lower bounds on the cost of a block: overflow, first and last blocks, and Lagrangian relaxation by minimum cuts.

**Cost of a block, as searches for prices count it.**

Overflow counts as its lower bound, the same as in the branch-and-bound trees: a block S streams the bytes that its
nodes hold and share, and the largest of their needs, beyond the memory M:

.. math:: \mathrm{overflow}(S) \ge \tfrac1B \max\Big(0, \mathrm{held}(S) + \max_{v \in S} \mathrm{need}(v) - M\Big).

**A lower bound on blocks that are worth their share, in the middle of a search for them.**

For any multiplier :math:`\lambda \ge 0`, a set S that is worth 1 costs

.. math:: f(S) \ge \min_S \{ f(S) - \lambda\, \mathrm{price}(S) \} + \lambda,

which is one minimum cut in the network of `mtpp_models.cuts.cuts`, where nodes with a negative balance of work
and price are supplies. The best multiplier lies where a cheap set that is worth too little and a dear one that is worth
enough are tied.

Overflow is bounded from below by 0 and by x, what parameters and the largest need of a node known to be in S exceed the
memory by. Both are linear, and so is what lies between them: each of

.. math:: f(S) \ge f_0(S) + \theta\, x(S), \qquad \theta \in [0, 1],

has its cuts, as a set that is cheap without overflow and one that is cheap with it may be dear in between.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances import ComputationGraph, Instance, Partition
from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray, Tensors
from instances.partitioning.memory import needs_of, room
from instances.partitioning.peaks import KernelArrays
from mtpp_models.cuts.cuts import UNIT, BlockCuts
from mtpp_models.cuts.max_flow import UNLIMITED, BoolArray, FlowNetwork, augment

# Overflow of more bottlenecks than this counts as so many.
_MOST = 2.0**12


class LeastOverflow(NamedTuple):
    """Data of a lower bound on a block's overflow: sum of streaming times plus largest excess, at least 0."""

    stream: FloatArray  # (n,) time to stream what each node holds alone
    excess: FloatArray  # (n,) time to stream what each needs beyond the memory, mostly negative; -inf without overflow
    shared: FloatArray  # (p,) time to stream each parameter that nodes share
    start: IntArray  # (n + 1,): node v uses the parameters ``used[start[v]:start[v + 1]]``
    used: IntArray

    @classmethod
    def of(cls, instance: Instance, bottleneck: float) -> LeastOverflow:
        """The data of an instance; times are capped at a large multiple of a known bottleneck."""
        n, cap = instance.graph.n, _MOST * bottleneck
        if not instance.has_overflow:
            nothing = np.zeros(0, dtype=np.int64)
            return cls(np.zeros(n), np.full(n, -np.inf), np.zeros(0), np.zeros(n + 1, dtype=np.int64), nothing)
        arrays, rate = KernelArrays.of(instance), instance.platform.bandwidth
        with np.errstate(over="ignore"):
            stream, shared = instance.graph.held_bytes / rate, arrays.shared_bytes / rate
            excess = (needs_of(instance) - room(instance)) / rate
        stream, excess, shared = (np.minimum(time, cap) for time in (stream, excess, shared))
        return cls(stream, excess, shared, arrays.shared_start, arrays.shared)

    def time(self, inside: BoolArray) -> float:
        """Lower bound on the overflow of the nodes in an (n,) mask [time unit]."""
        used = np.zeros(len(self.shared), dtype=bool)
        used[self.used[np.repeat(inside, np.diff(self.start))]] = True
        resident_time = self.stream[inside].sum() + self.shared[used].sum()
        return max(0.0, float(resident_time + self.excess[inside].max(initial=-np.inf)))


def block_cost(instance: Instance, overflow: LeastOverflow, inside: BoolArray) -> float:
    """Cost of the nodes in an (n,) mask as a block, with a lower bound on its overflow [time unit]."""
    graph = instance.graph
    tensor, producer = graph.edge_tensor, graph.tensors.producer
    reads = np.bincount(tensor, inside[graph.tensors.consumers], len(producer))
    readers = np.bincount(tensor, minlength=len(producer))
    cut = np.where(inside[producer], reads < readers, reads > 0)
    return float(graph.work[inside].sum() + instance.tensor_time[cut].sum()) + overflow.time(inside)


# Two more nodes, one before all others and one behind, which tell the first and the last block from those between.
#
# They have no work, hold nothing, and their tensors, one to all sources and one from each sink, take no time. So the
# blocks of a partition cost the same with the one in the first block that is not empty, and the other in the last such
# block; no block becomes one that is not empty. Of convex sets, those with the first node are ideals, and those with
# the last are closed behind. Prices of `mtpp_models.bounds.priced.priced` in this longer graph prove a bound for the
# original one; with both prices 0 the same as without the two.
#
# The reductions take away nodes without work alone, so the proof holds in the original graph too, as `pigeonhole` says.


def with_ends(instance: Instance) -> Instance:
    """The question with a source and a sink as two more nodes, the last ones, and at most n blocks."""
    graph, n = instance.graph, instance.graph.n
    sources, sinks = (np.flatnonzero(np.diff(rows[0]) == 0) for rows in (graph.predecessors, graph.successors))
    tensors = graph.tensors
    readers = [tensors.consumers[begin:end] for begin, end in pairwise(tensors.start)]
    readers += [*(np.array([n + 1]) for _ in sinks), sources]
    producer = np.concatenate((tensors.producer, sinks, [n]))
    order = np.argsort(producer, kind="stable")
    longer = ComputationGraph(
        work=np.append(graph.work, [0.0, 0.0]),
        param_bytes=np.append(graph.param_bytes, [0.0, 0.0]),
        tensors=Tensors(
            producer=producer[order],
            bytes=np.append(tensors.bytes, np.zeros(len(sinks) + 1))[order],
            start=np.cumsum([0, *(len(readers[t]) for t in order)]),
            consumers=np.concatenate([readers[t] for t in order]),
        ),
        parameters=graph.parameters,
        time_unit=graph.time_unit,
        state_bytes=np.append(graph.state_bytes, [0.0, 0.0]),
    )
    need = None if instance.need is None else np.append(instance.need, [0.0, 0.0])
    return replace(instance.with_k(min(instance.k, n)), graph=longer, need=need)


def partition_with_ends(start: Partition) -> Partition:
    """The same partition for the question `with_ends`: the source is in its first block, the sink in its last one."""
    _, block = np.unique(start.block, return_inverse=True)
    return Partition(with_ends(start.instance), np.append(block, [0, block.max()]))


#: Nodes that are in the block, and out of it.
IN, OUT = 1, 2

# Steps towards the best multiplier, where nodes are still free and where none is, and when it counts as found. With
# few steps there are more nodes in the tree and fewer cuts in all.
_STEPS, _LAST_STEPS, _FOUND = 3, 12, 1e-6
# Where all sets are worth too little, the multiplier becomes this much larger, up to this many goals: products of a
# price and a multiplier must be exact to a unit.
_JUMP, _HIGHEST = 4.0, 2.0**8
# The share is short by this much: rounding must not exclude a block that is worth it exactly.
_SHORT = 1e-12
# Parts of the overflow that count are multiples of 1 over this: with 1 trees of good prices often have ten times as
# many nodes, with 6 half as many, which take longer where prices are guessed.
_PARTS = 4
# Whole numbers in flows that are kept.
_MOST_FLOWS = 2**22


class BlockQuestion(NamedTuple):
    """Constant data of a search for a block; times are in 2^-36 of the goal.

    There is one case without overflow or, if blocks can overflow, there are five, which count rising parts of it.
    """

    network: FlowNetwork  # with one more node, the last, from which supplies come
    supply: IntArray  # (n,): the arc from there to each node
    drain: IntArray  # (1 or 5, N): capacities to the sink: work, and the part of the overflow that is linear in nodes
    constant: IntArray  # (1 or 5, n): further cost of a block with each node; of several nodes the largest counts
    worth: FloatArray  # (n,): prices, in multiples of the share of a block
    apart: BoolArray  # (n, n): pairs of nodes that no block below the goal holds
    reach: BoolArray  # (n, n): whether a path leads from the row to the column


class Flows(NamedTuple):
    """Maximum flows of tree nodes, kept in p slots for their children to start from.

    Slot 0 holds the flow of the current node, slot 1 a copy of it, to be restored after trial decisions. In the shapes,
    1 or 5 is the number of cases of `BlockQuestion`; the network has a arcs and N nodes.
    """

    row: IntArray  # (p,): the leaf whose flow starts from this one, -1 if none
    state: NDArray[np.int8]  # (p, n): decisions and their consequences
    residual: IntArray  # (p, 1 or 5, a): residual capacities of the arcs
    drain: IntArray  # (p, 1 or 5, N): residual capacities to the sink
    price: IntArray  # (p, 1 or 5, n): prices times the multiplier, in 2^-36 of the goal
    sums: IntArray  # (p, 1 or 5, 2): flow pushed, and sum of the supplies

    @classmethod
    def of(cls, question: BlockQuestion) -> Flows:
        """Empty slots, as many as memory allows."""
        (cases, ends), n, arcs = question.drain.shape, len(question.worth), len(question.network.head)
        places = max(3, min(n + 3, _MOST_FLOWS // (cases * (arcs + ends))))
        return cls(
            np.full(places, -1),
            np.zeros((places, n), dtype=np.int8),
            np.zeros((places, cases, arcs), dtype=np.int64),
            np.zeros((places, cases, ends), dtype=np.int64),
            np.zeros((places, cases, n), dtype=np.int64),
            np.zeros((places, cases, 2), dtype=np.int64),
        )


@compiled
def begin_flow(question: BlockQuestion, flows: Flows) -> None:
    """Set slot 0 to the empty flow, with no decisions and no prices."""
    for case in range(len(question.drain)):
        flows.residual[0, case], flows.drain[0, case] = question.network.capacity, question.drain[case]
    flows.state[0], flows.price[0], flows.sums[0] = 0, 0, 0


class Sets(NamedTuple):
    """Node sets that `relax` writes, (n,) booleans each."""

    before: BoolArray  # nodes with a path to the block
    behind: BoolArray  # nodes with a path from it
    few: BoolArray  # of two sets of least Lagrangian cost, the one whose worth is too small
    many: BoolArray  # the one whose worth suffices


@compiled
def no_sets(n: int) -> Sets:
    """Empty sets for a graph of n nodes."""
    return Sets(
        np.zeros(n, dtype=np.bool_),
        np.zeros(n, dtype=np.bool_),
        np.zeros(n, dtype=np.bool_),
        np.zeros(n, dtype=np.bool_),
    )


@compiled
def copy_flow(flows: Flows, source: int, target: int) -> None:
    """Copy the flow in slot `source` to slot `target`."""
    flows.state[target] = flows.state[source]
    flows.residual[target], flows.drain[target] = flows.residual[source], flows.drain[source]
    flows.price[target], flows.sums[target] = flows.price[source], flows.sums[source]


def linear_costs(cuts: BlockCuts) -> tuple[IntArray, IntArray]:
    """`drain`, without the last node, and `constant` of `BlockQuestion`."""
    loaded, drain = cuts.loaded(), cuts.network.drain
    if loaded is None:
        return drain[None], cuts.constant[None]
    part = np.arange(_PARTS + 1)[:, None]
    return drain + part * (loaded.network.drain - drain) // _PARTS, part * loaded.constant // _PARTS


@compiled
def constant_of(constant: IntArray, block: BoolArray) -> int:
    """Largest of the (n,) constants of the nodes in a block; for an empty block the least of all constants."""
    largest = constant.min()
    for v in range(len(block)):
        if block[v]:
            largest = max(largest, constant[v])
    return int(largest)


@compiled
def relax(
    state: NDArray[np.int8],
    question: BlockQuestion,
    case: int,
    flows: Flows,
    sets: Sets,
    multiplier: float,
    patient: bool,
) -> tuple[int, float, float]:
    """Lagrangian lower bound on the cost of blocks that agree with `state`, at most the goal [2^-36 of the goal].

    Also returns the best multiplier, and the cost of `many`. At that multiplier two sets are tied; both are written
    into `sets`. The maximum flow starts from that in slot 0, for the same decisions or fewer. With `patient` there are
    more steps towards the best multiplier.
    """
    network, worth, few, many = question.network, question.worth, sets.few, sets.many
    constant = constant_of(question.constant[case], state == IN)
    n, source = len(state), len(network.drain) - 1
    residual, drain, price = flows.residual[0, case], flows.drain[0, case], flows.price[0, case]
    pushed, supplied = flows.sums[0, case]
    reached = np.zeros(len(drain), dtype=np.bool_)
    sources = np.append(np.flatnonzero(state == IN), source)
    for v in range(n):
        if state[v] == OUT:
            supplied -= residual[question.supply[v]]
            residual[question.supply[v]], drain[v] = 0, UNLIMITED
    few[:] = state == IN
    many[:] = state != OUT
    few_cost, few_worth, many_cost, many_worth = 0.0, -1.0, np.inf, -1.0
    least = 0
    for _ in range(_LAST_STEPS if patient or not (state == 0).any() else _STEPS):
        supplied += _move(state, question, multiplier, residual, drain, price)
        fixed = math.floor(multiplier * (1.0 - _SHORT)) + constant - supplied
        if pushed < UNIT - fixed:
            pushed += augment(
                network, residual, drain, sources, sets.before, sets.behind, UNIT - fixed - pushed, reached
            )
        if pushed >= UNIT - fixed:
            return UNIT, multiplier, many_cost
        least = max(least, pushed + fixed)
        value = 0.0
        for v in range(n):
            if reached[v]:
                value += worth[v]
        cost = pushed + fixed + multiplier * (value - 1.0)
        if value >= 1.0 - _SHORT:
            again = value == many_worth
            many_cost, many_worth = cost, value
            many[:] = reached[:n]
        else:
            again = value == few_worth
            few_cost, few_worth = cost, value
            few[:] = reached[:n]
        if few_worth < 0 or many_worth < 0:
            # The cheapest set of all is worth enough, or all nodes are not.
            if multiplier == 0.0 if few_worth < 0 else multiplier >= _HIGHEST * UNIT:
                break
            multiplier *= 0.0 if few_worth < 0 else _JUMP
        elif again:
            break
        else:
            tie = max(0.0, (many_cost - few_cost) / (many_worth - few_worth))
            if abs(tie - multiplier) <= _FOUND * multiplier:
                break
            multiplier = min(tie, _HIGHEST * UNIT)
    flows.sums[0, case, 0], flows.sums[0, case, 1] = pushed, supplied
    return least, multiplier, many_cost


@compiled
def _move(
    state: NDArray[np.int8],
    question: BlockQuestion,
    multiplier: float,
    residual: IntArray,
    drain: IntArray,
    price: IntArray,
) -> int:
    """Set `price`, (n,), for another multiplier; return the change of the sum of all supplies.

    No capacity may fall below the flow on its arc, so decreases of prices are added to the drain, (n,). Prices are
    rounded up, so that no set seems to cost more than it does.
    """
    supplied = 0
    for v in range(len(state)):
        if state[v] == OUT:
            continue
        whole = math.ceil(multiplier * question.worth[v]) + 1
        rise, arc = whole - price[v], question.supply[v]
        price[v] = whole
        if rise > 0:
            met = min(rise, drain[v])
            drain[v] -= met
            residual[arc] += rise - met
            supplied += rise - met
        else:
            met = min(-rise, residual[arc])
            residual[arc] -= met
            drain[v] += -rise - met
            supplied -= met
    return supplied
