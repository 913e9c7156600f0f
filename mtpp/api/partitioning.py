"""Partitions and their bounds: `partition`, `bound`, `solve`, `certify`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from heuristics import Limits, search
from instances import ComputationGraph, InputError, Instance, Partition, Result, combine
from instances.deadline import Deadline
from instances.partitioning.partition_file import read_partition
from instances.system.interrupts import catch_interrupt
from mtpp.certifying.certify import certify as climb
from mtpp.questions.reading import Blocks, Quantity, Reading, Rules, instances_of
from mtpp_models import SolveOptions
from mtpp_models import solve as solve_model

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["as_partition", "bound", "certify", "partition", "solve"]


def partition(
    graph: str | Path | ComputationGraph | nx.DiGraph[Any] | Instance,
    k: Blocks | None = None,
    method: str = "portfolio",
    *,
    bandwidth: Quantity = None,
    memory: Quantity = None,
    activation_buffer: Quantity = None,
    fit: bool = False,
    constraints: Rules = None,
    seed: int = 0,
    time_limit: float | None = None,
    **reading: Unpack[Reading],
) -> Any:
    """Search for a partition with a small bottleneck, as ``mtpp partition``.

    Parameters
    ----------
    graph : str, path, ComputationGraph, networkx.DiGraph or Instance
        As for `mtpp.load`; an instance is a whole question.
    k : int, or several
        Number of blocks.
    method : str
        A name of `mtpp.HEURISTICS`.
    bandwidth, memory, activation_buffer : float or str, optional
        Bytes per unit of work time, 25 GB/s by default, and bytes; texts such as "25GB/s" and "16GiB" as well.
    fit : bool
        Whether the memory is a hard limit.
    constraints : Constraints, mapping or file, optional
        What else is asked of a partition: a file as for ``--constraints``, or a mapping with any of together, windows,
        uncut and at_least, as `Instance` takes them.
    seed : int
    time_limit : float, optional
        Seconds for each k; by default the method's own number of tries.
    **reading
        As for `mtpp.load`.

    Returns
    -------
    Result, or a list of them for several k

    Raises
    ------
    InputError
        If the graph or a word is refused.

    Examples
    --------
    >>> import mtpp
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0])
    >>> mtpp.partition(graph, k=2, bandwidth=1).partition.block.tolist()
    [0, 0, 1]
    """
    instances = instances_of(graph, k, bandwidth, memory, activation_buffer, fit, constraints, **reading)

    def answer(instance: Instance, known: Sequence[Result]) -> Result:
        with catch_interrupt() as interrupted:
            limits = Limits(Deadline.after(time_limit, interrupted))
            return search(instance, method, np.random.default_rng(seed), limits)

    return _answers(instances, k, answer)


def bound(
    graph: str | Path | ComputationGraph | nx.DiGraph[Any] | Instance,
    k: Blocks | None = None,
    model: str = "exact",
    *,
    bandwidth: Quantity = None,
    memory: Quantity = None,
    activation_buffer: Quantity = None,
    fit: bool = False,
    constraints: Rules = None,
    relaxation: bool = False,
    solver: str = "highs",
    time_limit: float | None = 60.0,
    gap: float = 0.0,
    threads: int = 1,
    seed: int = 0,
    start: Partition | Result | str | Path | None = None,
    **reading: Unpack[Reading],
) -> Any:
    """Prove a lower bound on the bottleneck of every partition, as ``mtpp bound``.

    Parameters
    ----------
    graph, k, bandwidth, memory, activation_buffer, fit, constraints, **reading
        The question, as for `partition`.
    model : str
        A name of `mtpp.MODELS`; exact+all is strengthened, and needs a start.
    relaxation : bool
        Solve the linear relaxation.
    solver : str
        A name of `mtpp.SOLVERS`.
    time_limit : float, optional
        Seconds for each k; None lets the model run to its end.
    gap : float
        Relative gap that is good enough.
    threads, seed : int
    start : Partition, Result or file, optional
        A partition to start from.

    Returns
    -------
    Result, or a list of them for several k
        Its partition is the better of the start and what the exact model found.

    Raises
    ------
    InputError
        If the graph or a word is refused.
    SolverNotAvailableError
        If the solver cannot run here, or fails.

    Examples
    --------
    >>> import mtpp
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0])
    >>> round(mtpp.bound(graph, k=2, bandwidth=1).bound.value, 3)
    6.0
    """
    options = SolveOptions(solver=solver, time_limit=time_limit, gap=gap, threads=threads, seed=seed)
    instances = instances_of(graph, k, bandwidth, memory, activation_buffer, fit, constraints, **reading)

    def answer(instance: Instance, known: Sequence[Result]) -> Result:
        return solve_model(instance, model, options, start=as_partition(start, instance), relaxation=relaxation)

    return _answers(instances, k, answer)


def solve(
    graph: str | Path | ComputationGraph | nx.DiGraph[Any] | Instance,
    k: Blocks | None = None,
    model: str = "exact",
    *,
    bandwidth: Quantity = None,
    memory: Quantity = None,
    activation_buffer: Quantity = None,
    fit: bool = False,
    constraints: Rules = None,
    solver: str = "highs",
    time_limit: float | None = 60.0,
    gap: float = 0.0,
    threads: int = 1,
    seed: int = 0,
    **reading: Unpack[Reading],
) -> Any:
    """Search for a partition, solve a model from there, and put both answers together.

    Parameters
    ----------
    graph, k, bandwidth, memory, activation_buffer, fit, constraints, **reading
        The question, as for `partition`.
    model, solver, time_limit, gap, threads, seed
        As for `bound`; the search before it takes the portfolio's own number of tries.

    Returns
    -------
    Result, or a list of them for several k
        The best partition and what the model proves.

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
    options = SolveOptions(solver=solver, time_limit=time_limit, gap=gap, threads=threads, seed=seed)
    instances = instances_of(graph, k, bandwidth, memory, activation_buffer, fit, constraints, **reading)

    def answer(instance: Instance, known: Sequence[Result]) -> Result:
        found = partition(instance, seed=seed)
        return combine(found, solve_model(instance, model, options, start=found.partition))

    return _answers(instances, k, answer)


