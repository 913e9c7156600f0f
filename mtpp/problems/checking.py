"""Answers of all problems: read, written, checked and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from instances.certificates import Envelope, answer_document, has_bounds, refuse_earlier
from instances.deadline import Deadline
from instances.errors import InputError, word
from instances.json_files import ANSWER_FORMAT, Value
from instances.partitioning.memory import find_infeasibility
from instances.records import written
from instances.results import Result, bound_document, check_names, combine
from mtpp.problems.registry import OF_SOLVERS, PROBLEMS, Problem
from mtpp.questions.statements import StatementWords, other_question
from mtpp.questions.verifying import Comparisons, UserGraph, UserGraphWords, VerifyWords, without_graph
from mtpp.questions.words import chosen
from mtpp.verification.verdict import Limits, Verdict, unequal
from mtpp.versions import package_version

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from instances.flow.answer import FlowAnswer
    from instances.planning import Iteration

# Files, pictures and sentences of results of all problems.


# Said of an answer of which another run may give another one.
_CLOCKED = "not for sure, as there was a time limit; without one the same seed gives the same answer"


def problem_of(document: Value) -> Problem | None:
    """The problem that an answer file belongs to; None if the file has another format.

    Raises
    ------
    InputError
        If the file names no known problem.
    """
    refuse_earlier(document)
    fields = document.open_members(())
    if "format" not in fields or fields["format"].data != ANSWER_FORMAT:
        return None
    return PROBLEMS.named(document.open_members(("problem",))["problem"])


def read_result(document: Value) -> Result[Any, Any] | None:
    """The answer of a file with its question; None if the file holds no question.

    Raises
    ------
    InputError
        If the file is refused, or states a bound above the cost of its answer.
    """
    problem = problem_of(document)
    if problem is None:
        return None
    result: Result[Any, Any] = problem.read(document)
    return result.noted(*notes_of(document))


def notes_of(document: Value) -> Sequence[str]:
    """Notes of a file, such as the defaults of its question; they are not checked."""
    fields = document.open_members(())
    provenance = fields["provenance"].open_members(()) if "provenance" in fields else {}
    return provenance["notes"].texts() if "notes" in provenance else ()


def result_document(result: Result[Any, Any]) -> dict[str, Any]:
    """The JSON document of a result: its answer and all bounds that it combines.

    Raises
    ------
    InputError
        As `certificate_document`, and if the result has neither answer nor bound.
    """
    if result.answer is None and result.bound is None and result.impossible is None:
        raise InputError(f"{result.instance.label}: {result.method} found nothing to write.")
    return certificate_document(result.parts or (result,))


def certificate_document(answers: Sequence[Result[Any, Any]]) -> dict[str, Any]:
    """The JSON document of the answers to one question, with all data needed to check it.

    Raises
    ------
    InputError
        If a bound comes from a method or a solver that readers of the file do not know, or the problem has no files
        without an answer.
    """
    best = combine(*answers)
    problem = PROBLEMS.of(best.instance)
    impossible = None if best.answer is not None else problem.without(best)
    proofs = [answer for answer in answers if answer.bound is not None and impossible is None]
    proofs = proofs if has_bounds(problem.name) else []
    for proof in proofs:
        check_names(proof)
    bound = combine(*proofs).bound if proofs else None
    origin = {
        "method": best.method if answers[1:] else answers[0].method,
        "version": package_version() or "",
        **answers[0].provenance,
    }
    people = {"basis": best.basis, "notes": list(best.notes), "repeatable": _CLOCKED if best.clocked else ""}
    return answer_document(
        best.instance,
        None if best.answer is None else problem.state(best.answer),
        best.cost,
        bounds=[bound_document(proof) for proof in proofs],
        bound=None if bound is None else bound.value,
        ratio=best.ratio if proofs else None,
        impossible=impossible,
        provenance=origin | {name: text for name, text in people.items() if text},
    )


def state_plan(answer: Iteration) -> dict[str, Any]:
    """A plan as a member of a file; an `InputError` for several pipelines side by side."""
    from instances.planning.plan_files import plan_document

    if answer.plan is None:
        raise InputError(f"{answer.instance.label}: several pipelines side by side are no plan; use another planner.")
    (timeline,) = answer.schedules
    return plan_document(timeline)


def state_flow(answer: FlowAnswer) -> dict[str, Any]:
    """A flow as a member of a file."""
    from instances.flow.problem import FlowMembers, GroupMembers

    intervals = {name: (begin, end) for name, (begin, end) in answer.document().items()}
    groups = tuple(
        GroupMembers(
            turns.in_flight,
            turns.tick,
            {answer.instance.devices[i]: int(turns.sizes[i]) for i in turns.members.nonzero()[0].tolist()},
        )
        for turns in answer.turns
    )
    return written(FlowMembers(intervals, answer.flow, groups))


def without_partition(result: Result) -> dict[str, Any] | None:
    """JSON members: why there is no partition, with a proof if one is known; None if a partition may exist."""
    if result.impossible is None:
        return None
    infeasibility = find_infeasibility(result.instance)
    proof = None if infeasibility is None else infeasibility.proof
    sources = [part for part in result.parts or (result,) if part.impossible is not None]
    by_ideals = result.instance.fit or not result.instance.is_alike
    if proof is None and by_ideals and any(part.solver is None for part in sources):
        proof = {"kind": "ideals"}
    return {"reason": result.impossible, "proof": proof}


def bounds_alone(result: Result[Any, Any]) -> None:
    """Do nothing: files with bounds and without an answer are allowed."""


def needs_answer(result: Result[Any, Any]) -> NoReturn:
    """Refuse to write a file without an answer, by an `InputError`."""
    raise InputError(f"{result.instance.label}: {result.impossible or 'there is no answer to write.'}")


def result_figure(result: Result[Any, Any]) -> Figure:
    """The picture of a result that has an answer."""
    figure: Figure = PROBLEMS.of(result.instance).figure(result.answer, result.bound)
    return figure


# Check of files of all problems: with independent code, against what a caller states, and by running methods again.


# Seconds that are worth another run.
_SHORTEST = 0.05


def verify(document: Value, *, time_limit: float = 60.0) -> Verdict:
    """Check everything in a certificate, a plan, a placement, a flow or a serving front that can be checked.

    What a file states decides nothing about the effort: the limits are the caller's.

    Parameters
    ----------
    document : Value
        Document of a file, from `read_json`.
    time_limit : float
        Seconds for all bounds together, those that are not proved again by then are trusted; and for the cost of a plan
        or a placement.

    Raises
    ------
    InputError
        If the document has no such format, lacks its question, or the parameters of a bound are not of the kind that
        its method needs.
    OutOfTimeError
        If the time ends before the cost of a plan or a placement is known.
    """
    refuse_earlier(document)
    document.check_format(ANSWER_FORMAT)
    problem = PROBLEMS.named(document.open_members(("problem",))["problem"])
    verdict: Verdict = problem.verify(document, Limits(time_limit))
    stated, true = verdict.certificate.question_hash, verdict.certificate.true_hash
    if stated == true:
        return verdict
    fault = f"{unequal('question_hash', stated, true)}; if an earlier version wrote it, let its verb write it anew"
    return replace(verdict, faults=(*verdict.faults, fault))


def rerun(verdict: Verdict, *, time_limit: float) -> Verdict:
    """Run again the methods of trusted bounds that are above the proved ones.

    What is proved or false in the verdict of `verify` stays so; the rest becomes confirmed, not confirmed, or false.
    The time limit is seconds for all of them together, the best bound first.

    Raises
    ------
    KeyboardInterrupt
        At Ctrl-C.
    """
    problem = PROBLEMS.of(verdict.certificate)
    deadline, proved = Deadline.after(time_limit), verdict.proved_bound or 0
    checks, faults = list(verdict.checks), list(verdict.faults)
    for i in sorted(range(len(checks)), key=lambda i: -checks[i].claim.value):
        check = checks[i]
        if check.proved is not None or check.fault or check.claim.value <= proved:
            continue
        if deadline.left < _SHORTEST:
            checks[i] = check._replace(how=f"{check.how}; not confirmed, no time was left")
            continue
        again = problem.again.get(check.claim.method) or problem.again.get(OF_SOLVERS if check.claim.solver else "")
        checks[i] = check if again is None else again(verdict, check, deadline.left)
        if checks[i].fault:
            faults.append(f"{check.claim.place} ({check.claim.method}): {checks[i].fault}")
    return replace(verdict, checks=tuple(checks), faults=tuple(faults))


def differences(
    stated: Envelope, graph: UserGraph | None, words: VerifyWords
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the compared keyword arguments, and the differences between them and the question of a file.

    Parameters
    ----------
    stated : Envelope
    graph : UserGraph, optional
        The caller's graph, which the file has to be about.
    words : VerifyWords

    Raises
    ------
    InputError
        If a keyword argument is refused, or has no meaning for the problem of the file.
    """
    if graph is None and (read := chosen(UserGraphWords, words)):
        raise without_graph(read[0])
    problem = PROBLEMS.of(stated)
    statements = {name: value for name, value in words.items() if name in chosen(StatementWords, words)}
    statements.pop("question", None)
    compare: Comparisons = problem.compare(stated, statements, graph)
    compared, faults = [], list(compare.faults)
    if (question := words.get("question")) is not None:
        compared.append(word("question"))
        faults += [f"question: {fault}" for fault in [other_question(stated, question)] if fault is not None]
    for name in [*statements, *([] if graph is None else ["graph"])]:
        if name not in compare.words:
            raise InputError(
                f"{stated.file}: {word(name)} says nothing of {problem.article}; leave it out, or state its question "
                f"with {word('question')}."
            )
        compared.append(word(name))
        place = "question.graph" if name == "graph" else "question"
        faults += [f"{place}: {fault}" for fault in [compare.words[name]()] if fault is not None]
    return tuple(compared), tuple(dict.fromkeys(faults))
