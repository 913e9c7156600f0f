"""Verify plans with degrees of parallelism: compute their costs again and prove their bounds again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from instances.certificates import Claim
from instances.errors import InputError
from instances.json_files import Value
from instances.planning.grid.problem import GridInstance
from instances.planning.stated import StatedGrid, grid_from_document
from mtpp.verification.planning.grid.bounds import MARGIN, Setting, TooManyWaysError, equalised, may_hold, settings_of
from mtpp.verification.planning.grid.costs import GridCosts, copies_of, kept_bytes
from mtpp.verification.verdict import (
    ROUNDING,
    Check,
    Clock,
    Limits,
    Verdict,
    as_float,
    compare,
    is_near,
    unequal,
    verdict_of,
)

# Bounds on plans with degrees of parallelism by their names, each proved a second time.

#: Layers of the models for which *turns-grid* is proved.
_FEWEST_IN_TURNS = 4


def proved_bound(question: GridInstance, method: str, value: float, clock: Clock) -> Fraction | None:
    """Bound on all plans that can be proved here, at most `value`; None if there is none.

    An `OutOfTimeError` says that the clock has run out.
    """
    settings = list(settings_of(question))
    works = [setting.work for setting in settings]
    if method == "work-grid":
        return min((Fraction(work) for work in works), default=Fraction(value))
    ceiling, least = value * (1 - MARGIN), value
    try:
        if method == "turns-grid":
            return _proved_in_turns(question, settings, value, clock)
        if method == "apart-grid":
            return _proved_apart(question, value, clock)
        below = [setting for setting, work in zip(settings, works, strict=True) if work < ceiling]
        times = [(setting.least_below(ceiling, clock), setting) for setting in below]
        if question.servers.count > 1 and any(time < ceiling for time, _ in times):
            times = [(setting.least_in_several(ceiling, clock), setting) for time, setting in times if time < ceiling]
            if (alone := _in_one_server(question)) is not None:
                proved = proved_bound(alone, method, value, clock)
                if proved is None:
                    return None
                least = float(proved)
    except TooManyWaysError:
        return None
    return Fraction(min([least, *(time for time, _ in times)]))


def _in_one_server(question: GridInstance) -> GridInstance | None:
    """The question of the plans that lie in one server; None if there are none."""
    try:
        return replace(question, servers=replace(question.servers, count=1))
    except InputError:
        return None


def _proved_in_turns(question: GridInstance, settings: list[Setting], value: float, clock: Clock) -> Fraction | None:
    """Bound on plans with several turns on each group: `value` if proved, else 0; None for fewer than four layers."""
    if question.layers < _FEWEST_IN_TURNS:
        return None
    ceiling, models = value * (1 - MARGIN), zip(*map(equalised, question.chains), strict=True)
    several = question.servers.count > 1
    if several and (alone := _in_one_server(question)) is not None:
        proved = _proved_in_turns(alone, list(settings_of(alone)), value, clock)
        if not proved:
            return proved
    relaxed = zip(*(settings_of(replace(question, chains=chains)) for chains in models), strict=True)
    for whole, these in zip(settings, relaxed, strict=True):
        if whole.work < ceiling:
            for places in zip(*(setting.in_several() if several else [setting] for setting in these), strict=True):
                if all(may_hold(setting, whole, ceiling, clock) for setting in places):
                    return Fraction(0)
    return Fraction(value)


def _proved_apart(question: GridInstance, value: float, clock: Clock) -> Fraction | None:
    """Least of the bounds on plans across servers and on plans in one; None if one is not proved."""
    least, alone = across_servers(question), _in_one_server(question)
    if alone is None:
        return least
    classes = {1: ("z-grid",), None: ("z-grid", "turns-grid")}.get(question.fixed.v, ("turns-grid",))
    share = min((Fraction(setting.work) for setting in settings_of(alone)), default=Fraction(value))
    for method in classes:
        proved = proved_bound(alone, method, value, clock)
        if proved is None and question.layers >= _FEWEST_IN_TURNS:
            return None
        least = min(least, share if proved is None else max(proved, share))
    return least


# Check a plan with degrees of parallelism: devices, passes and transfers, memory, time, and its bounds.


_BOUNDS = {
    "work-grid": "even share of all work",
    "z-grid": "all stages and degrees",
    "turns-grid": "all groups and degrees",
    "apart-grid": "one server, and what passes between several",
}


def verify_grid(document: Value, limits: Limits) -> Verdict:
    """Check all that can be checked in a plan with degrees of parallelism; errors are those of `verify`."""
    stated, clock = grid_from_document(document), Clock(limits.seconds)
    faults, cost = list[str](), None
    fault = next(_structure_faults(stated), None)
    costs = None if fault else GridCosts.of(stated)
    if costs is None:
        fault = fault or "a layer has no such configuration"
    else:
        slack = ROUNDING * Fraction(max((max(row) for row in stated.starts if row), default=0.0))
        fault = next(_order_faults(stated, costs, slack, clock), None)
        if fault is None:
            cost = _time(stated, costs)
            faults += _faults_of_memory(stated, costs)
    fault = fault and f"plan: {fault}"
    return verdict_of(stated, cost, faults, lambda claim: _check(stated, claim, clock), limits, fault=fault)


def _check(stated: StatedGrid, claim: Claim, clock: Clock) -> Check:
    turns = claim.method == "turns-grid"
    if claim.method not in _BOUNDS or (claim.method in ("z-grid", "turns-grid") and turns != (stated.turns > 1)):
        fault = "this bound holds for several stages a device" if turns else "this bound holds for one stage a device"
        return Check(claim, None, "false", f"{fault}, and this plan has {stated.turns}")
    if claim.value <= 0:
        return Check(claim, Fraction(0), "nothing to prove")
    proved = proved_bound(stated.instance, claim.method, claim.value, clock)
    if proved is None:
        return Check(claim, None, "trusted: its layers are of too many kinds to prove it again")
    how = f"re-proved: {_BOUNDS[claim.method]}"
    return compare(claim, proved, how)


def _structure_faults(stated: StatedGrid) -> Iterator[str]:
    """Yield faults of degrees, cuts and devices."""
    question, L = stated.instance, stated.instance.layers
    S, C = stated.groups, len(stated.cuts) - 1
    if C < 1 or stated.cuts[0] != 0 or stated.cuts[-1] != L or any(i >= j for i, j in pairwise(stated.cuts)):
        yield f"the cuts do not rise from 0 to {L}, the number of layers"
        return
    if min(S, stated.turns, stated.pipelines, stated.context, stated.expert, stated.micro_batch) < 1:
        yield "a degree is below 1"
        return
    if len(stated.tensor) != S or S * stated.turns != C or len(stated.modes) != L:
        yield f"{C} stages, {S} groups and {stated.turns} turns, or the modes of {L} layers, do not fit together"
        return
    if S == 1 and C > 1:
        yield "one group of devices has no turns"
    if all(chain.micro_batch != stated.micro_batch for chain in question.chains):
        yield f"the question has no times for microbatches of {stated.micro_batch} samples"
    if question.global_batch % (stated.micro_batch * stated.pipelines):
        yield f"{question.global_batch} samples are no whole microbatches in {stated.pipelines} pipelines"
    if stated.zero not in question.zero:
        yield "the question does not allow this stage of ZeRO"
    for t in set(stated.tensor):
        if not copies_of(question, (t, stated.context, stated.expert), stated.pipelines)[1]:
            yield f"an expert degree of {stated.expert} does not divide the devices that share experts"
    fixed = question.fixed
    for name, wanted, value in (("pp", fixed.pp, S), ("dp", fixed.dp, stated.pipelines), ("v", fixed.v, stated.turns)):
        if wanted not in (None, value):
            yield f"the question asks for {name} {wanted}, not {value}"
    if fixed.recomputed is not None:
        yield from _recomputation_faults(stated, fixed.recomputed)
    if fixed.tp is not None and set(stated.tensor) != {fixed.tp}:
        yield f"the question asks for tp {fixed.tp} in all stages"
    yield from _device_faults(stated)


def _recomputation_faults(stated: StatedGrid, first: int) -> Iterator[str]:
    """Yield stages in which other layers than the first ones recompute everything."""
    layers = stated.instance.chains[0].layers
    able = [any(way.recompute == "full" for way in layer.configurations) for layer in layers]
    for begin, end in pairwise(stated.cuts):
        before = 0
        for layer in range(begin, end):
            wanted = "full" if able[layer] and before < first else "none"
            before += able[layer]
            if stated.modes[layer] != wanted:
                yield f"layer {layer} recomputes {stated.modes[layer]}, and the question asks for {wanted}"
                return


def _device_faults(stated: StatedGrid) -> Iterator[str]:
    """Yield devices used twice, and stages that are spread over servers."""
    servers, used = stated.instance.servers, set[tuple[int, int]]()
    places, strange = dict[tuple[int, int], list[tuple[int, int]]](), False
    wanted = (
        {
            (g, tp, cp, d)
            for g, t in enumerate(stated.tensor)
            for tp in range(t)
            for cp in range(stated.context)
            for d in range(stated.pipelines)
        }
        if sum(stated.tensor) * stated.context * stated.pipelines == len(stated.ranks)
        else set()
    )
    for number, (rank, server, gpu, stage, tp, cp, dp) in enumerate(stated.ranks):
        if rank != number or not (0 <= server < servers.count and 0 <= gpu < servers.size) or (server, gpu) in used:
            yield f"ranks[{number}] is out of order, or its device is not there or used twice"
            return
        used.add((server, gpu))
        strange |= (stage, tp, cp, dp) not in wanted
        wanted.discard((stage, tp, cp, dp))
        if not strange:
            places.setdefault((stage, dp), []).append((cp * stated.tensor[stage] + tp, server))
    if wanted or strange or not stated.ranks:
        yield "ranks do not name each place of each degree once"
        return
    for (stage, dp), hosts in places.items():
        if len({server for _, server in hosts}) > 1:
            whole = all(server == min(hosts)[1] + place // servers.size for place, server in hosts)
            if not whole or len(hosts) % servers.size or servers.size % stated.tensor[stage]:
                yield f"stage {stage} of pipeline {dp} lies in several servers that it does not fill"


def _order_faults(stated: StatedGrid, costs: GridCosts, slack: Fraction, clock: Clock) -> Iterator[str]:
    """Yield passes and transfers that start before their inputs, or overlap on a machine."""
    S, C = stated.groups, len(costs.stages)
    M = stated.instance.global_batch // (stated.micro_batch * stated.pipelines)
    if len(stated.starts) != 2 * C or len(stated.sent) != 2 * C - 2:
        yield f"starts and sent have not {2 * C} and {2 * C - 2} rows"
        return
    for row in (*stated.starts, *stated.sent):
        if len(row) != M or not all(0 <= time < math.inf for time in row):
            yield f"starts and sent need {M} times a row, each 0 or more"
            return
    forward, backward = costs.durations
    moved = [costs.transfer(n) for n in range(C - 1)]
    starts = [[Fraction(time) for time in row] for row in stated.starts]
    sent = [[Fraction(time) for time in row] for row in stated.sent]
    machines: dict[tuple[str, int, int], list[tuple[Fraction, Fraction]]] = {}
    for n in range(C):
        clock.raise_if_late()
        for m in range(M):
            before = sent[n - 1][m] + moved[n - 1] if n else Fraction(0)
            after = sent[C - 1 + n][m] + moved[n] if n < C - 1 else starts[2 * n][m] + forward[n]
            if (
                starts[2 * n][m] < before - slack
                or starts[2 * n + 1][m] < max(after, starts[2 * n][m] + forward[n]) - slack
            ):
                yield f"a pass of microbatch {m} in stage {n} starts before its input is there"
            for place, time in ((2 * n, forward[n]), (2 * n + 1, backward[n])):
                machines.setdefault(("group", n % S, 0), []).append((starts[place][m], starts[place][m] + time))
            if n < C - 1:
                ready = starts[2 * n][m] + forward[n], starts[2 * n + 3][m] + backward[n + 1]
                ends = (n % S, (n + 1) % S), ((n + 1) % S, n % S)
                for place, due, pair in zip((n, C - 1 + n), ready, ends, strict=True):
                    if sent[place][m] < due - slack:
                        yield f"a transfer of microbatch {m} after stage {n} starts before the pass before it ends"
                    if not stated.instance.full_duplex:
                        pair = (min(pair), max(pair))
                    machines.setdefault(("channel", *pair), []).append((sent[place][m], sent[place][m] + moved[n]))
    for (kind, *numbers), spans in machines.items():
        for (_, end), (start, _) in pairwise(sorted(spans)):
            if start < end - slack:
                yield f"two operations of {kind} {numbers} overlap"


def _time(stated: StatedGrid, costs: GridCosts) -> Fraction:
    back, C = costs.durations[1], len(costs.stages)
    return max(Fraction(max(stated.starts[2 * n + 1])) + back[n] + costs.after(n) for n in range(C))


def _faults_of_memory(stated: StatedGrid, costs: GridCosts) -> Iterator[str]:
    """Yield false numbers of the memory of each group, and groups that do not fit."""
    question, S, limit = stated.instance, stated.groups, stated.instance.memory
    if len(stated.memory) != S or any(len(row) != 5 for row in stated.memory):
        yield f"memory: give five numbers for each of {S} groups"
        return
    for g in range(S):
        layers = costs.layers_of(g)
        parts = kept_bytes(question, layers, stated.zero, costs.shards(g), len(layers) == question.layers)
        parts += [_most_stored(stated, costs, g), max(Fraction(layer.working_bytes) for layer in layers)]
        for name, claimed, true in zip(
            ("weights", "gradients", "optimizer", "stored", "working"), stated.memory[g], parts, strict=True
        ):
            if not is_near(claimed, true):
                yield unequal(f"memory of group {g}, {name}", claimed, as_float(true))
        if not math.isinf(limit) and sum(parts, Fraction(0)) > Fraction(limit) * (1 + ROUNDING):
            yield f"plan: group {g} needs {as_float(sum(parts, Fraction(0)))!r} bytes on a device that has {limit!r}"


def _most_stored(stated: StatedGrid, costs: GridCosts, group: int) -> Fraction:
    """Largest number of bytes kept between passes, in the order in which passes start."""
    events = []
    for n in range(group, len(costs.stages), stated.groups):
        size = sum((Fraction(layer.stored_bytes) for layer in costs.stages[n]), Fraction(0))
        events += [(time, size) for time in stated.starts[2 * n]] + [(time, -size) for time in stated.starts[2 * n + 1]]
    stored = peak = Fraction(0)
    for _, change in sorted(events, key=lambda event: event[0]):
        stored += change
        peak = max(peak, stored)
    return peak


# Plans with degrees of parallelism that lie in several servers, bounded a second time, in fractions.
#
# Stages lie one after the other. A stage whose replicas all lie in one server has a neighbour elsewhere, or
# neighbours up to one that has: all microbatches leave a stage that lies in one server, and their gradients come
# back. Without such a stage, all gradients are added up over cards: each ring has half of its devices, at most, in a
# server.


def across_servers(question: GridInstance) -> Fraction:
    """Lower bound on the time of plans that use several servers [s]."""
    bounds = (max(min(_leaving(it), _adding_up(it)), Fraction(it.work)) for it in settings_of(question))
    return min(bounds, default=Fraction(0))


#: More than any time of a question.
_NEVER = Fraction(10) ** 400


def _leaving(setting: Setting) -> Fraction:
    """Least time for all microbatches to leave a server from a stage that lies in this server [s]."""
    servers, best = setting.question.servers, _NEVER
    for t in setting.tensor:
        if setting.d * setting.cp * t > servers.size:
            continue
        for layer in setting.chain.layers[:-1]:
            for way in layer.configurations:
                if (way.tp, way.cp, way.ep) == (t, setting.cp, setting.ep):
                    size = Fraction(way.output_bytes)
                    latency = Fraction(servers.latency) if size else Fraction(0)
                    best = min(best, size / (Fraction(servers.reached) * Fraction(servers.outer)) + latency)
    return best * setting.M * (1 if setting.question.full_duplex else 2)


def _adding_up(setting: Setting) -> Fraction:
    """Least time of all passes and of the exchange of gradients [s]."""
    question, servers, copies = setting.question, setting.question.servers, setting.d * setting.cp
    if copies == 1:
        return _NEVER
    w, g = Fraction(question.state_bytes.weights), Fraction(question.state_bytes.gradients)
    summed = (2 * g, g + w, w, Fraction(0))[setting.zero]
    meanwhile = (Fraction(0), Fraction(0), g, 2 * w + g)[setting.zero]
    computed = sent = Fraction(0)
    last = setting.chain.n - 1
    for layer in range(setting.chain.n):
        totals: tuple[list[Fraction], list[Fraction]] = ([], [])
        for t in setting.tensor:
            way = setting.ways[t][layer][0]
            numbers = Fraction(way.parameters) - (Fraction(way.tied_parameters) if layer == last > 0 else 0)
            cards = min(copies // 2, servers.size // t)
            rate = Fraction(servers.reached) * min(Fraction(servers.inner), cards * Fraction(servers.outer))
            ring = numbers * (copies - 1) / copies / rate
            passes = Fraction(way.forward) + Fraction(way.input_backward) + Fraction(way.weight_backward)
            totals[0].append(t * (setting.M * passes + summed * ring))
            totals[1].append(t * (setting.M * meanwhile + summed) * ring)
        computed, sent = computed + min(totals[0]), sent + min(totals[1])
    return max(computed, sent) / setting.K
