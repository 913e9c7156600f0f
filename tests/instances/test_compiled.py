"""Machine code on disk never outlives the sources that it was made from."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import instances.compiled
from instances.compiled import CODE, kernel_sources
from instances.system.import_guard import SIBLINGS

ROOT = Path(instances.compiled.__file__).parent.parent
FILES = [path for package in SIBLINGS for path in (ROOT / package).rglob("*.py")]


@cache
def trees() -> dict[Path, ast.Module]:
    """All files of the project, parsed."""
    return {path: ast.parse(path.read_text()) for path in FILES}


CALLEE = "from instances.compiled import compiled\n@compiled\ndef inner(x):\n    return x + 1\n"
CALLER = (
    "from instances.compiled import compiled\nfrom mtpp_models.callee import inner\n"
    "@compiled\ndef outer(x):\n    return 2 * inner(x)\n"
)
CALL = "from mtpp_models.caller import outer; outer(1)"
SHOW = "print(outer(1), sum(outer.stats.cache_hits.values()), sum(outer.stats.cache_misses.values()))"


def is_kernel(node: ast.AST) -> bool:
    """Whether this is a function under the decorator."""
    if not isinstance(node, ast.FunctionDef):
        return False
    decorators = [getattr(decorator, "func", decorator) for decorator in node.decorator_list]
    return any(isinstance(decorator, ast.Name) and decorator.id == "compiled" for decorator in decorators)


def test_numba_is_used_through_the_decorator_alone() -> None:
    """No other file takes a decorator from numba, and none is hidden from the hash."""
    for path, tree in trees().items():
        if path != Path(instances.compiled.__file__):
            for node in ast.walk(tree):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert not any(name.split(".")[0] == "numba" for name in names), path
    with_kernels = {path for path, tree in trees().items() if any(map(is_kernel, ast.walk(tree)))}
    assert len(with_kernels) > 20
    assert with_kernels <= set(kernel_sources())


# What kernels use


def definitions(tree: ast.Module) -> dict[str, ast.AST]:
    """What each global name of a file stands for: a function, a class, an assignment or an import."""
    found: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update({alias.asname or alias.name.split(".")[0]: node for alias in node.names})
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                found.update({name.id: node for name in ast.walk(target) if isinstance(name, ast.Name)})
    return found


@cache
def global_names() -> dict[Path, dict[str, ast.AST]]:
    """The global names of all files, see `definitions`."""
    return {path: definitions(tree) for path, tree in trees().items()}


def names(*nodes: ast.AST | None) -> set[str]:
    """Names that stand in some pieces of code."""
    return {name.id for node in nodes if node for name in ast.walk(node) if isinstance(name, ast.Name)}


def defined(path: Path, name: str) -> tuple[Path, ast.AST] | None:
    """Where a global name of a file is defined in this project; imports are followed."""
    node = global_names()[path].get(name)
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        module = node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name
        if module.split(".")[0] not in SIBLINGS:
            return None
        assert isinstance(node, ast.ImportFrom), f"{path}: a kernel uses {name}, a module"
        original = next(alias.name for alias in node.names if (alias.asname or alias.name) == name)
        file = ROOT / (module.replace(".", "/") + ".py")
        return defined(file if file.exists() else ROOT / module.replace(".", "/") / "__init__.py", original)
    return None if node is None else (path, node)


def used(node: ast.AST) -> tuple[set[str], set[str]]:
    """Names that a definition takes values from, and names that it takes types from."""
    if isinstance(node, ast.FunctionDef):
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        inside = [inner.annotation for inner in ast.walk(node) if isinstance(inner, ast.AnnAssign)]
        types = names(*(argument.annotation for argument in arguments), node.returns, *inside)
        return names(*node.body, *node.args.defaults), types
    if isinstance(node, ast.ClassDef):  # of a tuple, its fields
        return set(), names(*(field.annotation for field in node.body if isinstance(field, ast.AnnAssign)), *node.bases)
    assert isinstance(node, (ast.Assign, ast.AnnAssign))
    return names(node.value), set()


def parts_of_kernels() -> Iterator[tuple[Path, str]]:
    """Yield file and name of all that machine code is made from: kernels, constants and tuples."""
    rest = [(path, node.name) for path, tree in trees().items() for node in ast.walk(tree) if is_kernel(node)]
    seen = set()
    while rest:
        path, name = rest.pop()
        if (path, name) in seen:
            continue
        seen.add((path, name))
        yield path, name
        values, types = used(global_names()[path][name])
        for other in values | types:
            found = defined(path, other)
            # An alias such as FloatArray says nothing to numba; a class does.
            if found and (other in values or isinstance(found[1], ast.ClassDef)):
                names_there = global_names()[found[0]]
                rest.append((found[0], next(key for key, node in names_there.items() if node is found[1])))


@pytest.mark.slow
def test_whatever_kernels_use_is_part_of_the_hash() -> None:
    parts = set(parts_of_kernels())
    found = {(path.relative_to(ROOT).as_posix(), name) for path, name in parts}
    assert {
        ("instances/partitioning/peaks.py", "KernelArrays"),  # in an annotation
        ("heuristics/local_search/state.py", "Queues"),  # a field of such a tuple
        ("mtpp_models/cuts/cuts.py", "UNIT"),  # a constant of another file
        ("mtpp_models/cuts/max_flow.py", "augment"),
    } <= found
    sources = set(kernel_sources())
    assert not {part for part in parts if part[0] not in sources}


# What lies on disk


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two files of kernels, in a folder with a space in its name."""
    root = tmp_path / "a project"
    for package in ("instances", "mtpp_models"):
        (root / package).mkdir(parents=True)
        (root / package / "__init__.py").touch()
    (root / "instances" / "system").mkdir()
    system = ("system/__init__.py", "system/files.py")
    for name in ("compiled.py", "deadline.py", "errors.py", *system):
        shutil.copy(ROOT / "instances" / name, root / "instances" / name)
    (root / "mtpp_models" / "callee.py").write_text(CALLEE)
    (root / "mtpp_models" / "caller.py").write_text(CALLER)
    return root


