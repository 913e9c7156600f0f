"""The verb table: what it prints and writes, what it lacks, ablations, and Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import mtpp

import experiments
from instances import ComputationGraph
from instances.graph.graph import save_graph


@pytest.mark.slow
def test_table_end_to_end(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables on stdout and in files; the second call only prints, in another format."""
    command = (
        "table path.json -k 1,2 --bandwidth 1 --methods kahn,random-1,bottleneck,exact:lp,exact --out r/runs.jsonl"
    )
    assert mtpp(f"{command} --tables t --jobs 2") == 0
    first = capsys.readouterr()
    assert first.out.index("Table 1") < first.out.index("Table 2") < first.out.index("Table 3")
    lines = Path("r/runs.jsonl").read_text().splitlines()
    assert len(lines) == 12
    assert [json.loads(line)["communication_over_work"] for line in lines] == pytest.approx([1 / 3] * 12)
    stems = ("instances", "table1", "table2", "table3", "seconds", "primal-integral", "gap-integral", "closed")
    expected = {f"{stem}.{suffix}" for stem in stems for suffix in ("md", "csv", "tex")}
    pictures = ("table1", "running-times", "ratio-profile", "performance-profile")
    expected |= {f"{stem}.{suffix}" for stem in pictures for suffix in ("png", "svg")}
    assert {path.name for path in Path("t").iterdir()} == expected
    written = pd.read_csv("t/table1.csv").set_index(["row", "column"])["value"]
    assert written["kahn"].tolist() == written["random-1"].tolist() == pytest.approx([1, 4 / 3])
    assert mtpp(f"{command} --format csv") == 0
    second = capsys.readouterr()
    assert "12 runs are done already" in second.err
    assert "table1,kahn,k=1,1.0,,,1,1,0,\n" in second.out
    assert Path("r/runs.jsonl").read_text().splitlines() == lines


def test_a_table_says_at_its_end_how_many_graphs_it_lacks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("graphs").mkdir()
    Path("graphs/path.json").write_bytes(Path("path.json").read_bytes())
    Path("graphs/broken.json").write_text("{")
    assert mtpp("table graphs -k 2 --bandwidth 1 --methods kahn --out r.jsonl") == 0
    assert capsys.readouterr().err.endswith("Graphs that are left out, as told above: 1.\n")


def test_bug_a_word_that_graphs_do_not_take_was_named_as_in_python(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("both").mkdir()
    for name in ("one", "other"):
        Path(f"both/{name}.json").write_bytes(Path("path.json").read_bytes())
    assert mtpp("table both -k 1 --bandwidth 1 --weights w.gguf") == 2
    assert "both/other.json: 'json' files take no --weights; leave it out" in capsys.readouterr().err


def test_a_table_over_kinds_of_devices(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By default with all that answer it; what a name asks for and cannot is refused before anything runs."""
    kinds = [{"name": name, "count": 1, "speed": speed} for name, speed in (("fast", 2), ("slow", 1))]
    Path("devices.json").write_text(json.dumps({"format": "mtpp-devices/2", "kinds": kinds}))
    command = "table path.json -k 2 --bandwidth 1 --devices devices.json --out r.jsonl --time-limit 1 --methods"
    assert mtpp(f"{command} portfolio,kahn,mla,exact") == 2
    message = "mtpp: --methods portfolio,kahn,mla,exact: only for devices that are alike: kahn, mla; leave that out.\n"
    assert capsys.readouterr().err == message
    assert not Path("r.jsonl").exists()
    assert mtpp(f"{command} portfolio,ideals,exact --format csv") == 0
    out = capsys.readouterr().out
    ratio = re.search(r"^table3,\+ exact,k=2,([^,]*),", out, re.MULTILINE)
    assert ratio is not None
    assert float(ratio[1]) == pytest.approx(1, rel=1e-5)


def test_table_goes_on_after_failures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A solver that fails on every model leaves its rows at simple; exit code 1 says that something is missing."""
    from mtpp_models import available_solvers

    if "gurobi" not in available_solvers():
        pytest.skip("needs a solver that refuses large models: gurobi without licence")
    big = ComputationGraph.from_edges([(v, v + 1) for v in range(699)], np.ones(700), np.ones(700))
    save_graph(big, "big.json")
    code = mtpp("table big.json -k 4 --bandwidth 1 --methods kahn,exact --solver gurobi --time-limit 5")
    captured = capsys.readouterr()
    runs = [json.loads(line) for line in Path("runs.jsonl").read_text().splitlines()]
    if all(run["error"] is None for run in runs):
        pytest.skip("gurobi has a full licence here")
    assert code == 1
    assert "1 of 3 runs failed" in captured.err
    assert ["exact", "1.000", "(0", "%)"] in [line.split() for line in captured.out.splitlines()]


@pytest.mark.slow
def test_ctrl_c_keeps_the_runs_of_a_table(folder: Path) -> None:
    """An interrupted table says how to go on, and its file is whole."""
    root = Path(experiments.__file__).parent.parent
    command = [sys.executable, "-m", "mtpp", "table", "resnet152", "-k", "8", "--methods", "kahn,exact"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(root)}
    )
    while process.poll() is None and not (Path("runs.jsonl").exists() and Path("runs.jsonl").read_bytes()):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert "the same call makes the rest" in err
    assert "Traceback" not in err
    assert all("schema" in json.loads(line) for line in Path("runs.jsonl").read_text().splitlines())


def test_an_ablation(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each part alone, all but one, and all; they are runs like others."""
    assert mtpp("table path.json -k 2 --bandwidth 1 --methods kahn,exact+each --out r.jsonl --format csv") == 0
    out = capsys.readouterr().out
    seconds = out[out.index("Seconds of each bound") : out.index("Gap integral of each bound")].splitlines()
    names = [line.split(",")[1] for line in seconds if ",exact" in line]
    assert names[:2] == ["exact", "exact+conflicts"]
    assert names[-1] == "exact+all"
    assert len(names) == 12
