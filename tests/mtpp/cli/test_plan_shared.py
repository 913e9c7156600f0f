"""The verb plan on shared network cards: what it prints, writes, exports and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import assert_impossible, mtpp

from instances.devices import cluster_document
from instances.json_files import write_json
from instances.planning import Cluster, LayerChain
from instances.planning.problem import chain_document

COMMAND = "plan chain.json --cluster cluster.json --microbatches 4 --effort 1"


@pytest.fixture
def files(folder: Path) -> Path:
    chain = LayerChain([1] * 4, [2] * 4, [4] * 3, [2] * 3, [6] * 4, name="tiny")
    write_json(folder / "chain.json", chain_document(chain))
    write_json(folder / "cluster.json", cluster_document(Cluster.of_servers([2, 2], 2.0, 1.0, "pairs")))
    return folder


def test_a_plan_states_all_that_it_depends_on(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp(f"{COMMAND} --memory 1GiB --dtype bf16 --sequence 7 --nic half --out plan.json") == 0
    out = capsys.readouterr().out
    for words in ("half-duplex card", "bf16", "sequence 7", "16 bytes a parameter", "even shares", "of 1 GiB"):
        assert words in out
    for column in ("weights [GiB]", "optimizer [GiB]", "activations [GiB]", "in flight"):
        assert column in out
    assert "bounds " in out
    document = json.loads(Path("plan.json").read_text())
    assert document["format"] == "mtpp-answer/1"
    assert document["question"]["parameter_copies"] == 8
    assert document["question"]["network"] == {"half": True}
    assert mtpp("verify plan.json") == 0
    assert mtpp("verify plan.json --rerun") == 0
    assert "FALSE" not in capsys.readouterr().out


def test_exports(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The order as a table that comes in again, and a trace with one event an operation."""
    assert mtpp(f"{COMMAND} --orders unsplit --export order.csv --out plan.json") == 0
    rows = [line.split(",") for line in Path("order.csv").read_text().splitlines()]
    document = json.loads(Path("plan.json").read_text())
    assert rows == document["answer"]["order"]
    assert mtpp(f"{COMMAND} --orders order.csv --out again.json") == 0
    assert json.loads(Path("again.json").read_text())["cost"] == document["cost"]
    assert mtpp(f"{COMMAND} --orders unsplit --export trace.json --plot plan.svg") == 0
    events = json.loads(Path("trace.json").read_text())["traceEvents"]
    passes = [event for event in events if event["ph"] == "X" and event["pid"] == 0]
    assert len(passes) == sum(map(len, rows))
    assert max(event["ts"] + event["dur"] for event in events if event["ph"] == "X") == pytest.approx(
        document["cost"] * 1e6
    )
    assert Path("plan.svg").stat().st_size > 1000


def test_an_order_of_another_shape_is_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text, named in (
        ("0F0\n" * 9, "9 rows"),
        ("0F0,x\n" * 4, "line 1: 'x' is no pass"),
        ("0F0\n" * 4, "does not run both passes"),
    ):
        Path("order.csv").write_text(text)
        rows = text.count("\n")
        command = COMMAND.replace("--effort 1", "--effort 0")
        assert mtpp(f"{command} --orders order.csv") == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert named in line or (rows != 9 and "rows" in line)
        assert "order.csv" in line


@pytest.mark.parametrize("form", ["milp", "milp-load", "milp-compact"])
def test_models_plan_too(form: str, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp(f"plan chain.json --cluster cluster.json --microbatches 4 --planner {form} --time-limit 20") == 0
    assert f"planner    {form}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("--network none", "--network none"),
        ("--nic 0GB/s", "--nic 0GB/s"),
        ("--nic 1,2,3", "--nic 1,2,3"),
        ("--dtype fp99", "--dtype fp99"),
        ("--samples 0", "--samples 0: it must be at least 1"),
        ("--sequence 0", "--sequence 0: it must be at least 1"),
        ("--effort 7", "effort is 7"),
        ("--orders none", "orders is 'none'"),
        ("--orders missing.csv", "missing.csv"),
        ("--optimizer-bytes 16 --parameter-copies 4", "say the same"),
        ("--network paper --samples 2", "--samples"),
        ("--network paper --recompute", "--recompute"),
        ("--network paper --planner milp", "milp"),
        ("--network paper --orders zb", "order"),
        ("--network paper --export order.csv", "order.csv"),
        ("--export order.txt", "order.txt"),
        ("--planner spp --orders zb", "spp"),
    ],
)
def test_wrong_use_is_one_line(options: str, named: str, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp(f"plan chain.json --cluster cluster.json --microbatches 4 {options}") == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("mtpp: ")
    assert named in line


def test_a_memory_that_no_plan_fits_into(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = "plan chain.json --cluster cluster.json --microbatches 4 --memory 1"
    assert_impossible(capsys, command, "nothing fits into 1 bytes a device: layer 1 (1) alone needs")
