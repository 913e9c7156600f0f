"""Best deployments of chains of stages on servers for serving, with proofs.

**Chains side by side.** A chain takes a part of one server, or whole servers. The best deployment is a knapsack over
these. A chain on some devices is of use only if it is faster than the best smaller chains on the same devices, so that
boxes are refuted with the rate of these.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from instances import Bound
from instances.deadline import Deadline
from instances.serving.answer import Chain, Deployment, ServedChain, Site
from instances.serving.costs import costs_of
from instances.serving.problem import PICO, DeploymentInstance
from mtpp_models.flow.chains import ChainProof, ChainSearch

#: Numbers of servers of each type that are looked at.
_MOST_VECTORS = 100_000


@dataclass
class _Fleet:
    """Chains on some of the servers, the fastest known there; larger deployments are sums of fleets."""

    rate: Fraction  # tokens in a picosecond
    sites: tuple[tuple[Chain, ...], ...] = ()  # for each site, its chains

    def __add__(self, other: _Fleet) -> _Fleet:
        return _Fleet(self.rate + other.rate, self.sites + other.sites)

    def __mul__(self, times: int) -> _Fleet:
        return _Fleet(self.rate * times, self.sites * times)

    @property
    def joined(self) -> _Fleet:
        """The same chains as a single site: chains of one site share servers."""
        return _Fleet(self.rate, (sum(self.sites, ()),)) if self.sites else self


_NOTHING = _Fleet(Fraction(0))


def deployed(
    question: DeploymentInstance, deadline: Deadline, tell: Callable[[str, float], None] = lambda what, rate: None
) -> tuple[Deployment | None, tuple[Bound, ...], str | None]:
    """The best deployment with bounds on the cost of all deployments, or why there is none.

    Parameters
    ----------
    question : DeploymentInstance
    deadline : Deadline
        After it, the best so far is returned; a bound that was not proved to the end is left out.
    tell : callable, optional
        Called with a text that names devices and their rate [tokens/s], once the best chain on these is known.

    Returns
    -------
    deployment : Deployment or None
    bounds : tuple of Bound
        *device-seconds*, unless the cost is minimised, and *chains*, if the proof is complete.
    reason : str or None
        If it is proved that no deployment is allowed, one line that says why.
    """
    bounds = [] if question.objective == "cost" else [device_seconds(question)]
    if question.prefill == "pools":
        return _pooled(question, deadline, tell, bounds)
    search = _DeploymentSearch(question, deadline, tell)
    best = search.cheapest() if question.objective == "cost" else search.whole()
    answer = None
    if best.sites:
        answer = Deployment(question, _sites(question, best))
        if search.is_complete:
            witness = {"chains": search.document}
            bounds.append(Bound(answer.cost, "chains", witness=witness))
    return answer, tuple(bounds), _unfit(question) if answer is None and search.is_complete else None


def covered(method: str) -> str:
    """A text that names the deployments to which a method's bound applies."""
    return "any use of these devices" if method == "device-seconds" else "any deployment of chains on servers"


def _unfit(question: DeploymentInstance) -> str:
    """A line that says why no deployment is allowed: memory, time per token, or time to the first token."""
    room, weights = costs_of(question).room.tolist(), costs_of(question).weights
    total = sum(servers.count * servers.devices * size for servers, size in zip(question.servers, room, strict=True))
    least = int(((weights[:, -1] - costs_of(question).tied) * np.array(question.degrees)).min())
    if least > total:
        memory = sum(servers.count * servers.devices * servers.memory for servers in question.servers)
        filled = f", of which {max(0, total) / 1e9:.4g} GB may be filled" if least <= memory else ""
        return f"{least / 1e9:.4g} GB of weights do not fit into {memory / 1e9:.4g} GB{filled}."
    decoding = question.pools[1] if question.prefill == "pools" else question
    free = replace(decoding, objective="latency", tpot=math.inf, ttft=math.inf)
    quickest = _DeploymentSearch(free, Deadline(), lambda what, rate: None).whole()
    if not quickest.sites:
        tokens = question.input + question.output
        return f"no chain has room for weights and a sequence of {tokens} tokens; give more memory or shorter texts."
    tpot = float(1 / (quickest.rate * PICO))
    if tpot > question.tpot:
        return f"tpot is {question.tpot * 1e3:.4g} ms; no chain is faster than {tpot * 1e3:.4g} ms."
    if question.prefill == "pools":
        return "no two pools fit beside each other within the limits; give more memory, devices or time."
    return f"ttft is {question.ttft * 1e3:.4g} ms; no chain is that quick beside the other limits."


