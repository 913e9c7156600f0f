"""Solutions of other programs: each solver's own file comes back, and what is not right is refused in one line."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinds_cases import GOLDEN
from solver_commands import solve_file

from heuristics import HEURISTICS
from instances import ComputationGraph, InputError, Instance, Platform
from instances.errors import InputWarning
from instances.json_files import json_text, parse_json
from instances.random_graphs import regal_style
from mtpp.certifying.rerun import read_back
from mtpp.problems.checking import certificate_document, verify
from mtpp_models import build, read_solution, solve, write_model
from mtpp_models.exchange.solution_files import read_solution_file

# The optimum of this path on two devices is to cut behind a: 3 + 1 against 1 + 1 + 2, so 4.
GRAPH = ComputationGraph.from_edges([(0, 1), (1, 2)], [3.0, 1.0, 2.0], [1.0, 1.0, 1.0], names=("a", "b", "c"))
INSTANCE = Instance(GRAPH, Platform(2, 1.0))
UNIT = build(INSTANCE).unit
GOOD = {"bottleneck": 4 / UNIT, "y.a.1": 1, "y.b.1": 0, "y.c.1": 0, "c.a.1": 1, "c.a.2": 1, "c.b.1": 0, "c.b.2": 0}


@pytest.fixture(scope="module")
def instance() -> Instance:
    return Instance(regal_style("watts-strogatz", 10, seed=0), Platform(3, 1.0))


@pytest.mark.parametrize("suffix", [".lp", ".mps"])
def test_each_solvers_own_file_comes_back(tmp_path: Path, instance: Instance, solver: str, suffix: str) -> None:
    (model,) = write_model(instance, "exact", tmp_path / f"model{suffix}")
    best = solve(instance, "exact").cost
    endings = {"glpk": (".sol", ".txt"), "highs": (".sol", ".glpk")}.get(solver, (".sol",))
    for ending in endings:
        file = tmp_path / f"solution{ending}"
        solve_file(solver, model, file)
        found = read_solution(build(instance), file)
        assert found.partition.bottleneck == pytest.approx(best, rel=1e-4)
        if found.stated is not None:  # none of the files has a bound, but some say "optimal"
            assert found.stated == pytest.approx(best, rel=2e-4)
            assert found.stated <= found.partition.bottleneck


def test_the_solution_of_a_strengthened_model(tmp_path: Path, instance: Instance) -> None:
    """Its nodes are joined, and beyond the cutoff it says nothing."""
    start = HEURISTICS["random-100"].run(instance, np.random.default_rng(3))
    (model,) = write_model(instance, "exact+all", tmp_path / "model.lp", start)
    solve_file("highs", model, tmp_path / "solution")
    found = read_solution(build(instance, "exact+all", start=start), tmp_path / "solution")
    assert found.partition.bottleneck == pytest.approx(solve(instance, "exact").cost, rel=1e-4)
    assert found.stated is not None
    assert found.stated <= start.bottleneck


def listed(changes: dict[str, object] | None = None, head: str = "") -> str:
    return head + "".join(f"{name} {value}\n" for name, value in (GOOD | (changes or {})).items() if value is not None)


def written(folder: Path, text: str) -> Path:
    (folder / "s.sol").write_text(text)
    return folder / "s.sol"


def test_a_list_may_give_the_assignment_alone_and_a_bound(tmp_path: Path) -> None:
    file = written(tmp_path, "# bound: 0.5\n# my own\ny.a.1 1\n")
    found = read_solution(build(INSTANCE), file)
    assert found.partition.block.tolist() == [0, 1, 1]
    assert found.stated == 0.5 * UNIT


def test_the_cost_is_never_that_of_the_file(tmp_path: Path) -> None:
    head = "# Solution for model objective\n# Objective value = 1e-3\n"
    assert read_solution(build(INSTANCE), written(tmp_path, listed(head=head))).partition.bottleneck == 4


SCIP = "solution status: optimal solution found\nobjective value:  1\n"
REFUSED = {
    "is given twice": listed() + "y.a.1 1\n",
    "expected a finite number, found 'nan'": listed({"c.b.1": "nan"}),
    "expected a finite number, found '1e999'": listed({"c.b.1": "1e999"}),
    "expected a finite number, found '1_0'": listed({"c.b.1": "1_0"}),
    "y.a.1 is 0.5, neither 0 nor 1": listed({"y.a.1": 0.5}),
    "y.a.1 is 2; it lies between 0 and 1": listed({"y.a.1": 2}),
    "bottleneck is -1; it lies between 0 and inf": listed({"bottleneck": -1}),
    "there is no variable 'y.d.1' in the model exact": listed({"y.d.1": 1}),
    "points backwards": listed({"y.a.1": 0, "y.b.1": 1}),
    "the row slowest.1 does not hold": listed({"bottleneck": 3 / UNIT}),
    "the row leaves.a.b.1 does not hold": listed({"c.a.1": None}),
    "c.b.2 is missing": listed({"c.b.2": None}, "# Solution for model objective\n"),
    "expected a name and a value": listed() + "y.a.1 1 0\n",
    "more variables than the model has": "".join(f"v{i} 1\n" for i in range(100)),
    "there is no solution in it": "# Solution for model objective\n",
    "no solution in it": "no solution available\n",
    "the file is empty": "\n",
    "expected name, value and (obj:…)": f"{SCIP}y.a.1 1\n",
    "expected a finite number, found 'inf'": f"{SCIP}y.a.1 inf (obj:0)\n",
    "CBC marks": "Infeasible - objective value 0\n** 0 y.a.1 1 0\n",
    "number, name, value and reduced cost": "Optimal - objective value 1.2\n 0 y.a.1 1\n",
    "solution of a relaxation": "s bas 2 1 f f 1\nj 1 b 1 0\ne o f\n",
    "it has 2 variables": "s mip 2 2 o 1\nj 1 1\nj 2 1\ne o f\n",
    "1 variables of 2 have values": "s mip 2 2 o 1\nj 1 1\ne o f\n",
    "expected j 2 and its value": "s mip 2 2 o 1\nj 1 1\nj 1 1\ne o f\n",
    "does not end with e o f": "s mip 2 2 o 1\nj 1 1\n",
    "is cut short": "Model status\nOptimal\n# Columns 8\ny.a.1 1\n",
    "there is no solution": "Model status\nInfeasible\n\n# Primal solution values\nNone\n",
    "no solution of whole numbers": "Problem:    \nRows:       2\nColumns:    1\nStatus:     OPTIMAL\n",
}


@pytest.mark.parametrize("words", REFUSED)
def test_hostile_files_are_refused_in_one_line(tmp_path: Path, words: str) -> None:
    file = written(tmp_path, REFUSED[words])
    with pytest.raises(InputError) as error:
        read_solution(build(INSTANCE), file)
    assert words in str(error.value)
    assert str(error.value).startswith(str(file))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("other", [INSTANCE.with_k(3), Instance(GRAPH, Platform(2, 0.9))])
def test_a_solution_of_another_question_is_refused(tmp_path: Path, other: Instance) -> None:
    (model,) = write_model(other, "exact", tmp_path / "m.lp")
    solve_file("highs", model, tmp_path / "s.sol")
    with pytest.raises(InputError, match=r"s\.sol: .*(there is no variable|of another bandwidth)"):
        read_solution(build(INSTANCE), tmp_path / "s.sol")


FILES: dict[str, Callable[[], str]] = {
    "list": listed,
    "gurobi": lambda: listed(head="# Solution for model objective\n# Objective value = 1\n"),
    "scip": lambda: SCIP + "".join(f"{name}   {value} \t(obj:0)\n" for name, value in GOOD.items()),
    "cbc": lambda: (
        "Optimal - objective value 1\n"
        + "".join(f" {i} {name}  {value}  0\n" for i, (name, value) in enumerate(GOOD.items()))
    ),
    "highs": lambda: (
        f"Model status\nOptimal\n\n# Primal solution values\nFeasible\nObjective 1\n# Columns {len(GOOD)}\n"
        + listed()
        + "# Rows 1\nc_u_x_ 1\n"
    ),
}


@given(st.data())
def test_files_that_are_cut_or_distorted_are_refused_or_right(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    text = FILES[data.draw(st.sampled_from(list(FILES)))]()
    i = data.draw(st.integers(0, len(text)))
    junk = data.draw(st.sampled_from(["", "\n", " ", "-", "9", "e9", "nan", "\x00", "#", "y.a.1 0\n"]))
    tail = data.draw(st.sampled_from([text[i:], text[i + 1 :], ""]))
    file = written(tmp_path_factory.mktemp("cut"), text[:i] + junk + tail)
    with contextlib.suppress(InputError):  # which is one line by itself
        assert read_solution(build(INSTANCE), file).partition.bottleneck >= 4


def test_a_doubtful_objective_is_said(tmp_path: Path) -> None:
    """A solution that nobody calls optimal may cost less than its solver says."""
    head = "# Solution for model objective\n# Objective value = 3\n"
    with pytest.warns(InputWarning, match="is it of another bandwidth"):
        assert read_solution(build(INSTANCE), written(tmp_path, listed({"bottleneck": 3}, head))).stated is None


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "s.sol").open("wb") as file:
        file.truncate(2**26 + 1)
    with pytest.raises(InputError, match="the most that is read"):
        read_solution_file(tmp_path / "s.sol", 10)


@pytest.mark.parametrize("name", GOLDEN)
def test_over_kinds_a_solution_has_the_kinds_of_its_blocks(tmp_path: Path, name: str) -> None:
    """Its certificate passes the check; without the kinds it is none."""
    question, optimum = GOLDEN[name]
    (model,) = write_model(question, "exact", tmp_path / "model.lp")
    solve_file("highs", model, tmp_path / "found.sol")
    read = read_back(question, "exact", solution=tmp_path / "found.sol")
    assert read.answers[0].cost == pytest.approx(optimum, rel=1e-6)
    assert verify(parse_json(json_text(certificate_document(read.answers)), "found.json")).faults == ()
    part = build(question)
    _, labels = read_solution(part, tmp_path / "found.sol"), part.labels
    lines = [f"{labels(variable)} {variable.value}" for variable in part.model.y.values()]
    (tmp_path / "y.txt").write_text("\n".join(lines))
    with pytest.raises(InputError, match="on a kind that there is not"):
        read_solution(build(question), tmp_path / "y.txt")
