"""Code that changes is another question; comments, and code that a method does not use, are none."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType

import numpy as np
import pytest
from kinds_cases import devices, question

from heuristics import HEURISTICS, Limits, search
from heuristics.placement import PLACERS
from instances import Instance, Platform
from instances.random_graphs import layered
from instances.suites import find_suite
from instances.system.import_guard import SIBLINGS
from mtpp.certifying.certify import certify
from mtpp.runs import code_hash as hashing
from mtpp.runs.code_hash import code_hash, code_words, sources_of
from mtpp.runs.partition_job import describe, run_methods
from mtpp.runs.sources import PROJECT, Home, Homes, parse_module
from mtpp.versions import package_version, version_of_import
from mtpp_models import MODELS, SolveOptions, solve

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages, without machine code."""
    folder = tmp_path_factory.mktemp("copy")
    for name in SIBLINGS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


THINGS = {name: method.run for name, method in HEURISTICS.items()} | dict(MODELS) | {"certify": certify}
THINGS |= {"placeto": PLACERS["placeto"].run, "suites": find_suite}


def words(name: str, homes: Homes | None = None) -> list[str]:
    """What the hash of a method consists of."""
    glue = [describe, search] if name in HEURISTICS else [describe, solve] if name in MODELS else []
    return code_words(THINGS[name], glue=glue, homes=homes)


def hashes(folder: Path) -> dict[str, list[str]]:
    """Of methods of this process, whose modules are read in a folder."""
    homes = Homes(Home(folder, frozenset(SIBLINGS), is_project=True))
    return {name: words(name, homes) for name in THINGS}


@cache
def unchanged(folder: Path) -> dict[str, list[str]]:
    """Of the copy as it is before and behind each change."""
    return hashes(folder)


def changed_by(folder: Path, file: str, change: Callable[[bytes], bytes]) -> set[str]:
    """Methods whose hash is another one after a change of a file."""
    path, before = folder / file, unchanged(folder)
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


def edited(name: str) -> Callable[[bytes], bytes]:
    """A change of a definition: a statement before the first of its body, or another value."""

    def change(text: bytes) -> bytes:
        (node,) = (n for n in ast.parse(text).body if name in (getattr(n, "name", None), *targets_of(n)))
        lines = text.decode().splitlines(keepends=True)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inner = node.body[0]
            lines.insert(inner.lineno - 1, " " * inner.col_offset + "changed_ = 1\n")
        else:
            lines.insert(node.end_lineno or 0, f"{name} = {name}\n")
        return "".join(lines).encode()

    return change


def targets_of(node: ast.stmt) -> list[str]:
    targets = getattr(node, "targets", [getattr(node, "target", node)])
    names = [name for target in targets for name in getattr(target, "elts", [target])]
    return [name.id for name in names if isinstance(name, ast.Name)]


ORDERS = {"kahn", "mla", "mla-weighted", "random-1", "random-100", "random-10000", "brkga-100", "brkga-10000"}
WALKS = {"local-search", "multilevel", "portfolio"}


@pytest.mark.parametrize(
    ("file", "name", "methods"),
    [
        ("heuristics/orders/searches.py", "brkga", {"brkga-100", "brkga-10000"}),
        ("heuristics/orders/searches.py", "random_search", {"random-1", "random-100", "random-10000"}),
        ("heuristics/orders/searches.py", "linear_arrangement", {"mla", "mla-weighted"}),
        ("heuristics/orders/genetic.py", "evolve", {"brkga-100", "brkga-10000", "mla", "mla-weighted"}),
        ("heuristics/orders/orders.py", "kahn_kernel", ORDERS | WALKS),
        ("heuristics/local_search/schedule.py", "search_by_gain", {"portfolio"}),
        ("heuristics/local_search/searches.py", "local_search", {"local-search"}),
        ("heuristics/local_search/searches.py", "multilevel", {"multilevel"}),
        ("heuristics/local_search/state.py", "move", WALKS),
        ("heuristics/local_search/searches.py", "portfolio", {"portfolio"}),
        ("mtpp_models/bounds/cuts.py", "pinned", {"pinned", "pigeonhole"}),
        ("mtpp_models/bounds/cuts.py", "pigeonhole", {"pigeonhole"}),
        ("mtpp_models/bounds/ideals/ideals.py", "ideals", {"ideals"}),
        ("mtpp_models/bounds/ideals/dynamic_program.py", "extend_chains", {"ideals"}),
        ("mtpp_models/bounds/priced/quick.py", "bisection", {"bisection"}),
        ("mtpp_models/bounds/priced/quick.py", "priced_quick", {"priced-quick"}),
        ("mtpp_models/bounds/priced/priced.py", "priced", {"priced"}),
        ("mtpp_models/bounds/priced/trees.py", "explore", {"bisection", "priced-quick", "priced"}),
        ("mtpp_models/formulations/superblocks.py", "coarse", {"coarse-2", "coarse-4"}),
        ("mtpp_models/cuts/max_flow.py", "augment", set(MODELS)),
    ],
)
def test_a_change_reaches_those_that_use_it(copied: Path, file: str, name: str, methods: set[str]) -> None:
    """A method alone, those that share what is changed, and `certify`, which runs them."""
    assert changed_by(copied, file, edited(name)) - {"placeto"} == methods | {"certify"}


