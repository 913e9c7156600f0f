"""Faults of solvers are answers: one line, exit code 3, and nothing that was known is lost."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import mtpp

from heuristics import HEURISTICS
from instances import FalseCertificateError, InputError, Instance, Partition, Platform, save_graph
from instances.certificates import SOLVER_NAMES
from instances.random_graphs import regal_style
from instances.system.processes import run_program
from mtpp.certifying.certify import Methods, certify, methods_for
from mtpp.cli.printing import certificate_row
from mtpp.runs.job import read_runs
from mtpp_models import (
    MODELS,
    SOLVERS,
    Formulation,
    SolveOptions,
    SolverFaultError,
    SolverNotAvailableError,
    available_solvers,
    solve,
)
from mtpp_models.formulations.formulation import Case, ExcludedPartitionError
from mtpp_models.formulations.scaled_instance import ScaledInstance
from mtpp_models.solvers.interface import Controls, SolverOutcome, Termination
from mtpp_models.solvers.registry import Solver, find_solver

_CBC = shutil.which("cbc")
_VERSION = 'case "$*" in *-stop*) echo "Version: 2.10.8"; exit 0;; esac\n'
_REAL = f'out=$({_CBC} "$@")\nfor a; do case $a in *.soln) soln=$a;; esac; done\n'

#: Programs called cbc, and what is said of them.
FAKES = {
    "garbage": (_VERSION + "head -c 3000 /dev/urandom", "without an answer"),
    "garbage for a version": ("head -c 3000 /dev/urandom", "without an answer"),
    "nothing": (_VERSION + "exit 0", "without an answer"),
    "a failure": (_VERSION + "echo boom; exit 3", "exit code 3"),
    "a crash": (_VERSION + "kill -SEGV $$", "died of SIGSEGV"),
    "no solution file": (
        _VERSION + "echo 'Result - Optimal solution found'\necho 'Objective value: 1.0'",
        "no solution",
    ),
    "infeasible": (_VERSION + "echo 'Result - Problem proven infeasible'", "no solution of exact"),
    "NaN": (_VERSION + "echo 'Result - Optimal solution found'\necho 'Objective value: nan'", "states the bound nan"),
    "a bound above all": (
        _VERSION
        + "echo 'X Partial search - best objective 9 (best possible 4.5), took 1 iterations and 0 nodes (1 s)'",
        "states the bound",
    ),
}
#: The same that need a CBC to distort.
DISTORTED = {
    "a lie": (
        _VERSION + _REAL + 'echo "$out" | sed \'s/best objective [0-9.e+-]*,/best objective 5.5,/; '
        "s/^Objective value: .*/Objective value: 5.5/'",
        "above its own objective",
    ),
    "NaN as a solution": (
        _VERSION + _REAL + 'sed -i "s/^\\( *[0-9]* *x[0-9]* *\\)[0-9.e+-]*/\\1nan/" "$soln"; echo "$out"',
        "states the objective nan",
    ),
    "a negative solution": (
        _VERSION + _REAL + 'sed -i "s/^\\( *[0-9]* *x[0-9]* *\\)[0-9.e+-]*/\\1-7/" "$soln"; echo "$out"',
        "costs are never negative",
    ),
}


@pytest.fixture(scope="module")
def small() -> Instance:
    return Instance(regal_style("watts-strogatz", 14, seed=0), Platform(3, 1.0))


Fake = Callable[[str], None]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    """Puts a program called cbc in front of all others."""
    from pyomo.common import Executable

    programs = tmp_path / "programs"
    programs.mkdir()

    def install(script: str) -> None:
        (programs / "cbc").write_text(f"#!/bin/sh\n{script}\n")
        (programs / "cbc").chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        Executable("cbc").rehash()  # Pyomo remembers where programs are

    yield install
    monkeypatch.undo()
    Executable("cbc").rehash()


@pytest.mark.parametrize(("script", "symptom"), FAKES.values(), ids=FAKES)
def test_a_faulty_program_is_named(script: str, symptom: str, small: Instance, fake: Fake) -> None:
    """The message names the solver, what it did, and what to do."""
    fake(script)
    with pytest.raises(SolverFaultError) as caught:
        solve(small, "exact", SolveOptions(solver="cbc", time_limit=30))
    message = str(caught.value)
    assert message.startswith("Solver cbc ")
    assert symptom in message
    assert message.endswith("choose another solver.")
    assert message.isprintable()


@pytest.mark.skipif(_CBC is None, reason="CBC is not installed")
@pytest.mark.parametrize(("script", "symptom"), DISTORTED.values(), ids=DISTORTED)
def test_a_distorted_answer_is_found_out(script: str, symptom: str, small: Instance, fake: Fake) -> None:
    """What contradicts itself does not count."""
    fake(script)
    with pytest.raises(SolverFaultError, match=symptom):
        solve(small, "exact", SolveOptions(solver="cbc", time_limit=30))


@pytest.mark.slow
def test_a_program_that_ignores_its_limit_ends_with_its_children(
    small: Instance, fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that ignores Ctrl-C; its files are removed."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    child = tmp_path / "child"
    script = f"{_VERSION}trap '' INT TERM\nsleep 1000 &\necho $! > {child}\nwhile :; do sleep 1000; done"
    fake(script)
    with pytest.raises(SolverFaultError, match="did not end within its"):
        solve(small, "exact", SolveOptions(solver="cbc", time_limit=0.5))
    number = int(child.read_text())
    for _ in range(10_000):
        if not Path(f"/proc/{number}").exists() or ") Z " in Path(f"/proc/{number}/stat").read_text():
            break
        time.sleep(0.01)
    else:
        pytest.fail("a child of the solver goes on")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["child", "programs"]


def test_a_program_that_hangs_when_asked_for_its_version(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no solver that can be had, and asking for it says why."""
    fake("sleep 1000")
    monkeypatch.setattr("mtpp_models.solvers.pyomo_solvers._PATIENCE", 0.2)
    assert "cbc" not in available_solvers()
    with pytest.raises(SolverFaultError, match="does not say its version"):
        find_solver("cbc")


