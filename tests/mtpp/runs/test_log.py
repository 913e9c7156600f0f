"""Runs on disk: nothing lost, nothing of others removed, whatever a killed writer leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instances import InputError
from mtpp.runs.job import SCHEMA, RunLog, read_runs


def test_append_and_read(tmp_path: Path) -> None:
    """What is written is read; the last line of a key counts."""
    path = tmp_path / "new" / "runs.jsonl"
    with RunLog(path) as log:
        log.append({"key": "a", "x": 1})
        log.append({"key": "b", "x": None})
        log.append({"key": "a", "x": 2})
    lines = path.read_text().splitlines()
    assert [json.loads(line)["schema"] for line in lines] == [SCHEMA] * 3
    assert [(run["key"], run["x"]) for run in read_runs(path)] == [("a", 2), ("b", None)]


@pytest.mark.parametrize(
    "torn", ['{"schema": "mtpp-run/2", "key": "b", "blo', '{"schema": "mtpp-run/1", "k', '{"sch', "{"]
)
def test_a_torn_last_line_is_repaired(tmp_path: Path, torn: str) -> None:
    """What a killed writer left of its line is dropped, and the next line is whole."""
    path = tmp_path / "runs.jsonl"
    whole = f'{{"schema": "{SCHEMA}", "key": "a"}}\n'
    path.write_text(whole + torn)
    assert [run["key"] for run in read_runs(path)] == ["a"]
    with RunLog(path) as log:
        log.append({"key": "c"})
    assert path.read_text() == whole + f'{{"schema": "{SCHEMA}", "key": "c"}}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"schema": "other/1", "key": "a"}\n', "line 1 has schema 'other/1'"),
        ('{"schema": "mtpp-run/3", "key": "a"}\n', "line 1 has schema 'mtpp-run/3', not 'mtpp-run/2'"),
        ('{"format": "mtpp-graph/1"}', "line 1 is not"),
        ("[1]\n", "line 1 is not"),
        ("\n", "line 1 is not"),
        (b"\xff\xfe\n", "line 1 is not"),
    ],
)
def test_a_foreign_file_is_refused_and_left_alone(tmp_path: Path, content: str | bytes, message: str) -> None:
    """Nothing of a file that is not ours is removed."""
    path = tmp_path / "runs.jsonl"
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        RunLog(path)
    with pytest.raises(InputError, match=message):
        read_runs(path)
    assert path.read_bytes() == data


WHOLE = f'{{"schema": "{SCHEMA}", "key": "a", "error": null}}'
DAMAGED = {
    "cut short": '{"schema": ',
    "no key": f'{{"schema": "{SCHEMA}"}}',
    "a key of another type": f'{{"schema": "{SCHEMA}", "key": ["a"]}}',
    "NaN": f'{{"schema": "{SCHEMA}", "key": "a", "bound": NaN}}',
    "a bound of another type": f'{{"schema": "{SCHEMA}", "key": "a", "bound": "7"}}',
    "an error of another type": f'{{"schema": "{SCHEMA}", "key": "a", "error": 7}}',
    "blocks of another type": f'{{"schema": "{SCHEMA}", "key": "a", "block": [0, "1"]}}',
    "a missing k": f'{{"schema": "{SCHEMA}", "key": "a", "k": null}}',
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("end", ["\n", ""])
def test_a_damaged_line_is_named_and_costs_no_other(
    damaged: str, end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stays in the file, one line on stderr tells where, and what is appended stands by itself."""
    if not end and damaged.startswith('{"schema"'):
        end = "\n"  # without it, this is what a killed writer leaves
    path = tmp_path / "runs.jsonl"
    path.write_text(f"{WHOLE}\n{damaged}{end}")
    with RunLog(path) as log:
        assert list(log.runs) == ["a"]
        assert log.runs["a"]["error"] is None
        log.append({"key": "b"})
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"{path}, line 2 is not a run" in err
    assert path.read_text().startswith(f"{WHOLE}\n{damaged}\n")
    assert [run["key"] for run in read_runs(path)] == ["a", "b"]


def test_one_writer(tmp_path: Path) -> None:
    """A second writer is refused while the first one is at work."""
    path = tmp_path / "runs.jsonl"
    with RunLog(path), pytest.raises(InputError, match="another process"):
        RunLog(path)
    with RunLog(path):
        pass
