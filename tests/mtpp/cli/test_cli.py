"""The command line: what each verb prints and writes, exit codes, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import columns, graph_file, mtpp

import experiments
from heuristics import HEURISTICS
from instances import ComputationGraph, Instance, Platform
from instances.architectures import ARCHITECTURES
from instances.graph.graph import save_graph
from instances.partitioning.partition_file import read_partition
from instances.readers import READERS
from instances.suites import SUITES
from instances.suites.suite import NETWORKS
from mtpp.certifying.certify import certify
from mtpp.certifying.methods import MILPS
from mtpp.cli.main import main
from mtpp_models import MODELS, SOLVERS, SolveOptions
from mtpp_models.placement.registry import PLACEMENT_MODELS


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("heuristics", HEURISTICS),
        ("models", {**MODELS, **PLACEMENT_MODELS, **MILPS}),
        ("solvers", [*SOLVERS, "cp-sat"]),
        ("suites", SUITES),
        ("networks", {network.network: network for network in NETWORKS}),
        ("architectures", ARCHITECTURES),
        ("readers", READERS),
    ],
)
def test_list_shows_the_registry(what: str, names: Iterable[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp(f"list {what}") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(names)


def test_versions_name_packages_solvers_and_folders(capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("versions") == 0
    lines = dict(
        line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if not line.startswith("solver")
    )
    assert lines["numpy"] == np.__version__
    assert Path(lines["experiments"]) == Path(experiments.__file__).parent


def printed(script: str) -> str:
    """What a script prints in a process of its own, which has to end well."""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_help_is_there_without_the_heavy_packages() -> None:
    """`mtpp --help`, `mtpp list readers` and readers of answers load none of them."""
    script = (
        "import sys; import mtpp.questions.files; from mtpp.cli.main import main\n"
        "assert main(['--help']) == 0 and main(['certify', '--help-all']) == 0 and main(['list', 'readers']) == 0\n"
        "sys.exit(', '.join({'pyomo', 'pandas', 'matplotlib', 'numba', 'scipy', 'networkx'} & set(sys.modules)) or 0)"
    )
    assert "Exit codes" in printed(script)


def test_a_search_does_not_wait_for_pyomo(folder: Path) -> None:
    """Nor do bounds that need no model, and what is verified."""
    script = (
        "import sys; from mtpp.cli.main import main\n"
        "assert main(['partition', 'path.json', '-k', '2', '--method', 'kahn']) == 0\n"
        "assert main(['certify', 'path.json', '-k', '2', '--out', 'answer.json', '--quiet']) == 0\n"
        "assert main(['bound', 'path.json', '-k', '2', '--model', 'pinned', '--quiet']) == 0\n"
        "assert main(['verify', 'answer.json', '--quiet']) == 0\n"
        "sys.exit(', '.join({'pyomo', 'pandas', 'matplotlib', 'networkx'} & set(sys.modules)) or 0)"
    )
    assert columns(printed(script))["k"] == "2"


def test_python_m_is_the_program(folder: Path) -> None:
    root = Path(experiments.__file__).parent.parent
    run = subprocess.run(
        [sys.executable, "-m", "mtpp", "partition", "path.json", "-k", "0"],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "mtpp: -k 0: each number must be 1 or more.\n"


def test_partition_prints_and_writes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cutting 3 | 1 2 costs 4 on both sides; the file is the same partition."""
    command = "partition path.json -k 2 --bandwidth 1 --method kahn --out partition.json --plot partition.png"
    assert mtpp(command) == 0
    row = columns(capsys.readouterr().out)
    assert (row["n"], row["m"], row["comm/work"], row["k"]) == ("3", "2", "0.333", "2")
    assert (row["bottleneck [s]"], row["latency [s]"], row["over simple"]) == ("4", "8", "1.3333")
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], [3, 1, 2], [1, 1, 1])
    assert read_partition("partition.json", Instance(graph, Platform(2, 1.0))).block.tolist() == [0, 1, 1]
    assert Path("partition.png").read_bytes().startswith(b"\x89PNG")


