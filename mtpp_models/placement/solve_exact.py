"""Solve the exact model of placements with any MIP solver, and keep only what is proved."""

from __future__ import annotations

from instances import Bound, InputError, Result
from instances.deadline import Stopwatch
from instances.placement.ordered import OrderedPlacement
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from instances.results import PROOF_TOLERANCE
from mtpp_models.placement.colocation import share_devices
from mtpp_models.placement.exact import exact, exact_placement, start_exact
from mtpp_models.placement.heads import heads_of
from mtpp_models.placement.probing import probe_sharing
from mtpp_models.placement.scaled_placement import ScaledPlacement
from mtpp_models.solvers.interface import Controls, SolverFaultError, SolverOutcome, Termination
from mtpp_models.solvers.registry import find_solver

__all__ = ["EXACT", "MOST_NODES", "prove_exact"]

EXACT = "place-exact"

#: With more nodes the model is too large to say more than other bounds do.
MOST_NODES = 40

_ROUNDING = 1e-9
# Part of the time for trials.
_PROBING = 0.3


def prove_exact(start: OrderedPlacement, controls: Controls) -> Result[PlacementInstance, Placement]:
    """A bound, and the better of `start` and what the solver finds; one that fits is better than one that does not.

    Raises
    ------
    InputError
        If the graph has more than 40 nodes.
    SolverNotAvailableError
        If the solver cannot run here.
    SolverFaultError
        If the solver fails, or states what the placements contradict.
    """
    instance, watch = start.instance, Stopwatch()
    if instance.graph.n > MOST_NODES:
        raise InputError(
            f"{EXACT} takes graphs of at most {MOST_NODES} nodes, this one has {instance.graph.n}; use place-cp, or "
            "colocation, which needs no solver."
        )
    driver = find_solver(controls.options.solver)
    shared = share_devices(heads_of(instance), start.step_time, controls.deadline)
    data = ScaledPlacement(start, probe_sharing(shared, controls.deadline.share(_PROBING)))
    model = exact(data)
    start_exact(model, data)
    built = watch.passed
    stopped = controls.deadline.interrupted.is_set()
    outcome = SolverOutcome(Termination.STOPPED) if stopped else driver.solve(model, controls)
    if outcome.termination is Termination.INFEASIBLE:
        raise SolverFaultError(driver.name, "says that there is no placement, against one that is known")
    found = start if outcome.objective is None else exact_placement(model, data)
    best = min((start, found), key=lambda placement: (not placement.fits, placement.step_time))
    stated = 0.0 if outcome.bound is None else outcome.bound - driver.margin * max(1.0, abs(outcome.bound))
    proved, least = max(0.0, stated) * data.unit, min(start.step_time, found.step_time)
    if proved > least * (1 + _ROUNDING):
        raise SolverFaultError(driver.name, f"states the bound {proved:.6g} against a step time of {least:.6g}")
    closed = outcome.termination is Termination.OPTIMAL and proved >= best.step_time * (1 - PROOF_TOLERANCE)
    return Result(
        method=EXACT,
        instance=instance,
        answer=best,
        bound=Bound(proved, EXACT, closed),
        seconds=watch.seconds(build=built, solve=watch.passed - built),
        solver=f"{driver.name} {driver.version()}",
        log=outcome.log,
        interrupted=controls.deadline.interrupted.is_set(),
    )
