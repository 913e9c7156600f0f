r"""Lower bounds on the time of plans on servers with shared network cards, and the guarantees of the paper.

**Z-DP on servers with shared network cards, for all plans on all devices, one stage a device.**

The value pair of `instances.planning.bounds`, with what a transfer takes at least. Stages that follow each
other on devices of one server are a run; u is the number of devices of a run from some stage on.

- A packed stage lies in one server, and so does its run. A spread one has two replicas or more in several servers: its
  AllReduce passes their cards and a link between them. No run includes it. The server of the next packed stage is its
  anchor, where y of its devices lie; it has none if no packed stage follows. Two stages before that with x and y of
  their devices at the anchor leave room for a device of it, :math:`x + y < g`.
- A transfer inside a run: all links are those of a server, and :math:`u + q` devices fit into the largest one, g.
- Any other transfer from q to r replicas: some link joins two servers; and if server h holds :math:`x_h` of the senders
  and :math:`y_h` of the receivers, a share of :math:`x_h (r - y_h) / (q r)` of the bytes leaves through its card, and
  :math:`y_h (q - x_h) / (q r)` comes in. `least_loads` takes the best of all such numbers. No share is 0, as only all
  devices in one server load no card. `_crossing_part` says more where a stage is packed or has an anchor.
- With room for k microbatches in a stage, they stay there one after the other, each for :math:`ρ = t + c + ρ'`, ρ' the
  least of any stages that may follow: :math:`Z^1 ≥ B` and :math:`Z^2 ≥ B + A`, B as `least_span` has it. With split
  backward passes B counts the gradients of inputs alone, and those of weights fill its waits at best.
- All transfers to the next stage lie between the first forward and the last backward pass, so that also
  :math:`Z^2 ≥ t + M c + A`, at the least c of any next stage.

Every plan along with its mapping takes one of both at each transfer, so that the least value of all ways to choose is
no more than that of the plan. Sharing makes no transfer shorter.

**Guarantees of the paper for its planner, as inequalities that can be checked, and a stronger bound.**

With :math:`\Gamma = \sum_l (p^f_l + p^b_l) / V`, the most work of a layer :math:`p_{max}`, the most bytes between two
layers :math:`d_{max}` and the slowest and fastest links :math:`b_{min}, b_{max}`,

.. math::

    \Phi = \frac{\max(p_{max} b_{max}, d_{max})}{\Gamma} \Big( \frac{1}{b_{min}} - \frac{1}{b_{max}} \Big).

The optima on the right hand sides are not known. A lower bound in their place makes an inequality stronger, so if that
holds, so does the one of the paper; otherwise nothing is decided.

**Plans with degrees of parallelism on servers with slow links, interleaved stages or not (*apart-grid*).**

A group is local if all its pipelines lie in one server. A plan is one of these:

1. All devices lie in one server: it is a plan of the question with that server alone, and takes as long as the bounds
   of both classes of its plans.
2. Some group is local, and devices lie elsewhere. Between it and those, the first two neighbours that do not share a
   server have a local one among them, of degree t with d t c devices in the server. All M microbatches cross there, and
   come back: :math:`T ≥ 2 M (o / b + λ)`, M for 2 M in full duplex, with o the least bytes that a layer sends at a
   degree that has room, b the rate to other servers, and λ the latency.
3. No group is local. Then each ring of D = d c devices has r in each server, at most D / 2, and r t are at most its
   devices, so that it sends at most at the rate ρ of r cards, or of the links inside. A group of degree t first runs
   all its passes, of time τ a microbatch, and then adds up its gradients: :math:`T ≥ M τ + A`. Weighted by t, over all
   groups, :math:`T ≥ \sum_l \min_t t (M τ_l + A_l) / K`, K devices of a pipeline. What ZeRO 2 and 3 send in passes
   may count in place of the passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from instances import Bound
from instances.compiled import compiled
from instances.deadline import Deadline
from instances.devices import Ports
from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray
from instances.planning import Timeline, TrainingInstance
from instances.planning.bounds import (
    FRONT,
    fastest_groups,
    fastest_speeds,
    insert_pair,
    least_span,
    least_z,
    transfer_time,
)
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.program import Setting, even_work, settings_of
from instances.planning.grid.recomputation import GridArrays
from instances.planning.problem import TrainingArrays


class ServerSpeeds(NamedTuple):
    """Upper bounds on speeds for any choice of devices, by number of devices [bytes/s]."""

    packed: FloatArray  # (V + 1,): best slowest link of an AllReduce within one server, by number of devices
    spread: FloatArray  # (V + 1,): the same over several servers, at most the rate of a card
    inside: FloatArray  # (V + 1,): best slowest link between two stages in one server, by sum of their devices
    outside: FloatArray  # (V + 1,): the same between stages in several servers
    load: FloatArray  # (V + 1, V + 1): see `least_loads` [s/byte]
    largest: int  # devices of the largest server
    card: float  # rate of the fastest card
    half: bool  # whether a card shares its rate between both directions

    @classmethod
    def of(cls, instance: TrainingInstance) -> ServerSpeeds:
        """Speeds of a cluster of several servers."""
        cluster, ports = instance.cluster, instance.ports
        assert ports is not None
        largest = max(cluster.servers)
        same = cluster.server[:, None] == cluster.server
        either = np.maximum(cluster.bandwidth, cluster.bandwidth.T)
        card, symmetric = float(ports.rate.max()), cluster.symmetric_bandwidth
        across = min(card / (1 if ports.entering else 2), np.where(same, 0.0, symmetric).max())
        return cls(
            packed=fastest_groups(np.where(same, symmetric, 0.0), core=True),
            spread=np.minimum(fastest_groups(symmetric, core=True), across),
            inside=fastest_groups(np.where(same, either, 0.0), core=False),
            outside=np.minimum(fastest_groups(either, core=False), np.where(same, 0.0, either).max()),
            load=least_loads(np.array(cluster.servers), ports),
            largest=largest,
            card=card,
            half=ports.entering == 0,
        )


def least_z_on_servers(instance: TrainingInstance, ceiling: float, *, split: bool) -> float:
    """Lower bound on the time of all plans on all devices [s], at most `ceiling`, by pairs of bounds.

    It is the least over all plans of the larger value of their pair. Stages fit into memory with one microbatch in
    flight. With `split`, the gradients of weights may be computed later.
    """
    first = instance.input_sums if split else instance.arrays.backward
    arrays = instance.arrays
    if instance.recomputation:  # such stages keep less, so that any number of microbatches may stay in them
        return _least(arrays, first, ServerSpeeds.of(instance), ceiling, arrays.microbatches)
    return _least(arrays, first, ServerSpeeds.of(instance), ceiling, 1)


@compiled
def least_loads(servers: IntArray, ports: Ports) -> FloatArray:
    """(V + 1, V + 1) least load of the busiest card by a transfer from q to r replicas in several servers [s/byte].

    The least over all divisions of the replicas among servers, by a dynamic program over (first servers, numbers of
    senders and receivers in them).
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
def _least(
    arrays: TrainingArrays, first_part: FloatArray, speeds: ServerSpeeds, ceiling: float, fewest_kept: int
) -> float:
    """Lower bound on the time of plans, at most `ceiling` [s], by a dynamic program from the last layer to the first.

    A state is a layer, the devices left, and the replicas and the run of the first stage.
    """
    forward, backward, M = arrays.forward, arrays.backward, arrays.microbatches
    L, V, g = forward.shape[1] - 1, len(speeds.packed) - 1, speeds.largest
    U = 2 * g + 1
    # Fronts of what begins at layer l with so many devices, r of them in the first stage, in a run of u; and of what
    # follows a stage of r devices, which makes the run one of u. Of a spread stage u is g + 1 + y, or U without anchor.
    z1, z2 = np.empty((V + 1, V + 1, U + 1, FRONT)), np.empty((V + 1, V + 1, U + 1, FRONT))
    count, stay = np.zeros((V + 1, V + 1, U + 1), dtype=np.int64), np.empty((V + 1, V + 1, U + 1))
    next1, next2 = np.empty((L + 1, V + 1, V + 1, U + 1, FRONT)), np.empty((L + 1, V + 1, V + 1, U + 1, FRONT))
    next_count = np.zeros((L + 1, V + 1, V + 1, U + 1), dtype=np.int64)
    # Of all that may follow a stage, the least time until a microbatch is back, and that its transfers take.
    next_least = np.zeros((L + 1, V + 1, V + 1, U + 1, 2))
    front1, front2, link = np.empty(FRONT + 1), np.empty(FRONT + 1), np.empty(FRONT + 1, dtype=np.int64)
    best = ceiling
    for l in range(L - 1, -1, -1):  # noqa: E741 (the paper's letter)
        count[:], stay[:] = 0, np.inf
        for devices in range(1, V + 1):
            for r in range(1, devices + 1):
                for u in range(min(r, g + 1), U + 1):
                    if u > g and (r == 1 or r + g < u < U):
                        continue
                    n = 0
                    for e in range(l + 1, L + 1):
                        params, stored = arrays.params[e] - arrays.params[l], (arrays.stored[e] - arrays.stored[l]) / r
                        f = (forward[r - 1, e] - forward[r - 1, l]) / r
                        t = f + (first_part[r - 1, e] - first_part[r - 1, l]) / r
                        after = 0.0
                        if r > 1:
                            rate = speeds.spread[r] if u > g else speeds.packed[r]
                            after = transfer_time(2 * (r - 1) * params, r * rate)
                        done = M * (f + (backward[r - 1, e] - backward[r - 1, l]) / r) + after
                        room = arrays.memory - arrays.copies * params
                        if done >= best or stored > room:
                            break
                        rho, channel = t, 0.0
                        if e < L:
                            rho += next_least[e, devices - r, r, u, 0]
                            channel = t + next_least[e, devices - r, r, u, 1] + after
                        fitting = room * (1 + 1e-9) / stored if stored > 0 else np.inf
                        in_flight = max(fewest_kept, int(fitting)) if fitting < M else M
                        low = least_span(M, in_flight, f, t - f, rho - t)
                        done = max(done, channel, low + after)
                        if e == L:
                            if (u == U or u == r <= g) and low < best and done < best:
                                stay[devices, r, u] = min(stay[devices, r, u], rho)
                                n = insert_pair(front1, front2, link, n, low, done, 0)
                            continue
                        for p in range(next_count[e, devices - r, r, u]):
                            a = max(low, t + next1[e, devices - r, r, u, p])
                            b = max(done, f + next2[e, devices - r, r, u, p])
                            if a < best and b < best:
                                stay[devices, r, u] = min(stay[devices, r, u], rho)
                                n = insert_pair(front1, front2, link, n, a, b, 0)
                    count[devices, r, u] = n
                    z1[devices, r, u, :n], z2[devices, r, u, :n] = front1[:n], front2[:n]
                    if l == 0:
                        for p in range(n):
                            best = min(best, max(front1[p], front2[p]))
        if l > 0:
            follows = next1[l], next2[l], next_count[l], next_least[l]
            _follow(arrays, speeds, l, best, (z1, z2, count, stay), follows)
    return best


