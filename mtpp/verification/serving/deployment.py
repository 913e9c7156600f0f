"""Check of deployments: numbers of their chains, and that no other deployment is better."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import ceil, floor, inf, prod

from instances.certificates import Claim
from instances.json_files import Value
from instances.serving.problem import (
    CACHES,
    ENDLESS,
    PICO,
    DeploymentInstance,
    StatedChain,
    StatedDeployment,
    StatedSite,
    deployment_from_document,
)
from mtpp.verification.serving.chains import ChainChecks, ExactStages, Goal
from mtpp.verification.verdict import (
    ROUNDING,
    Check,
    Clock,
    Limits,
    UndecidedError,
    Verdict,
    as_float,
    is_near,
    unequal,
    verdict_of,
)

_Vector = tuple[int, ...]
_Devices = tuple[tuple[int, int], ...]
# From and to: batches in flight, sequences of a batch, cycles; and the degree of stages, 0 for any.
_Box = tuple[int, int, int, int, int, int, int]
# Runtimes whose stages work at the same batch, one after the other.
_ONE_BATCH = ("llama-cpp", "exo")
_MOST_BOXES, _MOST_VECTORS = 20_000, 100_000


def verify_deployment(document: Value, limits: Limits) -> Verdict:
    """Check all that can be checked in the certificate of a deployment.

    Raises
    ------
    InputError
        If the document is no such certificate, or the parameters of a bound are not of the kind that its method needs.
    OutOfTimeError
        If the time ends before the numbers of the answer are checked.
    """
    stated = deployment_from_document(document)
    clock = Clock(limits.seconds)
    pools = _pools(stated.instance, clock)
    fault = next(_misshapen(stated, pools), None)
    faults: list[str] = []
    cost = None
    if fault is None:
        numbers = _Numbers(pools, stated)
        fault = next(numbers.breaches(), None)
        faults, cost = [*numbers.faults()], numbers.cost
    return verdict_of(
        stated, cost, faults, lambda claim: _check(stated.instance, pools, claim, clock), limits, fault=fault
    )


def _pools(question: DeploymentInstance, clock: Clock) -> dict[bool, ExactStages]:
    """Times and bytes of stages for each pool: True for the pool of prompts, False for any other."""
    if question.prefill != "pools":
        return {False: ExactStages(question, clock)}
    together = min(question.batch, max(1, 8192 // question.input))
    return {
        False: ExactStages(replace(question, prefill="none", ttft=inf), clock),
        True: ExactStages(replace(question, prefill="prompts", tpot=inf, batch=together), clock),
    }


# Chains of an answer: whether they may be there, and their numbers.


def _misshapen(stated: StatedDeployment, pools: dict[bool, ExactStages]) -> Iterator[str]:
    """Yield faults of the deployment's shape on these servers."""
    question, used = stated.instance, [0] * len(stated.instance.servers)
    for prompts in pools:
        if not any(chain.prompts == prompts for site in stated.answer.sites for chain in site.chains):
            yield f"answer.sites: no chain {'takes prompts' if prompts else 'decodes'}"
    for i, site in enumerate(stated.answer.sites):
        place = f"answer.sites[{i}]"
        if site.count < 1 or not site.chains:
            yield f"{place}: it has no chains"
            return
        for c, chain in enumerate(site.chains):
            if chain.prompts not in pools:
                yield f"{place}.chains[{c}].prompts: the question has no pool for them"
                return
            yield from _misshapen_chain(pools[chain.prompts].question, chain, f"{place}.chains[{c}]")
        yield from _crowded(question, site, place)
        for s, _ in {(row[0], row[1]) for chain in site.chains for row in chain.stages}:
            used[s] += site.count
    for s, (count, servers) in enumerate(zip(used, question.servers, strict=True)):
        if count > servers.count:
            yield f"answer.sites: {count} servers of type {s} are used of {servers.count}"
    chains = sum(site.count * len(site.chains) for site in stated.answer.sites)
    if chains > 1 and (question.topology == "chain" or question.objective == "latency"):
        yield f"answer.sites: there are {chains} chains, and the question wants one"


