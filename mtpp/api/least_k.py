"""The least number of blocks: `least_k`."""

from __future__ import annotations

from typing import Unpack

from mtpp.certifying.least_k import LeastK, find_least
from mtpp.questions.partitioning import PartitioningWords, SolveWords, enough_for, instances_of
from mtpp.questions.words import GraphLike, pick, solve_options, takes_words
from mtpp.text.numbers import Quantity


@takes_words(SolveWords)
def least_k(graph: GraphLike, throughput: Quantity | None = None, **words: Unpack[SolveWords]) -> LeastK:
    """Find the least number of blocks that fits, or reaches a throughput, as ``mtpp certify -k auto``.

    Parameters
    ----------
    graph
        The question, as for `partition`, with the same words.
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
