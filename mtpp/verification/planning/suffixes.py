r"""Programs over suffixes of layers, which prove bounds on plans.

**Whether some plan on servers with shared cards may be below a time: all suffixes of stages, backwards, compiled.**

With T the time, a stage of r devices takes f and t = f + b (b: gradients of inputs alone, where passes may be split), A
after its last backward pass, and c one way or c^f + c^b both ways to the next. Of a suffix :math:`Z_1 = \max(D,
t + M c, t + c + Z_1')` and :math:`Z_2 = \max(M (f + b) + A, t + M c + A, D + A, f + c^f + Z_2')`, D from the first pass
to the last one of microbatches that are elsewhere for R = c + ρ' in between, here for :math:`ρ = t + R`. With room for
k of them D is at least M t, and the times that no pass fills if k < M: k forward passes at most are over when the first
backward one begins, R after its own, and k - 1 others that go back lie between the last forward pass and its way back,
later than some backward pass. It is N stays, N = 1 and N = ⌈M / k⌉, one after the other, as the (i + k)-th microbatch
comes in when i have gone, with M - 1 - k (N - 1) of the longer passes before the first or behind the last one. A plan
below T has a suffix with both values below T at every layer; only those go on. Each is a point of a front; fronts are
complete unless `MERGED` is answered, and so where there are too many points.

A stage of a suffix is of a kind. 1 … g: it lies in one server of at most g devices, and so do the next ones, so many
devices in all. g + 1 + y: it lies in several servers, and y of its devices where the next stage of a single server is.
2 g + 1: the same, and no later stage lies in a single server.
"""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.certificates import Claim
from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.planning.problem import TrainingInstance
from mtpp.verification.planning.plan import Cards, least_work
from mtpp.verification.verdict import ROUNDING, Check, compare

NONE_BELOW, BELOW, MERGED = 0, 1, 2

#: Points of a front, and of all of them.
_POINTS, _MOST_POINTS = 24, 20_000_000


class Layers(NamedTuple):
    """Prefix sums over L layers, of times for each number of replicas up to V, and limits of the question."""

    forward: FloatArray  # (V + 1, L + 1) [s]
    first: FloatArray  # (V + 1, L + 1): backward passes up to the gradients of inputs, or all of them [s]
    backward: FloatArray  # (V + 1, L + 1) [s]
    parameters: FloatArray  # (L + 1,): bytes on a device with gradients and optimizer
    summed: FloatArray  # (L + 1,): bytes of an AllReduce
    stored: FloatArray  # (L + 1,): bytes of a microbatch
    forward_bytes: FloatArray  # (L,): bytes that come to a layer
    backward_bytes: FloatArray  # (L,): bytes that leave it in the backward pass
    memory: float
    microbatches: int
    fewest: int  # microbatches that stay in a stage whatever its memory
    full_duplex: bool


class Rates(NamedTuple):
    """Largest rates that any choice of devices reaches, by number of devices up to V [bytes/s]."""

    packed: FloatArray  # (V + 1,): slowest link of an AllReduce in one server
    spread: FloatArray  # (V + 1,): slowest link of an AllReduce over several servers
    inside: FloatArray  # (V + 1,): slowest link of a transfer within a server, by both ends together
    outside: FloatArray  # (V + 1,): slowest link of any other transfer, by both ends together
    loads: FloatArray  # (V + 1, V + 1): least seconds a byte on a card; -1 if one server must hold all
    card: float  # rate of the fastest card
    size: int  # devices of the largest server
    half: bool  # whether cards carry one direction at a time


