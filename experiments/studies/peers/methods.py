"""Heuristics of other packages, as searches for partitions; each is a function that `mtpp.compare` takes."""

from __future__ import annotations

import numpy as np

from heuristics import Limits, kahn, slice_order
from heuristics.orders.orders import decode
from heuristics.placement import PLACERS
from instances import Instance, Partition
from instances.graph.tensors import FloatArray, IntArray
from instances.machines import Machines
from instances.partitioning.peaks import KernelArrays
from instances.placement.problem import PlacementInstance

#: Starts of METIS, keys of a generation, and those that are decoded at the most.
_STARTS, _KEYS, _DECODED = 200, 100, 10**8


def metis(instance: Instance, rng: np.random.Generator, limits: Limits | None = None) -> Partition:
    """Parts of equal work with few bytes between them by METIS, made acyclic.

    Parts are numbered by the mean place of their nodes in a topological order. A node before which one of a later part
    lies moves there, so that all edges point forwards. The best of many seeds is the answer.
    """
    limits = limits or Limits()
    question = PlacementInstance(instance.graph, Machines.alike(instance.k, instance.platform.bandwidth))
    best: Partition | None = None
    for _ in range(limits.allow(_STARTS)):
        part = PLACERS["metis"].run(question, rng).device
        partition = Partition(instance, _forwards(instance, part))
        if best is None or partition.bottleneck < best.bottleneck:
            best = partition
        if limits.reached(best.bottleneck):
            break
    assert best is not None
    return best


def _forwards(instance: Instance, part: IntArray) -> IntArray:
    """(n,) blocks from unordered parts: sorted by mean position, then raised until no edge points back."""
    graph, k = instance.graph, instance.k
    place = np.empty(graph.n)
    place[graph.topological_order] = np.arange(graph.n)
    middle = np.bincount(part, place, minlength=k) / np.maximum(1, np.bincount(part, minlength=k))
    block: IntArray = np.argsort(np.argsort(middle))[part]
    edges = graph.edges
    for u, v in edges[np.argsort(place[edges[:, 0]], kind="stable")].tolist():
        block[v] = max(block[v], block[u])
    return block


def pymoo_brkga(instance: Instance, rng: np.random.Generator, limits: Limits | None = None) -> Partition:
    """Random keys by pymoo's genetic algorithm, used as priorities of Kahn's algorithm and sliced."""
    from pymoo.algorithms.soo.nonconvex.brkga import BRKGA
    from pymoo.core.problem import Problem

    limits, graph, arrays = limits or Limits(), instance.graph, KernelArrays.of(instance)

    class Keys(Problem):
        def __init__(self) -> None:
            super().__init__(n_var=graph.n, n_obj=1, xl=0.0, xu=1.0)

        def _evaluate(self, keys: FloatArray, out: dict[str, FloatArray], *_: object, **__: object) -> None:
            out["F"] = decode(np.ascontiguousarray(keys), instance.k, arrays)

    shares = {"n_elites": _KEYS // 5, "n_offsprings": _KEYS * 13 // 20, "n_mutants": _KEYS * 3 // 20}
    search = BRKGA(**shares, bias=0.7, eliminate_duplicates=False)
    decoded = limits.allow(_DECODED)
    search.setup(Keys(), termination=("n_eval", decoded), seed=int(rng.integers(2**31)), verbose=False)
    while search.has_next():
        search.next()
        if limits.reached(float(search.opt[0].F[0])):
            break
    return slice_order(instance, kahn(graph, search.opt[0].X))