def _misshapen_chain(question: DeploymentInstance, chain: StatedChain, place: str) -> Iterator[str]:
    ends = [0, *(row[4] for row in chain.stages)]
    if not chain.stages or ends[-1] != question.model.layers:
        yield f"{place}.stages: they do not hold all layers"
        return
    for n, (s, server, degree, first, end) in enumerate(chain.stages):
        if not (0 <= s < len(question.servers) and server >= 0 and degree in question.degrees):
            yield f"{place}.stages[{n}]: there are no such servers, or no such degree"
            return
        if first != ends[n] or not first < end:
            yield f"{place}.stages[{n}]: it does not begin where the one before ends, or holds no layer"
    homes = [row[:2] for row in chain.stages]
    changes = [home for n, home in enumerate(homes) if n == 0 or homes[n - 1] != home]
    if len(changes) > len(set(changes)):
        yield f"{place}.stages: those of a server do not follow each other"
    for home in set(homes):
        if sum(row[2] for row in chain.stages if row[:2] == home) > question.servers[home[0]].devices:
            yield f"{place}.stages: they need more devices than server {home[1]} of type {home[0]} has"
    if question.uniform and len({row[2] for row in chain.stages}) > 1:
        yield f"{place}.stages: their degrees differ"
    single = question.objective == "latency"
    limit = 1 if single or question.runtime in _ONE_BATCH else 4096
    if not 1 <= chain.batch <= (1 if single else question.batch) or not 1 <= chain.batches <= limit:
        yield f"{place}: {chain.batches} batches of {chain.batch} sequences are not allowed"
    if not len(chain.weight_bytes) == len(chain.cache_bytes) == len(chain.stages):
        yield f"{place}: weight_bytes and cache_bytes are not {len(chain.stages)} numbers"


def _crowded(question: DeploymentInstance, site: StatedSite, place: str) -> Iterator[str]:
    """Yield faults of chains that share a server."""
    homes = {row[:2] for chain in site.chains for row in chain.stages}
    if len(site.chains) > 1:
        if len(homes) > 1:
            yield f"{place}: several chains share several servers"
            return
        ((s, _),) = homes
        devices = sum(row[2] for chain in site.chains for row in chain.stages)
        if devices > question.servers[s].devices:
            yield f"{place}: its chains need {devices} devices of a server that has {question.servers[s].devices}"


