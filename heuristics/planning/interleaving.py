"""Plans whose groups of devices run several stages in turns (Narayanan et al., SC 2021)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from heuristics.planning.orders import PassLists, interleaved
from heuristics.planning.splitting import min_max_split
from instances.errors import InputError
from instances.graph.tensors import IntArray
from instances.planning import Plan, TrainingInstance
from instances.planning.timeline import memory_peaks

__all__ = ["interleaved_plans"]

#: Most stages of a group.
_CHUNKS = 4


def interleaved_plans(instance: TrainingInstance, orders: Iterable[IntArray]) -> Iterator[tuple[Plan, PassLists]]:
    """Even groups along each order of the devices, with 2 to 4 stages each of about the same time, within memory.

    The number of groups divides the microbatches and the devices.
    """
    chain, V, M = instance.chain, instance.cluster.n, instance.microbatches
    for groups in (count for count in range(2, V + 1) if M % count == 0 and V % count == 0):
        for chunks in range(2, min(_CHUNKS, chain.n // groups) + 1):
            cuts = min_max_split(chain.forward + chain.backward, groups * chunks)
            lists = interleaved(groups, chunks, M)
            for order in orders:
                devices = [tuple(group.tolist()) for group in np.split(np.asarray(order), groups)] * chunks
                yield from ((plan, lists) for plan in _fitting(instance, cuts, devices, lists))


def _fitting(
    instance: TrainingInstance, cuts: list[int], devices: list[tuple[int, ...]], lists: PassLists
) -> Iterator[Plan]:
    for again in (False, True) if instance.recomputation else (False,):
        try:
            plan = Plan(instance, tuple(cuts), tuple(devices), (again,) * len(devices))
        except InputError:  # links are missing, or a stage alone is too large
            return
        if all(peak.total <= instance.memory for peak in memory_peaks(plan, lists)):
            yield plan
            return
