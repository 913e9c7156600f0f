"""Partitions and their bounds: `partition`, `bound`, `relaxation`, `solve`, `certify`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np

from heuristics import Limits, Method, search
from instances import FalseCertificateError, InputError, Instance, Partition, Result, combine
from instances.deadline import Deadline
from instances.errors import MethodError, WordError
from instances.system.processes import catch_interrupt
from mtpp.certifying.certify import certify as find_and_prove
from mtpp.certifying.least_k import LeastK, find_least
from mtpp.questions.files import as_partition
from mtpp.questions.partitioning import (
    Blocks,
    BoundWords,
    CertifyWords,
    PartitioningWords,
    PartitionWords,
    RelaxationWords,
    SolveWords,
    enough_for,
    instances_of,
)
from mtpp.questions.words import GraphLike, pick, solve_options, takes_words
from mtpp.text.numbers import Quantity
from mtpp_models import Formulation, Progress, Relaxation, SolveOptions, catalogue, simple
from mtpp_models import relaxation as solve_relaxation
from mtpp_models import solve as solve_model
from mtpp_models.registry import Model

if TYPE_CHECKING:
    import pandas as pd

    from mtpp.runs.user_methods import UserMethod

#: A heuristic: its name, itself, or a function.
Heuristic = str | Method[Instance, Partition] | Callable[..., Partition]


@overload
def partition(
    graph: GraphLike, k: int | None = None, method: Heuristic = "portfolio", **words: Unpack[PartitionWords]
) -> Result: ...
@overload
def partition(
    graph: GraphLike, k: Iterable[int] | str, method: Heuristic = "portfolio", **words: Unpack[PartitionWords]
) -> list[Result]: ...
@takes_words(PartitionWords)
def partition(
    graph: GraphLike, k: Blocks | None = None, method: Heuristic = "portfolio", **words: Unpack[PartitionWords]
) -> Result | list[Result]:
    """Search for a partition with a small bottleneck, as ``mtpp partition``.

    Parameters
    ----------
    graph : str, path, ComputationGraph, networkx.DiGraph or Instance
        As for `mtpp.load`; an instance is a whole question.
    k : int, or several
        Number of blocks.
    method : str or callable
        A name of `mtpp.HEURISTICS`, or a function of an instance, a `numpy.random.Generator` and `Limits` that returns
        a `Partition`, or where that is: "mine.py:NAME" or "package.module:NAME", which runs in a process of its own.
    bandwidth, memory, activation_buffer : float or str, optional
        Bytes per unit of work time, 25 GB/s by default, and bytes; texts such as "25GB/s" and "16GiB" as well.
    fit : bool
        Whether the memory is a hard limit.
    constraints : Constraints, mapping or file, optional
        Side constraints: a file of constraints, or a mapping with any of together, windows, uncut and at_least, as
        `Instance` takes them, and of devices of several kinds `on`, from nodes to the kinds that can run them.
    colour_classes : bool
        Whether nodes of a colour class of an MSR inference profile stay together.
    runtime : str, optional
        A name of ``mtpp list runtimes``; only cuts that it can express are answers.
    seed : int
    time_limit : float, optional
        Seconds for each k; by default the method's own number of tries.
    dims, level, training, reader, communication, cost, input_work, time_unit, peak_flops, memory_bandwidth
        As for `mtpp.load`.

    Returns
    -------
    Result, or a list of them for several k

    Raises
    ------
    InputError
        If the graph or an argument is refused.

    Examples
    --------
    >>> import mtpp
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0])
    >>> mtpp.partition(graph, k=2, bandwidth=1).partition.block.tolist()
    [0, 0, 1]
    """
    instances = instances_of(graph, k, pick(PartitioningWords, words))
    seed, limit = words["seed"], words["time_limit"]
    return _answers(instances, k, lambda instance, earlier: searched(instance, method, seed, limit))


def searched(instance: Instance, method: Heuristic, seed: int, time_limit: float | None) -> Result:
    """Result of a search by one method; Ctrl-C ends the search and keeps its best partition."""
    if isinstance(method, str) and (":" in method or method.endswith(".py")):
        from mtpp.runs.user_methods import UserMethod, as_user_method

        user_method = as_user_method(method)
        assert isinstance(user_method, UserMethod)
        if user_method.model is not None:
            raise InputError(f"{user_method.name} is a model, which proves bounds; a heuristic is a function.")
        return _by_another_process(instance, user_method, SolveOptions(time_limit=time_limit, seed=seed), None)
    with catch_interrupt() as interrupted:
        limits = Limits(Deadline.after(time_limit, interrupted))
        result = search(instance, method, np.random.default_rng(seed), limits)
        return replace(result, clocked=time_limit is not None)


def _by_another_process(
    instance: Instance, method: UserMethod, options: SolveOptions, start: Partition | None
) -> Result:
    """Run a method of a file or a module in a process of its own; an `InputError` if it fails."""
    from mtpp.runs.method_process import Task

    try:
        result = method.result(Task(instance, options, start), options.time_limit)
    except MethodError as error:
        raise InputError(f"{method.name}: {error}") from None
    return replace(result, clocked=options.time_limit is not None)


def over_simple(value: float, instance: Instance) -> float:
    """A cost over the bound *simple*; infinite if the bound is 0 and the cost is not."""
    floor = simple(instance)
    return value / floor if floor > 0 else 1.0 if value == 0 else math.inf


@overload
def bound(
    graph: GraphLike, k: int | None = None, model: str | Model = "exact", **words: Unpack[BoundWords]
) -> Result: ...
@overload
def bound(
    graph: GraphLike, k: Iterable[int] | str, model: str | Model = "exact", **words: Unpack[BoundWords]
) -> list[Result]: ...
@takes_words(BoundWords)
def bound(
    graph: GraphLike, k: Blocks | None = None, model: str | Model = "exact", **words: Unpack[BoundWords]
) -> Result | list[Result]:
    """Prove a lower bound on the bottleneck of every partition, as ``mtpp bound``.

    Parameters
    ----------
    graph, k
        The question, as for `partition`, with the same keyword arguments.
    model : str, Formulation or Algorithm
        A name of `mtpp.MODELS`; exact+all is strengthened, and needs a start. A model of your own, or where it is, as
        in "mine.py:NAME": its bound is stated, and makes nothing optimal.
    relaxation : bool
        Whether the linear relaxation is solved instead; its value, in the witness of the bound, may be less than that.
    solver : str
        A name of `mtpp.SOLVERS`.
    time_limit : float, optional
        Seconds for each k, 60 by default; None lets the model run to its end.
    gap : float
        Relative gap that is good enough.
    threads, seed : int
    solver_options : mapping, optional
        Options of the solver by its own names, passed on unread; those that bounds rest on are refused.
    log : path, optional
        Folder for what the solver prints, a file for each case of a model.
    start : Partition, Result or file, optional
        A partition to start from.

    Returns
    -------
    Result, or a list of them for several k
        Its partition is the better of the start and the solution of the exact model.

    Raises
    ------
    InputError
        If the graph or an argument is refused.
    SolverNotAvailableError
        If the solver cannot run here, or fails.

    Examples
    --------
    >>> import mtpp
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0])
    >>> round(mtpp.bound(graph, k=2, bandwidth=1).bound.value, 3)
    6.0
    """
    solve_options(words, words["time_limit"])  # refused before a graph is read
    instances = instances_of(graph, k, pick(PartitioningWords, words))

    def answer(instance: Instance, earlier: Sequence[Result]) -> Result:
        return bounded(instance, model, as_partition(words["start"], instance), words)

    return _answers(instances, k, answer)


@overload
def relaxation(
    graph: GraphLike, k: int | None = None, model: str | Formulation = "exact", **words: Unpack[RelaxationWords]
) -> Relaxation: ...
@overload
def relaxation(
    graph: GraphLike, k: Iterable[int] | str, model: str | Formulation = "exact", **words: Unpack[RelaxationWords]
) -> list[Relaxation]: ...
@takes_words(RelaxationWords)
def relaxation(
    graph: GraphLike, k: Blocks | None = None, model: str | Formulation = "exact", **words: Unpack[RelaxationWords]
) -> Relaxation | list[Relaxation]:
    """Solve the linear relaxation of a model as its file states it: value, a point and duals.

    ``mtpp bound --relaxation`` prints the value beside the bound that follows from it.

    Parameters
    ----------
    graph, k
        The question, as for `partition`, with the same keyword arguments.
    model : str
        A formulation of `mtpp.MODELS`; exact+all is strengthened, and needs a start.
    solver, time_limit, gap, threads, seed, solver_options, log, start
        As for `bound`.

    Returns
    -------
    Relaxation, or a list of them for several k

    Raises
    ------
    InputError, SolverNotAvailableError
        As `bound`, and if the model needs no solver.

    Examples
    --------
    >>> import mtpp
    >>> chain = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)], work=[8, 1, 1, 2], output_bytes=[1, 1, 1, 0])
    >>> relaxed, result = mtpp.relaxation(chain, k=3, bandwidth=1), mtpp.bound(chain, k=3, bandwidth=1)
    >>> round(relaxed.value, 3), round(result.bound.value, 3)
    (4.0, 9.0)
    """
    options = solve_options(words, words["time_limit"])
    instances = instances_of(graph, k, pick(PartitioningWords, words))
    answers = [
        solve_relaxation(instance, model, options, start=as_partition(words["start"], instance))
        for instance in instances
    ]
    return answers if isinstance(k, Iterable) else answers[0]


def catalogue_of(graph: GraphLike, k: int | None, words: RelaxationWords, *, stats: bool) -> pd.DataFrame:
    """Frame of the models for a question with their sizes, and with `stats` the bounds that each proves."""
    options = solve_options(words, words["time_limit"])
    (instance,) = instances_of(graph, k, pick(PartitioningWords, words))
    return catalogue(instance, start=as_partition(words["start"], instance), options=options if stats else None)


def bounded(
    instance: Instance,
    model: str | Model,
    start: Partition | None,
    words: BoundWords | SolveWords,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Result of one model, from keyword arguments that are already checked; the bound of a caller's model is stated."""
    from mtpp.runs.user_methods import as_user_model

    options, relaxation = solve_options(words, words["time_limit"]), bool(words.get("relaxation"))
    method = as_user_model(model)
    if method is not None and method.call is None and isinstance(model, str):
        if relaxation:
            raise WordError("relaxation", True, f"it is for models of this process; leave it out with {method.name}.")
        return _by_another_process(instance, method, options, start)
    try:
        result = solve_model(instance, model, options, start=start, relaxation=relaxation, on_progress=on_progress)
    except FalseCertificateError as error:
        if method is None:
            raise
        raise InputError(str(error).partition("; please report")[0] + ".") from None
    if method is not None:
        result = method.stating(result, None if result.bound is None else result.bound.value)
    return replace(result, clocked=options.time_limit is not None)