def run(project: Path, script: str = f"from mtpp_models.caller import outer; {SHOW}", **variables: str) -> str:
    """Run a script in a process of its own; return what it prints."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA_")}
    environment.pop("PYTHONUNBUFFERED", None)  # a line of two processes would be written in parts
    environment |= {"PYTHONPATH": str(project), "XDG_CACHE_HOME": str(project / "users"), "XDG_RUNTIME_DIR": ""}
    environment |= {"TMPDIR": str(project), **variables}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def code(folder: Path) -> set[str]:
    """Names of the folders with machine code in a folder."""
    return {path.name for path in folder.glob("kernels-*") if any(path.glob(f"*{CODE}"))}


def test_a_changed_callee_is_noticed(project: Path) -> None:
    """Machine code of a caller in another file is used again, until the callee changes."""
    assert run(project) == "4 0 1"
    assert run(project) == "4 1 0"
    (project / "mtpp_models" / "callee.py").write_text(CALLEE.replace("x + 1", "x + 100"))
    assert run(project) == "202 0 1"
    assert len(code(project / "instances" / "__pycache__")) == 2
    (project / "mtpp_models" / "callee.py").write_text(CALLEE)
    assert run(project) == "4 1 0"


def test_of_two_processes_one_compiles(project: Path) -> None:
    """The other waits and loads the code, and so does one that begins when the first has ended while it compiled."""
    script = (
        "import multiprocessing, os, time; from numba.core import event\n"
        "from mtpp_models.caller import outer\n"
        "class Slow(event.Listener):\n"
        "    def on_start(self, event):\n        time.sleep(0.5)\n"
        "    def on_end(self, event):\n        END\n"
        "event.register('numba:compile', Slow())\n"
        f"def work(x):\n    {SHOW.replace('outer(1)', 'outer(x)').replace(')))', ')), flush=True)')}\n"
        "context = multiprocessing.get_context('fork')\n"
        "both = [context.Process(target=work, args=(1,)) for _ in range(2)]\n"
        "for one in both:\n    one.start()\n"
        "for one in both:\n    one.join()\n"
    )
    assert run(project, script.replace("END", "os._exit(1)")) == ""
    assert sorted(run(project, script.replace("END", "pass")).splitlines()) == ["4 0 1", "4 1 0"]


def test_bug_code_was_bound_to_the_place_of_the_sources(project: Path, tmp_path: Path) -> None:
    """Names of files and folders held the path, so that a checkout that is moved or copied compiled again."""
    assert run(project) == "4 0 1"
    moved = project.rename(tmp_path / "elsewhere")
    os.utime(moved / "mtpp_models" / "caller.py", (1, 1))
    assert run(moved) == "4 1 0"


def test_code_for_any_processor_serves_all(project: Path) -> None:
    """What is compiled beside it is not stored among it."""
    generic = {"NUMBA_CPU_NAME": "generic"}
    assert run(project, **generic) == "4 0 1"
    assert [run(project), run(project)] == ["4 1 0"] * 2
    assert len(code(project / "instances" / "__pycache__")) == 1
    other = f"from mtpp_models.caller import outer; outer(1.5); {SHOW}"
    assert [run(project, other), run(project, other)] == ["4 1 1", "4 2 0"]
    assert run(project, other, **generic) == "4 1 1"


def test_a_function_in_another_one_is_not_stored(project: Path) -> None:
    """Its code depends on what surrounds it, which no hash knows."""
    source = CALLER + "def make(n):\n    @compiled\n    def add(x):\n        return outer(x) + n\n    return add\n"
    (project / "mtpp_models" / "caller.py").write_text(source)
    script = "from mtpp_models.caller import make; print(make(1)(1), make(2)(1))"
    assert [run(project, script), run(project, script)] == ["5 6"] * 2


def test_no_two_processes_give_a_function_the_same_name(project: Path) -> None:
    """Of two with one name, numba uses the code that it loads first for both: a sort and an argsort have one."""
    name = "print(outer.overloads[outer.signatures[0]].fndesc.mangled_name, flush=True)"
    alone = f"from mtpp_models.caller import outer; outer(1); {name}"
    forked = f"import os; from mtpp_models.caller import outer; outer(1.5 if os.fork() and os.wait() else 1); {name}"
    names = [run(project, alone, NUMBA_CACHE_DIR=str(project / here)) for here in "ab"] + run(project, forked).split()
    numbers = [re.search(r"outerB\d+v(\d+)", name) for name in names]
    assert None not in numbers
    assert len({number and number[1] for number in numbers}) == 4


def test_a_source_that_changes_during_a_run_leaves_no_code_behind(project: Path) -> None:
    """A caller imported after its callee was edited must not be stored under the hash of what stood there before."""
    edit = (
        "import instances.compiled as c; c._first_look(); from pathlib import Path; p = Path('mtpp_models/callee.py')\n"
        "p.write_text(p.read_text().replace('x + 1', 'x + 100')); from mtpp_models.caller import outer\n"
    )
    assert run(project, edit + "print(outer(1))") == "202"
    assert not code(project / "instances" / "__pycache__")
    (project / "mtpp_models" / "callee.py").write_text(CALLEE)
    assert run(project) == "4 0 1"


def test_a_users_folder_comes_first(project: Path) -> None:
    """Nothing is written beside the sources, even where numba is told to."""
    variables = {"NUMBA_CACHE_DIR": str(project / "elsewhere"), "NUMBA_CACHE_LOCATOR_CLASSES": "InTreeCacheLocator"}
    assert run(project, **variables) == "4 0 1"
    assert run(project, **variables) == "4 1 0"
    assert len(code(project / "elsewhere")) == 1
    assert not [path for path in project.rglob("kernels-*") if path.parent.name != "elsewhere"]


@pytest.mark.slow
def test_sources_that_cannot_be_written_beside(project: Path) -> None:
    """Then the user's folder of caches holds the code; without one a private temporary folder, else it is said."""
    (project / "instances" / "__pycache__").write_text("a file stands where the folder should be")
    assert run(project) == "4 0 1"
    assert run(project) == "4 1 0"
    assert len(code(project / "users" / "numba")) == 1
    shutil.rmtree(project / "users")
    (project / "users").touch()
    assert [run(project), run(project)] == ["4 0 1", "4 1 0"]
    private = project / f"mtpp-{os.getuid()}"
    assert private.stat().st_mode & 0o777 == 0o700
    private.chmod(0o755)  # others may have put something there
    told = "import logging, sys; logging.basicConfig(stream=sys.stdout, format='%(levelname)s %(message)s')\n"
    script = f"{told}from mtpp_models.caller import outer; {SHOW}"
    said = "WARNING compiling at each call, as no folder can be written; set NUMBA_CACHE_DIR to one that can"
    assert [run(project, script).splitlines() for _ in (1, 2)] == [[said, "4 0 1"]] * 2


