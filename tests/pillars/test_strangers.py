"""Files of strangers and special files: nothing hangs, nothing is replaced, no name forges a line, all in one line."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import graph_file, mtpp

from instances import InputError, json_files
from instances.errors import printable
from instances.json_files import read_json, write_json
from instances.readers import load_graph
from mtpp.runs.job import RunLog
from mtpp.text.tables import FORMATS

SPECIAL = ("fifo", "/dev/full", "/dev/null", "folder", "link to a device")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    graph_file(tmp_path)
    return tmp_path


def special(kind: str, suffix: str = "") -> Path:
    """Something in this folder that is no regular file."""
    path = Path(f"special{suffix}")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/full" if kind.startswith("link") else kind)
    return Path(kind) if kind.startswith("/") and not suffix else path


def complaint(capsys: pytest.CaptureFixture[str], command: str) -> str:
    """The one line that a refused call prints."""
    assert mtpp(command) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    return err


WRITERS = {
    "--out": (
        "partition graph.json -k 2 --out FILE",
        "bound graph.json -k 2 --model simple --out FILE",
        "certify graph.json -k 2 --out FILE",
        "place graph.json -k 2 --out FILE",
        "import graph.json --out FILE",
        "plan graph.json --cluster 2x1 --bandwidth 1GB/s --microbatches 2 --out FILE",
        "table graph.json -k 2 --methods simple --out FILE",
    ),
    "--plot": ("partition graph.json -k 2 --plot FILE", "place graph.json -k 2 --plot FILE"),
    "--export": ("bound graph.json -k 2 --export FILE",),
}
_SUFFIX = {"--out": "", "--plot": ".png", "--export": ".lp"}


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize(("option", "command"), [(o, c) for o, commands in WRITERS.items() for c in commands])
def test_bug_what_is_no_regular_file_is_not_replaced(
    folder: Path, capsys: pytest.CaptureFixture[str], kind: str, option: str, command: str
) -> None:
    """A root user's /dev/null became a regular file, and a table to /dev/full or into a pipe did not end."""
    path = special(kind, _SUFFIX[option])
    before = path.stat(follow_symlinks=False)
    assert "which is left as it is; give a file another name" in complaint(capsys, command.replace("FILE", str(path)))
    after = path.stat(follow_symlinks=False)
    assert (after.st_mode, after.st_rdev, after.st_ino) == (before.st_mode, before.st_rdev, before.st_ino)
    assert set(os.listdir(folder)) <= {"graph.json", f"special{_SUFFIX[option]}"}


def test_tables_do_not_replace_what_is_no_regular_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "tables").mkdir()
    os.mkfifo(folder / "tables" / "instances.md")
    assert mtpp("table graph.json -k 2 --methods simple --out runs.jsonl --tables tables") == 2
    assert "not a regular file" in capsys.readouterr().err
    assert len(Path("runs.jsonl").read_text().splitlines()) == 1


def test_a_symbolic_link_is_written_through(folder: Path) -> None:
    (folder / "there").mkdir()
    target = folder / "there" / "partition.json"
    for link in ("new.json", "old.json"):
        Path(link).symlink_to(target)
        assert mtpp(f"partition graph.json -k 2 --out {link}") == 0
        assert Path(link).is_symlink()
        assert json.loads(target.read_text())["format"] == "mtpp-answer/1"
    assert os.listdir(folder / "there") == ["partition.json"]


def test_trying_whether_a_file_can_be_written_leaves_no_file_behind_a_link(folder: Path) -> None:
    Path("link.json").symlink_to("target.json")
    assert mtpp("partition nothing.json -k 2 --out link.json") == 2
    assert Path("link.json").is_symlink()
    assert not Path("target.json").exists()


