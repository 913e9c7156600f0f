"""Certification of a placement: bounds that need no solver, then exact models, while a gap is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from instances import Result, combine
from instances.deadline import Deadline
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from instances.system.interrupts import catch_interrupt
from mtpp_models import SolveOptions, SolverFaultError, SolverNotAvailableError
from mtpp_models.placement.registry import bound_placement

__all__ = ["PLACEMENT_STEPS", "PlacementStep", "prove_placement"]

_SHORTEST = 0.05


@dataclass(frozen=True)
class PlacementStep:
    """One bound, and how many nodes it is worth its time for."""

    model: str  # a name of `PLACEMENT_MODELS`
    up_to: float  # nodes
    share: float  # of the time that is left
    asked: bool = True  # whether a solver that is missing is worth a message: the caller has named it


#: In order of effort. With more nodes the exact model is hopeless for MIP solvers; CP-SAT takes some hundred.
PLACEMENT_STEPS = (
    PlacementStep("colocation", float("inf"), 0.5),
    PlacementStep("place-exact", 24, 0.5),
    PlacementStep("place-cp", 500, 1.0, asked=False),
)


def prove_placement(
    known: Result[PlacementInstance, Placement],
    options: SolveOptions,
    on_step: Callable[[str, Result[PlacementInstance, Placement]], None],
    on_fault: Callable[[SolverNotAvailableError], None],
) -> list[Result[PlacementInstance, Placement]]:
    """Prove how good a placement is, and perhaps find a better one.

    Parameters
    ----------
    known : Result
        With a placement.
    options : SolveOptions
        The time limit is for all bounds together.
    on_step : callable
        Receives each model and what is known before it runs.
    on_fault : callable
        Receives the `SolverNotAvailableError` of each solver that is missing or fails; the others go on without it.

    Returns
    -------
    list of Result
        The answers to combine, `known` first. Ctrl-C ends the work and returns what is known.
    """
    answers = [known]
    with catch_interrupt() as interrupted:
        deadline = Deadline.after(options.time_limit, interrupted)
        for step in PLACEMENT_STEPS:
            best = combine(*answers)
            if best.answer is None or best.proved or known.instance.graph.n > step.up_to:
                continue
            if deadline.passed or deadline.left < _SHORTEST:
                break
            on_step(step.model, best)
            told = replace(options, time_limit=deadline.share(step.share).time_limit)
            try:
                answers.append(bound_placement(_best_answer(answers), step.model, told))
            except SolverNotAvailableError as fault:
                if step.asked or isinstance(fault, SolverFaultError):
                    on_fault(fault)
            if answers[-1].interrupted:
                interrupted.set()
    return [*answers[:-1], replace(answers[-1], interrupted=interrupted.is_set())]


def _best_answer(answers: list[Result[PlacementInstance, Placement]]) -> Placement:
    """The shortest, those that fit first."""
    found = [answer.answer for answer in answers if answer.answer is not None]
    return min(found, key=lambda placement: (not placement.fits, placement.step_time))