class _DeploymentSearch:
    """Search for the best deployment: the fastest chain on each set of servers, the smallest sets first."""

    def __init__(self, question: DeploymentInstance, deadline: Deadline, tell: Callable[[str, float], None]) -> None:
        self.question, self.deadline, self.tell = question, deadline, tell
        self.search, self.proofs = ChainSearch(question), list[ChainProof]()
        self.parts = dict[int, list[_Fleet]]()  # of a server of each type, by number of devices
        self.sizes = [servers.devices for servers in question.servers]
        self.counts = [servers.count for servers in question.servers]
        self.is_complete = True  # whether all proofs are there

    @property
    def document(self) -> list[dict[str, Any]]:
        """The proofs as members of files."""
        return [proof.document(self.question.longest_cycle) for proof in self.proofs]

    def whole(self) -> _Fleet:
        """The fastest deployment on all servers."""
        if self.question.objective == "latency" or self.question.topology == "chain":
            if self.search.is_small(list(zip(self.counts, self.sizes, strict=True))):
                return self._chain(self.counts, self.sizes, _NOTHING)
            self.is_complete = False
            alone = [[n * (t == s) for t, n in enumerate(self.counts)] for s in range(len(self.counts))]
            return max((self._chain(counts, self.sizes, _NOTHING) for counts in alone), key=_rate)
        fleets, whole = self.fleets(), tuple(self.counts)
        return fleets[whole] if whole in fleets else _filled(fleets, whole)

    def fleets(self) -> dict[tuple[int, ...], _Fleet]:
        """The fastest deployment for each vector of numbers of servers of each type, as far as time allowed."""
        best: dict[tuple[int, ...], _Fleet] = {tuple(0 for _ in self.counts): _NOTHING}
        for vector in self._vectors():
            if sum(vector) == 1:
                best[vector] = self._of_server(vector.index(1))
                continue
            first, second = max(_splits(vector), key=lambda pair: best[pair[0]].rate + best[pair[1]].rate)
            best[vector] = self._chain(vector, self.sizes, best[first] + best[second])
        return best

    def cheapest(self) -> _Fleet:
        """The deployment with the lowest price per token: one server, or one chain on several."""
        best, price = _NOTHING, Fraction(0)
        for vector in self._vectors():
            rents = zip(vector, self.question.servers, strict=True)
            paid = sum((count * Fraction(servers.price or 0.0) for count, servers in rents), Fraction(0))
            if sum(vector) == 1:
                fleet = self._of_server(vector.index(1))
            else:  # only what is cheaper counts
                rate = best.rate * paid / price if price else Fraction(0)
                fleet = self._chain(vector, self.sizes, _Fleet(rate))
            if fleet.sites and (not best.sites or fleet.rate * price > best.rate * paid):
                best, price = fleet, paid
        return best

    def _vectors(self) -> Iterator[tuple[int, ...]]:
        """Yield vectors of numbers of servers of each type, small ones first; with too many, those of a single type."""
        few = math.prod(count + 1 for count in self.counts) <= _MOST_VECTORS
        self.is_complete &= few
        for vector in _by_sum(self.counts) if few else _alone(self.counts):
            if self.deadline.passed and sum(vector) > 1:
                self.is_complete = False
                return
            yield vector

    def _of_server(self, s: int) -> _Fleet:
        """The fastest deployment on one server of type s, whose devices may be divided among several chains."""
        best = [_NOTHING]
        for devices in range(1, self.sizes[s] + 1):
            smaller = max(
                (best[a] + best[devices - a] for a in range(1, devices // 2 + 1)), key=_rate, default=_NOTHING
            )
            if self.question.topology == "chain" and devices < self.sizes[s]:
                best.append(_NOTHING)
                continue
            sizes = [devices if t == s else size for t, size in enumerate(self.sizes)]
            best.append(self._chain([int(t == s) for t in range(len(sizes))], sizes, smaller))
        self.parts[s] = best
        return best[-1].joined

    def _chain(self, counts: Sequence[int], sizes: Sequence[int], smaller: _Fleet) -> _Fleet:
        """The fastest chain on these devices, or `smaller`, a deployment of smaller chains, if none is faster.

        `counts` and `sizes` are the numbers of servers of each type and of their devices.
        """
        proof = self.search.fastest(list(zip(counts, sizes, strict=True)), _short(smaller.rate), self.deadline)
        self.proofs.append(proof)
        self.is_complete &= proof.is_complete
        words = ", ".join(f"{n}x{size}" for n, size in zip(counts, sizes, strict=True) if n)
        self.tell(words, float(proof.rate * PICO))
        return smaller if proof.chain is None else _Fleet(proof.rate, ((proof.chain,),))


@dataclass
class _Pools:
    """Two fleets on separate devices: chains that process prompts, and chains that decode."""

    prompts: _Fleet
    tokens: _Fleet
    within: Fraction = Fraction(0)  # prompts in a picosecond that are decoded on the server that processed them

    def __add__(self, other: _Pools) -> _Pools:
        return _Pools(self.prompts + other.prompts, self.tokens + other.tokens, self.within + other.within)


def _pooled(
    question: DeploymentInstance, deadline: Deadline, tell: Callable[[str, float], None], bounds: list[Bound]
) -> tuple[Deployment | None, tuple[Bound, ...], str | None]:
    """As `deployed` for separate pools for prompts and decoding: the best division of the devices, bounds, a reason."""
    ends = deadline.share(0.5), deadline
    searches = [_DeploymentSearch(part, end, tell) for part, end in zip(question.pools, ends, strict=True)]
    of_prompts, of_tokens = (search.fleets() for search in searches)
    fronts: dict[tuple[int, ...], list[_Pools]] = {}
    counts = tuple(servers.count for servers in question.servers)
    # Prompts in a picosecond that links between servers leave to those within them, at most.
    prompts = (
        min(of_prompts[counts].rate, of_tokens[counts].rate / question.output)
        if counts in of_tokens
        else Fraction(PICO)
    )
    needed = max(Fraction(0), prompts - question.handed_over / PICO)
    for vector in [vector for vector in of_prompts if any(vector) and vector in of_tokens]:
        if sum(vector) == 1:
            s = vector.index(1)
            parts = zip(searches[0].parts[s], reversed(searches[1].parts[s]), strict=True)
            pools = [_joined(question, s, *pair) for pair in parts]
        elif deadline.passed and any(fronts.values()):
            break
        else:
            pools = [_Pools(of_prompts[vector], _NOTHING), _Pools(_NOTHING, of_tokens[vector])]
            for first, second in _splits(vector) if not deadline.passed else ():
                pools += (a + b for a, b in product(fronts[first], fronts[second]))
        fronts[vector] = _unbeaten(pools, needed)
    is_whole = counts in fronts and not deadline.passed
    answers = [
        Deployment(question, _sites(question, _Fleet(Fraction(0), _at_sites(pools)) * _times(counts, vector)))
        for vector in ([counts] if is_whole else fronts)
        for pools in fronts[vector]
        if pools.prompts.rate > 0 and pools.tokens.rate > 0
    ]
    is_complete = is_whole and all(search.is_complete for search in searches)
    if not answers:
        return None, tuple(bounds), _unfit(question) if is_complete else None
    answer = min(answers, key=lambda deployment: deployment.cost)
    if is_complete:
        names = zip(("prompts", "chains"), searches, strict=True)
        witness = {name: search.document for name, search in names}
        bounds.append(Bound(answer.cost, "chains", witness=witness))
    return answer, tuple(bounds), None


def _times(counts: Sequence[int], vector: Sequence[int]) -> int:
    """Largest number of times that the servers of `vector` can be taken from `counts`."""
    return min(count // n for count, n in zip(counts, vector, strict=True) if n)


def _joined(question: DeploymentInstance, s: int, prompts: _Fleet, tokens: _Fleet) -> _Pools:
    """The two pools if they share one server of type s: all chains are then at one site."""
    if prompts.sites and tokens.sites:
        chains = prompts.joined.sites[0] + tokens.joined.sites[0]
        within = question.stays_within(s, prompts.rate * PICO, tokens.rate * PICO) / PICO
        return _Pools(_Fleet(prompts.rate, (chains,)), _Fleet(tokens.rate), within)
    return _Pools(prompts.joined, tokens.joined)


def _at_sites(pools: _Pools) -> tuple[tuple[Chain, ...], ...]:
    return pools.prompts.sites + pools.tokens.sites


def _unbeaten(pools: list[_Pools], needed: Fraction) -> list[_Pools]:
    """Pareto front of pairs of pools, by prompt rate, token rate and rate of prompts that stay within a server.

    The last rate, `within`, is first capped at `needed`, in place.
    """
    front, stairs = list[_Pools](), list[tuple[Fraction, Fraction]]()  # tokens rise along the stairs, the others fall
    for candidate in pools:
        candidate.within = min(candidate.within, needed)
    for candidate in sorted(
        pools, key=lambda pools: (pools.prompts.rate, pools.tokens.rate, pools.within), reverse=True
    ):
        step = candidate.tokens.rate, candidate.within
        place = bisect_left(stairs, step[:1])
        if place < len(stairs) and stairs[place][1] >= step[1]:
            continue
        lower = next((i for i in range(place, 0, -1) if stairs[i - 1][1] > step[1]), 0)
        is_level = place < len(stairs) and stairs[place][0] == step[0]
        stairs[lower : place + is_level] = [step]
        front.append(candidate)
    return front


def _sites(question: DeploymentInstance, fleet: _Fleet) -> tuple[tuple[Site, int], ...]:
    """The distinct sites of a fleet, each with its count."""
    pools = question.pools[::-1] if question.prefill == "pools" else (question,)
    return tuple(
        (Site(tuple(ServedChain(pools[chain.prompts], chain) for chain in chains)), count)
        for chains, count in Counter(fleet.sites).items()
    )


def _short(rate: Fraction) -> Fraction:
    """A rate rounded up, by a relative error below 1e-12, to a fraction that is short in files."""
    return Fraction(10**6, math.floor(10**6 / rate)) if rate > 0 else rate


def _rate(fleet: _Fleet) -> Fraction:
    return fleet.rate


def _by_sum(counts: Sequence[int]) -> list[tuple[int, ...]]:
    """All vectors of numbers of servers up to `counts` except zero, those with few servers first."""
    return sorted(product(*(range(count + 1) for count in counts)), key=lambda vector: (sum(vector), vector))[1:]


def _alone(counts: Sequence[int]) -> list[tuple[int, ...]]:
    """Vectors of numbers of servers up to `counts` with servers of a single type, those with few servers first."""
    rows = [(count, s) for s, limit in enumerate(counts) for count in range(1, limit + 1)]
    return [tuple(count * (t == s) for t in range(len(counts))) for count, s in sorted(rows)]


def _filled(fleets: dict[tuple[int, ...], _Fleet], counts: Sequence[int]) -> _Fleet:
    """A deployment that fills the servers greedily with fleets, those with the highest rate per server first."""
    total, rest = _NOTHING, list(counts)
    for vector in sorted(filter(any, fleets), key=lambda key: fleets[key].rate / sum(key), reverse=True):
        while all(n <= free for n, free in zip(vector, rest, strict=True)):
            total += fleets[vector]
            rest = [free - n for n, free in zip(vector, rest, strict=True)]
    return total


def _splits(vector: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield the pairs of nonzero vectors with this sum, each pair once."""
    for part in product(*(range(count + 1) for count in vector)):
        other = tuple(count - taken for count, taken in zip(vector, part, strict=True))
        if any(part) and any(other) and part <= other:
            yield part, other


def device_seconds(question: DeploymentInstance) -> Bound:
    """Lower bound on the time per token by device time: each token needs some time of devices, wherever layers are cut.

    Batch sizes are grouped into ranges: a batch takes at least the time of the smallest in its range, and gives at most
    the tokens of the largest.
    """
    costs, best = costs_of(question), Fraction(0)
    degrees = np.array(question.degrees, dtype=object)
    fastest = [Fraction(0)] * len(question.servers)
    for small, large in ranges(question.most_sequences):
        work = (costs.at(small).time[:, :, -1] * degrees).min(axis=1)
        fastest = [max(rate, Fraction(large, each)) for rate, each in zip(fastest, work.tolist(), strict=True)]
    for servers, rate in zip(question.servers, fastest, strict=True):
        best += servers.count * servers.devices * rate
    return Bound(float(1 / (best * PICO)) * (1 - 1e-12), "device-seconds")


def ranges(most: int) -> Iterator[tuple[int, int]]:
    """Ranges (first, last) that cover 1 … `most`, each at most a sixteenth wide."""
    begin = 1
    while begin <= most:
        end = min(most, begin + max(0, begin // 16 - 1))
        yield begin, end
        begin = end + 1
