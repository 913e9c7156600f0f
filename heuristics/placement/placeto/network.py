"""The published network of Placeto, complete, and its learned rival, in PyTorch.

The network of Placeto embeds the whole graph again in every step. Sources: Addanki et al., NeurIPS 2019, Section 2.2
and Figure 3, and the features and widths of its released code.

The rival is a recurrent planner that emits all devices at once (Mirhoseini et al., ICML 2017). A bidirectional LSTM
reads the nodes in a topological order; an LSTM with attention emits a device for each. The rows of the adjacency
matrix, which tie the published one to a single graph, are replaced by waves over the depth of a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    relations,
)
from heuristics.placement.simulator import penalised_times
from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

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


_WAVES = 8


class Planner(nn.Module):
    """Recurrent network that places all nodes of a graph in one pass.

    The decoder has `hidden` units, the encoder half as many in each direction.
    """

    def __init__(self, devices: int, hidden: int = 64) -> None:
        super().__init__()
        self.encoder = nn.LSTM(4 + 2 * _WAVES, hidden // 2, bidirectional=True)
        self.decoder = nn.LSTMCell(2 * hidden, hidden)
        self.device = nn.Embedding(devices + 1, hidden)  # the last one stands before the first node
        self.head = nn.Linear(2 * hidden, devices)

    def forward(self, features: Tensor, count: int, rng: np.random.Generator | None) -> tuple[IntArray, Tensor]:
        """Draw `count` placements of the nodes in the order of `features`, or the likeliest ones without a generator.

        Returns
        -------
        devices : (count, n) integers
        logits : (count, n, k) tensor
        """
        nodes, _ = self.encoder(features)  # (n, hidden)
        state = (nodes.mean(0).expand(count, -1), torch.zeros(count, nodes.shape[1]))
        last = torch.full((count,), self.device.num_embeddings - 1)
        devices, logits = [], []
        for node in nodes:
            state = self.decoder(torch.cat((node.expand(count, -1), self.device(last)), 1), state)
            attention = torch.softmax(state[0] @ nodes.T / nodes.shape[1] ** 0.5, 1)
            logits.append(self.head(torch.cat((state[0], attention @ nodes), 1)))
            noise = 0.0 if rng is None else torch.as_tensor(rng.gumbel(size=logits[-1].shape))
            last = (logits[-1].detach() + noise).argmax(1)
            devices.append(last)
        return torch.stack(devices, 1).numpy(), torch.stack(logits, 1)


def plan(
    planner: Planner,
    instance: PlacementInstance,
    rng: np.random.Generator | None,
    samples: int = 1,
    order: IntArray | None = None,
) -> Placement:
    """The best of `samples` placements drawn from a trained planner; the likeliest one without a generator.

    It reads the nodes in `order`, by default that of the graph.
    """
    order = instance.graph.topological_order if order is None else order
    with torch.no_grad(), one_thread():
        devices, _ = planner(_features(instance)[order], samples, rng)
    places = _by_node(order, devices)
    return Placement(instance, places[penalised_times(instance, places).argmin()])


@one_thread()
def train_planner(
    planner: Planner,
    instances: Sequence[PlacementInstance],
    *,
    updates: int,
    episodes: int = 16,
    rate: float = 2e-3,
    entropy: float = 0.01,
    seed: int = 0,
    orders: Sequence[IntArray] = (),
    watch: Callable[[FloatArray], None] = lambda times: None,
) -> list[Placement]:
    """Train by REINFORCE with a moving average of the penalised time as baseline, one instance an update, in turn.

    Nodes are read in the order of the graph, or in one drawn from `orders`, if there are any; there is then one
    instance. The penalised times of each update are shown to `watch`.

    Returns
    -------
    list of Placement
        The best one seen of each instance; all on device 0 for those whose turn did not come.
    """
    rng = np.random.default_rng(seed)
    optimiser = torch.optim.Adam(planner.parameters(), lr=rate)
    features = [_features(instance) for instance in instances]
    best = [Placement(instance, np.zeros(instance.graph.n, dtype=np.int64)) for instance in instances]
    baselines: list[float | None] = [None] * len(instances)
    for update in range(updates):
        i = update % len(instances)
        order = orders[int(rng.integers(len(orders)))] if orders else instances[i].graph.topological_order
        devices, logits = planner(features[i][order], episodes, rng)
        places = _by_node(order, devices)
        times = penalised_times(instances[i], places)
        if times.min() < best[i].penalised_time:
            best[i] = Placement(instances[i], places[times.argmin()])
        average, mean = baselines[i], float(times.mean())
        baseline = mean if average is None else average
        baselines[i] = 0.9 * baseline + 0.1 * mean
        advantage = (baseline - times) / max(float(times.std()), 1e-8)
        logp = torch.log_softmax(logits, 2)
        chosen = logp.gather(2, torch.as_tensor(devices)[..., None])[..., 0].mean(1)
        bonus = -(logp.exp() * logp).sum(2).mean()
        loss = -(chosen * torch.as_tensor(advantage, dtype=chosen.dtype)).mean() - entropy * bonus
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(planner.parameters(), 1.25)
        optimiser.step()
        watch(times)
    return best


def _features(instance: PlacementInstance) -> Tensor:
    """(n, f) features of nodes: work, outputs, shares of ancestors and of descendants, sines and cosines of depth."""
    graph, relation = instance.graph, relations(instance.graph)
    unit = instance.total_work / graph.n
    outputs = np.bincount(graph.tensors.producer, instance.tensor_time, graph.n)
    before, after = ((relation == kind).mean(axis=1) for kind in (ANCESTOR, DESCENDANT))
    depth = (1 + before - after) / 2
    angles = np.pi * np.outer(depth, 2.0 ** np.arange(_WAVES))
    columns = (np.log1p(instance.work / unit), np.log1p(outputs / unit), before, after, np.sin(angles), np.cos(angles))
    return torch.as_tensor(np.column_stack(columns), dtype=torch.float32)


def _by_node(order: IntArray, devices: IntArray) -> IntArray:
    """(count, n) devices by node, from devices by position in `order`."""
    places = np.empty_like(devices)
    places[:, order] = devices
    return places
