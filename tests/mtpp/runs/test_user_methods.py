"""Heuristics of callers: the same answers wherever they run, their costs computed anew, failures that are their own."""

from __future__ import annotations

import subprocess
import sys
import types
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from study_jobs import diamonds
from user_heuristics import SOUND, UNSOUND

import mtpp
from heuristics import HEURISTICS, Method
from instances import InputError, Partition
from instances.random_graphs import layered
from mtpp.runs import method_process
from mtpp.runs.job import read_runs
from mtpp.runs.partition_job import jobs_of
from mtpp.runs.user_methods import UserMethod, as_user_method, turns_of

ROOT = Path(__file__).resolve().parents[3]
TIMES = ["seconds", "cpu_seconds", "primal_integral", "gap_integral"]


def compared(methods: Any, k: Any = 2, **words: Any) -> pd.DataFrame:
    return mtpp.compare(diamonds(), k, methods, bandwidth=2.0, **words)


@pytest.fixture
def sound(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(SOUND)
    return f"{tmp_path}/mine.py:mine"


@pytest.mark.slow
def test_one_process_and_several_give_equal_frames(sound: str, tmp_path: Path) -> None:
    """From a file, with seeds; a changed file is another question, a changed comment is none."""
    file = tmp_path / "runs.jsonl"
    words: dict[str, Any] = {"methods": ["random-1", sound], "k": [2, 3], "seeds": "0,1,2"}
    one = compared(**words, file=file)
    assert one["error"].isna().all()
    assert one["remark"].isna().all()
    assert one["method"].unique().tolist() == ["random-1", "mine.py:mine"]
    assert one["seed"].tolist() == [0, 1, 2] * 4
    two = compared(**words, jobs=2)
    assert two.drop(columns=TIMES).equals(one.drop(columns=TIMES))
    assert (one["bottleneck"] >= one["simple"]).all()
    lines = len(file.read_text().splitlines())
    path = Path(sound.rpartition(":")[0])
    path.write_text(f"# A remark.\n{SOUND}")
    assert compared(**words, file=file).equals(one)
    assert len(file.read_text().splitlines()) == lines
    path.write_text(SOUND.replace("LARGEST = 1.0", "LARGEST = -1.0"))
    changed = compared(**words, file=file)
    assert len(file.read_text().splitlines()) == lines + 6
    ours = changed["method"] == "random-1"
    assert changed[ours].equals(one[ours])


def test_a_changed_function_never_answers_from_an_old_file(tmp_path: Path) -> None:
    """Neither one of this process, nor one that is registered under its old name."""
    file = tmp_path / "runs.jsonl"

    def first(instance: Any, rng: Any, limits: Any = None) -> Partition:
        return Partition(instance, np.zeros(instance.graph.n, dtype=int))

    def second(instance: Any, rng: Any, limits: Any = None) -> Partition:
        return HEURISTICS["kahn"].run(instance, rng)

    costs = [compared(Method("mine", "", "", f), file=file)["bottleneck"][0] for f in (first, second, first)]
    assert costs == [diamonds().work.sum(), compared("kahn")["bottleneck"][0], diamonds().work.sum()]
    assert len(file.read_text().splitlines()) == 2
    with pytest.raises(InputError, match="first has no file that other processes could load"):
        compared(first, jobs=2)
    with pytest.raises(InputError, match="<lambda> has no file"):
        compared(lambda i, r, limits=None: first(i, r), jobs=2)
    assert compared(lambda i, r, limits=None: first(i, r))["bottleneck"].tolist() == costs[:1]


def test_a_function_of_no_module_runs_here() -> None:
    """As those of cells and texts."""
    scope: dict[str, Any] = {}
    exec(compile(SOUND, "cell", "exec"), scope)
    assert compared([scope["mine"], "random-1"])["error"].isna().all()


@pytest.mark.slow
def test_a_bad_heuristic_costs_its_own_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fails with one line of its own, and the rest goes on; what it says of its cost counts for nothing."""
    monkeypatch.setattr(method_process, "GRACE", 0.5)
    (tmp_path / "bad.py").write_text(UNSOUND)
    names = ["broken", "nonsense", "cheat", "backwards", "deadly", "leaves", "prints", "endless"]
    frame = compared([*(f"{tmp_path}/bad.py:{name}" for name in names), "kahn"], time_limit=6)
    found = frame.set_index("method")
    errors = found["error"].dropna().to_dict()
    assert errors == errors | {
        "bad.py:broken": "RuntimeError: this one is broken in two lines",
        "bad.py:deadly": "its process died (exit code 3)",
        "bad.py:leaves": "SystemExit: 0",
        "bad.py:endless": "it did not end within 7.1 s, and its process was ended",
    }
    assert "int, not a Partition" in errors["bad.py:nonsense"]
    assert "InputError" in errors["bad.py:backwards"]
    assert len(errors) == 6
    assert found.loc["bad.py:cheat", "bottleneck"] == diamonds().work.sum()
    assert found.loc["bad.py:prints", "bottleneck"] == found.loc["kahn", "bottleneck"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("from .near import LARGEST", "a file alone has no package: import without the dot"),
    ],
)
def test_a_file_that_cannot_be_loaded_fails_its_runs(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "far.py").write_text(f"{line}\n{SOUND}")
    frame = compared([f"{tmp_path}/far.py:mine", "kahn"], k=[2, 3])
    (error,) = frame["error"].dropna().unique()
    assert message in error
    assert frame["error"].isna().tolist() == [False, True, False, True]


def test_late_and_moody_heuristics_are_marked(tmp_path: Path) -> None:
    """Of all its rows, as it was asked twice once."""
    (tmp_path / "bad.py").write_text(UNSOUND)
    frame = compared([f"{tmp_path}/bad.py:late", f"{tmp_path}/bad.py:moody"], k=[2, 3], budgets=0.1)
    assert frame["remark"].fillna("").tolist() == ["late", "not repeatable"] * 2
    assert frame["budget"].tolist() == [0.1] * 4


def test_budgets_end_searches_of_ours() -> None:
    frame = compared(["local-search", "kahn"], budgets=[0.05, 0.1])
    assert frame["budget"].tolist() == [0.05, 0.1, 0.05, 0.1]
    assert frame["error"].isna().all()


REFUSED = {
    "no_such.py:mine": "there is no such file",
    "{}/mine.py:mind": "There is no method 'mind'; did you mean mine",
    "{}/broken.py:mine": "cannot be read as Python",
    "no.such.module:mine": "set PYTHONPATH to the folder that it is in",
    "no_such_module:mine": "there is no module no_such_module",
    "{}/later.py:mine": "mine is asynchronous; define it with def",
    "{}/huge.py:mine": "1048576 are the most that is read",
}


@pytest.mark.parametrize(("method", "message"), REFUSED.items(), ids=REFUSED)
def test_what_is_not_there_is_refused_before_any_run(method: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SOUND)
    (tmp_path / "broken.py").write_text("def mine(:\n")
    (tmp_path / "huge.py").write_text("#" * 2**20 + SOUND)
    (tmp_path / "later.py").write_text(SOUND.replace("def mine", "async def mine"))
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        compared(["kahn", method.format(tmp_path)], file=tmp_path / "runs.jsonl")
    assert not (tmp_path / "runs.jsonl").exists()


def mine(instance: Any, rng: Any, limits: Any = None) -> Partition:
    return HEURISTICS["kahn"].run(instance, rng)


def kahn(instance: Any, rng: Any, limits: Any = None) -> Partition:
    return mine(instance, rng)


class Provable:
    """Has what a model has, and is none."""

    name = "provable"

    def prove(self, start: Any, deadline: Any) -> float:
        return 1.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"methods": 7}, "methods=7: give a text such as 'a,b', or a list"),
        ({"methods": ["kahn", 7]}, "give names, functions or models, no int"),
        ({"methods": b"kahn"}, "methods=b'kahn': give a text"),
        ({"methods": "kahn", "solvers": 7}, "solvers=7: give a text"),
        ({"methods": "kahn", "solvers": ["highs", 7]}, "give names, no int"),
        ({"methods": "kahn", "seeds": "x"}, "seeds='x': give whole numbers"),
        ({"methods": "kahn", "seeds": [0, -1]}, "give whole numbers from 0 on"),
        ({"methods": "kahn", "seeds": [0.5]}, "give whole numbers"),
        ({"methods": "kahn", "seeds": [None]}, "give whole numbers"),
        ({"methods": "kahn", "budgets": 0}, "budgets=0: give numbers of seconds above 0"),
        ({"methods": "kahn", "budgets": "1,inf"}, "give numbers of seconds above 0"),
        ({"methods": [kahn]}, "kahn is a method of this project"),
        ({"methods": [mine, Method("mine", "", "", kahn)]}, "two are called mine"),
        ({"methods": [partial(mine), partial(mine, limits=None)]}, "two are called partial; give one another __name__"),
        ({"methods": [Provable()]}, "give functions, a Formulation, an Algorithm, a name"),
    ],
)
def test_wrong_words_are_one_line(words: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        compared(**words)


def test_partial_functions_are_told_apart_by_their_names() -> None:
    searches = [partial(mine), partial(mine, limits=None)]
    for search, name in zip(searches, ("wide", "narrow"), strict=True):
        vars(search)["__name__"] = name
    assert compared(searches)["method"].tolist() == ["wide", "narrow"]


@pytest.mark.parametrize("method", [Provable(), mine])
def test_what_is_no_model_bounds_nothing(method: Any) -> None:
    with pytest.raises(InputError, match=r"model=.*: give a Formulation, an Algorithm, a name"):
        mtpp.bound(mtpp.load("gpt2", level="layer"), 2, method)


def test_functions_of_modules_travel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By their file or by their package; one whose file has changed since the import is refused."""
    package = tmp_path / "parcel"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "deep.py").write_text("from .other import mine\n")
    (package / "other.py").write_text(SOUND)
    (tmp_path / "loose.py").write_text(SOUND)
    monkeypatch.syspath_prepend(tmp_path)
    import loose  # type: ignore[import-not-found]

    frame = compared([loose.mine, "parcel.deep:mine"])
    assert frame["method"].tolist() == ["mine", "parcel.deep:mine"]
    assert frame["error"].isna().all()
    assert frame["bottleneck"].nunique() == 1
    before = jobs_of([], ["parcel.deep:mine"]), _sources("parcel.deep:mine")
    (package / "other.py").write_text(SOUND.replace("LARGEST = 1.0", "LARGEST = -1.0"))
    assert _sources("parcel.deep:mine") != before[1]
    (tmp_path / "loose.py").write_text(SOUND.replace("LARGEST *", "2 *"))
    with pytest.raises(InputError, match="is not what was imported any more"):
        compared(loose.mine)
    sys.modules.pop("loose")