@overload
def solve(
    graph: GraphLike, k: int | None = None, model: str | Model = "exact", **words: Unpack[SolveWords]
) -> Result: ...
@overload
def solve(
    graph: GraphLike, k: Iterable[int] | str, model: str | Model = "exact", **words: Unpack[SolveWords]
) -> list[Result]: ...
@takes_words(SolveWords)
def solve(
    graph: GraphLike, k: Blocks | None = None, model: str | Model = "exact", **words: Unpack[SolveWords]
) -> Result | list[Result]:
    """Search for a partition, solve a model from there, and combine both answers.

    Parameters
    ----------
    graph, k
        The question, as for `partition`, with the same keyword arguments.
    model, solver, time_limit, gap, threads, seed, solver_options, log
        As for `bound`; the search before it takes the portfolio's own number of tries.

    Returns
    -------
    Result, or a list of them for several k
        The best partition with the bound of the model.

    Raises
    ------
    InputError, SolverNotAvailableError
        As `bound`.

    Examples
    --------
    >>> import mtpp
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0])
    >>> mtpp.solve(graph, k=2, bandwidth=1, model="exact+all").status.value
    'optimal'
    """
    solve_options(words, words["time_limit"])  # refused before a graph is read
    instances = instances_of(graph, k, pick(PartitioningWords, words))

    def answer(instance: Instance, earlier: Sequence[Result]) -> Result:
        result = searched(instance, "portfolio", words["seed"], None)
        return combine(result, bounded(instance, model, result.partition, words))

    return _answers(instances, k, answer)


