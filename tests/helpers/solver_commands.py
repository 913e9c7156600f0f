"""Solvers as colleagues use them: from the file of a model to the file of a solution, without Pyomo."""

from __future__ import annotations

import subprocess
from pathlib import Path


def solve_file(solver: str, model: Path, solution: Path) -> None:
    """Let a solver write what it finds."""
    globals()[f"_{solver}"](str(model), str(solution))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _cbc(model: str, solution: str) -> None:
    _run("cbc", model, "solve", "solution", solution)


def _glpk(model: str, solution: str) -> None:
    option = "--output" if solution.endswith(".txt") else "--write"
    _run("glpsol", "--lp" if model.endswith(".lp") else "--freemps", model, option, solution)


def _highs(model: str, solution: str) -> None:
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("log_to_console", False)
    highs.readModel(model)
    highs.run()
    highs.writeSolution(solution, 2 if solution.endswith(".glpk") else 0)


def _scip(model: str, solution: str) -> None:
    from pyscipopt import Model

    scip = Model()
    scip.hideOutput()
    scip.readProblem(model)
    scip.optimize()
    scip.writeBestSol(solution)


def _gurobi(model: str, solution: str) -> None:
    import gurobipy

    with gurobipy.Env(params={"OutputFlag": 0}) as environment, gurobipy.read(model, environment) as problem:
        problem.optimize()
        problem.write(solution)
