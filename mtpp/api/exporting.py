"""Cuts as settings of runtimes: `export`."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from instances import InputError, Partition, Platform, Result
from instances.errors import WordError, printable
from instances.json_files import Value, check_writable, read_json
from instances.partitioning.answer_file import AnswerFile
from instances.planning import Plan
from instances.planning.grid.plan import GridPlan
from instances.registry import find
from mtpp.problems.answers import format_of
from mtpp.problems.registry import PROBLEMS
from mtpp.questions.reading import ReadingWords, read_graph
from mtpp.questions.words import GraphLike, chosen, path_of, takes_words
from mtpp.stages.manifest import read_manifest

if TYPE_CHECKING:
    from instances.runtimes import Runtime
    from mtpp.stages.records import Manifest

__all__ = ["Exported", "export", "exported"]

#: A result, a partition or a plan; or a file of one, or a folder of stages.
CutLike: TypeAlias = "Result[Any, Any] | _Cut | str | PathLike[str]"
_Cut: TypeAlias = Partition | Plan | GridPlan


@dataclass(frozen=True)
class Exported:
    """A cut as the settings of a runtime."""

    runtime: Runtime
    settings: str  # as the runtime takes them
    stated: tuple[str, ...]  # statements of the file about all answers, which nothing has checked
    file: Path | None  # the certificate, to be copied beside the settings; None if there is none

    @property
    def text(self) -> str:
        """The settings, with the statements as comments where the runtime has such."""
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
        That of a partition file, which holds none.
    out : path, optional
        File to write; a certificate file is copied beside it.
    runtime_version : str, optional
        Release of the runtime, such as "0.2", where its words differ; by default the latest that is known.
    **words
        Of `graph`, as for `mtpp.load`.

    Returns
    -------
    str
        The text for the runtime.

    Raises
    ------
    InputError
        If the file or a word is refused, or the runtime cannot express the cut.

    Examples
    --------
    >>> import mtpp
    >>> result = mtpp.certify("llama-3-8b", k=2, level="layer", runtime="vllm", time_limit=5)
    >>> "VLLM_PP_LAYER_PARTITION" in mtpp.export(result, "vllm")
    True
    """
    from instances.runtimes import RUNTIMES

    found = find(RUNTIMES, runtime, "runtime").of_version(runtime_version)
    target = None if out is None else path_of("out", out)
    if isinstance(answer, str | PathLike):
        if target is not None and target.exists() and Path(answer).exists() and target.samefile(answer):
            raise WordError("out", str(target), "this is the file that the cut is read from; give another name.")
        result = exported(Path(fspath(answer)), found, graph, words, "export(file, runtime, graph=…)")
    else:
        if graph is not None or chosen(ReadingWords, words):
            raise InputError("An answer has its graph; leave out all that says another one.")
        result = Exported(found, _settings(found, _cut(answer)), (), None)
    if target is not None:
        result.write(target)
    return result.text


def _cut(answer: object) -> _Cut:
    cut = answer.answer if isinstance(answer, Result) else answer
    for part in ("partition", "plan"):
        cut = getattr(cut, part, cut)
    if not isinstance(cut, _Cut):
        raise InputError(f"This holds no cut into stages ({type(answer).__name__}); give a partition or a plan.")
    return cut


def exported(file: Path, runtime: Runtime, graph: GraphLike | None, words: ReadingWords, again: str) -> Exported:
    """The cut of a file or a folder of stages; `again` says how to name a missing graph.

    Raises
    ------
    InputError
        As `export`.
    """
    manifest = read_manifest(file) if file.is_dir() else None
    if manifest is not None:
        file = file / manifest.certificate.file
    answer, stated = _read(read_json(file), file, runtime, graph, words, again)
    settings = _settings(runtime, answer) if manifest is None else _words_of_stages(runtime, answer, manifest)
    lines = [] if stated is None else [printable(f"{answer.instance.label}: {file.name} states that {stated}")]
    return Exported(runtime, settings, tuple(lines), file)


def _settings(runtime: Runtime, answer: _Cut) -> str:
    from instances.runtimes.grid_settings import grid_settings

    return grid_settings(answer, runtime.name) if isinstance(answer, GridPlan) else runtime.settings(answer)


def _words_of_stages(runtime: Runtime, answer: _Cut, manifest: Manifest) -> str:
    from instances.runtimes.onnxruntime_genai import StageFile, StageFileRuntime

    if not isinstance(runtime, StageFileRuntime) or isinstance(answer, GridPlan):
        return _settings(runtime, answer)
    files = [
        StageFile(
            name=stage.file.file,
            inputs=tuple(received.tensor.name for received in stage.inputs),
            outputs=tuple(sent.tensor.name for sent in stage.outputs),
        )
        for stage in manifest.stages
    ]
    return runtime.settings_for(answer, files)


def _read(
    document: Value, file: Path, runtime: Runtime, graph: GraphLike | None, words: ReadingWords, again: str
) -> tuple[_Cut, str | None]:
    """The answer of a file, and its statement about all answers, which nothing here checks."""
    problem = PROBLEMS.of_format(format_of(document))
    if problem is not None:
        if graph is not None or chosen(ReadingWords, words):
            raise InputError(f"{file}: it holds its graph; leave out all that says another one.")
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
