"""Slowest links inside and between groups of devices: along an order, or for any order at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from instances.compiled import compiled
from instances.devices.cluster import Cluster
from instances.devices.network import Ports
from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray

BoolArray = NDArray[np.bool_]

__all__ = ["LinkSpeeds", "fastest_groups", "fastest_speeds", "speeds_along", "transfer_time"]


class LinkSpeeds(NamedTuple):
    """Slowest links of groups of devices [bytes/s]; devices are numbered 0 … V - 1 by their places in an order."""

    # (V + 1, V + 1): ``within[i, r]`` is the slowest link among the r devices before place i; infinite for r < 2.
    within: FloatArray
    # (V + 1, V + 1, V + 1): ``forth[i, q, r]`` is the slowest link from the q devices before place i to the r devices
    # from place i on, and ``back[i, q, r]`` the other way.
    forth: FloatArray
    back: FloatArray


@compiled
def transfer_time(size: float, rate: float) -> float:
    """Bytes over bytes/s; nothing takes no time, and something without a link never ends [s]."""
    if size == 0.0:
        return 0.0
    return size / rate if rate > 0.0 else np.inf


def speeds_along(cluster: Cluster, order: Sequence[int] | IntArray, ports: Ports | None = None) -> LinkSpeeds:
    """Bandwidths between consecutive devices of an order.

    With `ports`, a bandwidth is the one that yields the time of a transfer or AllReduce that has its ports for itself.

    Raises
    ------
    InputError
        If the order names a device twice or one that does not exist. It may leave devices out.
    """
    places = np.asarray(order, dtype=np.int64)
    if len(np.unique(places)) < len(places) or (len(places) and not 0 <= places.min() <= places.max() < cluster.n):
        raise InputError(f"The order {places.tolist()} must name devices from 0 to {cluster.n - 1}, each at most once.")
    speeds = _along(cluster.bandwidth[np.ix_(places, places)])
    if ports is not None and len(cluster.servers) > 1:
        _through_ports(speeds, ports.server[places], ports.rate, ports.entering, len(cluster.servers))
    return speeds


@compiled
def _along(bandwidth: FloatArray) -> LinkSpeeds:
    V = len(bandwidth)
    within = np.full((V + 1, V + 1), np.inf)
    forth = np.full((V + 1, V + 1, V + 1), np.inf)
    back = np.full((V + 1, V + 1, V + 1), np.inf)
    for i in range(V + 1):
        for r in range(2, i + 1):
            ends = min(bandwidth[i - r, i - 1], bandwidth[i - 1, i - r])
            within[i, r] = min(within[i - 1, r - 1], within[i, r - 1], ends)
        for q in range(1, i + 1):
            for r in range(1, V - i + 1):
                u, v = i - q, i + r - 1
                forth[i, q, r] = min(forth[i, q - 1, r], forth[i, q, r - 1], bandwidth[u, v])
                back[i, q, r] = min(back[i, q - 1, r], back[i, q, r - 1], bandwidth[v, u])
    return LinkSpeeds(within, forth, back)


@compiled
def _through_ports(speeds: LinkSpeeds, server: IntArray, rate: FloatArray, entering: int, servers: int) -> None:
    """Slow down what its ports do not let through."""
    V = len(server)
    both = 2.0 if entering == 0 else 1.0
    for i in range(V + 1):
        slowest, several = np.inf, False
        for r in range(1, i + 1):
            h = server[i - r]
            slowest = min(slowest, rate[h] / both, rate[h + entering] / both)
            several = several or h != server[i - 1]
            if several:
                speeds.within[i, r] = min(speeds.within[i, r], slowest)
        before = np.zeros(servers)
        for q in range(1, i + 1):
            before[server[i - q]] += 1.0
            after = np.zeros(servers)
            for r in range(1, V - i + 1):
                after[server[i + r - 1]] += 1.0
                there, back = 0.0, 0.0
                for h in range(servers):
                    out, home = before[h] * (r - after[h]), after[h] * (q - before[h])
                    if entering == 0:
                        out, home = out + home, out + home
                    there = max(there, transfer_time(out, rate[h]), transfer_time(home, rate[h + entering]))
                    back = max(back, transfer_time(home, rate[h]), transfer_time(out, rate[h + entering]))
                speeds.forth[i, q, r] = min(speeds.forth[i, q, r], transfer_time(1.0, there) if there > 0.0 else np.inf)
                speeds.back[i, q, r] = min(speeds.back[i, q, r], transfer_time(1.0, back) if back > 0.0 else np.inf)


def fastest_speeds(cluster: Cluster) -> LinkSpeeds:
    """Bandwidths that no choice of devices exceeds, whatever the order.

    r devices are all linked at speed t or more only if the graph of such links has a component of r or more devices in
    its (r - 1)-core. All devices of two groups are linked only if one component holds both groups.
    """
    V = cluster.n
    fastest = np.maximum(cluster.bandwidth, cluster.bandwidth.T)
    clique = fastest_groups(cluster.symmetric_bandwidth, core=True)
    joined = fastest_groups(fastest, core=False)
    group = np.add.outer(np.arange(V + 1), np.arange(V + 1))
    across = np.where(group <= V, joined[np.minimum(group, V)], np.inf)
    across = np.broadcast_to(across, (V + 1, V + 1, V + 1))
    return LinkSpeeds(np.broadcast_to(clique, (V + 1, V + 1)).copy(), across.copy(), across.copy())


def fastest_groups(bandwidth: FloatArray, *, core: bool) -> FloatArray:
    """(V + 1,) for each size, the largest t such that links of t or more join a group of that size, or larger.

    With `core`, each of the group is linked to all others of it; the bandwidth, (V, V), is symmetric.
    """
    V = len(bandwidth)
    fastest = np.zeros(V + 1)
    fastest[:2] = np.inf
    size = 2
    for threshold in np.unique(bandwidth[~np.eye(V, dtype=bool)])[::-1].tolist():
        linked = (bandwidth >= threshold) & ~np.eye(V, dtype=bool)
        while size <= V and _largest_component(_core(linked, size - 1) if core else linked) >= size:
            fastest[size] = threshold
            size += 1
    return fastest


def _core(linked: BoolArray, degree: int) -> BoolArray:
    """The graph among the devices that are left when those with less than `degree` links to others left go."""
    left = np.ones(len(linked), dtype=bool)
    while (few := left & ((linked & left).sum(axis=1) < degree)).any():
        left &= ~few
    return linked[np.ix_(left, left)]


def _largest_component(linked: BoolArray) -> int:
    """Devices of the largest component of a graph."""
    _, component = connected_components(linked, directed=False)
    return int(np.bincount(component).max(initial=0))
