"""Bounds of callers by public names alone: everywhere, stated, never proved, and their faults their own."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

import pytest
from command_line import graph_file
from command_line import mtpp as run_verb

import mtpp
from mtpp import Bound, InputError, Result
from mtpp_models import Algorithm

OWN = '''
from functools import partial

from instances import Bound, Result
from mtpp_models import MODELS, Algorithm, Case, Formulation


def build(case):
    """The exact model with a row that every partition obeys."""
    import pyomo.environ as pyo

    model = case.build()
    model.positive = pyo.Constraint(expr=model.bottleneck >= 0)
    return model


def cases(data):
    of_exact = MODELS["exact"].cases(data)
    return [Case(f"own {case.name}", partial(build, case), case.superblock, case.blocks) for case in of_exact]


FORM = Formulation("own-exact", "the exact model with a row more", "nowhere", cases, exact=True)


def heaviest(start, controls):
    """The heaviest node lies in some block."""
    value = float(start.instance.graph.work.max())
    return Result("heaviest", start.instance, None, Bound(value, "heaviest", optimal=False))


HEAVY = Algorithm("heaviest", "the heaviest node", "nowhere", heaviest)


def stating(name, value):
    def run(start, controls):
        return Result(name, start.instance, None, Bound(value(start), name, optimal=False))

    return Algorithm(name, "", "", run)


FALSE = stating("false", lambda start: 1e6)
NAN = stating("nan", lambda start: float("nan"))
ENDLESS = stating("endless", lambda start: [None for _ in iter(int, 1)])
EXITS = stating("exits", lambda start: __import__("os")._exit(3))
TIGHT = stating("tight", lambda start: 5.5)
TEXT = Algorithm("text", "", "", lambda start, controls: "5")
SEVEN = 7
'''
TIMES = ["seconds", "cpu_seconds", "primal_integral", "gap_integral"]


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "own.py").write_text(OWN)
    return str(tmp_path / "own.py")


def wide() -> mtpp.ComputationGraph:
    """Of the optimum 5.5 in three blocks at bandwidth 4 *simple* says 4."""
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (3, 5)]
    return mtpp.ComputationGraph.from_edges(edges, [3, 2, 1, 2, 2, 2], [2, 2, 2, 2, 0, 0], name="wide")


@pytest.mark.slow
def test_rows_of_compare_are_the_same_in_one_process_and_in_two(own: str, tmp_path: Path) -> None:
    methods = ["kahn", f"{own}:FORM", f"{own}:HEAVY", "exact"]
    words: dict[str, Any] = {"bandwidth": 4, "file": tmp_path / "runs.jsonl"}
    frame = mtpp.compare(wide(), 3, methods, **words)
    assert frame["error"].isna().all()
    rows = frame.set_index("method")
    assert rows.loc["own.py:FORM", "bound"] == pytest.approx(rows.loc["exact", "bound"], rel=1e-6)
    assert rows.loc["own.py:FORM", "ratio"] == pytest.approx(1, rel=1e-4)
    assert rows.loc["own.py:FORM", "solver"] == "highs"
    assert rows.loc["own.py:HEAVY", "bound"] == 3
    again = mtpp.compare(wide(), 3, methods, bandwidth=4, jobs=2)
    assert again.drop(columns=TIMES).equals(frame.drop(columns=TIMES))
    lines = (tmp_path / "runs.jsonl").read_text().splitlines()
    Path(own).write_text(OWN.replace("heaviest node lies", "heaviest node always lies"))
    mtpp.compare(wide(), 3, methods, **words)
    assert (tmp_path / "runs.jsonl").read_text().splitlines() == lines
    Path(own).write_text(OWN.replace("graph.work.max()", "graph.work.min()"))
    changed = mtpp.compare(wide(), 3, f"{own}:HEAVY", **words).set_index("method")
    assert changed.loc["own.py:HEAVY", "bound"] == 1


@pytest.mark.slow
def test_faults_are_their_own_and_no_reference_for_others(own: str) -> None:
    names = ["FALSE", "NAN", "EXITS", "TEXT", "SEVEN"]
    frame = mtpp.compare(wide(), 3, ["kahn", *(f"{own}:{name}" for name in names), f"{own}:TIGHT"], bandwidth=4)
    rows = frame.set_index("method")
    errors = {name: rows.loc[f"own.py:{name}", "error"] for name in names}
    assert "1000000" in errors["FALSE"]
    assert errors["NAN"] == "nan claims the bound nan"
    assert errors["EXITS"] == "its process died (exit code 3)"
    assert errors["TEXT"] == "InputError: text returned str, not a Result with its Bound."
    assert errors["SEVEN"] == "SEVEN is of type int; a method is a function, a Formulation or an Algorithm"
    assert rows.loc["own.py:TIGHT", "bound"] == 5.5
    assert rows.loc["kahn", "ratio"] == rows.loc["kahn", "bottleneck"] / rows.loc["kahn", "simple"]


def test_a_bound_below_simple_is_kept_and_said(own: str) -> None:
    (row,) = mtpp.compare(wide(), 3, f"{own}:HEAVY", bandwidth=4).to_dict("records")
    assert (row["bound"], row["remark"]) == (3, "below simple")


def test_a_bound_is_stated_and_makes_nothing_optimal(own: str, tmp_path: Path) -> None:
    start = mtpp.certify(wide(), 3, bandwidth=4)
    assert start.cost == 5.5
    result = mtpp.bound(wide(), 3, f"{own}:TIGHT", bandwidth=4, start=start)
    assert (result.bound.value, result.basis, result.status.value) == (5.5, "stated by others", "feasible")
    assert result.ratio == 1
    assert any("own.py:TIGHT states the bound 5.5 s" in note for note in result.notes)
    verdict = mtpp.verify(result.save(tmp_path / "stated.json"))
    assert verdict.rests_on_trust
    assert verdict.proved_ratio is None
    assert run_verb(f"verify {tmp_path}/stated.json") == 4
    (claim,) = json.loads((tmp_path / "stated.json").read_text())["bounds"]
    assert claim["method"] == "stated"
    assert claim["provenance"]["by"] == "own.py:TIGHT"
    assert len(claim["provenance"]["sources"]) == 64


@pytest.mark.slow
def test_objects_are_stated_like_files(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(own).parent))
    import own as module  # type: ignore[import-not-found]

    try:
        for model in (module.FORM, module.HEAVY):
            result = mtpp.bound(wide(), 3, model, bandwidth=4)
            assert result.basis == "stated by others"
            assert mtpp.solve(wide(), 3, model, bandwidth=4).basis == "stated by others"
        frame = mtpp.compare(wide(), 3, [module.FORM, module.HEAVY, "own:FORM"], bandwidth=4)
        assert frame["method"].tolist() == ["own-exact", "heaviest", "own:FORM"]
        assert frame["error"].isna().all()
    finally:
        sys.modules.pop("own")


@pytest.mark.slow
def test_methods_take_turns_in_a_certification(own: str, tmp_path: Path) -> None:
    words: dict[str, Any] = {"bandwidth": 4, "time_limit": 20}
    plain = mtpp.certify(wide(), 3, **words)
    result = mtpp.certify(wide(), 3, methods=[f"{own}:TIGHT", f"{own}:FALSE", f"{own}:HEAVY"], **words)
    assert (result.cost, result.bound, result.status) == (plain.cost, plain.bound, plain.status)
    stated = {part.method: part.bound.value for part in result.parts if part.bound and not part.bound.proved}
    assert stated == {"own.py:TIGHT": 5.5, "own.py:HEAVY": 3}
    assert any(note.startswith("own.py:FALSE left out: its bound 1e+06 is above") for note in result.notes)
    verdict = mtpp.verify(result.save(tmp_path / "all.json"))
    assert not verdict.faults
    assert float(verdict.proved_ratio) == pytest.approx(1)


@pytest.mark.slow
def test_an_endless_method_costs_its_own_turn(own: str) -> None:
    result = mtpp.certify(wide(), 3, bandwidth=4, time_limit=20, methods=f"{own}:ENDLESS")
    assert result.proved
    assert any("own.py:ENDLESS left out: it did not end within" in note for note in result.notes)


@pytest.mark.slow
def test_the_command_line_has_them_all(own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph_file(tmp_path)
    graph = f"{tmp_path}/graph.json"
    assert run_verb(f"bound {graph} -k 2 --model {own}:HEAVY") == 0
    assert "own.py:HEAVY states the bound" in capsys.readouterr().out
    assert run_verb(f"certify {graph} -k 2 --methods {own}:HEAVY,{own}:FORM") == 0
    assert "own.py:FORM states the bound" in capsys.readouterr().out
    assert run_verb(f"table {graph} -k 2 --methods kahn,{own}:HEAVY --out {tmp_path}/runs.jsonl") == 0
    assert "own.py:HEAVY" in capsys.readouterr().out
    for words, message in {
        f"bound {graph} -k 2 --model {own}": "name a method in it",
        f"bound {graph} -k 2 --model {own}:EVIL": "There is no method 'EVIL'",
        f"bound {graph} -k 2 --model {own}:NAN": "own.py:NAN: nan claims the bound nan",
        f"bound {graph} -k 2 --model {own}:build": "build is a function, which searches",
        f"partition {graph} -k 2 --method {own}:HEAVY": "HEAVY is a model, which proves bounds",
        f"certify {graph} -k 2 --methods exact": "take part by themselves",
    }.items():
        assert run_verb(words) == 2, words
        assert message in capsys.readouterr().err


def test_entry_points_and_registered_models_are_of_callers(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = f"""
import mtpp, sys
sys.path.insert(0, {str(Path(own).parent)!r})
import own
mtpp.MODELS.register(own.HEAVY)
graph = mtpp.ComputationGraph.from_edges([(0, 1)], [2, 3], [4, 0])
print(mtpp.bound(graph, 2, "heaviest", bandwidth=1).basis)
print(mtpp.compare(graph, 2, ["heaviest"], bandwidth=1)["bound"].tolist())
try:
    mtpp.MODELS.register(7)
