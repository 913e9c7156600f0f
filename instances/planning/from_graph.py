"""Conversion of a computation graph to a chain of layers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.ndimage import minimum_filter1d

from instances.errors import InputError
from instances.graph.checks import numbers
from instances.graph.graph import ComputationGraph
from instances.graph.groups import parameters_by
from instances.graph.tensors import FloatArray, IntArray
from instances.planning.chain import LayerChain

__all__ = ["by_block", "collapse", "latest_order"]

#: Tensors count when they hold this part of the bytes that cross, and compete within this part of the graph.
_COUNTS, _NEIGHBOURHOOD = 0.01, 0.05


def collapse(graph: ComputationGraph, backward: ArrayLike | None = None, *, trained_only: bool = False) -> LayerChain:
    """Collapse the graph of a forward pass into a chain.

    The nodes are ordered such that each comes as late as its readers allow: by the number of edges on the longest path
    to the end, the larger ones first, then by index. A layer ends wherever no place nearby, a twentieth of the
    graph to both sides, is crossed by fewer tensors; one with less than a hundredth of the bytes that cross does not
    count. So parallel branches become one layer, as the paper treats them, while what accompanies all layers, such
    as the output of an encoder, keeps none together. Nodes without time join the layer after them.

    All bytes that cross count as activations from layer to layer, those that skip layers as well, and as many
    gradients come back. A layer keeps the outputs of its nodes for its backward pass. A shared parameter counts in
    every layer that uses it.

    Parameters
    ----------
    graph : ComputationGraph
        One microbatch, forward; its work in seconds.
    backward : (n,) floats, optional
        Backward time of each node [s]; by default twice its work.
    trained_only : bool
        Whether shared tensors that the graph's attribute `not_trained` names, as masks, are no parameters.

    Returns
    -------
    LayerChain
        A layer is called after its first and last node. Its source says what is shared between layers, and whether
        attention keeps its scores.

    Raises
    ------
    InputError
        If there are not as many backward times as nodes, or a node has a state, which no training step keeps.
    """
    if graph.state_bytes.any():
        v = int(graph.state_bytes.argmax())
        raise InputError(
            f"{graph.name}: node {v} ({graph.names[v]}) keeps {graph.state_bytes[v]:g} bytes from run to run, which a "
            "training step does not; give a graph without states."
        )
    held = graph.attributes.get("not_trained")
    if trained_only and isinstance(held, list):
        graph = replace(graph, parameters=tuple(one for one in graph.parameters if one.name not in held))
    times = 2 * graph.work if backward is None else numbers(backward, "backward")
    if len(times) != graph.n:
        raise InputError(f"There are {graph.n} nodes but {len(times)} backward times; give one a node.")
    order = latest_order(graph)
    position = np.empty(graph.n, dtype=np.int64)
    position[order] = np.arange(graph.n)
    total, count = _crossing(graph, position)
    reach = 2 * int(_NEIGHBOURHOOD * graph.n) + 1
    fewest = minimum_filter1d(count[1:], reach, mode="nearest") if graph.n > 1 else count[1:]
    elapsed = np.concatenate(([0.0], np.cumsum((graph.work + times)[order])))
    starts = [0]
    for place in (1 + np.flatnonzero(count[1:] == fewest)).tolist():
        if elapsed[starts[-1]] < elapsed[place] < elapsed[-1]:
            starts.append(place)
    layer = np.searchsorted(starts, position, side="right") - 1

    def per_layer(values: FloatArray) -> FloatArray:
        sums = np.zeros(len(starts))
        np.add.at(sums, layer, values)
        return sums

    outputs = np.zeros(graph.n)
    np.add.at(outputs, graph.tensors.producer, graph.tensors.bytes)
    ends = [*(place - 1 for place in starts[1:]), graph.n - 1]
    names = [graph.names[v] for v in order]
    return LayerChain(
        forward=per_layer(graph.work),
        backward=per_layer(times),
        forward_bytes=total[starts[1:]],
        backward_bytes=total[starts[1:]],
        param_bytes=parameters_by(graph, layer, len(starts)),
        stored_bytes=per_layer(outputs),
        names=tuple(names[i] if i == j else f"{names[i]} … {names[j]}" for i, j in zip(starts, ends, strict=True)),
        name=graph.name,
        source="; ".join([graph.source, *_said(graph, layer)]),
    )


def _said(graph: ComputationGraph, layer: IntArray) -> Iterator[str]:
    """Yield assumptions behind the costs of the layers."""
    if any("attention" in name and name.endswith("softmax") for name in graph.names):
        yield "attention is unfused"
    for one in graph.parameters:
        count = len(set(layer[list(one.users)].tolist()))
        if count > 1:
            yield f"{one.name} counts in each of {count} layers"


def by_block(chain: LayerChain) -> LayerChain:
    """Merge the layers of a block, such as ``encoder.3``; layers without parameters, like pooling, join the one before.

    Blocks are recognised by names with dots: the first word, with a number that follows it.
    """
    blocks = [_block(name) for name in chain.names]
    params = chain.param_bytes > 0
    starts = [0]
    for layer in range(1, chain.n):
        same = blocks[layer] == blocks[starts[-1]]
        if not same and params[layer] and params[starts[-1] : layer].any():
            starts.append(layer)
    return chain.merged(starts)


def _block(name: str) -> str:
    first, *_, last = name.split(" … ") * 2
    head, *tail = (first if "." in first else last).split(".")
    return f"{head}.{tail[0]}" if tail and tail[0].isdigit() else head


def latest_order(graph: ComputationGraph) -> IntArray:
    """(n,) order of the nodes in which each comes as late as its readers allow; see `collapse`."""
    start, successor = graph.successors
    height = np.zeros(graph.n, dtype=np.int64)
    for u in graph.topological_order[::-1].tolist():
        if start[u] < start[u + 1]:
            height[u] = height[successor[start[u] : start[u + 1]]].max() + 1
    return np.argsort(-height, kind="stable")


def _crossing(graph: ComputationGraph, position: IntArray) -> tuple[FloatArray, IntArray]:
    """(n,) bytes of all tensors that cross from before each place to it or after, and how many of them count."""
    tensors = graph.tensors
    spans = []
    for tensor in np.flatnonzero(np.diff(tensors.start)).tolist():
        readers = tensors.consumers[tensors.start[tensor] : tensors.start[tensor + 1]]
        crossed = slice(position[tensors.producer[tensor]] + 1, position[readers].max() + 1)
        spans.append((crossed, tensors.bytes[tensor]))
    total, count = np.zeros(graph.n), np.zeros(graph.n, dtype=np.int64)
    for crossed, size in spans:
        total[crossed] += size
    for crossed, size in spans:
        count[crossed] += size >= _COUNTS * total[crossed]
    return total, count
