"""Certification of a placement: bounds that need no solver, then exact models, while a gap is left."""

from __future__ import annotations

from collections.abc import Callable

from instances import Result
from instances.deadline import Deadline
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from instances.system.interrupts import catch_interrupt
from mtpp.certifying.loop import Loop, Method
from mtpp_models import Progress, SolveOptions, SolverNotAvailableError
from mtpp_models.placement.registry import bound_placement
from mtpp_models.solvers.interface import Controls

__all__ = ["PLACEMENT_STEPS", "placement_methods", "prove_placement"]

#: In order of effort: a name of `PLACEMENT_MODELS`, its part of the time that is left, and how many nodes it is worth
#: that for. With more the exact model is hopeless for MIP solvers; CP-SAT, which nobody has named, takes some hundred.
PLACEMENT_STEPS = (("colocation", 0.5, float("inf")), ("place-exact", 0.5, 24), ("place-cp", 1.0, 500))


def placement_methods(instance: PlacementInstance) -> list[Method[PlacementInstance, Placement]]:
    """The bounds that are worth their time, each from the shortest placement, those that fit first."""

    def method(model: str, share: float) -> Method[PlacementInstance, Placement]:
        def run(
            best: Result[PlacementInstance, Placement], controls: Controls
        ) -> Result[PlacementInstance, Placement] | None:
            found = [part.answer for part in best.parts if part.answer is not None]
            start = min(found, key=lambda placement: (not placement.fits, placement.step_time), default=None)
            return None if start is None else bound_placement(start, model, controls.options)

        return Method(model, run, share, optional=model == "place-cp")

    return [method(model, share) for model, share, most in PLACEMENT_STEPS if instance.graph.n <= most]


def prove_placement(
    known: Result[PlacementInstance, Placement],
    options: SolveOptions,
    on_progress: Callable[[Progress], None],
    on_fault: Callable[[SolverNotAvailableError], None],
) -> Result[PlacementInstance, Placement]:
    """Prove how good a placement is, and perhaps find a better one.

    Parameters
    ----------
    known : Result
        With a placement.
    options : SolveOptions
        The time limit is for all bounds together.
    on_progress : callable
        Receives the model at work with what is known.
    on_fault : callable
        Receives the `SolverNotAvailableError` of each solver that is missing or fails; the others go on without it.

    Returns
    -------
    Result
        The best placement and the best bound; its parts begin with `known`. Ctrl-C ends the work and returns what is
        known.
    """
    with catch_interrupt() as interrupted:
        deadline = Deadline.after(options.time_limit, interrupted)
        loop = Loop(known.instance, options, deadline, [known], on_progress=on_progress, on_fault=on_fault)
        loop.steps(placement_methods(known.instance))
        return loop.result()
