"""Round of searches for blocks that are worth much, by several threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from instances.deadline import Deadline
from instances.graph.tensors import FloatArray
from instances.partitioning.kernel_arrays import KernelArrays
from mtpp_models.bounds.priced.block_cost import LeastOverflow
from mtpp_models.bounds.priced.block_search import Relations, heaviest_block
from mtpp_models.cuts.max_flow import BoolArray

__all__ = ["Effort", "heavy_blocks"]

# Known blocks to begin with are drawn from so many that are worth most. Measured on REGAL-style graphs, as are the
# temperature at last, in multiples of the mean price, and the penalty. No graph counts as one of fewer nodes.
_DEAREST, _COLD, _PENALTY, _FEWEST_NODES = 60, 0.04, 1.3, 50


@dataclass(frozen=True)
class Effort:
    """Number of searches, moves of each for each node, and the temperature at first in multiples of the mean price."""

    searches: int
    moves: int
    hot: float


def heavy_blocks(
    blocks: BoolArray,
    price: FloatArray,
    ceiling: float,
    arrays: KernelArrays,
    overflow: LeastOverflow,
    relations: Relations,
    fresh: Effort,
    again: Effort,
    rng: np.random.Generator,
    deadline: Deadline,
    threads: int,
) -> Iterator[BoolArray]:
    """Yield blocks of high price that cost at most `ceiling`, at most one a search.

    Parameters
    ----------
    blocks : (b, n) booleans
        Convex sets, a row each.
    price : (n,) floats
        Not negative, not all 0.
    ceiling : float
        Positive.
    arrays : KernelArrays
        Of the instance, whose work and tensors make the cost.
    overflow : LeastOverflow
        Counts in the cost.
    relations : Relations
        Which nodes paths connect.
    fresh, again : Effort
        Of searches that begin with no block, and with a known one.
    rng : numpy.random.Generator
        Of the seeds of searches.
    deadline : Deadline
        Looked at after each search.
    threads : int
        How many search; without a deadline, the answer does not depend on it.
    """
    n, mean = len(price), float(price.mean())
    dearest = np.argsort(-(blocks @ price), kind="stable")[:_DEAREST]
    begins = [(np.zeros(n, dtype=bool), fresh)] * fresh.searches
    begins += [(blocks[i], again) for i in rng.choice(dearest, again.searches)]
    seeds = rng.integers(2**31, size=len(begins)).tolist()

    def search(number: int) -> tuple[float, BoolArray]:
        (inside, effort), seed = begins[number], seeds[number]
        moves, hot = effort.moves * max(n, _FEWEST_NODES), effort.hot * mean
        question = price, ceiling, arrays, overflow, relations
        return heaviest_block(inside, *question, moves, hot, _COLD * mean, _PENALTY, seed)

    with ThreadPoolExecutor(threads) as pool:
        for first in range(0, len(begins), threads):
            for worth, block in pool.map(search, range(first, min(first + threads, len(begins)))):
                if worth > 0:
                    yield block
            if deadline.passed:
                return
