r"""Lower bounds from guessed prices: rising goals, and the cheapest cut into two halves.

**Rising goals, each proved by a cheap branch-and-bound tree (*priced-quick*).**

Any prices give a bound, see `mtpp_models.bounds.priced.priced`. Those of this module are work and a part of what a node
moves,

.. math:: \mathrm{price}(v) = \mathrm{work}(v) + \alpha\, h(v), \qquad
    h(v) = \sum_{t \text{ of } v} \tau_t + \sum_{t \text{ read by } v} \frac{\tau_t}{\mathrm{readers}_t},

with :math:`\tau_t` the time of a tensor that has readers. Which :math:`\alpha` is best depends on the graph, so a few
race: all prove the same goals, and those that take longer fall behind. A goal that is proved makes way for a higher
one. A block that costs less than the goal is worth too much: its nodes become cheaper, and the tree starts again. So
graphs get a bound within seconds for which a search for the best prices takes minutes.

Where blocks may overflow, all worth lies first on the node that costs most alone: its tree tells blocks that send much
from those that need much, of which the minimum cut of *pinned* counts neither.

**The cheapest cut of a graph into two halves, by prices; for two blocks the optimum (*bisection*).**

Two blocks are an ideal S and the rest, and both pay for the cut between them. The one with more of the work W costs

.. math:: f(S) = \mathrm{work}(S) + \mathrm{cut}(S), \qquad \mathrm{work}(S) \ge W / 2,

if nothing overflows, and the other costs no more. So the bound of `mtpp_models.bounds.priced.priced` with price = work
is OPT if only convex sets count that can be the first block or the last. Two more nodes without work ensure that, one
before all others and one behind: each is worth W, so that no set is worth half of all 3 W without one of them.

Of k blocks, merge the first h and the last k - h, with :math:`h = \lceil k / 2 \rceil`. Neither half costs more than h
bottlenecks, in h times the memory, so that a h-th of the bound for two blocks is one for k: that of two superblocks.
The reductions take away nodes without work alone, so the proof holds in the original graph too, as `pigeonhole` says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from instances import Bound, Instance, Partition, Result
from instances.deadline import Deadline, Stopwatch
from instances.graph.tensors import FloatArray
from instances.partitioning.memory import room
from instances.results import PROOF_TOLERANCE
from mtpp_models.bounds.priced.prices import BlockTree
from mtpp_models.bounds.priced.relaxation import LeastOverflow, block_cost, with_ends
from mtpp_models.bounds.priced.trees import PriceProof, Proofs, before_witness
from mtpp_models.cuts.cuts import BlockCuts
from mtpp_models.cuts.max_flow import BoolArray
from mtpp_models.simple import one_block, simple
from mtpp_models.solvers.interface import Controls, Progress

PRICED_QUICK = "priced-quick"

# Parts of what a node moves that count in its price.
_PARTS = (0.5, 0.25, 0.1)
# A proof that takes this part of the time ends the race; a racer falls behind that takes this many times as long as the
# fastest, and half of that part. The first goal may take that part, later ones so many of them.
_ENOUGH, _BEHIND, _MOST_PARTS = 0.02, 1.5, 3.0
# Goals of a race rise by a first step behind a proof that takes less than a fifth of that part, or not this much longer
# than the one before, and by a short one behind others. Steps are halved when a goal fails, behind a first proof down
# to the least.
_QUICK, _ALIKE, _SHORT, _LEAST_SHORT = 0.2, 1.3, 0.025, 0.015
# Part of the time for each guess where the race proves nothing, and for the node that costs most alone.
_TRIAL, _FOR_A_NODE = 0.25, 0.1
# A goal that is higher by this part takes twice the time: at first, at least and at most. It is halved behind a goal
# that failed although it had that time, and grows behind one that took less than half as many doublings.
_TWICE, _LEAST_TWICE, _LARGEST_TWICE, _LEAST_DOUBLINGS = 0.02, 0.002, 0.05, 0.5
# How far a goal lies above the bound at most: at first, whenever, after a goal that failed, and in times the last one;
# and at least.
_STEP, _LARGEST_STEP, _SMALL_STEP, _GROWTH, _LEAST_STEP = 0.1, 0.3, 0.03, 1.5, 0.002
# Of the time that is left, what one goal is to take and may take, and seconds that are too short for any.
_AIM, _FOR_A_GOAL, _SHORTEST = 0.15, 0.4, 0.02
# What the nodes of a block that costs too little keep of their prices, how many such blocks a goal is worth, and how
# many goals in a row may fail by them.
_KEPT, _CORRECTIONS, _FAILURES = 0.93, 150, 4
# How far goals lie below a cost that is known: more than rounding, less than what counts as a gap.
_BELOW = 0.1 * PROOF_TOLERANCE
# Where nothing above 0 is known, the first goal is this part of the bottleneck.
_FIRST = 1e-3


def priced_quick(start: Partition, controls: Controls) -> Result:
    """Lower bound by guessed prices; its witness holds the prices and the tree, unless it is *simple*.

    Without a time limit, the same start gives the same bound.
    """
    return QuickPrices()(start, controls)


class QuickPrices:
    """Stateful `priced_quick`: called again for the same question, it continues."""

    def __init__(self) -> None:
        self._question: str | None = None
        self._climbs: list[Climb] = []
        self._proofs = Proofs()

    def __call__(self, start: Partition, controls: Controls) -> Result:
        """Run or continue, as `priced_quick`."""
        instance, floor, deadline = start.instance, simple(start.instance), before_witness(controls.deadline)
        # All nodes together are worth their share as well.
        upper = min(start.bottleneck, one_block(instance).bottleneck)
        if self._question != instance.key:
            self._question = instance.key
            threads = controls.options.threads
            self._climbs = [Climb(instance, guessed_prices(instance, part), threads) for part in _PARTS]
            self._proofs = Proofs()
        watch, proofs = Stopwatch(), self._proofs
        lower = max(floor, min(controls.lower, upper))
        if not self._climbs[0].value and (dearest := _dearest(instance, lower, upper, deadline.share(_FOR_A_NODE))):
            proofs.add(*dearest)
            controls.report(Progress(PRICED_QUICK, watch.passed, None, proofs.highest, None))
        settled = proofs.highest >= upper * (1 - PROOF_TOLERANCE)
        for proved in () if settled else self._goals(max(floor, proofs.highest), upper, deadline):
            best = self._ranked()[0]
            proofs.add(best.value, best.proof, best.proved)
            controls.report(Progress(PRICED_QUICK, watch.passed, None, proved, None))
        proofs.make_witness(controls.deadline, watch.passed)
        value, is_over = max(floor, proofs.value), all(climb.is_over for climb in self._climbs)
        closed = value >= upper * (1 - PROOF_TOLERANCE) or (is_over and proofs.is_witnessed)
        witness = proofs.witness | ({"seed": controls.options.seed} if proofs.witness else {})
        return Result(PRICED_QUICK, instance, start, Bound(value, PRICED_QUICK, closed, witness))

    def _goals(self, floor: float, upper: float, deadline: Deadline) -> Iterator[float]:
        """Yield goals as they are proved: by all guessed prices at first, then the fastest guess, then the others."""
        if self._value <= floor and deadline.left < math.inf:  # who wins a race depends on the clock
            yield from self._race(floor, upper, deadline)
        if self._value <= floor:
            for climb in self._climbs:
                yield from climb.goals(max(floor, self._value), upper, deadline.share(_TRIAL))
        for climb in self._ranked():
            yield from climb.goals(max(floor, self._value), upper, deadline)

    def _race(self, value: float, upper: float, deadline: Deadline) -> Iterator[float]:
        """Yield goals that all remaining guesses of prices have proved; slow guesses drop out.

        The race ends when one guess remains, or when a proof takes a large part of the time.
        """
        racers, last, enough = list(self._climbs), 0.0, _ENOUGH * deadline.left
        step = longest = _STEP
        while len(racers) > 1 and value < upper and deadline.left > _SHORTEST:
            goal, able, limit = _higher(value, step, upper), list[Climb](), enough * (_MOST_PARTS if last else 1)
            for climb in racers:
                if climb.begin(goal, deadline.sooner(limit)):
                    able.append(climb)
                    limit = min(limit, max(_BEHIND * climb.took, enough / 2))
                elif deadline.passed or not (able or climb.failures):
                    break  # if the first one has no time for it, the goal is too high
            if able:
                racers = sorted(able, key=lambda climb: climb.took)
                value, fastest = goal, racers[0].took
                yield value
                if fastest > enough:
                    return
                alike = fastest < max(_QUICK * enough, _ALIKE * last)
                step, last = (longest if alike else min(longest, _SHORT)), fastest
            else:
                step = longest = step / 2
                for climb in racers:
                    climb.step, climb.failures = step, 0
                if step < (_LEAST_SHORT if last else _LEAST_STEP):
                    return
                if not last:
                    racers.append(racers.pop(0))  # nobody knows who is the fastest

    @property
    def _value(self) -> float:
        """The highest goal that was proved."""
        return max(climb.value for climb in self._climbs)

    def _ranked(self) -> list[Climb]:
        """The guesses by bound, the highest first; equal ones by speed."""
        return sorted(self._climbs, key=lambda climb: (-climb.value, climb.took))


def _dearest(
    instance: Instance, lower: float, upper: float, deadline: Deadline
) -> tuple[float, PriceProof | None, FloatArray] | None:
    """The highest goal proved if only the most costly node has a price, with its tree and the prices.

    None if it is no higher than `lower`, or if no block surely overflows: then a minimum cut gives the same bound.
    """
    loaded = BlockCuts(instance, upper).loaded() if lower < upper else None
    if loaded is None:
        return None
    alone, goal, overflow = loaded.alone(), upper * (1 - _BELOW), LeastOverflow.of(instance, upper)
    if alone.max() <= lower:
        return None
    prices = (np.arange(len(alone)) == alone.argmax()).astype(np.float64)
    tree, below = BlockTree(instance, prices, goal, Deadline.after(0.0)), _BELOW
    while goal > lower and not deadline.passed:
        tree.aim(goal, Deadline.after(0.0))
        done, block = tree.explore(deadline)
        if done:
            return goal, tree.proof(), prices
        if block is None:
            return None
        cost = block_cost(instance, overflow, block)
        below *= 1 if cost < goal else 2  # the tree rounds down more than goals fall
        goal = min(goal, cost) * (1 - below)
    return None


def guessed_prices(instance: Instance, part: float) -> FloatArray:
    """(n,) prices: work, a part of the transfers and, where memory is short, the bytes of each node."""
    graph, platform = instance.graph, instance.platform
    producer, consumers = graph.tensors.producer, graph.tensors.consumers
    readers = np.diff(graph.tensors.start)
    time = np.where(readers > 0, instance.tensor_time, 0.0)
    sent = np.bincount(producer, time, graph.n)
    received = np.bincount(consumers, (time / np.maximum(readers, 1))[graph.edge_tensor], graph.n)
    prices: FloatArray = graph.work + part * (sent + received)
    resident_bytes = graph.held_bytes.copy()
    for parameter in graph.parameters:
        resident_bytes[list(set(parameter.users))] += parameter.bytes
    if instance.has_overflow and resident_bytes.sum() > instance.k * platform.memory:
        prices = prices + resident_bytes / platform.bandwidth
    return prices if 0 < prices.sum() < np.inf else np.ones(graph.n)


@dataclass
class Climb:
    """A sequence of rising goals for one guess of prices, each proved by a branch-and-bound tree."""

    instance: Instance
    prices: FloatArray  # (n,); they fall with each block that is worth too much
    threads: int = 1
    value: float = 0.0  # the last goal that was proved
    proved: FloatArray | None = None  # the prices that it was proved with
    proof: PriceProof | None = None  # and the tree
    step: float = _STEP  # the next goal lies no further above the bound
    twice: float = _TWICE  # a goal that is higher by this part takes twice the time
    took: float = _SHORTEST  # seconds of the last proof
    failures: int = 0  # in a row, by blocks that prices did not get rid of
    tree: BlockTree | None = None

    @property
    def is_over(self) -> bool:
        """Whether the last proofs failed too often in a row, because blocks below the goal were worth their share."""
        return self.failures >= _FAILURES

    def goals(self, value: float, upper: float, deadline: Deadline) -> Iterator[float]:
        """Yield the goals proved, rising from `value` to at most `upper`, until too many fail or time is up."""
        self.step, lost = max(self.step, _SMALL_STEP), 0.0  # seconds since the last proof of this turn
        while value < upper and not self.is_over and not deadline.passed and deadline.left > _SHORTEST:
            doublings = max(_LEAST_DOUBLINGS, math.log2(max(1.0, _AIM * deadline.left / self.took)))
            step = max(_LEAST_STEP, min(self.step, self.twice * doublings))
            goal = _higher(value, step, upper)
            watch = Stopwatch()
            proved = self.prove(goal, deadline.share(_FOR_A_GOAL))
            lost += watch.passed
            expected = self.took * 2 ** (step / self.twice)
            if proved:
                if lost < math.sqrt(self.took * expected):
                    self.twice = min(_LARGEST_TWICE, _GROWTH * self.twice)
                self.step = min(_LARGEST_STEP, _GROWTH * step)
                self.took, lost = max(lost, _SHORTEST), 0.0
                self.value = value = goal
                yield value
            else:
                self.step = min(_SMALL_STEP, step / 2)
                if lost > expected:
                    self.twice = max(_LEAST_TWICE, self.twice / 2)

    def begin(self, goal: float, deadline: Deadline) -> bool:
        """Whether a new tree proves this first goal; records how the time of proofs grows with the goal."""
        watch, self.tree = Stopwatch(), None
        if not self.prove(goal, deadline):
            return False
        value, took = self.value, self.took
        self.value, self.took, self.step = goal, max(watch.passed, _SHORTEST), _SMALL_STEP
        if self.took > took and value > 0:
            twice = (goal / value - 1) / math.log2(self.took / took)
            self.twice = min(_LARGEST_TWICE, max(_LEAST_TWICE, twice))
        return True

    def prove(self, goal: float, deadline: Deadline) -> bool:
        """Whether no block below the goal is worth its share, with these prices or corrected ones."""
        # Pairs that no block below the goal holds because of the work between them alone: they take no time.
        pairs = Deadline.after(0.0)
        if self.tree is None:
            self.tree = BlockTree(self.instance, self.prices, goal, pairs, threads=self.threads)
        else:
            self.tree.aim(goal, pairs)
        for _ in range(_CORRECTIONS):
            done, block = self.tree.explore(deadline)
            if done or block is None:
                self.failures = 0
                if done:
                    self.proved, self.proof = self.prices, self.tree.proof()
                return done
            self.prices = np.where(block, _KEPT * self.prices, self.prices)
            self.tree.reprice(self.prices)
        self.failures += 1
        return False


def _higher(value: float, step: float, upper: float) -> float:
    """The goal raised by the fraction `step`, at most `upper`."""
    return min(upper, max(value * (1 + step), _FIRST * upper))


BISECTION = "bisection"

# Of the time, what the bisection may have, and its witness as much again; of what is left of it, what one goal may
# take, and by how much of its distance to the bound it falls then. Nearer to each other are the same.
_SEARCH, _FOR_A_CUT, _RETREAT, _NEAR = 0.5, 0.6, 0.3, 1e-3
# Goals of it below this part of the bottleneck are given up.
_NEGLIGIBLE = 1e-3
_TWO = 2


def bisection(start: Partition, controls: Controls) -> Result:
    """Lower bound by the cheapest cut into two halves; for k = 2, the result holds the best partition met.

    The bound's witness holds the tree of the search. Without a time limit, the same start gives the same bound.
    """
    instance, deadline, watch = start.instance, controls.deadline.share(_SEARCH), Stopwatch()
    floor, halves = simple(instance), -(-instance.k // _TWO)
    upper = min(start.bottleneck, one_block(instance).bottleneck)
    if upper * (1 - _BELOW) <= floor or not instance.graph.work.any():
        return Result(BISECTION, instance, start, Bound(floor, "simple"))
    question, prices = halved(instance)
    goal = ceiling = halves * upper * (1 - _BELOW)
    base = halves * max(floor, min(controls.lower, upper), _NEGLIGIBLE * upper)
    overflow = LeastOverflow.of(question, goal)
    tree = BlockTree(question, prices, goal, Deadline.after(0.0), threads=controls.options.threads)
    proofs, best = Proofs(), start
    while goal > base and not deadline.passed and deadline.left > _SHORTEST:
        tree.aim(goal, Deadline.after(0.0))
        done, block = tree.explore(deadline.share(_FOR_A_CUT))
        if block is not None:
            if instance.k == _TWO:
                best = min(best, _two_blocks(instance, block), key=lambda partition: partition.bottleneck)
            goal = ceiling = min(goal, block_cost(question, overflow, block)) * (1 - _BELOW)
            tree.pass_by()
        elif done:
            base = goal
            proofs.add(goal, tree.proof())
            controls.report(Progress(BISECTION, watch.passed, best.bottleneck, goal / halves, None))
            goal = ceiling if ceiling - goal < _NEAR * goal else (goal + ceiling) / 2
        else:  # it took too long
            goal -= _RETREAT * (goal - base)
            if goal - base < _NEAR * base:
                break
    proofs.make_witness(controls.deadline, watch.passed, part=1.0)
    closed = ceiling <= base and proofs.is_witnessed
    if proofs.value <= halves * floor:
        return Result(BISECTION, instance, best, Bound(floor, "simple", closed))
    return Result(BISECTION, instance, best, Bound(proofs.value / halves, BISECTION, closed, proofs.witness))


def halved(instance: Instance) -> tuple[Instance, FloatArray]:
    """The question of cutting a graph into two halves, with source and sink as its last nodes; and (n + 2,) prices."""
    graph, platform = instance.graph, instance.platform
    # What is below 0 without one of them is not worth more with several: of these some may be empty.
    times = -(-instance.k // _TWO) if room(instance) >= 0 else 1
    buffer = None if platform.activation_buffer is None else times * platform.activation_buffer
    two = replace(platform, k=_TWO, memory=times * platform.memory, activation_buffer=buffer)
    total = graph.work.sum()
    return with_ends(instance).with_platform(two), np.append(graph.work, [total, total])


def _two_blocks(instance: Instance, block: BoolArray) -> Partition:
    """Partition whose first block is a convex set with the source; all other nodes are in the second block.

    `block`, (n + 2,), ends with the source and the sink that `with_ends` adds; a set without the source is the second
    block.
    """
    first = block[:-2] if block[-2] else ~block[:-2]
    return Partition(instance, np.where(first, 0, 1))