def _sources(method: str) -> Any:
    (job,) = jobs_of([mtpp.Instance(diamonds(), mtpp.Platform(2, 2.0))], [method])
    return job.identity["sources"]


SCRIPT = """
import sys
import mtpp
from heuristics import HEURISTICS

def mine(instance, rng, limits=None):
    return HEURISTICS["kahn"].run(instance, rng)

def study(jobs):
    graph = mtpp.ComputationGraph.from_edges([(0, 1)], [2, 3], [4, 0])
    frame = mtpp.compare(graph, [1, 2], mine, bandwidth=1, jobs=jobs, file=sys.argv[1])
    print(frame[["method", "k", "bottleneck", "error"]].to_json(orient="records"))

"""


@pytest.mark.slow
def test_a_script_needs_a_guard_for_several_processes_alone(tmp_path: Path) -> None:
    """Its function runs in one process and in two."""
    script = tmp_path / "study.py"

    def called(end: str, runs: str) -> tuple[str, set[str]]:
        script.write_text(SCRIPT + end)
        command = [sys.executable, str(script), str(tmp_path / runs)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT)})
        return done.stdout, {run["key"] for run in read_runs(tmp_path / runs)}

    one, keys = called("study(1)\n", "one.jsonl")
    assert '"bottleneck":5.0,"error":null' in one
    two, others = called("if __name__ == '__main__':\n    study(2)\n", "two.jsonl")
    assert (one, len(keys), len(others)) == (two, 2, 2)