class _Numbers:
    """Numbers of the chains of an answer, computed from the definition."""

    def __init__(self, pools: dict[bool, ExactStages], stated: StatedDeployment) -> None:
        self.pools, self.stated, self.question = pools, stated, stated.instance
        self.prompts = {pool: stages.prompts() for pool, stages in pools.items()}
        self.chains = [
            (f"answer.sites[{i}].chains[{c}]", site.count, chain)
            for i, site in enumerate(stated.answer.sites)
            for c, chain in enumerate(site.chains)
        ]

    def cycle(self, chain: StatedChain) -> int:
        """Time of a token or, in the pool of prompts, of a batch of prompts [10^-12 s]."""
        degrees, stages, times = self.question.degrees, self.pools[chain.prompts], list[int]()
        table, before = stages.times(chain.batch), None
        for s, server, degree, first, end in chain.stages:
            row = table[s, degrees.index(degree)]
            time = int(row[end] - row[first]) + stages.visit(chain.batch)
            if before is not None:
                time += stages.hop(s, chain.batch, within=before == (s, server))
            times.append(time)
            before = (s, server)
        return max(chain.batches * max(times), sum(times))

    def ttft(self, chain: StatedChain) -> Fraction:
        """Time to the first token [s]."""
        constants, degrees = self.question.constants, self.question.degrees
        table = self.prompts[chain.prompts]
        rows = [(table[s, degrees.index(degree)], first, end) for s, _, degree, first, end in chain.stages]
        prompt = sum(int(row[end] - row[first]) for row, first, end in rows)
        waiting = Fraction(constants.prompt) * prompt + Fraction(constants.wait) * self.cycle(chain)
        return Fraction(constants.first) + waiting / PICO

    def sizes(self, chain: StatedChain) -> Iterator[tuple[int, int, int]]:
        """Weights, caches and room on a device of each stage [bytes]."""
        stages = self.pools[chain.prompts]
        for s, _, degree, first, end in chain.stages:
            weights, caches = stages.weights(degree), stages.caches(degree)
            size = weights[end] - weights[first]
            if first == 0 and end == self.question.model.layers:
                size -= stages.tied(degree)
            yield size, chain.batches * chain.batch * (caches[end] - caches[first]), stages.room(s)

    def breaches(self) -> Iterator[str]:
        """Yield limits that a chain violates."""
        for place, _, chain in self.chains:
            limits = self.pools[chain.prompts].question
            for n, (weights, caches, room) in enumerate(self.sizes(chain)):
                if weights + caches > room:
                    sizes = f"{weights} bytes of weights and {caches} of caches"
                    yield f"{place}.stages[{n}]: {sizes} do not fit into {room}"
            cycle, first = self.cycle(chain), self.ttft(chain)
            if cycle > _longest(limits):
                yield f"{place}: a token takes {cycle / PICO:g} s, and {limits.tpot:g} s are allowed"
            if limits.ttft < inf and first > Fraction(limits.ttft) * (1 + ROUNDING):
                yield f"{place}: the first token takes {as_float(first):g} s, and {limits.ttft:g} s are allowed"

    @property
    def rate(self) -> Fraction:
        """Tokens a second."""
        rates, within = dict.fromkeys(self.pools, Fraction(0)), Fraction(0)
        for site in self.stated.answer.sites:
            mine = dict.fromkeys(self.pools, Fraction(0))
            for chain in site.chains:
                mine[chain.prompts] += Fraction(chain.batches * chain.batch * PICO, self.cycle(chain))
            for pool, rate in mine.items():
                rates[pool] += site.count * rate
            homes = {row[:2] for chain in site.chains for row in chain.stages}
            if True in mine and len(homes) == 1:
                ((s, _),) = homes
                within += site.count * _stays_within(self.question, s, mine[False], mine[True])
        return _rate_of_pools(self.question, rates[False], rates[True], within) if True in rates else rates[False]

    @property
    def hourly(self) -> Fraction:
        """Price per hour of the servers in use."""
        total = Fraction(0)
        for site in self.stated.answer.sites:
            for s, _ in {row[:2] for chain in site.chains for row in chain.stages}:
                total += site.count * Fraction(self.question.servers[s].price or 0.0)
        return total

    @property
    def cost(self) -> Fraction:
        """The objective: seconds or price per token."""
        return self.hourly / 3600 / self.rate if self.question.objective == "cost" else 1 / self.rate

    def faults(self) -> Iterator[str]:
        """Yield stated numbers that are false."""
        answer = self.stated.answer
        for place, _, chain in self.chains:
            yield from self._faults_of_chain(place, chain)
        if not is_near(answer.rate, self.rate):
            yield unequal("answer.rate", answer.rate, as_float(self.rate))
        if any(servers.price is None for servers in self.question.servers):
            price = None
        else:
            price = self.hourly / 3600 / self.rate * 10**6
        if (price is None) != (answer.price is None) or (price is not None and not is_near(answer.price or 0.0, price)):
            yield unequal("answer.price", answer.price, None if price is None else as_float(price))

    def _faults_of_chain(self, place: str, chain: StatedChain) -> Iterator[str]:
        cycle = self.cycle(chain)
        true = {
            "tpot": Fraction(cycle, PICO),
            "ttft": self.ttft(chain),
            "rate": Fraction(chain.batches * chain.batch * PICO, cycle),
        }
        for name, value in true.items():
            if not is_near(getattr(chain, name), value):
                yield unequal(f"{place}.{name}", getattr(chain, name), as_float(value))
        for n, (weights, caches, _) in enumerate(self.sizes(chain)):
            if (chain.weight_bytes[n], chain.cache_bytes[n]) != (weights, caches):
                stated = (chain.weight_bytes[n], chain.cache_bytes[n])
                yield unequal(f"{place}: weight_bytes and cache_bytes of stage {n}", stated, (weights, caches))


