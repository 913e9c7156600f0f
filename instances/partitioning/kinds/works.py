"""Works of nodes on kinds of devices: which are times, and which nodes a kind cannot run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from instances.devices.kinds import Devices
from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray
from instances.partitioning.constraints import Constraints
from instances.registry import unknown

__all__ = ["check_works", "places_of_kinds"]


def places_of_kinds(graph: ComputationGraph, devices: Devices, constraints: Constraints) -> NDArray[np.bool_]:
    """(T, n) whether constraints let each node be on each kind.

    Raises
    ------
    InputError
        If they name a kind that there is not.
    """
    names = [kind.name for kind in devices.kinds]
    found = np.ones((len(names), graph.n), dtype=bool)
    for v, kinds in constraints.on:
        for name in kinds:
            if name not in names:
                raise InputError(unknown(names, name, "kind of devices"))
        found[:, v] &= [name in kinds for name in names]
    return found


def check_works(graph: ComputationGraph, devices: Devices, works: FloatArray) -> None:
    """Refuse works that are no times, and nodes that no kind can run, by an `InputError`."""
    for t, v in np.argwhere(~(works >= 0))[:1].tolist():
        where = f"the work of node {v} ({graph.names[v]}) on {devices.kinds[t].name}"
        raise InputError(f"{where} is {works[t, v]}; it must be 0 or more, infinite where it cannot run.")
    for v in np.flatnonzero(np.isinf(works).all(axis=0))[:1].tolist():
        raise InputError(f"Node {v} ({graph.names[v]}) can run on no kind of devices; allow one.")
