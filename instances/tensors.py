"""Output tensors, shared parameters, and the compressed rows that hold them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FloatArray", "IntArray", "SharedParameter", "Tensors", "compressed_rows"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tensors:
    """Output tensors, grouped by the node that produces them.

    Parameters
    ----------
    producer : (t,) integers
        Node that produces each tensor, in non-decreasing order.
    bytes : (t,) floats
        Size of each tensor [bytes]; 0 for a control dependency.
    start : (t + 1,) integers
        The consumers of tensor ``i`` are ``consumers[start[i]:start[i + 1]]``.
    consumers : (m,) integers
        Nodes that read the tensors; a node appears at most once per tensor. A tensor may have none.
    """

    producer: IntArray
    bytes: FloatArray
    start: IntArray
    consumers: IntArray


@dataclass(frozen=True)
class SharedParameter:
    """A parameter that several nodes use; it counts once in each block that uses it.

    Parameters
    ----------
    name : str
        Name in the network.
    bytes : float
        Size [bytes].
    users : tuple of int
        Nodes that use it.
    """

    name: str
    bytes: float
    users: tuple[int, ...]


def compressed_rows(rows: IntArray, values: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """Group `values` by `rows`: row ``i`` holds ``grouped[start[i]:start[i + 1]]``, in the given order."""
    by_row = np.argsort(rows, kind="stable")
    return np.searchsorted(rows[by_row], np.arange(n + 1)), values[by_row]