@compiled
def search_suffixes(layers: Layers, rates: Rates, limit: float) -> int:
    """Whether a plan may be below a time: `NONE_BELOW`, `BELOW`, or `MERGED` if a front was too long to say."""
    L, V, M, g = len(layers.forward_bytes), len(rates.packed) - 1, layers.microbatches, rates.size
    free, merged = 2 * g + 1, False
    # Of what follows a stage that ends before a layer, by its devices, and the number and kind of the stage: a front,
    # the least time until a microbatch is back from there, and the least time that all transfers take.
    z1, z2, used = np.empty(1024), np.empty(1024), 0
    start, count = np.zeros((2, L, V + 1, V + 1, free + 1), dtype=np.int64)
    back, busy = np.full((L, V + 1, V + 1, free + 1), np.inf), np.full((L, V + 1, V + 1, free + 1), np.inf)
    stage1, stage2 = np.empty((V + 1, V + 1, free + 1, _POINTS)), np.empty((V + 1, V + 1, free + 1, _POINTS))
    points, stay = np.zeros((V + 1, V + 1, free + 1), dtype=np.int64), np.empty((V + 1, V + 1, free + 1))
    a1, a2 = np.empty(_POINTS + 1), np.empty(_POINTS + 1)
    for begin in range(L - 1, -1, -1):
        points[:], stay[:] = 0, np.inf
        for r in range(1, V + 1):
            for kind in range(1, free + 1):
                if (kind <= g and r > kind) or (kind > g and (r == 1 or (kind < free and kind - g > r))):
                    continue
                rate = rates.packed[r] if kind <= g else rates.spread[r]
                for devices in range(r, V + 1):
                    n = 0
                    for end in range(begin + 1, L + 1):
                        stored = (layers.stored[end] - layers.stored[begin]) / r
                        room = layers.memory - (layers.parameters[end] - layers.parameters[begin])
                        f = layers.forward[r, end] - layers.forward[r, begin]
                        t = f + layers.first[r, end] - layers.first[r, begin]
                        after = _over(2 * (r - 1) * (layers.summed[end] - layers.summed[begin]), r * rate)
                        work = M * (f + layers.backward[r, end] - layers.backward[r, begin]) + after
                        if work >= limit or stored > room + 1e-12 * layers.memory:
                            break
                        rest, ahead = 0.0, 0.0
                        if end < L:
                            rest, ahead = back[end, devices - r, r, kind], busy[end, devices - r, r, kind]
                        elif kind != free and (kind > g or kind != r):
                            continue
                        resident = max(layers.fewest, np.floor(room * (1 + 1e-9) / stored)) if stored > 0 else M
                        rho = t + rest
                        low = _at_least(M, max(min(resident, M), 1), f, t - f, rest)
                        late = max(work, t + ahead + after, low + after)
                        if not (low < limit and late < limit):
                            continue
                        place = start[end, devices - r, r, kind] if end < L else 0
                        for p in range(place, place + (count[end, devices - r, r, kind] if end < L else 1)):
                            x, y = low, late
                            if end < L:
                                x, y = max(low, t + z1[p]), max(late, f + z2[p])
                            if x < limit and y < limit:
                                if begin == 0:
                                    return MERGED if merged else BELOW
                                stay[devices, r, kind] = min(stay[devices, r, kind], rho)
                                n = _add(a1, a2, n, x, y)
                                if n > _POINTS:
                                    n, merged = _merge(a1, a2, n), True
                    points[devices, r, kind] = n
                    stage1[devices, r, kind, :n], stage2[devices, r, kind, :n] = a1[:n], a2[:n]
        if begin == 0:
            break
        for devices in range(1, V):
            for q in range(1, V - devices + 1):
                for kind in range(1, free + 1):
                    n = 0
                    for r in range(1, devices + 1):
                        for other in range(1, free + 1):
                            if points[devices, r, other] == 0:
                                continue
                            ways = _transfer(layers, rates, begin, (q, kind), (r, other))
                            move = M * (max(ways) if layers.full_duplex else ways[0] + ways[1])
                            if not move < limit:
                                continue
                            both = ways[0] + ways[1]
                            back[begin, devices, q, kind] = min(
                                back[begin, devices, q, kind], both + stay[devices, r, other]
                            )
                            busy[begin, devices, q, kind] = min(busy[begin, devices, q, kind], move)
                            for p in range(points[devices, r, other]):
                                x, y = (
                                    max(move, both + stage1[devices, r, other, p]),
                                    ways[0] + stage2[devices, r, other, p],
                                )
                                if x < limit and y < limit:
                                    n = _add(a1, a2, n, x, y)
                                    if n > _POINTS:
                                        n, merged = _merge(a1, a2, n), True
                    if used + n > len(z1):
                        z1, z2 = np.concatenate((z1, z1)), np.concatenate((z2, z2))
                    z1[used : used + n], z2[used : used + n] = a1[:n], a2[:n]
                    start[begin, devices, q, kind], count[begin, devices, q, kind] = used, n
                    used += n
        if used > _MOST_POINTS:
            return MERGED
    return NONE_BELOW


