"""Functions of answers and their files: read, write, export, report."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from instances import Bound, InputError, Partition, Platform, Result
from instances.errors import WordError, find, printable
from instances.json_files import Value, check_writable, read_json
from instances.partitioning.partition_file import AnswerFile
from instances.partitioning.serving import ServedPartition
from instances.planning import Plan
from instances.planning.grid.plan import GridPlan
from instances.results import exceeds
from instances.runtimes import RUNTIMES, Runtime
from instances.runtimes.serving import StageFile, StageFileRuntime
from instances.serving.answer import Deployment
from instances.system.processes import NotBoundedError
from mtpp.api.verification import verified
from mtpp.certifying.explain import Findings, Reasons
from mtpp.problems.checking import notes_of, problem_of, read_result
from mtpp.problems.registry import PROBLEMS
from mtpp.questions.files import PartitionLike, given_partition, partition_of_file, refuse_another, refuse_model
from mtpp.questions.partitioning import ExplainWords, PartitioningWords, ReportWords
from mtpp.questions.reading import ReadingWords, read_graph
from mtpp.questions.verifying import VerifyWords
from mtpp.questions.words import GraphLike, checked, path_of, pick, solve_options, takes_words
from mtpp.stages.manifest import Manifest, read_manifest
from mtpp.text.numbers import time_in_words
from mtpp.verification.verdict import Verdict
from mtpp.versions import package_version
from mtpp_models import Progress, SolverNotAvailableError

if TYPE_CHECKING:
    from mtpp.plots.report.answers import Reported

# Answers that exist: `read` takes the file of a result, `explain` a partition or its file.


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
        Graph of a partition file, which holds none.
    bandwidth, memory, activation_buffer, fit, constraints
        For a partition file, in place of the values that it states.

    Returns
    -------
    Result
        Its method is "read", and that of its bound "stated", as nothing is proved here; `verify` checks the bound.

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
    file = str(_answer_file(path_of("path", path))[0])
    document = read_json(file)
    result = read_result(document)
    if result is not None:
        refuse_another(f"{file}: it", graph, PartitioningWords, words)
        return result
    partition, _ = partition_of_file(file, AnswerFile.of(document), graph, words, "read(path, graph)")
    return Result("read", partition.instance, partition)


@takes_words(ExplainWords)
def explain(
    answer: Result[Any, Any] | PartitionLike, graph: GraphLike | None = None, **words: Unpack[ExplainWords]
) -> Findings | Reasons:
    """Explain how good an answer is and what would have to change to do better, as ``mtpp explain``.

    Parameters
    ----------
    answer : Result, Partition or file
        The result of any problem, a partition, or a file of one, also written by hand: ``{"block": [0, 0, 1]}``.
    graph : GraphLike, optional
        Graph of a partition file without one.
    bandwidth, memory, activation_buffer, fit, constraints
        Members of the question, in place of the values in a partition file.
    time_limit : float
        Seconds to prove a bound on a partition, 10 by default.
    solver, gap, threads, seed, solver_options, log
        As for `certify`.

    Returns
    -------
    Findings or Reasons
        `Findings` about a partition, or `Reasons` about another answer, for which nothing more is proved; both have
        `sentences()`.

    Raises
    ------
    InputError
        If the file or an argument is refused, or the file states a bound above the cost of its answer.

    Examples
    --------
    >>> import mtpp
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0])
    >>> explanation = mtpp.explain(mtpp.partition(graph, k=2, bandwidth=1))
    >>> next(iter(explanation.sentences())).startswith("It is optimal")
    True
    """
    result, false = explainable(answer, graph, words, "explain(file, graph)")
    for bound in false:
        raise InputError(f"The bound {bound.value:.6g} of {bound.method} is above the bottleneck; it is false.")
    return explained(result, words)[0]


def explainable(
    answer: Result[Any, Any] | PartitionLike, graph: GraphLike | None, words: ExplainWords, again: str
) -> tuple[Result[Any, Any], list[Bound]]:
    """An answer with the best stated bound that can be true, and the stated bounds that cannot.

    Parameters
    ----------
    answer, graph, words
        As for `explain`.
    again : str
        How the caller can state the graph of a partition file, for messages.
    """
    question = pick(PartitioningWords, words)
    if isinstance(answer, str | PathLike):
        file = str(_answer_file(path_of("answer", answer))[0])
        document = read_json(file)
        problem = problem_of(document)
        if problem is not None and problem.name != "partition":
            return read(file, graph, **question), []
        named = AnswerFile.of(document)
        partition, claims = partition_of_file(file, named, graph, question, f"{again} {named.graph_name or 'GRAPH'}")
        stated = [Bound(claim.value, claim.method) for claim in claims if claim.value >= 0]
        false = [bound for bound in stated if exceeds(bound.value, partition.bottleneck)]
        proved = [bound for bound in stated if bound.proved and bound not in false]
        best = max(proved, key=lambda bound: bound.value, default=None)
        return Result("given", partition.instance, partition, best, notes=tuple(notes_of(document))), false
    refuse_another("An answer", graph, PartitioningWords, question)
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
    """Findings about an answer, and whether Ctrl-C cut them short; listeners as for `certify`."""
    options = solve_options(words, words["time_limit"])
    findings: tuple[Findings | Reasons, bool] = PROBLEMS.of(result.instance).explain(
        result, options, on_progress, on_fault
    )
    return findings


# Cuts as settings of runtimes: `export`.


#: A result, a partition or a plan; or a file of one, or a folder of stages.
CutLike: TypeAlias = "Result[Any, Any] | _Cut | str | PathLike[str]"
_Cut: TypeAlias = Partition | Plan | GridPlan | ServedPartition | Deployment


@dataclass(frozen=True)
class Exported:
    """A cut as the settings of a runtime."""

    runtime: Runtime
    settings: str  # as the runtime takes them
    stated: tuple[str, ...]  # statements of the file about all answers, which nothing has checked
    file: Path | None  # the certificate, to be copied beside the settings; None if there is none

    @property
    def text(self) -> str:
        """The settings, with statements about the cut as comments where the runtime's format has comments."""
        comment = self.runtime.comment
        return "".join(f"{comment} {line}\n" for line in self.stated if comment is not None) + self.settings

    def write(self, out: Path) -> None:
        """Write the text; a certificate is copied to ``OUT.certificate.json``."""
        beside = Path(f"{out}.certificate.json")
        check_writable(out)
        check_writable(beside)
        out.write_text(self.text, encoding="utf-8")
        if self.file is not None and self.stated:
            beside.write_bytes(self.file.read_bytes())


