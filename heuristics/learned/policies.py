"""Policies that propose orders: a normal distribution over the weights of a score, learned from other graphs.

Each proposal draws weights and a number for every node, builds an order with them, and is judged by the best slicing of
that order. Every order is topological, so every answer is a partition. Here is all that answering takes; `training`
learns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files

import numpy as np

from heuristics.learned import block_filling, sweeps
from heuristics.limits import Limits
from heuristics.orders.kahn import kahn
from heuristics.orders.kernels import slice_kernel
from heuristics.orders.slicing import TABLE_NODES, slice_order
from heuristics.placement.placeto.checkpoints import Checkpoint
from instances import InputError, Instance, Partition
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.kernel_arrays import KernelArrays

__all__ = ["PROPOSERS", "Proposer", "Weights", "learned_search", "shipped"]

#: Proposals between two looks at the limits; later ones aim at the best bottleneck so far.
_BATCH = 10
#: All orders that are sliced together have at most so many nodes.
_NODES = 200_000
#: Standard deviation of the number that is drawn for every node.
_NOISE = 0.5
#: What a unit of the last weight changes the logarithm of the room by.
_ROOM = 0.1


@dataclass(frozen=True)
class Proposer:
    """A way to make an order from weights."""

    name: str
    features: tuple[str, ...]  # what the weights multiply
    # Maps noise, weights, room, k and arrays to an order.
    build: Callable[[FloatArray, FloatArray, float, int, KernelArrays], IntArray]

    def propose(
        self, instance: Instance, arrays: KernelArrays, weights: FloatArray, noise: FloatArray, bottleneck: float
    ) -> tuple[IntArray, FloatArray]:
        """Orders and the bottlenecks of their best slicings.

        Parameters
        ----------
        instance : Instance
        arrays : KernelArrays
            Those of `instance`.
        weights : (p, f + 1) floats
            Of the features, then how much more than `bottleneck` a block has room for.
        noise : (p, n) floats
            Normally distributed with deviation 1.
        bottleneck : float
            What is to be beaten, positive.

        Returns
        -------
        (p, n) integers and (p,) floats
        """
        room = bottleneck * np.exp(_ROOM * weights[:, -1])
        rows = zip(_NOISE * noise, weights[:, :-1], room.tolist(), strict=True)
        orders = np.array([self.build(z, w, r, instance.k, arrays) for z, w, r in rows])
        return orders, np.array([_sliced(instance, arrays, order) for order in orders])


@dataclass(frozen=True, eq=False)
class Weights:
    """A normal distribution over the weights of a proposer."""

    proposer: Proposer
    mean: FloatArray  # (f + 1,)
    deviation: FloatArray  # (f + 1,)

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Weights:
        """Those of a checkpoint.

        Raises
        ------
        InputError
            If it is not one of a proposer with these features, or has other weights.
        """
        proposer = PROPOSERS.get(checkpoint.policy)
        if proposer is None or checkpoint.about.get("features") != list(proposer.features):
            raise InputError(
                f"The policy {checkpoint.policy!r} with its features is not among {', '.join(PROPOSERS)}; train one."
            )
        arrays = [checkpoint.weights.get(name) for name in ("mean", "deviation")]
        if any(array is None or array.shape != (len(proposer.features) + 1,) for array in arrays):
            raise InputError(f"The weights of the policy {checkpoint.policy!r} have other shapes; train one again.")
        mean, deviation = (np.asarray(array, np.float64) for array in arrays)
        return cls(proposer, mean, deviation)

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        """(count, f + 1) weights."""
        return self.mean + self.deviation * rng.standard_normal((count, len(self.mean)))


#: Name to proposer.
PROPOSERS = {
    proposer.name: proposer
    for proposer in (
        Proposer("orders", block_filling.FEATURES, block_filling.pack),
        Proposer("intervals", sweeps.FEATURES, sweeps.sweep),
    )
}


@cache
def shipped(name: str) -> Checkpoint:
    """The trained policy that comes with the package for a proposer."""
    with as_file(files(__package__).joinpath(f"{name}.npz")) as path:
        return Checkpoint.load(path)


def learned_search(
    instance: Instance, rng: np.random.Generator, limits: Limits, samples: int, weights: Weights
) -> Partition:
    """Slice the Kahn order of equal priorities, then orders that a policy proposes, and keep the best.

    The first proposal has the mean weights. Each aims at the best bottleneck so far.

    Parameters
    ----------
    instance : Instance
    rng : numpy.random.Generator
    limits : Limits
        Checked after every 10 orders; after each for more than 2,000 nodes, or where peaks of memory count.
    samples : int
        Number of orders; of graphs with more than 200,000 nodes over `samples`, fewer.
    weights : Weights

    Returns
    -------
    Partition
        No worse than any order that was sliced.
    """
    arrays, n = KernelArrays.of(instance), instance.graph.n
    left = limits.allow(min(samples, max(1, _NODES // n))) - 1
    best_order = kahn(instance.graph, np.zeros(n))
    best, first = _sliced(instance, arrays, best_order), True
    while left > 0 and best > 0 and not limits.reached(best):
        count = min(left, 1 if n > TABLE_NODES or arrays.needs_peaks else _BATCH)
        drawn, noise = weights.draw(count, rng), rng.standard_normal((count, n))
        if first:
            drawn[0], noise[0], first = weights.mean, 0.0, False
        orders, values = weights.proposer.propose(instance, arrays, drawn, noise, best)
        left -= count
        if values.min() < best:
            best, best_order = float(values.min()), orders[values.argmin()]
    return slice_order(instance, best_order)


def _sliced(instance: Instance, arrays: KernelArrays, order: IntArray) -> float:
    """Bottleneck of the best slicing of an order."""
    if instance.graph.n > TABLE_NODES or arrays.is_constrained:
        return slice_order(instance, order).bottleneck
    best, _ = slice_kernel(order, instance.k, arrays)
    return float(best[-1, instance.k])
