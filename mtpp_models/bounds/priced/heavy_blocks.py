"""Round of searches for blocks that are worth much, by several threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from instances.deadline import Deadline
from instances.graph.tensors import FloatArray
from instances.partitioning.kernel_arrays import KernelArrays
from mtpp_models.bounds.priced.block_search import Relations, heaviest_block
from mtpp_models.cuts.max_flow import BoolArray

__all__ = ["heavy_blocks"]

# Searches that begin with no block and with a known one: their number, moves for each node, and the temperature at
# first in multiples of the mean price. Measured on REGAL-style graphs, as is the penalty. No graph counts as one of
# fewer nodes.
_FRESH, _FRESH_MOVES, _FRESH_HOT = 15, 60, 0.4
_KNOWN, _KNOWN_MOVES, _KNOWN_HOT = 60, 15, 0.3
_COLD, _PENALTY, _FEWEST_NODES = 0.04, 1.3, 50


def heavy_blocks(
    known: BoolArray,
    price: FloatArray,
    ceiling: float,
    arrays: KernelArrays,
    relations: Relations,
    rng: np.random.Generator,
    deadline: Deadline,
    threads: int,
) -> Iterator[BoolArray]:
    """Yield blocks of high price that cost at most `ceiling`, one a search; the deadline is looked at after each.

    Parameters
    ----------
    known : (b, n) booleans
        Convex sets, a row each; searches begin with those of the highest prices.
    price : (n,) floats
        Not negative.
    ceiling : float
        Positive; overflow is left out of the cost.
    threads : int
        How many search; without a deadline, the answer does not depend on it.
    """
    n, mean = len(price), float(price.mean())
    dear = np.argsort(-(known @ price), kind="stable")[:_KNOWN]
    begins = [(np.zeros(n, dtype=bool), _FRESH_MOVES, _FRESH_HOT)] * _FRESH
    begins += [(known[i], _KNOWN_MOVES, _KNOWN_HOT) for i in rng.choice(dear, _KNOWN)]
    seeds = rng.integers(2**31, size=len(begins)).tolist()

    def search(number: int) -> tuple[float, BoolArray]:
        (inside, moves, hot), seed = begins[number], seeds[number]
        moves *= max(n, _FEWEST_NODES)
        return heaviest_block(
            inside, price, ceiling, arrays, relations, moves, hot * mean, _COLD * mean, _PENALTY, seed
        )

    with ThreadPoolExecutor(threads) as pool:
        for first in range(0, len(begins), threads):
            for found, block in pool.map(search, range(first, min(first + threads, len(begins)))):
                if found > 0:
                    yield block
            if deadline.passed:
                return