@compiled
def _follow(
    arrays: TrainingArrays,
    speeds: ServerSpeeds,
    layer: int,
    best: float,
    begins: tuple[FloatArray, FloatArray, IntArray, FloatArray],
    follows: tuple[FloatArray, FloatArray, IntArray, FloatArray],
) -> None:
    """Fill `follows` for a layer: the pairs in `begins`, with the transfer from a stage of q devices in front."""
    z1, z2, count, stay = begins
    next1, next2, next_count, next_least = follows
    V, g, M = len(speeds.packed) - 1, speeds.largest, arrays.microbatches
    U = 2 * g + 1
    front1, front2, link = np.empty(FRONT + 1), np.empty(FRONT + 1), np.empty(FRONT + 1, dtype=np.int64)
    sizes = arrays.forward_bytes[layer], arrays.backward_bytes[layer]
    for devices in range(1, V):
        for q in range(1, V - devices + 1):
            for u in range(min(q, g + 1), U + 1):
                n, least_back, least_busy = 0, np.inf, np.inf
                crossing = u == q or u > g
                for r in range(1, devices + 1 if crossing else min(devices, u - q) + 1):
                    for v in range(min(r, g + 1), U + 1) if crossing else range(u - q, u - q + 1):
                        if count[devices, r, v] == 0:
                            continue
                        part = _crossing_part(q, u, r, v, g, speeds.half) if crossing else 0.0
                        if part == np.inf:
                            continue
                        rate = q * r * (speeds.outside[q + r] if crossing else speeds.inside[q + r])
                        cf, cb = transfer_time(sizes[0], rate), transfer_time(sizes[1], rate)
                        if crossing:
                            cf = max(cf, sizes[0] * speeds.load[q, r], transfer_time(part * sizes[0], speeds.card))
                            cb = max(cb, sizes[1] * speeds.load[r, q], transfer_time(part * sizes[1], speeds.card))
                        busy = M * (max(cf, cb) if arrays.full_duplex else cf + cb)
                        if busy >= best:
                            continue
                        least_back = min(least_back, cf + cb + stay[devices, r, v])
                        least_busy = min(least_busy, busy)
                        for p in range(count[devices, r, v]):
                            a, b = max(busy, cf + cb + z1[devices, r, v, p]), cf + z2[devices, r, v, p]
                            if a < best and b < best:
                                n = insert_pair(front1, front2, link, n, a, b, 0)
                next_count[devices, q, u] = n
                next1[devices, q, u, :n], next2[devices, q, u, :n] = front1[:n], front2[:n]
                next_least[devices, q, u, 0], next_least[devices, q, u, 1] = least_back, least_busy