def certify(
    graph: str | Path | ComputationGraph | nx.DiGraph[Any] | Instance,
    k: Blocks | None = None,
    *,
    bandwidth: Quantity = None,
    memory: Quantity = None,
    activation_buffer: Quantity = None,
    fit: bool = False,
    constraints: Rules = None,
    solver: str = "highs",
    time_limit: float | None = 60.0,
    gap: float = 0.0,
    threads: int = 1,
    seed: int = 0,
    start: Partition | Result | str | Path | None = None,
    **reading: Unpack[Reading],
) -> Any:
    """Find a good partition and prove how good it is, under one time budget, as ``mtpp certify``.

    Parameters
    ----------
    graph, k, bandwidth, memory, activation_buffer, fit, constraints, **reading
        The question, as for `partition`. What is proved for one k is used for the next ones.
    solver, gap, threads, seed, start
        As for `bound`.
    time_limit : float, optional
        Seconds for each k, for searches and bounds together.

    Returns
    -------
    Result, or a list of them for several k

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
    options = SolveOptions(solver=solver, time_limit=time_limit, gap=gap, threads=threads, seed=seed)
    instances = instances_of(graph, k, bandwidth, memory, activation_buffer, fit, constraints, **reading)

    def answer(instance: Instance, known: Sequence[Result]) -> Result:
        return climb(instance, options, start=as_partition(start, instance), known=known)

    return _answers(instances, k, answer)


def _answers(
    instances: Sequence[Instance], k: Blocks | None, answer: Callable[[Instance, Sequence[Result]], Result]
) -> Any:
    """One result, or a list where `k` is one; Ctrl-C ends with what is known."""
    results: list[Result] = []
    for instance in instances:
        results.append(answer(instance, results))
        if results[-1].interrupted:
            break
    return results if isinstance(k, Iterable) else results[0]


def as_partition(start: Partition | Result | str | Path | None, instance: Instance) -> Partition | None:
    """A partition that is given as itself, with what is proved of it, or in a file.

    Raises
    ------
    InputError
        If there is none in it, or it is of another question.
    """
    if isinstance(start, str | Path):
        return read_partition(start, instance)
    if isinstance(start, Result):
        if start.partition is None:
            raise InputError(f"{start.method} found no partition to start from; give one, or leave out start.")
        return start.partition
    return start
