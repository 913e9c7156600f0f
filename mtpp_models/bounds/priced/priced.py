r"""Lower bounds from node prices: the cheapest block that is worth its share.

Give each node any price :math:`\ge 0`. In a partition into k blocks some block is worth at least a k-th of all
prices together, so OPT is at least the cost of the cheapest convex set that is worth that much:

.. math::

    \mathrm{OPT} \ge \min \Big\{ f(S) : S \text{ convex}, \;
    \sum_{v \in S} \mathrm{price}(v) \ge \tfrac1k \sum_v \mathrm{price}(v) \Big\}.

With price = work this is the three-superblock relaxation of the paper, (14). The prices of
`mtpp_models.bounds.priced.prices` make every block of a good partition equally scarce, and the bound then comes
close to the configuration program.

Of three to eight blocks the graph is that of `mtpp_models.bounds.priced.relaxation`, with two more nodes, whose prices
count for the first and the last block alone: a set that is worth its share with the price of one of them has to be an
ideal, or closed behind.

The proof is destructive: `mtpp_models.bounds.priced.prices` shows that no block which costs less than a goal
T is worth its share, and then OPT >= T, or it finds some, which correct the prices. Its leaves are kept for other goals
and prices, and for the next turn. Where frontiers are narrow, `mtpp_models.bounds.priced.frontiers` knows the
cheapest block.
"""

from __future__ import annotations

import math
from dataclasses import replace

from instances import Bound, Instance, Partition, Result
from instances.deadline import Deadline, Stopwatch
from instances.graph.tensors import FloatArray
from instances.results import PROOF_TOLERANCE
from mtpp_models.bounds.priced.frontiers import FrontierPrices, Step, sweep_of
from mtpp_models.bounds.priced.kinds import PricesOfKinds
from mtpp_models.bounds.priced.prices import BlockTree, PriceSearch
from mtpp_models.bounds.priced.relaxation import partition_with_ends
from mtpp_models.bounds.priced.trees import Proofs, before_witness
from mtpp_models.cuts.max_flow import BoolArray
from mtpp_models.simple import one_block, simple
from mtpp_models.solvers.interface import Controls, Progress

PRICED = "priced"

# First and last blocks are told apart from those between where there are some, and not many: of 16 it gains nothing.
_TWO, _MOST_WITH_ENDS = 2, 8
# Rounds of searches for prices, at first and after blocks that correct them, unless time runs out; and of the time that
# is left, what they may take. At first they also end where the nodes are worth nearly all that they could be.
_FIRST_ROUNDS, _MORE_ROUNDS, _FIRST, _MORE, _CONVERGED = 200, 3, 0.12, 0.1, 0.995
# Rounds for prices that suit a goal, of the time that is left, and by how much they shall be worth more than k blocks.
_SUIT_ROUNDS, _SUIT, _MARGIN = 12, 0.1, 0.004
# Of the time that is left: for one proof, of which for the pairs of nodes that share no block, and for more blocks
# behind the first; blocks that are enough for a correction.
_PROOF, _PAIRS, _MORE_BLOCKS, _BLOCKS = 0.4, 0.1, 0.03, 40
# How far the next goal lies from the bound to the ceiling: at first, above *simple* and above a better bound of others,
# and later. Nearer to the ceiling than the last part it is the ceiling.
_RISE, _RISE_FROM_KNOWN, _NEXT, _NEARLY = 0.6, 0.12, 0.5, 0.002
# A goal that is higher by this part takes twice the time; no goal rises by less than the other part.
_TWICE, _LEAST_RISE = 0.006, 0.001
# How far a goal falls towards the bound after a proof that took too long, after too many corrections, and at most where
# blocks lower it or no better prices are in view. Too many are so many, or those whose trees took longer than the last
# proof and this part of the time that is left.
_RETREAT, _LOWER, _FALL, _CORRECTIONS, _PATIENCE = 0.3, 0.4, 0.75, 6, 0.1
# Seconds that are too little for any proof, and attempts: without a clock, so that it ends, and with one.
_SHORTEST, _ATTEMPTS, _MOST_ATTEMPTS = 0.05, 40, 4000
# Relative: what counts as the goal reached; how far below the ceiling a bound is at its end, unless the ceiling is the
# bottleneck to within the part above; and how far below the cost of a block the next goal lies.
_CLOSE, _AT_CEILING, _ROUNDING = 1e-5, 1e-4, 1e-9
# Where *simple* is 0, goals below this part of the bottleneck are given up.
_NEGLIGIBLE = 1e-3
# By how much, relative, prices may fall for the sake of blocks that stand in the way of a goal: no further than to what
# known blocks are worth.
_SPARE = 0.004


def priced(start: Partition, controls: Controls) -> Result:
    """The best bound by node prices proved in time; a better start leads to better prices.

    The witness holds the prices and the branch-and-bound tree, unless the bound is only *simple*. Without a time limit,
    the same seed gives the same bound.
    """
    return Prices()(start, controls)


