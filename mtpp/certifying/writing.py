"""Bounds with all data that a check needs, and reasons why there is no answer, as members of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from instances.certificates import KINDS, PARTITION, SOLVER_NAMES, bound_members, recheck
from instances.errors import InputError
from instances.partitioning.memory import find_infeasibility
from instances.records import written
from instances.results import Result

if TYPE_CHECKING:
    from instances.flow.answer import FlowAnswer
    from instances.planning import Iteration


def bound_document(answer: Result[Any, Any]) -> dict[str, Any]:
    """The bound of an answer, with what a check of it needs."""
    bound = answer.bound
    assert bound is not None
    solver, _, version = (answer.solver or "").partition(" ")
    origin = {"solver": solver or None, "version": version or None, "seconds": answer.spent}
    return bound_members(bound.method, bound.value, bound.witness, _methods_of(answer), **origin)


def check_names(answer: Result[Any, Any]) -> None:
    """Refuse a bound of a method or a solver that readers of files do not know, by an `InputError`."""
    assert answer.bound is not None
    solver = (answer.solver or "").partition(" ")[0]
    if recheck(answer.bound.method, _methods_of(answer)) is None:
        raise InputError(f"A certificate cannot hold a bound of {answer.bound.method!r}; name a model of the registry.")
    if solver and solver not in SOLVER_NAMES:
        raise InputError(f"A certificate cannot hold a bound of {solver!r}; solvers are {', '.join(SOLVER_NAMES)}.")


def _methods_of(answer: Result[Any, Any]) -> str:
    """Name of the problem whose bound methods apply to the answer's question."""
    question = answer.instance
    return KINDS if question.problem == PARTITION and not question.is_alike else str(question.problem)


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
