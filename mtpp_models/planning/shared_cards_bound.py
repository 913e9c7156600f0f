r"""Z-DP on servers with shared network cards, for all plans on all devices, one stage a device.

The value pair of `instances.planning.makespan_bound`, with what a transfer takes at least. Stages that follow each
other on devices of one server are a run; u is the number of devices of a run from some stage on.

- A transfer inside a server: all links are those of a server, and :math:`u + q` devices fit into the largest one.
- Any other transfer from q to r replicas: some link joins two servers; and if server h holds :math:`x_h` of the senders
  and :math:`y_h` of the receivers, a share of :math:`x_h (r - y_h) / (q r)` of the bytes leaves through its card, and
  :math:`y_h (q - x_h) / (q r)` comes in. `least_loads` takes the best of all such numbers. No share is 0, as only all
  devices in one server load no card.

Every plan along with its mapping takes one of both at each transfer, so that the least value of all ways to choose is
no more than that of the plan. Sharing makes no transfer shorter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from instances.compiled import compiled
from instances.devices.network import Ports
from instances.graph.tensors import FloatArray, IntArray
from instances.planning import TrainingInstance
from instances.planning.kernel_arrays import TrainingArrays
from instances.planning.link_speeds import fastest_groups, transfer_time
from instances.planning.makespan_bound import FRONT, insert_pair

__all__ = ["ServerSpeeds", "least_loads", "least_z_on_servers"]


class ServerSpeeds(NamedTuple):
    """Speeds that no choice of devices exceeds; sizes are numbers of devices [bytes/s]."""

    clique: FloatArray  # (V + 1,): slowest link within a group that adds up gradients, or what its cards let through
    inside: FloatArray  # (V + 1,): slowest link between groups of one server, by both sizes together
    outside: FloatArray  # (V + 1,): the same between other groups
    load: FloatArray  # (V + 1, V + 1): least seconds a byte that a transfer to other servers loads a card [s/byte]
    largest: int  # devices of the largest server

    @classmethod
    def of(cls, instance: TrainingInstance) -> ServerSpeeds:
        """Speeds of a cluster of several servers."""
        cluster, ports = instance.cluster, instance.ports
        assert ports is not None
        largest = max(cluster.servers)
        same = cluster.server[:, None] == cluster.server
        either = np.maximum(cluster.bandwidth, cluster.bandwidth.T)
        clique = fastest_groups(cluster.symmetric_bandwidth, core=True)
        clique[largest + 1 :] = np.minimum(clique[largest + 1 :], ports.rate.max() / (1 if ports.entering else 2))
        return cls(
            clique=clique,
            inside=fastest_groups(np.where(same, either, 0.0), core=False),
            outside=np.minimum(fastest_groups(either, core=False), np.where(same, 0.0, either).max()),
            load=least_loads(np.array(cluster.servers), ports),
            largest=largest,
        )


def least_z_on_servers(instance: TrainingInstance, ceiling: float, *, split: bool) -> float:
    """Least value pair over all plans on all devices of several servers, or `ceiling` if that is less [s].

    Stages fit into memory with one microbatch in flight. With `split`, the gradients of weights may come later.
    """
    first = instance.input_sums if split else instance.arrays.backward
    return _least(instance.arrays, first, ServerSpeeds.of(instance), ceiling)


@compiled
def least_loads(servers: IntArray, ports: Ports) -> FloatArray:
    """(V + 1, V + 1) for q senders and r receivers that are not all in one server, the least of the largest load.

    A program over servers: of the first ones the numbers of senders and of receivers that they hold.
    """
    V = servers.sum()
    least = np.full((V + 1, V + 1), np.inf)
    for q in range(1, V):
        for r in range(1, V - q + 1):
            best, after = np.full((q + 1, r + 1), np.inf), np.full((q + 1, r + 1), np.inf)
            best[0, 0] = 0.0
            for h in range(len(servers)):
                after[:] = np.inf
                for x in range(min(q, servers[h]) + 1):
                    for y in range(min(r, servers[h] - x) + 1):
                        if x == q and y == r:
                            continue
                        out, home = x * (r - y), y * (q - x)
                        if ports.entering == 0:
                            out, home = out + home, 0
                        load = max(
                            transfer_time(out / (q * r), ports.rate[h]),
                            transfer_time(home / (q * r), ports.rate[h + ports.entering]),
                        )
                        for a in range(q - x + 1):
                            for b in range(r - y + 1):
                                after[a + x, b + y] = min(after[a + x, b + y], max(best[a, b], load))
                best, after = after, best
            least[q, r] = best[q, r]
    return least


@compiled
def _least(arrays: TrainingArrays, first_part: FloatArray, speeds: ServerSpeeds, ceiling: float) -> float:
    """The program from the last layer on; a state is a layer, devices left, and replicas and run of the first stage."""
    forward, backward, M = arrays.forward, arrays.backward, arrays.microbatches
    L, V, U = forward.shape[1] - 1, len(speeds.clique) - 1, speeds.largest + 1
    # Fronts of what begins at layer l with `left` devices, r of them in the first stage, in a run of u; and of what
    # follows a stage of r devices, which makes the run one of u. Runs of more than a server are all U.
    z1, z2 = np.empty((V + 1, V + 1, U + 1, FRONT)), np.empty((V + 1, V + 1, U + 1, FRONT))
    count = np.zeros((V + 1, V + 1, U + 1), dtype=np.int64)
    next1, next2 = np.empty((L + 1, V + 1, V + 1, U + 1, FRONT)), np.empty((L + 1, V + 1, V + 1, U + 1, FRONT))
    next_count = np.zeros((L + 1, V + 1, V + 1, U + 1), dtype=np.int64)
    front1, front2, link = np.empty(FRONT + 1), np.empty(FRONT + 1), np.empty(FRONT + 1, dtype=np.int64)
    best = ceiling
    for l in range(L - 1, -1, -1):  # noqa: E741 (the paper's letter)
        count[:] = 0
        for left in range(1, V + 1):
            for r in range(1, left + 1):
                for u in range(min(r, U), U + 1):
                    n = 0
                    for e in range(l + 1, L + 1):
                        params = arrays.params[e] - arrays.params[l]
                        f = (forward[r - 1, e] - forward[r - 1, l]) / r
                        t = f + (first_part[r - 1, e] - first_part[r - 1, l]) / r
                        done = M * (f + (backward[r - 1, e] - backward[r - 1, l]) / r)
                        if r > 1:
                            done += transfer_time(2 * (r - 1) * params, r * speeds.clique[r])
                        needed = arrays.copies * params + (arrays.stored[e] - arrays.stored[l]) / r
                        if done >= best or needed > arrays.memory:
                            break
                        if e == L:
                            if u == min(r, U):
                                n = insert_pair(front1, front2, link, n, M * t, done, 0)
                            continue
                        for p in range(next_count[e, left - r, r, u]):
                            a = max(M * t, t + next1[e, left - r, r, u, p])
                            b = max(done, f + next2[e, left - r, r, u, p])
                            if a < best and b < best:
                                n = insert_pair(front1, front2, link, n, a, b, 0)
                    count[left, r, u] = n
                    z1[left, r, u, :n], z2[left, r, u, :n] = front1[:n], front2[:n]
                    if l == 0:
                        for p in range(n):
                            best = min(best, max(front1[p], front2[p]))
        if l > 0:
            _follow(arrays, speeds, l, best, (z1, z2, count), (next1[l], next2[l], next_count[l]))
    return best


@compiled
def _follow(
    arrays: TrainingArrays,
    speeds: ServerSpeeds,
    layer: int,
    best: float,
    begins: tuple[FloatArray, FloatArray, IntArray],
    follows: tuple[FloatArray, FloatArray, IntArray],
) -> None:
    """Put the transfer from a stage of q devices before what begins with the layer."""
    z1, z2, count = begins
    next1, next2, next_count = follows
    V, U, M = len(speeds.clique) - 1, speeds.largest + 1, arrays.microbatches
    front1, front2, link = np.empty(FRONT + 1), np.empty(FRONT + 1), np.empty(FRONT + 1, dtype=np.int64)
    sizes = arrays.forward_bytes[layer], arrays.backward_bytes[layer]
    for left in range(1, V):
        for q in range(1, V - left + 1):
            for u in range(min(q, U), U + 1):
                n = 0
                crossing = u == min(q, U)
                for r in range(1, left + 1):
                    for v in range(min(r, U), U + 1) if crossing else range(u - q, min(u - q, U) + 1):
                        if not crossing and (u > speeds.largest or r > v):
                            continue
                        rate = q * r * (speeds.outside[q + r] if crossing else speeds.inside[q + r])
                        cf, cb = transfer_time(sizes[0], rate), transfer_time(sizes[1], rate)
                        if crossing:
                            cf, cb = max(cf, sizes[0] * speeds.load[q, r]), max(cb, sizes[1] * speeds.load[r, q])
                        busy = M * (max(cf, cb) if arrays.full_duplex else cf + cb)
                        if busy >= best:
                            continue
                        for p in range(count[left, r, v]):
                            a, b = max(busy, cf + cb + z1[left, r, v, p]), cf + z2[left, r, v, p]
                            if a < best and b < best:
                                n = insert_pair(front1, front2, link, n, a, b, 0)
                next_count[left, q, u] = n
                next1[left, q, u, :n], next2[left, q, u, :n] = front1[:n], front2[:n]
