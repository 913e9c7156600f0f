"""Code that changes is another question; comments, and code that a method does not use, are none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from heuristics import HEURISTICS
from heuristics.placement import PLACERS
from instances.import_guard import SIBLINGS
from instances.suites import find_suite
from mtpp.certifying.certify import certify
from mtpp.runs import sources
from mtpp.runs.partition_job import run_methods
from mtpp.runs.sources import PROJECT, Home, Homes, code_hash, sources_of
from mtpp_models import MODELS

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages, without machine code."""
    folder = tmp_path_factory.mktemp("copy")
    for name in SIBLINGS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def hashes(folder: Path) -> dict[str, str]:
    """Of methods of this process, whose modules are read in a folder."""
    homes = Homes(Home(folder, frozenset(SIBLINGS), is_project=True))
    things = {name: method.run for name, method in HEURISTICS.items()} | dict(MODELS) | {"certify": certify}
    things |= {"placeto": PLACERS["placeto"].run, "suites": find_suite}
    return {name: sources_of(thing, homes=homes) for name, thing in things.items()}


def changed_by(folder: Path, file: str, change: Callable[[bytes], bytes]) -> set[str]:
    """Methods whose hash is another one after a change of a file."""
    path, before = folder / file, hashes(folder)
    text = path.read_bytes()
    try:
        path.write_bytes(change(text))
        assert path.read_bytes() != text
        after = hashes(folder)
    finally:
        path.write_bytes(text)
    return {name for name in before if before[name] != after[name]}


def appended(line: str) -> Callable[[bytes], bytes]:
    return lambda text: text + f"\n{line}\n".encode()


def test_comments_and_docstrings_change_nothing(copied: Path) -> None:
    path = "heuristics/orders/orders.py"
    assert changed_by(copied, path, appended("# a remark")) == set()
    assert changed_by(copied, path, lambda text: text.replace(b'"""', b'"""Once more: ', 1)) == set()


def test_a_change_reaches_those_that_use_it(copied: Path) -> None:
    """Directly, through other modules, and in what all share."""
    everything = hashes(copied).keys() - {"placeto", "suites"}  # which cut nothing
    brkga = changed_by(copied, "heuristics/orders/searches.py", appended("X = 1"))
    drawn = {"random-1", "random-100", "random-10000"}  # which stand in the same file
    assert brkga == {"mla", "mla-weighted", "brkga-100", "brkga-10000", "portfolio", "certify"} | drawn
    assert changed_by(copied, "heuristics/local_search/multilevel.py", appended("X = 1")) == {
        "multilevel",
        "portfolio",
        "certify",
    }
    assert changed_by(copied, "mtpp_models/bounds/cuts.py", appended("X = 1")) >= {"pinned", "certify"}
    assert not changed_by(copied, "mtpp_models/bounds/cuts.py", appended("X = 1")) & HEURISTICS.keys()
    assert changed_by(copied, "instances/partitioning/partition.py", appended("X = 1")) >= everything
    assert changed_by(copied, "heuristics/planning/spp.py", appended("X = 1")) <= {"certify"}
    assert changed_by(copied, "instances/deadline.py", lambda text: text.replace(b"0.0", b"0.1", 1)) >= everything


def test_data_and_imports_in_functions_count(copied: Path) -> None:
    """A list of networks lies beside the module that reads it; a training is imported when it is needed."""
    assert changed_by(copied, "instances/suites/networks.csv", lambda data: data + b"x") == {"suites"}
    assert changed_by(copied, "heuristics/placement/placeto/training.py", appended("X = 1")) == {"placeto"}


ONE = """
import sys
import mtpp
graph = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], [2, 3, 4], [4, 1, 0])
frame = mtpp.compare(graph, 2, ["simple", "bottleneck:lp"], bandwidth=1, file=sys.argv[1])
print(frame["bound"].tolist())
"""


@pytest.mark.slow
def test_a_changed_method_never_answers_from_an_old_file(copied: Path, tmp_path: Path) -> None:
    """Bounds of a copy of the packages, one of which is changed between two calls; the other is not made again."""
    file, module = tmp_path / "runs.jsonl", copied / "mtpp_models" / "registry.py"
    text = module.read_text()

    def called() -> list[float]:
        words = [sys.executable, "-c", ONE, str(file)]
        environment = {**os.environ, "PYTHONPATH": str(copied)}
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def methods() -> list[str]:
        return [json.loads(line)["method"] for line in file.read_text().splitlines()]

    try:
        before = called()
        assert methods() == ["simple", "bottleneck:lp"]
        module.write_text("# A remark.\n" + text)
        assert called() == before
        assert methods() == ["simple", "bottleneck:lp"]
        half = "type(bound := simple_bound(start.instance))(bound.value / 2, bound.method)"
        module.write_text(text.replace("simple_bound(start.instance)", half))
        after = called()
        assert after == [before[0] / 2, before[1]]
        assert methods() == ["simple", "bottleneck:lp", "simple"]
    finally:
        module.write_text(text)


