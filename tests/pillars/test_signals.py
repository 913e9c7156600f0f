"""Ctrl-C and SIGTERM: what is known is printed, the exit code is 130, and nothing is left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from command_line import columns

import mtpp.cli.main
from instances import save_graph
from instances.random_graphs import regal_style
from instances.system.processes import catch_interrupt, processors, terminate_as_interrupt
from mtpp.cli.exit_codes import INTERRUPTED, MEANINGS

ROOT = Path(mtpp.__file__).parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
#: Tells by a file that the command line is about to import something, and dawdles there.
DAWDLE = """
import builtins, pathlib, sys, time
real, name = builtins.__import__, sys.argv.pop(1)
def dawdle(module, *rest, **names):
    if module == name and not pathlib.Path("ready").exists():
        pathlib.Path("ready").touch()
        time.sleep(30)
    return real(module, *rest, **names)
builtins.__import__ = dawdle
from mtpp.__main__ import main
sys.exit(main())
"""


#: Tells by a file that the ladder is at its third step, when a partition and a bound are known.
CLIMBING = """
import pathlib, sys
from mtpp.__main__ import main
from mtpp.text.tables import LiveLine
real = LiveLine.show
def show(line, moment):
    if moment.case == "pinned":
        pathlib.Path("ready").touch()
    real(line, moment)
LiveLine.show = show
sys.exit(main())
"""


def start(*words: str, **variables: str) -> subprocess.Popen[str]:
    environment, pipe = ENVIRONMENT | variables, subprocess.PIPE
    return subprocess.Popen([sys.executable, *words], stdout=pipe, stderr=pipe, text=True, env=environment)


def wait_for(path: str, process: subprocess.Popen[str]) -> None:
    while process.poll() is None and not (Path(path).exists()):
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["mtpp.cli.main", "rich.text", "mtpp.certifying.certify", "mtpp_models.registry"])
def test_a_signal_while_loading(module: str, number: signal.Signals, folder: Path) -> None:
    """No traceback, also before and between what `main` does."""
    process = start("-c", DAWDLE, module, "certify", "path.json", "-k", "2", "--bandwidth", "1")
    wait_for("ready", process)
    process.send_signal(number)
    out, err = process.communicate()
    assert Path("ready").exists()
    assert (process.returncode, out, err) == (INTERRUPTED, "", "")


@pytest.mark.parametrize("module", ["instances.system.import_guard"])
def test_ctrl_c_while_the_packages_load(module: str, folder: Path) -> None:
    """The first import of all is that of the packages themselves."""
    process = start("-c", DAWDLE, module, "list", "models")
    wait_for("ready", process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (INTERRUPTED, "", "")


def test_sigterm_keeps_the_certificate(folder: Path) -> None:
    """It acts as Ctrl-C: what is known is printed and written."""
    save_graph(regal_style("barabasi-albert", 500, seed=0), folder / "large.json")
    words = ["certify", "large.json", "-k", "16", "--bandwidth", "1", "--time-limit", "200", "--out", "c.json"]
    process = start("-c", CLIMBING, *words)
    wait_for("ready", process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert process.returncode == INTERRUPTED, err
    assert columns(out)["k"] == "16"
    assert json.loads(Path("c.json").read_text())["format"].startswith("mtpp-answer/")


def test_sigterm_ends_a_table_and_its_processes(folder: Path) -> None:
    """The runs that are done are kept; no process is left."""
    process = start("-m", "mtpp", "table", "resnet152", "-k", "8", "--methods", "kahn,exact", "--jobs", "2")
    while process.poll() is None and not (Path("runs.jsonl").exists() and Path("runs.jsonl").read_bytes()):
        time.sleep(0.02)
    children = descendants(process.pid)
    assert children
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert (process.returncode, out) == (INTERRUPTED, "")
    assert "the same call makes the rest" in err
    assert "Traceback" not in err
    assert "leaked" not in err
    for _ in range(10_000):
        if not any(map(is_alive, children)):
            return
        time.sleep(0.01)
    pytest.fail("a process of the table outlived it")


@pytest.mark.skipif(processors() < 2, reason="there is one processor")
@pytest.mark.parametrize("words", [["warm-up"], ["certify", "bert-base", "-k", "4"]])
def test_sigterm_ends_all_processes_that_compile(words: list[str], folder: Path) -> None:
    """Also those beside a first `certify`, which prints what is known by then."""
    process = start("-m", "mtpp", *words, NUMBA_CACHE_DIR=str(folder))
    while process.poll() is None and not descendants(process.pid):
        time.sleep(0.02)
    children = descendants(process.pid)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    lines = [line for line in err.splitlines()[1:] if not line.startswith("bert-base, k = 4  ")]  # progress
    assert (lines, process.returncode) == ([], INTERRUPTED)
    assert children
    assert not any(map(is_alive, children))


def test_sigterm_is_left_alone_where_it_ends_the_process() -> None:
    """A program that uses the library keeps its own way to end."""
    before = signal.getsignal(signal.SIGTERM)
    with catch_interrupt():
        assert signal.getsignal(signal.SIGTERM) is before
    with terminate_as_interrupt():
        with catch_interrupt() as interrupted:
            signal.raise_signal(signal.SIGTERM)
        assert interrupted.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_bug_what_began_after_an_interrupt_went_on_for_all_its_time() -> None:
    """As a turn of a ladder that had caught Ctrl-C just before; other threads have no part in it."""
    heard: list[bool] = []

    def elsewhere() -> None:
        with catch_interrupt() as other:
            heard.append(other.is_set())

    with catch_interrupt() as outer:
        signal.raise_signal(signal.SIGINT)
        with catch_interrupt() as inner:
            assert inner.is_set()
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert outer.is_set()
    assert heard == [False]
    with catch_interrupt() as later:
        assert not later.is_set()


def test_the_exit_codes_are_the_same_everywhere() -> None:
    """README, help and docstring know each code of `mtpp.cli.exit_codes`."""
    for text in (mtpp.cli.main.__doc__ or "", str(mtpp.cli.main.app.info.epilog)):
        assert all(f"{code} {meaning}" in " ".join(text.split()) for code, meaning in MEANINGS.items())
    readme = (ROOT / "README.md").read_text()
    assert all(f"\n| {code} | " in readme for code in MEANINGS)


def descendants(pid: int) -> list[int]:
    children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*children, *(number for child in children for number in descendants(child))]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
