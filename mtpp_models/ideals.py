r"""Exact optima without a solver: dynamic programming over ideals.

A partition is a chain of ideals :math:`\emptyset = I_0 \subseteq I_1 \subseteq \dots \subseteq I_k = V`, and block b
is :math:`I_b \setminus I_{b-1}`. So

.. math:: \mathrm{best}[J, b] = \min_{I \subseteq J} \max(\mathrm{best}[I, b - 1], f(J \setminus I)).

Networks are narrow: theirs have tens to some ten thousand ideals, and one pass answers every k. A partition
that is known bounds what is worth extending: a block whose work reaches its bottleneck is dropped, and an ideal
from which the blocks left cannot hold the work left. Wide graphs have too many ideals; then there is no answer.

With finite memory and no activation buffer the peak counts as 0, as in every model.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from instances import Bound, ComputationGraph, InputError, Instance, Partition, Platform, Result
from instances.arrays import KernelArrays
from instances.tensors import IntArray
from mtpp_models.chains import cheapest_chains
from mtpp_models.lattice import LIMIT_REACHED, Lattice, Words, enumerate_ideals
from mtpp_models.simple import simple

__all__ = ["IDEALS", "IdealLimits", "count_ideals", "ideals", "solve_ideals"]

#: Name of the method in results.
IDEALS = "ideals"

# Costs are sums of at most some thousand terms; rounding stays far below this part of the largest term.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class IdealLimits:
    """When to give up.

    Parameters
    ----------
    ideals : int
        Largest number of ideals.
    pairs : int
        Largest number of pairs (ideal, block behind it) to look at.
    """

    ideals: int = 500_000
    pairs: int = 500_000_000


def count_ideals(graph: ComputationGraph, limit: int) -> int | None:
    """Number of ideals of a graph, or None if there are more than `limit`."""
    lattice = _enumerate(Instance(graph, Platform(1, bandwidth=1.0)), limit)
    return None if lattice is None else len(lattice.ideals)


def solve_ideals(starts: Sequence[Partition], limits: IdealLimits | None = None) -> list[Result] | None:
    """Prove the optimum for several k in one pass.

    Parameters
    ----------
    starts : sequence of Partition
        A partition for each k that is asked for, all of one graph on one kind of platform; the better they are,
        the less there is to do.
    limits : IdealLimits, optional

    Returns
    -------
    list of Result or None
        One per start, each with the optimal partition and a bound; None if a limit was reached.

    Raises
    ------
    InputError
        If the starts belong to different questions.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[1, 1, 2], output_bytes=[9, 1, 0])
    >>> start = Partition(Instance(graph, Platform(2, bandwidth=1)), [0, 1, 1])
    >>> [result] = solve_ideals([start])
    >>> start.bottleneck, result.partition.bottleneck, result.proved
    (12.0, 3.0, True)
    """
    begin = time.monotonic()
    limits = limits or IdealLimits()
    instance = starts[0].instance
    if any(start.instance.with_k(instance.k).key != instance.key for start in starts):
        raise InputError("The starts belong to different questions; give one graph on one platform.")
    lattice = _enumerate(instance, limits.ideals)
    if lattice is None:
        return None
    upper = np.zeros(max(start.instance.k for start in starts) + 1)
    for start in starts:
        upper[start.instance.k] = start.bottleneck
    arrays = KernelArrays.of(instance)
    _, readers, users = _node_sets(instance)
    looked, best, before = cheapest_chains(arrays, readers, users, lattice, upper, limits.pairs)
    if looked == LIMIT_REACHED:
        return None
    margin = _ROUNDING * float(instance.graph.work.sum() + instance.tensor_time.sum() + _stream_time(instance))
    seconds = {"solve": (time.monotonic() - begin) / len(starts)}
    results = []
    for start in starts:
        k, partition = start.instance.k, start
        if best[-1, k] < start.bottleneck:
            found = _read_chain(start, lattice, before)
            partition = min(start, found, key=lambda partition: partition.bottleneck)
        value = max(simple(start.instance), float(min(upper[k], best[-1, k])) - margin)
        results.append(Result(IDEALS, start.instance, partition, Bound(value, IDEALS), seconds))
    return results


def ideals(start: Partition) -> Result:
    """The bound and partition of `solve_ideals` for one k; *simple*, not to its end, where the graph is too wide.

    Parameters
    ----------
    start : Partition

    Returns
    -------
    Result
    """
    begin = time.monotonic()
    results = solve_ideals([start])
    if results is not None:
        return results[0]
    bound = Bound(simple(start.instance), IDEALS, optimal=False)
    return Result(IDEALS, start.instance, start, bound, {"solve": time.monotonic() - begin})


def _stream_time(instance: Instance) -> float:
    return instance.graph.parameter_total / instance.platform.bandwidth if instance.has_overflow else 0.0


def _enumerate(instance: Instance, limit: int) -> Lattice | None:
    salt = np.random.default_rng(0).integers(0, 2**64, instance.graph.n, dtype=np.uint64)
    count, lattice = enumerate_ideals(KernelArrays.of(instance), *_node_sets(instance), salt, limit)
    return None if count == LIMIT_REACHED else lattice


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


def _read_chain(start: Partition, lattice: Lattice, before: IntArray) -> Partition:
    """Follow the chain backwards; each node lies in the first ideal that holds it."""
    instance = start.instance
    block = np.zeros(instance.graph.n, dtype=np.int64)
    ideal, b = len(lattice.ideals) - 1, instance.k
    while ideal > 0:
        smaller = int(before[ideal, b])
        added = lattice.ideals[ideal] & ~lattice.ideals[smaller]
        nodes = np.unpackbits(added.view(np.uint8), bitorder="little")[: len(block)].nonzero()[0]
        block[nodes] = b - 1
        ideal, b = smaller, b - 1
    return Partition(instance, block)