@overload
def certify(graph: GraphLike, k: int | None = None, **words: Unpack[CertifyWords]) -> Result: ...
@overload
def certify(graph: GraphLike, k: Iterable[int] | str, **words: Unpack[CertifyWords]) -> list[Result]: ...
@takes_words(CertifyWords)
def certify(graph: GraphLike, k: Blocks | None = None, **words: Unpack[CertifyWords]) -> Result | list[Result]:
    """Find a good partition and prove how good it is, under one time budget, as ``mtpp certify``.

    Parameters
    ----------
    graph, k
        The question, as for `partition`, with the same keyword arguments. Bounds for one k are used for the next ones.
    solver, gap, threads, seed, solver_options, log, start
        As for `bound`.
    methods : str, callable, model or several, optional
        Searches and bounds of your own that take turns beside all others: objects, "mine.py:NAME" or
        "package.module:NAME". Their bounds are stated in the parts of the result; nothing else rests on them.
    time_limit : float, optional
        Seconds for each k, for searches and bounds together, 60 by default.

    Returns
    -------
    Result, or a list of them for several k
        Its `parts` hold the bounds of all methods, and `save` writes them all.

    Raises
    ------
    InputError, SolverNotAvailableError
        As `bound`; a solver that fails at work is a warning, and the other methods go on without it.

    Examples
    --------
    >>> import mtpp
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0])
    >>> [result.proved for result in mtpp.certify(graph, k=[1, 2, 3], bandwidth="1")]
    [True, True, True]
    """
    options, methods = solve_options(words, words["time_limit"]), turns_of(words["methods"])
    instances = instances_of(graph, k, pick(PartitioningWords, words))

    def answer(instance: Instance, earlier: Sequence[Result]) -> Result:
        start = as_partition(words["start"], instance)
        return find_and_prove(instance, options, start=start, earlier=earlier, methods=methods)

    return _answers(instances, k, answer)


