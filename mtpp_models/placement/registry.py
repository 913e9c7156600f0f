"""All bounds and models of placements by name, as used on the command line and in certificates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from instances import Bound, Result
from instances.deadline import Deadline, Stopwatch
from instances.errors import find
from instances.placement.placement import OrderedPlacement, Placement
from instances.placement.problem import PlacementInstance
from instances.system.processes import catch_interrupt
from mtpp_models.placement.bounds import (
    COLOCATION,
    ENERGETIC,
    HEADS,
    MOST_NODES,
    WINDOWS,
    colocation_bound,
    energetic_bound,
    heads_bound,
    heads_of,
    window_bound,
)
from mtpp_models.placement.cp import CP, prove_cp
from mtpp_models.placement.exact import EXACT, prove_exact
from mtpp_models.solvers.interface import Controls, SolveOptions

#: A placement with a bound.
BoundedPlacement = Result[PlacementInstance, Placement]

_THIS = "this project, mtpp_models/placement"


@dataclass(frozen=True)
class PlacementModel:
    """A method for lower bounds on the step time of placements, whatever the order of nodes."""

    name: str  # name in certificates
    summary: str  # one line
    reference: str  # where it comes from
    # From the best placement known, which it may improve; with a bound that no placement goes below.
    prove: Callable[[OrderedPlacement, Controls], BoundedPlacement]


def _without_solver(last: str) -> Callable[[OrderedPlacement, Controls], BoundedPlacement]:
    """A method that proves the largest of the bounds without a solver, up to the one called `last`."""

    def prove(start: OrderedPlacement, controls: Controls) -> BoundedPlacement:
        watch, instance = Stopwatch(), start.instance
        if instance.graph.n > MOST_NODES:
            return Result(last, instance, start, Bound(instance.lower_bound, "simple", optimal=False))
        heads = heads_of(instance)
        best = heads_bound(heads)
        steps: tuple[tuple[str, Callable[[], Bound]], ...] = (
            (WINDOWS, lambda: window_bound(heads)),
            (ENERGETIC, lambda: energetic_bound(heads, best, start.step_time, controls.deadline)),
            (COLOCATION, lambda: colocation_bound(heads, best, start.step_time, controls.deadline)),
        )
        for name, step in steps if last != HEADS else ():
            best = max(best, step(), key=lambda bound: bound.value)
            if name == last:
                break
        return Result(last, instance, start, best, watch.seconds(solve=watch.passed))

    return prove


_ALL = (
    PlacementModel(
        HEADS, "placement: when nodes can start, and what is left after them", _THIS, _without_solver(HEADS)
    ),
    PlacementModel(
        WINDOWS, "placement: nodes that start late and have much behind them", _THIS, _without_solver(WINDOWS)
    ),
    PlacementModel(
        ENERGETIC, "placement: what must be done in an interval", "Erschler et al. 1991", _without_solver(ENERGETIC)
    ),
    PlacementModel(
        COLOCATION, "placement: nodes that must share a device in a short step", _THIS, _without_solver(COLOCATION)
    ),
    PlacementModel(EXACT, "placement: exact model with orders, for at most 40 nodes", _THIS, prove_exact),
    PlacementModel(CP, "placement: CP-SAT, where OR-Tools is installed (extra place-cp)", _THIS, prove_cp),
)

#: Name to model, in order of effort.
PLACEMENT_MODELS = {model.name: model for model in _ALL}


def bound_placement(
    start: Placement, model: str = COLOCATION, options: SolveOptions = SolveOptions()
) -> BoundedPlacement:
    """Prove a lower bound on the step time, in any order; perhaps find a better placement.

    Parameters
    ----------
    start : Placement
        The best placement known.
    model : str
        A name of `PLACEMENT_MODELS`; those that need no solver include the ones before them.

    Returns
    -------
    Result
        The bound, with the better of the start and the model's placement. Ctrl-C returns what is proved so far.

    Raises
    ------
    InputError
        If the model is unknown, or the graph too large for it.
    SolverNotAvailableError
        If the solver cannot run here.
    SolverFaultError
        If the solver fails, or its bound is refuted by a placement.
    """
    chosen = find(PLACEMENT_MODELS, model, "model of placements")
    with catch_interrupt() as interrupted:
        deadline = Deadline.after(options.time_limit, interrupted)
        ordered = start if isinstance(start, OrderedPlacement) else OrderedPlacement.of(start)
        result = chosen.prove(ordered, Controls(options, deadline))
        answer = start if result.answer is ordered else result.answer
        return replace(result, answer=answer, interrupted=interrupted.is_set())
