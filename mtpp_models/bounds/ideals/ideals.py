r"""Exact optima without a solver: dynamic programming over ideals.

A partition is a chain of ideals :math:`\emptyset = I_0 \subseteq I_1 \subseteq \dots \subseteq I_k = V`, and block b
is :math:`I_b \setminus I_{b-1}`. So

.. math:: \mathrm{best}[J, b] = \min_{I \subseteq J} \max(\mathrm{best}[I, b - 1], f(J \setminus I)).

Networks are narrow: theirs have tens to some hundred thousand ideals, and one pass answers every k. Where they have
many, the edges that no better partition cuts are contracted first, which leaves far fewer. A partition
that is known bounds what is worth extending: a block whose work reaches its bottleneck is dropped, and an ideal
from which the blocks left cannot hold the work left. Wide graphs have too many ideals; then there is no answer.

With finite memory and no activation buffer, the peak of a block counts as the largest need of its nodes, as in every
model. Where the memory is a hard limit, blocks that do not fit are left out, and what is left tells whether anything
fits.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from instances import Bound, InputError, Instance, Partition, Result
from instances.deadline import Deadline, Stopwatch
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.fitting import needs_of
from instances.partitioning.kernel_arrays import KernelArrays
from instances.partitioning.reductions import merge
from instances.results import PROOF_TOLERANCE
from mtpp_models.bounds.ideals.antichain import antichain
from mtpp_models.bounds.ideals.dynamic_program import Needs, extend_chains, first_blocks, largest_needs
from mtpp_models.bounds.ideals.lattice import LIMIT_REACHED, Lattice, Words, enumerate_ideals
from mtpp_models.cuts.joins import join
from mtpp_models.simple import simple

__all__ = ["IDEALS", "MOST_LISTED", "count_ideals", "ideals", "solve_ideals"]

#: Name of the method in results.
IDEALS = "ideals"
#: Of graphs with more nodes no ideals are listed: sets of nodes take a bit for each pair of nodes.
MOST_LISTED = 20_000

# The largest number of ideals.
_MOST_IDEALS = 1_000_000
# Costs are sums of at most some thousand terms; rounding stays far below this part of the largest term.
_ROUNDING = 1e-12
# The program runs again from the partition found if that costs less than this part of the start.
_MUCH_BETTER = 0.5
# Few enough that looking for joins would take longer.
_FEW_IDEALS = 20_000
# Of the time that is left, at most.
_FOR_JOINS = 0.5
# How many ideals a slow program does in a second.
_IDEALS_A_SECOND = 25_000
# Listing is tried up to a few ideals first, of which a slow machine lists those of so many nodes at once, and up to
# more as long as that is likely to take no more than a part of the time that is left.
_LISTED_AT_ONCE, _MORE, _FOR_LISTING = 2_000_000, 4, 0.5
# How many times the limit must be in sight for a listing to stop; of the levels that are left one counts as this part
# of the last one.
_CLEARLY, _MEAN_LEVEL = 4.0, 0.25
# Entries of the table of the dynamic program, 16 bytes each.
_LARGEST_TABLE = 2**26
# A tenth of a second or so of work between looks at the clock.
_STEPS = 2_000_000


def count_ideals(instance: Instance, limit: int) -> int | None:
    """Number of ideals of the graph of an instance, or None if there are more than `limit`."""
    count, _ = _enumerate(instance, limit, np.zeros(1))
    return None if count == LIMIT_REACHED else count


def solve_ideals(
    starts: Sequence[Partition], deadline: Deadline | None = None, limit: int = _MOST_IDEALS
) -> list[Result] | None:
    """Prove the optimum for several k in one pass.

    There is one result for each start, with the optimal partition and a bound; None if time was up or there are more
    ideals.

    Parameters
    ----------
    starts : sequence of Partition
        A partition for each k that is asked for, all of one graph on one kind of platform, else an `InputError` is
        raised. The better they are, the less there is to do.
    deadline : Deadline, optional
    limit : int
        Largest number of ideals.

    Examples
    --------
    >>> from instances import ComputationGraph, Platform
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[1, 1, 2], output_bytes=[9, 1, 0])
    >>> start = Partition(Instance(graph, Platform(2, bandwidth=1)), [0, 1, 1])
    >>> [result] = solve_ideals([start])
    >>> start.bottleneck, result.partition.bottleneck, result.proved
    (12.0, 3.0, True)
    """
    instance = starts[0].instance
    if any(start.instance.with_k(instance.k).key != instance.key for start in starts):
        raise InputError("The starts belong to different questions; give one graph on one platform.")
    deadline = deadline or Deadline()
    upper = np.zeros(max(start.instance.k for start in starts) + 1)
    for start in starts:
        upper[start.instance.k] = start.bottleneck
    most = min(limit, _LARGEST_TABLE // len(upper))
    lattice = _list_within(instance, min(_FEW_IDEALS, most), upper, deadline)
    joined = merge(instance, np.arange(instance.graph.n))
    if lattice is None and most > _FEW_IDEALS and 0 < upper.max() < math.inf and not deadline.passed:
        joined = join(instance, float(upper.max()), deadline.share(_FOR_JOINS))
        lattice = _list_within(joined.instance, most, upper, deadline)
    if lattice is None:
        return None
    chains = _cheapest_chains(joined.instance, lattice, upper, deadline)
    if chains is None:
        return None
    best, before = chains
    arrays = _arrays(instance, upper)
    margin = _ROUNDING * float(arrays.work.sum() + arrays.tensor_time.sum() + _stream_time(instance))
    results = []
    for start in starts:
        k, partition = start.instance.k, start
        if best[-1, k] < start.bottleneck:
            chain = joined.expand(_read_chain(joined.instance.with_k(k), lattice, before))
            partition = min(start, chain, key=lambda partition: partition.bottleneck)
        found = float(min(upper[k], best[-1, k]))
        if found == math.inf:
            reason = f"does not fit: no partition into {k} blocks does, which all ideals show"
            results.append(Result(IDEALS, start.instance, impossible=reason))
            continue
        value = max(simple(start.instance), found - margin)
        most_possible = min(found + margin, partition.bottleneck)
        bound = Bound(value, IDEALS, optimal=value >= most_possible * (1 - PROOF_TOLERANCE))
        answer = partition if partition.bottleneck < math.inf else None
        results.append(Result(IDEALS, start.instance, answer, bound))
    return results


def _cheapest_chains(
    instance: Instance, lattice: Lattice, upper: FloatArray, deadline: Deadline
) -> tuple[FloatArray, IntArray] | None:
    arrays = _arrays(instance, upper)
    _, readers, users = _node_sets(instance)
    needs = needs_of(instance)
    least, fit = Needs(needs, *largest_needs(needs, lattice)), instance.platform.fit
    best, before = first_blocks(arrays, least, fit, lattice, upper)
    ideal, last = 1, len(lattice.ideals) - 1
    while ideal < last:
        if deadline.passed:
            return None
        ideal = extend_chains(arrays, least, fit, readers, users, lattice, upper, ideal, _STEPS, best, before)
    return best, before


def ideals(start: Partition, deadline: Deadline | None = None) -> Result:
    """The bound and partition of `solve_ideals` for one k; *simple*, not to its end, where a limit is reached."""
    deadline = deadline or Deadline()
    # More ideals than that would take longer, and wide graphs shall not waste the time of others.
    limit = int(min(_MOST_IDEALS, max(_FEW_IDEALS, _IDEALS_A_SECOND * deadline.left)))
    results = solve_ideals([start], deadline, limit)
    if results is None:
        known = start if start.bottleneck < math.inf else None
        return Result(IDEALS, start.instance, known, Bound(simple(start.instance), IDEALS, optimal=False))
    while (found := results[0].partition) is not None and _is_too_rough(results[0], start):
        start = found
        again = solve_ideals([start], deadline, limit)
        if again is None:
            break
        results = again
    return results[0]


def _is_too_rough(result: Result, start: Partition) -> bool:
    """Whether rounding leaves a gap that would be smaller beside the better partition that is known now."""
    assert result.bound is not None
    assert result.partition is not None
    return not result.bound.optimal and result.partition.bottleneck < _MUCH_BETTER * start.bottleneck


def _stream_time(instance: Instance) -> float:
    """Of all that is held and the buffer or the largest need, if they can overflow."""
    platform = instance.platform
    held = instance.graph.held_total + (platform.activation_buffer or 0.0) + float(needs_of(instance).max())
    return held / platform.bandwidth if instance.has_overflow and held * (1 + _ROUNDING) > platform.memory else 0.0


def _arrays(instance: Instance, upper: FloatArray) -> KernelArrays:
    """The instance, where tensors that nobody cuts below `upper` take twice as long: more would cost exactness."""
    arrays = KernelArrays.of(instance)
    return arrays._replace(tensor_time=np.minimum(arrays.tensor_time, 2 * float(upper.max())))


def _list_within(instance: Instance, limit: int, upper: FloatArray, deadline: Deadline) -> Lattice | None:
    """The ideals; None if there are more than `limit`, or if listing them is likely to take too long."""
    if instance.graph.n > MOST_LISTED or 2 ** antichain(instance.graph) > limit:
        return None
    most, seconds = max(1, _LISTED_AT_ONCE // instance.graph.n), 0.0
    while not deadline.passed and seconds <= _FOR_LISTING * deadline.left:
        watch = Stopwatch()
        count, lattice = _enumerate(instance, min(most, limit), upper)
        if count != LIMIT_REACHED:
            return lattice
        if most >= limit or _in_sight(lattice.ideals[:most], instance.graph.n) > _CLEARLY * limit:
            return None
        most, seconds = _MORE * most, _MORE * watch.passed
    return None


def _in_sight(listed: Words, n: int) -> float:
    """How many ideals there may be, of which those of the fewest nodes are listed; a guess."""

    def size(i: int) -> int:
        return int(np.unpackbits(listed[i].view(np.uint8)).sum())

    rows, level = range(len(listed)), size(-1)
    first, before = (bisect_left(rows, nodes, key=size) for nodes in (level, level - 1))
    return len(listed) + _MEAN_LEVEL * (first - before) * (n - level)


def _enumerate(instance: Instance, limit: int, upper: FloatArray) -> tuple[int, Lattice]:
    salt = np.random.default_rng(0).integers(0, 2**64, instance.graph.n, dtype=np.uint64)
    return enumerate_ideals(_arrays(instance, upper), *_node_sets(instance), salt, limit)


def _node_sets(instance: Instance) -> tuple[Words, Words, Words]:
    """Predecessors of each node, readers of each tensor, users of each shared parameter."""
    graph = instance.graph
    uses = [(g, v) for g, parameter in enumerate(graph.parameters) for v in parameter.users]
    shared, user = np.array(uses, dtype=np.int64).reshape(-1, 2).T
    return (
        _words(graph.edges[:, 1], graph.edges[:, 0], graph.n, graph.n),
        _words(graph.edge_tensor, graph.tensors.consumers, len(graph.tensors.producer), graph.n),
        _words(shared, user, len(graph.parameters), graph.n),
    )


def _words(rows: IntArray, nodes: IntArray, count: int, n: int) -> Words:
    words = np.zeros((count, (n + 63) // 64), dtype=np.uint64)
    np.bitwise_or.at(words, (rows, nodes >> 6), np.uint64(1) << (nodes & 63).astype(np.uint64))
    return words


def _read_chain(instance: Instance, lattice: Lattice, before: IntArray) -> Partition:
    """Follow the chain backwards; each node lies in the first ideal that holds it."""
    block = np.zeros(instance.graph.n, dtype=np.int64)
    ideal, b = len(lattice.ideals) - 1, instance.k
    while ideal > 0:
        smaller = int(before[ideal, b])
        added = lattice.ideals[ideal] & ~lattice.ideals[smaller]
        nodes = np.unpackbits(added.view(np.uint8), bitorder="little")[: len(block)].nonzero()[0]
        block[nodes] = b - 1
        ideal, b = smaller, b - 1
    return Partition(instance, block)
