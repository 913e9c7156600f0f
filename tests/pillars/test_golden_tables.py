"""What the tables of studies say of runs that are made up, in golden_tables.json. ``make golden`` writes it anew."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from spp_runs import as_in_the_paper, asked, made_up

from experiments.studies.report import Report
from experiments.studies.spp.tables import make_training_tables
from mtpp.runs.job import RunLog
from mtpp.runs.workers import this_process

FILE = Path(__file__).with_name("golden_tables.json")


def _training(paper: float, **others: dict[str, float]) -> list[str]:
    """Sections of made-up figures, and of the paper's Table III with other times of GPipe."""
    theirs, measured = as_in_the_paper(gpipe=paper)
    questions = [question for question in asked() if not question.figure.startswith("III")]
    made = [*made_up(questions, **others), *measured]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
        file = Path(folder) / "runs.jsonl"
        with RunLog(file) as log:
            for run in made:
                log.append(run)
        with this_process() as workers:
            make_training_tables([*questions, *theirs], workers, Report(file, json=True, quiet=True))
    return [line for table in json.loads(out.getvalue())["tables"] for line in _lines(**table)]


def _lines(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], note: str, **_others: object) -> list[str]:
    return [title, *(" | ".join(row) for row in (header, *rows)), note]


#: Factors that break some claims.
OTHERS = {"figure_6_first": {"gpipe": 3.3}, "figure_8_second": {"pipedream": 0.8}, "figure_9_first": {"spp": 1.2}}
TABLES: dict[str, Callable[[], list[str]]] = {
    "training": lambda: _training(1.0),
    "training, otherwise": lambda: _training(1.5, **OTHERS),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_say_what_they_said(name: str) -> None:
    golden = json.loads(FILE.read_text())[name]
    assert TABLES[name]() == golden


if __name__ == "__main__":
    golden = {name: make() for name, make in TABLES.items()}
    FILE.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")
