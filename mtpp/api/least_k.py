"""The least number of blocks: `least_k`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from instances import ComputationGraph, Instance
from mtpp.certifying.least_k import LeastK, find_least_k
from mtpp.questions.partitioning import enough_for
from mtpp.questions.reading import Quantity, Reading, Rules, instances_of, word
from mtpp_models import SolveOptions

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["least_k"]


def least_k(
    graph: str | Path | ComputationGraph | nx.DiGraph[Any] | Instance,
    throughput: float | str | None = None,
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
) -> LeastK:
    """Find the least number of blocks that fits, or reaches a throughput, as ``mtpp certify -k auto``.

    Parameters
    ----------
    graph, bandwidth, memory, activation_buffer, fit, constraints, **reading
        The question, as for `partition`.
    throughput : float or str, optional
        Runs per unit of work time, or a text such as "250/s"; optional where the memory is a hard limit.
    solver, time_limit, gap, threads, seed
        As for `certify`, the time limit for each k.

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
    options = SolveOptions(solver=solver, time_limit=time_limit, gap=gap, threads=threads, seed=seed)
    [question] = instances_of(
        graph, None, bandwidth, memory, activation_buffer, fit, constraints, is_open=True, **reading
    )
    return find_least_k(question, enough_for(question, word(throughput)), options)
