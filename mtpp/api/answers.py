"""Answers that exist: `read` takes the file of a result, `explain` a partition or its file."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Unpack

from instances import Bound, InputError, Partition, Result
from instances.json_files import read_json
from instances.partitioning.answer_file import AnswerFile
from instances.partitioning.stated_serving import SERVING_FORMAT
from instances.results import exceeds
from mtpp.api.serving import ServingResult
from mtpp.certifying.findings import Findings
from mtpp.questions.answers import PartitionLike, given_partition, partition_of_file
from mtpp.questions.files import format_of, result_of_document
from mtpp.questions.partitioning import ExplainWords, PartitioningWords
from mtpp.questions.solving import solve_options
from mtpp.questions.words import GraphLike, chosen, path_of, pick, takes_words

if TYPE_CHECKING:
    from mtpp_models import Progress, SolverNotAvailableError

__all__ = ["explain", "explained", "read"]


@takes_words(PartitioningWords)
def read(
    path: str | PathLike[str], graph: GraphLike | None = None, **words: Unpack[PartitioningWords]
) -> Result[Any, Any] | ServingResult:
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
    Result or ServingResult
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
    result = ServingResult.of(document) if format_of(document) == SERVING_FORMAT else result_of_document(document)
    if result is not None:
        if graph is not None or chosen(PartitioningWords, words):
            raise InputError(f"{file}: it holds its question; leave out all that says another one.")
        return result
    partition, _ = partition_of_file(file, AnswerFile.of(document), graph, words, "read(path, graph)")
    return Result("read", partition.instance, partition)


@takes_words(ExplainWords)
def explain(answer: PartitionLike, graph: GraphLike | None = None, **words: Unpack[ExplainWords]) -> Findings:
    """Find out how good a partition is and what would have to change to do better, as ``mtpp explain``.

    Parameters
    ----------
    answer : Partition, Result or file
        A certificate, a partition, or one by hand: ``{"block": [0, 0, 1]}``.
    graph : GraphLike, optional
        That of a file without one.
    bandwidth, memory, activation_buffer, fit, constraints and words of reading
        Of the question, in place of those of the file.
    time_limit : float
        Seconds to prove a bound, 10 by default.
    solver, gap, threads, seed
        As for `certify`.

    Returns
    -------
    Findings
        Its `sentences()` say them.

    Raises
    ------
    InputError
        If the file or a word is refused, or the file states a bound above the bottleneck.

    Examples
    --------
    >>> import mtpp
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0])
    >>> found = mtpp.explain(mtpp.partition(graph, k=2, bandwidth=1))
    >>> next(iter(found.sentences())).startswith("It is optimal")
    True
    """
    partition, stated = _explainable(answer, graph, words)
    for bound in stated:
        if exceeds(bound.value, partition.bottleneck):
            raise InputError(f"The bound {bound.value:.6g} of {bound.method} is above the bottleneck; it is false.")
    return explained(partition, [bound for bound in stated if bound.proved], words)[0]


def _explainable(answer: PartitionLike, graph: GraphLike | None, words: ExplainWords) -> tuple[Partition, list[Bound]]:
    asked = pick(PartitioningWords, words)
    if isinstance(answer, str | PathLike):
        file = fspath(answer)
        partition, claims = partition_of_file(file, AnswerFile.read(file), graph, asked, "explain(file, graph)")
        return partition, [Bound(claim.value, claim.method) for claim in claims if claim.value >= 0]
    if graph is not None or chosen(PartitioningWords, asked):
        raise InputError("A partition has its question; leave out all that says another one.")
    if isinstance(answer, Result) and answer.partition is None:
        raise InputError(f"{answer.method} found no partition, so that there is nothing to explain; give one.")
    given = None if answer is None else given_partition(answer)
    if given is None:
        raise InputError("There is no partition to explain; give a partition, a result or a file.")
    return given, [answer.bound] if isinstance(answer, Result) and answer.bound is not None else []


def explained(
    partition: Partition,
    stated: list[Bound],
    words: ExplainWords,
    on_progress: Callable[[Progress], None] | None = None,
    on_fault: Callable[[SolverNotAvailableError], None] | None = None,
) -> tuple[Findings, bool]:
    """As `mtpp.certifying.explain.explain`, with words for the solver."""
    from mtpp.certifying.explain import explain as find_out

    options = solve_options(words, words["time_limit"])
    return find_out(partition, options, stated=stated, on_progress=on_progress, on_fault=on_fault)
