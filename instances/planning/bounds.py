r"""Links along groups of devices, the least span of a stage, and Z-DP, which planners and models share.

**The least time that a stage takes from its first pass to its last one, if it holds at most k of M microbatches.**

A forward pass of time f comes back as a backward one of time b after R or longer, both on the same devices, so that a
microbatch is in the stage for :math:`ρ = f + b + R`; with k < M

.. math:: M (f + b) + (R - (k - 1) f)^+ + (R - (k - 1) b)^+

is least. Before its first backward pass the stage ends at most k forward passes, the one of that microbatch R before,
so that it idles for R - (k - 1) f; likewise for R - (k - 1) b after its last forward pass, while at most k - 1 other
backward passes are left to run. That one starts after some backward pass, as k < M, so that the stage idles twice.

And of forward passes in the order of their starts, and backward ones of their ends, the j-th ones lie ρ apart,
neighbours f and b, and the (j + k)-th forward one starts after the end of the j-th backward one. So q stays follow one
another beside all passes that they leave out: for q = 1 and q = ⌈M / k⌉

.. math:: q ρ + (M - 1 - k (q - 1)) \max(f, b).

All of them grow with f, b and R, so that least values of these will do.

**Z-DP: the least makespan bound Z over all ways to cut a chain along an order of devices, exactly.**

With :math:`c = c^f + c^b`, the stages from k on have the two values

.. math::
    Z^1_k = \max(M t_k,\; t_k + M c_k,\; t_k + c_k + Z^1_{k+1}), \qquad
    Z^2_k = \max(M t_k + A_k,\; f_k + c^f_k + Z^2_{k+1}),

and :math:`Z = \max(Z^1_1, Z^2_1)` is no more than the makespan of any schedule of the plan
(`Plan.makespan_bound`). A state, the layers from l and the devices from i on with r replicas in the first stage, keeps
the pairs that no other pair dominates. In full duplex, :math:`M c_k` becomes :math:`M \max(c^f_k, c^b_k)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.devices import Cluster, Ports
from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray, components
from instances.planning.problem import TrainingArrays, TrainingInstance

# Slowest links inside and between groups of devices: along an order, or for any order at all.


BoolArray = NDArray[np.bool_]


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
    """Time to move `size` bytes at `rate` bytes/s; 0 for no bytes, else infinite without a link [s]."""
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
    """Slowest links within and between groups of consecutive devices, from (V, V) bandwidths in order [bytes/s]."""
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
    """Lower the speeds to what the ports of the servers let through."""
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
                forth, back = 0.0, 0.0
                for h in range(servers):
                    out, home = before[h] * (r - after[h]), after[h] * (q - before[h])
                    if entering == 0:
                        out, home = out + home, out + home
                    forth = max(forth, transfer_time(out, rate[h]), transfer_time(home, rate[h + entering]))
                    back = max(back, transfer_time(home, rate[h]), transfer_time(out, rate[h + entering]))
                speeds.forth[i, q, r] = min(speeds.forth[i, q, r], transfer_time(1.0, forth) if forth > 0.0 else np.inf)
                speeds.back[i, q, r] = min(speeds.back[i, q, r], transfer_time(1.0, back) if back > 0.0 else np.inf)


def fastest_speeds(cluster: Cluster) -> LinkSpeeds:
    """Upper bounds on the speeds of `speeds_along` for every order and choice of devices of a cluster.

    A group of r devices with all links at least t fast exists only if the graph of such links has a component of at
    least r devices in its (r - 1)-core. Two groups with all links between them that fast lie in one component.
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
    """(V + 1,) for each size, the largest t such that links at least t fast join a group of at least that size.

    With `core`, each device of the group is linked to all others of it; the bandwidth, (V, V), is symmetric.
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
    """(n, n) links among the n devices that remain when those with fewer than `degree` links to others are removed."""
    remaining = np.ones(len(linked), dtype=bool)
    while (few := remaining & ((linked & remaining).sum(axis=1) < degree)).any():
        remaining &= ~few
    return linked[np.ix_(remaining, remaining)]


def _largest_component(linked: BoolArray) -> int:
    """Number of devices in the largest component of a graph."""
    component = components(np.argwhere(linked), len(linked), directed=False)
    return int(np.bincount(component).max(initial=0))


@compiled
def least_span(M: int, k: int, forward: float, backward: float, away: float) -> float:
    """Least time of a stage that holds at most k of M microbatches, each away for `away` s between its passes [s]."""
    both, longer, rounds = forward + backward, max(forward, backward), (M + k - 1) // k
    stays = both + away + (rounds - 1) * max(0.0, both + away - k * longer) + (M - 1) * longer
    waits = max(0.0, away - (k - 1) * forward) + max(0.0, away - (k - 1) * backward) if k < M else 0.0
    return max(M * both + waits, stays)


#: Pairs that a state keeps. Beyond, two neighbours become their componentwise minimum: values stay lower bounds.
FRONT = 16


class ZPoints(NamedTuple):
    """Plans with Pareto-optimal suffixes, as linked lists of stages."""

    first: IntArray  # (p,): points that begin with the first layer, by rising Z
    value: FloatArray  # (p,): Z of each of them [s]
    # (q, 4): of every point the place of its first device, layer after its first stage, replicas of that stage, and the
    # point that follows it, or -1.
    links: IntArray

    def stages(self, point: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """Cuts and replicas of the plan of a point, and the position in the order of its first device."""
        cuts, replicas, start = [0], [], int(self.links[point, 0])
        while point >= 0:
            _, cut, count, point = self.links[point].tolist()
            cuts.append(cut)
            replicas.append(count)
        return tuple(cuts), tuple(replicas), start


def least_z(
    instance: TrainingInstance, speeds: LinkSpeeds, ceiling: float, *, allow_idle: bool, split: bool = False
) -> float:
    """Least Z over all plans along `speeds`, or `ceiling` if that is less [s].

    A stage must fit into memory with one microbatch in flight.

    Parameters
    ----------
    speeds : LinkSpeeds
        Speeds along an order; those of `fastest_speeds` give a bound for every order.
    ceiling : float
        Upper limit: plans with this Z or more are left out.
    allow_idle : bool
        Whether a plan may leave devices idle.
    split : bool
        Whether gradients of weights may be computed later: :math:`b_k` is then the time for gradients of inputs alone,
        except in :math:`M t_k + A_k`.
    """
    first = instance.input_sums if split else instance.arrays.backward
    value, _ = _z_kernel(instance.arrays, first, speeds, np.ones(1), ceiling, allow_idle)
    return min(float(value.min()), ceiling) if len(value) else ceiling


def z_points(
    instance: TrainingInstance,
    speeds: LinkSpeeds,
    ceiling: float,
    in_flight: FloatArray | IntArray,
    *,
    allow_idle: bool = False,
) -> ZPoints:
    """Plans along `speeds` with Z below `ceiling` that are not dominated.

    Parameters
    ----------
    ceiling : float
        Plans with this Z or more are left out.
    in_flight : (n,) numbers
        Microbatches in flight in the last stage, the one before it, and so on; memory is checked with them. With
        n > 1, plans have at most n stages and compete only with those of as many stages. With n = 1, the one number
        holds for every stage, and all plans compete.
    allow_idle : bool
        Whether a plan may leave devices at the ends of the order idle.
    """
    arrays, ahead = instance.arrays, np.asarray(in_flight, dtype=np.float64)
    value, links = _z_kernel(arrays, arrays.backward, speeds, ahead, ceiling, allow_idle)
    by_value = np.argsort(value, kind="stable")
    return ZPoints(len(links) - len(value) + by_value, value[by_value], links)


@compiled
def insert_pair(
    front1: FloatArray, front2: FloatArray, link: IntArray, count: int, z1: float, z2: float, new: int
) -> int:
    """Insert a pair into a Pareto front, sorted by rising first and falling second values; return the new length."""
    at = 0
    while at < count and front1[at] <= z1:
        at += 1
    if at > 0 and front2[at - 1] <= z2:
        return count
    after = at  # pairs from `at` on are larger in the first value; drop those that are no less in the second
    while after < count and front2[after] >= z2:
        after += 1
    if at > 0 and front1[at - 1] == z1:
        at -= 1
    shift = at + 1 - after
    if shift > 0:
        for j in range(count - 1, after - 1, -1):
            front1[j + 1], front2[j + 1], link[j + 1] = front1[j], front2[j], link[j]
    elif shift < 0:
        for j in range(after, count):
            front1[j + shift], front2[j + shift], link[j + shift] = front1[j], front2[j], link[j]
    front1[at], front2[at], link[at] = z1, z2, new
    count += shift
    if count < len(front1):
        return count
    closest = 0
    for j in range(count - 1):
        loss = (front1[j + 1] - front1[j]) + (front2[j] - front2[j + 1])
        if loss < (front1[closest + 1] - front1[closest]) + (front2[closest] - front2[closest + 1]):
            closest = j
    front2[closest] = front2[closest + 1]
    for j in range(closest + 1, count - 1):
        front1[j], front2[j], link[j] = front1[j + 1], front2[j + 1], link[j + 1]
    return count - 1


@compiled
def _z_kernel(
    arrays: TrainingArrays,
    first_part: FloatArray,
    speeds: LinkSpeeds,
    in_flight: FloatArray,
    ceiling: float,
    allow_idle: bool,
) -> tuple[FloatArray, IntArray]:
    """(p,) Z of the points that begin with the first layer [s]; and `ZPoints.links` of all points, these last."""
    forward, backward, M = arrays.forward, arrays.backward, arrays.microbatches
    L, V, levels = forward.shape[1] - 1, len(speeds.within) - 1, len(in_flight)
    step = min(levels - 1, 1)
    # Points one after the other: the values of a point, and `links` to layer after its stage, stage, and next point.
    z1, z2, links, size = np.empty(1024), np.empty(1024), np.empty((1024, 4), dtype=np.int64), 0
    # What follows a stage of q devices that ends before layer e and place i, one after the other as well.
    next1, next2, next_point, next_size = np.empty(1024), np.empty(1024), np.empty(1024, dtype=np.int64), 0
    next_begin = np.zeros((L + 1, V + 1, V + 1, levels), dtype=np.int32)
    next_count = np.zeros((L + 1, V + 1, V + 1, levels), dtype=np.int16)
    begin = np.zeros((V + 1, V + 1, levels), dtype=np.int64)
    count = np.zeros((V + 1, V + 1, levels), dtype=np.int64)
    front1, front2, link = np.empty(FRONT + 1), np.empty(FRONT + 1), np.empty(FRONT + 1, dtype=np.int64)
    for l in range(L - 1, -1, -1):  # noqa: E741 (the paper's letter)
        whole = size  # where plans that begin with this layer begin
        for i in range(min(l, 1), V if l > 0 or allow_idle else 1):
            for r in range(1, V - i + 1):
                for x in range(levels):
                    n = 0
                    for e in range(l + 1, L + 1):
                        params = arrays.params[e] - arrays.params[l]
                        f = (forward[r - 1, e] - forward[r - 1, l]) / r
                        t = f + (first_part[r - 1, e] - first_part[r - 1, l]) / r
                        synchronised = M * (f + (backward[r - 1, e] - backward[r - 1, l]) / r)
                        if r > 1:
                            synchronised += transfer_time(2 * (r - 1) * params, r * speeds.within[i + r, r])
                        needed = arrays.copies * params + in_flight[x] * (arrays.stored[e] - arrays.stored[l]) / r
                        if synchronised >= ceiling or needed > arrays.memory:
                            break
                        if e == L:
                            if x == 0 and (i + r == V or allow_idle):
                                n = insert_pair(front1, front2, link, n, M * t, synchronised, e)
                        elif x >= step:
                            first = next_begin[e, i + r, r, x - step]
                            for p in range(first, first + next_count[e, i + r, r, x - step]):
                                a, b = max(M * t, t + next1[p]), max(synchronised, f + next2[p])
                                if a < ceiling and b < ceiling:
                                    n = insert_pair(front1, front2, link, n, a, b, (next_point[p] + 1) * (L + 1) + e)
                    if size + n > len(z1):
                        z1, z2, links = _longer(z1), _longer(z2), np.concatenate((links, np.empty_like(links)))
                    begin[i, r, x], count[i, r, x] = size, n
                    for j in range(n):
                        z1[size], z2[size] = front1[j], front2[j]
                        links[size, 0], links[size, 1] = i, link[j] % (L + 1)
                        links[size, 2], links[size, 3] = r, link[j] // (L + 1) - 1
                        size += 1
        if l == 0:
            break
        for i in range(1, V):
            for q in range(1, i + 1):
                for x in range(levels):
                    n = 0
                    for r in range(1, V - i + 1):
                        cf = transfer_time(arrays.forward_bytes[l], q * r * speeds.forth[i, q, r])
                        cb = transfer_time(arrays.backward_bytes[l], q * r * speeds.back[i, q, r])
                        busy = M * (max(cf, cb) if arrays.full_duplex else cf + cb)
                        if busy < ceiling:
                            for p in range(begin[i, r, x], begin[i, r, x] + count[i, r, x]):
                                n = insert_pair(front1, front2, link, n, max(busy, cf + cb + z1[p]), cf + z2[p], p)
                    if next_size + n > len(next1):
                        next1, next2, next_point = _longer(next1), _longer(next2), _longer(next_point)
                    next_begin[l, i, q, x], next_count[l, i, q, x] = next_size, n
                    for j in range(n):
                        next1[next_size], next2[next_size], next_point[next_size] = front1[j], front2[j], link[j]
                        next_size += 1
    value = np.empty(size - whole)
    for p in range(whole, size):
        value[p - whole] = max(z1[p], z2[p])
    return value, links[:size]


@compiled
def _longer(array: np.ndarray) -> np.ndarray:
    """Copy of the array with room for twice as many entries."""
    return np.concatenate((array, np.empty_like(array)))
