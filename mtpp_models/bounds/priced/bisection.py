r"""The cheapest cut of a graph into two halves, by prices; for two blocks the optimum.

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

from dataclasses import replace

import numpy as np

from instances import Bound, Instance, Partition, Result
from instances.deadline import Deadline, Stopwatch
from instances.graph.tensors import FloatArray
from instances.partitioning.memory import room
from instances.results import PROOF_TOLERANCE
from mtpp_models.bounds.priced.prices import BlockTree
from mtpp_models.bounds.priced.relaxation import LeastOverflow, block_cost, with_ends
from mtpp_models.bounds.priced.trees import Proofs
from mtpp_models.cuts.max_flow import BoolArray
from mtpp_models.simple import one_block, simple
from mtpp_models.solvers.interface import Controls, Progress

BISECTION = "bisection"

# How far goals lie below a cost that is known: more than rounding, less than what counts as a gap.
_BELOW = 0.1 * PROOF_TOLERANCE
# Of the time, what the search may have, and its witness as much again; of what is left of it, what one goal may take,
# and by how much of its distance to the bound it falls then. Nearer to each other are the same; and seconds that are
# too short.
_SEARCH, _FOR_A_GOAL, _RETREAT, _NEAR, _SHORTEST = 0.5, 0.6, 0.3, 1e-3, 0.02
# Goals below this part of the bottleneck are given up.
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
        done, block = tree.explore(deadline.share(_FOR_A_GOAL))
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
