"""The command line as tests call it: one line for a call, a row for what it prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mtpp.cli.main import main

PATH = {
    "format": "mtpp-graph/1",
    "nodes": [{"work": w, "output_bytes": 1} for w in (3, 1, 2)],
    "edges": [[0, 1], [1, 2]],
}


def mtpp(command: str) -> int:
    return main(command.split())


def assert_misuse(capsys: pytest.CaptureFixture[str], named: Mapping[str, str]) -> None:
    """One line on stderr names what is wrong with each command, and exit code 2 says that it is the user's."""
    for command, words in named.items():
        assert mtpp(command) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert words in line


def assert_impossible(capsys: pytest.CaptureFixture[str], command: str, reason: str) -> None:
    """The command says on stderr why no answer exists, with exit code 5."""
    assert mtpp(command) == 5
    assert reason in capsys.readouterr().err


def columns(out: str) -> dict[str, str]:
    """The last result line by column, above all other tables; columns are at least two blanks apart."""
    lines = out.strip().partition("\n\n")[0].splitlines()
    header, *rows = ([cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines)
    return dict(zip(header, rows[-1], strict=True))


def graph_file(folder: Path, **changes: Any) -> None:
    (folder / "graph.json").write_text(json.dumps(PATH | changes))
