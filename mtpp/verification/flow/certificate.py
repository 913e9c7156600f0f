"""Check of flows with independent code: the flow from its definition, bounds by their weights."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from math import lcm, prod
from operator import sub

from instances.certificates import Claim
from instances.flow.problem import SINK, SOURCE, FlowCertificate, FlowInstance, flow_from_document
from instances.json_files import Value
from mtpp.verification.flow.enumeration import ExactFlow, Turns, exact_flow, excludes_all
from mtpp.verification.flow.weights import excludes, excludes_by_prices, excludes_with_hubs
from mtpp.verification.verdict import Check, Clock, Limits, Verdict, as_float, unequal, verdict_of

# Check the certificate of a flow in exact rational numbers: the flow of its intervals, and its bounds.


# A stated time may be larger than what is proved by this part.
_ROUNDING = Fraction(1, 10**9)
# Part of a flow that is next to nothing.
_NOTHING = Fraction(1, 10**12)
# Entries of groups of devices.
_MOST_GROUPS = 64
_NO_CUT = "there are layers of the devices that no cut shows to let less pass"


def verify_flow(document: Value, limits: Limits) -> Verdict:
    """Check all that can be checked in the certificate of a flow.

    Raises
    ------
    InputError
        If the document is no certificate of a flow, or the parameters of a bound are not of the kind that its method
        needs.
    """
    certificate = flow_from_document(document)
    clock, faults, cost, fault = Clock(limits.seconds), [], None, None
    question = exact_flow(certificate.instance)
    if certificate.interval is not None:
        fault = _fault_of_intervals(question, certificate.interval)
        if certificate.instance.steps is not None and fault is None:
            question, fault = _with_groups(certificate, question)
        elif certificate.groups:
            fault = "answer.groups: the question has no steps"
        passed = 0 if fault is not None else _most_passed(question, certificate.interval)
        if question.longest_path is not None and passed > question.longest_path:
            fault = f"intervals: requests pass {passed} devices, and they may pass {question.longest_path}"
    if certificate.interval is not None and fault is None:
        counts = [end - begin for begin, end in certificate.interval]
        served = [question.capacity[t][c] for t, c in zip(question.kind, counts, strict=True)]
        flow = _most_flow(question, certificate.interval, served, clock)
        stated = certificate.flow
        if stated is None or abs(Fraction(stated) - flow) > _ROUNDING * flow:
            faults.append(unequal("answer.flow", stated, as_float(flow)))
        cost, fault = (1 / flow, None) if flow > 0 else (None, "answer.intervals: no request passes")

    def check(claim: Claim) -> Check:
        return _check(certificate.instance, exact_flow(certificate.instance), claim, clock)

    return verdict_of(certificate, cost, faults, check, limits, fault=fault)


def _with_groups(certificate: FlowCertificate, question: ExactFlow) -> tuple[ExactFlow, str | None]:
    """The question restricted to the answer's groups, and the first fault of these, if any.

    Each device becomes a kind of its own, with the capacities at which its group steps; only links within groups stay.
    """
    interval, instance = certificate.interval, certificate.instance
    assert interval is not None
    turns, rates = Turns(instance), [list(row) for row in question.rates]
    number, capacity = {name: i for i, name in enumerate(question.devices)}, list[list[Fraction]]()
    group_of: dict[int, int] = {}
    capacity = [[Fraction(0)] * (question.layers + 1) for _ in question.devices]
    for x, group in enumerate(certificate.groups):
        place, wanted = f"answer.groups[{x}]", instance.steps.in_flight if instance.steps is not None else None
        if group.in_flight < 1 or group.in_flight != (wanted or group.in_flight) or group.tick < 0:
            return question, f"{place}: in_flight is not that of the question, or tick is below 0"
        for name, size in group.sequences.items():
            i = number.get(name, -1)
            if i < 0 or i in group_of:
                return question, f"{place}: {name} is no device, or in two groups"
            group_of[i], c = x, interval[i][1] - interval[i][0]
            served = turns.served(i, group.in_flight, group.tick, size, c)
            if isinstance(served, str):
                return question, f"{place}: {served}"
            capacity[i][c] = served
    for i in range(question.n):
        for j in range(question.n):
            if group_of.get(i, -1) != group_of.get(j, -1):
                rates[i][j] = 0.0
    inside = replace(question, kind=list(range(question.n)), capacity=capacity, rates=rates)
    for x, group in enumerate(certificate.groups):
        intervals = [layers if group_of.get(i) == x else (0, 0) for i, layers in enumerate(interval)]
        if (passed := _most_passed(inside, intervals)) > group.in_flight:
            return (
                question,
                f"answer.groups[{x}]: requests pass {passed} devices, and {group.in_flight} batches take turns",
            )
    return inside, None


def _fault_of_intervals(instance: ExactFlow, interval: Sequence[tuple[int, int]]) -> str | None:
    for i, (begin, end) in enumerate(interval):
        if not 0 <= begin <= end <= instance.layers:
            return f"intervals: device {instance.devices[i]} holds layers {begin} to {end} of {instance.layers}"
    return None


def _most_passed(instance: ExactFlow, interval: Sequence[tuple[int, int]]) -> int:
    """Number of devices on the longest path of links from source to sink."""
    n, rates, passed = instance.n, instance.rates, [0] * instance.n
    for begin, i in sorted((begin, i) for i, (begin, end) in enumerate(interval) if begin < end):
        ways = [passed[j] + 1 for j in range(n) if interval[j][1] == begin and passed[j] > 0 and rates[j][i] > 0]
        passed[i] = max(ways, default=0) if begin > 0 else int(rates[n + SOURCE][i] > 0)
    return max((passed[i] for i in range(n) if interval[i][1] == instance.layers and rates[i][n + SINK] > 0), default=0)


def _most_flow(
    instance: ExactFlow, interval: Sequence[tuple[int, int]], served: Sequence[Fraction], clock: Clock
) -> Fraction:
    """Maximum flow from the source to the sink, by blocking flows (Dinic, 1970)."""
    arcs, unit = _network(instance, interval, served)
    source, sink = 2 * instance.n, 2 * instance.n + 1
    total = 0
    while True:
        level, queue = {source: 0}, deque([source])
        while queue:
            u = queue.popleft()
            for v, capacity in arcs.get(u, {}).items():
                if capacity > 0 and v not in level:
                    level[v] = level[u] + 1
                    queue.append(v)
        if sink not in level:
            return total * unit
        ways = {u: [v for v in arcs[u] if level.get(v) == level[u] + 1] for u in level}
        path = [source]
        while path:
            clock.raise_if_late()
            u = path[-1]
            if u == sink:
                pairs = list(pairwise(path))
                least = min(arcs[a][b] for a, b in pairs)
                for a, b in pairs:
                    arcs[a][b] -= least
                    arcs[b][a] += least
                total += least
                path = path[: 1 + next(k for k, (a, b) in enumerate(pairs) if arcs[a][b] == 0)]
                continue
            while ways[u] and arcs[u][ways[u][-1]] == 0:
                ways[u].pop()
            if ways[u]:
                path.append(ways[u][-1])
            else:
                path.pop()
                if path:
                    ways[path[-1]].pop()


def _network(
    instance: ExactFlow, interval: Sequence[tuple[int, int]], capacity: Sequence[Fraction]
) -> tuple[dict[int, dict[int, int]], Fraction]:
    """Capacities of arcs as integers, and their unit.

    Device i is the arc from node i to node n + i; source and sink are nodes 2 n and 2 n + 1.
    """
    n, rates = instance.n, instance.rates
    exact: dict[tuple[int, int], Fraction] = {}
    source, sink = 2 * n, 2 * n + 1
    for i, (begin, end) in enumerate(interval):
        if begin == end:
            continue
        exact[i, n + i] = capacity[i]
        if begin == 0:
            exact[source, i] = Fraction(rates[n + SOURCE][i])
        if end == instance.layers:
            exact[n + i, sink] = Fraction(rates[i][n + SINK])
        for j, (first, last) in enumerate(interval):
            if j != i and first == end and last > first:
                exact[n + i, j] = Fraction(rates[i][j])
    unit = Fraction(1, lcm(*(rate.denominator for rate in exact.values())))
    arcs: dict[int, dict[int, int]] = {}
    for (tail, head), rate in exact.items():
        if rate > 0:
            arcs.setdefault(tail, {})[head] = int(rate / unit)
            arcs.setdefault(head, {}).setdefault(tail, 0)
    return arcs, unit


def _check(instance: FlowInstance, question: ExactFlow, claim: Claim, clock: Clock) -> Check:
    """Prove a bound again: slightly more than its flow is impossible."""
    clock.raise_if_late()
    if claim.value <= 0:
        return Check(claim, Fraction(0), "nothing to prove")
    value = Fraction(claim.value) * (1 - _ROUNDING / 2)
    flow = 1 / value
    if claim.method in _FORMULAS:
        is_too_much, what = _FORMULAS[claim.method]
        if is_too_much(question, flow):
            return Check(claim, value, "re-proved by its formula")
        return Check(claim, None, "false", f"{claim.value!r} is claimed, and {what} allow a flow of {as_float(flow)!r}")
    if claim.method == "enumeration":
        branches = excludes_all(question, flow, clock)
        if branches is None:
            return Check(claim, None, "false", _NO_CUT)
        return Check(claim, value, f"re-proved by {branches} branches over the layers of devices")
    if claim.method == "ticks":
        fault, brackets = _fault_of_groups(instance, flow, claim, clock)
        proof = f"re-proved by {brackets} brackets of batches in flight and ticks"
    elif claim.method == "prices":
        fault, proof = _fault_of_prices(question, flow, claim, clock), "re-proved by the cheapest way"
    else:
        fault, knapsacks = _fault_of_weights(question, flow, claim, clock)
        proof = f"re-proved by {knapsacks} knapsack{'s' if knapsacks > 1 else ''}"
    return Check(claim, value, proof) if fault is None else Check(claim, None, "false", fault)


def _fault_of_groups(instance: FlowInstance, flow: Fraction, claim: Claim, clock: Clock) -> tuple[str | None, int]:
    """Why the flows stated for groups do not exclude `flow`, None if they do; and the number of brackets checked.

    A family is a set of interchangeable devices; a group has a number of devices from each. The claim states for each
    possible group an upper bound on its flow, proved by brackets, ranges of step times (`_fault_of_brackets`). Disjoint
    groups carry at most the largest sum of these bounds.
    """
    if instance.steps is None:
        return "the question has no steps", 0
    entries = claim.parameters.open_members(("groups",))["groups"].items()
    if len(entries) > _MOST_GROUPS:
        return f"there are more than {_MOST_GROUPS} groups", 0
    families, brackets = _families(instance, clock), 0
    family = {instance.devices[i]: f for f, numbers in enumerate(families) for i in numbers}
    every, flows = tuple(len(numbers) for numbers in families), dict[tuple[int, ...], Fraction]()
    for entry in entries:
        items = entry.items()
        if len(items) != 3:
            entry.fail("expected devices, a flow, and brackets.")
        names = [name.text() for name in items[0].items()]
        if len(set(names)) != len(names) or not set(names) <= set(family):
            entry.fail("a name is of no device, or there twice.")
        numbers = [instance.devices.index(name) for name in names]
        # Flows that are 0 are excluded as next to nothing.
        highest = max(Fraction(items[1].number()), flow * _NOTHING)
        fault = _fault_of_brackets(Turns(instance, numbers), highest, items[2].items(), clock)
        if fault is not None:
            return f"devices {', '.join(names)}: {fault}", 0
        flows[tuple(sum(family[name] == f for name in names) for f in range(len(families)))] = highest
        brackets += len(items[2].items())
    if prod(count + 1 for count in every) != len(flows | {tuple(0 for _ in every): Fraction(0)}):
        return "there is no entry for each group of devices", brackets
    largest: dict[tuple[int, ...], Fraction] = {}
    for counts in product(*(range(count + 1) for count in every)):
        clock.raise_if_late()
        rests = [(passed, tuple(map(sub, counts, group))) for group, passed in flows.items()]
        largest[counts] = max((passed + largest[rest] for passed, rest in rests if min(rest) >= 0), default=Fraction(0))
    if largest[every] > flow:
        return f"groups that are there together let {as_float(largest[every])!r} pass", brackets
    return None, brackets


def _families(instance: FlowInstance, clock: Clock) -> list[list[int]]:
    """Families of interchangeable devices, of the same kind with equal links, as lists of their numbers."""
    families: list[list[int]] = []
    for i in range(instance.n):
        clock.raise_if_late()
        for numbers in families:
            place = list(range(instance.n + 2))
            place[i], place[numbers[0]] = numbers[0], i
            if instance.kind[i] == instance.kind[numbers[0]] and bool(
                (instance.rates[place][:, place] == instance.rates).all()
            ):
                numbers.append(i)
                break
        else:
            families.append([i])
    return families


def _fault_of_brackets(turns: Turns, flow: Fraction, rows: Sequence[Value], clock: Clock) -> str | None:
    """Why the brackets do not exclude a flow; None if they do.

    A bracket is a range of ticks, the seconds between steps, at one number of batches in flight; together they must
    cover all ticks, and each has weights that exclude the flow within it.
    """
    open_ticks = {m: turns.ticks(m) for m in turns.numbers()}
    for row in rows:
        clock.raise_if_late()
        items = row.items()
        if len(items) != 5:
            row.fail("expected batches in flight, the first and the last tick, a method and weights.")
        m, low, high, method = items[0].whole(), items[1].number(), items[2].number(), items[3].text()
        if m not in open_ticks:  # so many batches in flight need no bracket
            continue
        weights = [Fraction(number) for number in items[4].numbers()]
        fault = _fault_in_bracket(turns.between(m, low, high), flow, method, weights, clock)
        if fault is not None:
            return f"{m} batches in flight, ticks of {low!r} to {high!r} s: {fault}"
        open_ticks[m] = {tick for tick in open_ticks[m] if not low <= tick <= high}
    for m, ticks in open_ticks.items():
        if ticks:
            return f"no bracket has {m} batches in flight and a tick of {min(ticks)!r} s"
    return None


def _fault_in_bracket(
    question: ExactFlow, flow: Fraction, method: str, weights: list[Fraction], clock: Clock
) -> str | None:
    """Why a method does not exclude a flow; None if it does."""
    if method in _FORMULAS:
        is_too_much, what = _FORMULAS[method]
        return None if is_too_much(question, flow) else f"{what} allow the flow"
    if method == "enumeration":
        return None if excludes_all(question, flow, clock) is not None else _NO_CUT
    return excludes(question, flow, [weights], Fraction(0), clock, links=False)


def _fault_of_prices(question: ExactFlow, flow: Fraction, claim: Claim, clock: Clock) -> str | None:
    """Why the prices do not exclude a flow; None if they do."""
    fields = claim.parameters.open_members(("devices", "links"))
    number = {name: i for i, name in enumerate([*question.devices, "source", "sink"])}
    devices, links = [Fraction(0)] * question.n, dict[tuple[int, int], Fraction]()
    places = dict[tuple[int, int, int], tuple[Fraction, Fraction]]()
    rows = [*((1, row) for row in fields["devices"].items()), *((2, row) for row in fields["links"].items())]
    for count, row in rows:
        items = row.items()
        sizes = (2,) if count == 1 else (3, 5)
        if len(items) not in sizes or any(item.text() not in number for item in items[:count]):
            row.fail("expected a device, or two ends of a link, and a price, or layers that are done there and two.")
        ends, price = [number[item.text()] for item in items[:count]], Fraction(items[-1].number())
        if len(items) == max(sizes) > 2:
            if not 0 <= (done := items[2].whole()) <= question.layers:
                row.fail(f"expected 0 to {question.layers} layers that are done.")
            places[ends[0], ends[1], done] = (Fraction(items[3].number()), price)
        elif count == 2:
            links[ends[0], ends[1]] = price
        elif ends[0] < question.n:
            devices[ends[0]] = price
    return excludes_by_prices(question, flow, devices, links, places, clock)


def _fault_of_weights(instance: ExactFlow, flow: Fraction, claim: Claim, clock: Clock) -> tuple[str | None, int]:
    """Why the weights do not exclude a flow, None if they do; and the number of covering knapsacks that were solved."""
    has_hubs, links = claim.method == "patterns-with-hubs", claim.method == "patterns-with-links"
    fields = claim.parameters.open_members(("weights", "hubs" if has_hubs else "second"))
    weights = [[Fraction(number) for number in row.numbers()] for row in fields["weights"].items()]
    if has_hubs:
        hubs = [name.text() for name in fields["hubs"].items()]
        return excludes_with_hubs(instance, flow, hubs, weights, clock), 2
    second = Fraction(fields["second"].number())
    return excludes(instance, flow, weights, second, clock, links=links), len(weights)


def _is_too_much_for_layers(instance: ExactFlow, flow: Fraction) -> bool:
    """Whether the layers of all devices together carry less than a flow."""
    best = []
    for row in instance.capacity:
        best.append(max((c * min(rate, flow) for c, rate in enumerate(row)), default=Fraction(0)))
    return sum(count * best[t] for t, count in enumerate(instance.counts)) < instance.layers * flow


def _is_too_much_for_ends(instance: ExactFlow, flow: Fraction) -> bool:
    """Whether all devices together receive or deliver less than a flow."""
    n, fastest = instance.n, [max(row) for row in instance.capacity]
    carried = [fastest[t] for t in instance.kind]
    inflow = sum(
        min(Fraction(rate), limit) for rate, limit in zip(instance.rates[n + SOURCE][:n], carried, strict=True)
    )
    to_sink = [row[n + SINK] for row in instance.rates[:n]]
    outflow = sum(min(Fraction(rate), limit) for rate, limit in zip(to_sink, carried, strict=True))
    return min(inflow, outflow) < flow


# Of each method with a formula, whether a flow is too much, and for what.
_FORMULAS: dict[str, tuple[Callable[[ExactFlow, Fraction], bool], str]] = {
    "shared-layers": (_is_too_much_for_layers, "the layers"),
    "ends": (_is_too_much_for_ends, "links to source and sink"),
}