def _prompt_bytes(question: DeploymentInstance) -> Fraction:
    shapes = [question.model.shapes[number] for number in question.model.order.tolist()]
    kept = sum(s.cache * (min(question.input, s.window) if s.window else question.input) for s in shapes)
    return Fraction(CACHES[question.kv]) * kept


def _stays_within(question: DeploymentInstance, s: int, tokens: Fraction, prompts: Fraction) -> Fraction:
    """Prompts a second that a server of type s both takes and decodes."""
    return min(tokens / question.output, prompts, Fraction(question.servers[s].within) / _prompt_bytes(question))


def _rate_of_pools(question: DeploymentInstance, tokens: Fraction, prompts: Fraction, within: Fraction) -> Fraction:
    """Tokens a second of both pools, limited by the transfer of caches between servers."""
    return min(tokens, question.output * prompts, question.output * (_sent(question) + within))


def _sent(question: DeploymentInstance) -> Fraction:
    """Prompts a second whose caches half of the servers can send."""
    count = sum(servers.count for servers in question.servers)
    return Fraction(count) * Fraction(question.between) / 2 / _prompt_bytes(question) if count > 1 else Fraction(0)


# Bounds: by the work of all devices, and by boxes of batches in which no chain is faster.


def _check(question: DeploymentInstance, pools: dict[bool, ExactStages], claim: Claim, clock: Clock) -> Check:
    clock.raise_if_late()
    if claim.method == "device-seconds":
        proved, how = _device_seconds(question, pools[False], clock)
    else:
        try:
            proved, how = _by_boxes(question, pools, claim, clock)
        except UndecidedError as error:
            return Check(claim, None, f"not re-checked: {error}")
    if proved is None:
        return Check(claim, None, "false", how)
    if Fraction(claim.value) > proved * (1 + ROUNDING):
        return Check(claim, None, "false", f"value {claim.value!r} is claimed, only {as_float(proved)!r} is proved")
    return Check(claim, min(Fraction(claim.value), proved), how)


