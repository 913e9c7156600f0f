"""Check a plan: its stages and its time from the definition; its bound is trusted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from instances.certificates.claims import Claim
from instances.json_files import Value
from instances.planning.stated import StatedPlan, plan_from_document
from mtpp.verification.clock import Clock, Limits
from mtpp.verification.faults import ROUNDING, faults_of_copies, faults_of_cost, faults_of_sum, is_near, unequal
from mtpp.verification.fractions import as_float
from mtpp.verification.planning.even_share import least_work
from mtpp.verification.planning.iteration_time import NoLinkError, StageTimes, in_flight, iteration_time
from mtpp.verification.verdict import Check, Verdict, check_claims, compare

__all__ = ["verify_plan"]


def verify_plan(document: Value, limits: Limits) -> Verdict:
    """Check everything in a plan file that can be checked; errors are those of `verify`."""
    plan = plan_from_document(document)
    cost, faults = None, list(_faults_of_copies(plan))
    fault = next(_faults_of_plan(plan), None)
    if fault is None:
        try:
            times = StageTimes.of(plan.instance, plan.cuts, plan.devices)
        except NoLinkError:
            fault = "devices that have to exchange data have no link"
        else:
            faults += _faults_of_stages(plan, times)
            orders = (plan.stage_orders, plan.channel_orders)
            cost = iteration_time(times, *orders, plan.instance.full_duplex, Clock(limits.seconds))
            if cost is None:
                fault = "its stages and channels wait for each other for ever in the order of operations"
    checks, false = check_claims(plan, lambda claim: _check(plan, claim), limits.seconds)
    faults += false
    if fault is not None or cost is None:
        return Verdict(plan, None, checks, (*faults, f"plan: {fault}"))
    faults += faults_of_cost("time", plan.cost, cost)
    faults += faults_of_sum(plan, cost)
    return Verdict(plan, cost, checks, tuple(faults))


def _check(plan: StatedPlan, claim: Claim) -> Check:
    if claim.value <= 0:
        return Check(claim, Fraction(0), "nothing to prove")
    if claim.method == "work-any":
        return compare(claim, least_work(plan.instance), "re-proved: an even share of all work")
    return Check(claim, None, "trusted from a program over stages on the fastest links")


def _faults_of_plan(plan: StatedPlan) -> Iterator[str]:
    """Yield all reasons why stages and orders are no plan."""
    instance, stages, M = plan.instance, len(plan.devices), plan.instance.microbatches
    layers, devices = instance.chain.n, instance.cluster.n
    if (
        len(plan.cuts) < 2
        or plan.cuts[0] != 0
        or plan.cuts[-1] != layers
        or any(i >= j for i, j in pairwise(plan.cuts))
    ):
        yield f"the cuts do not rise from 0 to {layers}, the number of layers"
    if stages != len(plan.cuts) - 1 or not all(plan.devices):
        yield f"{len(plan.cuts) - 1} stages need one device or more each"
    used: set[int] = set()
    for v in (v for stage in plan.devices for v in stage):
        if not 0 <= v < devices:
            yield f"device {v} does not exist; there are {devices}"
        if v in used:
            yield f"device {v} is used twice"
        used.add(v)
    for what, orders, count in (
        ("stages", plan.stage_orders, stages),
        ("channels", plan.channel_orders, stages - 1),
    ):
        if len(orders) != count:
            yield f"operations.{what} has {len(orders)} orders for {count} {what}"
        for n, order in enumerate(orders):
            if len(order) != 2 * M or order.count("f") != M or order.count("b") != M:
                yield f"operations.{what}[{n}] is not an order of {M} forward and {M} backward operations"
    yield from _faults_of_memory(plan)


def _faults_of_memory(plan: StatedPlan) -> Iterator[str]:
    instance, chain = plan.instance, plan.instance.chain
    if math.isinf(instance.memory):
        return
    for n, (i, j) in enumerate(pairwise(plan.cuts)):
        params, stored = (
            sum(map(Fraction, sizes[i:j].tolist()), Fraction(0)) for sizes in (chain.param_bytes, chain.stored)
        )
        needed = Fraction(instance.parameter_copies) * params
        needed += in_flight(plan.stage_orders[n]) * stored / len(plan.devices[n])
        if needed > Fraction(instance.memory) * (1 + ROUNDING):
            yield f"stage {n} needs {as_float(needed)!r} bytes on each device, which has {instance.memory!r}"


def _faults_of_copies(plan: StatedPlan) -> Iterator[str]:
    """Yield a fault for each value of the question that the file repeats wrongly."""
    instance = plan.instance
    true = {
        "chain": instance.chain.name,
        "cluster": instance.cluster.name,
        "key": instance.key,
        "microbatches": instance.microbatches,
        "full_duplex": instance.full_duplex,
        "memory": instance.memory if math.isfinite(instance.memory) else None,
    }
    yield from faults_of_copies(plan.copies, true)


def _faults_of_stages(plan: StatedPlan, times: StageTimes) -> Iterator[str]:
    """Faults of the numbers of each stage. Times of passes are differences of sums, which all layers make inexact."""
    chain, cluster = plan.instance.chain, plan.instance.cluster
    if len(plan.stages) != len(plan.devices):
        yield f"stages: {len(plan.stages)} are described, there are {len(plan.devices)}"
        return
    slack = {
        "forward": ROUNDING * sum(map(Fraction, chain.forward.tolist())),
        "backward": ROUNDING * sum(map(Fraction, chain.backward.tolist())),
        "allreduce": Fraction(0),
    }
    for n, stage in enumerate(plan.stages):
        if stage.layers != (chain.names[plan.cuts[n]], chain.names[plan.cuts[n + 1] - 1]):
            yield f"stages[{n}].layers: the names are not those of its first and last layer"
        if stage.devices != tuple(cluster.names[v] for v in plan.devices[n]):
            yield f"stages[{n}].devices: the names are not those of its devices"
        for name, most in slack.items():
            claimed, true = getattr(stage, name), getattr(times, name)[n]
            if not is_near(claimed, true) and abs(Fraction(claimed) - true) > most:
                yield unequal(f"stages[{n}].{name}", claimed, as_float(true))