def test_a_package_stands_for_the_modules_that_are_taken_from_it(copied: Path) -> None:
    """``from heuristics import …`` does not bring all searches along."""
    assert changed_by(copied, "heuristics/__init__.py", appended("X = 1")) == set()


def stranger(folder: Path, text: str) -> str:
    (folder / "mine.py").write_text(text)
    (method,) = run_methods([f"{folder}/mine.py:mine"])
    return method.sources


MINE = "def mine(instance, rng, limits=None):\n    return None\n"


def test_a_callers_file_counts_with_what_it_imports(tmp_path: Path) -> None:
    """Beside it, in functions, in packages with their beginnings, and data that it names; installed packages do not."""
    (tmp_path / "helper.py").write_text("from tools.deep import x\n")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("")
    (tmp_path / "tools" / "deep.py").write_text("x = 1\n")
    (tmp_path / "weights.txt").write_text("1")
    (tmp_path / "other.txt").write_text("1")
    text = MINE + "def later():\n    import numpy\n    import helper\n    return open('weights.txt')\n"
    before = stranger(tmp_path, text)
    assert stranger(tmp_path, f"# a remark\n{text}") == before
    for file, content in (
        ("helper.py", "from tools.deep import x as y\n"),
        ("tools/__init__.py", "import os\n"),
        ("tools/deep.py", "x = 2\n"),
        ("weights.txt", "2"),
    ):
        (tmp_path / file).write_text(content)
        now = stranger(tmp_path, text)
        assert now != before, file
        before = now
    (tmp_path / "other.txt").write_text("2")
    assert stranger(tmp_path, text) == before
    assert stranger(tmp_path, text.replace("None\n", "0\n")) != before


def test_functions_of_this_process_count_by_what_they_name() -> None:
    """Their code, defaults, cells and globals by value, wherever they stand."""
    scope = {"np": np, "limit": 3}

    def made(text: str, **names: object) -> str:
        values = {**scope, **names, "__name__": "__main__"}
        exec(text, values)
        return sources_of(values["mine"], one_by_one=["__main__"])

    text = "def mine(a, b=1):\n    return np.sum(a) + limit + b\n"
    before = made(text)
    assert made("\n\n# elsewhere\n" + text.replace(":\n", ":\n    'About it.'\n", 1)) == before
    assert made(text, limit=4) != before
    assert made(text, limit=np.arange(3)) != made(text, limit=np.arange(4))
    assert made(text.replace("b=1", "b=2")) != before
    assert made(text.replace("np.sum", "np.max")) != before
    inner = "def inner():\n    return {}\ndef mine():\n    return inner()\n"
    assert made(inner.format(1)) != made(inner.format(2))
    cell = "def outer(x):\n    def mine():\n        return x\n    return mine\nmine = outer({})\n"
    assert made(cell.format(1)) != made(cell.format(2))
    imports = "def mine():\n    from heuristics.orders import {}\n"
    assert made(imports.format("kahn")) != made(imports.format("brkga"))


def test_what_cannot_be_hashed_answers_nothing_old() -> None:
    """An object of a stranger that cannot be pickled is another one each time."""
    generator = (x for x in ())
    assert sources_of(lambda: generator, one_by_one=[__name__]) != sources_of(lambda: generator, one_by_one=[__name__])


def test_sets_in_code_are_hashed_in_one_order() -> None:
    """Texts hash otherwise in each process."""
    code = compile("x in {'a', 'b', 'c', 'd'}", "", "eval")
    words: list[str] = []
    sources._spell_code(code, words)
    assert "set [\"'a'\", \"'b'\", \"'c'\", \"'d'\"]" in words
    assert code_hash(code) != code_hash(compile("x in {'a', 'b', 'c', 'e'}", "", "eval"))


def test_each_module_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All methods together look at no file twice, which would take most of the time."""
    looks: list[str] = []
    look = Homes._look
    monkeypatch.setattr(Homes, "_look", lambda homes, name: (looks.append(name), look(homes, name))[1])
    run_methods([*HEURISTICS, *MODELS, "certify"])
    assert len(looks) == len(set(looks)) > 100
    assert PROJECT.find("no.such.module") is None