def _device_seconds(question: DeploymentInstance, stages: ExactStages, clock: Clock) -> tuple[Fraction | None, str]:
    """Bound by the total time of all devices, and its derivation; None if it proves nothing.

    Sizes of batches are taken in ranges: a batch of a range takes at least the time of its smallest size, and makes at
    most as many tokens as its largest.
    """
    limit = 1 if question.objective == "latency" else question.batch
    fastest = [Fraction(0)] * len(question.servers)
    small = 1
    while small <= limit:
        clock.raise_if_late()
        large = max(small, min(limit, small + small // 16 - 1))
        times = stages.times(small)
        for s in range(len(fastest)):
            work = min(t * int(times[s, d, -1]) for d, t in enumerate(question.degrees))
            fastest[s] = max(fastest[s], Fraction(large, work))
        small = large + 1
    rows = zip(question.servers, fastest, strict=True)
    rate = sum((servers.count * servers.devices * rate for servers, rate in rows), Fraction(0))
    if question.objective == "cost":
        return None, "no such bound holds for prices"
    return 1 / (rate * PICO), "re-proved by its formula"


def _by_boxes(
    question: DeploymentInstance, pools: dict[bool, ExactStages], claim: Claim, clock: Clock
) -> tuple[Fraction | None, str]:
    """Bound by proved rates of chains on parts of servers, combined by a knapsack."""
    members = {False: "chains", True: "prompts"}
    fields = claim.parameters.members([members[pool] for pool in pools])
    rates, boxes = dict[bool, dict[_Devices, Fraction]](), 0
    for pool, stages in pools.items():
        proved = _chain_rates(stages, fields[members[pool]], clock)
        if isinstance(proved, str):
            return None, proved
        rates[pool], count = proved
        boxes += count
    how = f"re-proved by {boxes} dynamic programs and a knapsack"
    try:
        best = _best_pools(question, rates, clock) if True in pools else None
        return (_knapsack(question, rates[False], clock) if best is None else _cost(best)), how
    except KeyError as error:
        return None, f"there is no proof of {list(error.args[0])}"


# Prompts, tokens, and prompts that stay within servers, in a picosecond.
_Triple = tuple[Fraction, Fraction, Fraction]


def _best_pools(question: DeploymentInstance, rates: dict[bool, dict[_Devices, Fraction]], clock: Clock) -> Fraction:
    """Largest rate over all divisions of the devices into two pools [tokens in a picosecond]."""
    fleets = {pool: _fleets(question, of_pool, clock) for pool, of_pool in rates.items()}
    types = range(len(question.servers))
    parts = {pool: [_of_parts(question, s, of_pool) for s in types] for pool, of_pool in rates.items()}
    triples: dict[_Vector, list[_Triple]] = {}
    whole, none = tuple(servers.count for servers in question.servers), Fraction(0)
    # Up to here prompts within servers count: all that both fleets serve, less what links between servers carry.
    served = min(fleets[True][whole], fleets[False][whole] / question.output)
    needed = max(none, served - _sent(question) / PICO)
    for vector in sorted(fleets[False], key=sum)[1:]:
        if sum(vector) == 1:
            s = vector.index(1)
            candidates = [
                (prompts, tokens, min(needed, _stays_within(question, s, tokens * PICO, prompts * PICO) / PICO))
                for prompts, tokens in zip(parts[True][s], reversed(parts[False][s]), strict=True)
            ]
        else:
            candidates = [(fleets[True][vector], none, none), (none, fleets[False][vector], none)]
            for part in product(*(range(count + 1) for count in vector)):
                clock.raise_if_late()
                rest = tuple(map(int.__sub__, vector, part))
                if any(part) and any(rest):
                    candidates += [
                        (a + x, b + y, min(needed, c + z)) for a, b, c in triples[part] for x, y, z in triples[rest]
                    ]
        triples[vector] = list(_unbeaten(candidates))
    return max(
        _rate_of_pools(question, tokens * PICO, prompts * PICO, within * PICO) / PICO
        for prompts, tokens, within in triples[whole]
    )


def _unbeaten(triples: list[_Triple]) -> Iterator[_Triple]:
    """Pareto front of triples: those that no other triple equals or exceeds in all three numbers."""
    front: list[tuple[Fraction, Fraction]] = []  # of those before: tokens fall, and what stays within rises
    for prompts, tokens, within in sorted(set(triples), reverse=True):
        place = bisect_right(front, -tokens, key=lambda row: -row[0])  # those before it have as many tokens
        if place and front[place - 1][1] >= within:
            continue
        yield prompts, tokens, within
        front = [row for row in front if row[0] > tokens or row[1] > within]
        insort(front, (tokens, within), key=lambda row: -row[0])


def _chain_rates(stages: ExactStages, proofs: Value, clock: Clock) -> tuple[dict[_Devices, Fraction], int] | str:
    """Proved upper bounds on rates of chains by devices, and the number of boxes; or the fault of a proof."""
    question, checks = stages.question, ChainChecks(stages)
    rates: dict[_Devices, Fraction] = {}
    boxes = 0
    for value in proofs.items():
        fields = value.members(("devices", "rate", "boxes"))
        rows = [row.whole_numbers() for row in fields["devices"].items()]
        if len(rows) != len(question.servers) or not all(
            len(row) == 2 and 0 <= row[0] <= servers.count and 0 <= row[1] <= servers.devices
            for row, servers in zip(rows, question.servers, strict=False)
        ):
            fields["devices"].fail("expected servers of the question, and devices of each, for each type.")
        devices = tuple((row[0], row[1]) for row in rows)
        rate = fields["rate"].whole_numbers()
        if len(rate) != 2 or rate[0] < 0 or rate[1] < 1:
            fields["rate"].fail("expected tokens, and picoseconds.")
        if devices in rates:
            return f"there are two proofs of {list(devices)}"
        stated = [_box(box, question) for box in fields["boxes"].items()]
        boxes += len(stated)
        if boxes > _MOST_BOXES:
            return f"there are more than {_MOST_BOXES} boxes"
        rates[devices] = Fraction(rate[0], rate[1])
        if why := _uncovered(question, devices, stated, clock):
            return why
        for box in stated:
            clock.raise_if_late()
            if why := _open_box(checks, devices, rates[devices], box):
                return why
    return rates, boxes


def _box(value: Value, question: DeploymentInstance) -> _Box:
    numbers = value.whole_numbers()
    if len(numbers) == 5:
        numbers = [*numbers, 0, _longest(question)]
    if len(numbers) != 7 or min(numbers) < 0 or max(numbers) > ENDLESS:
        value.fail("expected ends of batches, sequences and cycles, and a degree.")
    a, b, c, d, degree, low, high = numbers
    return a, b, c, d, low, high, degree


def _longest(question: DeploymentInstance) -> int:
    longest = 2**61 // question.model.layers - 1
    return longest if question.tpot == inf else min(longest, floor(Fraction(question.tpot) * PICO))


def _uncovered(question: DeploymentInstance, devices: _Devices, boxes: list[_Box], clock: Clock) -> str | None:
    """Why boxes do not cover all batches; None if they do."""
    latency = question.objective == "latency"
    batches = max(1, min(question.model.layers, sum(count * size for count, size in devices)))
    batches = 1 if latency or question.runtime in _ONE_BATCH else batches
    whole = (1, batches, 1, 1 if latency else question.batch, 0, _longest(question))
    degrees = question.degrees if question.uniform else (0,)
    for degree in degrees:
        mine = [box[:6] for box in boxes if box[6] == degree]
        for box in mine:
            if any(x > y for x, y in _sides(box)) or not all(
                a <= x and y <= b for (a, b), (x, y) in zip(_sides(whole), _sides(box), strict=True)
            ):
                return f"a box {list(box)} is not within {list(whole)}"
        if sum(map(_points, mine)) != _points(whole):
            return f"the boxes of {list(devices)} do not cover {list(whole)}"
        for n, box in enumerate(mine):
            clock.raise_if_late()
            for other in mine[:n]:
                if all(x <= b and a <= y for (a, b), (x, y) in zip(_sides(other), _sides(box), strict=True)):
                    return f"the boxes {list(other)} and {list(box)} overlap"
    if any(box[6] not in degrees for box in boxes):
        return "a box has a degree that the question does not allow"
    return None


def _sides(box: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(box[0], box[1]), (box[2], box[3]), (box[4], box[5])]


def _points(box: tuple[int, ...]) -> int:
    return prod(high - low + 1 for low, high in _sides(box))


def _open_box(checks: ChainChecks, devices: _Devices, rate: Fraction, box: _Box) -> str | None:
    """Why a box may contain a faster chain; None if it cannot."""
    fewest, most, small, large, quickest, slowest, degree = box
    question = checks.stages.question
    longest, limit = slowest // fewest, slowest
    if rate > 0:
        longest = min(longest, ceil(large / rate) - 1)
        limit = min(limit, ceil(most * large / rate) - 1)
    patience = ENDLESS
    if question.ttft < inf:
        constants = question.constants
        waiting = (Fraction(question.ttft) - Fraction(constants.first)) * PICO - Fraction(constants.wait) * quickest
        patience = min(ENDLESS, floor(waiting / Fraction(constants.prompt)))
    if longest <= 0 or patience < 0:
        return None
    exists = checks.exists(list(devices), small, Goal(fewest * small, longest, limit, patience), degree)
    if exists is None:
        return f"it is open whether a chain on {list(devices)} is faster in the box {list(box)}"
    return f"a chain on {list(devices)} may be faster in the box {list(box)}" if exists else None


def _knapsack(question: DeploymentInstance, rates: dict[_Devices, Fraction], clock: Clock) -> Fraction:
    """Least cost of chains with these rates side by side; a `KeyError` if a rate is missing."""
    counts, sizes = [s.count for s in question.servers], [s.devices for s in question.servers]
    if question.objective == "latency" or (question.topology == "chain" and question.objective == "throughput"):
        return _cost(rates[tuple(zip(counts, sizes, strict=True))])
    fleets = _fleets(question, rates, clock)
    if question.objective != "cost":
        return _cost(fleets[tuple(counts)])
    costs = []
    for vector, rate in fleets.items():
        rents = zip(vector, question.servers, strict=True)
        paid = sum((n * Fraction(servers.price or 0.0) for n, servers in rents), Fraction(0))
        costs += [paid / 3600 / (rate * PICO)] if rate > 0 else []
    return min(costs, default=Fraction(0))


def _fleets(question: DeploymentInstance, rates: dict[_Devices, Fraction], clock: Clock) -> dict[_Vector, Fraction]:
    """Largest total rate of chains side by side, by numbers of servers [tokens in a picosecond].

    Where the objective is the price of a token, a chain on several servers is the only one on them.
    """
    counts, sizes = [s.count for s in question.servers], [s.devices for s in question.servers]
    if prod(count + 1 for count in counts) > _MOST_VECTORS:
        raise UndecidedError("there are too many servers for a knapsack")
    best: dict[_Vector, Fraction] = {(0,) * len(counts): Fraction(0)}
    for vector in sorted(product(*(range(count + 1) for count in counts)), key=sum)[1:]:
        if sum(vector) == 1:
            best[vector] = _of_server(question, vector.index(1), rates)
            continue
        rate = rates[tuple(zip(vector, sizes, strict=True))]
        clock.raise_if_late()
        for part in product(*(range(count + 1) for count in vector)) if question.objective != "cost" else ():
            if any(part) and part != vector:
                rate = max(rate, best[part] + best[tuple(map(int.__sub__, vector, part))])
        best[vector] = rate
    return best


def _of_server(question: DeploymentInstance, s: int, rates: dict[_Devices, Fraction]) -> Fraction:
    """Largest total rate of chains that share a server of type s [tokens in a picosecond]."""
    return _of_parts(question, s, rates)[-1]


def _of_parts(question: DeploymentInstance, s: int, rates: dict[_Devices, Fraction]) -> list[Fraction]:
    """Largest total rate of chains on the first d devices of a server of type s, for each d."""
    sizes = [servers.devices for servers in question.servers]
    parts = [Fraction(0)]
    for devices in range(1, sizes[s] + 1):
        if question.topology == "chain" and devices < sizes[s]:
            parts.append(Fraction(0))
            continue
        row = tuple((int(t == s), devices if t == s else size) for t, size in enumerate(sizes))
        parts.append(max([rates[row], *(parts[a] + parts[devices - a] for a in range(1, devices))]))
    return parts


def _cost(rate: Fraction) -> Fraction:
    return 1 / (rate * PICO) if rate > 0 else Fraction(0)