def test_a_draft_is_not_written_through_a_link_of_somebody_else(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where its name is guessed."""
    monkeypatch.setattr("instances.json_files.secrets.token_hex", lambda size: "guessed")
    Path(f".out.json.{os.getpid()}.guessed").symlink_to("victim")
    with pytest.raises(InputError, match="cannot be written"):
        write_json("out.json", {"a": 1})
    assert not Path("victim").exists()


def test_a_full_disk_is_one_line(folder: Path) -> None:
    """What was saved before stays."""
    command = "from mtpp.cli.main import main; import sys; sys.exit(main(sys.argv[1:]))"
    words = ["table", "graph.json", "-k", "2,4", "--methods", "simple", "--out", "runs.jsonl"]

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1800, 1800))  # more than one run, less than two

    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(
        [sys.executable, "-c", command, *words], capture_output=True, text=True, preexec_fn=small, env=environment
    )
    assert run.returncode == 2, run.stderr
    assert run.stderr.splitlines()[-1].startswith("mtpp: runs.jsonl: ")
    assert "Traceback" not in run.stderr
    with RunLog("runs.jsonl") as log:
        assert len(log.runs) == 1


@pytest.mark.parametrize("suffix", ["", ".json", ".onnx", ".pt2", ".txt"])
@pytest.mark.parametrize("kind", ["fifo", "/dev/zero", "link to a device"])
def test_what_is_no_regular_file_is_not_read(
    folder: Path, capsys: pytest.CaptureFixture[str], kind: str, suffix: str
) -> None:
    """Reading a pipe or /dev/zero never ends."""
    if suffix == ".onnx":
        pytest.importorskip("onnx", reason="onnx is not installed")
    if suffix == ".pt2":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    assert "this is not a regular file" in complaint(capsys, f"import {special(kind, suffix)}")


@pytest.mark.parametrize(
    "command",
    [
        "verify fifo",
        "plan graph.json --cluster fifo --microbatches 2",
        "plan fifo --cluster 2x1 --bandwidth 1GB/s --microbatches 2",
        "certify graph.json -k 2 --start fifo",
        "bound graph.json -k 2 --solution fifo",
        "import fifo --reader pipedream",
        "import fifo --reader costgraph",
        "import fifo --reader dot",
    ],
)
def test_no_verb_reads_a_pipe(folder: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    os.mkfifo("fifo")
    assert "fifo: t" in complaint(capsys, command)


def test_a_text_of_many_gigabytes_is_not_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open("huge.json", "wb") as file:
        file.write(b"{")
        file.truncate(2**40)  # takes no room
    assert f"{json_files.LARGEST_TEXT} are the most that is read" in complaint(capsys, "import huge.json")


HOSTILE_NAME = "a\n\x1b[2J\x1b]0;t\x07\r\u202e\u2028ratio 1.000000\ud800"


def test_printable_text_is_one_line_without_commands() -> None:
    assert printable("é 中 –") == "é 中 –"
    assert printable(HOSTILE_NAME) == r"a\n\x1b[2J\x1b]0;t\x07\r\u202e\u2028ratio 1.000000\ud800"


@pytest.mark.parametrize("style", FORMATS)
def test_no_cell_of_a_table_begins_a_line(style: str) -> None:
    text = FORMATS[style](["name", HOSTILE_NAME], [[HOSTILE_NAME, "1"]])
    assert len(text.splitlines()) == len(FORMATS[style](["name", "a"], [["a", "1"]]).splitlines())
    assert all(line.isprintable() for line in text.splitlines())


@pytest.mark.parametrize(
    "command",
    [
        "import graph.json",
        "partition graph.json -k 2",
        "bound graph.json -k 2 --model pinned",
        "certify graph.json -k 2",
        "place graph.json -k 2",
        "plan graph.json --cluster 2x1 --bandwidth 1GB/s --microbatches 2",
        "table graph.json -k 2 --methods simple,kahn --out runs.jsonl",
        "table graph.json -k 2 --methods simple --out runs.jsonl --format csv",
        "bound graph.json -k 2 --bandwidth nonsense",
        "partition graph.json -k 2 --plot a.png",
    ],
)
def test_bug_a_name_in_a_file_forges_no_line(folder: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    """Names with line breaks and escapes were printed as they are."""
    name = HOSTILE_NAME[:-1]  # half of a character can be in no file
    node = {"name": name, "work": 1, "output_bytes": 1}
    graph_file(folder, name=name, source=name, nodes=[node, {"work": 1}, {"work": 2}], edges=[[0, 1]])
    mtpp(command)
    out, err = capsys.readouterr()
    assert all(line.isprintable() for line in (out + err).split("\n"))
    assert not any(line.startswith("ratio") for line in (out + err).splitlines())


@pytest.mark.parametrize("name", [HOSTILE_NAME[:-1], r"$\frac{$", "a$b"])
@pytest.mark.parametrize(
    "command",
    [
        "partition graph.json -k 2 --bandwidth 1 --plot a.svg",
        "place graph.json -k 2 --bandwidth 1 --plot a.svg",
    ],
)
@pytest.mark.filterwarnings("error:Glyph")
def test_a_name_in_a_picture_is_neither_a_formula_nor_a_command(folder: Path, name: str, command: str) -> None:
    nodes = [{"name": f"{name}{i}", "work": 1, "output_bytes": 1} for i in range(3)]
    graph_file(folder, name=name, nodes=nodes, time_unit=name)
    assert mtpp(command) == 0
    assert all(line.isprintable() for line in Path("a.svg").read_text().split("\n"))


def test_half_of_a_character_is_no_traceback(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("graph.json").write_text(
        json.dumps({"format": "mtpp-graph/1", "name": "\ud800", "nodes": [{"work": 1}], "edges": []})
    )
    assert mtpp("import graph.json") == 0
    assert r"\ud800" in capsys.readouterr().out
    assert "cannot be written as JSON" in complaint(capsys, "import graph.json --out out.json")
    assert not Path("out.json").exists()


DEEP = "[" * 900 + "]" * 900


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10**6,
        '{"a":' * 10**5,
        DEEP,
        f'{{"format": {DEEP}}}',
        '{"format": "mtpp-graph/1", "nodes": [{"work": ' + "9" * 5000 + '}], "edges": []}',
        '{"format": "mtpp-graph/1", "nodes": [{"work": ' + "9" * 4000 + '}], "edges": []}',
        '{"format": "mtpp-graph/1", "nodes": [{"work": 1e400}], "edges": []}',
        '{"format": "mtpp-graph/1", "nodes": [{"work": 1}], "edges": [[0, 1e308]]}',
        '{"format": "mtpp-graph/1", "nodes": [{"work": 1}], "edges": [], "edges": []}',
        '{"format": "mtpp-graph/1", "nodes": ' + DEEP + "}",
        '{"format": "mtpp-graph/1", "nodes": [{"work": ' + DEEP + '}], "edges": []}',
        '{"\\u001b[2J": 1, "format": "mtpp-graph/1", "nodes": [], "edges": []}',
    ],
)
def test_json_of_strangers_is_refused_in_one_line(folder: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    Path("x.json").write_text(text)
    assert complaint(capsys, "import x.json").startswith("mtpp: x.json")


def test_bug_deep_attributes_are_no_traceback(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph_file(folder, attributes={"unknown_operators": 0})
    text = Path("graph.json").read_text()
    Path("graph.json").write_text(text.replace('"unknown_operators": 0', '"unknown_operators": ' + DEEP))
    for command in ("import graph.json", "import graph.json --out x.json", "partition graph.json -k 2 --out p.json"):
        assert mtpp(command) in (0, 2)
        assert "Traceback" not in capsys.readouterr().err


def test_a_refused_value_is_shown_as_far_as_it_is_short(folder: Path) -> None:
    Path("x.json").write_text(json.dumps({"a": [[1, "é"], {"b": None}], "c": ["x" * 10**6]}))
    members = read_json("x.json").open_members(())
    with pytest.raises(InputError, match=r'expected a number, found \[\[1, "é"\], \{"b": null\}\]\.'):
        members["a"].number()
    with pytest.raises(InputError, match=r'expected a number, found \["x+…\.') as caught:
        members["c"].number()
    assert len(str(caught.value)) < 200


def test_a_graph_below_a_folder_that_cannot_be_entered_is_one_line(folder: Path) -> None:
    for name in ("graph.json/x", "a\0b", "x" * 5000):
        with pytest.raises(InputError):
            load_graph(name)
