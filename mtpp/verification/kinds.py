"""Check of partitions over kinds of devices: costs from the definition, a checker for each bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from instances.certificates import Claim
from instances.json_files import Value
from instances.partitioning.problem import Instance
from instances.partitioning.stated_kinds import KindsCertificate, StatedKinds, kinds_from_document
from mtpp.verification.partitioning.certificate import check_impossible
from mtpp.verification.partitioning.costs import block_terms, find_breach, find_fault, held
from mtpp.verification.partitioning.exact_instance import ExactInstance, merge_groups, shared_blocks
from mtpp.verification.partitioning.ideals import UndecidedError
from mtpp.verification.verdict import (
    Check,
    Clock,
    Limits,
    Verdict,
    as_float,
    by_solver,
    check_claims,
    compare,
    faults_of_cost,
    faults_of_sum,
    slack,
    unequal,
)

# Whether blocks below a goal lead from nothing to all nodes over kinds of devices, in exact whole numbers.
#
# Ideals are bits of whole numbers. From each of them blocks grow node by node; then, ideal by ideal, there is a table
# for the numbers of devices that lead there, which each block shifts by one along the axis of its kind. It holds how
# many of the k places of the pipeline are passed at the least: nodes may have windows of these, and places may be
# empty.


# Ideals, blocks that are looked at, and numbers in all tables of truths.
_MOST_IDEALS, _MOST_BLOCKS, MOST_TRUTHS = 20_000, 10_000_000, 2**29
_Window = Callable[[int, int], tuple[int, int]]


class TooManyIdealsError(UndecidedError):
    """The program would take too long, or too much memory."""


def some_path_is_below(
    instance: Instance,
    exact: Sequence[ExactInstance],
    barred: Sequence[int],
    goal: Fraction | None,
    clock: Clock,
    windows: Sequence[tuple[int, int, int]] = (),
) -> bool:
    """Whether a partition exists all blocks of which cost less than the goal, by the largest need of their nodes.

    Parameters
    ----------
    exact : sequence of ExactInstance
        The question of each kind.
    barred : sequence of int
        Of each kind the nodes of `exact` that it cannot run, as bits.
    goal : Fraction, optional
        None: whatever they cost.
    windows : sequence of (node, first, last)
        Places that nodes of `exact` may be in.

    Raises
    ------
    TooManyIdealsError, OutOfTimeError
    """
    ideals = _list_ideals(exact[0], clock)
    place = {ideal: i for i, ideal in enumerate(ideals)}
    blocks: list[list[list[int]]] = []
    count = 0
    goals = [None if goal is None else ceil(goal / one.unit) for one in exact]
    for ideal in ideals[:-1]:
        clock.raise_if_late()
        found = _blocks_from(exact, barred, ideal, goals)
        blocks.append([[place[end] for end in ends] for ends in found])
        count += sum(map(len, found))
        if count > _MOST_BLOCKS:
            raise TooManyIdealsError("there are too many blocks to look at")
    nodes_by_first, nodes_by_last = dict[int, int](), dict[int, int]()
    for v, first, last in windows:
        nodes_by_first[first] = nodes_by_first.get(first, 0) | 1 << v
        nodes_by_last[last] = nodes_by_last.get(last, 0) | 1 << v

    def window(i: int, j: int) -> tuple[int, int]:
        block = ideals[j] & ~ideals[i]
        first = max((first for first, nodes in nodes_by_first.items() if block & nodes), default=0)
        return first, min((last for last, nodes in nodes_by_last.items() if block & nodes), default=instance.k - 1)

    return blocks_lead_through(instance, blocks, clock, window if windows else None)


def blocks_lead_through(
    instance: Instance,
    blocks: Sequence[Sequence[Sequence[int]]],
    clock: Clock,
    window: _Window | None = None,
) -> bool:
    """Whether blocks lead from the first place to the last on the devices, some of which may idle.

    Parameters
    ----------
    blocks : sequence of lists
        For each place but the last and each kind, the later places where a block may end.
    window : callable, optional
        First and last of the k places of the pipeline that a block from one place to another may be in.

    Raises
    ------
    TooManyIdealsError, OutOfTimeError
    """
    window = window or (lambda i, j: (0, instance.k - 1))
    if instance.machines.is_fixed:
        return _leads_in_sequence(instance.machines.sequence, blocks, window)
    return _leads(instance, blocks, clock, window)


def _list_ideals(exact: ExactInstance, clock: Clock) -> list[int]:
    """All ideals, the smaller first."""
    before = [sum(1 << u for u in nodes) for nodes in map(set, exact.before)]
    level, found = {0}, [0]
    while level:
        clock.raise_if_late()
        level = {
            ideal | 1 << v for ideal in level for v in range(exact.n) if not ideal >> v & 1 and before[v] & ~ideal == 0
        }
        found += sorted(level)
        if len(found) > _MOST_IDEALS:
            raise TooManyIdealsError(f"there are more than {_MOST_IDEALS} ideals")
    return found


def _blocks_from(
    exact: Sequence[ExactInstance], barred: Sequence[int], first: int, goals: Sequence[int | None]
) -> list[list[int]]:
    """For each kind, where the blocks that begin behind an ideal end and cost less than the goal of that kind."""
    one = exact[0]
    before = [sum(1 << u for u in set(nodes)) for nodes in one.before]
    masks = [(1 << tensor.producer, sum(1 << v for v in tensor.readers)) for tensor in one.tensors]
    ends: list[list[int]] = [[] for _ in exact]
    level = {first: [0] * len(exact)}  # work of each kind
    while level:
        following: dict[int, list[int]] = {}
        for last, works in level.items():
            if last != first:
                for t, cost in enumerate(costs_of_block(exact, barred, masks, last & ~first, works)):
                    if cost is not None and ((goal := goals[t]) is None or cost < goal):
                        ends[t].append(last)
            for v in range(one.n):
                larger = last | 1 << v
                if larger == last or before[v] & ~last or larger in following:
                    continue
                grown = [work + own.work[v] for work, own in zip(works, exact, strict=True)]
                if any(goal is None or work < goal for work, goal in zip(grown, goals, strict=True)):
                    following[larger] = grown
        level = following
    return ends


def costs_of_block(
    exact: Sequence[ExactInstance],
    barred: Sequence[int],
    masks: Sequence[tuple[int, int]],
    block: int,
    works: Sequence[int],
) -> list[int | None]:
    """Cost of a block on each kind in its own unit; None where it has to fit and does not, or cannot run."""
    one = exact[0]
    cut = [t for t, (maker, readers) in enumerate(masks) if (readers & ~block if maker & block else readers & block)]
    limited = any(own.memory is not None for own in exact)
    nodes = [v for v in range(one.n) if block >> v & 1] if limited else []
    found: list[int | None] = []
    for own, unable, work in zip(exact, barred, works, strict=True):
        over = 0
        if own.memory is not None:
            held = sum(own.held[v] for v in nodes) + sum(
                size for users, size in own.shared if any(block >> v & 1 for v in users)
            )
            peak = own.buffer if own.buffer is not None else max(own.need[v] for v in nodes)
            over = max(0, held + peak - own.memory)
        fits = not (own.fit and over) and not block & unable
        found.append(work + over + sum(own.tensors[t].time for t in cut) if fits else None)
    return found


def _leads(instance: Instance, blocks: Sequence[Sequence[Sequence[int]]], clock: Clock, window: _Window) -> bool:
    """Whether blocks lead to the last place with at most so many devices of each kind, and k in all."""
    shape = tuple(count + 1 for count in instance.machines.counts)
    last, states, k = len(blocks), int(np.prod(shape, dtype=np.float64)), instance.k
    if (last + 1) * states > MOST_TRUTHS:
        raise TooManyIdealsError(f"there are {states} numbers of devices for {last + 1} ideals")
    own = np.min_scalar_type(k + 2)
    passed = [np.full(shape, k + 1, dtype=own) for _ in range(last + 1)]
    passed[0].flat[0] = 0
    for i, ends in enumerate(blocks):
        clock.raise_if_late()
        if passed[i].min() >= k:
            continue
        for t, places in enumerate(ends):
            before = np.full(shape, k + 1, dtype=own)
            there, here = [slice(None)] * len(shape), [slice(None)] * len(shape)
            there[t], here[t] = slice(1, None), slice(None, -1)
            before[tuple(there)] = passed[i][tuple(here)]
            behind: dict[tuple[int, int], NDArray[np.unsignedinteger]] = {}
            for j in places if before.min() < k else ():
                first, final = window(i, j)
                if (first, final) not in behind:
                    moved = np.maximum(before, own.type(first)) + own.type(1)
                    behind[first, final] = np.where(moved <= final + 1, moved, own.type(k + 1))
                np.minimum(passed[j], behind[first, final], out=passed[j])
    return bool(passed[last].min() <= k)


def _leads_in_sequence(sequence: Sequence[int], blocks: Sequence[Sequence[Sequence[int]]], window: _Window) -> bool:
    """Whether blocks lead to the last place with the devices in their order, some of which may idle."""
    size = len(sequence)
    used = [0] + [size] * (len(blocks) - 1) + [size + 1]  # least number of devices that lead to each place
    for i, ends in enumerate(blocks):
        for t, places in enumerate(ends):
            following = [size]  # for each device the next one of the kind
            for d in range(size - 1, -1, -1):
                following.append(d if sequence[d] == t else following[-1])
            for j in places:
                first, final = window(i, j)
                device = following[size - max(used[i], first)]
                if device <= final:
                    used[j] = min(used[j], device + 1)
    return used[-1] <= size


# Costs and paths of blocks with a rate for each pair of kinds of devices, in exact numbers.


_Truths = NDArray[np.bool_]


def slowest_block(instance: Instance, exact: Sequence[ExactInstance], stated: StatedKinds) -> Fraction:
    """Cost of the slowest block; what several others read is sent once, at the least of their rates."""
    names = [kind.name for kind in instance.machines.kinds]
    kind = [None if name is None else names.index(name) for name in stated.kind]
    costs = [Fraction(0)] * instance.k
    for t, one in enumerate(exact):
        for b, terms in block_terms(one, stated.block, stated.order).items():
            if kind[b] == t:
                costs[b] = (terms.work + terms.overflow) * one.unit
    for tensor, size in zip(exact[0].tensors, instance.graph.tensors.bytes.tolist(), strict=True):
        home = stated.block[tensor.producer]
        times = {b: _time(instance, size, kind[home], kind[b]) for b in {stated.block[v] for v in tensor.readers}}
        times.pop(home, None)
        for b, time in times.items():
            costs[b] += time
        costs[home] += max(times.values(), default=Fraction(0))
    return max(costs)


def is_a_row(exact: ExactInstance) -> bool:
    """Whether each node is read by the next one alone."""
    return exact.edges == frozenset(zip(exact.order, exact.order[1:], strict=False))


def row_leads_below(
    instance: Instance, exact: Sequence[ExactInstance], barred: Sequence[int], goal: Fraction, clock: Clock
) -> bool:
    """Whether layers in a row have a partition all blocks of which cost less than the goal; errors as below."""
    order = exact[0].order
    passing = [Fraction(0)] * (exact[0].n + 1)
    for tensor, size in zip(exact[0].tensors, instance.graph.tensors.bytes.tolist(), strict=True):
        if tensor.readers:
            passing[order.index(tensor.producer) + 1] += Fraction(size)
    times = times_between(instance, passing)
    return stages_lead_below(instance, times, lambda i: _costs_from(exact, barred, order, i), goal, clock)


def times_between(instance: Instance, passing: Sequence[Fraction]) -> list[list[list[Fraction]]]:
    """Time of the bytes that pass each place, from each kind to each kind."""
    kinds = range(instance.kinds)
    return [[[_time(instance, size, p, q) for q in kinds] for p in kinds] for size in passing]


def stages_lead_below(
    instance: Instance,
    times: Sequence[Sequence[Sequence[Fraction]]],
    costs_from: Callable[[int], Sequence[Sequence[Fraction | None]]],
    goal: Fraction | None,
    clock: Clock,
) -> bool:
    """Whether blocks of layers in a row lead from the first place to the last, all of which cost less than the goal.

    For each place, kind of the block before and kind of the next one there is a table of truths: the numbers of devices
    that lead there.

    Parameters
    ----------
    times : as of `times_between`
    costs_from : callable
        For each kind the costs, without transfers, of the blocks that begin at a place, the shortest first; None where
        there may be none.
    goal : Fraction, optional
        None: whatever they cost.

    Raises
    ------
    TooManyIdealsError, OutOfTimeError
    """
    kinds, last = range(instance.kinds), len(times) - 1
    none, shift = _states(instance)
    if (last + 1) * len(kinds) * (len(kinds) + 1) * none.size > MOST_TRUTHS:
        raise TooManyIdealsError(f"there are {none.size} numbers of devices for {last} layers and pairs of kinds")
    begin = none.copy()
    begin.flat[0] = True
    reached: list[dict[tuple[int | None, int], _Truths]] = [{} for _ in range(last)]
    reached[0] = {(None, q): begin for q in kinds}
    for i, tables in enumerate(reached):
        clock.raise_if_late()
        own = costs_from(i)
        for (p, q), table in tables.items():
            there = shift(table, q)
            if not there.any():
                continue
            into = Fraction(0) if p is None else times[i][p][q]
            for j, cost in enumerate(own[q], i + 1):
                if cost is None or (goal is not None and cost + into >= goal):
                    continue
                if j == last:
                    return True
                for r in kinds:
                    if goal is None or cost + into + times[j][q][r] < goal:
                        reached[j][q, r] = reached[j].get((q, r), none) | there
        tables.clear()
    return False


def _costs_from(
    exact: Sequence[ExactInstance], barred: Sequence[int], order: Sequence[int], i: int
) -> list[list[Fraction | None]]:
    """For each kind, the costs without transfers of the blocks that begin at a place; None where one does not fit."""
    rows: list[list[Fraction | None]] = [[] for _ in exact]
    block, works = 0, [0] * len(exact)
    for v in order[i:]:
        block |= 1 << v
        works = [work + one.work[v] for work, one in zip(works, exact, strict=True)]
        for row, one, cost in zip(rows, exact, costs_of_block(exact, barred, [], block, works), strict=True):
            row.append(None if cost is None else cost * one.unit)
    return rows


def _states(instance: Instance) -> tuple[_Truths, Callable[[_Truths, int], _Truths]]:
    """An empty table of truths, and what a table becomes with a device of some kind."""
    devices = instance.machines
    if devices.is_fixed:
        return np.zeros(devices.total + 1, dtype=bool), lambda table, t: _next_in_sequence(table, devices.sequence, t)
    shape = tuple(count + 1 for count in devices.counts)
    allowed: _Truths = np.indices(shape).sum(axis=0) <= instance.k

    def shift(table: _Truths, t: int) -> _Truths:
        moved = np.roll(table, 1, axis=t)
        moved[(slice(None),) * t + (0,)] = False
        return moved & allowed

    return np.zeros(shape, dtype=bool), shift


def _next_in_sequence(table: _Truths, sequence: Sequence[int], t: int) -> _Truths:
    """Numbers of devices that are passed with the next one of a kind."""
    following = np.zeros_like(table)
    for d in np.flatnonzero(table).tolist():
        if t in sequence[d:]:
            following[sequence.index(t, d) + 1] = True
    return following


def _time(instance: Instance, size: float | Fraction, s: int | None, t: int | None) -> Fraction:
    assert instance.rates is not None
    assert s is not None
    assert t is not None
    rate = float(instance.rates[s, t])
    return Fraction(0) if rate == np.inf else Fraction(size) / Fraction(rate)


# Check the certificate of a partition over kinds of devices: costs from the definition, a checker for each bound.


def verify_kinds(document: Value, limits: Limits) -> Verdict:
    """Check everything in the certificate that can be checked.

    Raises
    ------
    InputError
        If this is none, or the parameters of a bound are not of the kind that its method needs.
    """
    certificate = kinds_from_document(document)
    instance, stated = certificate.instance, certificate.partition
    exact = [ExactInstance.of(instance.of_kind(t)) for t in range(instance.kinds)]
    faults, cost = [], None
    if certificate.graph_hash != instance.graph.content_hash:
        faults.append(unequal("instance.graph_hash", certificate.graph_hash, instance.graph.content_hash))
    if stated is not None:
        one, names = replace(exact[0], fit=False), instance.graph.names
        fault = find_fault(one, stated.block, stated.order)
        fault = fault or find_breach(one, instance.constraints, names, stated.block, stated.order)
        fault = fault or _fault_of_kinds(instance, exact, stated)
        if fault is None:
            slowest = _bottleneck if instance.rates is None else slowest_block
            cost = slowest(instance, exact, stated)
            faults += _faults_of_copies(certificate, stated, cost)
        else:
            faults.append(f"partition: {fault}")
    group = shared_blocks(exact[0], instance.constraints)
    merged = [merge_groups(one, group) for one in exact]
    task = _Task(instance, merged, _barred(instance, group), group, Clock(limits.seconds))
    checks, false = check_claims(certificate, task.check, limits.seconds)
    faults += false
    if stated is None or cost is not None:
        faults += faults_of_sum(certificate, cost)
    no_answer = None
    if certificate.impossible is not None:
        no_answer = check_impossible(instance, task.exact[0], group, certificate.impossible, task.fits_nowhere)
        faults += [f"impossible: {no_answer.fault}"] if no_answer.fault else []
        faults += [] if stated is None else ["impossible: there is a partition beside it"]
    return Verdict(certificate, cost, checks, tuple(faults), no_answer=no_answer)


def _barred(instance: Instance, group: Sequence[int]) -> list[int]:
    """Of each kind the groups with a node that it cannot run, as bits."""
    return [
        sum(1 << g for g in {g for g, work in zip(group, row, strict=True) if math.isinf(work)})
        for row in instance.work.tolist()
    ]


def _fault_of_kinds(instance: Instance, exact: list[ExactInstance], stated: StatedKinds) -> str | None:
    """The first reason why the kinds of the blocks are none; None if they are."""
    fault = fault_of_devices(instance, stated.block, stated.kind)
    if fault is not None:
        return fault
    names = [kind.name for kind in instance.machines.kinds]
    for v, b in enumerate(stated.block):
        own = stated.kind[b]
        if own is not None and math.isinf(instance.work[names.index(own), v]):
            return f"node {v} cannot run on {own}"
    for b, name in enumerate(stated.kind):
        if name is None:
            continue
        t = names.index(name)
        limit = exact[t].memory
        if exact[t].fit and limit is not None:
            params, peaks = held(exact[t], stated.block, stated.order)
            if params[b] + peaks[b] > limit:
                return f"block {b} does not fit on {name}"
    return None


def fault_of_devices(instance: Instance, block: Sequence[int], kind: Sequence[str | None]) -> str | None:
    """The first reason why there are no such devices for the blocks; None if there are."""
    devices, names = instance.machines, [own.name for own in instance.machines.kinds]
    if len(kind) != instance.k:
        return f"there are {len(kind)} kinds for {instance.k} blocks"
    used = [0] * len(names)
    for b, name in enumerate(kind):
        if (b in block) != (name is not None):
            return f"block {b} is {'not ' if b in block else ''}empty, and its kind is {name!r}"
        if name is None:
            continue
        if name not in names:
            return f"block {b} is on {name!r}, which there is not"
        t = names.index(name)
        used[t] += 1
        if devices.is_fixed and devices.sequence[b] != t:
            return f"block {b} is on {names[t]}, and device {b} is a {names[devices.sequence[b]]}"
    for t, own in enumerate(devices.kinds):
        if used[t] > own.count:
            return f"{used[t]} blocks are on {own.name}, of which there are {own.count}"
    return None


def _bottleneck(instance: Instance, exact: list[ExactInstance], stated: StatedKinds) -> Fraction:
    names = [kind.name for kind in instance.machines.kinds]
    most = Fraction(0)
    for t, name in enumerate(names):
        own = {b for b, kind in enumerate(stated.kind) if kind == name}
        if own:
            terms = block_terms(exact[t], stated.block, stated.order)
            most = max(most, max(sum(terms[b]) for b in own) * exact[t].unit)
    return most


def _faults_of_copies(certificate: KindsCertificate, stated: StatedKinds, cost: Fraction) -> Iterator[str]:
    names, stages = certificate.instance.graph.names, dict[int, list[str]]()
    for v in stated.order:
        stages.setdefault(stated.block[v], []).append(names[v])
    expected = tuple(tuple(stages.get(b, ())) for b in range(certificate.instance.k))
    if stated.stages != expected:
        yield "partition.stages: the names are not those of block and order"
    yield from faults_of_cost("partition.bottleneck", stated.bottleneck, cost)
    yield from faults_of_cost("bottleneck", certificate.cost, cost)


@dataclass(frozen=True)
class _Task:
    """Question and limits for all checkers."""

    instance: Instance
    exact: list[ExactInstance]  # a kind, with one node for each group of nodes that have to share a block
    barred: Sequence[int]  # of each kind the nodes of `exact` that it cannot run, as bits
    group: Sequence[int]  # node of `exact` that holds each node of the file
    clock: Clock

    def check(self, claim: Claim) -> Check:
        """Prove a claim again by the checker of its method."""
        self.clock.raise_if_late()
        if claim.value <= slack(Fraction(0)):
            return Check(claim, Fraction(0), "nothing to prove")
        checkers = {"simple": self._simple, "pinned": self._pinned, "ideals": self._ideals, "priced": self._priced}
        return checkers.get(claim.method, by_solver)(claim)

    def _simple(self, claim: Claim) -> Check:
        """Speed of all devices by the shares of the claim, or the heaviest node on its fastest kind."""
        shares = self._shares(claim)
        if shares is None:
            fault = f"parameters.shares are not {self.instance.kinds} numbers, none below 0 and not all 0"
            return Check(claim, None, "false", fault)
        works = [[work * one.unit for work in one.work] for one in self.exact]
        total = sum(count * share for count, share in zip(self.instance.machines.counts, shares, strict=True))
        speed = sum(min(s * w for s, w in zip(shares, column, strict=True)) for column in zip(*works, strict=True))
        alone = max(min(column) for column in zip(*works, strict=True))
        return compare(claim, max(alone, speed / total), "re-proved by its formula")

    def _shares(self, claim: Claim) -> list[Fraction] | None:
        shares = claim.parameters.open_members(("shares",))["shares"].numbers()
        if len(shares) != self.instance.kinds or min(shares) < 0 or max(shares) <= 0:
            return None
        return [Fraction(share) for share in shares]

    def _pinned(self, claim: Claim) -> Check:
        """The least of the minimum cuts around a node, one a kind."""
        from mtpp.verification.partitioning.cuts import block_bound

        nodes = claim.parameters.open_members(("nodes",))["nodes"].whole_numbers()
        if len(nodes) != 1 or not 0 <= nodes[0] < len(self.group):
            return Check(claim, None, "false", f"parameters.nodes is not one of {len(self.group)} nodes")
        value = Fraction(claim.value)
        found = [block_bound(one, value, [(self.group[nodes[0]],)], self.clock) for one in self.exact]
        least, lost = min((cut.least, cut.lost) for cut in found)
        if least < value <= least + lost:
            return Check(claim, least, f"re-proved by minimum cuts, to {as_float(least)!r}")
        return compare(claim, least, f"re-proved by {len(found)} minimum cuts")

    def _ideals(self, claim: Claim) -> Check:
        """All paths of blocks below the claim, over all ideals; at rates for pairs where layers are in a row.

        With windows as well, either without them, or in them at the fastest rates of each kind.
        """
        value = Fraction(claim.value)
        try:
            for goal in (value, value - slack(value)):
                if not self._leads_below(goal):
                    return Check(claim, goal, "re-proved by all ideals")
        except TooManyIdealsError as error:
            return Check(claim, None, f"not re-checked: {error}")
        return Check(claim, None, "false", f"{claim.value!r} is claimed, but blocks below it exist")

    def _leads_below(self, goal: Fraction) -> bool:
        """Whether blocks below the goal lead from nothing to all nodes."""
        in_a_row = self.instance.rates is not None and is_a_row(self.exact[0])
        if in_a_row and not row_leads_below(self.instance, self.exact, self.barred, goal, self.clock):
            return False
        return (in_a_row and not self.instance.constraints.windows) or self._some_path_is_below(goal)

    def _some_path_is_below(self, goal: Fraction | None) -> bool:
        windows = [(self.group[v], first, last) for v, first, last in self.instance.constraints.windows]
        return some_path_is_below(self.instance, self.exact, self.barred, goal, self.clock, windows)

    def fits_nowhere(self) -> bool:
        """Whether no blocks at all lead to all nodes."""
        return not self._some_path_is_below(None)

    def _priced(self, claim: Claim) -> Check:
        """Check that the prices are valid; their bound is trusted."""
        prices = claim.parameters.open_members(("prices",))["prices"].numbers()
        shares, fault = self._shares(claim), ""
        if len(prices) != len(self.group) or min(prices) < 0:
            fault = f"parameters.prices are not {len(self.group)} numbers, none below 0"
        elif shares is None or min(shares) <= 0:
            fault = f"parameters.shares are not {self.instance.kinds} numbers above 0"
        else:
            devices = sum(count * share for count, share in zip(self.instance.machines.counts, shares, strict=True))
            if sum(map(Fraction, prices)) < devices:
                fault = "the nodes are worth less than the devices"
        return Check(claim, None, "false" if fault else "trusted from a search for blocks", fault)
