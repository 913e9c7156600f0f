"""The published network, complete, in PyTorch: it embeds the whole graph again in every step.

Sources: Addanki et al., NeurIPS 2019, Section 2.2 and Figure 3, and the features and widths of its released code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from heuristics.placement.placeto.checkpoints import Checkpoint
from heuristics.placement.placeto.environment import (
    ANCESTOR,
    DESCENDANT,
    PARALLEL,
    Environment,
    PlacementArrays,
    Scorer,
)
from instances.errors import InputError
from instances.graph.tensors import FloatArray

#: Arrays with a row per episode.
Observation = tuple[NDArray[Any], ...]

#: Rows that a gradient is computed of at once, whose tensors stay in the cache of a processor.
BATCH = 256
#: Largest option of a network in a file.
_MOST = 4096
#: Columns of a node that the network sees, besides its start and its device.
_NODE = 4
#: Nodes up to which it is offered: it relates all pairs of them, in each row of a batch.
_MOST_NODES = 2000


class GraphTensors(NamedTuple):
    """A question as tensors."""

    down: Tensor  # (n, n): parents of each row, over the root of their number
    up: Tensor  # (n, n): the same of its children
    sets: Tensor  # (3, n, n): ancestors, descendants and parallel nodes of each row, over the root of n
    everything: Tensor  # (n,): all nodes, over the root of n


@lru_cache(maxsize=256)
def tensors(question: PlacementArrays) -> GraphTensors:
    """Convert a question to tensors, which serve all its episodes."""
    graph = question.instance.graph
    n = graph.n
    parents = np.zeros((n, n))
    parents[graph.edges[:, 1], graph.edges[:, 0]] = 1.0
    down, up = (a / np.sqrt(np.maximum(1.0, a.sum(axis=1, keepdims=True))) for a in (parents, parents.T))
    sets = np.stack([(question.relation == kind) / np.sqrt(n) for kind in (ANCESTOR, DESCENDANT, PARALLEL)])
    arrays = (down, up, sets, np.full(n, n**-0.5))
    return GraphTensors(*(torch.as_tensor(array.copy(), dtype=torch.float32) for array in arrays))


class Placeto(nn.Module):
    """Logits of the devices for a node, from embeddings of it and of its ancestors, descendants and all others as sets.

    A set S contributes ``h(sum of l(x_u) over u in S)``, where h and l are two perceptrons for this set. All sums are
    divided by the root of their number of terms, since plain sums grow without limit. Perceptrons are as wide as in the
    released code.

    Parameters
    ----------
    devices : int
        Number of devices, which is fixed.
    width : int
        Width of an embedding in each direction; 0 for the number of features of a node.
    rounds : int
        Rounds of message passing; 0 is the ablation "partitioner".
    pooled : bool
        Whether there is a sum for each of the three sets; otherwise, the ablation "aggregator".
    outer : bool
        Whether sums pass the functions h; otherwise, they are used as they are.
    timed : bool
        Whether features of nodes contain their starts, as in the released code, but not in the text of the paper.

    Attributes
    ----------
    options : dict
        Arguments of the constructor.
    """

    def __init__(
        self,
        devices: int,
        width: int = 0,
        rounds: int = 8,
        pooled: bool = True,
        outer: bool = True,
        timed: bool = True,
    ) -> None:
        super().__init__()
        self.options: dict[str, Any] = {"devices": devices, "width": width, "rounds": rounds}
        self.options |= {"pooled": pooled, "outer": outer, "timed": timed}
        self.pooled, self.timed = pooled, timed
        features, sets = _NODE + timed + devices, 3 if pooled else 1
        width = width or features
        pair = 2 * width
        self.messages = Messages(features, width, rounds)
        self.inner = nn.ModuleList(perceptron(pair, pair, pair) for _ in range(sets))
        self.outer = nn.ModuleList(perceptron(pair, pair, pair) if outer else nn.Identity() for _ in range(sets))
        head_width = (1 + sets) * pair
        self.head = perceptron(head_width, 2 * head_width, head_width, devices)

    def context(self, question: PlacementArrays) -> GraphTensors:
        """Tensors of the graph that stay the same during its episodes.

        Raises
        ------
        InputError
            If the question has too many nodes, or another number of devices.
        """
        n, devices = question.instance.graph.n, self.options["devices"]
        if n > _MOST_NODES:
            raise InputError(f"The published network takes graphs of at most {_MOST_NODES} nodes, not {n}; use groups.")
        if question.instance.devices != devices:
            raise InputError(f"The network places on {devices} devices, not on {question.instance.devices}.")
        return tensors(question)

    def observe(self, environment: Environment) -> Observation:
        """A copy of the data of this step that change from step to step; the rest is in `context`.

        (e,) current node, and (e, n, features): cost, output, visited, current, start after this node, device.
        """
        graph, node = environment.question.instance.graph, environment.node
        visited = np.zeros(graph.n)
        visited[environment.order[: environment.step]] = 1.0
        current = np.zeros(graph.n)
        current[node] = 1.0
        outputs = np.bincount(graph.tensors.producer, graph.tensors.bytes, graph.n)
        fixed = np.column_stack((environment.question.instance.work, outputs, visited, current))
        after = (environment.begin - environment.begin[:, [node]])[..., None]
        device = environment.place[..., None] == np.arange(environment.question.instance.devices)
        columns = [np.broadcast_to(fixed, (*environment.place.shape, _NODE)), *([after] if self.timed else []), device]
        x = np.concatenate(columns, axis=2)
        x = x / np.maximum(np.abs(x).max(axis=1, keepdims=True), 1e-12)
        return np.full(len(x), node), x.astype(np.float32)

    def forward(self, context: GraphTensors, observation: Observation) -> Tensor:
        """(R, k) logits for R observations of episodes on one question, after a new embedding of each."""
        graph, (node, x) = context, map(torch.as_tensor, observation)
        h = self.messages(x.transpose(0, 1).contiguous(), graph)  # (n, R, 2 width)
        local = h[node, torch.arange(len(node))]
        sets = graph.sets[:, node] if self.pooled else graph.everything.expand(1, len(node), -1)
        pooled = [
            outer(torch.einsum("rn,nrw->rw", mask, inner(h)))
            for mask, inner, outer in zip(sets, self.inner, self.outer, strict=True)
        ]
        return self.head(torch.cat((local, *pooled), 1))


class Messages(nn.Module):
    """Rounds of message passing along the edges and against them, each with its own functions.

    The paper has ``x_v <- g(sum of f(x_u) over neighbours u)``. Here a round adds that to the node's own embedding
    before the first round, ``h_v = x_v + g(sum of f(h_u))``: plainly, a node without parents, or children, would keep
    nothing of its features, and after eight rounds no node would see its own.

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
    """Let PyTorch use a single thread, which is fastest for matrices this small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def create(seed: int, **options: Any) -> Placeto:
    """A network with random weights; options are arguments of its class."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Placeto(**options)


