"""Networks and random families of the placement study, and groups of their nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from instances.architectures import ARCHITECTURES, Architecture
from instances.architectures.recurrent import gnmt
from instances.devices import Device
from instances.errors import InputError, find
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import IntArray
from instances.graph.views import depths, merge_graph, node_layers

# Families of training steps to place: translation, image classification, language modelling.
#
# Placeto (Addanki et al., NeurIPS 2019) learns on such families. Its graphs were measured with TensorFlow; these are
# made from the shapes of the networks alone. A node is a group of operators. Its work is its operations over `FLOPS`
# and an overhead of `OVERHEAD`. Weights are nodes without work, so that a layer on several devices pays for sending
# them. Each forward node has a gradient node with twice its work that reads what the forward node has computed and the
# gradients of its readers; it sends each forward node that was read a gradient of the size of what that node has sent.
# As a simplification, gradient nodes do not read weights.
#
# Use them with `BANDWIDTH`. The attribute ``lane`` says where an expert puts each node: on device ``lane`` mod k.


#: Bytes per second between devices, that of Placeto's simulator.
BANDWIDTH = 7.6e9
#: Operations per second of a device.
FLOPS = 2e12
#: Seconds that each node takes besides its operations.
OVERHEAD = 20e-6

#: Seeds of the graphs to train on, to choose with, to test on, and of larger ones to test on; no graph is there twice.
SPLITS = {"train": range(8), "validation": range(538, 546), "test": range(1058, 1074), "large": range(2000, 2016)}

_FLOAT = 4  # bytes
#: Digits of a seed, and characters from which a name is no path.
_SEED_DIGITS, _LONG = 18, 100
_ENAS = "Pham et al., Efficient neural architecture search via parameter sharing, ICML 2018"


@dataclass(frozen=True)
class PlacementFamily:
    """Similar graphs, one for each seed."""

    name: str  # to ask for
    summary: str  # one line
    reference: str  # where the networks come from
    # ``network(step, rng, large)`` records a random member.
    network: Callable[[_TrainingStep, np.random.Generator, bool], None]

    def graph(self, seed: int, *, large: bool = False) -> ComputationGraph:
        """The graph of a seed, with about 60 to 110 nodes, or 130 to 250 if `large`."""
        step = _TrainingStep()
        self.network(step, np.random.default_rng(seed), large)
        return step.graph(f"{self.name}-{seed}", f"family {self.name}, seed {seed}")

    def split(self, split: str) -> list[ComputationGraph]:
        """The graphs of a split of `SPLITS`: 8 to train, 8 to validate, 16 to test, 16 larger ones.

        Raises
        ------
        InputError
            If there is no such split.
        """
        return [self.graph(seed, large=split == "large") for seed in find(SPLITS, split, "split")]


class _TrainingStep:
    """Records forward nodes and weights, and adds the gradients."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.work: list[float] = []
        self.elements: list[float] = []
        self.lanes: list[int] = []
        self.reads: list[list[int]] = []

    def weights(self, name: str, elements: float, lane: int = 0) -> int:
        """Record weights; returns the node."""
        return self._record(name, 0.0, elements, [], lane)

    def node(self, name: str, flops: float, elements: float, reads: Sequence[int], lane: int = 0) -> int:
        """Record a forward node with `elements` output elements; return the node."""
        return self._record(name, flops / FLOPS + OVERHEAD, elements, reads, lane)

    def _record(self, name: str, work: float, elements: float, reads: Sequence[int], lane: int) -> int:
        self.names.append(name)
        self.work.append(work)
        self.elements.append(elements)
        self.lanes.append(lane)
        self.reads.append(list(dict.fromkeys(reads)))
        return len(self.names) - 1

    def graph(self, name: str, source: str) -> ComputationGraph:
        """Forward nodes, then their gradients in reverse."""
        n = len(self.names)
        forward = [v for v in range(n) if self.work[v] > 0]
        gradient = {v: n + i for i, v in enumerate(reversed(forward))}
        edges = [(u, v, 0) for v in range(n) for u in self.reads[v]]
        sizes = [[_FLOAT * elements] for elements in self.elements]
        for v, back in gradient.items():
            edges.append((v, back, 0))
            differentiated = [u for u in self.reads[v] if u in gradient]
            edges += [(back, gradient[u], output) for output, u in enumerate(differentiated)]
            sizes.append([_FLOAT * self.elements[u] for u in differentiated])
        return ComputationGraph.from_edges(
            edges,
            self.work + [2 * self.work[v] for v in gradient],
            sizes,
            names=(*self.names, *(f"backward.{self.names[v]}" for v in gradient)),
            name=name,
            source=source,
            attributes={"lane": self.lanes + [self.lanes[v] for v in gradient], "training": True},
        )


