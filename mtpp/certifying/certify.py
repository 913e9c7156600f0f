"""``certify``: searches and bounds together, also from bounds for other numbers of blocks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from instances import Bound, Instance, Partition, Result, combine
from instances.deadline import Deadline
from instances.system.processes import catch_interrupt
from mtpp.certificates.writing import bound_document
from mtpp.certifying.candidates import methods_for
from mtpp.certifying.loop import Loop, Method, Turn, best_of_each_method, ignore
from mtpp.certifying.two_processes import can_split, certify_in_two_processes
from mtpp_models import Progress, SolveOptions, SolverNotAvailableError
from mtpp_models.simple import as_answer
from mtpp_models.solvers.registry import find_solver

# Bounds and partitions for k that follow from other k.


#: Name of the method in results and files.
OTHER_K = "carried"


def from_other_k(known: Iterable[Result], instance: Instance) -> list[Result]:
    r"""Partitions and bounds of the same graph and platform with other k.

    A partition into fewer blocks is one into more, some of them empty. Merging each :math:`\lceil k / j \rceil`
    consecutive blocks of k leaves at most j, none of which costs more than its blocks together while the memory is
    infinite, so :math:`\lceil k / j \rceil \cdot \mathrm{OPT}_k \ge \mathrm{OPT}_j`. For j >= k this says that more
    blocks never hurt, and holds with any memory, also where it is a hard limit: what is impossible for j blocks is
    impossible for fewer.

    Groups of nodes that share a block change none of that. Windows and least numbers do: they name blocks, and forbid
    empty ones. Then no bound is carried, and a partition only if it obeys.

    There is one result for each known answer from which something follows; answers to other questions do no harm.
    """
    carried = []
    for result in known:
        j, k = result.instance.k, instance.k
        if not instance.is_alike or not _same_question(result.instance, instance):
            continue
        partition = None
        if result.partition is not None and j <= k:
            partition = as_answer(instance, result.partition.under(instance.relaxed()))
        bound = impossible = None
        if not (instance.constraints.windows or instance.constraints.at_least):
            bound, impossible = _bound(result, k), result.impossible if j >= k else None
        if partition is not None or bound is not None or impossible is not None:
            carried.append(Result(OTHER_K, instance, partition, bound, solver=result.solver, impossible=impossible))
    return carried


def _same_question(instance: Instance, other: Instance) -> bool:
    """Whether they differ in the number of blocks alone; with another one, constraints may contradict it."""
    free = instance.without_constraints().with_k(other.k)
    return instance.constraints == other.constraints and free.key == other.without_constraints().key


def _bound(result: Result, k: int) -> Bound | None:
    j = result.instance.k
    if result.bound is None or (j < k and result.instance.limits_memory):
        return None
    return Bound(result.bound.value / -(-k // j), OTHER_K, False, _witness(result))


def _witness(result: Result) -> dict[str, Any]:
    """The bound for the other number of blocks, with all that a check of it needs."""
    assert result.bound is not None
    return {"from_k": result.instance.k, "value": result.bound.value, "proof": bound_document(result)}


# Certification of an instance under one time budget: search, then prove, as long as a gap is left.


# Default time limit of `certify`.
_A_MINUTE = SolveOptions(time_limit=60.0)


def certify(
    instance: Instance,
    options: SolveOptions = _A_MINUTE,
    *,
    start: Partition | None = None,
    known: Sequence[Result] = (),
    methods: Sequence[Method[Instance, Partition]] = (),
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
    methods : sequence of Method
        Further ones that take turns, such as `mtpp.runs.own_methods.turns_of` makes.
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
        plan = methods_for(instance, options.seed, deadline, methods)
        loop.steps(plan.steps)
        # Which of two processes is the first is a matter of the clock.
        if options.threads > 1 and options.time_limit is not None and plan.short and can_split():
            certify_in_two_processes(loop, plan)
        else:
            loop.steps(plan.opening)
            loop.short_turns(plan.short)
            loop.turns(plan.turns)
        return loop.result()
