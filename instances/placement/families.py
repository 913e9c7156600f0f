"""Families of training steps to place: translation, image classification, language modelling.

Placeto (Addanki et al., NeurIPS 2019) learns on such families. Its graphs were measured with TensorFlow; these are
made from the shapes of the networks alone. A node is a group of operators. Its work is its operations over `FLOPS`
and an overhead of `OVERHEAD`. Weights are nodes without work, so that a layer on several devices pays for sending
them. Each forward node has a gradient node with twice its work that reads what the forward node has computed and the
gradients of its readers; it sends each forward node that was read a gradient of the size of what that node has sent.
As a simplification, gradient nodes do not read weights.

Use them with `BANDWIDTH`. The attribute ``lane`` says where an expert puts each node: on device ``lane`` mod k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.registry import find

__all__ = ["BANDWIDTH", "FLOPS", "OVERHEAD", "PLACEMENT_FAMILIES", "SPLITS", "PlacementFamily", "family_graph"]

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
        """The graphs of one of `SPLITS`: 8 to train, 8 to validate, 16 to test, 16 larger ones.

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
        """Record a forward node whose output has so many elements; return the node."""
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
        """The grid of one half, by layer and chunk; `before` are the nodes that hold its initial states."""
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
            made = []
            for j, (source, operation) in enumerate(inputs):
                used.add(source)
                u = values[source]
                if operation != "identity":
                    flops = pixels * channels * _flops_per_value(operation, channels)
                    u = step.node(f"{c}.{i}.{j}.{operation}", flops, pixels * channels, [u], i)
                made.append(u)
            values.append(step.node(f"{c}.{i}.add", pixels * channels, pixels * channels, made, i))
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


_ALL = (
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
PLACEMENT_FAMILIES = {family.name: family for family in _ALL}


def family_graph(name: str) -> ComputationGraph | None:
    """The graph of a name such as nmt-7; None for what is a file, or does not begin with a family and a dash.

    Raises
    ------
    InputError
        If what follows is no seed.
    """
    family, dash, seed = name.partition("-")
    if family not in PLACEMENT_FAMILIES or not dash:
        return None
    if seed.isascii() and seed.isdigit() and len(seed) <= _SEED_DIGITS:
        return PLACEMENT_FAMILIES[family].graph(int(seed))
    if len(name) < _LONG and Path(name).exists():
        return None
    digits = f"a whole number of at most {_SEED_DIGITS} digits, such as {family}-0"
    raise InputError(f"{name[:_LONG]}: '{family}-' needs a seed, {digits}.")