@takes_words(ReadingWords)
def export(
    answer: CutLike,
    runtime: str,
    *,
    graph: GraphLike | None = None,
    out: str | PathLike[str] | None = None,
    runtime_version: str | None = None,
    **words: Unpack[ReadingWords],
) -> str:
    """Write a cut as the settings of a runtime, as ``mtpp export``.

    Parameters
    ----------
    answer : Result, Partition, Plan, GridPlan or file
        A file is a certificate, a partition, a serving front, a plan with its question, or a folder of stages.
    runtime : str
        A name of ``mtpp list runtimes``.
    graph : GraphLike, optional
        Graph of a partition file, which holds none.
    out : path, optional
        File to write; a certificate file is copied beside it.
    runtime_version : str, optional
        Release of the runtime, such as "0.2", where its settings differ; by default the latest that is known.

    Returns
    -------
    str
        The text for the runtime.

    Raises
    ------
    InputError
        If the file or an argument is refused, or the runtime cannot express the cut.

    Examples
    --------
    >>> import mtpp
    >>> result = mtpp.certify("llama-3-8b", k=2, level="layer", runtime="vllm", time_limit=5)
    >>> "VLLM_PP_LAYER_PARTITION" in mtpp.export(result, "vllm")
    True
    """
    target_runtime = find(RUNTIMES, runtime, "runtime").of_version(runtime_version)
    target = None if out is None else path_of("out", out)
    if isinstance(answer, str | PathLike):
        if target is not None and target.exists() and Path(answer).exists() and target.samefile(answer):
            raise WordError("out", str(target), "this is the file that the cut is read from; give another name.")
        result = exported(path_of("answer", answer), target_runtime, graph, words, "export(file, runtime, graph=…)")
    else:
        refuse_another("An answer", graph, ReadingWords, words)
        result = Exported(target_runtime, _settings(target_runtime, _cut(answer)), (), None)
    if target is not None:
        result.write(target)
    return result.text


def _cut(answer: object) -> _Cut:
    cut = answer.answer if isinstance(answer, Result) else answer
    for part in ("chosen", "partition", "plan"):
        cut = cut if isinstance(cut, _Cut) else getattr(cut, part, cut)
    if not isinstance(cut, _Cut):
        raise InputError(f"This holds no cut into stages ({type(answer).__name__}); give a partition or a plan.")
    return cut


def exported(file: Path, runtime: Runtime, graph: GraphLike | None, words: ReadingWords, again: str) -> Exported:
    """The cut of a file or a folder of stages; `again` says how to state a missing graph.

    Raises
    ------
    InputError
        As `export`.
    """
    file, manifest = _answer_file(file)
    answer, stated = _read(read_json(file), file, runtime, graph, words, again)
    settings = _settings(runtime, answer) if manifest is None else _words_of_stages(runtime, answer, manifest)
    lines = [] if stated is None else [printable(f"{answer.instance.label}: {file.name} states that {stated}")]
    return Exported(runtime, settings, tuple(lines), file)


def _settings(runtime: Runtime, answer: _Cut) -> str:
    """The cut in the runtime's settings."""
    text: str = PROBLEMS.of(answer.instance).settings(runtime)[runtime.name](answer)
    return text