def test_what_all_share_reaches_all(copied: Path) -> None:
    everything = THINGS.keys() - {"placeto", "suites"}  # which cut nothing
    assert changed_by(copied, "instances/partitioning/partition.py", edited("Partition")) >= everything
    assert changed_by(copied, "instances/deadline.py", lambda text: text.replace(b"0.0", b"0.1", 1)) >= everything


#: Files that define a method, and what they define; names of one function with other parameters are one method. `kahn`
#: and `simple` stand in the registries, on what all others use too.
DEFINED = {
    "heuristics.local_search.searches": ["local-search", "multilevel", "portfolio"],
    "heuristics.orders.searches": ["random-1 random-100 random-10000", "brkga-100 brkga-10000", "mla mla-weighted"],
    "mtpp_models.bounds.cuts": ["pinned", "pigeonhole"],
    "mtpp_models.bounds.ideals.ideals": ["ideals"],
    "mtpp_models.bounds.levels": ["levels"],
    "mtpp_models.bounds.priced.priced": ["priced"],
    "mtpp_models.bounds.priced.quick": ["priced-quick", "bisection"],
    "mtpp_models.formulations.guess_bottleneck": ["guess-the-bottleneck guess-the-bottleneck-tight"],
    "mtpp_models.formulations.superblocks": [
        "coarse-2 coarse-4 exact",
        "bottleneck bottleneck-no-dag bottleneck-no-cut-io",
    ],
}


def test_an_edit_of_a_methods_file_reaches_that_method_alone(copied: Path) -> None:
    """The mean over these files of what an edit of a definition reaches, each as likely.

    Pigeonhole uses pinned; the two bounds of guessed prices lay goals below a cost by the same constants.
    """
    family = {name: names for defined in DEFINED.values() for names in defined for name in names.split()}
    assert {*family, "kahn", "simple"} == {*HEURISTICS, *MODELS}
    reached: dict[str, dict[str, set[str]]] = {module: {} for module in DEFINED}
    for name, names in family.items():
        for module, definition, _ in (word.split(" ") for word in unchanged(copied)[name] if word.count(" ") == 2):
            if module in reached and definition:
                reached[module].setdefault(definition, set()).add(names)
    means = {file: np.mean([len(users) for users in uses.values()]) for file, uses in reached.items()}
    assert np.mean([*means.values()]) < 1.1
    del means["mtpp_models.bounds.cuts"], means["mtpp_models.bounds.priced.quick"]
    assert set(means.values()) == {1}


@pytest.mark.slow
def test_edits_drawn_at_random_reach_who_uses_them(copied: Path) -> None:
    """What nobody uses reaches nobody; what is in the hash of a method reaches it."""
    rng = np.random.default_rng(0)
    files = sorted(
        str(f.relative_to(copied)) for p in ("heuristics", "mtpp_models") for f in (copied / p).rglob("*.py")
    )
    before = unchanged(copied)
    for file in rng.choice(files, 10, replace=False):
        assert changed_by(copied, file, appended("UNUSED = 1")) <= {"placeto"}  # takes a module as a whole
        module = parse_module("m", copied / file, (copied / file).read_bytes(), in_parts=True)
        names = sorted(name for name in module.parts if name and "." not in name)
        place = file.removesuffix(".py").replace("/", ".")
        for name in rng.choice(names, 1) if names else ():
            users = {m for m in before if any(word.startswith(f"{place} {name} ") for word in before[m])}
            assert changed_by(copied, file, edited(name)) == users, (file, name)


