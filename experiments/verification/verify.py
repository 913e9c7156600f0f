"""Check a certificate with code of its own, in exact rational numbers.

Of the project only records that hold data are imported: neither `Partition`, nor the reductions, the searches or the
models, so that a fault of theirs does not hide here. What a file states decides nothing about the effort: the limits
are the caller's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from experiments.verification.checkers import Task
from experiments.verification.clock import Clock, OutOfTimeError
from experiments.verification.costs import bottleneck, find_fault
from experiments.verification.exact_instance import ExactInstance, as_float
from experiments.verification.ideals import PAIRS
from experiments.verification.verdict import ROUNDING, Check, Verdict, ratio_of
from instances.certificate_file import Certificate, Claim, Stated, recheck

__all__ = ["verify"]


def verify(certificate: Certificate, *, ideals: bool = False, time_limit: float = 60.0, pairs: int = PAIRS) -> Verdict:
    """Check everything in a certificate that can be checked.

    Parameters
    ----------
    certificate : Certificate
    ideals : bool
        Run a plain program over ideals again, which may take minutes.
    time_limit : float
        Seconds for all bounds together; those that are not proved again by then are trusted.
    pairs : int
        Most pairs of ideals to look at.

    Returns
    -------
    Verdict

    Raises
    ------
    InputError
        If the parameters of a bound are not of the kind that its method needs.
    """
    instance, stated = certificate.instance, certificate.partition
    exact = ExactInstance.of(instance)
    cost, faults = None, []
    if certificate.graph_hash != instance.graph.content_hash:
        faults.append(_unequal("instance.graph_hash", certificate.graph_hash, instance.graph.content_hash))
    if stated is not None:
        fault = find_fault(exact, stated.block, stated.order)
        if fault is None:
            cost = bottleneck(exact, stated.block, stated.order)
            faults += _faults_of_copies(certificate, stated, cost)
        else:
            faults.append(f"partition: {fault}")
    one_block = bottleneck(exact, [0] * exact.n, exact.order)
    task = Task(exact, one_block, Clock(time_limit), pairs if ideals else None)
    checks = tuple(_check(task, claim, time_limit) for claim in certificate.claims)
    faults += [f"{check.claim.place} ({check.claim.method}): {check.fault}" for check in checks if check.fault]
    if stated is None or cost is not None:  # else the numbers below mean nothing
        faults += _faults_of_sum(certificate, cost)
    return Verdict(certificate, cost, checks, tuple(faults))


def _check(task: Task, claim: Claim, time_limit: float) -> Check:
    """Prove one bound again, if its method allows that."""
    kind = recheck(claim.method)
    if claim.recheck != kind:
        return Check(claim, None, "false", f"recheck is {claim.recheck!r} but this method has {kind!r}")
    try:
        return task.check(claim)
    except OutOfTimeError:
        return Check(claim, None, f"not re-checked within {time_limit:g} s")


def _faults_of_copies(certificate: Certificate, stated: Stated, cost: Fraction) -> Iterator[str]:
    """What the partition repeats."""
    graph, platform = certificate.instance.graph, certificate.instance.platform
    for name in ("k", "bandwidth", "memory", "activation_buffer"):
        claimed, true = getattr(stated.platform, name), getattr(platform, name)
        if claimed != true:
            yield _unequal(f"partition.{name}", claimed, true)
    if stated.graph_hash != graph.content_hash:
        yield _unequal("partition.graph_hash", stated.graph_hash, graph.content_hash)
    stages: dict[int, list[str]] = {}
    for v in stated.order:
        stages.setdefault(stated.block[v], []).append(graph.names[v])
    if len(stated.stages) != platform.k or any(
        list(names) != stages.get(b, []) for b, names in enumerate(stated.stages)
    ):
        yield "partition.stages: the names are not those of block and order"
    for place, claimed in (("partition.bottleneck", stated.bottleneck), ("bottleneck", certificate.bottleneck)):
        if claimed is None or abs(Fraction(claimed) - cost) > ROUNDING * cost:
            yield _unequal(place, claimed, as_float(cost))


def _faults_of_sum(certificate: Certificate, cost: Fraction | None) -> Iterator[str]:
    """Bounds against the bottleneck, and the numbers that sum the certificate up."""
    best = max((claim.value for claim in certificate.claims), default=None)
    if cost is None and certificate.bottleneck is not None:
        yield f"bottleneck: {certificate.bottleneck!r} is claimed without a partition"
    for claim in certificate.claims:
        if cost is not None and Fraction(claim.value) > cost * (1 + ROUNDING):
            yield f"{claim.place}.value ({claim.method}): {claim.value!r} is above the bottleneck {as_float(cost)!r}"
    if certificate.bound != best:
        yield _unequal("bound", certificate.bound, best)
    ratio = ratio_of(cost, None if best is None else Fraction(best))
    claimed = certificate.ratio
    if claimed is None:  # files have no number for a ratio beyond the largest
        same = ratio is None or math.isinf(as_float(ratio))
    else:
        same = ratio is not None and abs(Fraction(claimed) - ratio) <= 2 * ROUNDING * ratio
    if not same:
        yield _unequal("ratio", claimed, None if ratio is None else as_float(ratio))


def _unequal(place: str, claimed: object, true: object) -> str:
    return f"{place}: {claimed!r} is claimed, {true!r} is recomputed"
