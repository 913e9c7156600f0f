"""Answers that exist: `read` takes the file of a result, `explain` a partition or its file."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Unpack

from instances import Bound, InputError, Result
from instances.json_files import read_json
from instances.partitioning.answer_file import AnswerFile
from instances.results import exceeds
from mtpp.certifying.findings import Findings
from mtpp.certifying.reasons import Reasons
from mtpp.problems.answers import format_of, read_result
from mtpp.problems.registry import PROBLEMS
from mtpp.questions.answers import PartitionLike, given_partition, partition_of_file
from mtpp.questions.partitioning import ExplainWords, PartitioningWords
from mtpp.questions.solving import solve_options
from mtpp.questions.words import GraphLike, chosen, path_of, pick, takes_words

if TYPE_CHECKING:
    from mtpp_models import Progress, SolverNotAvailableError

__all__ = ["explain", "explained", "read"]


@takes_words(PartitioningWords)
def read(
    path: str | PathLike[str], graph: GraphLike | None = None, **words: Unpack[PartitioningWords]
) -> Result[Any, Any]:
    """Read the answer of a file; its cost is computed anew, and its bound is only stated.

    Parameters
    ----------
    path : str or path
        A certificate, a plan, a placement, a flow, a serving front, or a partition, as ``save`` and ``--out`` write
        them.
    graph : GraphLike, optional
        That of a partition file, which holds none.
    bandwidth, memory, activation_buffer, fit, constraints and words of reading
        Of a partition file, in place of those that it states.

    Returns
    -------
    Result
        With the method "read". The method of its bound is "stated": nothing here has proved it; `verify` does.

    Raises
    ------
    InputError
        If the file is refused, lacks its graph, or states a bound above the cost of its answer.

    Examples
    --------
    >>> import mtpp, os, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0])
    >>> path = mtpp.certify(graph, k=2, bandwidth=1).save(os.path.join(folder.name, "certificate.json"))
    >>> mtpp.read(path).cost
    6.0
    >>> folder.cleanup()
    """
    file = str(path_of("path", path))
    document = read_json(file)
    result = read_result(document)
    if result is not None:
        if graph is not None or chosen(PartitioningWords, words):
            raise InputError(f"{file}: it holds its question; leave out all that says another one.")
        return result
    partition, _ = partition_of_file(file, AnswerFile.of(document), graph, words, "read(path, graph)")
    return Result("read", partition.instance, partition)


@takes_words(ExplainWords)
def explain(
    answer: Result[Any, Any] | PartitionLike, graph: GraphLike | None = None, **words: Unpack[ExplainWords]
) -> Findings | Reasons:
    """Find out how good an answer is and what would have to change to do better, as ``mtpp explain``.

    Parameters
    ----------
    answer : Result, Partition or file
        The result of any problem, a partition, or a file of one, also by hand: ``{"block": [0, 0, 1]}``.
    graph : GraphLike, optional
        That of a partition file without one.
    bandwidth, memory, activation_buffer, fit, constraints and words of reading
        Of the question, in place of those of a partition file.
    time_limit : float
        Seconds to prove a bound on a partition, 10 by default.
    solver, gap, threads, seed
        As for `certify`.

    Returns
    -------
    Findings or Reasons
        Of a partition, or of another answer, of which nothing more is proved; `sentences()` say them.

    Raises
    ------
    InputError
        If the file or a word is refused, or the file states a bound above the cost of its answer.

    Examples
    --------
    >>> import mtpp
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0])
    >>> found = mtpp.explain(mtpp.partition(graph, k=2, bandwidth=1))
    >>> next(iter(found.sentences())).startswith("It is optimal")
    True
    """
    result, false = explainable(answer, graph, words, "explain(file, graph)")
    for bound in false:
        raise InputError(f"The bound {bound.value:.6g} of {bound.method} is above the bottleneck; it is false.")
    return explained(result, words)[0]


def explainable(
    answer: Result[Any, Any] | PartitionLike, graph: GraphLike | None, words: ExplainWords, again: str
) -> tuple[Result[Any, Any], list[Bound]]:
    """An answer with the best bound that is stated of it and can be true, and the bounds that cannot.

    Parameters
    ----------
    answer, graph, words
        As for `explain`.
    again : str
        How to name the graph of a partition file, for messages.
    """
    asked = pick(PartitioningWords, words)
    if isinstance(answer, str | PathLike):
        file = fspath(answer)
        document = read_json(file)
        problem = PROBLEMS.of_format(format_of(document))
        if problem is not None and problem.name != "partition":
            return read(file, graph, **asked), []
        named = AnswerFile.of(document)
        partition, claims = partition_of_file(file, named, graph, asked, f"{again} {named.graph_name or 'GRAPH'}")
        stated = [Bound(claim.value, claim.method) for claim in claims if claim.value >= 0]
        false = [bound for bound in stated if exceeds(bound.value, partition.bottleneck)]
        proved = [bound for bound in stated if bound.proved and bound not in false]
        best = max(proved, key=lambda bound: bound.value, default=None)
        return Result("given", partition.instance, partition, best), false
    if graph is not None or chosen(PartitioningWords, asked):
        raise InputError("An answer has its question; leave out all that says another one.")
    if isinstance(answer, Result):
        return answer, []
    given = None if answer is None else given_partition(answer)
    if given is None:
        raise InputError("There is no partition to explain; give a partition, a result or a file.")
    return Result("given", given.instance, given), []


def explained(
    result: Result[Any, Any],
    words: ExplainWords,
    on_progress: Callable[[Progress], None] | None = None,
    on_fault: Callable[[SolverNotAvailableError], None] | None = None,
) -> tuple[Findings | Reasons, bool]:
    """Findings about an answer, and whether Ctrl-C ended that early; listeners as of `certify`."""
    options = solve_options(words, words["time_limit"])
    found: tuple[Findings | Reasons, bool] = PROBLEMS.of(result.instance).explain(
        result, options, on_progress, on_fault
    )
    return found