class Prices:
    """Stateful `priced`: called again for the same question, it continues."""

    def __init__(self) -> None:
        self._question: str | None = None
        self._climb: _Climb | None = None
        self._steps: list[Step] | None = None
        self._swept: FrontierPrices | None = None
        self._over_kinds = PricesOfKinds()

    def __call__(self, start: Partition, controls: Controls) -> Result:
        """Run or continue, as `priced`."""
        if not start.instance.is_alike:
            return self._over_kinds(start, controls)
        instance, floor = start.instance, simple(start.instance)
        with_ends = _TWO < min(instance.k, instance.graph.n) <= _MOST_WITH_ENDS
        begin = partition_with_ends(start) if with_ends else start
        # All nodes together are worth their share as well.
        upper = min(start.bottleneck, one_block(instance).bottleneck)
        if upper <= floor:
            return Result(PRICED, instance, start, Bound(floor, PRICED))
        if self.sweeps(instance):
            assert self._steps is not None
            options = controls.options
            self._swept = self._swept or FrontierPrices(self._steps, start, options.seed, options.threads)
            return self._by_sweeps(self._swept, start, floor, upper, controls)
        self._climb = self._climb or _Climb(begin, floor, controls)
        watch = Stopwatch()
        at_its_end = self._climb.go_on(begin, replace(controls, deadline=before_witness(controls.deadline)))
        proofs = self._climb.proofs
        proofs.make_witness(controls.deadline, watch.passed)
        value = max(floor, proofs.value)
        closed = value >= upper * (1 - PROOF_TOLERANCE) or (at_its_end and proofs.is_witnessed)
        witness = proofs.witness | ({"seed": controls.options.seed} if proofs.witness else {})
        return Result(PRICED, instance, start, Bound(value, PRICED, closed, witness))

    def sweeps(self, instance: Instance) -> bool:
        """Whether there is a sweep with few states, which yields the cheapest blocks of a question; remembers it."""
        if self._question != instance.key:
            self._question, self._climb, self._swept = instance.key, None, None
            self._steps = sweep_of(instance)
        return self._steps is not None

    @staticmethod
    def _by_sweeps(swept: FrontierPrices, start: Partition, floor: float, upper: float, controls: Controls) -> Result:
        """The bound by sweeps; its witness holds whole prices, and as tree the nodes in the order of the sweeps."""
        watch, enough = Stopwatch(), upper * (1 - PROOF_TOLERANCE)
        for value in swept.improve(enough, controls.deadline):
            controls.report(Progress(PRICED, watch.passed, None, max(floor, value), None))
        witness = {"prices": swept.prices.tolist(), "tree": swept.order, "seed": controls.options.seed}
        value, closed = max(floor, swept.value), swept.value >= enough or swept.is_over
        return Result(PRICED, start.instance, start, Bound(value, PRICED, closed, witness if value > floor else {}))


