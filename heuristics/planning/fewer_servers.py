"""Plans that leave servers idle: the search on the largest servers alone, any number of them.

A plan on all servers is then no slower than the one that the same search finds for fewer of them, as long as no time
limit ends it, links between servers are alike, and replicas share single samples.
"""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from dataclasses import replace

import numpy as np

from heuristics.limits import Limits
from heuristics.planning.orders import execute_orders
from heuristics.planning.shared_cards import Effort, improved_on_cards
from instances.devices.cluster import Cluster
from instances.errors import InputError
from instances.graph.tensors import IntArray
from instances.planning import Iteration, Plan, TrainingInstance

__all__ = ["improved_on_servers"]


def improved_on_servers(
    instance: TrainingInstance, rng: np.random.Generator, limits: Limits | None = None, effort: Effort | None = None
) -> Iteration:
    """Plan as `improved_on_cards`, on all servers and on fewer of them where an even share of the work takes less.

    Raises
    ------
    InputError
        If no plan fits into memory, or none can take the given orders.
    """
    limits, effort, fresh = limits or Limits(), effort or Effort(), deepcopy(rng)
    best = improved_on_cards(instance, rng, limits, effort)
    sizes = np.array(instance.cluster.servers)
    largest = np.argsort(-sizes, kind="stable")
    for count in range(len(sizes) - 1, 0, -1):
        if limits.reached(best.time):
            break
        part = np.sort(largest[:count])
        if _even_share(instance) * instance.cluster.n / sizes[part].sum() >= best.time:
            break
        with suppress(InputError):  # does not fit on so few
            found = improved_on_cards(_on(instance, part), deepcopy(fresh), limits, replace(effort, tell=None))
            best = min(best, _idle_elsewhere(found, instance, part), key=lambda one: one.time)
    if effort.tell is not None:
        effort.tell("fewer servers", best.time)
    return best


def _even_share(instance: TrainingInstance) -> float:
    """Time of an iteration if all devices shared all work evenly [s]."""
    chain, arrays = instance.chain, instance.arrays
    rows = np.diff(arrays.forward + arrays.backward, axis=1).min(axis=0)
    least = np.minimum(rows, chain.forward + chain.backward).sum()
    return float(instance.microbatches * least / instance.cluster.n)


def _on(instance: TrainingInstance, part: IntArray) -> TrainingInstance:
    """The question with some of the servers alone."""
    cluster, network, share = instance.cluster, instance.network, instance.replica_share
    devices = np.flatnonzero(np.isin(cluster.server, part))
    servers = tuple(cluster.servers[h] for h in part.tolist())
    assert network is not None
    if network.rates is not None:
        network = replace(network, rates=tuple(network.rates[h] for h in part.tolist()))
    return replace(
        instance,
        cluster=Cluster(cluster.bandwidth[np.ix_(devices, devices)], servers),
        network=network,
        replica_share=None if share is None else share[..., : len(devices)],
    )


def _idle_elsewhere(found: Iteration, instance: TrainingInstance, part: IntArray) -> Iteration:
    """The same plan and order on all servers."""
    (timeline,), plan = found.schedules, found.plan
    assert plan is not None
    devices = np.flatnonzero(np.isin(instance.cluster.server, part))
    stages = tuple(tuple(devices[list(stage)].tolist()) for stage in plan.devices)
    there = Plan(instance, plan.cuts, stages, plan.recompute)
    return Iteration(instance, (execute_orders(there, timeline.orders, timeline.order_name),))
