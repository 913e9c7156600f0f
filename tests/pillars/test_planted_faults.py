"""Faults that are planted into a copy of the sources, one at a time, are caught by `mtpp verify` or by a pillar."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from planted_faults import FAULTS, USE_RULE, Fault

from instances.system.import_guard import SIBLINGS

ROOT = Path(__file__).resolve().parents[2]

# A process that has loaded the packages of others, which takes seconds, and none of the project; it runs each line,
# arguments of Python, in a copy of itself. Nothing is compiled: kernels would be anew, for questions this small.
FORKS = """
import json, os, runpy, sys
from importlib.metadata import entry_points
import hypothesis, numba, pandas, pyomo.environ, pytest, scipy.optimize, typer
[plugin.load() for plugin in entry_points(group="pytest11")]
for line in sys.stdin:
    child = os.fork()
    if not child:
        option, what, *sys.argv[1:] = json.loads(line)
        for stream, name in enumerate(("stdout", "stderr"), 1):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        sys.stdin.close()
        runpy.run_module(what, run_name="__main__", alter_sys=True) if option == "-m" else exec(what, {})
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

# What a user of the copy does with the file that has been written.
WRITTEN = "the file is written"
VERIFY = f"""
from mtpp.cli.main import main
print({WRITTEN!r})
sys.exit(main(["verify", sys.argv[2]]))
"""


class Done(NamedTuple):
    """Exit code and streams of a run."""

    returncode: int
    stdout: str
    stderr: str


class Copy:
    """A copy of the sources, and the process that runs Python on it."""

    def __init__(self, folder: Path) -> None:
        for package in (*SIBLINGS, "tests"):
            shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("kernels-*"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        # Code of a file that is planted in the second of another one, and as long, would be taken for that.
        settings = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_DISABLE_JIT": "1"}
        command, pipe = [sys.executable, "-c", FORKS], subprocess.PIPE
        self.folder = folder
        self.process = subprocess.Popen(
            command, cwd=folder, env=os.environ | settings, stdin=pipe, stdout=pipe, text=True, bufsize=1
        )

    def run(self, *arguments: str) -> Done:
        """Run Python with arguments."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(arguments) + "\n")
        code = int(self.process.stdout.readline())
        return Done(code, *((self.folder / name).read_text() for name in ("stdout", "stderr")))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """A copy without a fault."""
    copy = Copy(tmp_path_factory.mktemp("copy"))
    with copy.process:
        yield copy


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name: str, copy: Copy, tmp_path: Path) -> None:
    """With the fault, a certificate is false or a pillar falls; without it, neither (as the other tests show)."""
    fault = FAULTS[name]
    original = (ROOT / fault.file).read_text()
    assert original.count(fault.line) == 1
    (copy.folder / fault.file).write_text(original.replace(fault.line, fault.planted))
    try:
        check_that_it_is_caught(fault, copy.run, str(tmp_path / "c.json"))
    finally:
        shutil.copy2(ROOT / fault.file, copy.folder / fault.file)


def check_that_it_is_caught(fault: Fault, run: Callable[..., Done], file: str) -> None:
    """By a pillar, by who proves a bound, or by who verifies its file."""
    if fault.pillar:
        profile = "--hypothesis-profile=first failure"
        caught = run("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", profile, f"tests/{fault.pillar}")
        assert caught.returncode == 1, caught.stdout + caught.stderr
        assert " failed" in caught.stdout
        # What it says is wrong, not that it does not run uncompiled.
        assert "AssertionError" in caught.stdout or "FalseCertificateError" in caught.stdout
        return
    first, *others = fault.use if fault.rule is None else fault.rule
    used = run("-c", (fault.script if fault.rule is None else USE_RULE) + VERIFY, first, file, *others)
    assert used.returncode == 1, used.stdout + used.stderr
    if WRITTEN in used.stdout:
        assert fault.words in used.stderr
    else:  # bound and partition of the faulty copy contradict each other
        assert fault.rule is None
        assert "FalseCertificateError" in used.stderr or "SolverFaultError" in used.stderr
