r"""Lower bounds on the bottleneck by minimum cuts around nodes.

**The bound by minimum cuts around single nodes.**

Every node lies in some block, so with L of `mtpp_models.cuts.cuts`,

.. math:: \mathrm{OPT} \ge \max_v L(\{v\}),

for L without overflow and, where memory is finite and no buffer is fixed, for L with its linear bound.

Over kinds of devices every node lies in some block on a device of some kind, so with :math:`L_t` the L of the question
of kind t alone,

.. math:: \mathrm{OPT} \ge \max_v \min_t L_t(\{v\}).

Where memory is tight, the nodes before a node and those behind it may prove more (`best_side`). A verifier recomputes
either bound from the node, so that both have one name, *pinned*.

**Pigeonhole bound: two of k + 1 nodes share a block.**

So for any set C of k + 1 nodes, with L as in `mtpp_models.cuts.conflicts`,

.. math:: \mathrm{OPT} \ge \min_{u, v \in C} L(\{u, v\}).

The best C is a clique of k + 1 nodes in the graph of all pairs with L ≥ T, for the largest T. A greedy method searches
for cliques, so a better C may exist. The bound is useful only above *simple* and *pinned*; nodes with too few pairs
above these are dropped before the cuts of their other pairs are computed.

The bound of an instance to which the reductions of `instances.partitioning.symmetry` were applied holds for the
anchors in the original graph: each step takes away one node without work, at the beginning or the end of all its paths.
A set S without that node costs no more there than S did, and all that keeps blocks convex remains as it was.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np

from instances import Bound, Instance, Partition, Result
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray
from instances.results import PROOF_TOLERANCE
from mtpp_models.cuts.conflicts import core, find_clique
from mtpp_models.cuts.cuts import UNIT, BlockCuts, PairCuts
from mtpp_models.cuts.max_flow import BoolArray, reached_from
from mtpp_models.simple import one_block, simple, simple_bound

PINNED = "pinned"

# Part of the time for the sides of nodes, at most.
_FOR_SIDES = 0.5


def pinned(start: Partition, deadline: Deadline | None = None, nodes: Iterable[int] | None = None) -> Result:
    """The largest bound by minimum cuts around single nodes, or by their sides; its witness names the node.

    Where the sides of the node (it and all before it, it and all behind it) prove the bound, the witness also lists the
    nodes of chains in which no two can share a block.

    Bounds are capped at the bottleneck of the start; once the deadline has passed, the largest so far is returned.
    Where the cheapest set around a node is convex, it also bounds the cuts around its other nodes, so each of these
    needs no cut. If `nodes` are given, only cuts around these count.
    """
    deadline = deadline or Deadline()
    value, proof, finished = 0.0, [0], True
    if nodes is None:
        value, proof, finished = best_side(start.instance, start.bottleneck, deadline.share(_FOR_SIDES))
    if not start.instance.is_alike:
        return _pinned_over_kinds(start, value, proof, finished, deadline)
    cutoff = start.bottleneck or 1.0
    cuts = BlockCuts(start.instance.modelled(), cutoff)
    loaded = cuts.loaded() if start.instance.needs_peaks else None
    cases = (cuts,) if loaded is None else (cuts, loaded)
    upper = np.max([case.alone() for case in cases], axis=0)
    centres = np.arange(len(upper)) if nodes is None else np.array(list(nodes))
    for v in centres[np.argsort(-upper[centres])].tolist():
        if value >= cutoff:
            break
        if upper[v] <= value:
            continue  # some block that holds v costs no more than what is proved
        if deadline.passed:
            finished = False
            break
        cut = max((case.cut([v]) for case in cases), key=lambda cut: cut.cost)
        if cut.cost > value:
            value, proof = cut.cost, [v]
        if cuts.is_convex(cut.nodes):
            cost = cut.cost if loaded is None else max(case.cost(cut.nodes) for case in cases)
            upper[cut.nodes] = np.minimum(upper[cut.nodes], cost)
    # All nodes together cut nothing, so no minimum cut is above what they cost.
    most_possible = min(value + cuts.lost(), one_block(start.instance).bottleneck, start.bottleneck)
    closed = finished and value >= most_possible * (1 - PROOF_TOLERANCE)
    return Result(PINNED, start.instance, start, Bound(value, PINNED, closed, {"nodes": proof}))


def _pinned_over_kinds(start: Partition, value: float, proof: list[int], finished: bool, deadline: Deadline) -> Result:
    """Bound over kinds of devices: a node's block costs at least the cheapest cut around it on any kind.

    `value` is a bound computed before, `proof` its nodes, and `finished` whether it was computed to the end. The result
    is the larger of `value` and the best cut of the nodes tried in time; its witness names the node.
    """
    instance, cutoff = start.instance, start.bottleneck
    if cutoff <= 0:
        return Result(PINNED, instance, start, simple_bound(instance))
    cases = []
    for t in range(instance.kinds):
        question = instance.of_kind(t).relaxed()
        cuts = BlockCuts(question, cutoff)
        loaded = cuts.loaded() if question.needs_peaks else None
        cases.append((cuts,) if loaded is None else (cuts, loaded))
    alone = np.min([np.max([case.alone() for case in kind], axis=0) for kind in cases], axis=0)
    for v in np.argsort(-alone).tolist():
        if value >= cutoff or alone[v] <= value:
            break
        if deadline.passed:
            finished = False
            break
        least = np.inf
        for kind in cases:
            least = min(least, max(case.cut([v]).cost for case in kind))
            if least <= value:
                break
        if least > value:
            value, proof = least, [v]
    return Result(PINNED, instance, start, Bound(min(value, cutoff), PINNED, finished, {"nodes": proof}))


PIGEONHOLE = "pigeonhole"

# Nodes whose pairs are cut between two looks for nodes without enough partners.
_ROWS = 16


def pigeonhole(start: Partition, deadline: Deadline | None = None) -> Result:
    """Bound by k + 1 nodes, two of which share a block, if all their pairs are costly; else a simpler bound.

    The bound's witness names the nodes. If they prove no more than *simple* or *pinned*, the result of these is
    returned. Costs are capped at the bottleneck of the start; once the deadline has passed, only the pairs computed so
    far count.
    """
    deadline = deadline or Deadline()
    instance, size = start.instance, start.instance.k + 1
    best = pinned(start, deadline).bound
    assert best is not None
    if best.value <= (floor := simple(instance)):
        best = Bound(floor, "simple", best.optimal)
    if instance.graph.n >= size and start.bottleneck > best.value * (1 + PROOF_TOLERANCE):
        cuts = BlockCuts(instance.modelled(), start.bottleneck)
        threshold = int(best.value / start.bottleneck * UNIT)
        cost, finished = _costly_pairs(cuts, size, threshold, deadline)
        if instance.needs_peaks and (loaded := cuts.loaded()) is not None:
            more, also = _costly_pairs(loaded, size, threshold, deadline)
            cost, finished = np.maximum(cost, more), finished and also
        nodes, value = _costliest_clique(cost, size, deadline), 0.0
        if nodes is not None:
            value = min(float(cuts.scaled(cost[u, v])) for u, v in combinations(nodes.tolist(), 2))
        if nodes is not None and value > best.value:  # rounding may leave it below
            closed = finished and value >= min(value + cuts.lost(), start.bottleneck) * (1 - PROOF_TOLERANCE)
            best = Bound(value, PIGEONHOLE, closed, {"nodes": sorted(nodes.tolist())})
        else:
            best = replace(best, optimal=best.optimal and finished)
    return Result(best.method, instance, start, best)


def _costly_pairs(cuts: BlockCuts, size: int, threshold: int, deadline: Deadline) -> tuple[IntArray, bool]:
    """(n, n) bounds of node pairs [2^-36 of the cutoff], 0 where at most `threshold`; and whether all were computed."""
    pairs = PairCuts(cuts, threshold, deadline)
    for i, u in enumerate(np.argsort(-cuts.alone(), kind="stable").tolist()):
        if i % _ROWS == 0:
            hopeless = ~core(pairs.open | (pairs.cost > 0), size - 1)
            pairs.open[hopeless] = pairs.open[:, hopeless] = False
        if not pairs.resolve(u, deadline):
            return pairs.cost, False
    return pairs.cost, True


def _costliest_clique(cost: IntArray, size: int, deadline: Deadline) -> IntArray | None:
    """A set of `size` nodes whose cheapest pair costs as much as possible; None if the search has no success.

    Bisection over the costs, with a heuristic search for cliques, so a better set may exist.
    """
    best, costs = None, np.unique(cost[cost > 0])
    low, high = 0, len(costs)  # bisection: found at all below `low`, at none from `high` on
    while low < high and not (deadline.passed and best is not None):
        middle = low if best is None else (low + high) // 2
        nodes = find_clique(cost >= costs[middle], size)
        if nodes is None:
            high = middle
        else:
            best, low = nodes, middle + 1
    return best


# Bound by the two sides of a node, what lies before it and what lies behind it, where memory is tight.
#
# Let every block of a partition cost less than T, and w be in block i of k. No edge points backwards, so that w and
# all before it lie in the blocks 0 to i, and w and all behind it in the blocks i to k - 1. Let X be one of these two
# sets, and b its number of blocks, i + 1 or k - i. A tensor *passes* w if w or a node before it writes it and w or a
# node behind it reads it. If block i holds both of these, the tensor is live there while w runs, whatever the order;
# if not, the blocks of X pay for sending it, or for receiving it. With :math:`\tau(w)` bytes that pass, and what w
# alone writes,
#
# .. math:: \sum_{X} f \ge \mathrm{work}(X) + \tfrac1B \big(\mathrm{held}(X) + \tau(w) - b M\big)
#     \quad\text{and}\quad \sum_{X} f \ge \mathrm{work}(X),
#
# where each parameter counts once that some node of X uses. Three terms more rest on T:
#
# * Two users of a parameter are *apart* if one lies behind the other, and the two and all between them cost T or more
# as a block: by their work, and by what they hold and the largest of their needs beyond the memory. What lies between
# farther users is more, so that of a chain of users, each apart from the next, no two share a block: the parameter is
# held as often as the longest such chain has users. * Passing tensors of a node v before w, which writes them, are in
# block i with v or leave a block of v; on the other side those that a node v behind w reads, but not w itself, are in
# block i, or come into a block with such a reader. Block i pays for its share, and so has less than T B + M bytes of
# them. A block of v has a peak of need(v) or more. If S bytes belong to nodes with a need of at least z, the blocks
# but i with a peak of at least z are thus
#
#   .. math:: m(z) \ge \frac{S - (T B + M)}{T B + M - z},
#
#   and the peaks of these blocks come to :math:`\int \max_{y \ge z} m(y)\, dz` bytes besides.
#
# * Of a chain of nodes, each apart from the next, with needs of z or more no two share a block either. So as many
# blocks of X have such peaks, that of w among them perhaps, whose peak counts as :math:`\tau(w)`. The nodes of one path
# are looked at, that of the largest needs; those of the chains go into the witness.
#
# If for each i one X has blocks that cost T or more on average, or too few for its peaks, no such partition exists: T
# is a bound. The least T without these terms is a bound by itself; from there it is raised by bisection.
#
# Of a node in a topological order, all before it lie before it in the order, and what passes it is cut there. So sums
# along the order say which nodes need not be looked at.
#
# With needs in place of peaks nothing is live but what w touches. Over kinds of devices the largest memories, the
# least works and the fastest link are those of a relaxation. With a fixed buffer nothing of this is said.


# What sums and differences of floats may be off by, of their largest term.
_ROUNDING = 1e-12
# Nodes whose bound is raised, users of a parameter at the most that are looked at in pairs, and steps of bisection.
_TRIED, _MOST_USERS, _STEPS = 32, 8, 40


def best_side(instance: Instance, cutoff: float, deadline: Deadline) -> tuple[float, list[int], bool]:
    """The largest bound by the two sides of a node [time unit], its proof, and whether time sufficed.

    The proof is a list: the node, then all nodes of the chains used, in which no two nodes share a block below the
    bound. The bound is 0 where nothing can overflow, or where the buffer for activations is fixed.
    """
    if not (instance.needs_peaks and np.isfinite(max(instance.bandwidths))):
        return 0.0, [0], True
    if not all(np.isfinite(kind.memory) for kind in instance.machines.kinds):
        return 0.0, [0], True
    with np.errstate(over="ignore", invalid="ignore"):
        return _Sides(instance, deadline).best(cutoff)


@dataclass(frozen=True)
class _Side:
    """One side of a node: itself with all nodes before it, or with all behind it [time units]."""

    work: float
    load: float  # `work`, parameters and states, each once, and `live`
    live: float  # all tensors that are live while the node runs
    path: IntArray  # nodes of a path with large needs of memory
    several: list[tuple[float, list[int]]]  # time of each parameter with several users, and these along an order
    needs: FloatArray  # memory needs of the nodes that make or read live tensors, falling
    passing: FloatArray  # cumulative sums of the live tensors of these nodes


class _Around(NamedTuple):
    """Both sides of a node: their nodes, tensors, works and bytes."""

    sides: tuple[BoolArray, BoolArray]  # (n,) the node and all before it; the node and all behind it
    passes: BoolArray  # (t,) tensors that cross from one side to the other
    live: float  # all tensors that are live while the node runs
    works: FloatArray  # (2,) work of each side
    loads: FloatArray  # (2,) work, parameters and states, each once, and `live` of each side


class _Sides:
    """Lower bounds on the bottleneck by the two sides of each node: it with all before it, and with all behind it.

    Bytes count as the time to move them on the fastest link.
    """

    def __init__(self, instance: Instance, deadline: Deadline) -> None:
        graph = self._graph = instance.graph
        self._deadline = deadline
        pace, machines = 1.0 / max(instance.bandwidths), instance.machines
        memories = np.repeat([kind.memory for kind in machines.kinds], machines.counts)
        rooms = np.resize(memories, instance.k) if instance.is_alike else np.sort(memories)[::-1][: instance.k]
        self._room = np.cumsum(rooms) * pace
        self._blocks = np.arange(1, len(rooms) + 1)
        self._work: FloatArray = instance.work.min(axis=0)
        self._held, self._need, self._time = (
            sizes * pace for sizes in (graph.held_bytes, instance.needs, graph.tensors.bytes)
        )
        self._in_order = instance.need is None and not instance.by_need
        self._is_read = np.diff(graph.tensors.start) > 0
        parameters = [parameter for parameter in graph.parameters if parameter.users]
        self._shared = np.array([parameter.bytes for parameter in parameters], dtype=np.float64) * pace
        uses = [(user, p) for p, parameter in enumerate(parameters) for user in sorted(set(parameter.users))]
        self._user, self._used = np.array(uses, dtype=np.int64).reshape(-1, 2).T
        self._place = np.argsort(graph.topological_order)
        self._between = cache(self._cost_between)

    def best(self, cutoff: float) -> tuple[float, list[int], bool]:
        """The largest bound by sides, at most `cutoff` [time unit], its proof, and whether time sufficed."""
        most, finished, bounds, value = self._by_order(), True, dict[int, float](), 0.0
        for v in np.argsort(-most, kind="stable").tolist():
            if value >= cutoff or (most[v] <= value and len(bounds) >= _TRIED):
                break
            if bounds and self._deadline.passed:
                finished = False
                break
            around = self._around(v)
            bounds[v] = float(self._least(around.works[:, None], around.loads[:, None])[0])
            value = max(value, bounds[v])
        ranked = sorted(bounds, key=lambda v: -bounds[v])
        proof = ranked[:1] or [0]
        for v in ranked[:_TRIED]:
            if value >= cutoff or (v != ranked[0] and self._deadline.passed):
                break
            raised = self._raised(v, value, cutoff)
            if raised > value:
                value, proof = raised, self._proof(v, raised)
        return min(value, cutoff), proof, finished and not self._deadline.passed

    def _by_order(self) -> FloatArray:
        """(n,) quick upper limits on the bounds by sides; a node whose limit is low is skipped."""
        graph, place, n = self._graph, self._place, self._graph.n
        first, last = np.full(len(self._shared), n), np.zeros(len(self._shared), dtype=np.int64)
        np.minimum.at(first, self._used, place[self._user])
        np.maximum.at(last, self._used, place[self._user])
        work, held = np.zeros((2, n)), np.zeros((2, n))
        work[:, place], held[:, place] = self._work, self._held
        np.add.at(held[0], first, self._shared)
        np.add.at(held[1], last, self._shared)
        works, helds = (np.vstack((np.cumsum(x[0]), np.cumsum(x[1, ::-1])[::-1]))[:, place] for x in (work, held))
        passing = self._need
        if self._in_order:
            end = place[graph.tensors.producer]
            np.maximum.at(end, graph.edge_tensor, place[graph.tensors.consumers])
            change = np.zeros(n + 1)
            np.add.at(change, place[graph.tensors.producer], self._time)
            np.subtract.at(change, end + 1, self._time)
            passing = np.cumsum(change)[place] + _ROUNDING * self._time.sum()
        return self._least(works, works + helds + passing)

    def _least(self, works: FloatArray, loads: FloatArray) -> FloatArray:
        """(m,) bounds for m nodes from works and loads of their sides, (2, m): least over the number of the block."""
        least = np.full(works.shape[1], np.inf)
        for b in self._blocks.tolist():
            averages = [
                np.maximum(loads[x] * (1 - _ROUNDING) - self._room[c - 1], works[x] * (1 - _ROUNDING)) / c
                for x, c in ((0, b), (1, len(self._blocks) + 1 - b))
            ]
            least = np.minimum(least, np.maximum(*averages))
        return np.maximum(least - _ROUNDING * self._room[-1], 0.0)

    def _around(self, v: int) -> _Around:
        graph, tensors, nodes = self._graph, self._graph.tensors, np.array([v])
        sides = reached_from(*graph.predecessors, nodes), reached_from(*graph.successors, nodes)
        before, behind = sides
        read = np.bincount(graph.edge_tensor, behind[tensors.consumers], len(self._time)) > 0
        passes = before[tensors.producer] & read
        live = self._need[v]
        if self._in_order:
            live = self._time[passes | ((tensors.producer == v) & ~self._is_read)].sum()
        works = np.array([self._work[side].sum() for side in sides])
        return _Around(sides, passes, live, works, works + [self._held_by(side) + live for side in sides])

    def _held_by(self, inside: BoolArray) -> float:
        """Time to move the parameters and states of the nodes in an (n,) mask; shared parameters count once."""
        used = np.bincount(self._used, inside[self._user], len(self._shared)) > 0
        return float(self._held[inside].sum() + self._shared[used].sum())

    def _raised(self, v: int, low: float, cutoff: float) -> float:
        """The largest bound by the sides of v, at most the cutoff, by bisection; `low` if not higher."""
        around, high = self._around(v), cutoff
        sides = [self._side(v, around, x) for x in range(2)]
        if not self._holds(sides, low * (1 + _ROUNDING)):
            return low
        if self._holds(sides, cutoff):
            return cutoff
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._holds(sides, middle) else (low, middle)
        return low

    def _side(self, v: int, around: _Around, x: int) -> _Side:
        """Data of one side of v: v with the nodes before it (x = 0) or behind it (x = 1)."""
        inside, needs, times = around.sides[x], np.zeros(0), np.zeros(0)
        if self._in_order:
            needs, times = self._passing(v, around, x)
        fall = np.argsort(-needs, kind="stable")
        several = []
        ends = np.searchsorted(self._used, np.arange(len(self._shared) + 1))
        for p, (a, b) in enumerate(pairwise(ends.tolist())):
            users = self._user[a:b][inside[self._user[a:b]]]
            if 1 < len(users) <= _MOST_USERS:
                several.append((float(self._shared[p]), users[np.argsort(self._place[users])].tolist()))
        path = self._path[inside[self._path]]
        load, live = around.loads[x], around.live
        return _Side(around.works[x], load, live, path, several, needs[fall], np.cumsum(times[fall]))

    def _proof(self, v: int, goal: float) -> list[int]:
        """Nodes that prove the goal by sides: v, then all nodes of the chains of `_apart` for both sides."""
        around = self._around(v)
        paths = [self._side(v, around, x).path for x in range(2)]
        far = {u for path in paths for _, chain in self._apart(path, goal) for u in chain}
        return [v, *(u for u in self._path.tolist() if u in far - {v})]

    @cached_property
    def _path(self) -> IntArray:
        """The nodes of a path with the largest sum of memory needs."""
        start, successors, need = *(x.tolist() for x in self._graph.successors), self._need.tolist()
        sums, before = need.copy(), [-1] * len(need)
        for v in self._graph.topological_order.tolist():
            for u in successors[start[v] : start[v + 1]]:
                if sums[v] + need[u] > sums[u]:
                    sums[u], before[u] = sums[v] + need[u], v
        path = [int(np.argmax(sums))] if sums else []
        while path and before[path[-1]] >= 0:
            path.append(before[path[-1]])
        return np.array(path[::-1], dtype=np.int64)

    def _apart(self, path: IntArray, goal: float) -> list[tuple[float, list[int]]]:
        """Decreasing memory needs, each with nodes of a path that need as much and pairwise cannot share a block."""
        needs, levels, at = np.unique(self._need[path])[::-1].tolist(), list[tuple[float, list[int]]](), 0
        while at < len(needs):
            levels.append((needs[at], self._chain(path, needs[at], goal)))
            most = len(levels[-1][1])
            at = bisect_right(needs, most, lo=at, key=lambda need: len(self._chain(path, need, goal)))
        return levels

    def _chain(self, path: IntArray, least: float, goal: float) -> list[int]:
        """Nodes of a path with needs of at least `least` that pairwise cannot share a block below the goal.

        There are at most k + 1.
        """
        nodes, chain, at = path[self._need[path] >= least].tolist(), list[int](), 0
        while at < len(nodes) and len(chain) <= len(self._blocks):
            chain.append(nodes[at])
            at = bisect_left(nodes, goal, lo=at + 1, key=lambda v: self._between(chain[-1], v))
        return chain

    def _passing(self, v: int, around: _Around, x: int) -> tuple[FloatArray, FloatArray]:
        """For each tensor live at node v: the memory need of its producer, or least need of its readers; and its time.

        `x` is 0 for the side before the node, 1 for that behind it.
        """
        graph, tensors, (_, behind), passes = self._graph, self._graph.tensors, around.sides, around.passes.copy()
        if x == 0:
            passes &= tensors.producer != v
            return self._need[tensors.producer[passes]], self._time[passes]
        start, inputs = graph.inputs
        passes[inputs[start[v] : start[v + 1]]] = False
        least, reads = np.full(len(passes), np.inf), behind[tensors.consumers]
        np.minimum.at(least, graph.edge_tensor[reads], self._need[tensors.consumers[reads]])
        return least[passes], self._time[passes]

    def _holds(self, sides: list[_Side], goal: float) -> bool:
        """Whether the two sides of a node prove that some block of every partition costs at least the goal."""
        before, behind = (self._averages(side, goal) for side in sides)
        return bool((np.maximum(before, behind[::-1]) >= goal).all())

    def _averages(self, side: _Side, goal: float) -> FloatArray:
        """(k,) least mean cost of the blocks of a side, if these are 1 … k below the goal; infinite if too few."""
        peaks, more = self._peaks(side, goal)
        load = side.load + peaks + sum(size * (self._copies(users, goal) - 1) for size, users in side.several)
        rounding = _ROUNDING * (load + self._room)
        averages: FloatArray = np.maximum(load - rounding - self._room, side.work * (1 - _ROUNDING)) / self._blocks
        averages[:more] = np.inf
        return averages

    def _peaks(self, side: _Side, goal: float) -> tuple[float, int]:
        """Least sum of the memory peaks of a side's other blocks, and the least number of such blocks, at most k."""
        cap, k, levels = goal + self._room[0], len(self._blocks), self._apart(side.path, goal)
        doubt = _ROUNDING * (side.passing + cap)
        blocks = (side.passing - cap - doubt) / (np.maximum(cap - side.needs, 0.0) + doubt)
        blocks = np.maximum.accumulate(np.ceil(np.clip(blocks * (1 - _ROUNDING), 0.0, k)))
        far, chains = np.array([(need, len(chain)) for need, chain in levels]).reshape(-1, 2).T
        needs = np.unique(np.concatenate((side.needs, far, [side.live])))[::-1]
        passed, apart = (
            np.append(0, number)[np.searchsorted(-least, -needs, side="right")]
            for least, number in ((side.needs, blocks), (far, chains))
        )
        others = np.maximum(passed, apart - (needs <= side.live))
        return float((others * -np.diff(needs, append=0.0)).sum()), int(np.maximum(passed, apart - 1).max())

    def _copies(self, users: list[int], goal: float) -> int:
        """Least number of blocks that hold a parameter: the longest chain of its users that cannot share a block."""
        longest = np.ones(len(users), dtype=np.int64)
        for j, v in enumerate(users):
            for i, u in enumerate(users[:j]):
                if longest[i] >= longest[j] and self._between(u, v) >= goal:
                    longest[j] = longest[i] + 1
        return int(longest.max())

    def _cost_between(self, u: int, v: int) -> float:
        """Lower bound on the cost of a block with u and v [time unit]; 0 without a path u to v, or if time is up."""
        graph = self._graph
        if self._deadline.passed:
            return 0.0
        inside = reached_from(*graph.successors, np.array([u])) & reached_from(*graph.predecessors, np.array([v]))
        if not inside[u]:
            return 0.0
        load = self._held_by(inside) + self._need[inside].max()
        over = max(0.0, load - self._room[0] - _ROUNDING * (load + self._room[0]))
        return float((self._work[inside].sum() + over) * (1 - _ROUNDING))