def _words_of_stages(runtime: Runtime, answer: _Cut, manifest: Manifest) -> str:
    if not isinstance(runtime, StageFileRuntime) or isinstance(answer, GridPlan | Deployment):
        return _settings(runtime, answer)
    files = [
        StageFile(
            name=stage.file,
            inputs=tuple(received.name for received in stage.inputs),
            outputs=tuple(sent.name for sent in stage.outputs),
        )
        for stage in manifest.stages
    ]
    return runtime.settings_for(answer, files)


def _read(
    document: Value, file: Path, runtime: Runtime, graph: GraphLike | None, words: ReadingWords, again: str
) -> tuple[_Cut, str | None]:
    """The answer of a file, and what the file claims about all answers, which is not checked here."""
    problem = problem_of(document)
    if problem is not None:
        refuse_another(f"{file}: it", graph, ReadingWords, words)
        cut: tuple[_Cut, str | None] = problem.cut(document)
        return cut
    answer = AnswerFile.of(document)
    if graph is None:
        raise InputError(f"{file}: it does not hold its graph; name that: {again} {answer.graph_name or 'GRAPH'}")
    loaded = read_graph(graph, words)
    if answer.graph_hash not in (None, loaded.content_hash):
        loaded = runtime.seen(loaded)
    # Where the words cut does not depend on speeds.
    return answer.partition(loaded, lambda k, stated: Platform(k, 1.0)), None


# Answers as one page for people: `report`.


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
        Graph of partition files, which hold none.
    out : path, optional
        File to write.
    time_limit : float
        Seconds to check each answer, 20 by default.
    bandwidth, memory, activation_buffer, fit, constraints
        For partition files, in place of the values that they state.

    Returns
    -------
    str
        The page: question, bounds and what proves them, stages, graph, timeline, memory, settings for runtimes.

    Raises
    ------
    InputError
        If there is no answer, a file or an argument is refused, or a bound is above the cost of its answer.

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
    """The page of checked answers.

    Raises
    ------
    InputError
        If there is none.
    """
    from mtpp.plots.report.answers import article
    from mtpp.plots.report.drawing import page

    if not answers:
        raise InputError("There is no answer to report; give one or more.")
    articles = [article(answer) for answer in answers]
    title = articles[0][0] if len(articles) == 1 else f"{len(articles)} answers"
    return page(title, f"Made by mtpp {package_version() or ''}".rstrip() + "; costs are computed anew.", articles)


def reported(answer: ReportLike, graph: GraphLike | None, words: ReportWords) -> Reported:
    """An answer with the verdict on it and its settings for runtimes.

    Raises
    ------
    InputError
        As `report`.
    """
    if isinstance(answer, str | PathLike):
        return _of_file(path_of("answer", answer), graph, words)
    refuse_another("An answer", graph, PartitioningWords, words)
    if isinstance(answer, Partition):
        answer = Result("given", answer.instance, answer)
    if not isinstance(answer, Result):
        raise InputError(f"A result, a partition or a file is reported, no {type(answer).__name__}.")
    if answer.bound is None and answer.impossible is None:
        return _reported(answer, None, "no bound is known")
    with tempfile.TemporaryDirectory() as folder:
        return _reported(answer, *_checked(answer.save(Path(folder) / "answer.json"), words))


def _answer_file(path: Path) -> tuple[Path, Manifest | None]:
    """The file of an answer, or that of a folder of stages with its manifest; a model is refused."""
    refuse_model(path)
    if not path.is_dir():
        return path, None
    manifest = read_manifest(path)
    return path / manifest.certificate.file, manifest


def _of_file(file: Path, graph: GraphLike | None, words: ReportWords) -> Reported:
    source, (file, manifest) = file, _answer_file(file)
    answer = read(file, graph, **pick(PartitioningWords, words))
    if problem_of(read_json(file)) is None:
        return _reported(answer, None, "the file states no bound", manifest=manifest)
    check = f"mtpp verify {shlex.quote(str(source if manifest is None else file))}"
    return _reported(answer, *_checked(file, words), check, manifest)


def _checked(file: Path, words: ReportWords) -> tuple[Verdict | None, str]:
    """The verdict on a file with an empty text, or None with the reason if time was up."""
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
    """Settings by runtime, and reasons by runtime for those that cannot express the answer."""
    words: dict[str, str] = {}
    refusals: dict[str, str] = {}
    if result.answer is not None:
        for name, write in PROBLEMS.of(result.instance).settings().items():
            try:
                words[name] = write(_cut(result))
            except InputError as error:
                refusals[name] = str(error)
    return words, refusals


def _files(manifest: Manifest) -> list[list[str]]:
    return [
        [
            str(stage.block),
            stage.file,
            str(stage.nodes),
            ", ".join(received.name for received in stage.inputs),
            ", ".join(sent.name for sent in stage.outputs),
            time_in_words(stage.time, "s"),
        ]
        for stage in manifest.stages
    ]