except mtpp.InputError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "stated by others",
        "[3.0]",
        "int has no name, which each entry of mtpp.models has.",
    ]


def test_bug_why_a_model_cannot_be_loaded_is_said(tmp_path: Path) -> None:
    """It was called a function, as nobody knew what it is; and `hunt` made a question small for it."""
    file = tmp_path / "broken.py"
    file.write_text("import no_such_module\nMINE = no_such_module.MINE\n")
    for ask in (lambda: mtpp.bound(wide(), 3, f"{file}:MINE", bandwidth=4), lambda: mtpp.hunt(f"{file}:MINE")):
        with pytest.raises(InputError, match=r"broken\.py:MINE: ModuleNotFoundError: No module named .no_such_module"):
            ask()


@pytest.mark.parametrize("name", ["exact", "", 5])
def test_bug_a_name_that_is_taken_or_none_is_refused(name: Any) -> None:
    """The part of a certificate that is called exact is that of this project."""
    model = Algorithm(name, "", "", lambda start, controls: Result("mine", start.instance))
    for ask in (partial(mtpp.bound, model=model), partial(mtpp.certify, methods=model)):
        with pytest.raises(InputError, match=r"another name|a text as its name"):
            ask(wide(), 3, bandwidth=4)


def test_bug_a_bound_of_ones_own_that_is_no_number_is_no_bug_of_ours() -> None:
    model = Algorithm("mine", "", "", lambda start, controls: Result("mine", start.instance, None, Bound(nan, "mine")))
    with pytest.raises(InputError, match=r"^mine claims the bound nan\.$"):
        mtpp.bound(wide(), 3, model, bandwidth=4)


def test_bug_a_model_for_devices_that_are_alike_says_how_it_is_for_others(tmp_path: Path) -> None:
    """It was called a model that is not there."""
    model = Algorithm("mine", "", "", lambda start, controls: Result("mine", start.instance))
    kinds = [{"name": str(t), "count": 1, "speed": t, "memory": 1e9, "bandwidth": 1e9} for t in (1, 2)]
    (devices := tmp_path / "devices.json").write_text(json.dumps({"format": "mtpp-devices/2", "kinds": kinds}))
    with pytest.raises(InputError, match=r'^mine is for devices that are all alike; make it with kinds="any"'):
        mtpp.bound(wide(), model=model, devices=devices)
