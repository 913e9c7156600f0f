"""The shape of the house: who may import whom, how large a room may be, what a file may name."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp
import networkx as nx
import pytest

from instances.system.import_guard import SIBLINGS, check_siblings

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 600
MACHINE_PATH = re.compile(r"(?<![\w.~*-])/(?:work|tmp|root|home|Users)/")
REGISTRY_HOST = re.compile(r"pypi\.(?:org|python)|pythonhosted\.org|anaconda\.org")


def sources() -> Iterator[Path]:
    for package in SIBLINGS:
        yield from sorted((ROOT / package).rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def project_files() -> Iterator[Path]:
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.name not in (".coverage", ".git"))
    for folder in (*SIBLINGS, "tests", "notebooks", "docs", ".ci"):
        yield from (path for path in (ROOT / folder).rglob("*") if path.is_file() and "cache" not in str(path.parent))


def modules() -> Iterator[str]:
    """All modules but `__main__`, which runs when imported."""
    for package in SIBLINGS:
        yield package
        for found in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            if not found.name.endswith("__main__"):
                yield found.name


def test_imports_follow_the_contract() -> None:
    """The layers of pyproject.toml hold."""
    command = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    run = subprocess.run([sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


#: The records that the second opinion may read, what compiles it and stops its clock, and nothing that computes a
#: cost or a bound.
RECORDS = {
    "instances.certificates",
    "instances.compiled",
    "instances.deadline",
    "instances.errors",
    "instances.flow.problem",
    "instances.graph.graph",
    "instances.graph.tensors",
    "instances.json_files",
    "instances.partitioning.constraints",
    "instances.partitioning.problem",
    "instances.partitioning.stated",
    "instances.placement.problem",
    "instances.planning.grid.configurations",
    "instances.planning.grid.problem",
    "instances.planning.stated",
    "instances.planning.problem",
    "instances.serving.model",
    "instances.serving.problem",
}


def test_the_second_opinion_imports_records_alone() -> None:
    """Neither the code that it checks nor what would bring that along."""
    imported = set()
    for path in (ROOT / "mtpp" / "verification").rglob("*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom):
                imported.add(node.module or "")
            elif isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
    own = {name for name in imported if name.split(".")[0] in SIBLINGS}
    assert own - RECORDS == {name for name in own if name.startswith("mtpp.verification.")}
    assert own >= RECORDS


#: What starts, stops or limits processes, or hears signals, and is not the same on all systems.
OF_THE_SYSTEM = {"ctypes", "fcntl", "multiprocessing", "resource", "signal", "subprocess", "termios"}
#: Files outside of `instances/system` that need it all the same, and are no ``*_process.py``.
NEAR_THE_SYSTEM = {
    "mtpp/__main__.py",  # hears Ctrl-C before anything else is loaded
    "mtpp/certifying/certify.py",  # two copies that tell each other what they find
    "mtpp/runs/workers.py",  # pools of processes
    "mtpp/stages/runner.py",  # stages with pipes and shared memory
    "mtpp/stages/torch_run.py",  # torch starts its processes itself
}


def test_one_room_speaks_to_the_system() -> None:
    """All other files work wherever Python does."""
    found = set()
    for path in sources():
        name = path.relative_to(ROOT).as_posix()
        if name.startswith("instances/system/") or name.endswith("_process.py"):
            continue
        for node in ast.walk(parsed(path)):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                modules = [node.module or "", *(alias.name for alias in node.names if node.module == "torch")]
            if any(part in OF_THE_SYSTEM for module in modules for part in module.split(".")):
                found.add(name)
    assert found == NEAR_THE_SYSTEM


def runtime_imports(path: Path) -> Iterator[str]:
    """Modules that a file imports when it runs, not for its types alone."""
    typing = [
        node
        for branch in ast.walk(parsed(path))
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for node in ast.walk(branch)
    ]
    skipped = {(node.lineno, node.module) for node in typing if isinstance(node, ast.ImportFrom)}
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and (node.lineno, node.module) not in skipped:
            yield node.module or ""


def test_the_command_line_calls_the_functions_of_python() -> None:
    """Only the lists of what options take and the warm-up import searches and models themselves."""
    below = {
        path.stem
        for path in (ROOT / "mtpp" / "cli").glob("*.py")
        if any(name.split(".")[0] in ("heuristics", "mtpp_models") for name in runtime_imports(path))
    }
    assert below == {"options", "warm_up"}


def test_options_are_named_by_the_command_line_alone() -> None:
    """Texts below it spell words as the caller does, by `instances.errors.word`, but for options of other programs."""
    servers = "pipeline-|tensor-|tp-|pp-|max-num|max-model-len|max-running|context-length|model-path|rpc "
    own = re.compile(rf"(?<![\w-])--(?!{servers}|write|output|nthreads|version)[a-z]")
    found = []
    for path in sources():
        if path.parent in (ROOT / "mtpp" / "cli", ROOT / "experiments", ROOT / "instances" / "runtimes"):
            continue  # runtimes have options of their own
        if path.name == "torch_process.py":  # a program of its own
            continue
        tree = parsed(path)
        documents = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents
            if is_text and own.search(str(node.value)):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert found == []


def test_packages_come_from_one_folder() -> None:
    """The sibling guard accepts the packages under test, and they are those of this folder."""
    check_siblings()
    assert Path(importlib.import_module("instances").__file__ or "").parent.parent == ROOT


@pytest.mark.parametrize("name", list(modules()))
def test_public_names_exist(name: str) -> None:
    """`__all__` names only what is there, each once."""
    module = importlib.import_module(name)
    public = getattr(module, "__all__", [])
    assert [entry for entry in public if not hasattr(module, entry)] == []
    assert len(set(public)) == len(public)


@pytest.mark.parametrize(
    ("package", "most"), [("instances", 22), ("heuristics", 10), ("mtpp_models", 11), ("experiments", 3), ("mtpp", 13)]
)
def test_rooms_seen_at_once(package: str, most: int) -> None:
    """Files and folders of a package: as many as a reader takes in at a glance."""
    rooms = {
        path.stem for path in (ROOT / package).iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert len(rooms - {"__init__"}) <= most, sorted(rooms)


def test_no_file_imports_itself_in_a_circle() -> None:
    """Also not inside of functions."""
    graph = grimp.build_graph(*SIBLINGS, cache_dir=None)
    imports = nx.DiGraph(
        (name, other) for name in graph.modules for other in graph.find_modules_directly_imported_by(name)
    )
    assert [circle for circle in nx.strongly_connected_components(imports) if len(circle) > 1] == []


def test_files_are_short() -> None:
    """A file that outgrows the ceiling hides a noun."""
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sources()}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


def test_docstrings_name_the_thing_first() -> None:
    """No docstring begins with "What" or "Who": a summary names a thing or an action."""
    offenders = []
    for path in sources():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if re.match(r"(?:What|Who|Whom|Whose)\b", text):
                    line = getattr(node, "lineno", 1)
                    offenders.append(f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}")
    assert offenders == []


def test_files_name_no_machine_and_no_registry() -> None:
    """The project works wherever it is cloned and from whichever index its packages come."""
    offenders = []
    for path in project_files():
        for number, line in enumerate(path.read_text(errors="ignore").splitlines(), start=1):
            if MACHINE_PATH.search(line) or REGISTRY_HOST.search(line):
                offenders.append(f"{path.relative_to(ROOT)}:{number}")
    assert offenders == []
