"""Certificates as documents: all data that others need to check an answer again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from instances import InputError, Result, combine
from instances.certificates import (
    FLOW,
    KINDS,
    PARTITIONING,
    PLACEMENT,
    PLANNING,
    SOLVER_NAMES,
    recheck,
    with_provenance,
)
from instances.flow.answer import FlowAnswer
from instances.flow.problem import FLOW_CERTIFICATE, FlowInstance, flow_question_document
from instances.json_files import CERTIFICATE_FORMAT, finite_or_none
from instances.partitioning.memory import find_no_fit
from instances.partitioning.partition import Partition
from instances.partitioning.partition_file import partition_document
from instances.partitioning.serving import ServingInstance
from instances.partitioning.stated import question_document
from instances.partitioning.stated_kinds import KINDS_CERTIFICATE, question_of_kinds_document
from instances.placement.placement import Placement, placement_document
from instances.placement.problem import PlacementInstance
from instances.placement.problem import question_document as placement_question
from instances.planning import Iteration, TrainingInstance
from instances.planning.grid.plan import GridPlan, grid_document
from instances.planning.grid.problem import GridInstance
from instances.planning.plan_files import operations_document, plan_document, timeline_document
from instances.planning.stated import question_document as plan_question
from instances.runtimes.serving import serving_document
from instances.runtimes.serving_front import Front
from mtpp.versions import package_version

# Said of an answer of which another run may give another one.
_CLOCKED = "not for sure, as there was a time limit; without one the same seed gives the same answer"


def partition_certificate(answers: Sequence[Result]) -> dict[str, Any]:
    """The answers to one question of partitioning as a certificate; of a search without any bound its partition.

    Raises
    ------
    InputError
        If there is nothing to write, or as `certificate_document`.
    """
    best = combine(*answers)
    if best.bound is not None or best.impossible is not None:
        return certificate_document(answers)
    if best.partition is None:
        raise InputError(f"{best.instance.label}: {answers[0].method} found nothing to write.")
    return partition_answer(best)


def certificate_document(answers: Sequence[Result]) -> dict[str, Any]:
    """The answers to one question of partitioning as the JSON document of a certificate.

    Raises
    ------
    InputError
        If a bound comes from a method or a solver that readers of the certificate do not know.
    """
    best = combine(*answers)
    if not best.instance.is_alike:
        return _certificate_of_kinds(answers)
    document = {
        "format": CERTIFICATE_FORMAT,
        "instance": question_document(best.instance),
        "partition": None if best.partition is None else partition_document(best.partition),
        "bottleneck": best.cost,
        **_claims([] if best.impossible is not None else answers, PARTITIONING),
        **({} if best.impossible is None else {"impossible": _no_answer(best)}),
        "version": package_version() or "",
    }
    return _with_provenance(document, best)


def _no_answer(found: Result) -> dict[str, Any]:
    """Why there is no partition, with what proves it again; without a proof where a solver says it."""
    known = find_no_fit(found.instance)
    proof = None if known is None else known.proof
    sources = [part for part in found.parts or (found,) if part.impossible is not None]
    by_ideals = found.instance.fit or not found.instance.is_alike
    if proof is None and by_ideals and any(part.solver is None for part in sources):
        proof = {"kind": "ideals"}
    return {"reason": found.impossible, "proof": proof}


def _certificate_of_kinds(answers: Sequence[Result]) -> dict[str, Any]:
    """The answers to one question over kinds of devices as the JSON document of their certificate."""
    best = combine(*answers)
    document = {
        "format": KINDS_CERTIFICATE,
        "instance": question_of_kinds_document(best.instance),
        "partition": None if best.partition is None else _partition_of_kinds(best.partition),
        "bottleneck": best.cost,
        **_claims([] if best.impossible is not None else answers, KINDS),
        **({} if best.impossible is None else {"impossible": _no_answer(best)}),
    }
    return _with_provenance(document, best)


def _partition_of_kinds(partition: Partition) -> dict[str, Any]:
    names = partition.instance.graph.names
    stages: list[list[str]] = [[] for _ in range(partition.instance.k)]
    for v in partition.order.tolist():
        stages[partition.block[v]].append(names[v])
    return {
        "block": partition.block.tolist(),
        "order": partition.order.tolist(),
        "kind": partition.kinds_by_name,
        "bottleneck": partition.bottleneck,
        "stages": stages,
    }


def flow_certificate(answers: Sequence[Result[FlowInstance, FlowAnswer]]) -> dict[str, Any]:
    """The answers to one question of flow as the JSON document of their certificate."""
    best = combine(*answers)
    document = {
        "format": FLOW_CERTIFICATE,
        "instance": flow_question_document(best.instance),
        "intervals": None if best.answer is None else best.answer.document(),
        "flow": None if best.answer is None else best.answer.flow,
        "time": best.cost,
        **_claims(answers, FLOW),
    }
    return _with_provenance(document, best)


def partition_answer(answer: Result) -> dict[str, Any]:
    """Document of a search's partition, or a certificate with the reason why none exists."""
    if answer.partition is not None:
        if not answer.instance.is_alike:
            return _certificate_of_kinds([answer])
        return partition_document(answer.partition) | ({"notes": list(answer.notes)} if answer.notes else {})
    if answer.impossible is not None:
        return certificate_document([answer])
    return {"instance": answer.instance.label, "partition": None, "impossible": None}