@compiled
def _crossing_part(q: int, u: int, r: int, v: int, g: int, half: bool) -> float:
    """Least part of the bytes between q and r replicas in several servers that one network card must carry.

    Infinite if no placement on servers allows it. `u` and `v` are the runs of the two stages, numbered as in `_least`;
    g is the number of devices of the largest server.
    """
    x, y, none = u - g - 1, v - g - 1, g
    if x < 0 and y < 0:
        return 1.0
    if x < 0:
        near = min(r - 1, g - q)  # of the receivers, in the server of the senders
        if y == none:
            return (r - near) / r
        elsewhere = max(y, r - min(near, r - y)) / r
        return min(elsewhere, (r - y) / r) if y + q < g else elsewhere
    if x == none or y == none:
        return 0.0 if x == y else np.inf
    if y < 0:
        return (q - x) / q if x + v <= g else np.inf
    out, home = x * (r - y) / (q * r), y * (q - x) / (q * r)
    return np.inf if x + y >= g else out + home if half else max(out, home)


#: The plans that `iteration_bound` speaks of.
COVERED = "any plan with one stage a device, backward unsplit and links that share nothing"

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Guarantee:
    """An inequality of the paper: `left` is at most `right`."""

    name: str
    statement: str
    left: float  # left side [s]
    right: float  # right side [s]

    @property
    def slack(self) -> float:
        """Right side over left side, minus 1; infinite if the left side is 0."""
        return self.right / self.left - 1 if self.left > 0 else math.inf

    @property
    def holds(self) -> bool:
        """Whether the inequality holds, up to rounding."""
        return self.left <= self.right * (1 + _ROUNDING)

    def __str__(self) -> str:
        verdict = f"holds, slack {self.slack:.1%}" if self.holds else "not decided"
        return f"{self.name}: {self.statement}: {self.left:.6g} ≤ {self.right:.6g} s, {verdict}"


