"""Piper's workloads as layers with configurations; `instances.readers.piper` has the format.

``vanilla`` recomputes nothing, ``activation recomp`` everything. A third of ``timePerSample``, which is that of a
microbatch, is the forward pass. ``parameterSize`` are numbers of 32 bits. ``memoryUsageA`` is stored for each
microbatch; ``memoryUsageB`` are weights and gradients, which the question knows here, and what a layer works with while
it recomputes. A stage sends ``communicationCost``, and the largest ``syncTimeBw`` of its tensor degree beside it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from instances.graph.graph import ComputationGraph
from instances.graph.tensors import IntArray
from instances.json_files import Value, read_json
from instances.planning.from_graph import latest_order
from instances.planning.grid.configurations import FULL, NONE, Configuration, ConfiguredChain, ConfiguredLayer
from instances.readers.parsing import json_amount, seconds
from instances.readers.piper import read_piper

__all__ = ["configured_from_piper"]

_MODES = {"vanilla": NONE, "activation recomp": FULL}
_NUMBERS = ("timePerSample", "parameterSize", "memoryUsageA", "memoryUsageB")
_NUMBER_BYTES = 4
_FORWARD = 1 / 3  # of both passes, as a backward pass has two products for each one of a forward pass

#: Degree and id of a way to run a node.
_Way = tuple[int, str]


def configured_from_piper(path: str | Path, time_unit: str = "s") -> ConfiguredChain:
    """Read layers with all their degrees; nodes without time join the layer after them.

    Raises
    ------
    InputError
        If the file is refused, or a node cannot be run in a way that the first one can.
    """
    unit, graph = seconds(time_unit), read_piper(path)
    nodes = [
        item.open_members(("TMPCs",))["TMPCs"] for item in read_json(path).open_members(("nodes",))["nodes"].items()
    ]
    ways = [_ways_of(node) for node in nodes]
    for node, known in zip(nodes, ways, strict=True):
        for degree, way in ways[0].keys() ^ known.keys():
            node.fail(f"'{way}' of degree {degree} is not there for all nodes; measure it, or leave it out of all.")
    order = latest_order(graph)
    ends = 1 + np.flatnonzero(graph.work[order])
    ends[-1:] = graph.n
    layers = []
    for end, inside in zip(ends.tolist(), np.split(order, ends[:-1]), strict=True):
        name = graph.names[inside[graph.work[inside].argmax()]]
        sums = {way: np.sum([ways[v][way] for v in inside], axis=0) for way in ways[0]}
        sent = {degree: _sent(graph, order, end, [one[degree, "vanilla"][-1] for one in ways]) for degree, _ in sums}
        found = tuple(_configuration(way, sums, sent[way[0]], unit) for way in sums)
        layers.append(ConfiguredLayer(name, name, found))
    source = f"workload {Path(path).name}, times in {time_unit}"
    return ConfiguredChain(tuple(layers), name=graph.name, source=source, dtype="fp32")


def _ways_of(node: Value) -> dict[_Way, list[float]]:
    """Numbers of a node, and the most that it sends to join its degree, by its ways to run."""
    found = {}
    for degree, items in node.open_members(()).items():
        if not degree.isdecimal() or int(degree) < 1:
            items.fail("a tensor degree is a whole number, 1 or more.")
        for item in items.items():
            members = item.open_members(("id", *_NUMBERS, "syncTimeBw"))
            way = members["id"].text()
            if way not in _MODES:
                members["id"].fail(f"choose one of {', '.join(_MODES)}.")
            joined = max(map(json_amount, members["syncTimeBw"].open_members(()).values()), default=0.0)
            found[int(degree), way] = [*(json_amount(members[name]) for name in _NUMBERS), joined]
        if (int(degree), "vanilla") not in found:
            items.fail("there is no configuration 'vanilla'.")
    return found


def _sent(graph: ComputationGraph, order: IntArray, end: int, joined: list[float]) -> float:
    """Bytes from the nodes before a place of the order to those behind it; a tensor crosses once."""
    behind, tensors = np.zeros(graph.n, dtype=bool), graph.tensors
    behind[order[end:]] = True
    both = [
        size / 2 + joined[u]
        for u, size, i, j in zip(tensors.producer, tensors.bytes, tensors.start, tensors.start[1:], strict=False)
        if not behind[u] and behind[tensors.consumers[i:j]].any()
    ]
    return sum(both)


def _configuration(way: _Way, sums: dict[_Way, np.ndarray], sent: float, unit: float) -> Configuration:
    plain = unit * sums[way[0], "vanilla"][0]
    time, parameters, stored, _, _ = sums[way].tolist()
    again = max(unit * time - plain, 0.0)
    return Configuration(
        tp=way[0],
        recompute=_MODES[way[1]],
        forward=plain * _FORWARD,
        input_backward=plain * _FORWARD + again,
        weight_backward=plain * _FORWARD,
        parameters=parameters / _NUMBER_BYTES,
        stored_bytes=stored,
        working_bytes=max(float(sums[way][3] - sums[way[0], "vanilla"][3]), 0.0),
        output_bytes=sent,
    )
