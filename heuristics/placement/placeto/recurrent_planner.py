"""Learned rival of Placeto: a recurrent planner that emits all devices at once (Mirhoseini et al., ICML 2017).

A bidirectional LSTM reads the nodes in a topological order; an LSTM with attention emits a device for each. The rows of
the adjacency matrix, which tie the published one to a single graph, are replaced by waves over the depth of a node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from heuristics.placement.placeto.environment import ANCESTOR, DESCENDANT, relations
from heuristics.placement.placeto.network import one_thread
from heuristics.placement.simulator import penalised_times
from instances.graph.tensors import FloatArray, IntArray
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

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
