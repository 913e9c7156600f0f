"""`mtpp warm-up` leaves nothing to compile, and compiling is told on stderr and not charged to anybody."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numba
import pytest

import experiments
from instances import compiled
from instances.compiled import CODE, is_warm, made_for, mark_warm, stored_code
from instances.errors import InputError
from instances.system.files import write_archive
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
    warm, _ = run(WARM_UP + NAMES, tmp_path / "warm-up")
    named = json.loads((tmp_path / "warm-up" / "named.json").read_text())
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


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """A function that lets machine code be in a folder of this name, which is returned."""
    compiled._is_writable.cache_clear()

    def use(name: str) -> Path:
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / name))
        return tmp_path / name

    yield use
    compiled._is_writable.cache_clear()


@pytest.fixture
def archive(caches: Callable[[str], Path], tmp_path: Path) -> Path:
    """An archive of two files of machine code, exported from a folder that has all of it."""
    caches("exporter")
    folder = mark_warm(made_for())
    assert folder is not None
    for name in "ab":
        (folder / f"{name}{CODE}").write_bytes(name.encode() * 1000)
    assert main(["warm-up", "--export", str(tmp_path / "archive")]) == 0
    return tmp_path / "archive"


def test_machine_code_travels(archive: Path, caches: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Another folder has all of it from an archive, and nothing is compiled; a third one from that."""
    for name in ("second", "third"):
        caches(name)
        assert is_warm() is None
        capsys.readouterr()
        assert main(["warm-up", "--import", str(archive)]) == 0
        folder = is_warm()
        assert folder is not None
        assert capsys.readouterr().out == f"Taken from {archive}; the code is in {folder}\n"
        assert stored_code(folder) == (made_for(), {f"{name}{CODE}": name.encode() * 1000 for name in "ab"})
        archive = archive.with_name(f"archive of {name}")
        assert main(["warm-up", "--export", str(archive)]) == 0


def test_what_is_refused_is_compiled(
    archive: Path, caches: Callable[[str], Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machine code for another numba, Python, processor or source, or a changed archive: one line, and work goes on."""
    monkeypatch.setattr("mtpp.cli.warm_up._GROUPS", ())
    own = archive.read_bytes()
    archives = [own[:-1], own[:-1] + bytes([own[-1] ^ 1]), b"", b"text"]
    for name in made_for():
        write_archive(archive, "mtpp-kernels/1", made_for() | {name: "other"}, {})
        archives.append(archive.read_bytes())
    for number, content in enumerate(archives):
        caches(str(number))
        archive.write_bytes(content)
        capsys.readouterr()
        assert main(["warm-up", "--import", str(archive)]) == 0
        out, err = capsys.readouterr()
        assert out.startswith("Compiled in")
        assert err.startswith(f"mtpp: warning: {archive}: ")
        assert err.count("\n") == 1
        assert is_warm() == next((archive.parent / str(number)).iterdir())


def test_files_of_machine_code_are_looked_at_first(archive: Path, caches: Callable[[str], Path]) -> None:
    """A file that is missing or cannot be written is refused before anything is compiled."""
    caches("empty")
    for option, path in (("import", "missing"), ("import", "."), ("import", "/dev/zero"), ("export", "no/folder")):
        assert main(["warm-up", f"--{option}", path]) == 2
    assert main(["warm-up", "--import", str(archive), "--export", str(archive)]) == 2
    assert is_warm() is None


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
