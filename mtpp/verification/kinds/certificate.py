"""Check the certificate of a partition over kinds of devices: costs from the definition, a checker for each bound."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from instances.certificates.claims import Claim
from instances.json_files import Value
from instances.partitioning.kinds.file import KindsCertificate, StatedKinds, kinds_from_document
from instances.partitioning.problem import Instance
from mtpp.verification.clock import Clock, Limits
from mtpp.verification.faults import faults_of_cost, faults_of_sum, slack, unequal
from mtpp.verification.fractions import as_float
from mtpp.verification.kinds.paths import TooManyIdealsError, some_path_is_below
from mtpp.verification.kinds.rates import is_a_row, row_leads_below, slowest_block
from mtpp.verification.partitioning.costs import block_terms, find_fault, held
from mtpp.verification.partitioning.exact_instance import ExactInstance
from mtpp.verification.partitioning.groups import merge_groups, shared_blocks
from mtpp.verification.partitioning.impossible import check_impossible
from mtpp.verification.partitioning.rules import find_breach
from mtpp.verification.verdict import Check, Verdict, by_solver, check_claims, compare

__all__ = ["fault_of_devices", "verify_kinds"]


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
