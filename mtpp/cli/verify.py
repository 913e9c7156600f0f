"""``mtpp verify`` and ``mtpp explain``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

from instances import Result, save_graph
from instances.errors import InputError, assumptions, find
from instances.graph.graph import graph_document
from instances.graph.memory import Summary, summarise
from instances.json_files import finite_or_none
from instances.partitioning.partition_file import partition_document
from instances.runtimes import RUNTIMES
from instances.system.processes import NotBoundedError
from mtpp.cli import options
from mtpp.cli.command import Files, Without, command, complain
from mtpp.cli.exit_codes import DONE, FALSE, INTERRUPTED, NO_SOLVER, TRUSTED, UNCHECKED, WRONG
from mtpp.cli.printing import Printing, question_line, tables
from mtpp.questions.partitioning import ExplainWords, FeatureWords, ReportWords
from mtpp.questions.reading import ReadingWords, read_graph
from mtpp.questions.verifying import UserGraph, VerifyWords
from mtpp.text.tables import frame_table, left_aligned, records, terminal_width
from mtpp.verification.verdict import Verdict

if TYPE_CHECKING:
    from mtpp.certifying.explain import Findings
    from mtpp_models import SolverNotAvailableError

# The verb ``mtpp explain``: what the answer of a file is, how good it is, and what would have to change.


@command
def explain(
    *,
    file: Annotated[
        Path,
        options.argument(
            metavar="FILE",
            help='A file that another verb wrote, or by hand {"block": [0, 0, 1]} or {"stages": [["a", "b"], ["c"]]}.',
        ),
    ],
    graph: options.GraphOfFile = None,
    words: ExplainWords,
    printing: Printing,
) -> int:
    """Say what an answer is, how good it is, and what would have to change to do better.

    Of a partition a bound is proved; bandwidth, memory and constraints are those of the file unless they are given
    here. Exit code 1 if the file states a bound that is above the cost of its answer.

    Example: mtpp explain partition.json bert-base --time-limit 20
    """
    from mtpp.api.answers import explainable, explained
    from mtpp.certifying.explain import Findings

    result, false = explainable(str(file), graph, words, f"mtpp explain {file}")
    result = result.noted(*assumptions())
    faults: list[SolverNotAvailableError] = []
    with printing.working(result.instance.label) as live:
        findings, interrupted = explained(result, words, live.show, faults.append)
    sentences, width = findings.sentences(), terminal_width()
    text = "\n".join(sentences if width is None else (fill(line, width) for line in sentences))
    if isinstance(findings, Findings):
        _show_partition(findings, text, result, printing)
    else:
        facts = replace(result, notes=())._facts()  # what was read took no method and no time, and proves nothing now
        printing.say(left_aligned([fact for fact in facts.items() if fact[0] not in ("method", "status", "seconds")]))
        printing.notes(result)
        printing.detail(text, question_line(result.instance))
        printing.document(lambda: result_summary(result) | {"sentences": sentences, "notes": list(result.notes)})
    for bound in false:
        complain(f"{file}: the bound {bound.value:.6g} of {bound.method} is above the bottleneck; it is false.", FALSE)
    for fault in dict.fromkeys(map(str, faults)):
        complain(fault, NO_SOLVER)
    if interrupted:
        return INTERRUPTED
    return FALSE if false else NO_SOLVER if faults else DONE


def _show_partition(findings: Findings, text: str, result: Result[Any, Any], printing: Printing) -> None:
    from mtpp.cli.printing import explained_row

    partition = findings.partition
    printing.rows([explained_row(partition, findings.bound)])
    printing.notes(result)
    printing.detail(*tables(partition, terminal_width()), text, question_line(partition.instance))
    printing.document(lambda: _document(findings, findings.sentences()) | {"notes": list(result.notes)})


def result_summary(result: Result[Any, Any]) -> dict[str, Any]:
    """Cost, bound and ratio of a result as JSON members; infinite numbers are null."""
    bound = result.bound
    return {
        "instance": result.instance.label,
        "cost": result.cost,
        "bound": None if bound is None else bound.value,
        "method": None if bound is None else bound.witness.get("by", bound.method),
        "ratio": None if result.ratio is None else finite_or_none(result.ratio),
    }


def _document(findings: Findings, sentences: list[str]) -> dict[str, Any]:
    bound, cost = findings.bound, findings.partition.bottleneck
    return {
        "instance": findings.partition.instance.name,
        "partition": partition_document(findings.partition),
        "cost": finite_or_none(cost),
        "bound": None if bound is None else bound.value,
        "method": None if bound is None else bound.method,
        "stated": findings.stated,
        "ratio": None if bound is None or bound.value <= 0 or cost == math.inf else max(1.0, cost / bound.value),
        "better": None if findings.better is None else partition_document(findings.better),
        "sentences": sentences,
    }


# The verb ``mtpp verify``: check certificates without the programs that made them.


#: From good to bad; the exit code of several files is the worst.
_SEVERITY = (DONE, TRUSTED, UNCHECKED, WRONG, FALSE)


@command
def verify(
    *,
    certificates: options.Answers,
    graph: Annotated[
        str | None, options.of_question(metavar="GRAPH", help="The graph that you asked about; another one is a fault.")
    ] = None,
    words: Annotated[VerifyWords, Without({"reader", "communication", "input_work"})],
    printing: Printing,
) -> int:
    """Check certificates without the programs that made them.

    First the question is printed that the file answers: is it yours? State what you asked for, as -k 8 --bandwidth
    25GB/s --graph bert-base, and a difference is a fault, exit code 1.

    Costs and combinatorial bounds are computed anew in code of their own, in exact numbers: the bottleneck of a
    partition, the time of a plan in the order of operations that its file states, the step time, memory and bound of a
    placement. What only a solver can say, and the bound of a plan, is listed as trusted. Exit codes: 0 the ratio is
    proved again, or confirmed by --rerun; 4 it rests on trusted bounds; 1 a number is false, or the question another
    one; 2 the file is no certificate, or lacks its question; 6 not checked within the limits.

    Example: mtpp verify certificate.json -k 4 --bandwidth 25GB/s --graph model.onnx
    """
    from mtpp.api.verification import verified

    user_graph = None if graph is None else UserGraph(graph, words)
    code, documents = DONE, []
    for number, file in enumerate(certificates):
        try:
            with printing.working(str(file)):
                verdict = verified(file, user_graph, words)
        except InputError as error:
            outcome = complain(str(error), WRONG)
        except NotBoundedError as error:
            outcome = complain(f"{file}: not checked: {error}; give more --time-limit, or do not trust it.", UNCHECKED)
        else:
            printing.say("\n" * (bool(number) and not printing.quiet) + left_aligned(_headlines(verdict, printing)))
            printing.detail(left_aligned(verdict.table()))
            documents.append(verdict.document())
            outcome = UNCHECKED if verdict.ran_out else TRUSTED if verdict.rests_on_trust else DONE
            for fault in verdict.faults:
                outcome = complain(f"{file}: {fault}", FALSE)
        code = max(code, outcome, key=_SEVERITY.index)
    if documents:
        printing.document(lambda: documents if len(certificates) > 1 else documents[0])
    return code


def _headlines(verdict: Verdict, printing: Printing) -> list[tuple[str, str]]:
    """Labels and texts of a verdict; if output is quiet, only its name and conclusion."""
    lines = verdict.headlines()
    return [(verdict.certificate.file, " ".join(lines[-2]).strip())] if printing.quiet else lines


# ``mtpp import`` and ``mtpp check``: graphs of files.


# The verb ``mtpp import``: read a network or a profile, say what it is, and write it as a graph file.


# Attributes that are worth a line, and what it is called.
_NOTES = {
    "flops": "flops",
    "multiply_adds": "multiply-adds",
    "parameter_count": "parameters",
    "views_folded": "views folded",
    "unknown_operators": "unknown operators, only their bytes count",
    "approximate_loops": "loops with a guessed cost",
    "unused_parameters": "parameters that nothing reads",
    "warnings": "warnings",
}


@command
def import_graph(
    *,
    graph: options.Graph,
    files: Annotated[Files, Without({"plot"})],
    words: Annotated[ReadingWords, Without({"communication"})],
    printing: Printing,
) -> int:
    """Read a network or a profile, print what it is, and write it as a graph file.

    Example: mtpp import model.onnx --dim batch=8 --dim sequence=128 --out graph.json
    """
    files.check()
    network = read_graph(graph, words)
    if files.out is not None:
        save_graph(network, files.out)
    rows = summary_rows(summarise(network))
    printing.say(left_aligned(rows[:1] if printing.quiet else rows))
    printing.document(partial(graph_document, network))
    return DONE


def summary_rows(summary: Summary) -> list[tuple[str, str]]:
    """The summary as printed rows; operators without costs are named."""
    unit = summary.time_unit
    share = f"{summary.heaviest_work / summary.work:.1%} of the work" if summary.work else "no work"
    width = "not computed, the graph is large" if summary.width is None else str(summary.width)
    rows = [
        ("name", summary.name),
        ("source", summary.source or "–"),
        ("nodes", str(summary.nodes)),
        ("edges", str(summary.edges)),
        (f"work [{unit}]", f"{summary.work:.6g}"),
        ("parameters [bytes]", f"{summary.param_bytes:.6g}"),
        *([("states [bytes]", f"{summary.state_bytes:.6g}")] if summary.state_bytes else []),
        ("tensors [bytes]", f"{summary.tensor_bytes:.6g}"),
        ("widest antichain", width),
        ("heaviest node", f"{summary.heaviest_node}, {summary.heaviest_work:.6g} {unit}, {share}"),
    ]
    return rows + [
        (label, _shown(summary.attributes[key])) for key, label in _NOTES.items() if key in summary.attributes
    ]


def _shown(value: object, depth: int = 2) -> str:
    if isinstance(value, Mapping | list | tuple) and not depth:
        return "…"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} ({_shown(item, depth - 1)})" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_shown(item, depth - 1) for item in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


# The verb ``mtpp check``: words for a runtime, judged by the installed program.


@command
def check(
    *,
    file: Annotated[Path, options.argument(metavar="SETTINGS", help="A file of mtpp export --out.")],
    runtime: options.ExportFor,
    model: Annotated[
        Path | None,
        options.of_files(metavar="MODEL", help="For accelerate the folder of config.json, for openvino the ONNX file."),
    ] = None,
    printing: Printing,
) -> int:
    """Let the installed runtime say whether it takes the settings of mtpp export.

    Its own parser reads them, in a process of its own; nothing in them is run. Exit code 2 if it refuses them, or is
    not installed.

    Example: mtpp check layout.txt --for megatron
    """
    from mtpp.api.verification import check as judged

    judgement = judged(file, runtime, model=model)
    printing.say(f"taken by {judgement}")
    printing.document(lambda: {"runtime": runtime, "said": judgement})
    return DONE


# The verb ``mtpp features``: measures of graphs, one row a graph and k.


@command
def features(
    *,
    graphs: Annotated[
        list[str], options.argument(metavar="GRAPH…", help="Architectures, files, folders, suites (mtpp list suites).")
    ],
    k: Annotated[str | None, options.of_question("-k", metavar="K[,K…]", help="Number of blocks, or several.")] = None,
    words: FeatureWords,
    most_ideals: Annotated[
        int, options.of_limits("--most-ideals", metavar="N", help="More ideals are not counted.")
    ] = 100_000,
    out: Annotated[Path | None, options.of_files(metavar="FILE", help="Write the frame there (.csv).")] = None,
    printing: Printing,
) -> int:
    """Measure graphs: depth, width, ideals, equal branches, communication, the heaviest node, parameters.

    The more ideals a graph has, the less a dynamic program closes; a heavy node makes simple bounds tight. What has no
    times is priced for a device of 100 TFLOP/s and 1.5 TB/s to its memory.

    Example: mtpp features networks -k 4,16 --out features.csv
    """
    from mtpp.api.comparison import features as measured

    Files(out=out).check()
    with printing.working("features"):
        frame = measured(graphs, k, most_ideals, **words)
    if out is not None:
        frame.to_csv(out, index=False)
    printing.say(frame_table(frame))
    printing.detail(*(f"{note}." for note in assumptions()))
    printing.document(lambda: records(frame))
    return DONE


# ``mtpp export`` and ``mtpp report``: answers for runtimes and for people.


# The verb ``mtpp export``: a cut of a file as the settings of a runtime, with its certificate beside it.


@command
def export(
    *,
    file: Annotated[
        Path,
        options.argument(
            metavar="FILE",
            help="A certificate, a partition, a serving front, a plan with its question, or a stages folder.",
        ),
    ],
    graph: options.GraphOfFile = None,
    runtime: options.ExportFor,
    runtime_version: Annotated[
        str | None,
        options.of_question(
            basic=False, metavar="VERSION", help="Its release, where words differ.  [default: the latest that is known]"
        ),
    ] = None,
    words: ReadingWords,
    out: Annotated[
        Path | None,
        options.of_files(
            metavar="FILE", help="Write the words there; a certificate is copied to FILE.certificate.json."
        ),
    ] = None,
    printing: Printing,
) -> int:
    """Write a cut as the settings of a runtime, such as vllm or megatron.

    What the runtime cannot express is refused. With --for, partition and certify ask for what it can express alone.

    Of a folder of stages the certificate says where it is cut; onnxruntime-genai is told its files and tensors.

    Example: mtpp export certificate.json --for vllm
    """
    from mtpp.api.answers import exported

    target = find(RUNTIMES, runtime, "runtime").of_version(runtime_version)
    Files(out=out).check(None if out is None else Path(f"{out}.certificate.json"))
    answer = exported(file, target, graph, words, f"mtpp export {file}")
    if out is None:
        printing.say(answer.text.removesuffix("\n"))
    else:
        answer.write(out)
    printing.document(lambda: {"runtime": runtime, "words": answer.settings, "stated": list(answer.stated)})
    return DONE


# The verb ``mtpp report``: answers as one page for people.


@command
def report(
    *,
    files: options.Answers,
    graph: options.GraphOfFiles = None,
    words: Annotated[ReportWords, Without({"colour_classes", "runtime"})],
    out: Annotated[Path, options.of_files(metavar="FILE", help="The page, HTML.")] = Path("report.html"),
    printing: Printing,
) -> int:
    """Make one HTML page of answers: question, stages, graph, bounds and what proves them, timeline, memory.

    The page is one file that loads nothing and runs no script. Costs are computed anew, and bounds proved again within
    --time-limit, as by verify. Exit code 1 if a number of a file is false, which the page says, too.

    Example: mtpp report certificate.json --out report.html
    """
    from mtpp.api.answers import reported, written_page

    Files(out=out).check()
    texts = []
    for file in files:
        with printing.working(str(file)):
            texts.append(reported(file, graph, words))
    page = written_page(texts)
    out.write_text(page, encoding="utf-8")
    printing.say(str(out))
    printing.document(lambda: {"page": str(out), "bytes": len(page.encode()), "answers": len(texts)})
    codes = [DONE]
    for file, text in zip(files, texts, strict=True):
        for fault in () if text.verdict is None else text.verdict.faults:
            codes.append(complain(f"{file}: {fault}", FALSE))
    return max(codes)
