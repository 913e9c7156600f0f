"""What all tables share: a log that says how to go on, refusals, and files in each format."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.studies.report import Section, check_style, exit_code, open_log, publish
from experiments.text_tables import FORMATS
from instances import InputError

TABLE = Section("name", "Title", ["method", "k=1"], [["kahn", "1.5"]], "A note.")


def picture() -> dict[str, Axes]:
    return {"picture": Figure().add_subplot()}


def test_an_interruption_says_where_the_runs_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run that is done is there when the log is opened again."""
    out = tmp_path / "deep" / "runs.jsonl"

    def work() -> None:
        with open_log(out, tmp_path / "tables") as log:
            log.append({"key": "a", "error": None})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert f"{out} holds the runs that are done, and the same call makes the rest" in capsys.readouterr().err
    assert (tmp_path / "tables").is_dir()
    with open_log(out, None) as log:
        assert list(log.runs) == ["a"]


def test_a_folder_that_cannot_be_is_refused_before_the_log_is_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError), open_log(tmp_path / "runs.jsonl", tmp_path / "file"):
        pass
    assert not (tmp_path / "runs.jsonl").exists()


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="no format 'doc'; there are txt, md, csv, tex"):
        check_style("doc")


@pytest.mark.parametrize("style", FORMATS)
def test_sections_are_printed_and_written(style: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish([TABLE], picture, tmp_path, style)
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
    publish([TABLE], never, None, "txt")
    assert not list(tmp_path.iterdir())


def test_failed_runs_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(0, 3, Path("runs.jsonl")) == 0
    assert capsys.readouterr().err == ""
    assert exit_code(2, 3, Path("runs.jsonl")) == 1
    assert capsys.readouterr().err == (
        "2 of 3 runs failed; runs.jsonl has the reasons. The same call tries them again.\n"
    )
