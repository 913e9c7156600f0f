"""Proof that no placement fits into the memory of the devices."""

from __future__ import annotations

import numpy as np

from instances.graph.memory import held_alone, touched_bytes
from instances.graph.tensors import FloatArray
from instances.placement.problem import PlacementInstance

__all__ = ["proof_of_no_fit"]

#: Sums of bytes may be rounded by this part.
_ROUNDING = 1e-9


def proof_of_no_fit(instance: PlacementInstance) -> str | None:
    """Say in one line why no placement fits; None if that is not proved.

    Parameters and states are somewhere all the time, shared ones at least once. While a node runs that takes time, its
    device holds its parameters and state, and the tensors that it reads and makes.
    """
    graph, most = instance.graph, float(instance.memories.max())
    if not np.isfinite(most):
        return None
    held = float(graph.held_bytes.sum()) + sum(parameter.bytes for parameter in graph.parameters)
    total = float(instance.memories.sum())
    if held * (1 - _ROUNDING) > total:
        return f"parameters and states need {held:.6g} bytes, all devices together have {total:.6g}"
    needed = _while_running(instance)
    v = int(needed.argmax())
    if needed[v] * (1 - _ROUNDING) > most:
        return (
            f"node {v} ({graph.names[v]}) needs {needed[v]:.6g} bytes with what it reads and makes, the largest device "
            f"has {most:.6g}"
        )
    return None


def _while_running(instance: PlacementInstance) -> FloatArray:
    """Bytes that the device of each node holds while it runs, (n,); tensors only for nodes with work."""
    graph = instance.graph
    return held_alone(graph) + np.where(graph.work > 0, touched_bytes(graph), 0.0)
