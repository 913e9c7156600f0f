"""What all tables share: a log that says how to go on, refusals, and files in each format."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from study_jobs import Sum

from experiments.studies.report import Report, Section
from instances import InputError
from mtpp.runs.job import Run
from mtpp.runs.workers import Workers
from mtpp.text.tables import FORMATS

TABLE = Section("name", "Title", ["method", "k=1"], [["kahn", "1.5"]], "A note.")


def picture() -> dict[str, Axes]:
    return {"picture": Figure().add_subplot()}


class Interrupting(Sum):
    """As if Ctrl-C was pressed while it ran."""

    def answer(self, start: Sequence[Run]) -> Run:
        raise KeyboardInterrupt


def in_this_process() -> Workers:
    return Workers(lambda: ThreadPoolExecutor(1), 1)


def test_an_interruption_says_where_the_runs_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run that is done is there when the same call comes again, which makes the rest."""
    report = Report(tmp_path / "deep" / "runs.jsonl", tmp_path / "tables")
    with pytest.raises(KeyboardInterrupt):
        report.make_runs([Sum("a", 1), Interrupting("b")], in_this_process())
    assert f"{report.out} holds the runs that are done, and the same call makes the rest" in capsys.readouterr().err
    assert (tmp_path / "tables").is_dir()
    runs = report.make_runs([Sum("a", 2), Sum("b", 3)], in_this_process())
    assert [run["sum"] for run in runs] == [1, 3]
    assert "1 runs are done already" in capsys.readouterr().err


def test_a_folder_that_cannot_be_is_refused_before_the_log_is_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        Report(tmp_path / "runs.jsonl", tmp_path / "file").make_runs([], in_this_process())
    assert not (tmp_path / "runs.jsonl").exists()


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="style='doc': give one of txt, md, csv, tex"):
        Report(Path("runs.jsonl"), style="doc")


@pytest.mark.parametrize("style", FORMATS)
def test_sections_are_printed_and_written(style: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Report(Path("runs.jsonl"), tmp_path, style).publish([TABLE], picture)
    text = FORMATS[style](TABLE.header, TABLE.rows)
    assert capsys.readouterr().out == f"Title\n\n{text}\n\nA note.\n\n"
    assert {path.name for path in tmp_path.iterdir()} == {
        *(f"name.{suffix}" for suffix in ("md", "csv", "tex")),
        *(f"picture.{suffix}" for suffix in ("png", "svg")),
    }
    assert (tmp_path / "name.csv").read_text() == "method,k=1\nkahn,1.5\n"


def test_without_a_folder_nothing_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> dict[str, Axes]:
        raise AssertionError

    monkeypatch.chdir(tmp_path)
    Report(Path("runs.jsonl")).publish([TABLE], never)
    assert not list(tmp_path.iterdir())


def test_failed_runs_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(Path("runs.jsonl"))
    assert report.exit_code([False] * 3) == 0
    assert capsys.readouterr().err == ""
    assert report.exit_code([True, False, True]) == 1
    assert capsys.readouterr().err == (
        "2 of 3 runs failed; runs.jsonl has the reasons. The same call tries them again.\n"
    )


def test_bug_a_note_was_printed_below_each_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Report(tmp_path / "runs.jsonl").publish([TABLE, TABLE._replace(title="Next"), TABLE._replace(note="Other.")], dict)
    said = capsys.readouterr().out
    assert (said.count("A note."), said.count("Other."), said.count("kahn")) == (1, 1, 3)
