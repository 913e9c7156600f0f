"""The options that several verbs share, each with one name and one help text."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

# As `typer.Option`, each in its panel of the help.
of_question = partial(typer.Option, rich_help_panel="The question")
of_search = partial(typer.Option, rich_help_panel="The search")
of_exchange = partial(typer.Option, rich_help_panel="Other programs")
of_files = partial(typer.Option, rich_help_panel="Files")
of_printing = partial(typer.Option, rich_help_panel="What is printed")
of_device = partial(typer.Option, rich_help_panel="The device")

Graph = Annotated[str, typer.Argument(metavar="GRAPH", help="An architecture (mtpp list architectures) or a file.")]
Blocks = Annotated[str, of_question("-k", metavar="K[,K…]", help="Number of blocks, or several.")]
BlocksOrAuto = Annotated[
    str,
    of_question(
        "-k",
        metavar="K[,K…]|auto",
        help="Number of blocks, or several; auto: the least with which it fits, or that reaches --throughput.",
    ),
]
Throughput = Annotated[
    str | None, of_question(metavar="RATE", help="With -k auto: runs per unit of time to reach, such as 250/s.")
]
Bandwidth = Annotated[
    str | None,
    of_question(
        metavar="RATE",
        help="Between blocks: 25GB/s, 200Gbps, or a bare number, the bytes per unit of work time.  "
        "[default: 25GB/s; 1 with --communication cost]",
    ),
]
Memory = Annotated[
    str | None,
    of_question(
        metavar="BYTES", help="Fast memory of a block: 16GB, 16GiB, or a bare number of bytes.  [default: no limit]"
    ),
]
DeviceMemory = Annotated[
    str | None,
    of_question(metavar="BYTES", help="Of a device: 16GB, 16GiB, or a bare number of bytes.  [default: no limit]"),
]
ActivationBuffer = Annotated[
    str | None, of_question(metavar="BYTES", help="Part of --memory that is kept for activations.")
]
Fit = Annotated[bool, of_question("--fit", help="--memory is a hard limit: what does not fit is no answer.")]
ConstraintsFile = Annotated[
    Path | None,
    of_question(
        metavar="FILE",
        help="Nodes that stay together, windows of stages, outputs that are never cut (mtpp-constraints/1).",
    ),
]
ColourClasses = Annotated[
    bool, of_question("--colour-classes", help="Nodes of a colour class of an MSR inference profile stay together.")
]
For = Annotated[
    str | None,
    of_question("--for", metavar="NAME", help="Only cuts that this runtime can express (mtpp list runtimes)."),
]
ExportFor = Annotated[str, typer.Option("--for", metavar="NAME", help="The runtime (mtpp list runtimes).")]
Dim = Annotated[
    list[str] | None,
    of_question(metavar="NAME=N", help="Dimension of a network, such as batch=8 or phase=decode; may be repeated."),
]
Level = Annotated[str, of_question(metavar="operator|layer", help="What a node of an architecture is.")]
Training = Annotated[bool, of_question("--training", help="An architecture's forward and backward pass.")]
Reader = Annotated[
    str | None, of_question(metavar="NAME", help="Format of the file, if it is not recognised (mtpp list readers).")
]
Communication = Annotated[
    str, of_question(metavar="size|cost", help="Sizes of tensors, or the edge costs of an MSR file.")
]
InputWork = Annotated[
    str | None,
    of_question(
        metavar="keep|drop",
        help="Whether the Input nodes of a PipeDream profile take their time.  [default: keep, with a warning]",
    ),
]
TimeUnit = Annotated[
    str | None, of_question(metavar="s|ms|us", help="Of the times of a Piper or DOT file.  [default: s]")
]
Cost = Annotated[
    str | None,
    of_device(
        metavar="roofline|measured",
        help="Work of an ONNX model: from the options below, or from onnxruntime on this machine.  [default: roofline]",
    ),
]
PeakFlops = Annotated[
    str | None,
    of_device(
        metavar="FLOP/S",
        help="What prices an architecture, an ONNX model or a .pt2: 312TFLOP/s, or a bare number of operations per "
        "second.  [default: 100T]",
    ),
]
MemoryBandwidth = Annotated[
    str | None,
    of_device(
        metavar="RATE",
        help="Of that device to its own memory: 1.5TB/s, or a bare number of bytes per second.  [default: 1.5TB/s]",
    ),
]
Seed = Annotated[int, of_search(min=0, help="Same seed, same answer.")]
TimeLimit = Annotated[float, of_search(metavar="SECONDS", help="For each k.")]
OptionalTimeLimit = Annotated[float | None, of_search(metavar="SECONDS", help="For each k.  [default: none]")]
Solver = Annotated[str, of_search(metavar="NAME", help="See mtpp list solvers.")]
Gap = Annotated[float, of_search(metavar="X", help="Relative gap that is good enough.")]
Threads = Annotated[
    int,
    of_search(metavar="N", help="Threads of the solver; certify gives one of several to a search beside the proofs."),
]
Start = Annotated[Path | None, of_search(metavar="FILE", help="Partition to start from (mtpp-partition/1).")]
Out = Annotated[
    Path | None, of_files(metavar="FILE", help="Write the answer as JSON; with several k, '-kK' is put into the name.")
]
Json = Annotated[
    bool,
    of_printing("--json", help="One JSON document on stdout, that of --out, and nothing else; of several k a list."),
]
Quiet = Annotated[bool, of_printing("--quiet", help="No progress, and of the answer the result line only.")]
Plot = Annotated[Path | None, of_files(metavar="FILE", help="Draw the partition (.png, .svg or .pdf).")]
