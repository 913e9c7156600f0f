"""`mtpp.compare`: one call, one frame, a row a run; what fails is told in its row."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import mtpp
from heuristics.registry import HEURISTICS
from instances import InputError
from instances.random_graphs import regal_style
from mtpp.runs.statistics import COLUMNS

TIMES = ["seconds", "cpu_seconds", "primal_integral", "gap_integral"]
PAIR = mtpp.ComputationGraph.from_edges([(0, 1)], [2, 3], [4, 0], names=("a", "b"), name="pair")


def graphs(count: int) -> dict[str, mtpp.ComputationGraph]:
    return {f"random {seed}": regal_style("erdos-renyi", 8, seed) for seed in range(count)}


def broken(*_: Any) -> None:
    raise RuntimeError("this method is broken")


@pytest.mark.slow
def test_six_graphs_three_k_six_methods(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Row by row in the order asked for; a second call makes what is missing alone."""
    monkeypatch.setitem(HEURISTICS._entries, "random-1", replace(HEURISTICS["random-1"], run=broken))
    methods = ["kahn", "random-1", "simple", "pinned", "exact", "certify"]
    file = tmp_path / "runs.jsonl"
    frame = mtpp.compare(graphs(6), [2, 3, 4], methods, bandwidth=1.0, time_limit=10, file=file)
    assert tuple(frame.columns) == COLUMNS
    assert len(frame) == 6 * 3 * 6
    assert frame["method"].tolist() == methods * 18
    assert frame["graph"].tolist() == [name for name in graphs(6) for _ in range(18)]
    failed = frame[frame["error"].notna()]
    assert set(failed["method"]) == {"random-1"}
    assert set(failed["error"]) == {"RuntimeError: this method is broken"}
    assert frame.loc[failed.index, ["bottleneck", "bound", "ratio"]].isna().all(axis=None)
    assert (frame[frame["method"] == "exact"]["ratio"] <= 1 + 2e-6).all()
    assert (frame["ratio"].dropna() >= 1).all()
    assert set(frame[frame["solver"].notna()]["method"]) == {"exact", "certify"}

    before = len(file.read_text().splitlines())
    again = mtpp.compare(graphs(6), [2, 3, 4], methods, bandwidth=1.0, time_limit=10, file=file)
    assert len(file.read_text().splitlines()) - before == 18  # what failed is tried again
    assert again.drop(columns=TIMES).equals(frame.drop(columns=TIMES))


def test_solvers_side_by_side() -> None:
    """One that is not installed fails in its rows; methods without a solver run once."""
    absent = next((name for name, solver in mtpp.SOLVERS.items() if solver.version() is None), None)
    solvers = ["highs", *([absent] if absent else [])]
    frame = mtpp.compare(PAIR, 2, "kahn,bottleneck", solvers, bandwidth=1)
    assert frame["solver"].fillna("").tolist() == ["", *solvers]
    assert frame["error"].notna().tolist() == [False, False, *([True] if absent else [])]


def test_graphs_come_alone_in_lists_and_with_names() -> None:
    digraph: nx.DiGraph[str] = nx.DiGraph(name="mine")
    digraph.add_node("a", work=1.0)
    instance = mtpp.Instance(PAIR, mtpp.Platform(3, 1.0), name="own")
    names = mtpp.compare([PAIR, digraph, PAIR, instance], 2, "simple")["graph"].tolist()
    assert names == ["pair", "mine", "pair-2", "own"]
    assert mtpp.compare(digraph, "1,2", ["simple"])["graph"].tolist() == ["mine", "mine"]
    suite = mtpp.compare("quick", 2, "simple")
    assert suite["graph"].nunique() == len(suite) > 1


def test_one_node_and_a_name_with_markup() -> None:
    graph = mtpp.ComputationGraph.from_edges([], [0.0], name="<b>\n")
    frame = mtpp.compare(graph, 3, ["kahn", "simple", "certify"], time_limit=5)
    assert frame["ratio"].tolist()[0] == 1.0
    assert "<b>" not in frame._repr_html_()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"methods": ["khan"]}, "Unknown method 'khan'"),
        ({"methods": []}, "name one at least"),
        ({"graphs": []}, "nothing to compare"),
        ({"solvers": "hihgs"}, "did you mean highs"),
        ({"solvers": "../highs"}, "There is no solver"),
        ({"k": []}, "There is no k"),
        ({"k": 0}, "k=0: the number of blocks"),
        ({"graphs": "quick", "bandwidth": 3}, "has its own bandwidths"),
        ({"jobs": 0}, "use from 1 to"),
        ({"gap": 2}, "gap=2: "),
    ],
)
def test_what_is_refused_is_refused_before_any_run(words: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    with pytest.raises(InputError, match=message):
        mtpp.compare(**({"graphs": PAIR, "k": 2, "methods": "kahn", "file": file} | words))
    assert not file.exists() or file.read_text() == ""


@pytest.mark.slow
def test_processes_give_the_same_frame(tmp_path: Path) -> None:
    """From a script that has no guard as well as long as one process is enough."""
    script = tmp_path / "study.py"
    script.write_text(
        "import mtpp, sys\n"
        "def study(jobs):\n"
        "    graph = mtpp.ComputationGraph.from_edges([(0, 1)], [2, 3], [4, 0])\n"
        "    frame = mtpp.compare(graph, [1, 2], 'kahn,simple,pinned', bandwidth=1, jobs=jobs)\n"
        "    print(frame[['k', 'method', 'bottleneck', 'bound', 'ratio', 'error']].to_json(orient='records'))\n"
        "if __name__ == '__main__':\n"
        "    study(2)\n"
        "    study(1)\n"
    )
    root = Path(mtpp.__file__).parent.parent
    run = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(root)}
    )
    many, one = map(json.loads, run.stdout.splitlines())
    assert many == one
    assert len(one) == 6