def test_a_frame_is_tidy(tmp_path: Path) -> None:
    """Numbers are numbers, and a file of parquet gives them back."""
    pytest.importorskip("pyarrow", reason="needs the extra 'notebooks'")
    frame = compared(["kahn", "pinned", mine])
    numbers = ["budget", "bottleneck", "bound", "ratio", "simple", *TIMES]
    assert {str(frame[name].dtype) for name in numbers} == {"float64"}
    frame.to_parquet(tmp_path / "frame.parquet")
    back = pd.read_parquet(tmp_path / "frame.parquet")
    pd.testing.assert_frame_equal(back, frame, check_dtype=False)


def test_a_notebook_shows_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """It changes while runs are made."""
    from mtpp.runs import engine

    shown: list[str] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            shown.append(data["text/plain"])

    def display(data: dict[str, str], raw: bool, display_id: bool) -> Handle:
        shown.append(data["text/plain"])
        return Handle()

    shell = types.SimpleNamespace(kernel=None)
    fake = types.SimpleNamespace(get_ipython=lambda: shell, display=types.SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setattr(engine, "_NOTEBOOK_SECONDS", 0.0)
    compared(["kahn", "simple", mine], k=[2, 3])
    assert len(shown) == 6
    assert shown[-1] == "6 of 6 runs, about 0 s left"


def test_bug_searches_are_loaded_before_the_clock_of_a_certification_starts(tmp_path: Path) -> None:
    """Else a file that takes long to import takes the time of all others."""
    (tmp_path / "mine.py").write_text("def mine(instance, rng, limits):\n    return None\n")
    turns_of([f"{tmp_path}/mine.py:mine"])
    method = as_user_method(f"{tmp_path}/mine.py:mine")
    assert isinstance(method, UserMethod)
    assert method.sources in method_process._KEPT
    method_process.end_processes()


def test_bug_a_file_that_names_the_runs_beside_it_is_the_same_after_them(tmp_path: Path) -> None:
    """The runs were data of the method, so that each call made them again."""
    (tmp_path / "mine.py").write_text(f"{SOUND}\nRUNS, WEIGHTS = 'runs.jsonl', 'weights.txt'\n")
    (tmp_path / "weights.txt").write_text("1")
    for weights, lines in (("1", 1), ("1", 1), ("2", 2)):
        (tmp_path / "weights.txt").write_text(weights)
        compared(f"{tmp_path}/mine.py:mine", file=tmp_path / "runs.jsonl")
        assert len(read_runs(tmp_path / "runs.jsonl")) == lines


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="one process works where forks are not safe")
def test_bug_user_methods_take_turns_in_two_processes(sound: str) -> None:
    """One of a file was asked by a fork that no answer reached, and never ended; one of this process was an error."""
    graph = layered(40, 80, 0)
    methods = [sound, lambda instance, rng, limits=None: Partition(instance, np.zeros(40, dtype=int))]
    assert mtpp.certify(graph, 5, bandwidth=1.0, methods=methods, threads=2, time_limit=2).cost is not None
