"""From an instance to a certificate under one time budget: search, then prove, as long as a gap is left."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from experiments.certificates.other_k import from_other_k
from heuristics import HEURISTICS, Limits, search
from instances import Instance, Partition, Result, combine
from instances.deadline import Deadline, Stopwatch
from instances.interrupts import catch_interrupt
from mtpp_models import Progress, SolveOptions, SolverFaultError, SolverNotAvailableError, solve
from mtpp_models.bounds.priced.priced import PRICED
from mtpp_models.formulations.formulation import Formulation
from mtpp_models.registry import find_model
from mtpp_models.solvers.registry import find_solver

__all__ = ["STEPS", "Step", "certify", "gather", "reaches", "rules_out"]

_SHORTEST, _ROUNDING = 0.05, 1e-9

# What `certify` takes if nobody says how long.
_A_MINUTE = SolveOptions(time_limit=60.0)
_FEW_BLOCKS = 8


@dataclass(frozen=True)
class Step:
    """One method and the part of the time still left that it may use."""

    method: str  # a heuristic or a model
    share: float  # between 0 and 1; a method of share 0 takes no time worth counting and always runs
    above: int = 0  # runs only where k is larger
    up_to: int = sys.maxsize  # runs only where k is at most that


#: In order of effort; each runs only while a gap is left. Superblocks and prices help where there are more blocks than
#: two; of many blocks the exact model proves next to nothing before time is out.
STEPS = (
    Step("simple", 0.0),
    Step("kahn", 0.0),
    Step("pinned", 0.1),
    Step("local-search", 0.1),
    Step("pinned", 0.2),
    Step("pigeonhole", 0.1),
    Step("ideals", 0.7),
    Step("portfolio", 0.1),
    Step("coarse-2+all", 0.2, above=2),
    Step("priced", 0.7, above=2, up_to=_FEW_BLOCKS),
    Step("exact+all", 1.0, up_to=_FEW_BLOCKS),
    Step("priced", 1.0, above=_FEW_BLOCKS),
)


def certify(
    instance: Instance,
    options: SolveOptions = _A_MINUTE,
    *,
    start: Partition | None = None,
    known: Sequence[Result] = (),
    on_progress: Callable[[Progress], None] | None = None,
    on_fault: Callable[[SolverNotAvailableError], None] | None = None,
) -> Result:
    """Find a good partition and prove how good it is.

    Parameters
    ----------
    instance : Instance
    options : SolveOptions
        The time limit, a minute by default, is for everything together.
    start : Partition, optional
        A partition known already.
    known : sequence of Result
        Answers for other k, from which something may follow for this one.
    on_progress : callable, optional
        Receives the method at work with the best bottleneck and bound so far.
    on_fault : callable, optional
        Receives each `SolverNotAvailableError` of a solver that fails at work; the other methods go on without it. By
        default that is a warning.

    Returns
    -------
    Result
        Always with a bound, or with the reason why nothing fits. Ctrl-C ends the work and returns what is known.

    Raises
    ------
    InputError
        If the solver is unknown.
    SolverNotAvailableError
        If the solver cannot run here.

    Examples
    --------
    >>> from instances import ComputationGraph, Platform
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[1, 1, 2], output_bytes=[1, 0, 0])
    >>> certify(Instance(graph, Platform(k=2, bandwidth=1))).ratio
    1.0
    """
    return combine(*gather(instance, options, start=start, known=known, on_progress=on_progress, on_fault=on_fault))


def gather(
    instance: Instance,
    options: SolveOptions = _A_MINUTE,
    *,
    start: Partition | None = None,
    known: Sequence[Result] = (),
    on_progress: Callable[[Progress], None] | None = None,
    on_fault: Callable[[SolverNotAvailableError], None] | None = None,
    enough: float | None = None,
) -> list[Result]:
    """The answers that `certify` combines, in the order in which they were found; of each bound the best.

    The work ends early once a partition has a bottleneck of at most `enough`, or a bound rules that out.
    """
    find_solver(options.solver)  # before the searches, which may take a while
    watch = Stopwatch()
    rng = np.random.default_rng(options.seed)
    answers = [*from_other_k(known, instance), *([] if start is None else [Result("start", instance, start)])]
    on_fault, sound = on_fault or (lambda fault: warnings.warn(str(fault), RuntimeWarning, stacklevel=3)), True
    with catch_interrupt() as interrupted:
        deadline = Deadline.after(options.time_limit, interrupted)
        for step in (step for step in STEPS if step.above < instance.k <= step.up_to):
            if not sound and _needs_solver(step.method):
                continue
            best = combine(*answers) if answers else Result("nothing", instance)
            if best.impossible is not None:
                break
            no_time = interrupted.is_set() or best.interrupted or deadline.left < _SHORTEST
            decided = enough is not None and (reaches(best, enough) or rules_out(best, enough))
            if decided or _close_enough(best, options.gap) or (no_time and step.share > 0):
                break
            part = deadline.share(step.share) if step.share > 0 else Deadline(interrupted=interrupted)
            report = _reporter(step.method, best, watch, on_progress)
            report(None)
            if step.method in HEURISTICS:
                target = None if best.bound is None else best.bound.value
                answers.append(search(instance, step.method, rng, Limits(part, target=target)))
            else:
                try:
                    told = replace(options, time_limit=part.time_limit)
                    # What strengthens a model is a known partition.
                    model = step.method if best.partition is not None else step.method.partition("+")[0]
                    answers.append(solve(instance, model, told, start=best.partition, on_progress=report))
                except SolverNotAvailableError as fault:
                    sound = False
                    on_fault(fault)
            for lie in _drop_lies(answers):
                sound = False
                on_fault(lie)
    kept = _best_of_each_bound(answers)
    stopped = interrupted.is_set() or combine(*answers).interrupted
    return [*kept[:-1], replace(kept[-1], interrupted=stopped)]


def reaches(known: Result, enough: float) -> bool:
    """Whether a partition is known with a bottleneck of at most `enough`."""
    return known.partition is not None and known.partition.bottleneck <= enough


def rules_out(known: Result, enough: float) -> bool:
    """Whether it is proved that there is no such partition, rounding aside."""
    above = known.bound is not None and known.bound.value > enough * (1 + _ROUNDING)
    return known.impossible is not None or above


def _needs_solver(method: str) -> bool:
    return method not in HEURISTICS and isinstance(find_model(method), Formulation)


def _drop_lies(answers: list[Result]) -> list[SolverFaultError]:
    """Take away the bounds of solvers that a partition found later contradicts; one fault for each."""
    least = min((answer.partition.bottleneck for answer in answers if answer.partition is not None), default=math.inf)
    faults = []
    for number, answer in enumerate(answers):
        if answer.solver is not None and answer.bound is not None and answer.bound.value > least * (1 + _ROUNDING):
            claim = f"stated the bound {answer.bound.value:.6g} of {answer.method}, against a partition of {least:.6g}"
            faults.append(SolverFaultError(answer.solver, claim))
            answers[number] = replace(answer, bound=None)
    return faults


def _best_of_each_bound(answers: list[Result]) -> list[Result]:
    """Without the weaker answers of methods that ran more than once; their partitions came from elsewhere."""
    best: dict[str, Result] = {}
    for answer in answers:
        known = best.get(answer.method)
        if answer.bound is not None and (
            known is None or known.bound is None or answer.bound.value > known.bound.value
        ):
            best[answer.method] = answer
    return [answer for answer in answers if answer.bound is None or best[answer.method] is answer]


def _close_enough(known: Result, gap: float) -> bool:
    return known.proved or (known.gap is not None and known.gap <= gap)


def _reporter(
    method: str, known: Result, watch: Stopwatch, on_progress: Callable[[Progress], None] | None
) -> Callable[[Progress | None], None]:
    """Put what a solver says into the frame of what is known."""
    bottleneck = None if known.partition is None else known.partition.bottleneck
    proved = None if known.bound is None else known.bound.value
    # What other models reach while they run bounds something else.
    telling = method not in HEURISTICS and (find_model(method).exact or method == PRICED)

    def report(moment: Progress | None) -> None:
        nonlocal bottleneck, proved
        if moment is not None and telling:
            bottleneck = min((x for x in (bottleneck, moment.incumbent) if x is not None), default=None)
            proved = max((x for x in (proved, moment.bound) if x is not None), default=None)
        if bottleneck is not None and proved is not None:
            proved = min(proved, bottleneck)  # that of a model which holds only below the bottleneck may be higher
        if on_progress is not None:
            nodes = None if moment is None else moment.nodes
            on_progress(Progress(method, watch.passed, bottleneck, proved, nodes))

    return report
