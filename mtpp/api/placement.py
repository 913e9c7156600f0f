"""Placements of a step on devices: `place`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heuristics import Limits
from heuristics.placement import PlacementResult, search_placement
from heuristics.placement.placeto import Checkpoint
from instances import ComputationGraph, InputError, combine
from instances.deadline import Deadline
from instances.devices.unequal import DeviceTable, read_devices
from instances.placement.grouping import group_nodes
from instances.placement.problem import PlacementInstance
from instances.system.interrupts import catch_interrupt
from mtpp.certifying.placement import prove_placement
from mtpp.cli.place import PlacementQuestion
from mtpp.questions.partitioning import Reading, Roofs, bandwidth_of, memory_limits
from mtpp.questions.reading import Quantity, load, word
from mtpp_models import SolveOptions, SolverNotAvailableError

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["place"]


def place(
    graph: str | Path | ComputationGraph | nx.DiGraph[Any] | PlacementInstance,
    k: int | None = None,
    method: str = "ordered",
    *,
    bandwidth: Quantity = None,
    memory: Quantity = None,
    dims: Mapping[str, int] | None = None,
    training: bool = False,
    reader: str | None = None,
    input_work: str | None = None,
    time_unit: str | None = None,
    peak_flops: Quantity = None,
    memory_bandwidth: Quantity = None,
    unequal: str | Path | DeviceTable | None = None,
    groups: int | None = None,
    policy: str | Path | None = None,
    seed: int = 0,
    time_limit: float = 5.0,
    certify: bool = False,
    solver: str = "highs",
    threads: int = 1,
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
    dims, training, reader, input_work, time_unit, peak_flops, memory_bandwidth
        As for `mtpp.load`.
    unequal : str, path or DeviceTable, optional
        Speeds, memories and rates of unequal devices, or a file of them; then k may be left out.
    groups : int, optional
        Search with at most so many groups of nodes; by default with single nodes.
    policy : str or path, optional
        A checkpoint for the method *placeto*; by default *fast*, which comes along.
    seed : int
    time_limit : float
        Seconds of the search, and as many again of `certify`.
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
        If the graph or a word is refused.

    Examples
    --------
    >>> import mtpp
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 2), (1, 2)], work=[2, 2, 1], output_bytes=[1, 1, 0])
    >>> mtpp.place(graph, k=2, bandwidth=1).answer.step_time
    4.0
    """
    words = {"dims": dims, "training": training, "reader": reader, "input_work": input_work, "time_unit": time_unit}
    words |= {"peak_flops": word(peak_flops), "memory_bandwidth": word(memory_bandwidth)}
    given = {name: value for name, value in words.items() if value}
    if k is None and unequal is None and not isinstance(graph, PlacementInstance):
        raise InputError("k is missing; give the number of devices.")
    instance = _instance(graph, k or 1, bandwidth, memory, given)
    if unequal is not None:
        if not isinstance(unequal, DeviceTable):
            unequal = read_devices(unequal, instance.bandwidth, instance.memory)
        instance = replace(instance, devices=k or len(unequal.speeds), unequal=unequal)
    elif k is not None and k != instance.devices:
        instance = replace(instance, devices=k)
    grouping = None if groups is None else group_nodes(instance.graph, groups)
    checkpoint = None if policy is None else Checkpoint.load(policy)
    with catch_interrupt() as interrupted:
        limits = Limits(Deadline.after(time_limit, interrupted))
        answer = search_placement(instance, method, np.random.default_rng(seed), limits, grouping, policy=checkpoint)
    if not certify or answer.answer is None:
        return answer
    options = SolveOptions(solver, time_limit, threads=threads, seed=seed)

    def warn(fault: SolverNotAvailableError) -> None:
        warnings.warn(str(fault), RuntimeWarning, stacklevel=3)

    answers = prove_placement(answer, options, lambda model, known: None, warn)
    return replace(combine(*answers), method=method)


def _instance(graph: Any, k: int, bandwidth: Quantity, memory: Quantity, words: dict[str, Any]) -> PlacementInstance:
    """With k equal devices, unless `graph` is a whole question."""
    if isinstance(graph, PlacementInstance):
        if words or bandwidth is not None or memory is not None:
            raise InputError(f"The instance {graph.graph.name!r} is a whole question; leave out all words but k.")
        return graph
    if isinstance(graph, str | Path):
        dims = [f"{name}={size}" for name, size in words.pop("dims", {}).items()]
        roofs = Roofs(*(words.pop(name, None) for name in ("peak_flops", "memory_bandwidth")))
        return PlacementQuestion(
            graph=str(graph),
            devices=k,
            bandwidth=word(bandwidth),
            memory=word(memory),
            reading=Reading(dim=dims or None, roofs=roofs, **words),
        ).instance()
    loaded = load(graph, **words)
    return PlacementInstance(loaded, k, bandwidth_of(loaded, word(bandwidth)), memory_limits(word(memory), None)[0])
