"""Let what a certificate only trusts prove its bounds again, with the caller's limits.

This is no second opinion: the models and solvers of this machine speak once more. It finds bounds that no longer hold.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from experiments.verification.verdict import Check, Verdict
from instances import Instance, Partition
from instances.certificate_file import Certificate, Claim
from instances.deadline import Deadline
from instances.errors import printable
from instances.interrupts import catch_interrupt
from mtpp_models import SolveOptions, SolverNotAvailableError, solve
from mtpp_models.bounds.priced.branch_and_bound import BlockTree

__all__ = ["rerun"]

#: Two runs of a solver to the end may prove bounds that differ by this part: 1e-6 is its tolerance, 1e-6 our margin.
_SOLVER = 4e-6
#: What a stated number may be above a cost that is known here.
_ROUNDING = 1e-9
# Seconds that are worth another run.
_SHORTEST = 0.05


def rerun(verdict: Verdict, *, time_limit: float) -> Verdict:
    """Run again what the trusted bounds of a certificate come from, as far as they are above what is proved.

    Parameters
    ----------
    verdict : Verdict
        Of `verify`; what is proved or false there stays so.
    time_limit : float
        Seconds for all of them together, the best bound first.

    Returns
    -------
    Verdict
        With what is confirmed, not confirmed, or false.

    Raises
    ------
    KeyboardInterrupt
        At Ctrl-C.
    """
    deadline = Deadline.after(time_limit)
    known, proved = _partition(verdict), verdict.proved_bound or 0
    checks, faults = list(verdict.checks), list(verdict.faults)
    for i in sorted(range(len(checks)), key=lambda i: -checks[i].claim.value):
        check = checks[i]
        if check.proved is not None or check.fault or check.claim.value <= proved:
            continue
        if deadline.left < _SHORTEST:
            checks[i] = check._replace(how=f"{check.how}; not confirmed, no time was left")
            continue
        checks[i] = _again(verdict.certificate, check, known, deadline.left)
        if checks[i].fault:
            faults.append(f"{check.claim.place} ({check.claim.method}): {checks[i].fault}")
    return replace(verdict, checks=tuple(checks), faults=tuple(faults))


def _partition(verdict: Verdict) -> Partition | None:
    stated = verdict.certificate.partition
    if stated is None or verdict.bottleneck is None:
        return None
    return Partition(verdict.certificate.instance, stated.block, stated.order)


def _again(certificate: Certificate, check: Check, known: Partition | None, time_limit: float) -> Check:
    claim, instance = check.claim, certificate.instance
    if claim.method == "priced":
        return _search_again(instance, check, time_limit)
    if claim.method == "carried" or claim.solver is None:
        return check
    name = claim.method.removesuffix("-lp")
    try:
        options = SolveOptions(claim.solver, time_limit)
        result = solve(instance, name, options, start=known, relaxation=name != claim.method)
    except SolverNotAvailableError as error:
        return check._replace(how=f"{check.how}; not confirmed: {printable(str(error))}")
    if result.interrupted:
        raise KeyboardInterrupt
    assert result.bound is not None
    if result.partition is not None and claim.value > result.partition.bottleneck * (1 + _ROUNDING):
        fault = f"value {claim.value!r} is claimed, a partition of {result.partition.bottleneck!r} exists"
        return check._replace(how="false", fault=fault)
    if claim.value <= result.bound.value * (1 + _SOLVER):
        return check._replace(how=f"{check.how}; confirmed by {result.solver} on this machine", confirmed=True)
    if result.bound.optimal:
        fault = f"value {claim.value!r} is claimed, {result.solver} says {result.bound.value!r}"
        return check._replace(how="false", fault=fault)
    return check._replace(how=f"{check.how}; not confirmed, {result.solver} came to {result.bound.value:.6g}")


def _search_again(instance: Instance, check: Check, time_limit: float) -> Check:
    """Look once more for a block that is worth its share of the stated prices and costs too little."""
    claim = check.claim
    with catch_interrupt() as interrupted:
        deadline = Deadline.after(time_limit, interrupted)
        tree = BlockTree(instance, _prices(claim), claim.value * (1 - _ROUNDING), deadline.share(0.25))
        proved, block = tree.explore(deadline)
    if interrupted.is_set():
        raise KeyboardInterrupt
    if block is None and proved:
        return check._replace(how=f"{check.how}; confirmed by another search", confirmed=True)
    if block is None:
        return check._replace(how=f"{check.how}; not confirmed, not searched to the end")
    order, (start, after) = instance.graph.topological_order.tolist(), instance.graph.successors
    superblock = np.where(block, 1, 2)
    for v in reversed(order):  # what leads to the block lies before it
        if not block[v] and (superblock[after[start[v] : start[v + 1]]] < 2).any():
            superblock[v] = 0
    cost = float(Partition(instance.without_peaks().with_k(3), superblock).block_costs[1])
    if claim.value <= cost * (1 + _ROUNDING):
        return check._replace(how=f"{check.how}; not confirmed, it is beyond the digits of the search")
    return check._replace(
        how="false", fault=f"value {claim.value!r} is claimed, a block of {cost!r} is worth its share"
    )


def _prices(claim: Claim) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(claim.parameters.open_members(("prices",))["prices"].numbers())
