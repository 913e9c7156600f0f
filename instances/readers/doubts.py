"""Warnings about properties of a graph that are allowed, but probably not meant.

Readers put their own warnings into the attribute ``warnings``, a sentence each. General ones are found here.
"""

from __future__ import annotations

from dataclasses import replace

from instances.graph.graph import ComputationGraph

__all__ = ["with_doubts"]

# The networks of this project take from a millisecond to some seconds for one pass over a batch. A hundred seconds on
# one accelerator is 1e16 operations at 100 Tflop/s: possible for the largest networks and batches, so it is no error,
# but a file in ms that is read as s is a thousand times too slow, and then a tenth of a second is enough to be seen.
_LONG = 100.0

_SHOWN = 5

#: Attributes that name what a reader had to guess.
_GUESSED = {
    "unknown_operators": "unknown operators, of which only the bytes count",
    "approximate_loops": "loops with a guessed cost",
}


def with_doubts(graph: ComputationGraph, remedy: str = "") -> ComputationGraph:
    """The graph with all that may be wrong in its attribute ``warnings``, if there is anything.

    The remedy is what to do where the work is too much to be in seconds; it is empty if the unit is not in question.
    """
    doubts = list(graph.attributes.get("warnings", ()))
    for key, label in _GUESSED.items():
        if names := list(graph.attributes.get(key, ())):
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            doubts.append(f"{label}: {', '.join(map(str, names[:_SHOWN]))}{more}.")
    total = sum(graph.work.tolist())  # numpy warns where this is infinite
    if total == 0:
        doubts.append("no node takes any time, so communication alone is counted.")
    if remedy and graph.time_unit == "s" and total >= _LONG:
        doubts.append(f"the nodes take {total:.6g} s together, long for one pass of a network; {remedy}.")
    if graph.m and not graph.tensors.bytes[graph.edge_tensor].any():
        doubts.append("no tensor has any bytes, so communication costs nothing.")
    return replace(graph, attributes={**graph.attributes, "warnings": doubts}) if doubts else graph
