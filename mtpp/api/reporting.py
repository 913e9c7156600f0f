"""Answers as one page for people: `report`."""

from __future__ import annotations

import shlex
import tempfile
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from instances import InputError, Partition, Result
from instances.errors import WordError
from instances.json_files import check_writable, read_json
from instances.system.bounded_call import NotBoundedError
from mtpp.api.answers import read
from mtpp.api.verification import verified
from mtpp.problems.answers import format_of
from mtpp.problems.registry import PROBLEMS
from mtpp.questions.partitioning import PartitioningWords, ReportWords
from mtpp.questions.verifying import VerifyWords
from mtpp.questions.words import GraphLike, checked, chosen, path_of, pick, takes_words
from mtpp.stages.manifest import read_manifest

if TYPE_CHECKING:
    from mtpp.plots.report.answers import Reported
    from mtpp.stages.records import Manifest
    from mtpp.verification.verdict import Verdict

__all__ = ["ReportLike", "report", "reported", "written_page"]

#: A result, a partition, a file of one, or a folder of stages.
ReportLike: TypeAlias = "Result[Any, Any] | Partition | str | PathLike[str]"


@takes_words(ReportWords)
def report(
    *answers: ReportLike,
    graph: GraphLike | None = None,
    out: str | PathLike[str] | None = None,
    **words: Unpack[ReportWords],
) -> str:
    """Make one HTML page of answers, as ``mtpp report``; it loads nothing from elsewhere and runs no script.

    Parameters
    ----------
    *answers : Result, Partition or file
        A file is a certificate, a plan, a placement, a flow, a serving front, a partition, or a folder of stages.
    graph : GraphLike, optional
        That of partition files, which hold none.
    out : path, optional
        File to write.
    time_limit : float
        Seconds to check each answer, 20 by default.
    bandwidth, memory, activation_buffer, fit, constraints and words of reading
        Of partition files, in place of those that they state.

    Returns
    -------
    str
        The page: question, bounds and what proves them, stages, graph, timeline, memory, words for runtimes.

    Raises
    ------
    InputError
        If there is no answer, a file or a word is refused, or a bound is above the cost of its answer.

    Examples
    --------
    >>> import mtpp
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0])
    >>> "Optimal" in mtpp.report(mtpp.certify(graph, k=2, bandwidth=1))
    True
    """
    target = None if out is None else path_of("out", out)
    page = written_page([reported(answer, graph, words) for answer in answers])
    if target is not None:
        for answer in answers:
            if isinstance(answer, str | PathLike) and target.exists() and target.samefile(answer):
                raise WordError("out", str(target), "this is a file to read; give another name.")
        check_writable(target)
        target.write_text(page, encoding="utf-8")
    return page


def written_page(answers: list[Reported]) -> str:
    """The page of answers that are checked.

    Raises
    ------
    InputError
        If there is none.
    """
    from mtpp.plots.report.answers import article
    from mtpp.plots.report.markup import page
    from mtpp.versions import package_version

    if not answers:
        raise InputError("There is no answer to report; give one or more.")
    articles = [article(answer) for answer in answers]
    title = articles[0][0] if len(articles) == 1 else f"{len(articles)} answers"
    return page(title, f"Made by mtpp {package_version() or ''}".rstrip() + "; costs are computed anew.", articles)


def reported(answer: ReportLike, graph: GraphLike | None, words: ReportWords) -> Reported:
    """An answer with its check and its words for runtimes.

    Raises
    ------
    InputError
        As `report`.
    """
    if isinstance(answer, str | PathLike):
        return _of_file(Path(fspath(answer)), graph, words)
    if graph is not None or chosen(PartitioningWords, words):
        raise InputError("An answer has its question; leave out all that says another one.")
    if isinstance(answer, Partition):
        answer = Result("given", answer.instance, answer)
    if not isinstance(answer, Result):
        raise InputError(f"A result, a partition or a file is reported, no {type(answer).__name__}.")
    if answer.bound is None and answer.impossible is None:
        return _reported(answer, None, "no bound is known")
    with tempfile.TemporaryDirectory() as folder:
        return _reported(answer, *_checked(answer.save(Path(folder) / "answer.json"), words))


def _of_file(file: Path, graph: GraphLike | None, words: ReportWords) -> Reported:

    manifest = read_manifest(file) if file.is_dir() else None
    given, file = file, file if manifest is None else file / manifest.certificate.file
    answer = read(file, graph, **pick(PartitioningWords, words))
    if PROBLEMS.format(format_of(read_json(file))) is None:
        return _reported(answer, None, "the file states no bound", manifest=manifest)
    check = f"mtpp verify {shlex.quote(str(given if manifest is None else file))}"
    return _reported(answer, *_checked(file, words), check, manifest)


def _checked(file: Path, words: ReportWords) -> tuple[Verdict | None, str]:
    """The verdict on a file; None, and why, if there was no time for one."""
    try:
        limit = checked(VerifyWords, {"time_limit": words["time_limit"]})
        return verified(file, None, limit), ""
    except NotBoundedError as error:
        return None, str(error)


def _reported(
    answer: Result[Any, Any],
    verdict: Verdict | None,
    unchecked: str,
    check: str = "",
    manifest: Manifest | None = None,
) -> Reported:
    from mtpp.plots.report.answers import Reported

    words, refusals = _words(answer)
    files = () if manifest is None else _files(manifest)
    return Reported(answer, verdict, unchecked=unchecked, check=check, words=words, refusals=refusals, files=files)


def _words(result: Result[Any, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """The answer as each runtime takes it, and why others do not."""
    words: dict[str, str] = {}
    refusals: dict[str, str] = {}
    cut = result.answer
    for part in ("partition", "plan"):
        cut = getattr(cut, part, cut)
    if cut is not None:
        for name, write in PROBLEMS.of(result.instance).settings().items():
            try:
                words[name] = write(cut)
            except InputError as error:
                refusals[name] = str(error)
    return words, refusals


def _files(manifest: Manifest) -> list[list[str]]:
    from mtpp.text.numbers import time_in_words

    return [
        [
            str(stage.block),
            stage.file.file,
            str(stage.nodes),
            ", ".join(received.tensor.name for received in stage.inputs),
            ", ".join(sent.tensor.name for sent in stage.outputs),
            time_in_words(stage.time, "s"),
        ]
        for stage in manifest.stages
    ]
