"""`mtpp warm-up` leaves nothing to compile, and compiling is told on stderr and not charged to anybody."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import experiments
from instances.compiled import is_warm, warmed_alone
from instances.errors import InputError
from mtpp.cli.main import main

WARM_UP = """
from mtpp.cli.main import main
assert main(["warm-up"]) == 0
"""

# Kernels of which no machine code is on disk.
COLD = """
import importlib, pkgutil
from pathlib import Path
from instances.compiled import kernels
for package in ("instances", "heuristics", "mtpp_models", "mtpp.verification"):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        try:
            importlib.import_module(module.name)
        except ImportError:
            pass  # an extra is not installed
assert len(kernels()) > 100
for kernel in kernels():
    name = f"*.{kernel.py_func.__qualname__}-{kernel.py_func.__code__.co_firstlineno}.*.nbc"
    if kernel.targetoptions.get("inline") != "always":
        assert list(Path(kernel.stats.cache_path).glob(name)), f"no code of {kernel}"
"""

VERBS = """
from mtpp.cli.main import main
from instances.compiled import kernels
for words in (
    "certify bert-base -k 4 --time-limit 4",
    "certify squeezenet -k 3 --memory 1MB --training --time-limit 2",
    "partition squeezenet -k 3 --method portfolio --time-limit 1",
    "plan simulation --cluster 2x2 --bandwidth 128Gbps,32Gbps --microbatches 4",
    "place ptb-0 -k 2 --method anneal --time-limit 1",
    "place ptb-0 -k 2 --time-limit 1",
    "place ptb-0 -k 2 --memory 1GB --time-limit 1",
    "place ptb-0 -k 2 --method placeto --time-limit 1",
    "certify bert-base -k 4 --time-limit 4 --out c.json",
    "verify c.json",
):
    assert main(words.split()) == 0, words
    compiled = [kernel for kernel in kernels() if kernel.stats.cache_misses]
    assert not compiled, (words, compiled)
"""


def run(script: str, folder: Path) -> str:
    """Run a script in a process of its own whose machine code lies in a folder; return what it says on stderr."""
    root = str(Path(experiments.__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": root, "NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture
def warm(tmp_path: Path) -> Path:
    """A folder with the machine code that warm-up made and nobody else.

    It is a copy of the code on this machine if there was none before warm-up; what was compiled since is left out.
    """
    complete = is_warm()
    if complete is None or not warmed_alone():
        assert "once after each update" not in run(WARM_UP, tmp_path)
        return tmp_path
    done = (complete / "complete").stat().st_mtime_ns

    def later(folder: str, names: list[str]) -> list[str]:
        code = [name for name in names if name.endswith(".nbc")]
        being_written = [name for name in names if ".tmp." in name]
        return being_written + [name for name in code if (Path(folder) / name).stat().st_mtime_ns > done]

    shutil.copytree(complete, tmp_path / complete.name, ignore=later)
    return tmp_path


@pytest.mark.slow
def test_after_it_nothing_is_compiled(warm: Path) -> None:
    """No kernel is forgotten, none is compiled again for other types, and nobody hears of compiling."""
    run(COLD, warm)
    assert "once after each update" not in run(VERBS, warm)


def test_it_takes_no_time_where_all_is_compiled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instances.compiled.is_warm", lambda: tmp_path)
    assert main(["warm-up"]) == 0
    assert capsys.readouterr().out == f"All is compiled; the code is in {tmp_path}\n"


def test_compiling_is_told_in_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """While the command line is at work; the logger says nothing to those who use the packages."""
    logger = logging.getLogger("instances.compiled")

    def versions() -> dict[str, str]:
        logger.info("compiling")
        raise InputError("enough")

    monkeypatch.setattr("mtpp.versions.versions", versions)
    logger.info("before")
    assert main(["versions"]) == 2
    logger.info("behind")
    assert capsys.readouterr().err == "mtpp: compiling\nmtpp: enough\n"


def test_versions_say_whether_it_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["versions"]) == 0
    said = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert said["compiled"].startswith("no" if is_warm() is None else "yes")