def turns_of(methods: Any) -> list[Any]:
    """Methods of the caller in the form that `mtpp.certifying.certify.certify` takes."""
    if methods is None:
        return []
    from mtpp.api.comparison import methods_of
    from mtpp.runs import user_methods

    return user_methods.turns_of(methods_of(methods))


def _answers(
    instances: Sequence[Instance], k: Blocks | None, answer: Callable[[Instance, Sequence[Result]], Result]
) -> Result | list[Result]:
    """A result for each instance, a list if `k` is one; Ctrl-C ends the work after the current question."""
    results: list[Result] = []
    for instance in instances:
        results.append(answer(instance, results))
        if results[-1].interrupted:
            break
    return results if isinstance(k, Iterable) else results[0]


# The least number of blocks: `least_k`.


@takes_words(SolveWords)
def least_k(graph: GraphLike, throughput: Quantity | None = None, **words: Unpack[SolveWords]) -> LeastK:
    """Find the least number of blocks that fits, or reaches a throughput, as ``mtpp certify -k auto``.

    Parameters
    ----------
    graph
        The question, as for `partition`, with the same keyword arguments.
    throughput : float or str, optional
        Runs per unit of work time, or a text such as "250/s"; optional where the memory is a hard limit.
    solver, time_limit, gap, threads, seed, solver_options, log
        As for `certify`, the time limit for each k; where kinds of devices have prices, for all choices together.

    Returns
    -------
    LeastK
        Its `k`, the results `known` by k, the k that are `open`, and a `sentence`.

    Raises
    ------
    InputError, SolverNotAvailableError
        As `bound`, and if there is nothing to reach.

    Examples
    --------
    >>> import mtpp
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[0, 0, 0])
    >>> mtpp.least_k(graph, throughput=1 / 5, bandwidth=1).k
    2
    """
    options = solve_options(words, words["time_limit"])
    [question] = instances_of(graph, None, pick(PartitioningWords, words), is_open=True)
    return find_least(question, enough_for(question, throughput), options)
