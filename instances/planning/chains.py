"""Chains of layers from graphs, for BERT and from profiles of Piper; clusters and sweeps of the SPP paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from instances.devices import Cluster, Device
from instances.errors import InputError, check_one_of
from instances.graph.graph import ComputationGraph, numbers
from instances.graph.tensors import FloatArray, IntArray
from instances.graph.views import parameters_by
from instances.json_files import Value, read_json
from instances.planning.grid.configurations import FULL, NONE, Configuration, ConfiguredChain, ConfiguredLayer
from instances.planning.problem import LayerChain, TrainingInstance
from instances.readers import load_graph
from instances.readers.parsing import json_amount, seconds
from instances.readers.profiles import read_piper

# Conversion of a computation graph to a chain of layers.


#: Tensors count when they hold this part of the bytes that cross, and compete within this part of the graph.
_COUNTS, _NEIGHBOURHOOD = 0.01, 0.05


def collapse(graph: ComputationGraph, backward: ArrayLike | None = None, *, trained_only: bool = False) -> LayerChain:
    """Collapse the graph of a forward pass into a chain.

    The nodes are ordered such that each comes as late as its readers allow: by the number of edges on the longest path
    to the end, the larger ones first, then by index. A layer ends wherever no place nearby, a twentieth of the graph to
    both sides, is crossed by fewer tensors; one with less than a hundredth of the bytes that cross does not count. So
    parallel branches become one layer, as in the paper, while a tensor that passes by all layers, such as the output of
    an encoder, joins none of them. Nodes without time join the layer after them.

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
    untrained = graph.attributes.get("not_trained")
    if trained_only and isinstance(untrained, list):
        trained = tuple(parameter for parameter in graph.parameters if parameter.name not in untrained)
        graph = replace(graph, parameters=trained)
    times = 2 * graph.work if backward is None else numbers(backward, "backward")
    if len(times) != graph.n:
        raise InputError(f"There are {graph.n} nodes but {len(times)} backward times; give one a node.")
    order = latest_order(graph)
    position = np.empty(graph.n, dtype=np.int64)
    position[order] = np.arange(graph.n)
    total, count = _crossing(graph, position)
    reach = 2 * int(_NEIGHBOURHOOD * graph.n) + 1
    import scipy

    fewest = scipy.ndimage.minimum_filter1d(count[1:], reach, mode="nearest") if graph.n > 1 else count[1:]
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
        source="; ".join([graph.source, *_assumptions(graph, layer)]),
    )


def _assumptions(graph: ComputationGraph, layer: IntArray) -> Iterator[str]:
    """Yield assumptions behind the costs of the layers."""
    if any("attention" in name and name.endswith("softmax") for name in graph.names):
        yield "attention is unfused"
    names: dict[int, list[str]] = {}  # by the number of layers
    for parameter in graph.parameters:
        names.setdefault(len(set(layer[list(parameter.users)].tolist())), []).append(parameter.name)
    for count, (first, *others) in names.items():
        if count > 1:
            text = f"{1 + len(others)} parameters such as {first} count" if others else f"{first} counts"
            yield f"{text} in each of {count} layers"


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
    """Name of a layer's block, as in `by_block`; a merged layer is in the block of its first or its last layer."""
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
    """(n,) bytes that cross each place of an order, and number of tensors with at least 1 % of these bytes.

    A tensor crosses a place if it is made before it and read at it or behind it.
    """
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


# BERT as a chain of layers, priced analytically.


_ELEMENT_BYTES = 4
_VOCABULARY, _POSITIONS, _SEGMENTS = 30522, 512, 2
_HIDDEN, _HEADS = 1024, 16  # of BERT-large


