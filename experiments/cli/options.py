"""The options that several verbs share, each with one name and one help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

QUESTION = "The question"
SEARCH = "The search"
FILES = "Files"
DEVICE = "The device"

Graph = Annotated[str, typer.Argument(metavar="GRAPH", help="An architecture (mtpp list architectures) or a file.")]
Blocks = Annotated[
    str, typer.Option("-k", metavar="K[,K…]", help="Number of blocks, or several.", rich_help_panel=QUESTION)
]
Bandwidth = Annotated[
    str | None,
    typer.Option(
        metavar="RATE",
        help="Between blocks: 25e9 (bytes per unit of work time), 25GB/s or 200Gbps.  [default: 25GB/s; "
        "1 with --communication cost]",
        rich_help_panel=QUESTION,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="BYTES", help="Fast memory of a block, such as 16GiB.  [default: no limit]", rich_help_panel=QUESTION
    ),
]
ActivationBuffer = Annotated[
    str | None,
    typer.Option(metavar="BYTES", help="Part of --memory that is kept for activations.", rich_help_panel=QUESTION),
]
Dim = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=N", help="Dimension of a network, e.g. batch=8; may be repeated.", rich_help_panel=QUESTION
    ),
]
Level = Annotated[
    str,
    typer.Option(metavar="operator|layer", help="What a node of an architecture is.", rich_help_panel=QUESTION),
]
Training = Annotated[
    bool,
    typer.Option("--training", help="An architecture's forward and backward pass.", rich_help_panel=QUESTION),
]
Reader = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Format of the file, if it is not recognised (mtpp list readers).",
        rich_help_panel=QUESTION,
    ),
]
Communication = Annotated[
    str,
    typer.Option(
        metavar="size|cost", help="Sizes of tensors, or the edge costs of an MSR file.", rich_help_panel=QUESTION
    ),
]
InputWork = Annotated[
    str | None,
    typer.Option(
        metavar="keep|drop",
        help="Whether the Input nodes of a PipeDream profile take their time.  [default: keep, with a warning]",
        rich_help_panel=QUESTION,
    ),
]
TimeUnit = Annotated[
    str | None,
    typer.Option(
        metavar="s|ms|us", help="Of the times of a Piper or DOT file.  [default: s]", rich_help_panel=QUESTION
    ),
]
Cost = Annotated[
    str | None,
    typer.Option(
        metavar="roofline|measured",
        help="Work of an ONNX model: from the options below, or from onnxruntime on this machine.  [default: roofline]",
        rich_help_panel=DEVICE,
    ),
]
PeakFlops = Annotated[
    float | None,
    typer.Option(metavar="FLOP/S", help="Of the device.  [default: 100e12]", rich_help_panel=DEVICE),
]
MemoryBandwidth = Annotated[
    float | None,
    typer.Option(metavar="BYTES/S", help="Of the device to its own memory.  [default: 1.5e12]", rich_help_panel=DEVICE),
]
Seed = Annotated[int, typer.Option(min=0, help="Same seed, same answer.", rich_help_panel=SEARCH)]
TimeLimit = Annotated[float, typer.Option(metavar="SECONDS", help="For each k.", rich_help_panel=SEARCH)]
OptionalTimeLimit = Annotated[
    float | None, typer.Option(metavar="SECONDS", help="For each k.  [default: none]", rich_help_panel=SEARCH)
]
Solver = Annotated[str, typer.Option(metavar="NAME", help="See mtpp list solvers.", rich_help_panel=SEARCH)]
Gap = Annotated[float, typer.Option(metavar="X", help="Relative gap that is good enough.", rich_help_panel=SEARCH)]
Threads = Annotated[int, typer.Option(metavar="N", help="Threads of the solver.", rich_help_panel=SEARCH)]
Start = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Partition to start from (mtpp-partition/1).", rich_help_panel=SEARCH),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the answer as JSON; with several k, '-kK' is put into the name.",
        rich_help_panel=FILES,
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Draw the partition (.png, .svg or .pdf).", rich_help_panel=FILES),
]
