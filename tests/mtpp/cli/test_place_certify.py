"""``mtpp place`` and its proofs: what it prints and writes, what verify says, and solvers that are missing or fail."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from command_line import columns, mtpp

import mtpp as api
from instances import ComputationGraph
from instances.graph.graph import save_graph
from instances.random_graphs import regal_style
from mtpp.certifying.methods import PLACEMENT_STEPS
from mtpp_models import SolverFaultError
from mtpp_models.placement.registry import PLACEMENT_MODELS


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two devices take 9 in order, and any other pair of devices at least 9."""
    monkeypatch.chdir(tmp_path)
    edges = [(0, 2), (1, 3), (0, 4), (4, 5), (2, 5)]
    save_graph(ComputationGraph.from_edges(edges, [3, 1, 1, 6, 2, 2], [1, 1, 2, 0, 1, 0]), "small.json")
    return "place small.json -k 2 --bandwidth 1 --time-limit 5 --out p.json"


@pytest.mark.slow
def test_a_small_placement_is_proved_by_the_exact_model(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp(small) == 0
    row = columns(capsys.readouterr().out)
    assert float(row["ratio"]) == pytest.approx(1, abs=1e-4)
    bounds = json.loads(Path("p.json").read_text())["bounds"]
    assert bounds[0]["method"] == "simple"
    assert row["by"] in (*PLACEMENT_MODELS, "simple")
    assert mtpp("verify p.json") in (0, 4)
    assert mtpp("verify p.json --rerun") == 0


def test_a_solver_that_fails_is_one_line(
    small: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known is printed and written; the exit code says it."""

    def fail(*_words: object) -> None:
        raise SolverFaultError("highs", "was killed (SIGKILL)")

    graph = ComputationGraph.from_edges([(0, 1), (2, 3), (0, 3)], [3, 4, 2, 5], [3, 0, 2, 0])
    save_graph(graph, "small.json")
    monkeypatch.setattr("mtpp.certifying.methods.bound_placement", fail)
    assert mtpp(small) == 3
    said = capsys.readouterr()
    assert "Solver highs was killed (SIGKILL); choose another --solver." in said.err
    assert "Traceback" not in said.err
    assert Path("p.json").exists()


def test_options_are_of_the_solver_that_is_named(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    """CP-SAT answers alone where it is named, and takes none of another solver."""
    pytest.importorskip("ortools", reason="the extra 'place-cp' is not installed")
    save_graph(regal_style("erdos-renyi", 10, seed=3), "small.json")
    assert mtpp(f"{small} --solver cp-sat --solver-option cp_model_presolve=false") == 0
    methods = [bound["method"] for bound in json.loads(Path("p.json").read_text())["bounds"]]
    assert "place-cp" in methods
    assert "place-exact" not in methods
    assert mtpp(f"{small} --solver cp-sat --solver-option nothing=1") == 3
    assert "Solver cp-sat fails with --solver-option nothing=1: it takes no nothing=1." in capsys.readouterr().err
    mtpp(f"{small} --solver highs --solver-option nothing=1")
    assert "cp-sat fails" not in capsys.readouterr().err


def test_steps_are_models() -> None:
    assert all(model in PLACEMENT_MODELS for model, *_ in PLACEMENT_STEPS)


def test_an_unknown_solver_is_one_line(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp(f"{small} --solver nosuch") == 2
    said = capsys.readouterr().err
    assert "There is no solver 'nosuch'" in said
    assert said.count("\n") == 1


def test_an_interrupt_between_search_and_proof_keeps_the_answer(
    small: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While solvers were loaded, Ctrl-C lost what the search had found."""

    def prove(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("mtpp.certifying.methods.bound_placement", prove)
    assert mtpp(small) == 130
    assert float(columns(capsys.readouterr().out)["ratio"]) >= 1
    assert Path("p.json").exists()


def test_without_a_proof_only_the_simplest_bound_stands_beside_the_answer(
    small: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mtpp(f"{small} --search-only") == 0
    assert "by" not in columns(capsys.readouterr().out)
    assert api.place("small.json", 2, bandwidth=1, time_limit=1, search_only=True).bound.method == "simple"
