"""The question of flow for a decoder on kinds of devices.

In decoding a sequence holds its cache on each device that it passes, also while other batches run; what devices then
serve is in `instances.flow.problem`. A prompt of prefill passes once, and a device works at as many at once as its
memory holds the caches of. What comes before the layers and behind them is with the source and the sink, and takes no
time of devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from instances.errors import InputError, printable
from instances.flow.problem import MOST_SEQUENCES, FlowInstance, Steps
from instances.graph.graph import ComputationGraph
from instances.graph.memory import held_alone, touched_bytes
from instances.graph.tensors import FloatArray
from instances.machines import Kind, Machines
from instances.runtimes.layers import LayerStack

# Dimensions that a question of decoding states.
_TERMS = ("phase", "context", "batch", "element_bytes", "kv_bytes")


@dataclass(frozen=True, eq=False)
class DecoderLayers:
    """Memory that layers of a decoder need, and the bytes that they pass on."""

    stack: LayerStack
    batch: int
    weights: FloatArray  # (L,) bytes of each layer
    cache: FloatArray  # (L,) bytes of each layer for one sequence
    activations: float  # most bytes that are live while a node runs on the batch
    passed: float  # most bytes from a layer to the next one for one sequence

    @classmethod
    def of(cls, graph: ComputationGraph) -> DecoderLayers:
        """The layers of a graph of operators that is priced for a batch.

        Raises
        ------
        InputError
            If it is no decoder, its layers form no chain, or it states no batch size.
        """
        dims = graph.attributes.get("dims", {})
        if "batch" not in dims:
            raise InputError(f"{graph.name}: it has no batch; give an architecture that is a decoder, or its config.")
        stack, batch = LayerStack.of_decoder(graph), int(dims["batch"])
        resident, state = (_by_unit(row, stack) for row in (held_alone(graph), graph.state_bytes))
        within = (stack.unit >= 1) & (stack.unit <= stack.layers)
        return cls(
            stack=stack,
            batch=batch,
            weights=resident - state,
            cache=state / batch,
            activations=float(touched_bytes(graph)[within].max()),
            passed=_most_passed(graph, stack) / batch,
        )

    def sequences(self, memory: float, limit: int) -> list[int]:
        """Number of sequences whose caches fit on a device, at most `limit`, for each number of its layers from 0."""
        counts = [0]
        for c in range(1, self.stack.layers + 1):
            room = memory - self.activations - _heaviest(self.weights, c)
            sequence_bytes = _heaviest(self.cache, c)
            full = room >= limit * sequence_bytes
            counts.append(limit if full else max(0, math.floor(room / sequence_bytes)) if sequence_bytes > 0 else 0)
        return counts


def flow_of_decoder(
    graph: ComputationGraph,
    devices: Machines,
    bandwidth: float,
    work: Callable[[Kind, int], FloatArray],
    in_flight: int | None = None,
) -> FlowInstance:
    """The question of flow for a decoder on these devices.

    Parameters
    ----------
    graph : ComputationGraph
        Graph of operators, with works and bytes for the largest batch.
    devices : Devices
        The rates between kinds, or the bandwidths of both, limit what passes from one device to another; the bandwidth
        of a device limits all that enters it, and all that leaves it, source and sink included.
    bandwidth : float
        Bandwidth of kinds that state none [bytes/s].
    work : callable
        Works of the operators on a device of a kind with a batch, (n,) [s].
    in_flight : int, optional
        Batches of sequences that take turns; by default any number. In prefill there are none.

    Raises
    ------
    InputError
        If the order of the devices is fixed, the graph has no layers in a row, or there are too many devices.
    """
    if devices.is_fixed:
        raise InputError("The order of the devices is fixed, and a flow takes them in any order; leave it out.")
    layers = DecoderLayers.of(graph)
    names = tuple(f"{kind.name}-{i}" for kind in devices.kinds for i in range(kind.count))
    decodes = graph.attributes["dims"].get("phase") == "decode"
    port = [_sent(_port(kind, bandwidth), layers.passed) for kind in devices.kinds]
    limit = min(MOST_SEQUENCES, layers.batch * (max(devices.total, in_flight or 1) if decodes else 1))
    slots = [layers.sequences(kind.memory, limit) for kind in devices.kinds]
    # A step is of any number of sequences; of prompts of as many as there is room for.
    full = {s for row in slots for s in row if s > 0} or {1}
    sizes = sizes_of_steps(min(layers.batch, max(full))) if decodes else sorted(full)
    seconds = np.full((len(slots), layers.stack.layers + 1, len(sizes)), np.inf)
    for t, kind in enumerate(devices.kinds):
        for x, size in enumerate(sizes):
            holders = [c for c in range(1, layers.stack.layers + 1) if slots[t][c] >= size]
            if holders:
                layer_times = _by_unit(work(kind, size), layers.stack)
                seconds[t, holders, x] = [_heaviest(layer_times, c) for c in holders]
        if not (seconds[t] > 0).all():
            raise InputError(f"{graph.name}: layers take no time on kind {printable(kind.name)}; check its rates.")
    dims = {name: str(graph.attributes["dims"][name]) for name in _TERMS if name in graph.attributes["dims"]}
    steps = Steps(dims, np.array(sizes), np.array(slots), seconds, np.array(port), in_flight)
    return FlowInstance(
        f"{graph.name}, {devices}",
        layers.stack.layers,
        names,
        np.array(devices.sequence),
        np.zeros((len(slots), layers.stack.layers + 1)) if decodes else _of_full_steps(steps),
        _rates(devices, bandwidth, layers.passed),
        steps=steps if decodes else None,
    )


def sizes_of_steps(batch: int) -> list[int]:
    """Batch sizes for which step times are computed: all to 32, then 16 for each doubling, and the largest.

    Examples
    --------
    >>> sizes_of_steps(40)[30:]
    [31, 32, 34, 36, 38, 40]
    """
    sizes = {min(batch, (2**e * x) // 16) for e in range(batch.bit_length() + 1) for x in range(16, 32)}
    return sorted(sizes)


def _of_full_steps(steps: Steps) -> FloatArray:
    """(T, L + 1) prompts per second on a device of each kind with 0 … L layers, if each step is full."""
    rates = np.where(steps.sizes == steps.slots[:, :, None], steps.sizes / steps.seconds, 0.0).max(axis=2)
    capacity: FloatArray = np.minimum(rates, steps.port[:, None])
    return capacity


def _rates(devices: Machines, bandwidth: float, passed: float) -> FloatArray:
    """(n + 2, n + 2) sequences per second of links between devices, the source and the sink."""
    port = [_port(kind, bandwidth) for kind in devices.kinds]
    kinds = range(len(port))
    between = [[min(port[s], port[t]) for t in kinds] for s in kinds]
    if devices.rates is not None:
        between = [[min(between[s][t], devices.rates[s][t]) for t in kinds] for s in kinds]
    sequence, n = list(devices.sequence), devices.total
    rates = np.zeros((n + 2, n + 2))
    rates[:n, :n] = np.array([[_sent(rate, passed) for rate in row] for row in between])[np.ix_(sequence, sequence)]
    np.fill_diagonal(rates, 0.0)
    rates[n, :n] = rates[:n, n + 1] = np.array([_sent(rate, passed) for rate in port])[sequence]
    return rates


def _port(kind: Kind, bandwidth: float) -> float:
    return bandwidth if kind.bandwidth is None else kind.bandwidth


def _sent(rate: float, passed: float) -> float:
    """Sequences per second that a link carries; for a link without a limit, a number that no device reaches."""
    return min(rate / passed, 1e15) if passed > 0 else 1e15


def _by_unit(row: FloatArray, stack: LayerStack) -> FloatArray:
    """(L,) sums over the nodes of each layer."""
    return np.bincount(stack.unit, row, stack.layers + 2)[1:-1].astype(np.float64)


def _heaviest(numbers: FloatArray, c: int) -> float:
    """Largest sum of c consecutive numbers."""
    total = np.concatenate(([0.0], np.cumsum(numbers)))
    return float((total[c:] - total[:-c]).max())


def _most_passed(graph: ComputationGraph, stack: LayerStack) -> float:
    """Largest number of bytes that pass into or out of a layer."""
    tensors, unit = graph.tensors, stack.unit
    last = np.zeros(len(tensors.bytes), dtype=np.int64)
    np.maximum.at(last, graph.edge_tensor, unit[tensors.consumers])
    passing = [tensors.bytes[(unit[tensors.producer] <= i) & (last > i)].sum() for i in range(stack.layers + 1)]
    return float(max(passing))