def plan_certificate(answers: Sequence[Result[TrainingInstance, Iteration]]) -> dict[str, Any]:
    """The answers to one question of planning as the JSON document of a plan file with question, time and bounds.

    On shared network cards the file holds all times, and the planner, seed and time limit that the plan comes from.

    Raises
    ------
    InputError
        If no answer is a single pipeline, and as `certificate_document`.
    """
    best = combine(*answers)
    plan = None if best.answer is None else best.answer.plan
    if best.answer is None or plan is None:
        raise InputError(f"{best.instance.label}: several pipelines side by side are no plan; use another planner.")
    (schedule,) = best.answer.schedules
    question = {"instance": plan_question(best.instance), "time": best.cost, **_claims(answers, PLANNING)}
    if best.instance.network is None:
        document = {**plan_document(plan), **question, "operations": operations_document(schedule)}
    else:
        found = answers[0]
        provenance = {"planner": found.method, "seed": 0, "time_limit": None, "version": package_version() or ""}
        document = {**timeline_document(schedule), **question, **provenance, **found.provenance}
    return _with_provenance(document, best)


def placement_certificate(answers: Sequence[Result[PlacementInstance, Placement]]) -> dict[str, Any]:
    """The answers to one question of placement as the JSON document of a placement file with question and bounds.

    Raises
    ------
    InputError
        If there is no placement, and as `certificate_document`.
    """
    best = combine(*answers)
    if best.answer is None:
        raise InputError(f"{best.instance.label}: there is no placement to write.")
    document = {
        **placement_document(best.answer),
        "instance": placement_question(best.instance),
        "sequence": list(best.answer.timeline.sequence),
        **_claims(answers, PLACEMENT),
    }
    return _with_provenance(document, best)


def grid_certificate(answers: Sequence[Result[GridInstance, GridPlan]]) -> dict[str, Any]:
    """The answers to one question of training in a grid as the JSON document of a plan file."""
    best = combine(*answers)
    assert best.answer is not None
    origin = {"version": package_version() or "", **answers[0].provenance}
    document = {**grid_document(best.answer), **_claims(answers, PLANNING), **origin}
    return _with_provenance(document, best)


def serving_certificate(answers: Sequence[Result[ServingInstance, Front]]) -> dict[str, Any]:
    """The front of a question of serving as the JSON document of its file; older questions have no provenance.

    Raises
    ------
    InputError
        If there is no cut.
    """
    (result,) = answers
    front = result.answer
    if front is None:
        raise InputError(f"{result.instance.label}: {result.impossible}")
    more = {"answer": front.points.index(front.chosen), "runtime": front.runtime, "words": front.settings}
    document = serving_document(result.instance, front.points) | more
    return document if result.instance.source is None else _with_provenance(document, result)


def bound_document(answer: Result[Any, Any], problem: str = PARTITIONING) -> dict[str, Any]:
    """The bound of an answer, with what a check of it needs."""
    assert answer.bound is not None
    solver, _, version = (answer.solver or "").partition(" ")
    return {
        "method": answer.bound.method,
        "value": answer.bound.value,
        "parameters": dict(answer.bound.witness),
        "solver": solver or None,
        "version": version or None,
        "seconds": answer.spent,
        "recheck": recheck(answer.bound.method, problem, answer.bound.witness) or "trusted",
    }


def _with_provenance(document: dict[str, Any], best: Result[Any, Any]) -> dict[str, Any]:
    """The document in its newer format, with what a reader has to know beside the answer."""
    written = with_provenance(document, best.instance.question_hash)
    written["provenance"] |= {"basis": best.basis} if best.basis else {}
    written["provenance"] |= {"notes": list(best.notes)} if best.notes else {}
    written["provenance"] |= {"repeatable": _CLOCKED} if best.clocked else {}
    return written


def _claims(answers: Sequence[Result[Any, Any]], problem: str) -> dict[str, Any]:
    """The best bound, the ratio and all bounds, by the same names for all problems."""
    best = combine(*answers) if answers else None
    for answer in answers:
        _check_names(answer, problem)
    return {
        "bound": None if best is None or best.bound is None else best.bound.value,
        "ratio": None if best is None or best.ratio is None else finite_or_none(best.ratio),
        "bounds": [bound_document(answer, problem) for answer in answers if answer.bound is not None],
    }


def _check_names(answer: Result[Any, Any], problem: str) -> None:
    """Refuse methods and solvers that a reader of the certificate does not know by name."""
    solver = (answer.solver or "").partition(" ")[0]
    if answer.bound is None:
        return
    if recheck(answer.bound.method, problem) is None:
        raise InputError(f"A certificate cannot hold a bound of {answer.bound.method!r}; name a model of the registry.")
    if solver and solver not in SOLVER_NAMES:
        raise InputError(f"A certificate cannot hold a bound of {solver!r}; solvers are {', '.join(SOLVER_NAMES)}.")
