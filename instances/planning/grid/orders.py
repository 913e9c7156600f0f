"""Orders of passes: one forward and one backward pass in turns, with several stages a device as well."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from instances.errors import InputError
from instances.graph.tensors import IntArray, freeze

__all__ = ["one_forward_one_backward"]


@lru_cache(maxsize=32)
def one_forward_one_backward(groups: int, turns: int, microbatches: int) -> IntArray:
    """Passes of each group of devices in their order.

    Stage n of the `groups` · `turns` stages runs on group n modulo `groups`. With one turn, group g begins with
    groups - g forward passes; with more, stages take turns of `groups` microbatches, as Megatron-LM does (Narayanan et
    al., SC 2021).

    Returns
    -------
    (groups, 2 · turns · microbatches) integers
        ``(2 n + backward) · microbatches + m`` for the pass of microbatch m in stage n.

    Raises
    ------
    InputError
        If there are several turns and `groups` does not divide `microbatches`.
    """
    S, v, M = groups, turns, microbatches
    if v > 1 and M % S:
        raise InputError(f"Stages in turns need a number of microbatches that {S} groups divide, not {M}.")
    total, orders = v * M, np.empty((S, 2 * v * M), dtype=np.int64)
    k = np.arange(total)
    turn, microbatch = k % (S * v) // S, k // (S * v) * S + k % S
    if v == 1:
        turn, microbatch = np.zeros(total, dtype=np.int64), k
    for g in range(S):
        forward = 2 * (turn * S + g) * M + microbatch
        backward = (2 * ((v - 1 - turn) * S + g) + 1) * M + microbatch
        first = min(total, S - g - 1 if v == 1 else 2 * (S - g - 1) + (v - 1) * S)
        pairs = np.stack((forward[first:], backward[: total - first]), axis=1).ravel()
        orders[g] = np.concatenate((forward[:first], pairs, backward[total - first :]))
    freeze(orders)
    return orders
