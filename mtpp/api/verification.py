"""Certificates checked without the programs that made them: `verify`; it loads neither searches nor models."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Protocol, Unpack

from instances import ComputationGraph, InputError, Instance
from instances.errors import WordError, word
from instances.json_files import read_json
from instances.partitioning.kinds.file import KindsCertificate
from instances.partitioning.stated import Certificate
from instances.placement.stated import StatedPlacement
from instances.system.bounded_call import NotBoundedError, run_bounded
from mtpp.questions.reading import ReadingWords, read_graph
from mtpp.questions.solving import VerifyWords
from mtpp.questions.words import GraphLike, pick, takes_words
from mtpp.verification.verdict import Verdict

__all__ = ["Saved", "verified", "verify"]

# Seconds to read a file, beside its limits.
_PATIENCE = 20.0


class Saved(Protocol):
    """A result, which can be saved."""

    def save(self, path: str | PathLike[str], /) -> Path:
        """Write it to a file, and return its path."""


@takes_words(VerifyWords)
def verify(
    answer: Saved | str | PathLike[str], *, graph: GraphLike | None = None, **words: Unpack[VerifyWords]
) -> Verdict:
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
            return verified(Path(fspath(answer)), own, spec, words)
        if not callable(getattr(answer, "save", None)):
            raise InputError(f"A result or the file of one is verified, no {type(answer).__name__}.")
        with tempfile.TemporaryDirectory() as folder:
            return verified(answer.save(Path(folder) / "result.json"), own, spec, words)
    except NotBoundedError as error:
        raise InputError(f"Not checked: {error}; give more time, or do not trust it.") from None


def verified(file: Path, own: ComputationGraph | None, spec: str, words: VerifyWords) -> Verdict:
    """Check a file in a process with limited time and memory.

    Parameters
    ----------
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
    if not isinstance(certificate, Certificate | KindsCertificate | StatedPlacement):
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


def _graph(graph: GraphLike, words: VerifyWords) -> ComputationGraph:
    return graph.graph if isinstance(graph, Instance) else read_graph(graph, pick(ReadingWords, words))