def test_several_k_write_several_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("partition path.json -k 2,3 --bandwidth 1 --method random-1 --out p.json --plot p.svg") == 0
    assert len(capsys.readouterr().out.partition("\n\n")[0].splitlines()) == 3
    assert {path.name for path in folder.glob("p-*")} == {"p-k2.json", "p-k3.json", "p-k2.svg", "p-k3.svg"}


def test_same_seed_same_answer(folder: Path) -> None:
    for name in ("a", "b"):
        assert mtpp(f"partition bert-base -k 5 --method random-100 --seed 3 --out {name}.json") == 0
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()


def test_bound_starts_from_a_file_and_writes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("partition path.json -k 2 --bandwidth 1 --method kahn --out start.json") == 0
    capsys.readouterr()
    assert mtpp("bound path.json -k 2 --bandwidth 1 --start start.json --out bound.json") == 0
    row = columns(capsys.readouterr().out)
    assert (row["model"], row["bound [s]"], row["to its end"]) == ("exact", "4", "yes")
    document = json.loads(Path("bound.json").read_text())
    assert document["bound"] == pytest.approx(4, rel=1e-5)
    assert document["bounds"][0]["provenance"]["solver"] == "highs"


def test_a_certificate_is_a_start(folder: Path) -> None:
    """Of the same graph and k, on any platform."""
    assert mtpp("certify path.json -k 2 --bandwidth 1 --time-limit 20 --out c.json") == 0
    assert mtpp("bound path.json -k 2 --bandwidth 2 --start c.json --model simple --out bound.json") == 0
    known, used = (json.loads(Path(name).read_text())["answer"] for name in ("c.json", "bound.json"))
    assert used["block"] == known["block"]


def test_relaxation_is_below_the_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("bound path.json -k 2 --bandwidth 1 --relaxation") == 0
    row = columns(capsys.readouterr().out)
    assert row["model"] == "exact:lp"
    assert float(row["LP [s]"]) <= float(row["bound [s]"])
    assert float(row["bound [s]"]) <= 4


def test_export_writes_the_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("bound path.json -k 2 --bandwidth 1 --export model.lp") == 0
    assert "binary" in Path("model.lp").read_text().lower()
    assert capsys.readouterr().out == "model.lp\n"


def test_certify_proves_and_writes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("certify path.json -k 1,2 --bandwidth 1 --time-limit 20 --out c.json") == 0
    row = columns(capsys.readouterr().out)
    assert (row["ratio"], row["status"]) == ("1.0000", "optimal")
    document = json.loads(Path("c-k2.json").read_text())
    assert document["format"] == "mtpp-answer/1"
    assert document["cost"] == 4
    assert document["answer"]["block"] == [0, 1, 1]
    assert document["question"]["graph"]["nodes"][0]["work"] == 3
    assert document["bound"] == max(entry["value"] for entry in document["bounds"])


def test_certify_from_python_stays_in_its_budget_of_methods() -> None:
    """Without time for a solver there is still a partition and a bound, from the methods that need none."""
    graph = ARCHITECTURES["resnet50"].build()
    result = certify(Instance(graph, Platform(8, 25e9)), SolveOptions(time_limit=0.01))
    assert result.partition is not None
    assert result.bound is not None
    assert result.solver is None


