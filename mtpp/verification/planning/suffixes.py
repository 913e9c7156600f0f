"""Bounds *z-fixed* and *z-split* on plans on shared network cards, proved a second time by `suffix_program`."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from instances.certificates.claims import Claim
from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.planning.problem import TrainingInstance
from mtpp.verification.faults import ROUNDING
from mtpp.verification.planning.even_share import least_work
from mtpp.verification.planning.shared_cards import Cards
from mtpp.verification.planning.suffix_program import BELOW, MERGED, NONE_BELOW, Layers, Rates, search_suffixes
from mtpp.verification.verdict import Check, compare

__all__ = ["check_suffixes"]

_MOST_STATES, _MOST_DEVICES = 4_500_000, 64
#: Stands for memory without limit [bytes].
_MOST_MEMORY = 1e300
#: Part by which a time is taken lower than stated: far more than floats are off.
_MARGIN = 5e-10


def check_suffixes(instance: TrainingInstance, claim: Claim) -> Check:
    """Prove a bound on plans with one stage a device, of split backward passes or not."""
    work = least_work(instance)
    if Fraction(claim.value) <= work * (1 + ROUNDING):
        return compare(claim, work, "re-proved: an even share of all work")
    servers = instance.cluster.servers
    states = instance.chain.n * instance.cluster.n**2 * (2 * max(servers) + 2)
    if states > _MOST_STATES or instance.cluster.n > _MOST_DEVICES:
        return Check(claim, None, "trusted: the program over stages is too large here")
    limit = claim.value * (1 - _MARGIN)
    found = BELOW
    if _time_at_once(instance) >= limit:
        found = search_suffixes(_layers(instance, claim.method == "z-split"), _rates(instance), limit)
    if found == MERGED:
        return Check(claim, None, "trusted: there are too many ways to cut stages here")
    proved = Fraction(claim.value) if found == NONE_BELOW else work
    return compare(claim, proved, "re-proved: all stages on all servers")


def _time_at_once(instance: TrainingInstance) -> Fraction | float:
    """Time of one stage on all devices that takes all samples at once, rounded up once; infinite if there is none."""
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
    """(V + 1,) by sizes, the slowest link that a tree of the fastest links needs to join so many devices."""
    V = len(links)
    slowest, group, size = np.zeros(V + 1), list(range(V)), 1
    slowest[:2] = np.inf
    pairs = [(links[v, w], v, w) for v in range(V) for w in range(v)]
    for rate, v, w in sorted(pairs, reverse=True):
        if rate > 0 and group[v] != group[w]:
            group = [group[v] if one == group[w] else one for one in group]
            now = group.count(group[v])
            slowest[size + 1 : now + 1] = rate
            size = max(size, now)
    return slowest


def _all_linked(links: FloatArray) -> FloatArray:
    """(V + 1,) by sizes, a rate that no such group exceeds in all its links: devices with too few fast ones leave."""
    V = len(links)
    rates = sorted({0.0, *links[~np.eye(V, dtype=bool)].tolist()})
    slowest = np.full(V + 1, np.inf)
    for size in range(2, V + 1):
        place = bisect_left(rates, True, lo=1, key=lambda rate: not _may_hold(links >= rate, size))
        slowest[size] = rates[place - 1]
    return slowest


def _may_hold(fast: NDArray[np.bool_], size: int) -> bool:
    """Whether so many devices may all be linked: those with fast links to as many others are joined by them."""
    fast = fast | np.eye(len(fast), dtype=bool)
    left, before = np.ones(len(fast), dtype=bool), 0
    while left.sum() != before:
        before = left.sum()
        left &= fast[:, left].sum(axis=1) >= size
    while left.any():
        group = np.arange(len(fast)) == left.argmax()
        before = 0
        while group.sum() != before:
            before = group.sum()
            group = left & fast[group].any(axis=0)
        if group.sum() >= size:
            return True
        left &= ~group
    return False


@compiled
def _loads(servers: IntArray, leaves: FloatArray, enters: FloatArray, half: bool) -> FloatArray:
    """(V + 1, V + 1) least seconds a byte of the busiest card, from q devices to r others, over all ways to lie."""
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