def _nmt(step: _TrainingStep, rng: np.random.Generator, large: bool) -> None:
    """Encoder and decoder of LSTM layers, unrolled into chunks of two steps, attention and softmax per chunk."""
    layers = int(rng.integers(2, 4))
    smallest, largest = {(2, False): (4, 6), (3, False): (3, 4), (2, True): (10, 12), (3, True): (9, 12)}[layers, large]
    chunks = int(rng.integers(smallest, largest + 1))
    batch, hidden, vocabulary = (int(rng.choice(x)) for x in ((32, 64, 96, 128), (512, 1024), (8192, 16384, 32768)))
    rows = 2 * batch  # two steps of each sentence
    cell, top = 16 * rows * hidden**2, layers - 1

    def recurrent(part: str, before: Sequence[int | None]) -> list[list[int]]:
        """The grid of LSTM nodes of encoder or decoder, by layer and chunk; `before` hold the initial states."""
        inputs = [step.node(f"{part}.embedding.{t}", 0, rows * hidden, []) for t in range(chunks)]
        grid = []
        for layer, last in enumerate(before):
            weights = step.weights(f"{part}.{layer}.weights", 8 * hidden**2, layer)
            for t in range(chunks):
                reads = [u for u in (weights, inputs[t], last) if u is not None]
                last = inputs[t] = step.node(f"{part}.{layer}.{t}", cell, rows * hidden, reads, layer)
            grid.append(list(inputs))
        return grid

    encoder = recurrent("encoder", [None] * layers)
    memory = step.node("memory", 0, chunks * rows * hidden, encoder[top], top)
    decoder = recurrent("decoder", [row[-1] for row in encoder])
    weights = step.weights("softmax.weights", hidden * vocabulary, top)
    for t in range(chunks):
        scores = 4 * rows * 2 * chunks * hidden  # of each position with each, and the weighted sum
        context = step.node(
            f"attention.{t}", scores + 4 * rows * hidden**2, rows * hidden, [decoder[top][t], memory], top
        )
        step.node(f"softmax.{t}", 2 * rows * hidden * vocabulary, rows, [context, weights], top)


def _ptb(step: _TrainingStep, rng: np.random.Generator, large: bool) -> None:
    """A random recurrent cell, a tree of six nodes, unrolled into chunks of four steps, a softmax per chunk."""
    cell_nodes, chunks, vocabulary = 6, 7 if large else 3, 10000
    batch, hidden = int(rng.choice((32, 64, 128))), int(rng.choice((512, 768, 1024)))
    rows = 4 * batch
    parent = [int(rng.integers(i)) for i in range(1, cell_nodes)]
    leaves = [i for i in range(cell_nodes) if i not in parent]
    weights = [step.weights(f"{i}.weights", 2 * hidden**2) for i in range(cell_nodes)]
    softmax = step.weights("softmax.weights", hidden * vocabulary, 1)
    state: list[int] = []
    for t in range(chunks):
        x = step.node(f"embedding.{t}", 0, rows * hidden, [])
        nodes: list[int] = []
        for i in range(cell_nodes):
            reads = [x, *state] if i == 0 else [nodes[parent[i - 1]]]
            nodes.append(step.node(f"{i}.{t}", 4 * rows * hidden**2, rows * hidden, [*reads, weights[i]]))
        mean = step.node(f"mean.{t}", len(leaves) * rows * hidden, rows * hidden, [nodes[i] for i in leaves])
        state = [mean]
        step.node(f"softmax.{t}", 2 * rows * hidden * vocabulary, rows, [mean, softmax], 1)