@compiled
def _at_least(M: int, resident: float, forward: float, backward: float, rest: float) -> float:
    """Least time of all M passes of a stage that has room for `resident` microbatches at a time [s].

    Each microbatch is elsewhere for `rest` seconds between its two passes.
    """
    stay, longer, turns = forward + rest + backward, max(forward, backward), np.ceil(M / resident)
    least = max(
        stay + (M - 1) * longer, turns * stay + (M - 1 - resident * (turns - 1)) * longer, M * (forward + backward)
    )
    if resident < M:
        idle = max(0.0, rest - (resident - 1) * forward) + max(0.0, rest - (resident - 1) * backward)
        least = max(least, M * (forward + backward) + idle)
    return least


@compiled
def _over(size: float, rate: float) -> float:
    """Time of `size` bytes at a rate [s]: 0 for no bytes, infinite without a link."""
    if size <= 0.0:
        return 0.0
    return size / rate if rate > 0.0 else np.inf


@compiled
def _transfer(
    layers: Layers, rates: Rates, layer: int, sender: tuple[int, int], receiver: tuple[int, int]
) -> tuple[float, float]:
    """Least time to a stage that begins with a layer, and back [s]; infinite if such stages are no neighbours."""
    (q, kind), (r, other) = sender, receiver
    forward_bytes, backward_bytes, g = layers.forward_bytes[layer], layers.backward_bytes[layer], rates.size
    if q < kind <= g:  # the next stage lies in the same server
        if other != kind - q:
            return np.inf, np.inf
        rate = q * r * rates.inside[q + r]
        return _over(forward_bytes, rate), _over(backward_bytes, rate)
    part = 1.0 if kind <= g and other <= g else least_part(sender, receiver, g, rates.half)
    if rates.loads[q, r] < 0:
        return np.inf, np.inf
    if part == np.inf:
        return np.inf, np.inf
    rate = q * r * rates.outside[q + r]
    forth = max(_over(forward_bytes, rate), _over(part * forward_bytes, rates.card))
    home = max(_over(backward_bytes, rate), _over(part * backward_bytes, rates.card))
    if forward_bytes > 0:
        forth = max(forth, forward_bytes * rates.loads[q, r])
    if backward_bytes > 0:
        home = max(home, backward_bytes * rates.loads[r, q])
    return forth, home


@compiled
def least_part(sender: tuple[int, int], receiver: tuple[int, int], g: int, half: bool) -> float:
    """Least part of the bytes between two stages, one in several servers, that some card carries; infinite if none can.

    The anchor is the server that holds the next stage of a single server, if there is one. Of the q senders, x lie
    there, and of the r receivers y; as that stage has a device there as well, x + y < g. A server with x senders and y
    receivers sends x (r - y) / (q r) of the bytes and receives y (q - x) / (q r).
    """
    (q, kind), (r, other) = sender, receiver
    free = 2 * g + 1
    if kind > g and other > g:
        if (kind == free) != (other == free):
            return np.inf
        x, y = kind - g - 1, other - g - 1
        if kind == free:
            return 0.0
        if x + y >= g:
            return np.inf
        out, home = x * (r - y) / (q * r), y * (q - x) / (q * r)
        return out + home if half else max(out, home)
    if kind > g:  # to a single server, which is the anchor
        x = kind - g - 1
        return np.inf if kind == free or x + other > g else (q - x) / q
    beside = min(g - q, r - 1)  # receivers in the server of the senders
    if other == free:
        return (r - beside) / r
    y = other - g - 1
    best = max(y, r - min(beside, r - y)) / r  # the anchor is another server
    return min(best, (r - y) / r) if q + y < g else best


@compiled
def _add(a1: FloatArray, a2: FloatArray, n: int, x: float, y: float) -> int:
    """Put a point into a front, the first values rising and the second ones falling; return its new length."""
    i = 0
    while i < n and a1[i] < x:
        i += 1
    if (i > 0 and a2[i - 1] <= y) or (i < n and a1[i] == x and a2[i] <= y):
        return n
    j = i
    while j < n and a2[j] >= y:
        j += 1
    if j == i:
        for m in range(n, i, -1):
            a1[m], a2[m] = a1[m - 1], a2[m - 1]
    else:
        for m in range(j, n):
            a1[i + 1 + m - j], a2[i + 1 + m - j] = a1[m], a2[m]
    a1[i], a2[i] = x, y
    return n + 1 - (j - i)


