"""Options of solvers by their own names, and their output in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import graph_file
from command_line import mtpp as run

import mtpp
from instances import ComputationGraph, InputError, Instance, Platform
from instances.random_graphs import regal_style
from mtpp.runs.partition_job import jobs_of
from mtpp_models import SolveOptions, SolverNotAvailableError, solve

CHAIN = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0])
# An option, and one that there is not.
OPTIONS = {
    "highs": ("mip_max_nodes", "presolves"),
    "scip": ("limits/nodes", "limits/none"),
    "gurobi": ("NodeLimit", "NodeLimits"),
    "cbc": ("maxNodes", "maxSomething"),
    "glpk": ("pcost", "nothing"),
}


@pytest.fixture(scope="module")
def hard() -> Instance:
    return Instance(regal_style("watts-strogatz", 16, seed=0), Platform(4, 1.0))


def test_an_option_reaches_the_solver(hard: Instance, solver: str) -> None:
    """A limit of one node leaves a bound that is true, and that the file names the option of."""
    if solver not in OPTIONS or solver == "glpk":
        pytest.skip("no limit of nodes")
    options = SolveOptions(solver=solver, solver_options={OPTIONS[solver][0]: 1}, time_limit=60.0)
    result, best = solve(hard, "exact", options), solve(hard, "exact")
    assert result.bound is not None
    assert best.partition is not None
    assert result.bound.value <= best.partition.bottleneck
    assert not result.proved
    assert result.bound.witness["solver_options"] == {OPTIONS[solver][0]: 1}


def test_what_a_solver_refuses_is_one_line(solver: str) -> None:
    name = OPTIONS.get(solver, ("", "nothing"))[1]
    with pytest.raises(SolverNotAvailableError, match=name) as error:
        solve(Instance(CHAIN, Platform(2, 1.0)), options=SolveOptions(solver=solver, solver_options={name: "1"}))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["threads", "mip_feasibility_tolerance"])
def test_what_bounds_rest_on_stays(name: str) -> None:
    """Tolerances, and what has a word of its own."""
    with pytest.raises(SolverNotAvailableError, match=f"{name} is set here already"):
        solve(Instance(CHAIN, Platform(2, 1.0)), options=SolveOptions(solver_options={name: 1}))


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), [1], {"a": 1}])
def test_values_are_texts_and_numbers(value: Any) -> None:
    with pytest.raises(InputError, match="texts or finite numbers"):
        SolveOptions(solver_options={"presolve": value})


def test_options_are_part_of_the_key_of_a_run(hard: Instance) -> None:
    plain, own = (
        jobs_of([hard], ["exact"], SolveOptions(solver_options=options))[0].key for options in ({}, {"presolve": "off"})
    )
    assert plain != own


def test_comparisons_take_options(tmp_path: Path) -> None:
    """Those that the solver refuses are an error of its row; the rest goes on."""
    frame = mtpp.compare(CHAIN, 2, ["kahn", "exact"], bandwidth=1, solver_options={"no_such_option": 1})
    assert frame["error"].isna().tolist() == [True, False]
    assert "no_such_option" in frame["error"][1]


def test_certify_goes_on_without_a_solver_that_refuses() -> None:
    wide = Instance(regal_style("erdos-renyi", 40, seed=0), Platform(4, 1.0))
    with pytest.warns(RuntimeWarning, match="no_such_option"):
        result = mtpp.certify(wide, time_limit=4.0, solver_options={"no_such_option": 1})
    assert result.partition is not None
    assert result.bound is not None


def test_the_output_of_a_solver_is_kept_a_file_a_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the answer and named by question, model and case; the file states the option."""
    monkeypatch.chdir(tmp_path)
    graph_file(tmp_path)
    command = "bound graph.json -k 2 --bandwidth 1 --model guess-the-bottleneck --log logs/deep"
    assert run(f"{command} --solver-option presolve=off --solver-option mip_max_nodes=5 --out b.json") == 0
    files = sorted(Path("logs/deep").iterdir())
    assert len(files) == 2
    assert all("guess-the-bottleneck-r-" in file.name for file in files)
    assert all("HiGHS" in file.read_text() for file in files)
    provenance = json.loads(Path("b.json").read_text())["bounds"][0]["provenance"]
    assert provenance["solver_options"] == {"presolve": "off", "mip_max_nodes": "5"}
    assert mtpp.verify("b.json").rests_on_trust


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--log graph.json", "this is a file"),
        ("--log graph.json/below", "cannot be written"),
        ("--solver-option presolve", "as name=value"),
        ("--solver-option presolve=a --solver-option presolve=b", "each name once"),
        ("--solver-option nothing=1", "nothing"),
    ],
)
def test_bad_words_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    graph_file(tmp_path)
    assert run(f"bound graph.json -k 2 --bandwidth 1 {words}") in (2, 3)
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1
