"""Lines about the runs of a table."""

from __future__ import annotations

from typing import Any

import pytest

from mtpp.runs.engine import RunBar


def test_without_a_terminal_a_line_comes_now_and_then_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A second for each run, but an hour for the third."""
    now = 1e6
    monkeypatch.setattr("time.monotonic", lambda: now)
    run: dict[str, Any] = {"instance": "chain", "k": 2, "method": "kahn", "error": None}
    bar = RunBar(5)
    for seconds in (1, 1, 3600, 1, 1):
        now += seconds
        bar.advance(run)
    assert capfd.readouterr().err.splitlines() == [
        "3 of 5 runs, about 2401 s left", "5 of 5 runs, about 0 s left"
    ]  # fmt: skip