def bert_chain(
    layers: int = 24,
    *,
    microbatch: int = 6,
    sequence: int = 384,
    flops: float = 6e12,
    activation_scale: float = 1.0,
) -> LayerChain:
    r"""BERT-large with any number of transformer layers: embedding, `layers` transformer layers, pooler, head.

    With h = 1024 and s tokens, a transformer layer has :math:`12 h^2 + 13 h` parameters and takes, for a sample,
    :math:`24 s h^2 + 4 s^2 h` operations; its backward pass takes twice as long. Until then it keeps
    :math:`66 s h + 9 a s^2` bytes, a = 16 heads: the count of Korthikanti et al. (2022) with elements of 4 bytes.
    The embedding is a lookup, the pooler a dense layer on one token, the head marks the spans of answers (SQuAD).

    Parameters
    ----------
    layers : int
        Transformer layers.
    microbatch : int
        Samples of a microbatch.
    sequence : int
        Tokens of a sample.
    flops : float
        Operations a second that a device sustains. The profile of the paper is not published; the default makes an
        iteration take about as long as there.
    activation_scale : float
        Factor of all bytes between layers (Fig. 10).

    Returns
    -------
    LayerChain
        Chain of `layers` + 3 layers.

    Raises
    ------
    InputError
        If a value is not positive.

    Examples
    --------
    >>> chain = bert_chain()
    >>> chain.n, round(chain.param_bytes.sum() / 4e6)
    (27, 335)
    """
    sizes = {"layers": layers, "microbatch": microbatch, "sequence": sequence, "flops": flops}
    for label, value in sizes.items():
        if not value > 0:
            raise InputError(f"bert_chain: {label} is {value}; it must be positive.")
    hidden, heads = _HIDDEN, _HEADS
    body = 24 * sequence * hidden**2 + 4 * sequence**2 * hidden
    operations = [5 * sequence * hidden, *[body] * layers, 2 * hidden**2, 4 * sequence * hidden]
    parameters = [
        (_VOCABULARY + _POSITIONS + _SEGMENTS + 2) * hidden,
        *[12 * hidden**2 + 13 * hidden] * layers,
        hidden**2 + hidden,
        2 * hidden + 2,
    ]
    output = _ELEMENT_BYTES * sequence * hidden
    stored = [output, *[66 * sequence * hidden + 9 * heads * sequence**2] * layers, output, output]
    forward = np.array(operations) * microbatch / flops
    between = np.full(layers + 2, output * microbatch * activation_scale)
    return LayerChain(
        forward=forward,
        backward=2 * forward,
        forward_bytes=between,
        backward_bytes=between,
        param_bytes=np.array(parameters) * _ELEMENT_BYTES,
        stored_bytes=np.array(stored) * microbatch,
        names=("embedding", *(f"encoder.{layer}" for layer in range(layers)), "pooler", "head"),
        name=f"bert-{layers}",
        source=f"analytic; microbatch {microbatch}, sequence {sequence}, {flops:g} flop/s, activations x "
        f"{activation_scale:g}",
    )


# The clusters and questions of the paper's experiments (SPP, Section V).


#: Bytes a second of 1 Gbps.
GBPS = 1.25e8

#: Devices of each server in the simulation.
SERVERS = (4,) * 8

_PCIE, _NVLINK, _RDMA = (96.0, 128.0), (160.0, 200.0), (32.0, 40.0)
_MICROBATCHES = 32

#: The sweeps of Figures 6 to 10: by figure, the parameter of `simulation` and its values.
SWEEPS: dict[str, tuple[str, tuple[object, ...]]] = {
    "6": ("microbatches", (8, 16, 32, 64, 128)),
    "7": ("between", ((8.0, 10.0), (16.0, 20.0), _RDMA, (64.0, 80.0))),
    "8": ("servers", (SERVERS, (2,) * 16, (8,) * 4, (4,) * 4 + (8,) * 2, (2,) * 6 + (4,) * 3 + (8,))),
    "9": ("layers", (24, 48, 72)),
    "10": ("activation_scale", (1.0, 2.0, 4.0, 8.0, 16.0)),
}

#: Sustained speed of the devices: half of their peak in single precision, and their memory bandwidth.
_DEVICES = {"1080ti-8": Device(5.7e12, 484e9), "v100-4": Device(7.8e12, 900e9)}

