"""A graph as tensors, and message passing over it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from heuristics.placement.placeto.environment import PlacementArrays
from heuristics.placement.placeto.features import ANCESTOR, DESCENDANT, PARALLEL

#: Columns of what never changes about a node, and the number of sets around it.
STATIC, SETS = 4, 5


class GraphTensors(NamedTuple):
    """A question as tensors."""

    static: Tensor  # (n, 4): work and output in units of the mean work, place in the graph, 1
    down: Tensor  # (n, n): parents of each row, over the root of their number
    up: Tensor  # (n, n): the same of its children
    # (5, n, n): parents, children, ancestors, descendants and parallel nodes of each row; the last three over the root
    # of n.
    sets: Tensor
    everything: Tensor  # (n,): all nodes, over the root of n
    devices: int


@lru_cache(maxsize=256)
def tensors(question: PlacementArrays) -> GraphTensors:
    """Convert a question, once."""
    graph, relation = question.instance.graph, question.around.relation
    n = graph.n
    unit = graph.work.sum() / n
    outputs = np.bincount(graph.tensors.producer, question.instance.tensor_time, n)
    depth = (relation == ANCESTOR).sum(axis=1) / n
    static = np.column_stack((np.log1p(graph.work / unit), np.log1p(outputs / unit), depth, np.ones(n)))
    parents = np.zeros((n, n))
    parents[graph.edges[:, 1], graph.edges[:, 0]] = 1.0
    down, up = (a / np.sqrt(np.maximum(1.0, a.sum(axis=1, keepdims=True))) for a in (parents, parents.T))
    related = [(relation == kind) / np.sqrt(n) for kind in (ANCESTOR, DESCENDANT, PARALLEL)]
    sets, everything = np.stack((parents, parents.T, *related)), np.full(n, n**-0.5)
    arrays = {"static": static, "down": down, "up": up, "sets": sets, "everything": everything}
    made = {name: torch.as_tensor(array.copy(), dtype=torch.float32) for name, array in arrays.items()}
    return GraphTensors(**made, devices=question.instance.devices)


class Messages(nn.Module):
    """Rounds of message passing along the edges and against them, each with its own functions.

    Nodes come first in all tensors: messages are then one product of two large matrices.
    """

    def __init__(self, features: int, width: int, rounds: int) -> None:
        super().__init__()
        self.rounds = rounds
        self.transform = perceptron(features, width, width, width)
        self.send = nn.ModuleList(perceptron(width, width, width) for _ in range(2))
        self.receive = nn.ModuleList(perceptron(width, width, width) for _ in range(2))

    def forward(self, x: Tensor, graph: GraphTensors) -> Tensor:
        """(n, ..., 2 width) embeddings of nodes with features `x`, (n, ..., features)."""
        first = self.transform(x)
        ends = []
        for neighbours, send, receive in zip((graph.down, graph.up), self.send, self.receive, strict=True):
            h, has = first, (neighbours.sum(1) > 0).float().view(-1, *(1 for _ in x.shape[1:]))
            for _ in range(self.rounds):
                sent = (neighbours @ torch.relu(send(h)).flatten(1)).view_as(h)
                h = first + has * torch.relu(receive(sent))
            ends.append(h)
        return torch.cat(ends, -1)


def perceptron(*widths: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread; for matrices as small as these, more only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
