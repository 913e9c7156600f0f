"""Placements of a step on devices: `place`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from os import PathLike, fspath
from threading import Event
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from heuristics import Limits
from heuristics.placement import PlacementResult, search_placement
from heuristics.placement.placeto import Checkpoint
from instances import ComputationGraph
from instances.deadline import Deadline, Stopwatch
from instances.placement.networks import Grouping, group_nodes
from instances.placement.problem import PlacementInstance
from instances.system.interrupts import catch_interrupt
from mtpp.certifying.placement import prove_placement
from mtpp.questions.placement import PlacementWords, PlaceWords, placement_instance
from mtpp.questions.words import pick, takes_words
from mtpp_models import Progress, SolveOptions, SolverNotAvailableError
from mtpp_models.solvers.registry import find_solver

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["place", "placed", "proved_placement"]


@takes_words(PlaceWords)
def place(
    graph: str | PathLike[str] | ComputationGraph | nx.DiGraph[Any] | PlacementInstance,
    k: int | None = None,
    method: str = "ordered",
    **words: Unpack[PlaceWords],
) -> PlacementResult:
    """Place the nodes of a step on devices, data going back and forth, as ``mtpp place``.

    Parameters
    ----------
    graph : str, path, ComputationGraph, networkx.DiGraph or PlacementInstance
        As for `mtpp.load`, or a graph of a family such as "nmt-0"; an instance is a whole question.
    k : int
        Number of devices.
    method : str
        A name of `mtpp.PLACERS`.
    bandwidth : float or str, optional
        Out of each device; 7.6e9 for a family, 25 GB/s otherwise.
    memory : float or str, optional
        Of a device; no limit by default.
    dims, training, reader, cost, input_work, time_unit, peak_flops, memory_bandwidth
        As for `mtpp.load`.
    unequal : str, path or DeviceTable, optional
        Speeds, memories and rates of unequal devices, or a file of them; then k may be left out.
    groups : int, optional
        Search with at most so many groups of nodes; by default with single nodes.
    policy : str or path, optional
        A checkpoint for the method *placeto*; by default *fast*, which comes along.
    seed : int
    time_limit : float
        Seconds of the search, and as many again of `certify`; 5 by default.
    certify : bool
        Prove how good the placement is, also with solvers if it is small; a solver that is missing or fails is a
        warning.
    solver, threads
        As in `SolveOptions`, for `certify`.

    Returns
    -------
    Result
        Its answer is a `Placement`, whose `fits` says whether no device needs more than its memory; that of *ordered*
        an `OrderedPlacement`. Where it is proved that none fits, there is no answer, and `impossible` says why.

    Raises
    ------
    InputError
        If the graph or a word is refused, or there is no such placer.

    Examples
    --------
    >>> import mtpp
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 2), (1, 2)], work=[2, 2, 1], output_bytes=[1, 1, 0])
    >>> mtpp.place(graph, k=2, bandwidth=1).answer.step_time
    4.0
    """
    instance = placement_instance(graph, k, pick(PlacementWords, words))

    def warn(fault: SolverNotAvailableError) -> None:
        warnings.warn(str(fault), RuntimeWarning, stacklevel=4)

    with catch_interrupt() as interrupted:
        answer, _ = placed(instance, method, words, interrupted)
        if not words["certify"] or answer.answer is None or interrupted.is_set():
            return answer
    return proved_placement(answer, words, lambda moment: None, warn)


def placed(
    instance: PlacementInstance,
    method: str,
    words: PlaceWords,
    interrupted: Event,
    on_progress: Callable[[Progress], None] = lambda moment: None,
) -> tuple[PlacementResult, Grouping | None]:
    """Search for a placement; the groups of nodes that were searched come along, None for single nodes.

    Parameters
    ----------
    words : PlaceWords
        With all defaults.
    interrupted : Event
        Ends the search.
    on_progress : callable
        Receives each phase with the best time by then.
    """
    if words["certify"]:
        find_solver(words["solver"])  # before the search, which may take a while
    watch = Stopwatch()

    def tell(phase: str, time: float) -> None:
        known = time if math.isfinite(time) else None
        on_progress(Progress(phase, watch.passed, known, instance.lower_bound, None))

    policy, groups = words["policy"], words["groups"]
    checkpoint = None if policy is None else Checkpoint.load(fspath(policy))
    grouping = None if groups is None else group_nodes(instance.graph, groups)
    limits, rng = Limits(Deadline.after(words["time_limit"], interrupted)), np.random.default_rng(words["seed"])
    found = search_placement(instance, method, rng, limits, grouping, tell, checkpoint)
    return replace(found, clocked=words["time_limit"] is not None), grouping


def proved_placement(
    answer: PlacementResult,
    words: PlaceWords,
    on_progress: Callable[[Progress], None],
    on_fault: Callable[[SolverNotAvailableError], None],
) -> PlacementResult:
    """The answer, or a better one, with the best bound; `on_fault` as of `prove_placement`."""
    options = SolveOptions(words["solver"], words["time_limit"], threads=words["threads"], seed=words["seed"])
    return replace(prove_placement(answer, options, on_progress, on_fault), method=answer.method)
