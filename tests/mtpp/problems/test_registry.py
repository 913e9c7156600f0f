"""The registry of problems: a new one is a folder and a line, and whatever is wrong with it is said at once."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mtpp.api
from instances.deadline import Deadline
from mtpp.certifying.loop import Loop
from mtpp.cli.main import main
from mtpp.problems.registry import PROBLEMS, Named, Problem, Problems
from mtpp_models import SolveOptions

sys.path.append(str(Path(__file__).parent))
import jobs


@pytest.fixture
def registered() -> Iterator[None]:
    PROBLEMS.add(jobs.problem())
    yield
    PROBLEMS.remove("jobs")


@pytest.mark.usefixtures("registered")
def test_a_new_problem_is_one_folder_and_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Search, bound, file, check, page, picture and explanation; a method that divides by zero is left out."""
    question = jobs.Jobs((3.0, 2.0, 2.0, 1.0), (1.0, 2.0))
    loop: Loop[Any, Any] = Loop(question, SolveOptions(), Deadline.after(None), [])
    loop.steps(jobs.methods(question))
    result = loop.result()
    assert result.bound is not None
    assert (result.cost, result.bound.value) == (3.0, 8 / 3)
    assert any("broken left out: ZeroDivisionError" in note for note in result.notes)
    file = result.save(tmp_path / "jobs.json")
    again = mtpp.read(file)
    assert (again.cost, again.bound.value) == (3.0, 8 / 3)
    assert mtpp.verify(file).faults == ()
    assert main(["verify", str(file)]) == 0
    assert "ratio       1.125000 by bounds re-proved here alone" in capsys.readouterr().out
    assert main(["verify", str(file), "-k", "2"]) == 2
    assert "-k says nothing of an assignment" in capsys.readouterr().err
    forged = json.loads(file.read_text())
    forged["bounds"][0]["value"] = 2.9
    file.write_text(json.dumps(forged))
    assert mtpp.verify(file).faults[0].startswith("bounds[0] (even): value 2.9 is claimed")
    assert "Machines" in mtpp.report(result)
    assert result.plot().axes
    assert mtpp.explain(result).sentences() == ["Machine 0 is the last."]
    with pytest.raises(mtpp.InputError, match="holds no cut"):
        mtpp.export(file, "vllm")


def test_what_is_wrong_with_a_problem_is_said_by_name() -> None:
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'figure'"):
        Problem(**{name: value for name, value in jobs.JOBS.items() if name != "figure"})
    for name, value in {"cut": None, "stated": (), "name": ""}.items():
        with pytest.raises(TypeError, match=f"lacks {name}"):
            jobs.problem(**{name: value})
    with pytest.raises(TypeError, match="'jobs' names nothing; give module:name"):
        Named("jobs")
    for changes in ({}, {"name": "other"}):
        with pytest.raises(TypeError, match="is registered twice"):
            Problems(jobs.problem(), jobs.problem(**changes))


def test_all_names_of_the_registry_exist() -> None:
    for problem in PROBLEMS:
        for value in vars(problem).values():
            items = value.values() if hasattr(value, "values") else value if isinstance(value, tuple) else [value]
            assert all(isinstance(item, str) or callable(item.load()) for item in items)
