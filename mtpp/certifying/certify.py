"""Certification of an instance under one time budget: search, then prove, as long as a gap is left."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

from instances import Instance, Partition, Result, combine
from instances.deadline import Deadline
from instances.system.interrupts import catch_interrupt
from mtpp.certifying.candidates import methods_for
from mtpp.certifying.loop import Loop, Turn, best_of_each_method, ignore
from mtpp.certifying.other_k import from_other_k
from mtpp.certifying.two_processes import can_split, certify_in_two_processes
from mtpp_models import Progress, SolveOptions, SolverNotAvailableError
from mtpp_models.solvers.registry import find_solver

__all__ = ["certify"]

# Default time limit of `certify`.
_A_MINUTE = SolveOptions(time_limit=60.0)


def certify(
    instance: Instance,
    options: SolveOptions = _A_MINUTE,
    *,
    start: Partition | None = None,
    known: Sequence[Result] = (),
    on_progress: Callable[[Progress], None] | None = None,
    on_fault: Callable[[SolverNotAvailableError], None] | None = None,
    on_step: Callable[[Turn], None] | None = None,
    good_enough: float | None = None,
    on_begin: Callable[[Callable[[], Result | None]], None] | None = None,
) -> Result:
    """Find a good partition and prove how good it is.

    Parameters
    ----------
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
    on_step : callable, optional
        Receives a `Turn` behind each turn of a method.
    good_enough : float, optional
        A bottleneck: the work ends early once a partition has at most this one, or a bound rules that out.
    on_begin : callable, optional
        Receives a function that returns what is known whenever it is called, None as long as that is nothing.

    Returns
    -------
    Result
        Always with a bound, or with the reason why nothing fits. Its `parts` are the results in the order in which they
        were found, of each method its best bound. Ctrl-C ends the work and returns what is known.

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
    find_solver(options.solver)  # before the searches, which may take a while
    answers = [*from_other_k(known, instance), *([] if start is None else [Result("start", instance, start)])]
    on_fault = on_fault or (lambda fault: warnings.warn(str(fault), RuntimeWarning, stacklevel=3))
    if on_begin is not None:
        on_begin(lambda: combine(*best_of_each_method(answers)) if answers else None)
    with catch_interrupt() as interrupted:
        deadline = Deadline.after(options.time_limit, interrupted)
        loop = Loop(
            instance=instance,
            options=options,
            deadline=deadline,
            answers=answers,
            good_enough=good_enough,
            on_progress=on_progress or ignore,
            on_fault=on_fault,
            on_step=on_step or ignore,
        )
        methods = methods_for(instance, options.seed, deadline)
        loop.steps(methods.steps)
        # Which of two processes is the first is a matter of the clock.
        if options.threads > 1 and options.time_limit is not None and methods.short and can_split():
            certify_in_two_processes(loop, methods)
        else:
            loop.steps(methods.opening)
            loop.short_turns(methods.short)
            loop.turns(methods.turns)
        return loop.result()