def test_an_exchange_of_imported_names_counts(copied: Path) -> None:
    """The same definitions under each other's name are other code."""
    text = b"from heuristics.orders.orders import decode, edge_lengths, kahn"
    swapped = b"from heuristics.orders.orders import decode as kahn, edge_lengths, kahn as decode"
    changed = changed_by(copied, "heuristics/orders/searches.py", lambda code: code.replace(text, swapped))
    assert changed >= {"brkga-100", "random-1", "mla"}


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [False, True])
def test_all_functions_that_a_method_calls_are_in_its_hash(kinds: bool) -> None:
    """As seen by the profiler of Python, which sees all but kernels; registries choose, and compute nothing."""
    graph = layered(8, 12, 0)
    instance = Instance(graph, Platform(k=3, bandwidth=1e6, memory=1e9))
    if kinds:
        instance = question(graph, devices([(1.0, 1e6, 2), (2.0, 1e6, 1)]))
    start = search(instance, "portfolio", np.random.default_rng(0), Limits(evaluations=100)).partition
    for name, method in {**HEURISTICS, **MODELS}.items():
        if kinds and method.kinds == "one":
            continue
        called = set[tuple[str, CodeType]]()
        sys.setprofile(partial(note, called))
        try:
            if name in HEURISTICS:
                search(instance, name, np.random.default_rng(0), Limits(evaluations=100))
            else:
                solve(instance, name, SolveOptions(time_limit=0.3), start=start)
        finally:
            sys.setprofile(None)
        places = {place_of(*item) for item in called} - {None}
        counted = {tuple(word.split()[:2]) for word in words(name)}
        # What looks up a name, and what loads Pyomo when it is used, computes nothing either.
        look_up = {("instances.errors", name) for name in ("Registry", "Registry.load", "find")}
        missing = {place for place in places - look_up if not place[0].endswith(("registry", "solvers.modeling"))}
        missing -= counted
        assert not missing, (name, missing)


def note(called: set[tuple[str, CodeType]], frame: FrameType, event: str, _: object) -> None:
    if event == "call":
        called.add((frame.f_globals.get("__name__", ""), frame.f_code))


def place_of(module: str, code: CodeType) -> tuple[str, str] | None:
    """Module and definition at its top of what is called, "class" for special methods; None of what has none."""
    kind, _, method = code.co_qualname.partition(".<")[0].partition(".")
    if kind[0] == "<" or code.co_filename[0] == "<" or module.partition(".")[0] not in SIBLINGS:
        return None
    return module, kind if not method or method.startswith("__") else f"{kind}.{method}"


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


def test_installed_packages_count_by_their_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that a method imports, directly or not, and no others."""
    (tmp_path / "mine.py").write_text(MINE + "import installed_package\n")
    (tmp_path / "other.py").write_text(MINE)
    site = tmp_path / "site"
    (site / "installed_package").mkdir(parents=True)
    (site / "installed_package" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(site)
    found = []
    for version in ("1.0", "1.1"):
        folder = site / f"installed_package-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: installed-package\nVersion: {version}\n")
        package_version.cache_clear()
        version_of_import.cache_clear()
        methods = run_methods([f"{tmp_path}/mine.py:mine", f"{tmp_path}/other.py:mine"])
        found.append([method.sources for method in methods])
        shutil.rmtree(folder)
    assert found[0][0] != found[1][0]
    assert found[0][1] == found[1][1]


def test_packages_of_our_methods() -> None:
    """What draws and shows is none of them."""
    packages = {name: {word.split()[0] for word in words(name) if word.count(" ") == 1} for name in ("kahn", "exact")}
    assert packages["kahn"] >= {"numpy", "numba"}
    assert packages["exact"] >= {"numpy", "pyomo", "highspy"}
    assert not (packages["kahn"] | packages["exact"]) & {"pandas", "matplotlib", "rich", "typer"}
    assert f"numpy {np.__version__}" in words("kahn")


def test_functions_of_this_process_count_by_what_they_name() -> None:
    """Their code, defaults, cells and globals by value, wherever they stand."""
    scope = {"np": np, "limit": 3}

    def made(text: str, **names: object) -> str:
        values = {**scope, **names, "__name__": "__main__"}
        exec(text, values)
        return sources_of(values["mine"], live=["__main__"])

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
    assert sources_of(lambda: generator, live=[__name__]) != sources_of(lambda: generator, live=[__name__])


def test_sets_in_code_are_hashed_in_one_order() -> None:
    """Texts hash otherwise in each process."""
    code = compile("x in {'a', 'b', 'c', 'd'}", "", "eval")
    words: list[str] = []
    hashing._spell_code(code, words)
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
