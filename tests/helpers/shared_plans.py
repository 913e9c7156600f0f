"""Random plans on servers with shared network cards, small enough for exact numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heuristics.planning.orders import interleaved, portfolio
from instances.devices import NetworkCards
from instances.planning import Cluster, LayerChain, Plan, TrainingInstance
from instances.planning.operations import PassLists

__all__ = ["random_orders", "random_plan", "random_question", "tiny_question"]


def random_question(rng: np.random.Generator, *, ties: bool, devices: int = 8) -> TrainingInstance:
    """Up to three servers of up to four devices; with `ties`, numbers are small and whole."""
    servers = [int(size) for size in rng.integers(1, 5, rng.integers(1, 4))]
    while sum(servers) > devices:
        servers[-1] -= 1
        servers = [size for size in servers if size > 0]
    layers, microbatches, H = int(rng.integers(1, 7)), int(rng.integers(1, 7)), len(servers)

    def numbers(most: int, *shape: int) -> np.ndarray:
        return rng.integers(0, most, shape).astype(float) if ties else rng.uniform(0, most, shape)

    between = 1.0 + numbers(3, H, H)
    backward = numbers(9, layers) + 1
    chain = LayerChain(
        numbers(5, layers) + 1,
        backward,
        numbers(7, layers - 1),
        numbers(7, layers - 1),
        numbers(9, layers),
        input_backward=backward * rng.choice((0.0, 0.25, 0.5, 1.0)),
    )
    return TrainingInstance(
        chain,
        Cluster.of_servers(servers, 4.0 + numbers(5, H), np.maximum(between, between.T) if ties else between),
        microbatches,
        full_duplex=bool(rng.integers(2)),
        network=NetworkCards(half=bool(rng.integers(2))),
        samples=int(rng.integers(1, 5)) if rng.random() < 0.3 else None,
    )


def random_plan(rng: np.random.Generator, instance: TrainingInstance, *, repeated: bool = False) -> Plan:
    """Stages on random devices; with `repeated`, each of a few groups of one size runs several of them in turns."""
    layers, order = instance.chain.n, rng.permutation(instance.cluster.n).tolist()
    if repeated:
        groups = int(rng.integers(1, min(layers, len(order)) + 1))
        size = int(rng.integers(1, len(order) // groups + 1))
        devices = [tuple(order[g * size : (g + 1) * size]) for g in range(groups)]
        devices *= int(rng.integers(1, layers // groups + 1))
        S = len(devices)
    else:
        S = int(rng.integers(1, min(layers, len(order)) + 1))
        ends = sorted(rng.choice(np.arange(1, len(order)), S - 1, replace=False).tolist())
        devices = [tuple(order[i:j]) for i, j in zip([0, *ends], [*ends, len(order)], strict=True)]
    cuts = sorted(rng.choice(np.arange(1, layers), S - 1, replace=False).tolist())
    return Plan(instance, (0, *cuts, layers), tuple(devices))


def random_orders(rng: np.random.Generator, plan: Plan) -> PassLists:
    """One of the orders that the plan can take."""
    groups, S = len(plan.groups), plan.n_stages
    if groups < S:
        return interleaved(groups, S // groups, plan.instance.microbatches)
    candidates = [orders for _, orders in portfolio(plan)]
    return candidates[int(rng.integers(len(candidates)))]


def tiny_question(rng: np.random.Generator) -> TrainingInstance:
    """Up to three layers on four devices, small enough to try all plans; memory may be tight."""
    while True:
        instance = random_question(rng, ties=bool(rng.integers(2)), devices=4)
        if instance.chain.n <= 3 and instance.microbatches <= 4:
            break
    chain, copies = instance.chain, instance.parameter_copies
    most = copies * chain.param_bytes.sum() + instance.microbatches * chain.stored.sum()
    return replace(instance, memory=float(most * rng.uniform(0.5, 1))) if rng.random() < 0.5 else instance
