"""Options that several verbs share, beside the words of questions; how words are spelled as options."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

# As `typer.Option`, each in its panel of the help.
of_question = partial(typer.Option, rich_help_panel="The question")
of_search = partial(typer.Option, rich_help_panel="The search")
of_exchange = partial(typer.Option, rich_help_panel="Other programs")
of_files = partial(typer.Option, rich_help_panel="Files")
of_printing = partial(typer.Option, rich_help_panel="What is printed")
# Words whose options are called otherwise.
_OPTIONS = {"k": "-k", "dims": "--dim", "runtime": "--for"}


def option_of(name: str) -> str:
    """The option of a word, such as --time-limit of time_limit."""
    return _OPTIONS.get(name, f"--{name.replace('_', '-')}")


def spelled(name: str, value: Any) -> str:
    """A word as the caller of the command line has written it."""
    return option_of(name) if value is None or value is True else f"{option_of(name)} {value}"


Graph = Annotated[str, typer.Argument(metavar="GRAPH", help="An architecture (mtpp list architectures) or a file.")]
Answers = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE…", help="Files that certify, bound, plan, place, flow or serve wrote, or folders of split."
    ),
]
GraphOfFile = Annotated[
    str | None, typer.Argument(metavar="[GRAPH]", help="That of a partition; the other files hold their graphs.")
]
GraphOfFiles = Annotated[
    str | None, typer.Option("--graph", metavar="GRAPH", help="That of partitions; the other files hold their graphs.")
]
Blocks = Annotated[str, of_question("-k", metavar="K[,K…]", help="Number of blocks, or several.")]
BlocksOrAuto = Annotated[
    str | None,
    of_question(
        "-k",
        metavar="K[,K…]|auto",
        help="Number of blocks, or several; auto: the least with which it fits, or that reaches --throughput.",
    ),
]
Throughput = Annotated[
    str | None, of_question(metavar="RATE", help="With -k auto: runs per unit of time to reach, such as 250/s.")
]
ExportFor = Annotated[str, typer.Option("--for", metavar="NAME", help="The runtime (mtpp list runtimes).")]
Out = Annotated[
    Path | None, of_files(metavar="FILE", help="Write the answer as JSON; with several k, '-kK' is put into the name.")
]
Json = Annotated[
    bool,
    of_printing("--json", help="One JSON document on stdout, that of --out, and nothing else; of several k a list."),
]
Quiet = Annotated[bool, of_printing("--quiet", help="No progress, and of the answer the result line only.")]
Plot = Annotated[Path | None, of_files(metavar="FILE", help="Draw the partition (.png, .svg or .pdf).")]