def iteration_bound(instance: TrainingInstance, *, allow_idle: bool = True, ceiling: float = math.inf) -> Bound:
    """Lower bound on the time of any plan with one stage a device, on any devices and in any schedule.

    Z-DP with the fastest links between any groups of devices. The backward pass of a stage is one piece, and transfers
    over different links do not slow each other down. Not covered are devices with several stages, as in interleaved
    schedules, split backward passes, and servers that run pipelines of their own (HetPipe), as replicas are assumed to
    work at the same time.

    Parameters
    ----------
    allow_idle : bool
        Whether plans that leave devices idle count.
    ceiling : float
        Upper limit of the bound; the time of a known plan saves work [s].

    Raises
    ------
    InputError
        If no plan fits into memory.
    """
    value = least_z(instance, fastest_speeds(instance.cluster), ceiling, allow_idle=allow_idle)
    if math.isinf(value):
        raise instance.no_plan
    return Bound(value, "z-any-order")


def lemma_1(schedule: Timeline) -> Guarantee:
    """Lemma 1 for a schedule by PE: it takes at most M + 4 S - 4 cycles and the longest AllReduce."""
    plan = schedule.plan
    cycles = plan.instance.microbatches + 4 * plan.n_stages - 4
    limit = cycles * plan.cycle_time + float(plan.allreduce_time.max())
    return Guarantee("Lemma 1", "T_PE ≤ (M + 4 S - 4) C + max A", schedule.makespan, limit)


def lemma_2(instance: TrainingInstance, workload: float) -> Guarantee:
    """Lemma 2: the least W of PRM, over all numbers of stages, is at most 1 + Φ times that of any plan on all devices.

    The W of every plan is at least M Γ, the work of a device.

    Raises
    ------
    InputError
        If replicas do not share the work evenly, which the lemma assumes.
    """
    least = instance.microbatches * _work(instance)
    return Guarantee("Lemma 2", "W_PRM ≤ (1 + Φ) W*, W* ≥ M Γ", workload, (1 + link_factor(instance)) * least)