@compiled
def _merge(a1: FloatArray, a2: FloatArray, n: int) -> int:
    """Replace two neighbouring points by the minimum of their values; return the new length of the front."""
    gaps = np.diff(a1[:n]) - np.diff(a2[:n])
    k = int(gaps.argmin())
    for m in range(k, n - 1):
        a2[m] = a2[m + 1]
        if m > k:
            a1[m] = a1[m + 1]
    return n - 1


# Bounds *z-fixed* and *z-split* on plans on shared network cards, proved a second time by `search_suffixes`.


_MOST_STATES, _MOST_DEVICES = 4_500_000, 64
#: Stands for memory without limit [bytes].
_MOST_MEMORY = 1e300
#: Part by which a time is taken lower than stated: far more than floats are off.
_MARGIN = 5e-10


def check_suffixes(instance: TrainingInstance, claim: Claim) -> Check:
    """Prove a bound on plans with at most one stage on each device, with or without split backward passes."""
    work = least_work(instance)
    if Fraction(claim.value) <= work * (1 + ROUNDING):
        return compare(claim, work, "re-proved: an even share of all work")
    servers = instance.cluster.servers
    states = instance.chain.n * instance.cluster.n**2 * (2 * max(servers) + 2)
    if states > _MOST_STATES or instance.cluster.n > _MOST_DEVICES:
        return Check(claim, None, "trusted: the program over stages is too large here")
    limit = claim.value * (1 - _MARGIN)
    outcome = BELOW
    if _time_at_once(instance) >= limit:
        outcome = search_suffixes(_layers(instance, claim.method == "z-split"), _rates(instance), limit)
    if outcome == MERGED:
        return Check(claim, None, "trusted: there are too many ways to cut stages here")
    proved = Fraction(claim.value) if outcome == NONE_BELOW else work
    return compare(claim, proved, "re-proved: all stages on all servers")


