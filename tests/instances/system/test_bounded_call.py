"""What works on a stranger's file ends, whatever the file asks for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from certificates import PLAIN
from command_line import mtpp

from instances import InputError
from instances.json_files import write_json
from instances.system.processes import NotBoundedError, run_bounded


def take(size: int) -> int:
    return len(bytearray(size))


def refuse(message: str) -> None:
    raise InputError(message)


def leave(code: int) -> None:
    raise SystemExit(code)


def test_answers_and_errors_come_back() -> None:
    assert run_bounded(take, 7, seconds=60.0) == 7
    with pytest.raises(InputError, match="not so"):
        run_bounded(refuse, "not so", seconds=60.0)


def test_time_memory_and_death_are_told() -> None:
    """Each by a message, and nothing is left running."""
    with pytest.raises(NotBoundedError, match="did not end"):
        run_bounded(time.sleep, 1000.0, seconds=0.2)
    with pytest.raises(NotBoundedError, match="memory"):
        run_bounded(take, 2**40, seconds=60.0)
    with pytest.raises(NotBoundedError, match="ended from outside"):
        run_bounded(leave, 3, seconds=60.0)


def test_a_file_that_needs_too_long_is_not_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 6 and one line."""
    write_json(tmp_path / "c.json", PLAIN)
    monkeypatch.setattr("mtpp.api.verification._PATIENCE", -1.0)
    assert mtpp(f"verify {tmp_path / 'c.json'} --time-limit 0.5") == 6
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "not checked: it did not end within 0 s" in streams.err
