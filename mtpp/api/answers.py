"""Answers that exist: `read`, `verify` and `explain` take a result or its file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from instances import Bound, ComputationGraph, InputError, Instance, Partition, Result
from instances.errors import WordError, word
from instances.json_files import check_readable, read_json
from instances.partitioning.answer_file import AnswerFile
from instances.partitioning.stated import Certificate
from instances.placement.stated import StatedPlacement
from instances.system.bounded_call import NotBoundedError, run_bounded
from mtpp.api.serving import ServingResult
from mtpp.certifying.findings import Findings
from mtpp.questions.answers import given_partition, partition_of_file
from mtpp.questions.files import read_question_file
from mtpp.questions.partitioning import ExplainWords, PartitioningWords
from mtpp.questions.reading import ReadingWords, read_graph
from mtpp.questions.solving import VerifyWords, solve_options
from mtpp.questions.words import GraphLike, chosen, pick, takes_words
from mtpp.verification.verdict import Verdict

if TYPE_CHECKING:
    from mtpp_models import Progress, SolverNotAvailableError

__all__ = ["AnswerLike", "explain", "explained", "read", "verified", "verify"]

#: A result, or the file that one was saved to.
AnswerLike: TypeAlias = "Result[Any, Any] | ServingResult | Partition | str | PathLike[str]"

# Seconds to read a file, beside its limits.
_PATIENCE = 20.0
_ROUNDING = 1e-9


@takes_words(PartitioningWords)
def read(
    path: str | PathLike[str], graph: GraphLike | None = None, **words: Unpack[PartitioningWords]
) -> Result[Any, Any]:
    """Read the answer of a file; its cost is computed anew, and its bound is only stated.

    Parameters
    ----------
    path : str or path
        A certificate, a timed plan, a placement, or a partition, as `Result.save` and ``--out`` write them.
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
    file = _file_of(path)
    if (result := read_question_file(file)) is not None:
        if graph is not None or chosen(PartitioningWords, words):
            raise InputError(f"{file}: it holds its question; leave out all that says another one.")
        return result
    partition, _ = partition_of_file(file, AnswerFile.read(file), graph, words, "read(path, graph)")
    return Result("read", partition.instance, partition)


@takes_words(VerifyWords)
def verify(answer: AnswerLike, *, graph: GraphLike | None = None, **words: Unpack[VerifyWords]) -> Verdict:
    """Check a certificate without the programs that made it, as ``mtpp verify``.

    Parameters
    ----------
    answer : Result, ServingResult or file
        As `Result.save` and ``--out`` write it.
    graph : GraphLike, optional
        The graph that the certificate has to be of.
    ideals : bool
        Also run the program over ideals again.
    rerun : bool
        Also let the solvers and programs of this machine prove again what is trusted.
    time_limit : float
        Seconds, 60 by default, and as many again of `rerun`.
    dims, level, training and further words of reading
        Of `graph`, as for `mtpp.load`.

    Returns
    -------
    Verdict
        Its `faults` are empty if no number is false; `proved_ratio` rests on proved bounds alone, and
        `rests_on_trust` says whether a better one is only trusted.

    Raises
    ------
    InputError
        If the file is no certificate, lacks its question, or cannot be checked within the limits.

    Examples
    --------
    >>> import mtpp
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0])
    >>> mtpp.verify(mtpp.certify(graph, k=2, bandwidth=1)).faults
    ()
    """
    own = None if graph is None else _graph(graph, words)
    spec = fspath(graph) if isinstance(graph, str | PathLike) else "the given graph"
    try:
        if isinstance(answer, str | PathLike):
            return verified(Path(_file_of(answer)), own, spec, words)
        if not isinstance(answer, Result | ServingResult):
            raise InputError(f"A result or the file of one is verified, no {type(answer).__name__}.")
        with tempfile.TemporaryDirectory() as folder:
            return verified(answer.save(Path(folder) / "result.json"), own, spec, words)
    except NotBoundedError as error:
        raise InputError(f"Not checked: {error}; give more time, or do not trust it.") from None


