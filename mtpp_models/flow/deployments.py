r"""Best chains of stages on servers for serving, and deployments of them, with proofs.

**The shortest chain.** For m batches of b sequences, let :math:`f_j(q)` be the least sum of times of stages that hold
the first j layers, each of at most :math:`β` and within the memory, where q says how many servers of each type are in
use, and how many devices of the last one are free. A step takes t of these, or begins a new server.

**All m and b.** Times do not fall with b, so that all m in :math:`[m_1, m_2]` and b in :math:`[x, y]` give a rate of at
most :math:`b / \max_i T_i(x)` and :math:`m_2 y / \sum_i T_i(x)`, and need room for :math:`m_1 x` sequences. A *box*
of m and b is settled where no chain at x has stages short enough, and a sum short enough, for a larger rate than is
known; otherwise it is cut in two. Boxes that are settled cover all m and b: that proves the rate.

**Chains side by side.** A chain takes a part of one server, or whole servers. The best deployment is a knapsack over
these; a chain that is no better than what its devices give as smaller ones need not be found, so that boxes are settled
against that.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from instances import Bound
from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import IntArray
from instances.serving.answer import Chain, Deployment, ServedChain, Site, Stage
from instances.serving.costs import costs_of
from instances.serving.problem import ENDLESS, PICO, DeploymentInstance

#: Labels of a state, where prompts have a limit of time.
_LABELS = 16


@compiled
def _shortest(
    time: IntArray,
    prompt: IntArray,
    weights: IntArray,
    caches: IntArray,
    tied: IntArray,
    room: IntArray,
    degrees: IntArray,
    visit: int,
    hops: IntArray,
    devices: IntArray,
    counts: IntArray,
    sequences: int,
    longest: int,
    limit: int,
    patience: int,
    kept: int,
) -> tuple[int, bool, IntArray]:
    """Least sum of stages that are no longer than `longest`, whose prompts take no more than `patience`.

    Of each state at most `kept` labels are there, pairs of sums of times and of prompts that no other beats; where
    there were more, two became one that beats both, and the flag says that the chain may be none.

    Returns
    -------
    least : int
        -1 if there is no chain within `limit`.
    is_exact : bool
    stages : (p, 5) integers
        Servers, whether they are new ones, number of the degree, first layer and end; the last stage first.
    """
    types, layers = len(counts), time.shape[2] - 1
    place = np.zeros(types + 1, dtype=np.int64)  # of the first state with a device of these servers
    radix = np.ones(types + 1, dtype=np.int64)
    for s in range(types):
        place[s + 1] = place[s] + devices[s]
        radix[s + 1] = radix[s] * (counts[s] + 1)
    currents = place[types] + 1  # servers of the last stage with their free devices, or none
    states = radix[types] * currents
    number = np.zeros((layers + 1, states), dtype=np.int64)
    label = np.zeros((layers + 1, states, kept, 2), dtype=np.int64)
    parent = np.full((layers + 1, states, kept, 4), -1, dtype=np.int64)  # layer, state, label, degree
    number[0, 0] = 1
    is_exact = True
    for j in range(layers):
        for state in range(states):
            if number[j, state] == 0:
                continue
            used, current = state // currents, state % currents
            last, free = -1, 0
            if current > 0:
                for s in range(types):
                    if current - 1 < place[s + 1]:
                        last, free = s, current - 1 - place[s]
                        break
            for s in range(types):
                for fresh in range(2):
                    if fresh == 0:
                        if s != last:
                            continue
                        available, index = free, used
                    else:
                        if used // radix[s] % (counts[s] + 1) >= counts[s]:
                            continue
                        available, index = devices[s], used + radix[s]
                    hop = hops[s, fresh] if j > 0 else 0
                    for d in range(len(degrees)):
                        if degrees[d] > available:
                            break
                        target = index * currents + 1 + place[s] + available - degrees[d]
                        for i in range(j + 1, layers + 1):
                            took = time[s, d, i] - time[s, d, j] + visit + hop
                            size = weights[d, i] - weights[d, j] + sequences * (caches[d, i] - caches[d, j])
                            if j == 0 and i == layers:
                                size -= tied[d]
                            if took > longest or size > room[s]:
                                break
                            waits = prompt[s, d, i] - prompt[s, d, j]
                            for a in range(number[j, state]):
                                total, asked = label[j, state, a, 0] + took, label[j, state, a, 1] + waits
                                if total > limit or asked > patience:
                                    continue
                                rest = 0
                                for c in range(number[i, target]):
                                    if label[i, target, c, 0] <= total and label[i, target, c, 1] <= asked:
                                        rest = -1
                                        break
                                if rest < 0:
                                    continue
                                for c in range(number[i, target]):
                                    if label[i, target, c, 0] < total or label[i, target, c, 1] < asked:
                                        label[i, target, rest] = label[i, target, c]
                                        parent[i, target, rest] = parent[i, target, c]
                                        rest += 1
                                if rest == kept:
                                    is_exact = False
                                    rest -= 1
                                    total = min(total, label[i, target, rest, 0])
                                    asked = min(asked, label[i, target, rest, 1])
                                label[i, target, rest, 0], label[i, target, rest, 1] = total, asked
                                parent[i, target, rest, 0], parent[i, target, rest, 1] = j, state
                                parent[i, target, rest, 2], parent[i, target, rest, 3] = a, d
                                number[i, target] = rest + 1
    least, state, a = limit + 1, 0, 0
    for target in range(states):
        for c in range(number[layers, target]):
            if label[layers, target, c, 0] < least:
                least, state, a = label[layers, target, c, 0], target, c
    stages = np.zeros((layers, 5), dtype=np.int64)
    if least > limit:
        return -1, is_exact, stages[:0]
    count, i = 0, layers
    while i > 0:
        j, before, c, d = parent[i, state, a]
        current, s = state % currents, 0
        while current - 1 >= place[s + 1]:
            s += 1
        stages[count] = s, int(state // currents != before // currents), d, j, i
        count, i, state, a = count + 1, j, before, c
    return least, is_exact, stages[:count]


@dataclass(frozen=True)
class Box:
    """From `fewest` to `most` batches of `small` to `large` sequences, in cycles from `quickest` to `slowest`."""

    fewest: int
    most: int
    small: int
    large: int
    quickest: int = 0  # [10^-12 s]
    slowest: int = ENDLESS
    degree: int | None = None  # of all stages; None if they may differ

    @property
    def sequences(self) -> int:
        """The most sequences in flight."""
        return self.most * self.large

    def halves(self) -> Iterator[Box]:
        """The box in two, along the side whose ends differ by the larger factor, cycles last."""
        if self.most * self.small >= self.fewest * self.large and self.fewest < self.most:
            middle = math.isqrt(self.fewest * self.most)
            yield replace(self, most=middle)
            yield replace(self, fewest=middle + 1)
        elif self.small < self.large:
            middle = math.isqrt(self.small * self.large)
            yield replace(self, large=middle)
            yield replace(self, small=middle + 1)
        elif self.quickest < self.slowest:
            middle = (self.quickest + self.slowest) // 2
            yield replace(self, slowest=middle)
            yield replace(self, quickest=middle + 1)

    def document(self) -> list[int]:
        """The box as files have it."""
        cycles = [] if (self.quickest, self.slowest) == (0, ENDLESS) else [self.quickest, self.slowest]
        return [self.fewest, self.most, self.small, self.large, self.degree or 0, *cycles]


@dataclass
class ChainProof:
    """Proof that no chain on some devices has a larger rate than `rate`: boxes that cover all batches."""

    devices: tuple[tuple[int, int], ...]  # by type: servers, and devices of a server
    rate: Fraction  # tokens in a picosecond
    chain: Chain | None = None  # as fast as that; None where the rate was given
    boxes: list[Box] = field(default_factory=list)
    is_complete: bool = True

    def document(self) -> dict[str, Any]:
        """The proof as files have it."""
        rate = [self.rate.numerator, self.rate.denominator]
        return {"devices": list(map(list, self.devices)), "rate": rate, "boxes": [box.document() for box in self.boxes]}


class ChainSearch:
    """Search for the fastest chain on devices of servers.

    Parameters
    ----------
    question : DeploymentInstance
    """

    def __init__(self, question: DeploymentInstance) -> None:
        self.question, self.costs = question, costs_of(question)
        self.degrees = np.array(question.degrees, dtype=np.int64)

    def fastest(self, devices: Sequence[tuple[int, int]], rate: Fraction, deadline: Deadline) -> ChainProof:
        """The fastest chain that beats a rate, with its proof.

        Parameters
        ----------
        devices : pairs
            Of each type, servers and devices of a server.
        rate : Fraction
            That is to be beaten [tokens in a picosecond].
        deadline : Deadline
        """
        proof, question = ChainProof(tuple(devices), rate), self.question
        root = Box(1, question.most_batches(devices), 1, question.most_sequences, slowest=question.longest_cycle)
        roots = [replace(root, degree=t) for t in question.degrees] if question.uniform else [root]
        heap = [(-math.inf, number, box) for number, box in enumerate(roots)]
        ticket = len(heap)
        while heap:
            _, _, box = heapq.heappop(heap)
            if deadline.passed:
                proof.is_complete = False
                break
            total, stages = self._shortest(proof, box)
            if total < 0:
                proof.boxes.append(box)
                continue
            better = self._improve(proof, box, stages)
            for piece in list(box.halves()) or [box] * better:
                heapq.heappush(heap, (-piece.sequences / total, ticket, piece))
                ticket += 1
            if not better and box.small == box.large and box.fewest == box.most and box.quickest == box.slowest:
                proof.is_complete = False  # labels were merged
        return proof

    def _shortest(self, proof: ChainProof, box: Box) -> tuple[int, tuple[Stage, ...]]:
        """Least sum of times, with its stages, of chains that might beat the rate in a box; -1 if there is none."""
        question, costs = self.question, self.costs
        limit = box.slowest
        longest = limit // box.fewest
        if proof.rate > 0:
            longest = min(longest, math.ceil(box.large / proof.rate) - 1)
            limit = min(limit, math.ceil(box.sequences / proof.rate) - 1)
        tables = costs.at(box.small)
        counts, sizes = (np.array(row, dtype=np.int64) for row in zip(*proof.devices, strict=True))
        number = None if box.degree is None else question.degrees.index(box.degree)
        chosen = slice(None) if number is None else slice(number, number + 1)
        patience = question.patience(box.quickest)
        work = (tables.time[:, chosen, -1] * self.degrees[chosen]).min(axis=1)
        if longest <= 0 or patience < 0 or (counts * sizes * (longest / work)).sum() < 1 - 1e-9:
            return -1, ()  # all devices together are too slow, wherever layers are cut
        has_limit = question.ttft < math.inf
        total, _, rows = _shortest(
            tables.time[:, chosen],
            costs.prompts[:, chosen] * has_limit,
            costs.weights[chosen],
            costs.caches[chosen],
            costs.tied[chosen],
            costs.room,
            self.degrees[chosen],
            tables.visit,
            tables.hops,
            sizes,
            counts,
            box.fewest * box.small,
            longest,
            limit,
            patience,
            _LABELS if has_limit else 1,
        )
        stages, used = [], [-1] * len(counts)
        for s, fresh, d, first, end in rows[::-1].tolist():
            used[s] += fresh
            degree = question.degrees[d if number is None else number]
            stages.append(Stage(s, used[s], degree, first, end))
        return int(total), tuple(stages)

    def _improve(self, proof: ChainProof, box: Box, stages: tuple[Stage, ...]) -> bool:
        """Take a chain of these stages where one in the box is faster than the rate; whether there is one."""
        before, prompts = proof.rate, self.question.prefill == "prompts"
        for batches in sorted({box.fewest, min(max(box.fewest, len(stages)), box.most), box.most}):
            low, high = box.small, box.large
            while low < high:  # the largest batch that is allowed
                middle = (low + high + 1) // 2
                is_allowed = ServedChain(self.question, Chain(stages, batches, middle, prompts)).is_allowed
                low, high = (middle, high) if is_allowed else (low, middle - 1)
            for batch in sorted({box.small, (box.small + low) // 2, low}):
                chain = ServedChain(self.question, Chain(stages, batches, batch, prompts))
                rate = chain.rate / PICO
                if rate > proof.rate and chain.is_allowed:
                    proof.rate, proof.chain = rate, chain.chain
        return proof.rate > before


# Deployments: chains on parts of a server and on whole servers, side by side.


@dataclass
class _Fleet:
    """The best deployments on devices, of which larger ones are made."""

    rate: Fraction  # tokens in a picosecond
    sites: tuple[tuple[Chain, ...], ...] = ()  # chains of each

    def __add__(self, other: _Fleet) -> _Fleet:
        return _Fleet(self.rate + other.rate, self.sites + other.sites)

    @property
    def joined(self) -> _Fleet:
        """The same chains at one site."""
        return _Fleet(self.rate, (sum(self.sites, ()),)) if self.sites else self


_NOTHING = _Fleet(Fraction(0))


def deployed(
    question: DeploymentInstance, deadline: Deadline, tell: Callable[[str, float], None] = lambda what, rate: None
) -> tuple[Deployment | None, tuple[Bound, ...]]:
    """The best deployment, and bounds on the cost of all.

    Parameters
    ----------
    question : DeploymentInstance
    deadline : Deadline
        With it, the best by then; a bound that was not proved to the end is left out.
    tell : callable, optional
        Takes the devices in words and their rate [tokens/s] when these are done.

    Returns
    -------
    deployment : Deployment or None
    bounds : tuple of Bound
        *device-seconds*, where there are no limits of latency but in the costs, and *chains*, if the proof is complete.
    """
    bounds = [] if question.objective == "cost" else [device_seconds(question)]
    if question.prefill == "pools":
        return _pooled(question, deadline, tell, bounds)
    search = _DeploymentSearch(question, deadline, tell)
    best = search.cheapest() if question.objective == "cost" else search.whole()
    answer = None
    if best.sites:
        answer = Deployment(question, _sites(question, best))
        if all(proof.is_complete for proof in search.proofs):
            witness = {"chains": [proof.document() for proof in search.proofs]}
            bounds.append(Bound(answer.cost, "chains", witness=witness))
    return answer, tuple(bounds)


def covered(method: str) -> str:
    """The deployments that a bound of a method holds for, in words."""
    return "any use of these devices" if method == "device-seconds" else "any deployment of chains on servers"


def unfit(question: DeploymentInstance) -> str:
    """Why no chain is allowed, in one line, where none is."""
    room, weights = costs_of(question).room.tolist(), costs_of(question).weights
    total = sum(servers.count * servers.devices * size for servers, size in zip(question.servers, room, strict=True))
    least = int((weights[:, -1] * np.array(question.degrees)).min()) - int(costs_of(question).tied[0])
    if least > total:
        memory = sum(servers.count * servers.devices * servers.memory for servers in question.servers)
        return f"{least / 1e9:.4g} GB of weights do not fit into {memory / 1e9:.4g} GB."
    free = replace(question, objective="latency", tpot=math.inf, ttft=math.inf)
    quickest, _ = deployed(free, Deadline())
    if quickest is None:
        tokens = question.input + question.output
        return f"no chain has room for weights and a sequence of {tokens} tokens; give more memory or shorter texts."
    if quickest.tpot > question.tpot:
        return f"tpot is {question.tpot * 1e3:.4g} ms; no chain is faster than {quickest.tpot * 1e3:.4g} ms."
    return f"ttft is {question.ttft * 1e3:.4g} ms; no chain is that quick beside the other limits."


class _DeploymentSearch:
    """Chains on all parts of servers that a deployment may use, the smallest first."""

    def __init__(self, question: DeploymentInstance, deadline: Deadline, tell: Callable[[str, float], None]) -> None:
        self.question, self.deadline, self.tell = question, deadline, tell
        self.search, self.proofs = ChainSearch(question), list[ChainProof]()
        self.parts = dict[int, list[_Fleet]]()  # of a server of each type, by number of devices
        self.sizes = [servers.devices for servers in question.servers]
        self.counts = [servers.count for servers in question.servers]

    def whole(self) -> _Fleet:
        """The fastest deployment on all servers."""
        if self.question.objective == "latency" or self.question.topology == "chain":
            return self._chain(self.counts, self.sizes, _NOTHING)
        return self.fleets()[tuple(self.counts)]

    def fleets(self) -> dict[tuple[int, ...], _Fleet]:
        """The fastest deployments on all numbers of servers of each type."""
        best: dict[tuple[int, ...], _Fleet] = {tuple(0 for _ in self.counts): _NOTHING}
        for vector in _by_sum(self.counts):
            if sum(vector) == 1:
                best[vector] = self._of_server(vector.index(1))
                continue
            smaller = max((best[a] + best[b] for a, b in _splits(vector)), key=_rate)
            best[vector] = self._chain(vector, self.sizes, smaller)
        return best

    def cheapest(self) -> _Fleet:
        """The deployment whose tokens cost least: a server, or a chain on several."""
        best, price = _NOTHING, Fraction(0)
        for vector in _by_sum(self.counts):
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

    def _of_server(self, s: int) -> _Fleet:
        """The fastest deployment on a server of a type: its devices as parts."""
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

    def _chain(self, counts: Sequence[int], sizes: Sequence[int], known: _Fleet) -> _Fleet:
        """The fastest chain on devices, or what is known if that is as fast."""
        proof = self.search.fastest(list(zip(counts, sizes, strict=True)), _short(known.rate), self.deadline)
        self.proofs.append(proof)
        words = ", ".join(f"{n}x{size}" for n, size in zip(counts, sizes, strict=True) if n)
        self.tell(words, float(proof.rate * PICO))
        return known if proof.chain is None else _Fleet(proof.rate, ((proof.chain,),))


@dataclass
class _Pools:
    """Chains that take prompts, and chains that decode."""

    prompts: _Fleet
    tokens: _Fleet

    def __add__(self, other: _Pools) -> _Pools:
        return _Pools(self.prompts + other.prompts, self.tokens + other.tokens)


def _pooled(
    question: DeploymentInstance, deadline: Deadline, tell: Callable[[str, float], None], bounds: list[Bound]
) -> tuple[Deployment | None, tuple[Bound, ...]]:
    """The best division of devices into chains that take prompts and chains that decode."""
    searches = [_DeploymentSearch(part, deadline, tell) for part in question.pools]
    of_prompts, of_tokens = (search.fleets() for search in searches)
    fronts: dict[tuple[int, ...], list[_Pools]] = {}
    for vector in of_tokens:
        if sum(vector) == 1:
            s = vector.index(1)
            parts = zip(searches[0].parts[s], reversed(searches[1].parts[s]), strict=True)
            pools = [_joined(*pair) for pair in parts]
        else:
            pools = [_Pools(of_prompts[vector], _NOTHING), _Pools(_NOTHING, of_tokens[vector])]
            for first, second in _splits(vector):
                pools += (a + b for a, b in product(fronts[first], fronts[second]))
        fronts[vector] = _unbeaten(pools)
    answers = [
        Deployment(question, _sites(question, _Fleet(Fraction(0), _at_sites(pools))))
        for pools in fronts[tuple(servers.count for servers in question.servers)]
        if pools.prompts.rate > 0 and pools.tokens.rate > 0
    ]
    if not answers:
        return None, tuple(bounds)
    answer = min(answers, key=lambda deployment: deployment.cost)
    if all(proof.is_complete for search in searches for proof in search.proofs):
        names = zip(("prompts", "chains"), searches, strict=True)
        witness = {name: [proof.document() for proof in search.proofs] for name, search in names}
        bounds.append(Bound(answer.cost, "chains", witness=witness))
    return answer, tuple(bounds)


def _joined(prompts: _Fleet, tokens: _Fleet) -> _Pools:
    """Pools on one server, whose chains are at one site, that of the prompts if there are any."""
    if prompts.sites and tokens.sites:
        chains = prompts.joined.sites[0] + tokens.joined.sites[0]
        return _Pools(_Fleet(prompts.rate, (chains,)), _Fleet(tokens.rate))
    return _Pools(prompts.joined, tokens.joined)


def _at_sites(pools: _Pools) -> tuple[tuple[Chain, ...], ...]:
    return pools.prompts.sites + pools.tokens.sites


def _unbeaten(pools: list[_Pools]) -> list[_Pools]:
    """Pools than which no others take more prompts and decode more."""
    front = list[_Pools]()
    for candidate in sorted(pools, key=lambda pair: (pair.prompts.rate, pair.tokens.rate), reverse=True):
        if not front or candidate.tokens.rate > front[-1].tokens.rate:
            front.append(candidate)
    return front


def _sites(question: DeploymentInstance, fleet: _Fleet) -> tuple[tuple[Site, int], ...]:
    """Sites of a fleet that differ, each with how many there are."""
    pools = question.pools[::-1] if question.prefill == "pools" else (question,)
    return tuple(
        (Site(tuple(ServedChain(pools[chain.prompts], chain) for chain in chains)), count)
        for chains, count in Counter(fleet.sites).items()
    )


def _short(rate: Fraction) -> Fraction:
    """A rate with few digits, at least as large by less than 1e-12 of it, as files have it."""
    return Fraction(10**6, math.floor(10**6 / rate)) if rate > 0 else rate


def _rate(fleet: _Fleet) -> Fraction:
    return fleet.rate


def _by_sum(counts: Sequence[int]) -> list[tuple[int, ...]]:
    """Vectors from 0 to the counts but for zero, small sums first."""
    return sorted(product(*(range(count + 1) for count in counts)), key=lambda vector: (sum(vector), vector))[1:]


def _splits(vector: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Pairs of smaller vectors with this sum."""
    for part in product(*(range(count + 1) for count in vector)):
        other = tuple(count - taken for count, taken in zip(vector, part, strict=True))
        if any(part) and any(other) and part <= other:
            yield part, other


def device_seconds(question: DeploymentInstance) -> Bound:
    """Bound by the work of all devices: a token of a layer takes some time of some of them, however it is cut.

    Batches are taken by ranges; one of a range takes at least the time of the smallest, for at most the largest.
    """
    costs, best = costs_of(question), Fraction(0)
    degrees = np.array(question.degrees, dtype=np.int64)
    fastest = [Fraction(0)] * len(question.servers)
    for small, large in ranges(question.most_sequences):
        work = (costs.at(small).time[:, :, -1] * degrees).min(axis=1)
        fastest = [max(rate, Fraction(large, each)) for rate, each in zip(fastest, work.tolist(), strict=True)]
    for servers, rate in zip(question.servers, fastest, strict=True):
        best += servers.count * servers.devices * rate
    return Bound(float(1 / (best * PICO)) * (1 - 1e-12), "device-seconds")


def ranges(most: int) -> Iterator[tuple[int, int]]:
    """Ranges from 1 to a number, each to less than a sixteenth beyond its begin."""
    begin = 1
    while begin <= most:
        end = min(most, begin + max(0, begin // 16 - 1))
        yield begin, end
        begin = end + 1
