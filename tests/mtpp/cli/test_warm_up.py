"""`mtpp warm-up` leaves nothing to compile, and compiling is told on stderr and not charged to anybody."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import experiments
from instances.compiled import is_warm
from instances.errors import InputError
from mtpp.cli.main import main

# The kernels that a process and its copies call, each with types, are noted at their ends.
NOTE = """
import importlib, json, os, pkgutil
from multiprocessing import util
from pathlib import Path
from instances.compiled import kernels

def name_of(kernel):
    return f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}"

def note():
    called = [(name_of(kernel), str(types)) for kernel in kernels() for types in kernel.signatures]
    compiled = [name_of(kernel) for kernel in kernels() if kernel.stats.cache_misses]
    Path(f"{os.getpid()}.json").write_text(json.dumps({"called": called, "compiled": compiled}))

util.register_after_fork(note, lambda note: util.Finalize(None, note, exitpriority=0))
"""

# All that is compiled is loaded again.
WARM_UP = """
import instances.compiled
from mtpp.cli.main import main
instances.compiled.is_warm = lambda: None
assert main(["warm-up"]) == 0
note()
"""

# Each kernel, and those that its source names: who compiles it compiles them.
NAMES = """
for package in ("instances", "heuristics", "mtpp_models", "mtpp.verification"):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        try:
            importlib.import_module(module.name)
        except ImportError:
            pass  # an extra is not installed
known = {id(kernel): name_of(kernel) for kernel in kernels()}
named = {}
for kernel in kernels():
    code, around = kernel.py_func.__code__, kernel.py_func.__globals__
    named[name_of(kernel)] = [known[id(around[word])] for word in code.co_names if id(around.get(word)) in known]
Path("named.json").write_text(json.dumps(named))
"""

VERBS = """
from mtpp.cli.main import main
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
note()
"""


def run(script: str, folder: Path) -> tuple[set[tuple[str, str]], set[str]]:
    """Run a script in a process of its own; return kernels that Python calls, each with types, and those compiled."""
    root = str(Path(experiments.__file__).parent.parent)
    folder.mkdir()
    command = [sys.executable, "-c", NOTE + script]
    environment = os.environ | {"PYTHONPATH": root}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    notes = [json.loads(path.read_text()) for path in folder.glob("[0-9]*.json")]
    return {(name, types) for note in notes for name, types in note["called"]}, {
        name for note in notes for name in note["compiled"]
    }


@pytest.mark.slow
def test_after_it_nothing_is_compiled(tmp_path: Path) -> None:
    """No kernel is forgotten, and none is called with other types, also where others have compiled some before."""
    warm, _ = run(WARM_UP, tmp_path / "warm-up")
    run(NAMES, tmp_path / "names")
    named = json.loads((tmp_path / "names" / "named.json").read_text())
    assert len(named) > 100
    by_python = {name for name, _ in warm}
    reached, new = set[str](), by_python
    while new:
        reached |= new
        new = {other for name in new for other in named[name]} - reached
    assert set(named) == reached
    later, compiled = run(VERBS, tmp_path / "verbs")
    assert not compiled
    assert {(name, types) for name, types in later if name in by_python} <= warm


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