def verified(file: Path, own: ComputationGraph | None, spec: str, words: VerifyWords) -> Verdict:
    """Check a file in a process with limited time and memory.

    Parameters
    ----------
    file : Path
    own : ComputationGraph, optional
        The graph that it has to be of.
    spec : str
        Name of that graph, for messages.
    words : VerifyWords
        With all defaults.

    Raises
    ------
    InputError
        If the file is no certificate.
    NotBoundedError
        If it was not checked within the limits.
    """
    limit = words["time_limit"]
    if not 0 < limit < float("inf"):
        raise WordError("time_limit", limit, "it must be positive and finite.")
    options = {"own": own, "spec": spec, "ideals": words["ideals"], "rerun": words["rerun"], "time_limit": limit}
    return run_bounded(_verdict, file, seconds=2 * limit + _PATIENCE, **options)


def _verdict(
    file: Path, *, own: ComputationGraph | None, spec: str, ideals: bool, rerun: bool, time_limit: float
) -> Verdict:
    from mtpp.verification.clock import OutOfTimeError
    from mtpp.verification.verify import verify as check

    try:
        verdict = check(read_json(file), ideals=ideals, time_limit=time_limit)
    except OutOfTimeError:
        raise NotBoundedError(f"its cost was not known within {time_limit:g} s") from None
    if own is not None and (fault := _difference(verdict, own)):
        verdict = replace(verdict, faults=(*verdict.faults, f"instance.graph: it is not {spec}: {fault}"))
    if rerun and not verdict.faults:
        from mtpp.certificates.rerun import rerun as run_again

        verdict = run_again(verdict, time_limit=time_limit)
    return verdict


def _difference(verdict: Verdict, own: ComputationGraph) -> str:
    """Why the graph of a certificate is not the caller's; empty if it is."""
    certificate = verdict.certificate
    if not isinstance(certificate, Certificate | StatedPlacement):
        why = f"a plan or a serving front has a chain and no graph to compare; leave out {word('graph')}."
        raise InputError(f"{certificate.file}: {why}")
    stated = certificate.instance.graph
    if (stated.n, stated.m) != (own.n, own.m):
        return f"{stated.n} nodes and {stated.m} edges against {own.n} and {own.m}"
    for v, (name, other) in enumerate(zip(stated.names, own.names, strict=True)):
        if name != other:
            return f"node {v} is called {name!r}, there {other!r}"
    for v in (stated.work != own.work).nonzero()[0][:1].tolist():
        return f"the work of node {v} ({own.names[v]}) is {float(stated.work[v])!r}, there {float(own.work[v])!r}"
    if stated.content_hash != own.content_hash or stated.time_unit != own.time_unit:
        return "edges, bytes, parameters or units are others"
    return ""


@takes_words(ExplainWords)
def explain(answer: AnswerLike, graph: GraphLike | None = None, **words: Unpack[ExplainWords]) -> Findings:
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
        if bound.value > partition.bottleneck * (1 + _ROUNDING):
            raise InputError(f"The bound {bound.value:.6g} of {bound.method} is above the bottleneck; it is false.")
    return explained(partition, [bound for bound in stated if bound.proved], words)[0]


def _explainable(answer: AnswerLike, graph: GraphLike | None, words: ExplainWords) -> tuple[Partition, list[Bound]]:
    asked = pick(PartitioningWords, words)
    if isinstance(answer, str | PathLike):
        file = _file_of(answer)
        partition, claims = partition_of_file(file, AnswerFile.read(file), graph, asked, "explain(file, graph)")
        return partition, [Bound(claim.value, claim.method) for claim in claims if claim.value >= 0]
    if graph is not None or chosen(PartitioningWords, asked):
        raise InputError("A partition has its question; leave out all that says another one.")
    given = given_partition(answer)  # type: ignore[arg-type]
    assert given is not None
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


def _graph(graph: GraphLike, words: VerifyWords) -> ComputationGraph:
    return graph.graph if isinstance(graph, Instance) else read_graph(graph, pick(ReadingWords, words))


def _file_of(path: str | PathLike[str]) -> str:
    check_readable(fspath(path))
    return fspath(path)