@pytest.mark.parametrize("k", [1, 3, 50])
@pytest.mark.parametrize(
    "graph",
    [
        {"nodes": [{"work": 1}, {"work": 2}], "edges": []},
        {"nodes": [{"work": 1}], "edges": []},
        {"nodes": [{"work": 0, "output_bytes": 5}, {"work": 0}], "edges": [[0, 1]]},
    ],
    ids=["no edges", "one node", "all weights zero"],
)
def test_small_graphs_are_valid(
    folder: Path, graph: dict[str, Any], k: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """No edges, one node, no work, more blocks than nodes: all are solved, with ratio 1."""
    graph_file(folder, **graph)
    assert mtpp(f"certify graph.json -k {k} --bandwidth 1") == 0
    assert columns(capsys.readouterr().out)["ratio"] == "1.0000"
    assert mtpp(f"partition graph.json -k {k} --bandwidth 1 --method brkga-100") == 0
    assert mtpp(f"bound graph.json -k {k} --bandwidth 1 --model guess-the-bottleneck") == 0


@pytest.mark.parametrize("verb", ["partition --method brkga-10000", "bound", "certify"])
def test_ctrl_c_prints_what_is_known(verb: str, folder: Path) -> None:
    """An interrupted verb prints its row, writes its file and exits with 130."""
    root = Path(experiments.__file__).parent.parent
    rng = np.random.default_rng(0)
    order = rng.permutation(500)
    pairs = rng.integers(500, size=(2000, 2))
    edges = [(u, v) if order[u] < order[v] else (v, u) for u, v in pairs.tolist() if u != v]
    save_graph(ComputationGraph.from_edges(edges, rng.random(500), rng.random(500)), "large.json")
    name, *options = verb.split()
    script = (
        "import contextlib, pathlib, sys\n"
        "import instances.system.processes as interrupts\n"
        "real = interrupts.catch_interrupt\n"
        "@contextlib.contextmanager\n"
        "def told():\n"
        "    with real() as event:\n"
        "        pathlib.Path('ready').touch()\n"
        "        yield event\n"
        "interrupts.catch_interrupt = told\n"
        "import mtpp.cli.main as cli\n"
        "sys.exit(cli.main(sys.argv[1:]))\n"
    )
    command = [
        sys.executable,
        "-c",
        script,
        name,
        "large.json",
        "-k",
        "16",
        "--bandwidth",
        "1",
        "--out",
        "o.json",
        *options,
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(root)}
    )
    while not Path("ready").exists() and process.poll() is None:
        time.sleep(0.02)
    time.sleep(2)  # at whatever it is by then
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130, err
    assert columns(out)["n"] == "500"
    assert json.loads(Path("o.json").read_text())["format"].startswith("mtpp-")


def test_bug_ctrl_c_while_compiled_code_is_imported_was_an_internal_fault(tmp_path: Path) -> None:
    """Such a module makes an ImportError of it, as pybind11 does."""
    site = tmp_path / "verbs-1.0.dist-info"
    site.mkdir()
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: verbs\nVersion: 1.0\n")
    (site / "entry_points.txt").write_text("[mtpp.commands]\nload = verbs:load\n")
    (tmp_path / "verbs.py").write_text(
        "def load() -> None:\n    try:\n        raise KeyboardInterrupt\n    except KeyboardInterrupt as heard:\n"
        "        raise ImportError('initialization failed') from heard\n"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "mtpp", "load"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")


def test_costs_of_a_profile_take_bandwidth_one(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Edge costs are read with bandwidth 1: no partition of gnmt for k = 2 beats the published optimum."""
    file = data / "msr" / "gnmt_layer_inference.json"
    assert main(["partition", str(file), "-k", "2", "--communication", "cost", "--method", "brkga-100"]) == 0
    assert float(columns(capsys.readouterr().out)["bottleneck [ms]"]) >= 93.1943


def test_models_of_a_question_are_listed_with_sizes_and_bounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph_file(tmp_path)
    assert mtpp(f"list models --graph {tmp_path}/graph.json -k 2 --stats --time-limit 5 --json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["exact"]["n_rows"] > 0
    assert rows["exact"]["lp"] <= rows["exact"]["best_bound"] * (1 + 1e-6)
    assert rows["simple"]["lp"] is None
    assert rows["exact+all"]["best_bound"] is None
    assert mtpp("list solvers --stats") == 2
    assert mtpp("list models --stats") == 2
    assert capsys.readouterr().err.count("\n") == 2
