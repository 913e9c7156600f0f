"""Where jobs run: no process is left behind, and all use one thread for matrices."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from instances import InputError
from mtpp.runs.workers import local_workers


def test_no_processes_are_refused() -> None:
    with pytest.raises(InputError, match="jobs=0"), local_workers(0):
        pass


@pytest.mark.parametrize("jobs", [1, 2])
def test_workers_use_one_thread(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the number of workers, so that sums round alike; this process has its own wish back afterwards."""
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    with local_workers(jobs) as workers, workers.executor() as pool:
        assert pool.submit(os.getenv, "OMP_NUM_THREADS").result() == "1"
        assert pool.submit(os.getenv, "OPENBLAS_NUM_THREADS").result() == "1"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "OPENBLAS_NUM_THREADS" not in os.environ


def test_workers_leave_when_the_parent_is_killed(tmp_path: Path) -> None:
    """No process is left behind by kill -9."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, time\n"
        "from mtpp.runs.workers import local_workers\n"
        "if __name__ == '__main__':\n"
        "    with local_workers(1) as workers:\n"
        "        print(workers.executor().submit(os.getpid).result(), flush=True)\n"
        "        time.sleep(60)\n"
    )
    folder = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for _ in range(10_000):
        if not _is_alive(worker):
            return
        time.sleep(0.01)
    pytest.fail("the worker outlived its parent")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