def _cifar10(step: _TrainingStep, rng: np.random.Generator, large: bool) -> None:
    """Random convolutional cells of five nodes with two inputs each; two of the cells halve the image."""
    cells, channels, image = 6 if large else 3, int(rng.choice((24, 36, 48))), 32
    batch = int(rng.choice((64, 128, 160)))
    normal, reducing = _random_cell(rng), _random_cell(rng)
    stem = step.node("stem", 54 * batch * image**2 * channels, batch * image**2 * channels, [])
    last, x = stem, stem
    for c in range(cells):
        reduces = c in (cells // 3, 2 * cells // 3)
        if reduces:
            channels, image = 2 * channels, image // 2
        pixels = batch * image**2
        fit = 2 * pixels * channels**2
        values = [step.node(f"{c}.fit{i}", fit, pixels * channels, [u]) for i, u in enumerate((last, x))]
        used: set[int] = set()
        for i, inputs in enumerate(reducing if reduces else normal):
            parts = []
            for j, (source, operation) in enumerate(inputs):
                used.add(source)
                u = values[source]
                if operation != "identity":
                    flops = pixels * channels * _flops_per_value(operation, channels)
                    u = step.node(f"{c}.{i}.{j}.{operation}", flops, pixels * channels, [u], i)
                parts.append(u)
            values.append(step.node(f"{c}.{i}.add", pixels * channels, pixels * channels, parts, i))
        loose = [value for source, value in enumerate(values) if source not in used]
        last, x = x, step.node(f"{c}.join", fit, pixels * channels, loose)
    step.node("head", 20 * batch * channels, 10 * batch, [x])


def _random_cell(rng: np.random.Generator) -> list[list[tuple[int, str]]]:
    """Two pairs of (earlier value, operation) for each of five nodes; values 0 and 1 are the inputs of the cell."""
    operations = ("separable3", "separable5", "average", "maximum", "identity")
    return [[(int(rng.integers(2 + i)), str(rng.choice(operations))) for _ in range(2)] for i in range(5)]


def _flops_per_value(operation: str, channels: int) -> float:
    """Operations for each value of the output; a separable convolution is applied twice."""
    match operation:
        case "separable3":
            return 2 * (2 * 3**2 + 2 * channels)
        case "separable5":
            return 2 * (2 * 5**2 + 2 * channels)
    return 3**2


_FAMILIES = (
    PlacementFamily(
        "nmt",
        "translation with 2 or 3 LSTM layers and attention",
        "Wu et al., Google's neural machine translation system, arXiv:1609.08144, 2016",
        _nmt,
    ),
    PlacementFamily("cifar10", "image classification with random convolutional cells", _ENAS, _cifar10),
    PlacementFamily("ptb", "language modelling with a random recurrent cell", _ENAS, _ptb),
)

#: Name to family.
PLACEMENT_FAMILIES = {family.name: family for family in _FAMILIES}


def family_graph(name: str) -> ComputationGraph | None:
    """The graph of a name such as nmt-7; None for a file, and for a name that does not begin with a family.

    Raises
    ------
    InputError
        If what follows is no seed.
    """
    family, dash, seed = name.partition("-")
    if not dash and family not in PLACEMENT_FAMILIES:
        family = family.rstrip("0123456789")
    if family not in PLACEMENT_FAMILIES:
        return None
    if seed.isascii() and seed.isdigit() and len(seed) <= _SEED_DIGITS:
        return PLACEMENT_FAMILIES[family].graph(int(seed))
    if len(name) < _LONG and Path(name).exists():
        return None
    digits = f"a whole number of at most {_SEED_DIGITS} digits, such as {family}-0"
    raise InputError(f"{name[:_LONG]}: '{family}-' needs a seed, {digits}.")


# Real networks to place, in training: those of Placeto's experiments, on a device of its time.


#: Device as fast as for the families, with the memory of a Tesla K80 [1/s, bytes/s].
_DEVICE = Device(peak_flops=FLOPS, memory_bandwidth=240e9)
_BATCH = 32


def _translation(layers: int) -> Architecture:
    """Translation network of few layers, as many as the paper has devices; unrolled into chunks of two steps."""
    return Architecture(
        f"nmt-{layers}-layers",
        f"translation with {layers} LSTM layers in encoder and decoder, attention",
        partial(gnmt, layers=layers, hidden=1024),
        {"batch": _BATCH, "sequence": 32, "chunks": 16},
        "Wu et al., Google's neural machine translation system, arXiv:1609.08144, 2016",
    )


_NETWORKS = (ARCHITECTURES["inception-v3"], ARCHITECTURES["nasnet-mobile"], _translation(2), _translation(4))

#: Name to architecture.
PLACEMENT_NETWORKS = {architecture.name: architecture for architecture in _NETWORKS}


def placement_network(name: str) -> ComputationGraph:
    """Operators of a training step with batch 32, to be grouped by `group_nodes` and used with `BANDWIDTH`.

    Raises
    ------
    InputError
        If there is no such network.
    """
    architecture = find(PLACEMENT_NETWORKS, name, "network to place")
    return architecture.build(training=True, device=_DEVICE, batch=_BATCH)


# Grouping of operators into single nodes, which makes a graph small enough to place.
#
# First, a node whose tensors are all read by one node joins it (the co-location of Mirhoseini et al., "Device placement
# optimization with reinforcement learning", ICML 2017), while the group stays light. Then small groups join a
# neighbour, from the smallest up, until as few are left as are wanted. Placeto does both; its thresholds are not known.
#
# The graph of the groups has no cycle. In the first step the only way out of a node leads to the node that it joins. In
# the second one, u and v are merged where v is one edge deeper than u; then no other way leads from u to v. As for
# pairs that are merged at the same time: each edge leads at least one edge deeper, and only a pair leads back, by one.
# So a cycle could only run through pairs of the same depth and from the upper node of one to the lower node of the
# next, and such pairs are never chosen together.


#: About as many groups as the graphs of Placeto have.
GROUPS = 150

#: Attributes with a number per node; a group takes that of its heaviest node.
_PER_NODE = ("lane", "layer")


@dataclass(frozen=True, eq=False)
class Grouping:
    """A graph of groups, and which group holds each node."""

    original: ComputationGraph
    graph: ComputationGraph  # of the groups; a group is called by the heaviest of its nodes
    group: IntArray  # (n,): node of `graph` that holds each node of `original`


def group_nodes(graph: ComputationGraph, groups: int = GROUPS) -> Grouping:
    """Merge nodes until at most `groups`, 1 or more, are left, or none has a neighbour.

    The attributes ``lane`` and ``layer`` (see `node_layers`) of a group are those of its heaviest node; other
    attributes are kept.
    """
    if graph.n <= groups:
        return Grouping(graph, graph, np.arange(graph.n))
    layered = replace(graph, attributes={**graph.attributes, "layer": node_layers(graph).tolist()})
    grouping = Grouping(graph, layered, np.arange(graph.n))
    share = float(graph.work.sum()) / groups
    for choose in (_only_readers, _light_neighbours):
        while grouping.graph.n > groups:
            joins = choose(grouping.graph, grouping.graph.n - groups, share)
            if not joins:
                break
            grouping = _join(grouping, joins)
    return grouping


def _only_readers(graph: ComputationGraph, limit: int, share: float) -> dict[int, int]:
    """Map from each node with a single reader to that reader, if both have at most `share` of the work."""
    start, successor = graph.successors
    work = graph.work
    joins: dict[int, int] = {}
    joined: set[int] = set()
    for u in graph.topological_order[::-1].tolist():
        readers = set(successor[start[u] : start[u + 1]].tolist())
        if len(readers) == 1 and len(joins) < limit:
            (v,) = readers
            if v not in joined and u not in joined and work[u] + work[v] <= share:
                joins[u] = v
                joined |= {u, v}
    return joins


def _light_neighbours(graph: ComputationGraph, limit: int, _share: float) -> dict[int, int]:
    """Map from the lightest nodes to the neighbour with which each exchanges most bytes."""
    depth = depths(graph.topological_order, *graph.predecessors)
    edges, first = np.unique(graph.edges, axis=0, return_inverse=True)
    size = np.bincount(first.ravel(), graph.tensors.bytes[graph.edge_tensor], minlength=len(edges))
    upper: dict[int, list[int]] = defaultdict(list)
    lower: dict[int, list[int]] = defaultdict(list)
    near: dict[int, list[tuple[float, float, int]]] = defaultdict(list)
    for (u, v), bytes_between in zip(edges.tolist(), size.tolist(), strict=True):
        if depth[v] == depth[u] + 1:
            upper[v].append(u)
            lower[u].append(v)
            near[u].append((-bytes_between, graph.work[v], v))
            near[v].append((-bytes_between, graph.work[u], u))
    joins: dict[int, int] = {}
    chosen_upper, chosen_lower = set[int](), set[int]()
    lightest = [v for v in np.argsort(graph.work, kind="stable").tolist() if near[v]]
    for v in lightest[: len(lightest) // 2]:  # what is merged comes back in the next round, with its new work
        if len(joins) == limit:
            break
        for _, _, w in sorted(near[v]):
            above, below = (v, w) if depth[v] < depth[w] else (w, v)
            free = not {above, below} & (chosen_upper | chosen_lower)
            if free and chosen_lower.isdisjoint(lower[above]) and chosen_upper.isdisjoint(upper[below]):
                joins[v] = w
                chosen_upper.add(above)
                chosen_lower.add(below)
                break
    return joins


def _join(grouping: Grouping, joins: dict[int, int]) -> Grouping:
    """Merge each key of `joins` into its value."""
    graph = grouping.graph
    label = np.arange(graph.n)
    label[list(joins)] = list(joins.values())
    _, label = np.unique(label, return_inverse=True)
    heaviest_last = np.argsort(graph.work, kind="stable")
    merged, heaviest = merge_graph(graph, label, heaviest_last)
    attributes = dict(graph.attributes)
    for name in attributes.keys() & _PER_NODE:
        attributes[name] = [attributes[name][v] for v in heaviest.tolist()]
    smaller = replace(merged, attributes=attributes)
    return Grouping(grouping.original, smaller, label[grouping.group])
