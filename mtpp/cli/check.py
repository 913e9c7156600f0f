"""The verb ``mtpp check``: words for a runtime, judged by the installed program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtpp.cli import options
from mtpp.cli.command import command
from mtpp.cli.exit_codes import DONE
from mtpp.cli.printing import Printing

__all__ = ["check"]


@command
def check(
    *,
    file: Annotated[Path, typer.Argument(metavar="SETTINGS", help="A file of mtpp export --out.")],
    runtime: options.ExportFor,
    model: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="For accelerate the folder of config.json, for openvino the ONNX file."),
    ] = None,
    printing: Printing,
) -> int:
    """Let the installed runtime say whether it takes the settings of mtpp export.

    Its own parser reads them, in a process of its own; nothing in them is run. Exit code 2 if it refuses them, or is
    not installed.

    Example: mtpp check layout.txt --for megatron
    """
    from mtpp.api.checking import check as judged

    said = judged(file, runtime, model=model)
    printing.say(f"taken by {said}")
    printing.document(lambda: {"runtime": runtime, "said": said})
    return DONE
