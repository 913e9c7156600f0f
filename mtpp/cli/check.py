"""``mtpp import`` and ``mtpp check``: graphs of files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

from instances import save_graph
from instances.graph.graph_file import graph_document
from instances.graph.memory import Summary, summarise
from mtpp.cli import options
from mtpp.cli.command import Files, Without, command
from mtpp.cli.exit_codes import DONE
from mtpp.cli.printing import Printing
from mtpp.questions.partitioning import PlatformWords
from mtpp.questions.reading import ReadingWords, read_graph

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
    from mtpp.text.tables import left_aligned

    files.check()
    network = read_graph(graph, words)
    if files.out is not None:
        save_graph(network, files.out)
    rows = summary_rows(summarise(network))
    printing.say(left_aligned(rows[:1] if printing.quiet else rows))
    printing.document(partial(graph_document, network))
    return DONE


def summary_rows(summary: Summary) -> list[tuple[str, str]]:
    """The summary as it is printed; what could not be priced is named."""
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
    words: PlatformWords,
    most_ideals: Annotated[
        int, options.of_limits("--most-ideals", metavar="N", help="More ideals are not counted.")
    ] = 100_000,
    out: Annotated[Path | None, options.of_files(metavar="FILE", help="Write the frame there (.csv).")] = None,
    printing: Printing,
) -> int:
    """Measure graphs: depth, width, ideals, equal branches, communication, the heaviest node, parameters.

    The more ideals a graph has, the less a dynamic program closes; a heavy node makes simple bounds tight.

    Example: mtpp features networks -k 4,16 --out features.csv
    """
    from mtpp.api.features import features as measured
    from mtpp.text.tables import frame_table, records

    Files(out=out).check()
    with printing.working("features"):
        frame = measured(graphs, k, most_ideals, **words)
    if out is not None:
        frame.to_csv(out, index=False)
    printing.say(frame_table(frame))
    printing.document(lambda: records(frame))
    return DONE