class _Climb:
    """Search for the highest goal, a bottleneck, that prices prove; it is at most the limit of all price bounds."""

    def __init__(self, start: Partition, floor: float, controls: Controls) -> None:
        self.value = floor
        self._proved = 0.0  # others have proved it
        self.proofs = Proofs()
        self._search = PriceSearch(start, controls.options.seed, controls.options.threads)
        self._least = floor or _NEGLIGIBLE * start.bottleneck
        self._ceiling = start.bottleneck  # where the best prices are worth k blocks; no goal is above
        self._goal: float | None = None
        self._tree: BlockTree | None = None
        self._prices: FloatArray | None = None  # those of the tree
        self._failures = 0  # corrections since a goal was proved or given up
        self._lost, self._took = 0.0, 0.0  # seconds of trees since a goal was proved or fell, and of the last proof

    def go_on(self, start: Partition, controls: Controls) -> bool:
        """Raise the bound until time is up; return whether it cannot be raised further."""
        search, deadline, watch = self._search, controls.deadline, Stopwatch()
        search.learn(start)
        self._proved = max(self._proved, controls.lower)
        self._ceiling = min(self._ceiling, start.bottleneck)
        if self._goal is None:
            _converge(search, _FIRST_ROUNDS, _CONVERGED, deadline.share(_FIRST))
            self._ceiling = search.ceiling
            rise = _RISE if self._proved <= self.value else _RISE_FROM_KNOWN
            self._goal = self._base + rise * (self._ceiling - self._base)
        for _ in range(_ATTEMPTS if deadline.left == math.inf else _MOST_ATTEMPTS):
            if self.value >= start.bottleneck * (1 - PROOF_TOLERANCE):
                return True
            if deadline.passed or deadline.left < _SHORTEST:
                return False
            goal = self._suited(deadline)
            if goal < self._least:  # blocks cost next to nothing
                return True
            tried = Stopwatch()
            proved, blocks = self._attempt(goal, deadline.share(_PROOF))
            if proved is not None:
                self.value = max(self.value, proved)
                controls.report(Progress(PRICED, watch.passed, None, self.value, None))
                if proved >= self._ceiling or self._is_at_ceiling(start.bottleneck):
                    return True
                self._lost, self._took = 0.0, tried.passed
                self._goal = self._next_goal(tried.passed, deadline)
            elif blocks:
                self._lost += tried.passed
            if blocks:
                self._failures += 1
                settled = self._correct(blocks, deadline)
                if settled or self._is_too_high(deadline):
                    self._goal += (self._base - self._goal) * (_FALL if settled else _LOWER)
                    self._lost = 0.0
                if settled and self._goal <= self._base * (1 + _CLOSE):
                    return True
            elif proved is None:  # it took too long
                self._goal += (self._base - self._goal) * _RETREAT
            if proved is not None or not blocks:
                self._failures = 0
        return False

    @property
    def _base(self) -> float:
        """The highest bound so far, at most the ceiling [time unit]; goals below it prove nothing new."""
        return max(self.value, min(self._proved, self._ceiling))

    def _is_at_ceiling(self, bottleneck: float) -> bool:
        """Whether the bound has reached the limit of all price bounds, and that is below the bottleneck."""
        low = self._ceiling < bottleneck * (1 - _NEARLY)
        return low and self.value >= self._ceiling * (1 - _AT_CEILING)

    def _suited(self, deadline: Deadline) -> float:
        """The next goal to prove, at most the ceiling [time unit]; prices are first searched for it."""
        search, goal = self._search, self._goal or self._ceiling
        goal = max(self.value, min(goal, self._ceiling))
        search.aim(goal)
        _converge(search, _SUIT_ROUNDS, 1 + _MARGIN, deadline.share(_SUIT))
        if search.ceiling < goal:
            self._ceiling = max(self.value, search.ceiling)
        return max(self.value, search.ceiling)

    def _attempt(self, goal: float, deadline: Deadline) -> tuple[float | None, list[BoolArray]]:
        """Try to prove the goal, or a slightly lower one, with the current prices.

        If a block below the goal is worth its share, the prices of its nodes are lowered, as long as all prices
        together remain k shares. After that, the goal is lowered to the cost of such a block if that is close. Finished
        leaves of the tree stay valid in both cases.

        Returns
        -------
        tuple
            The bound, None if time is up or a block is far below the goal; and the blocks that prevent a higher one.
        """
        search, pairs, least = self._search, deadline.share(_PAIRS), goal + (self._base - goal) * _FALL
        blocks: list[BoolArray] = []
        spare = min(_SPARE, max(0.0, search.worth - 1))
        if self._tree is None:
            self._tree = BlockTree(search.instance, search.prices, goal, pairs, spare, search.threads)
        else:
            self._tree.aim(goal, pairs)
            if self._prices is not search.prices:
                self._tree.reprice(search.prices, spare)
        tree, self._prices = self._tree, search.prices
        while len(blocks) < _BLOCKS:
            done, block = tree.explore(deadline)
            if block is None:
                if done:
                    self.proofs.add(goal, tree.proof(), tree.prices)
                return (goal if done else None), blocks
            cost = (1 - _ROUNDING) * search.cost(block)
            blocks.append(block)
            if tree.relieve(block):
                continue
            tree.pass_by()
            if cost >= least:
                goal = min(goal, cost)
                tree.aim(goal)
            elif least < math.inf:  # too far below; some more, for better prices
                deadline, least = deadline.share(_MORE_BLOCKS), math.inf
        return None, blocks

    def _correct(self, blocks: list[BoolArray], deadline: Deadline) -> bool:
        """Add blocks that prevented a goal to the price search; return whether the prices stay the same."""
        search = self._search
        count, prices = search.block_count, search.prices
        for block in blocks:
            search.add(block)
        search.improve(_MORE_ROUNDS, deadline.share(_MORE))
        return search.block_count == count and search.prices is prices

    def _is_too_high(self, deadline: Deadline) -> bool:
        """Whether this goal was corrected too often, or its corrections took too long."""
        too_long = self._lost > max(self._took, _PATIENCE * deadline.left)
        return too_long or self._failures % _CORRECTIONS == 0

    def _next_goal(self, seconds: float, deadline: Deadline) -> float:
        """The goal after a proof that took `seconds`: as much higher as the remaining time is likely to allow."""
        value, ceiling = self.value, self._ceiling
        if value >= ceiling * (1 - _NEARLY):
            return ceiling
        higher = value + (ceiling - value) * _NEXT
        if deadline.left == math.inf:
            return higher
        doublings = math.log2(max(1.0, _PROOF * deadline.left / max(seconds, _SHORTEST)))
        return min(higher, value * (1 + max(_LEAST_RISE, _TWICE * doublings)))


def _converge(search: PriceSearch, rounds: int, enough: float, deadline: Deadline) -> None:
    """Improve prices until their worth is `enough`, they no longer change, or `rounds` or the time are over."""
    for _ in range(rounds):
        before = search.ceiling, search.block_count, search.prices.sum()
        if search.worth >= enough or deadline.passed:
            return
        search.improve(1, deadline)
        if before == (search.ceiling, search.block_count, search.prices.sum()):
            return
