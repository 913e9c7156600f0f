r"""Z-DP: the least makespan bound Z over all ways to cut a chain along an order of devices, exactly.

With :math:`c = c^f + c^b`, the stages from k on have the two values

.. math::
    Z^1_k = \max(M t_k,\; t_k + M c_k,\; t_k + c_k + Z^1_{k+1}), \qquad
    Z^2_k = \max(M t_k + A_k,\; f_k + c^f_k + Z^2_{k+1}),

and :math:`Z = \max(Z^1_1, Z^2_1)` is no more than the makespan of any schedule of the plan
(`Plan.makespan_bound`). A state, the layers from l and the devices from i on with r replicas in the first stage, keeps
the pairs that no other pair dominates. In full duplex, :math:`M c_k` becomes :math:`M \max(c^f_k, c^b_k)`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.planning.kernel_arrays import TrainingArrays
from instances.planning.link_speeds import LinkSpeeds, transfer_time
from instances.planning.problem import TrainingInstance

__all__ = ["FRONT", "ZPoints", "insert_pair", "least_z", "z_points"]

#: Pairs that a state keeps. Beyond, two neighbours become their componentwise minimum: values stay lower bounds.
FRONT = 16


class ZPoints(NamedTuple):
    """Ways to end a plan that no other dominates."""

    first: IntArray  # (p,): points that begin with the first layer, by rising Z
    value: FloatArray  # (p,): Z of each of them [s]
    # (q, 4): of every point the place of its first device, layer after its first stage, replicas of that stage, and the
    # point that follows it, or -1.
    links: IntArray

    def stages(self, point: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """Cuts and replicas of a plan, and the place of its first device."""
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
        Of an order; those of `fastest_speeds` give a bound for every order.
    ceiling : float
        Plans with this Z or more do not matter.
    allow_idle : bool
        Whether a plan may leave devices idle.
    split : bool
        Whether the gradients of weights may come later: :math:`b_k` is then the time of those of inputs, except in
        :math:`M t_k + A_k`.
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
    """Insert a pair into a front with rising first and falling second values; return the new count."""
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
    return np.concatenate((array, np.empty_like(array)))
