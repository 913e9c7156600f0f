"""The packages work where the system has no fcntl, no resource, no fork and no process groups, as on Windows."""

from __future__ import annotations

from pathlib import Path

import pytest
from bare_platform import run_bare
from certificates import PLAIN

from instances.json_files import write_json

IMPORT_ALL = """
import importlib, os, pkgutil
from bare_platform import MODULES
from instances.system.import_guard import SIBLINGS

count = 0
for package in SIBLINGS:
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        try:
            importlib.import_module(found.name)
            count += 1
        except ModuleNotFoundError as error:  # an extra is not installed
            assert error.name.split(".")[0] not in (*MODULES, *SIBLINGS), (found.name, error.name)
print(count)
"""

COMPARE = """
import mtpp

graph = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0])
words = {"k": 2, "methods": ["kahn", "exact", "certify"], "bandwidth": 1, "time_limit": 20, "file": "runs.jsonl"}
first = mtpp.compare(graph, **words)
assert first["error"].isna().all(), first["error"].tolist()
assert first["ratio"].max() < 1.000001, first
assert mtpp.compare(graph, **words).equals(first)
"""

LOCKS = """
import os, time
from instances.system.files import file_lock
from instances.system.processes import limit_process

assert not limit_process(memory=2**40)
with file_lock("x", wait=False):
    try:
        with file_lock("x", wait=False):
            raise SystemExit("two hold it")
    except BlockingIOError:
        pass
    other = os.path.join(os.getcwd(), "x.lock")
    assert os.path.exists(other)
with file_lock("x", wait=True):
    pass
assert not os.path.exists(other)

from instances import InputError
from mtpp.runs.job import RunLog

with RunLog("runs.jsonl") as log:
    log.append({"key": "a"})
    try:
        RunLog("runs.jsonl")
        raise SystemExit("two write it")
    except InputError as error:
        assert "another process" in str(error)
with RunLog("runs.jsonl") as log:
    assert list(log.runs) == ["a"]
"""

PROGRAMS = """
import sys
from instances import InputError
from instances.system.processes import end_programs, run_program
from mtpp.stages.runner import Pipeline

code = "import time; print('begun', flush=True); time.sleep(1000)"
run = run_program([sys.executable, "-c", code], 1.0)
assert run.stopped and run.code != 0
assert run_program([sys.executable, "-c", "print(7)"]).text == "7\\n"
end_programs()
try:
    with Pipeline([]):
        raise SystemExit("stages ran")
except InputError as error:
    print(error)
"""


@pytest.mark.slow
def test_all_modules_are_imported(tmp_path: Path) -> None:
    """But those whose extras are not installed."""
    done = run_bare(tmp_path, "-c", IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 300


def test_methods_are_compared(tmp_path: Path) -> None:
    """Into a file of runs; nothing of its lock is left."""
    done = run_bare(tmp_path, "-c", COMPARE)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir() if "runs" in path.name] == ["runs.jsonl"]


def test_tables_are_made_by_several_processes(folder: Path) -> None:
    words = "table path.json -k 2 --bandwidth 1 --methods kahn,simple --jobs 2"
    done = run_bare(folder, "-m", "mtpp", *words.split())
    assert done.returncode == 0, done.stderr
    assert "2 of 2 runs" in done.stderr


def test_certificates_are_checked_and_a_warning_says_that_memory_has_no_limit(tmp_path: Path) -> None:
    """Once for all files."""
    for name in ("a.json", "b.json"):
        write_json(tmp_path / name, PLAIN)
    done = run_bare(tmp_path, "-m", "mtpp", "verify", "a.json", "b.json")
    assert done.returncode == 0, done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("mtpp: warning: the memory of processes that open files cannot be limited")


def test_one_process_holds_a_file(tmp_path: Path) -> None:
    done = run_bare(tmp_path, "-c", LOCKS)
    assert done.returncode == 0, done.stderr


def test_programs_end_in_time_and_stages_are_refused_in_one_line(tmp_path: Path) -> None:
    done = run_bare(tmp_path, "-c", PROGRAMS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Stages cannot run on Windows")
    assert done.stdout.count("\n") == 1
