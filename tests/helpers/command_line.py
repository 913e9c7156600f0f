"""The command line as tests call it: one line for a call, a row for what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.cli.main import main

PATH = {
    "format": "mtpp-graph/1",
    "nodes": [{"work": w, "output_bytes": 1} for w in (3, 1, 2)],
    "edges": [[0, 1], [1, 2]],
}


def mtpp(command: str) -> int:
    return main(command.split())


def assert_misuse(command: str, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr says what is wrong with the command, and exit code 2 that it is the user's."""
    assert mtpp(command) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert named in line


def columns(out: str) -> dict[str, str]:
    """The last row of a printed table by column; columns are at least two blanks apart."""
    header, *rows = ([cell.strip() for cell in line.split("  ") if cell.strip()] for line in out.strip().splitlines())
    return dict(zip(header, rows[-1], strict=True))


def graph_file(folder: Path, **changes: Any) -> None:
    (folder / "graph.json").write_text(json.dumps(PATH | changes))