def test_what_a_program_prints_is_kept_as_text() -> None:
    """Bytes that are no text are replaced, and the exit code is known."""
    run = run_program(["sh", "-c", "printf 'a\\377b'; exit 5"])
    assert (run.code, run.text, run.stopped) == (5, "a\ufffdb", False)


def test_the_ladder_goes_on_without_the_solver(
    folder: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3 and one line, after what the other methods found; the certificate is written.

    The solver has the only long turn, so that no quick machine does without it.
    """

    def alone(*given: Any) -> Methods:
        methods = methods_for(*given)
        return replace(methods, short=[], turns=[one for one in methods.turns if one.name == "exact"])

    monkeypatch.setattr("mtpp.certifying.certify.methods_for", alone)
    save_graph(regal_style("barabasi-albert", 60, seed=0), folder / "graph.json")
    fake(FAKES["a crash"][0])
    command = "certify graph.json -k 2 --bandwidth 1 --solver cbc --time-limit 10 --out certificate.json"
    assert mtpp(command) == 3
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("mtpp: ")]
    assert sum("Solver cbc died of SIGSEGV" in line for line in said) == 1
    written = json.loads(Path("certificate.json").read_text())
    assert written["format"].startswith("mtpp-answer/")
    assert written["ratio"] >= 1


def test_a_faulty_solver_costs_a_table_its_own_runs(folder: Path, fake: Fake) -> None:
    """They are recorded as failed, with the symptom; the others are made."""
    fake(FAKES["a crash"][0])
    command = "table path.json -k 2 --bandwidth 1 --methods kahn,ideals,exact --solver cbc"
    assert mtpp(command) == 1
    errors = {run["method"]: run["error"] for run in read_runs("runs.jsonl")}
    assert "died of SIGSEGV" in errors.pop("exact")
    assert set(errors.values()) == {None}


def test_a_lie_that_a_later_partition_shows_is_dropped(small: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound between the optimum and the start is believed until a better partition is known."""
    truth = certify(small, SolveOptions(time_limit=20))
    assert truth.partition is not None
    lie = truth.partition.bottleneck * 1.001
    real = SOLVERS["highs"]

    def run(model: object, controls: Controls) -> SolverOutcome:
        outcome = real.run(model, controls)
        assert outcome.bound is not None
        return SolverOutcome(Termination.STOPPED, outcome.bound * 1.001)

    monkeypatch.setitem(SOLVERS, "liar", Solver("liar", "none", lambda: "1", run, 0.0))
    start = HEURISTICS["random-1"].run(small, np.random.default_rng(0))
    assert start.bottleneck > lie
    lied = solve(small, "exact", SolveOptions(solver="liar"), start=start)
    assert lied.basis == "trusted from liar 1"
    assert certificate_row(lied)["by"] == "exact (trusted from liar 1)"
    assert "(exact, trusted from liar 1)" in lied.summary()
    assert "(exact, trusted from liar 1)" in repr(lied)
    faults: list[SolverNotAvailableError] = []
    result = certify(small, SolveOptions(time_limit=20, solver="liar"), earlier=[lied], on_fault=faults.append)
    assert result.bound is not None
    assert result.bound.value <= truth.partition.bottleneck * (1 + 1e-9)
    assert "against an answer" in str(faults[0])


@pytest.mark.parametrize(
    "name", ["", "hihgs", "./cbc", "/bin/sh", "asl:sh", "asl:/bin/sh", "sh", "a.b", "a b", "_cbc_shell"]
)
def test_a_name_runs_no_program(name: str, small: Instance) -> None:
    """Pyomo takes a path or any program of the search path as a solver, and runs it."""
    for ask in (find_solver, lambda name: solve(small, options=SolveOptions(solver=name))):
        with pytest.raises(InputError, match=r"no solver .*[Tt]here are .*highs"):
            ask(name)


def test_names_of_pyomo_are_for_people_not_for_files() -> None:
    """A registered plugin is found by name where a person typed it; certificates name those of the registry."""
    assert find_solver("appsi_highs").name == "appsi_highs"
    assert set(SOLVER_NAMES) == {*SOLVERS, "cp-sat"}


def test_a_missing_solver_names_its_package(small: Instance) -> None:
    missing = [name for name in SOLVERS if name not in available_solvers()]
    if not missing:
        pytest.skip("every solver is installed")
    with pytest.raises(SolverNotAvailableError, match=f"install {SOLVERS[missing[0]].package.split()[0]}"):
        solve(small, options=SolveOptions(solver=missing[0]))


def test_a_model_beyond_a_limited_licence_is_one_line() -> None:
    if "gurobi" not in available_solvers():
        pytest.skip("gurobi is not installed")
    if os.environ.get("GRB_LICENSE_FILE"):
        pytest.skip("a full licence of Gurobi is set up")
    large = Instance(regal_style("barabasi-albert", 70, seed=0), Platform(40, 1.0))
    with pytest.raises(SolverNotAvailableError, match=r"^Gurobi cannot solve this model: .*\.$"):
        solve(large, "exact", SolveOptions(solver="gurobi", time_limit=60))


def apart(instance: Instance, **changes: object) -> Formulation:
    """The exact model with the first and the last node of the order in different blocks."""
    exact = MODELS["exact"]
    assert isinstance(exact, Formulation)
    first, last = int(instance.graph.topological_order[0]), int(instance.graph.topological_order[-1])

    def cases(data: ScaledInstance) -> list[Case]:
        (case,) = exact.cases(data)

        def build() -> object:
            model = case.build()
            model.y[first, 1].fix(1)
            model.y[last, 1].fix(0)
            return model

        return [Case("apart", build, case.superblock)]

    fields = {"name": "apart", "summary": "", "reference": "", "cases": cases, "exact": True}
    return Formulation(**(fields | changes))


def costly() -> tuple[Instance, Partition]:
    """Two blocks cost more than one."""
    instance = Instance(regal_style("watts-strogatz", 14, seed=0), Platform(2, 1e-3))
    return instance, Partition(instance, [0] * 14)


def test_a_model_that_excludes_the_start_is_told_from_a_lying_solver() -> None:
    """Neither the solver nor this project is to blame; the message names the remedy."""
    instance, start = costly()
    for begin in (start, None):
        with pytest.raises(InputError, match=r"The model apart excludes a partition .* is_bound=False"):
            solve(instance, apart(instance), start=begin, reduce=False)


def test_a_model_that_is_no_bound_gives_a_partition_alone() -> None:
    """The partition satisfies its constraints; the start, which does not, stays out."""
    instance, start = costly()
    result = solve(instance, apart(instance, is_bound=False), start=start, reduce=False)
    assert result.bound is None
    assert result.partition is not None
    assert result.partition.block[instance.graph.topological_order[0]] == 0
    assert result.partition.block[instance.graph.topological_order[-1]] == 1


def test_a_wrong_model_of_this_project_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of a model of this project can do nothing about it; one that a program registers is its own."""
    instance, start = costly()
    monkeypatch.setattr(MODELS, "_entries", dict(MODELS))
    MODELS.register(apart(instance))
    with pytest.raises(ExcludedPartitionError, match="is_bound=False"):
        solve(instance, "apart", start=start, reduce=False)
    monkeypatch.setattr(MODELS, "shipped", frozenset(MODELS))
    with pytest.raises(FalseCertificateError, match="please report"):
        solve(instance, "apart", start=start, reduce=False)
