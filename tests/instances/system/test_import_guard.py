"""A folder of the user's own that is called like one of our packages is told in one line, wherever one comes in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest

import instances
from instances.system.import_guard import SIBLINGS, check_siblings

ROOT = Path(instances.__file__).parent.parent
#: What pip makes of `[project.scripts]`.
CONSOLE_SCRIPT = "import sys\nfrom mtpp.__main__ import main\nsys.exit(main())\n"


def run(*arguments: str, path: list[Path], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a fresh interpreter in another folder, with `path` in front of what is installed."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def foreign(folder: Path, name: str) -> Path:
    """A package of somebody else."""
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    return package


def check_line(shown: subprocess.CompletedProcess[str], start: str, name: str, other: Path) -> None:
    """One line that names both folders, and nothing else."""
    (line,) = shown.stderr.splitlines()
    assert line.startswith(start)
    assert f"{name!r}" in line
    assert str(ROOT / name) in line
    assert str(other) in line
    assert shown.stdout == ""


@pytest.mark.parametrize(("name", "first"), list(permutations(SIBLINGS, 2)))
def test_a_script_beside_a_foreign_package(name: str, first: str, tmp_path: Path) -> None:
    """Whichever of ours a script imports first; of a foreign one of that name Python alone can tell."""
    other = foreign(tmp_path, name)
    (tmp_path / "study.py").write_text(f"import {first}\n")
    shown = run(str(tmp_path / "study.py"), path=[ROOT], cwd=tmp_path)
    assert shown.returncode == 1
    check_line(shown, "ImportError: ", name, other)


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        (entry, name)
        for entry in ("console script", "-m mtpp")
        for name in SIBLINGS
        if name != "mtpp"  # Python would run the foreign one
    ],
)
def test_the_command_line_beside_a_foreign_package(entry: str, name: str, tmp_path: Path) -> None:
    """It ends with the code of wrong use."""
    other = foreign(tmp_path / "work", name)
    script = tmp_path / "bin" / "mtpp"
    script.parent.mkdir()
    script.write_text(CONSOLE_SCRIPT)
    words = [str(script)] if entry == "console script" else entry.split()
    shown = run(*words, "list", "solvers", path=[other.parent, ROOT], cwd=other.parent)
    assert shown.returncode == 2
    check_line(shown, "mtpp: ", name, other)


def test_a_foreign_module_is_named_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "experiments.py").touch()
    shown = run("-c", "import mtpp", path=[tmp_path, ROOT], cwd=tmp_path)
    check_line(shown, "ImportError: ", "experiments", tmp_path / "experiments.py")


def test_the_refusal_is_an_import_error_that_can_be_caught(tmp_path: Path) -> None:
    """Other errors are shown as before, and a notebook shows the line as well."""
    foreign(tmp_path, "experiments")
    script = tmp_path / "study.py"
    script.write_text(
        "try:\n    import mtpp\nexcept ImportError as no:\n    print(no.name, *no._render_traceback_())\n1 / 0\n"
    )
    shown = run(str(script), path=[ROOT], cwd=tmp_path)
    assert shown.stdout.startswith("experiments ImportError: The package 'experiments' of mtpp")
    assert shown.stderr.startswith("Traceback")
    assert shown.stderr.splitlines()[-1].startswith("ZeroDivisionError")


@pytest.mark.parametrize("name", SIBLINGS)
def test_a_folder_of_data_is_no_package(name: str, tmp_path: Path) -> None:
    """Without `__init__.py` it does not stand in for anything."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "graph.json").touch()
    shown = run("-c", "import mtpp, instances; print(instances.Instance.__name__)", path=[tmp_path, ROOT], cwd=tmp_path)
    assert (shown.stdout, shown.stderr) == ("Instance\n", "")


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    """A copy of `instances` alone says which package it lacks."""
    foreign(tmp_path, "instances")
    (tmp_path / "instances" / "system").mkdir()
    shutil.copy(ROOT / "instances" / "system" / "import_guard.py", tmp_path / "instances" / "system")
    guard = "from instances.system.import_guard import check_siblings; check_siblings()"
    shown = run("-S", "-c", guard, path=[tmp_path], cwd=tmp_path)  # -S: without installed packages
    (line,) = shown.stderr.splitlines()
    assert line.startswith("ImportError: The package 'heuristics' of mtpp should come from")
    assert "is not there" in line


def test_the_packages_under_test_are_one_family() -> None:
    check_siblings()
