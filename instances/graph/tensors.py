"""Output tensors, shared parameters, and the compressed rows that hold them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instances.errors import InputError
from instances.graph.display import Displayed, figures

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Tensors(Displayed):
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
        Nodes that read the tensors, sorted and once per tensor. A tensor may have none.

    Raises
    ------
    InputError
        If the arrays do not fit together or are not sorted.
    """

    producer: IntArray
    bytes: FloatArray
    start: IntArray
    consumers: IntArray

    def __post_init__(self) -> None:
        kinds = {"producer": np.int64, "bytes": np.float64, "start": np.int64, "consumers": np.int64}
        for name, kind in kinds.items():
            object.__setattr__(self, name, np.array(getattr(self, name), dtype=kind))
        freeze(*self.__dict__.values())
        t, counts = len(self.producer), np.diff(self.start)
        if not (len(self.bytes) == t == len(self.start) - 1 and (counts >= 0).all() and self.start[0] == 0):
            raise InputError("The arrays of the tensors do not fit together; use ComputationGraph.from_edges.")
        if self.start[-1] != len(self.consumers) or (np.diff(self.producer) < 0).any():
            raise InputError("The tensors are not sorted by producer; use ComputationGraph.from_edges.")
        tensor = np.repeat(np.arange(t), counts)
        if ((np.diff(tensor) == 0) & (np.diff(self.consumers) <= 0)).any():
            raise InputError("Consumers of a tensor must be distinct and sorted; use ComputationGraph.from_edges.")
        if (self.producer < 0).any():
            raise InputError("A tensor has a negative producer; nodes are numbered from 0.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        freeze(*self.__dict__.values())  # pickling forgets it

    def _facts(self) -> dict[str, str]:
        return {
            "tensors": str(len(self.producer)),
            "edges": str(len(self.consumers)),
            "bytes": figures(self.bytes.sum()),
        }


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "bytes", float(self.bytes) + 0.0)
        object.__setattr__(self, "users", tuple(sorted({int(user) for user in self.users})))


def freeze(*arrays: FloatArray | IntArray) -> None:
    """Make arrays read-only."""
    for array in arrays:
        array.flags.writeable = False


def cached_array(compute: Callable[[Any], FloatArray]) -> cached_property[FloatArray]:
    """A property that is computed once; its array is read-only, as all callers share it."""

    @wraps(compute)
    def frozen(owner: Any) -> FloatArray:
        values = compute(owner)
        freeze(values)
        return values

    return cached_property(frozen)


def sorted_unique(values: IntArray) -> IntArray:
    """The distinct values, in order; `numpy.unique` hashes, which takes several times as long on millions of values."""
    ordered = np.sort(values)
    return ordered[np.diff(ordered, prepend=ordered[:1] - 1) != 0]


def components(pairs: IntArray, n: int, *, directed: bool) -> IntArray:
    """Component of each of n nodes, (n,), linked by `pairs`, (m, 2); strong ones if the links are directed."""
    import scipy

    links = scipy.sparse.coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    kind = {"directed": True, "connection": "strong"} if directed else {"directed": False}
    return np.asarray(scipy.sparse.csgraph.connected_components(links, **kind)[1], dtype=np.int64)


def compressed_rows(rows: IntArray, values: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """Group `values` by `rows`: row ``i`` holds ``grouped[start[i]:start[i + 1]]``, in the given order."""
    by_row = np.argsort(rows, kind="stable")
    return np.searchsorted(rows[by_row], np.arange(n + 1)), values[by_row]


def sums_by(rows: IntArray, values: FloatArray, count: int) -> FloatArray:
    """(count,) sums of the `values` of each row."""
    return np.bincount(rows, values, minlength=count).astype(np.float64)


def nodes_by_depth(start: IntArray, successor: IntArray, indegree: IntArray) -> IntArray:
    """The nodes by depth, then by index; those on a cycle and after it are missing."""
    starts, successors, missing = start.tolist(), successor.tolist(), indegree.tolist()
    depth = [0] * len(missing)
    ready = [v for v, count in enumerate(missing) if count == 0]
    for u in ready:  # first in, first out: so the last predecessor is a deepest one
        for v in successors[starts[u] : starts[u + 1]]:
            missing[v] -= 1
            if missing[v] == 0:
                depth[v] = depth[u] + 1
                ready.append(v)
    nodes = np.sort(np.array(ready, dtype=np.int64))
    return nodes[np.argsort(np.array(depth)[nodes], kind="stable")]