def capture(network: Placeto, **about: Any) -> Checkpoint:
    """Copy the current weights of a network into a checkpoint, with a text on their origin."""
    return Checkpoint(network.options, {k: w.numpy().copy() for k, w in network.state_dict().items()}, about)


def restore(checkpoint: Checkpoint) -> Placeto:
    """The network of a checkpoint, for further training.

    Raises
    ------
    InputError
        If its options or weights do not fit together.
    """
    shapes = {name: weight.shape for name, weight in checkpoint.weights.items()}
    try:
        if not all(type(value) in (bool, int) and 0 <= value <= _MOST for value in checkpoint.options.values()):
            raise ValueError("an option is no small whole number")
        with torch.device("meta"):  # which takes no memory, whatever the options say
            expected = create(0, **checkpoint.options).state_dict()
        if shapes != {name: tuple(weight.shape) for name, weight in expected.items()}:
            raise ValueError("the weights have other shapes")
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"The checkpoint is damaged ({error}); train one again.") from None
    network = create(0, **checkpoint.options)
    network.load_state_dict({name: torch.as_tensor(weight) for name, weight in checkpoint.weights.items()})
    return network


def scorer(network: Placeto) -> Scorer:
    """The network as a function for `play_episodes`."""
    contexts: dict[PlacementArrays, GraphTensors] = {}

    def score(environments: Sequence[Environment]) -> list[FloatArray]:
        with torch.no_grad(), one_thread():
            for question in {environment.question for environment in environments} - contexts.keys():
                contexts[question] = network.context(question)
            return observe_and_score(network, contexts, environments)[1]

    return score


def observe_and_score(
    network: Placeto, contexts: Mapping[PlacementArrays, GraphTensors], environments: Sequence[Environment]
) -> tuple[list[Observation], list[FloatArray]]:
    """Return the network's observation of each environment, and its logits."""
    observations = [network.observe(environment) for environment in environments]
    logits = [network(contexts[e.question], rows).numpy() for e, rows in zip(environments, observations, strict=True)]
    return observations, logits
