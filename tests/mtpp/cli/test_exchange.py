"""Models for other programs from the command line: written, solved elsewhere, read back; bounds are only stated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import assert_misuse, columns, mtpp
from solver_commands import solve_file

from instances import Bound, Instance, Partition, Platform, Result, combine, load_graph

BOUND = "bound path.json -k 2 --bandwidth 1"


@pytest.fixture
def solved(folder: Path) -> Path:
    """A folder with what CBC's file of the path says: the optimum, 4."""
    assert mtpp(f"{BOUND} --export model.lp") == 0
    solve_file("highs", folder / "model.lp", folder / "model.sol")
    return folder


def test_a_solution_comes_back_with_a_stated_bound(solved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp(f"{BOUND} --solution model.sol --out c.json") == 0
    out = capsys.readouterr().out.removeprefix("model.lp\n")
    row = columns(out)
    assert (row["model"], row["bottleneck [s]"], row["to its end"]) == ("exact", "4", "stated")
    assert "is stated by model.sol (HiGHS); nothing here has proved it." in out
    document = json.loads(Path("c.json").read_text())
    assert document["answer"]["block"] == [0, 1, 1]
    assert document["bounds"][0]["method"] == "simple"
    assert document["bounds"][1] == {
        "method": "stated", "value": pytest.approx(4, rel=2e-4), "parameters": {}, "recheck": "trusted",
        "provenance": {"by": "model.sol (HiGHS)", "model": "exact", "seconds": 0},
    }  # fmt: skip


def test_verify_does_not_take_it_for_proved(solved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp(f"{BOUND} --solution model.sol --out c.json") == 0
    for command in ("verify c.json", "verify c.json --rerun", "verify c.json"):
        capsys.readouterr()
        assert mtpp(command) == 4
        assert "stated, not proved" in capsys.readouterr().out


@pytest.mark.parametrize("value", [4.0, 4.00001, 5.0])
def test_bug_a_stated_bound_calls_nothing_optimal(folder: Path, value: float) -> None:
    instance = Instance(load_graph("path.json"), Platform(2, 1.0))
    best, stated = Partition(instance, [0, 1, 1]), Bound(min(value, 4.0), "stated")
    assert not Result("x", instance, best, stated).proved
    together = combine(Result("x", instance, best, stated), Result("exact", instance, None, Bound(4.0, "exact")))
    assert together.proved


def test_a_bound_may_be_stated_by_hand(solved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of any model, also of one whose solutions are no partitions; in multiples of the file's unit."""
    unit = json.loads(Path("model.names.json").read_text())["unit"]
    capsys.readouterr()
    assert mtpp(f"{BOUND} --model coarse-2 --stated-bound {3.5 / unit} --start model.json") == 2
    assert mtpp(f"{BOUND} --model coarse-2 --stated-bound {3.5 / unit} --out c.json") == 0
    row = columns(capsys.readouterr().out)
    assert (row["model"], row["bound [s]"], row["to its end"]) == ("coarse-2", "3.5", "stated")
    assert mtpp("verify c.json") == 4


def test_a_stated_bound_that_is_false_is_not_written(solved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unit = json.loads(Path("model.names.json").read_text())["unit"]
    assert mtpp(f"{BOUND} --solution model.sol --stated-bound {4.1 / unit} --out c.json") == 1
    assert "is false: a partition of 4 s is known" in capsys.readouterr().err
    assert [bound["method"] for bound in json.loads(Path("c.json").read_text())["bounds"]] == ["simple"]
    assert mtpp(f"{BOUND} --solution model.sol --stated-bound {4.00001 / unit} --out c.json") == 0  # of six digits
    assert json.loads(Path("c.json").read_text())["bound"] == 4.0


def test_explain_proves_a_bound_of_its_own(solved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unit = json.loads(Path("model.names.json").read_text())["unit"]
    assert mtpp(f"{BOUND} --solution model.sol --stated-bound {4 / unit} --out c.json") == 0
    capsys.readouterr()
    assert mtpp("explain c.json") == 0
    out = capsys.readouterr().out
    assert "proved now" in out
    assert columns(out)["by"] != "stated"


def test_misuse(solved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("cut.sol").write_text(Path("model.sol").read_text()[:120])
    capsys.readouterr()
    assert_misuse(
        capsys,
        {
            f"{BOUND} --solution cut.sol": "cut.sol",
            f"{BOUND} --solution nothing.sol": "no such file",
            f"{BOUND} --solution path.json": "expected a name and a value",
            "bound path.json -k 2 --bandwidth 2 --solution model.sol": "of another bandwidth",
            f"{BOUND} --model coarse-2 --solution model.sol": "is no partition, as its blocks are merged",
            f"{BOUND} --model simple --solution model.sol": "needs no solver",
            f"{BOUND} --solution model.sol --export model.mps": "write the model first",
            f"{BOUND} --solution model.sol --relaxation": "--relaxation",
            f"{BOUND} --export other.lp --relaxation": "--relaxation: nothing is solved",
            f"{BOUND} --stated-bound nan": "--stated-bound nan",
            f"{BOUND} --stated-bound -1": "--stated-bound -1",
            "bound path.json -k 1,2 --bandwidth 1 --stated-bound 1": "name that alone",
        },
    )


def test_several_k_have_files_of_their_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("bound path.json -k 1,2 --bandwidth 1 --export model.lp") == 0
    for k in (1, 2):
        solve_file("highs", folder / f"model-k{k}.lp", folder / f"model-k{k}.sol")
    assert mtpp("bound path.json -k 1,2 --bandwidth 1 --solution model.sol --json --quiet") == 0
    documents = json.loads(capsys.readouterr().out.partition("\n[")[2].join(["[", ""]))
    assert [document["cost"] for document in documents] == [6, 4]