def _time_at_once(instance: TrainingInstance) -> Fraction | float:
    """Time of a single stage on all devices with all samples at once, shared out once; infinite if it is impossible."""
    chain, V, samples = instance.chain, instance.cluster.n, instance.samples
    if samples is None:
        return np.inf
    params, stored, forward, backward = (
        sum(map(Fraction, row.tolist()), Fraction(0))
        for row in (chain.param_bytes, chain.stored, chain.forward, chain.backward)
    )
    needed = Fraction(instance.parameter_copies) * params + stored / V
    if needed > Fraction(min(instance.memory, _MOST_MEMORY)) * (1 + ROUNDING):
        return np.inf
    ring = Cards(instance).allreduce(params, range(V))
    share = Fraction(-(-instance.microbatches * samples // V), samples)
    return np.inf if ring is None else share * (forward + backward) + ring.alone


def _layers(instance: TrainingInstance, split: bool) -> Layers:
    chain, V, q = instance.chain, instance.cluster.n, instance.samples
    shares = np.ones((V + 1, 1)) / np.maximum(np.arange(V + 1), 1)[:, None]
    if q is not None:
        shares = np.array([[-(-q // max(r, 1)) / q] for r in range(V + 1)])
    elif instance.replica_share is not None:
        table = np.broadcast_to(instance.replica_share, (chain.n, V)).T
        shares = np.vstack((table[:1], table))

    def sums(values: FloatArray) -> FloatArray:
        return np.insert(np.cumsum(np.atleast_2d(values), axis=1), 0, 0.0, axis=1)

    def times(values: FloatArray) -> FloatArray:
        return sums(shares * values)

    return Layers(
        times(chain.forward),
        times(chain.input_time if split else chain.backward),
        times(chain.backward),
        sums(instance.parameter_copies * chain.param_bytes)[0],
        sums(chain.param_bytes)[0],
        sums(chain.stored)[0],
        np.insert(chain.forward_bytes, 0, 0.0),
        np.insert(chain.backward_bytes, 0, 0.0),
        min(float(instance.memory), _MOST_MEMORY),
        instance.microbatches,
        instance.microbatches if instance.recomputation else 1,
        instance.full_duplex,
    )


def _rates(instance: TrainingInstance) -> Rates:
    cluster, network = instance.cluster, instance.network
    assert network is not None
    links, servers = cluster.bandwidth, np.array(cluster.servers)
    place = np.repeat(np.arange(len(servers)), servers)
    same = place[:, None] == place
    worse, better = np.minimum(links, links.T), np.maximum(links, links.T)
    leaves = np.array([np.where(same, 0.0, links)[place == h].max() for h in range(len(servers))])
    enters = np.array([np.where(same, 0.0, links)[:, place == h].max() for h in range(len(servers))])
    if network.rates is not None:
        leaves = enters = np.array(network.rates)
    if network.half:
        leaves = enters = np.maximum(leaves, enters)
    card = float(max(leaves.max(), enters.max()))
    across = min(card / (2 if network.half else 1), float(np.where(same, 0.0, worse).max()))
    return Rates(
        packed=_all_linked(np.where(same, worse, 0.0)),
        spread=np.minimum(_all_linked(worse), across),
        inside=_joined(np.where(same, better, 0.0)),
        outside=np.minimum(_joined(better), np.where(same, 0.0, better).max()),
        loads=_loads(servers, leaves, enters, network.half),
        card=card,
        size=int(servers.max()),
        half=network.half,
    )


def _joined(links: FloatArray) -> FloatArray:
    """(V + 1,) for each size, the rate of the link that first joins that many devices, with fast links added first."""
    V = len(links)
    slowest, group, size = np.zeros(V + 1), list(range(V)), 1
    slowest[:2] = np.inf
    pairs = [(links[v, w], v, w) for v in range(V) for w in range(v)]
    for rate, v, w in sorted(pairs, reverse=True):
        if rate > 0 and group[v] != group[w]:
            group = [group[v] if label == group[w] else label for label in group]
            now = group.count(group[v])
            slowest[size + 1 : now + 1] = rate
            size = max(size, now)
    return slowest


def _all_linked(links: FloatArray) -> FloatArray:
    """(V + 1,) for each size, an upper bound on the slowest link within any group of that many devices [bytes/s]."""
    V = len(links)
    rates = sorted({0.0, *links[~np.eye(V, dtype=bool)].tolist()})
    slowest = np.full(V + 1, np.inf)
    for size in range(2, V + 1):
        place = bisect_left(rates, True, lo=1, key=lambda rate: not _may_hold(links >= rate, size))
        slowest[size] = rates[place - 1]
    return slowest


def _may_hold(fast: NDArray[np.bool_], size: int) -> bool:
    """Whether `size` devices may be linked in pairs: fast links connect that many, each with that many fast links."""
    fast = fast | np.eye(len(fast), dtype=bool)
    candidates, before = np.ones(len(fast), dtype=bool), 0
    while candidates.sum() != before:
        before = candidates.sum()
        candidates &= fast[:, candidates].sum(axis=1) >= size
    while candidates.any():
        group = np.arange(len(fast)) == candidates.argmax()
        before = 0
        while group.sum() != before:
            before = group.sum()
            group = candidates & fast[group].any(axis=0)
        if group.sum() >= size:
            return True
        candidates &= ~group
    return False


@compiled
def _loads(servers: IntArray, leaves: FloatArray, enters: FloatArray, half: bool) -> FloatArray:
    """(V + 1, V + 1) least seconds per byte on the busiest card when q devices send to r others.

    The least over all ways in which the devices may lie on the servers.
    """
    V = servers.sum()
    loads = np.full((V + 1, V + 1), -1.0)
    for q in range(1, V):
        for r in range(1, V - q + 1):
            least = np.full((len(servers) + 1, q + 1, r + 1), np.inf)  # before each server, of devices that are placed
            possible = np.zeros((len(servers) + 1, q + 1, r + 1), dtype=np.bool_)
            least[0, 0, 0], possible[0, 0, 0] = 0.0, True
            for h in range(len(servers)):
                for a in range(q + 1):
                    for b in range(r + 1):
                        if not possible[h, a, b]:
                            continue
                        for x in range(min(q - a, servers[h]) + 1):
                            for y in range(min(r - b, servers[h] - x) + 1):
                                if x == q and y == r:
                                    continue
                                out, home = x * (r - y) / (q * r), y * (q - x) / (q * r)
                                if half:
                                    out, home = out + home, 0.0
                                took = least[h, a, b]
                                if out > 0:
                                    took = max(took, out / leaves[h] if leaves[h] > 0 else np.inf)
                                if home > 0:
                                    took = max(took, home / enters[h] if enters[h] > 0 else np.inf)
                                possible[h + 1, a + x, b + y] = True
                                least[h + 1, a + x, b + y] = min(least[h + 1, a + x, b + y], took)
            if possible[len(servers), q, r]:
                loads[q, r] = least[len(servers), q, r]
    return loads