def test_complete_code_is_read_where_nothing_can_be_written(project: Path) -> None:
    """No file is asked of the folder; what it lacks is compiled."""
    run(project, f"{CALL}; import instances.compiled as c; c.mark_warm(c.made_for())")
    denied = (
        "import os, tempfile\ndef deny(*words, **more):\n    raise PermissionError(13, 'denied')\n"
        "tempfile.TemporaryFile = os.replace = os.mkdir = os.makedirs = deny\n"
    )
    assert run(project, f"{denied}from mtpp_models.caller import outer; {SHOW}") == "4 1 0"
    assert run(project, f"{denied}from mtpp_models.caller import outer; print(outer(1.5))") == "5.0"


def test_compiling_and_loading_take_no_time_and_are_told_once(project: Path) -> None:
    """The clock of time limits stands still; the logger speaks of compiling; loading imports nothing that compiles."""
    script = (
        "import logging, sys; logging.basicConfig(level=logging.INFO, stream=sys.stdout, format='told %(levelname)s')\n"
        "import time; from instances.deadline import CLOCK; from mtpp_models.caller import outer\n"
        "from numba.core import event\n"
        "class Slow(event.Listener):\n    slept = 0\n"
        "    def on_start(self, event):\n        self.slept += .02; time.sleep(.02)\n"
        "    def on_end(self, event):\n        pass\n"
        "with event.install_listener('numba:compiler_lock', slow := Slow()):\n    outer(1); outer(1.5)\n"
        "print(CLOCK.still >= slow.slept > 0, 'numba.np.linalg' in sys.modules)"
    )
    assert run(project, script).splitlines() == ["told INFO", "True True"]
    assert run(project, script) == "True False"


def test_code_is_complete_until_a_source_changes(project: Path) -> None:
    """Not when it is written anew with the same text; and never where nothing is compiled."""
    ask = "import instances.compiled as c; print(c.is_warm() is not None)"
    mark = "import mtpp_models.caller, instances.compiled as c; print(c.mark_warm(c.made_for()) is not None)"
    assert [run(project, ask), run(project, mark), run(project, ask)] == ["False", "True", "True"]
    os.utime(project / "mtpp_models" / "caller.py", (1, 1))
    assert run(project, ask) == "True"
    off = {"NUMBA_DISABLE_JIT": "1"}
    assert [run(project, mark, **off), run(project, ask, **off)] == ["False", "False"]
    (project / "mtpp_models" / "caller.py").write_text(CALLER + "\n")
    assert run(project, ask) == "False"


def test_without_compilation_the_function_runs_as_it_stands(project: Path) -> None:
    assert run(project, "from mtpp_models.caller import outer; print(outer(1))", NUMBA_DISABLE_JIT="1") == "4"