def theorem_1(instance: TrainingInstance, time: float, bound: float) -> Guarantee:
    """Theorem 1: SPP takes at most (2 + (4 V - 4) / M) (1 + Φ) times as long as any plan on all devices.

    `time` is that of SPP's plan, `bound` a lower bound on all plans on all devices, both in seconds.

    Raises
    ------
    InputError
        If replicas do not share the work evenly, or in full duplex, where W is no bound.
    """
    if instance.full_duplex:
        raise InputError("Theorem 1 does not hold for channels in full duplex; use half duplex.")
    factor = (2 + (4 * instance.cluster.n - 4) / instance.microbatches) * (1 + link_factor(instance))
    return Guarantee("Theorem 1", "T_SPP ≤ (2 + (4 V - 4) / M) (1 + Φ) T*, T* ≥ bound", time, factor * bound)


def link_factor(instance: TrainingInstance) -> float:
    """Factor Φ of the guarantees, by how much links differ: 0 if all are equal, infinite if a link is missing."""
    chain, links = instance.chain, instance.cluster.links
    gamma = _work(instance)
    if not links.size or links.min() == links.max():
        return 0.0
    if links.min() == 0 or gamma == 0:
        return math.inf
    work = float((chain.forward + chain.backward).max())
    size = float((chain.forward_bytes + chain.backward_bytes).max(initial=0.0))
    return max(work * links.max(), size) / gamma * (1 / links.min() - 1 / links.max())


def _work(instance: TrainingInstance) -> float:
    """Γ, the work of a device on a microbatch [s]."""
    if instance.replica_share is not None:
        raise InputError(
            "The guarantees of the paper need replicas that share the work evenly; leave replica_share out."
        )
    return instance.chain.time / instance.cluster.n


#: Takes a question, a time and a deadline; returns a lower bound on all plans of the question, at most that time.
Proof = Callable[[GridInstance, float, Deadline], float]


def apart_bound(question: GridInstance, ceiling: float, deadline: Deadline, one_server: Proof) -> float | None:
    """Lower bound on the time of plans, at most `ceiling` [s]; None if it is no larger than the even share of work.

    `one_server` gives a bound for a question with a single server.
    """
    if question.servers.count == 1:
        return None
    settings = [(even_work(question, *pair), *pair) for pair in settings_of(question)]
    share = min([ceiling, *(work for work, _, _ in settings)])
    least = min([ceiling, *(max(work, _across(question, *pair)) for work, *pair in settings)])  # type: ignore[arg-type]
    if least <= share:
        return None
    try:
        alone = replace(question, servers=replace(question.servers, count=1))
    except InputError:  # no plan of the question lies in one server
        return least
    return min(least, one_server(alone, least, deadline))


def _across(question: GridInstance, setting: Setting, arrays: GridArrays) -> float:
    """Least time of plans of a setting that use several servers [s]."""
    servers, d, c = question.servers, setting.pipelines, setting.context
    M, K = question.global_batch // (d * setting.micro_batch), servers.devices // (d * c)
    degrees = arrays.degrees.tolist()
    chain, ways = question.chain(setting.micro_batch), 1 if question.full_duplex else 2
    sent = [
        min(way.output_bytes for way in layer.modes((t, c, setting.expert)))
        for t in degrees
        if d * t * c <= servers.size
        for layer in chain.layers[:-1]
    ]
    local = ways * M * servers.transfer(min(sent), inside=False) if sent else np.inf
    return min(local, _apart(question, setting, arrays, M, K))


def _apart(question: GridInstance, setting: Setting, arrays: GridArrays, M: int, K: int) -> float:
    """Least time of plans in which every group spans several servers [s]."""
    servers, sizes, zero = question.servers, question.state_bytes, setting.zero
    D = setting.pipelines * setting.context
    if D == 1:
        return np.inf
    t = arrays.degrees[:, None]
    ranks = np.minimum(D // 2, servers.size // t)
    rates = servers.reached * np.minimum(servers.inner, servers.outer * ranks)
    numbers = np.diff(arrays.parameters[0], axis=1)
    numbers[:, -1] -= arrays.tied
    ring = numbers * (D - 1) / D / rates
    in_passes = 2 * sizes.weights * (zero == 3) + sizes.gradients * (zero >= 2)
    passes = np.diff(arrays.forward + arrays.backward, axis=1)
    after = sizes.summed(zero) * ring
    return max(float((t * (M * times + after)).min(axis=0).sum() / K) for times in (passes, in_passes * ring))
