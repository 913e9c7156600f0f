"""Plans whose groups of devices run several stages in turns (Narayanan et al., SC 2021)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, cycle, islice, permutations, repeat

import numpy as np

from heuristics.planning.grid.moves import moves_of
from heuristics.planning.orders import execute_orders, interleaved
from heuristics.planning.splitting import min_max_split
from instances.deadline import Deadline
from instances.devices.cluster import Cluster
from instances.errors import InputError
from instances.graph.tensors import IntArray
from instances.planning import Plan, TrainingInstance
from instances.planning.operations import PassLists
from instances.planning.timeline import Timeline, memory_peaks

__all__ = ["better_cuts", "interleaved_plans", "parts_of"]

#: Most stages of a group, and changes of cuts that are tried.
_CHUNKS, _MOVES = 8, 400


def parts_of(cluster: Cluster) -> list[IntArray]:
    """Devices of all servers, then of the half with the largest ones, of a half of that, and so on."""
    largest = np.argsort([-size for size in cluster.servers], kind="stable")
    counts = list(accumulate(repeat(len(largest), len(largest)), lambda count, _: count // 2))
    return [np.flatnonzero(np.isin(cluster.server, largest[:count])) for count in counts if count]


def interleaved_plans(instance: TrainingInstance, orders: Sequence[IntArray]) -> Iterator[tuple[Plan, PassLists]]:
    """Even groups along each order of the devices, with 2 to 4 stages each of about the same time, within memory.

    The number of groups divides the microbatches and the devices, which are all or those of some servers.
    """
    for part in parts_of(instance.cluster):
        yield from _on_part(instance, len(part), [order[np.isin(order, part)] for order in orders])


def _on_part(instance: TrainingInstance, V: int, orders: Sequence[IntArray]) -> Iterator[tuple[Plan, PassLists]]:
    chain, M = instance.chain, instance.microbatches
    for groups in (count for count in range(2, V + 1) if M % count == 0 and V % count == 0):
        for chunks in range(2, min(_CHUNKS, chain.n // groups) + 1):
            cuts = min_max_split(chain.forward + chain.backward, groups * chunks)
            lists = interleaved(groups, chunks, M)
            for order in orders:
                devices = [tuple(group.tolist()) for group in np.split(order, groups)] * chunks
                yield from ((plan, lists) for plan in _fitting(instance, cuts, devices, lists))


def better_cuts(found: Timeline, deadline: Deadline) -> Timeline:
    """Move single layers between the stages of a plan, in its order of passes, as long as the time falls."""
    pairs, quiet = list(permutations(range(found.plan.n_stages), 2)), 0
    for pair in islice(cycle(pairs), _MOVES):
        cuts = moves_of(found.plan.cuts, pair)
        if quiet == len(pairs) or deadline.passed:
            break
        quiet += 1
        for plan in [] if cuts is None else _fitting(found.plan.instance, list(cuts), found.plan.devices, found.orders):
            timeline = execute_orders(plan, found.orders, found.order_name)
            if timeline.makespan < found.makespan:
                found, quiet = timeline, 0
    return found


def _fitting(
    instance: TrainingInstance, cuts: list[int], devices: Sequence[tuple[int, ...]], lists: PassLists
) -> Iterator[Plan]:
    for again in (False, True) if instance.recomputation else (False,):
        try:
            plan = Plan(instance, tuple(cuts), tuple(devices), (again,) * len(devices))
        except InputError:  # links are missing, or a stage alone is too large
            return
        if all(peak.total <= instance.memory for peak in memory_peaks(plan, lists)):
            yield plan
            return
