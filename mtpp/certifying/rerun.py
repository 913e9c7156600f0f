"""Run the methods of a certificate's bounds again, and check solutions of other programs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from instances import Bound, InputError, Instance, Partition, Result
from instances.certificates import STATED, Claim
from instances.deadline import Deadline, Stopwatch
from instances.errors import WordError, printable, word
from instances.graph.tensors import sums_by
from instances.partitioning.partition_file import stated_partition
from instances.partitioning.stated import Certificate
from instances.partitioning.symmetry import contract_groups, reduce_instance
from instances.placement.problem import StatedPlacement
from instances.results import LP_SUFFIX
from instances.system.processes import catch_interrupt
from mtpp.questions.files import placement_of
from mtpp.verification.verdict import Check, Verdict
from mtpp_models import SolveOptions, SolverNotAvailableError, read_solution, solve
from mtpp_models.bounds.priced.prices import BlockTree
from mtpp_models.bounds.priced.quick import BISECTION, halved
from mtpp_models.bounds.priced.relaxation import with_ends
from mtpp_models.exchange.files import builders, stated_time
from mtpp_models.placement.exact import EXACT
from mtpp_models.placement.registry import bound_placement
from mtpp_models.planning.bounds import iteration_bound
from mtpp_models.planning.solve import bounds_by_coverage
from mtpp_models.simple import as_answer, one_block, simple_bound

# Solutions of other programs for a written model: a partition, checked here, and a bound that is not proved here.


# By how much a stated bound may be above a known cost, as other programs print few digits; it then counts as that cost.
_DIGITS = 1e-5


class ReadBack(NamedTuple):
    """Answers read from a solution of another program, and why its bound cannot be true."""

    answers: list[Result]  # the partition with the bound *simple*; then, if there is one, the stated bound
    source: str  # of the stated bound
    false: str | None = None  # why the stated bound cannot be true


def read_back(
    instance: Instance,
    model: str,
    *,
    start: Partition | None = None,
    solution: Path | None = None,
    stated: float | None = None,
) -> ReadBack:
    """Check the answer of another program to a model that was written.

    Parameters
    ----------
    model : str
        Name of the model, as for writing it, with the same start.
    solution : path, optional
        File as for `mtpp_models.read_solution`; its partition then takes the place of the start.
    stated : float, optional
        A bound on the objective of the model, in place of the one that the file states.

    Raises
    ------
    InputError
        If `stated` is no bound, and as for `mtpp_models.read_solution`.
    """
    if stated is not None and not 0 <= stated < math.inf:
        raise WordError("stated_bound", stated, "it must be finite, 0 or more, as the solver states it.")
    watch, built = Stopwatch(), next(iter(builders(instance, model, start).values()))()
    partition, source = start, word("stated_bound")
    time = None if stated is None else stated_time(built, stated)
    if solution is not None:
        read = read_solution(built, solution)
        partition = read.partition
        if stated is None:
            time, source = read.stated, f"{solution} ({read.solver})"
    floor = simple_bound(instance)
    answers = [Result("solution", instance, partition, floor, watch.seconds(read=watch.passed))]
    if time is None:
        return ReadBack(answers, source)
    partitions = (partition, as_answer(instance, one_block(instance)))
    least = min((answer.bottleneck for answer in partitions if answer is not None), default=math.inf)
    if time > least * (1 + _DIGITS):
        unit = instance.time_unit
        false = f"the bound {time:.6g} {unit} of {source} is false: a partition of {least:.6g} {unit} is known."
        return ReadBack(answers, source, false)
    bound = Bound(min(time, least), STATED, optimal=False, witness={"model": built.name, "by": source})
    return ReadBack([*answers, Result(STATED, instance, None, bound)], source)


# Reruns of the methods behind bounds that a certificate only trusts, each with the caller's limits.
#
# This is no independent check: the same models and solvers run once more. It finds bounds that no longer hold.


#: Two runs of a solver to the end may prove bounds that differ by this part: 1e-6 is its tolerance, 1e-6 our margin.
_SOLVER = 4e-6
#: Largest relative excess of a stated number over a cost that is known here.
_ROUNDING = 1e-9


def solve_again(verdict: Verdict, check: Check, time_limit: float) -> Check:
    """Run the named solver on the same model again."""
    claim, certificate = check.claim, verdict.certificate
    assert isinstance(certificate, Certificate)
    partition = None if verdict.cost is None else stated_partition(certificate)
    name = claim.method.removesuffix(LP_SUFFIX)
    options = SolveOptions(time_limit=time_limit)
    if claim.solver is not None:
        options = replace(options, solver=claim.solver)
    try:
        result = solve(certificate.instance, name, options, start=partition, relaxation=name != claim.method)
    except SolverNotAvailableError as error:
        return check._replace(how=f"{check.how}; not confirmed: {printable(str(error))}")
    return _of_solver(check, result, "a partition")


def _of_solver(check: Check, result: Result[Any, Any], answer: str) -> Check:
    """The check of a claim after its solver has run again; `answer` is the noun for answers in messages."""
    if result.interrupted:
        raise KeyboardInterrupt
    assert result.bound is not None
    value, by = check.claim.value, result.solver or result.method
    if result.cost is not None and value > result.cost * (1 + _ROUNDING):
        return check._replace(how="false", fault=f"value {value!r} is claimed, {answer} of {result.cost!r} exists")
    if value <= result.bound.value * (1 + _SOLVER):
        return check._replace(how=f"{check.how}; confirmed by {by} on this machine", confirmed=True)
    if result.bound.optimal:
        return check._replace(how="false", fault=f"value {value!r} is claimed, {by} says {result.bound.value!r}")
    return check._replace(how=f"{check.how}; not confirmed, {by} came to {result.bound.value:.6g}")


def stay(_verdict: Verdict, check: Check, _time_limit: float) -> Check:
    """Return the check unchanged: the bound follows from other bounds."""
    return check


def plan_again(verdict: Verdict, check: Check, _time_limit: float) -> Check:
    """Run the dynamic program over stages again, up to the claim."""
    ceiling = check.claim.value * (1 + _SOLVER)
    return _of_program(check, iteration_bound(verdict.certificate.instance, ceiling=ceiling))


def _of_program(check: Check, bound: Bound) -> Check:
    """The check of a claim after the dynamic program has run again."""
    claimed = check.claim.value
    if claimed <= bound.value * (1 + _ROUNDING):
        return check._replace(how=f"{check.how}; confirmed on this machine", confirmed=True)
    return check._replace(how="false", fault=f"value {claimed!r} is claimed, the program says {bound.value!r}")


def place_again(verdict: Verdict, check: Check, time_limit: float) -> Check:
    """Run the named solver on the same placement question again."""
    claim, stated = check.claim, verdict.certificate
    assert isinstance(stated, StatedPlacement)
    start, options = placement_of(stated), SolveOptions(time_limit=time_limit)
    if claim.method == EXACT and claim.solver is not None:
        options = replace(options, solver=claim.solver)
    try:
        result = bound_placement(start, claim.method, options)
    except (SolverNotAvailableError, InputError) as error:
        return check._replace(how=f"{check.how}; not confirmed: {printable(str(error))}")
    return _of_solver(check, result, "a placement")


def covered_again(verdict: Verdict, check: Check, _time_limit: float) -> Check:
    """Run the dynamic program over stages on shared network cards again."""
    claim = check.claim
    bounds = bounds_by_coverage(verdict.certificate.instance, claim.value * (1 + _SOLVER))
    return _of_program(check, bounds[claim.method.removeprefix("z-")])


def search_again(verdict: Verdict, check: Check, time_limit: float) -> Check:
    """Search again for a block that refutes the claim: its prices reach its share, and its cost is below the claim."""
    claim = check.claim
    value = claim.value * (-(-verdict.certificate.instance.k // 2) if claim.method == BISECTION else 1)
    with catch_interrupt() as interrupted:
        deadline = Deadline.after(time_limit, interrupted)
        for alone, tree in _trees(verdict.certificate.instance, claim, value * (1 - _ROUNDING), deadline.share(0.25)):
            (proved, block), instance = tree.explore(deadline), alone
            if not proved:
                break
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
    cost = float(Partition(instance.with_k(3), superblock).block_costs[1])
    if value <= cost * (1 + _ROUNDING):
        return check._replace(how=f"{check.how}; not confirmed, it is beyond the digits of the search")
    return check._replace(how="false", fault=f"value {value!r} is claimed, a block of {cost!r} is worth its share")


def _trees(question: Instance, claim: Claim, goal: float, deadline: Deadline) -> Iterator[tuple[Instance, BlockTree]]:
    """Trees for a search for a refuting block below the goal, one for each kind of devices."""
    if not question.is_alike:
        reduction = reduce_instance(question)
        node = sums_by(reduction.group, _members(claim, "prices"), reduction.instance.graph.n)
        kind = _members(claim, "shares")
        kind *= node.sum() / (kind @ np.array(question.machines.counts))
        for t in range(question.kinds):
            alone = reduction.instance.of_kind(t).relaxed()
            tree = BlockTree(alone, node, goal, deadline)
            with np.errstate(divide="ignore", invalid="ignore"):
                tree.revalue(np.where(node < kind[t], node / kind[t], 1.0))
            yield alone, tree
        return
    merged = contract_groups(question)
    instance = merged.instance.relaxed()
    if claim.method == BISECTION:
        instance, prices = halved(instance)
    else:
        group, prices = merged.group, _members(claim, "prices")
        if len(prices) > len(group):
            group, instance = np.append(group, instance.graph.n + np.arange(2)), with_ends(instance)
        prices = sums_by(group, prices, instance.graph.n)
    yield instance, BlockTree(instance, prices, goal, deadline)


def _members(claim: Claim, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(claim.parameters.open_members((name,))[name].numbers())