#: Memory of a device of each testbed [bytes].
DEVICE_MEMORY = {"1080ti-8": 11 * 2**30, "v100-4": 16 * 2**30}


def simulation(
    seed: int,
    *,
    microbatches: int = _MICROBATCHES,
    between: tuple[float, float] = _RDMA,
    servers: Sequence[int] = SERVERS,
    layers: int = 24,
    activation_scale: float = 1.0,
) -> TrainingInstance:
    """The simulated training of Section V-B: BERT on servers with a random interconnect.

    Parameters
    ----------
    seed : int
        Seed of the random cluster.
    between, servers
        As for `random_cluster`.
    layers, activation_scale
        As for `bert_chain`.
    """
    cluster = random_cluster(np.random.default_rng(seed), servers, between)
    return TrainingInstance(bert_chain(layers, activation_scale=activation_scale), cluster, microbatches)


def random_cluster(
    rng: np.random.Generator, servers: Sequence[int] = SERVERS, between: tuple[float, float] = _RDMA
) -> Cluster:
    """Cluster of the paper's simulation.

    Three of eight servers have PCIe, with one bandwidth each from 96 to 128 Gbps, the others NVLink, 160 to 200 Gbps.
    The paper does not say which three: here the first ones, and of other numbers of servers three eighths, rounded.

    Parameters
    ----------
    servers : sequence of int
        Devices of each server.
    between : (float, float)
        Range of the one bandwidth between each two servers [Gbps].
    """
    count = len(servers)
    slow = round(3 * count / 8)
    within = np.concatenate((rng.uniform(*_PCIE, slow), rng.uniform(*_NVLINK, count - slow)))
    upper = np.triu(rng.uniform(*between, (count, count)), 1)
    return Cluster.of_servers(servers, within * GBPS, (upper + upper.T) * GBPS, name="+".join(map(str, servers)))


#: The testbeds of Section V-A; within the servers of the first one, whose links the paper does not give, PCIe as well.
TESTBEDS: dict[str, Callable[[], Cluster]] = {
    "1080ti-8": partial(Cluster.of_servers, (2,) * 4, 128 * GBPS, 50 * GBPS, "1080ti-8"),
    "v100-4": partial(Cluster.of_servers, (4,), 128 * GBPS, name="v100-4"),
}


@dataclass(frozen=True)
class TrainedModel:
    """A model of Table II: its layers are blocks of a parametric architecture, scaled to the table's parameters."""

    name: str  # of the architecture
    parameters: float  # numbers in all
    microbatches: int
    samples: Mapping[str, int]  # of a microbatch on each testbed
    dims: Mapping[str, int]  # further dimensions of the architecture

    def instance(self, testbed: str) -> TrainingInstance:
        """The training of this model on a testbed.

        Raises
        ------
        InputError
            If there is no such testbed.
        """
        check_one_of("testbed", testbed, TESTBEDS)
        graph = load_graph(self.name, dims={**self.dims, "batch": self.samples[testbed]}, device=_DEVICES[testbed])
        chain = by_block(collapse(graph))
        scale = self.parameters * _ELEMENT_BYTES / chain.param_bytes.sum()
        chain = replace(chain, param_bytes=chain.param_bytes * scale)
        return TrainingInstance(chain, TESTBEDS[testbed](), self.microbatches)


def _trained(name: str, millions: float, microbatches: int, samples: int, v100: int = 0, **dims: int) -> TrainedModel:
    per_testbed = {"1080ti-8": samples, "v100-4": v100 or samples}
    return TrainedModel(name, 1e6 * millions, microbatches, per_testbed, dims)


#: Table II, by name; sequences are those of SQuAD's usual training.
TRAINED_MODELS: dict[str, TrainedModel] = {
    model.name: model
    for model in (
        _trained("vgg19", 144, 8, 32),
        _trained("resnet152", 60, 4, 4),
        _trained("inception-v3", 24, 8, 32),
        _trained("transformer-base", 55, 8, 32, sequence=384),
        _trained("bert-large", 340, 4, 4, sequence=384),
        _trained("xlnet-large", 550, 4, 4, sequence=384),
        _trained("bert-48", 640, 4, 4, 2, sequence=384),
    )
}


