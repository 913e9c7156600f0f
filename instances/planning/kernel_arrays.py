"""A training instance as plain arrays, for the kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from instances.compiled import compiled
from instances.graph.tensors import FloatArray

__all__ = ["TrainingArrays", "transfer_time"]


class TrainingArrays(NamedTuple):
    """A chain of L layers and a cluster of V devices; sums are those before each layer.

    Parameters
    ----------
    forward, backward : (V, L + 1) floats
        Sums of times, for r replicas in row r - 1. A stage of the layers i … j - 1 on r replicas takes
        ``(forward[r - 1, j] - forward[r - 1, i]) / r``: with a share of 1/r the sums are the same in all rows, so that
        equal times stay equal after rounding [s].
    params, stored : (L + 1,) floats
        Sums of parameters and of what is stored [bytes].
    forward_bytes, backward_bytes : (L,) floats
        Transfers before each layer; 0 before the first [bytes].
    bandwidth : (V, V) floats
    microbatches : int
    full_duplex : bool
    memory, copies : float
        As `TrainingInstance.memory` and `TrainingInstance.parameter_copies`.
    """

    forward: FloatArray
    backward: FloatArray
    params: FloatArray
    stored: FloatArray
    forward_bytes: FloatArray
    backward_bytes: FloatArray
    bandwidth: FloatArray
    microbatches: int
    full_duplex: bool
    memory: float
    copies: float


@compiled
def transfer_time(size: float, rate: float) -> float:
    """Bytes over bytes/s; nothing takes no time, and something without a link never ends [s]."""
    if size == 0.0:
        return 0.0
    return size / rate if rate > 0.0 else np.inf
