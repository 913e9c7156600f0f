"""Planners for comparison: GPipe, PipeDream, HetPipe and others, on all servers or on some."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import numpy as np

from heuristics.method import Limits
from heuristics.planning.execution import Order, all_forward_first, execute, one_forward_one_backward, pe
from heuristics.planning.orders import execute_orders, portfolio
from heuristics.planning.shared_cards import Effort, improved_on_cards
from heuristics.planning.spp import (
    even_counts,
    hierarchical_split,
    min_max_split,
    plans_by_stages,
    recursive_device_order,
)
from instances.devices import Cluster
from instances.errors import InputError, NothingFitsError
from instances.graph.tensors import FloatArray, IntArray
from instances.planning import Iteration, Plan, Timeline, TrainingInstance

# Planners for comparison with SPP, under its cost model and simulator.


def data_parallel(instance: TrainingInstance) -> Iteration:
    """One stage on all devices."""
    plan = Plan(instance, (0, instance.chain.n), (tuple(range(instance.cluster.n)),))
    return _executed(plan, pe)


def gpipe(instance: TrainingInstance) -> Iteration:
    """GPipe: equally many layers on each device, all forward passes first (Huang et al., NeurIPS 2019).

    Devices in the order of their indices. Numbers of layers differ by at most one, the larger ones first.
    """
    stages = min(instance.chain.n, instance.cluster.n)
    cuts = np.concatenate(([0], np.cumsum(even_counts(instance.chain.n, stages))))
    plan = Plan.along(instance, cuts, [1] * stages, range(stages))
    return _executed(plan, all_forward_first)


def pipedream(instance: TrainingInstance, *, every_minibatch: bool = False) -> Iteration:
    """PipeDream's plan for equal links, with 1F1B and a flush (Narayanan et al., SOSP 2019).

    It has the least W, the busy time of its busiest stage or channel.

    With `every_minibatch` the planner reckons with an AllReduce for each microbatch, as the asynchronous original has
    it. The schedule has one an iteration.
    """
    chain, cluster, M = instance.chain, instance.cluster, instance.microbatches
    times = M if every_minibatch else 1
    flat = replace(
        instance,
        chain=replace(chain, param_bytes=chain.param_bytes * times),
        parameter_copies=instance.parameter_copies / times,
        cluster=Cluster.of_servers((cluster.n,), _mean(cluster.links)),
    )
    plans = [plan for plan in plans_by_stages(flat, range(cluster.n), one_forward_one_backward) if plan is not None]
    if not plans:
        raise NothingFitsError("No plan of PipeDream fits into the memory; give more of it.", proved=False)
    best = min(plans, key=lambda plan: plan.workload)
    return _executed(Plan(instance, best.cuts, best.devices), one_forward_one_backward)


def pipedream_hierarchical(instance: TrainingInstance) -> Iteration:
    """PipeDream's planner in two levels: stages over servers, each split again over the devices of a server.

    A stage on several servers has the same split in each. Every level knows the mean bandwidth of its links.

    Raises
    ------
    InputError
        If the servers differ in size.
    """
    chain, cluster, M = instance.chain, instance.cluster, instance.microbatches
    size = cluster.servers[0]
    if any(other != size for other in cluster.servers):
        raise InputError(
            f"PipeDream's two levels need servers of one size; these have {list(cluster.servers)}. Use pipedream."
        )
    same = cluster.server[:, None] == cluster.server
    within, between = _mean(cluster.bandwidth[same & ~np.eye(cluster.n, dtype=bool)]), _mean(cluster.bandwidth[~same])
    server = 0
    cuts, devices = [0], []
    for _, servers, inner in hierarchical_split(chain, M, len(cluster.servers), size, within, between):
        place = 0
        for end, replicas in inner:
            cuts.append(end)
            devices.append(tuple((server + h) * size + place + r for h in range(servers) for r in range(replicas)))
            place += replicas
        server += servers
    return _executed(Plan(instance, tuple(cuts), tuple(devices)), one_forward_one_backward)


def hetpipe(instance: TrainingInstance, *, only_largest_stage: bool = False) -> Iteration:
    """A pipeline in every server, and an AllReduce between servers (Park et al., USENIX ATC 2020), synchronous.

    Each server cuts the chain such that its slowest device is as fast as possible, without replicas, and takes a share
    of the microbatches that goes with its number of devices. In the end the servers exchange all gradients over the
    slowest link between servers; with `only_largest_stage` the stages of a server do so all at once, each over a link
    of its own.
    """
    chain, cluster = instance.chain, instance.cluster
    schedules = []
    largest = 0.0
    for server, count in enumerate(microbatches_by_server(instance)):
        devices = np.flatnonzero(cluster.server == server)
        cuts = min_max_split(chain.forward + chain.backward, min(chain.n, len(devices)))
        largest = max(largest, np.add.reduceat(chain.param_bytes, cuts[:-1]).max())
        if count > 0:
            share = instance.replica_share
            worker = replace(
                instance,
                cluster=cluster.subset(devices),
                microbatches=count,
                replica_share=None if share is None else share[..., : len(devices)],
            )
            plan = Plan.along(worker, cuts, [1] * (len(cuts) - 1), range(len(devices)))
            schedules.append(execute(plan, one_forward_one_backward(plan.n_stages, count)))
    servers = len(cluster.servers)
    synchronisation = 0.0
    if servers > 1:
        slowest = cluster.bandwidth[cluster.server[:, None] != cluster.server].min()
        size = largest if only_largest_stage else chain.param_bytes.sum()
        if size > 0 and slowest == 0:
            raise InputError(
                "Two servers have no link, so that HetPipe cannot exchange gradients; give it a bandwidth."
            )
        synchronisation = float(2 * (servers - 1) * size / (servers * slowest)) if size > 0 else 0.0
    return Iteration(instance, tuple(schedules), synchronisation)


def microbatches_by_server(instance: TrainingInstance) -> list[int]:
    """Microbatches of each server in proportion to its devices, by largest remainder."""
    sizes = np.array(instance.cluster.servers)
    exact = instance.microbatches * sizes
    counts = exact // sizes.sum()
    rest = np.argsort(-(exact % sizes.sum()), kind="stable")
    counts[rest[: instance.microbatches - counts.sum()]] += 1
    return counts.tolist()


def _executed(plan: Plan, order: Order) -> Iteration:
    return Iteration(plan.instance, (execute(plan, order(plan.n_stages, plan.instance.microbatches)),))


def _mean(links: np.ndarray) -> float:
    return float(links.mean()) if links.size else 0.0


# Plans that leave servers idle: the search on the largest servers alone, any number of them.
#
# A plan on all servers is then no slower than the one that the same search finds for fewer of them, as long as no time
# limit ends it, links between servers are alike, and replicas share single samples.


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
            iteration = improved_on_cards(_on(instance, part), deepcopy(fresh), limits, replace(effort, tell=None))
            best = min(best, _idle_elsewhere(iteration, instance, part), key=lambda candidate: candidate.time)
    if effort.tell is not None:
        effort.tell("fewer servers", best.time)
    return best


def _even_share(instance: TrainingInstance) -> float:
    """Time of an iteration if all work were divided evenly among all devices [s]."""
    chain, arrays = instance.chain, instance.arrays
    rows = np.diff(arrays.forward + arrays.backward, axis=1).min(axis=0)
    least = np.minimum(rows, chain.forward + chain.backward).sum()
    return float(instance.microbatches * least / instance.cluster.n)


def _on(instance: TrainingInstance, part: IntArray) -> TrainingInstance:
    """The question restricted to the servers with the numbers in `part`."""
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


def _idle_elsewhere(iteration: Iteration, instance: TrainingInstance, part: IntArray) -> Iteration:
    """The same plan and order for all servers; those outside the part idle."""
    (timeline,), plan = iteration.schedules, iteration.plan
    assert plan is not None
    devices = np.flatnonzero(np.isin(instance.cluster.server, part))
    stages = tuple(tuple(devices[list(stage)].tolist()) for stage in plan.devices)
    widened = Plan(instance, plan.cuts, stages, plan.recompute)
    return Iteration(instance, (execute_orders(widened, timeline.orders, timeline.order_name),))


# Plans whose stages all have as many replicas, as runtimes want them.
#
# For each number of stages that divides the devices, layers are cut for the least largest compute time by an exact
# program, devices taken in the order of `recursive_device_order`; then single cuts move while the simulated time falls.


_STAGES = 64


def equal_replicas(
    instance: TrainingInstance, legal: Callable[[Plan], bool], orders: str = "auto", limits: Limits | None = None
) -> Iteration:
    """Plan with the same number of replicas in every stage, on all devices.

    Parameters
    ----------
    instance : TrainingInstance
        On shared network cards.
    legal : callable
        Whether a plan may be the answer.
    orders : str
        Orders of passes to try: "auto", "unsplit", or the beginning of their names.
    limits : Limits, optional
        Checked before each move of a cut.

    Raises
    ------
    InputError
        If no such plan is legal and fits into memory.
    """
    limits, best = limits or Limits(), None
    order = recursive_device_order(instance.cluster)
    counts = range(1, min(instance.chain.n, _STAGES) + 1)
    for stages in (count for count in counts if instance.cluster.n % count == 0):
        cuts = _even(instance.chain.forward + instance.chain.backward, stages)
        timeline = _timed(instance, cuts, order, legal, orders)
        while timeline is not None and not limits.reached(timeline.makespan):
            moved = (_timed(instance, near, order, legal, orders) for near in _neighbours(timeline.plan.cuts))
            better = min(filter(None, moved), key=lambda candidate: candidate.makespan, default=timeline)
            if better.makespan >= timeline.makespan:
                break
            timeline = better
        if timeline is not None and (best is None or timeline.makespan < best.makespan):
            best = timeline
    if best is None:
        raise instance.no_plan
    return Iteration(instance, (best,))


def _even(time: FloatArray, stages: int) -> tuple[int, ...]:
    """Cuts into `stages` stages with the least longest time, by dynamic programming; the first cut is 0, the last n."""
    sums, n = np.concatenate(([0.0], np.cumsum(time))), len(time)
    largest = np.full((stages + 1, n + 1), np.inf)
    largest[0, 0] = 0
    before: IntArray = np.zeros((stages + 1, n + 1), dtype=np.int64)
    for count in range(1, stages + 1):
        for end in range(count, n + 1):
            begins = np.arange(count - 1, end)
            costs = np.maximum(largest[count - 1, begins], sums[end] - sums[begins])
            before[count, end] = begins[int(costs.argmin())]
            largest[count, end] = costs.min()
    cuts = [n]
    for count in range(stages, 0, -1):
        cuts.append(int(before[count, cuts[-1]]))
    return tuple(reversed(cuts))


def _neighbours(cuts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the cuts with one of them moved by a layer, if no stage becomes empty."""
    for i in range(1, len(cuts) - 1):
        for cut in (cuts[i] - 1, cuts[i] + 1):
            near = (*cuts[:i], cut, *cuts[i + 1 :])
            if all(a < b for a, b in pairwise(near)):
                yield near


def _timed(
    instance: TrainingInstance, cuts: tuple[int, ...], order: IntArray, legal: Callable[[Plan], bool], orders: str
) -> Timeline | None:
    """The plan in the order of passes that ends first; None if it is not legal or does not fit."""
    stages = len(cuts) - 1
    try:
        plan = Plan.along(instance, cuts, [instance.cluster.n // stages] * stages, order.tolist())
    except InputError:
        return None
    if not legal(plan):
        return None
    named = [
        (name, passes)
        for name, passes in portfolio(plan)
        if orders == "auto" or name.startswith(orders) or (orders == "unsplit" and not name.startswith("zb"))
    ]
    timelines = [execute_orders(plan, passes, name) for name, passes in named]
    return min(timelines, key=lambda timeline: timeline.makespan, default=None)
