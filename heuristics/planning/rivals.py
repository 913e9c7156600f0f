"""Planners for comparison with SPP, under its cost model and simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heuristics.planning.execution import Order, all_forward_first, execute, one_forward_one_backward, pe
from heuristics.planning.prm import plans_by_stages
from heuristics.planning.splitting import even_counts, hierarchical_split, min_max_split
from instances.errors import InputError, NothingFitsError
from instances.planning import Cluster, Iteration, Plan, TrainingInstance

__all__ = [
    "data_parallel",
    "gpipe",
    "hetpipe",
    "microbatches_by_server",
    "pipedream",
    "pipedream_hierarchical",
]


def data_parallel(instance: TrainingInstance) -> Iteration:
    """One stage on all devices."""
    plan = Plan(instance, (0, instance.chain.n), (tuple(range(instance.cluster.n)),))
    return _executed(plan, pe)


def gpipe(instance: TrainingInstance) -> Iteration:
    """GPipe: equally many layers on each device, all forward before all backward passes (Huang et al., NeurIPS 2019).

    Devices in the order of their indices. Numbers of layers differ by at most one, the larger ones first.
    """
    stages = min(instance.chain.n, instance.cluster.n)
    cuts = np.concatenate(([0], np.cumsum(even_counts(instance.chain.n, stages))))
    plan = Plan.along(instance, cuts, [1] * stages, range(stages))
    return _executed(plan, all_forward_first)


def pipedream(instance: TrainingInstance, *, every_minibatch: bool = False) -> Iteration:
    """The plan of least W as if all links were equal, 1F1B, and a flush (Narayanan et al., SOSP 2019).

    With `every_minibatch` the planner reckons with an AllReduce for each microbatch, as the asynchronous original has
    it. The schedule has one an iteration.
    """
    chain, cluster, M = instance.chain, instance.cluster, instance.microbatches
    times = M if every_minibatch else 1
    seen = replace(
        instance,
        chain=replace(chain, param_bytes=chain.param_bytes * times),
        parameter_copies=instance.parameter_copies / times,
        cluster=Cluster.of_servers((cluster.n,), _mean(cluster.links)),
    )
    plans = [plan for plan in plans_by_stages(seen, range(cluster.n), one_forward_one_backward) if plan is not None]
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
    """Microbatches of each server, by largest remainder; on ties the first server."""
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