# Piper's workloads as layers with configurations; `instances.readers.profiles` has the format.
#
# ``vanilla`` recomputes nothing, ``activation recomp`` everything. A third of ``timePerSample``, which is that of a
# microbatch, is the forward pass. ``parameterSize`` are numbers of 32 bits. ``memoryUsageA`` is stored for each
# microbatch; ``memoryUsageB`` are weights and gradients, which the question knows here, and what a layer works with
# while it recomputes. A stage sends ``communicationCost``, and the largest ``syncTimeBw`` of its tensor degree beside
# it.


_MODES = {"vanilla": NONE, "activation recomp": FULL}
_NUMBERS = ("timePerSample", "parameterSize", "memoryUsageA", "memoryUsageB")
_NUMBER_BYTES = 4
_FORWARD = 1 / 3  # of both passes, as a backward pass has two products for each one of a forward pass

#: Degree and id of a way to run a node.
_Way = tuple[int, str]


def configured_from_piper(path: str | Path, time_unit: str = "s") -> ConfiguredChain:
    """Read a chain with all tensor degrees from a profile of Piper; nodes without time join the layer after them.

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
    for node, node_ways in zip(nodes, ways, strict=True):
        for degree, way in ways[0].keys() ^ node_ways.keys():
            node.fail(f"'{way}' of degree {degree} is not there for all nodes; measure it, or leave it out of all.")
    order = latest_order(graph)
    ends = 1 + np.flatnonzero(graph.work[order])
    ends[-1:] = graph.n
    layers = []
    for end, inside in zip(ends.tolist(), np.split(order, ends[:-1]), strict=True):
        name = graph.names[inside[graph.work[inside].argmax()]]
        sums = {way: np.sum([ways[v][way] for v in inside], axis=0) for way in ways[0]}
        sent = {degree: _sent(graph, order, end, [node[degree, "vanilla"][-1] for node in ways]) for degree, _ in sums}
        configurations = tuple(_configuration(way, sums, sent[way[0]], unit) for way in sums)
        layers.append(ConfiguredLayer(name, name, configurations))
    source = f"workload {Path(path).name}, times in {time_unit}"
    return ConfiguredChain(tuple(layers), name=graph.name, source=source, dtype="fp32")


def _ways_of(node: Value) -> dict[_Way, list[float]]:
    """Costs of a node by (tensor degree, mode of recomputation); the last one is the bytes that ranks gather."""
    numbers_by_way = {}
    for degree, items in node.open_members(()).items():
        if not degree.isdecimal() or int(degree) < 1:
            items.fail("a tensor degree is a whole number, 1 or more.")
        for item in items.items():
            members = item.open_members(("id", *_NUMBERS, "syncTimeBw"))
            way = members["id"].one_of(_MODES)
            joined = max(map(json_amount, members["syncTimeBw"].open_members(()).values()), default=0.0)
            numbers_by_way[int(degree), way] = [*(json_amount(members[name]) for name in _NUMBERS), joined]
        if (int(degree), "vanilla") not in numbers_by_way:
            items.fail("there is no configuration 'vanilla'.")
    return numbers_by_way


def _sent(graph: ComputationGraph, order: IntArray, end: int, joined: list[float]) -> float:
    """Bytes of tensors that pass from the first `end` nodes of an order to later ones; each counts once."""
    behind, tensors = np.zeros(graph.n, dtype=bool), graph.tensors
    behind[order[end:]] = True
    sizes = [
        size / 2 + joined[u]
        for u, size, i, j in zip(tensors.producer, tensors.bytes, tensors.start, tensors.start[1:], strict=False)
        if not behind[u] and behind[tensors.consumers[i:j]].any()
    ]
    return sum(sizes)


def _configuration(way: _Way, sums: dict[_Way, np.ndarray], sent: float, unit: float) -> Configuration:
    """A configuration of a merged layer: `sums` of the costs of its nodes, `sent` bytes, `unit` seconds."""
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
