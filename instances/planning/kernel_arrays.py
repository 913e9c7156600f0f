"""A training instance as plain arrays, for the kernels."""

from __future__ import annotations

from typing import NamedTuple

from instances.graph.tensors import FloatArray

__all__ = ["TrainingArrays"]


class TrainingArrays(NamedTuple):
    """A chain of L layers and a cluster of V devices; sums are those before each layer.

    The sums of times for r replicas stand in row r - 1. A stage of the layers i … j - 1 on r replicas takes
    ``(forward[r - 1, j] - forward[r - 1, i]) / r``: with a share of 1/r the sums are the same in all rows, so that
    equal times stay equal after rounding.
    """

    forward: FloatArray  # (V, L + 1): sums [s]
    backward: FloatArray  # (V, L + 1): sums [s]
    params: FloatArray  # (L + 1,): sums of parameters [bytes]
    stored: FloatArray  # (L + 1,): sums of what is stored [bytes]
    forward_bytes: FloatArray  # (L,): transfer before each layer; 0 before the first [bytes]
    backward_bytes: FloatArray  # (L,): the same backward
    bandwidth: FloatArray  # (V, V)
    microbatches: int
    full_duplex: bool
    memory: float  # as `TrainingInstance.memory`
    copies: float  # as `TrainingInstance.parameter_copies`
