"""A cluster of processes on this machine, any of which can be killed while it works.

As a program: kill the scheduler, a worker or the client at 20 random moments, ``cluster_jobs.py [SEED [TIMES]]``.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from mtpp.runs.engine import run_jobs
from mtpp.runs.job import Job, Run, RunLog, read_runs
from mtpp.runs.partition_job import PartitionJob
from mtpp.runs.workers import WorkersLostError, cluster_workers

LOST = 3
#: File in the folder of jobs that the later half of them waits for.
HOLD = "hold"
_SCHEDULER, _WORKER = "distributed.cli.dask_scheduler", "distributed.cli.dask_worker"
_PATIENCE = 60.0


@dataclass(frozen=True, eq=False)
class Touch(Job):
    """Notes in a file that it was begun; the later half waits for jobs of the first, and as long as there is `HOLD`."""

    folder: str
    number: int
    seconds: float
    waits_for: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return str(self.number)

    def record(self, seconds: float | None = None, error: str | None = None, **answer: Any) -> Run:
        return {"key": self.key, "instance": "touch", "k": 1, "method": "touch", "error": error, "sum": None, **answer}

    def answer(self, start: Sequence[Run]) -> Run:
        with (Path(self.folder) / "begun").open("a") as file:
            file.write(f"{self.number}\n")
        time.sleep(self.seconds)
        while self.waits_for and (Path(self.folder) / HOLD).exists():
            time.sleep(self.seconds)
        return {"sum": self.number + sum(run["sum"] for run in start)}


def touches(folder: str, count: int, seconds: float) -> list[Touch]:
    half = count // 2
    first = [Touch(folder, number, seconds) for number in range(half)]
    return first + [Touch(folder, number, seconds, (str(number - half),)) for number in range(half, count)]


class LocalProcesses:
    """A scheduler at a free port and workers of one thread; a context manager."""

    def __init__(self, workers: int = 2) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self._count = workers
        self.scheduler = self._scheduler()
        self.workers = [self._worker() for _ in range(workers)]

    def kill_scheduler(self) -> None:
        """Kill the scheduler, and start another one with new workers at the same address."""
        for process in (self.scheduler, *self.workers):
            end(process)
        self.scheduler = self._scheduler()
        self.workers = [self._worker() for _ in range(self._count)]

    def kill_worker(self) -> None:
        """Kill a worker, and start another one."""
        end(self.workers.pop(0))
        self.workers.append(self._worker())

    def __enter__(self) -> LocalProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.workers, self.scheduler):
            end(process)

    def _scheduler(self) -> BaseProcess:
        return start(command, _SCHEDULER, "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")

    def _worker(self) -> BaseProcess:
        place = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        return start(command, _WORKER, self.address, *place)


def load_once() -> None:
    """Start the process that has loaded dask and the runs, which takes seconds; others are copies of it."""
    multiprocessing.set_forkserver_preload([_SCHEDULER, _WORKER, Job.__module__, PartitionJob.__module__])
    forkserver.ensure_running()


def start(function: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Call a function in a copy of that process."""
    load_once()
    process = multiprocessing.get_context("forkserver").Process(target=function, args=arguments)
    process.start()
    return process


def command(module: str, *words: str) -> None:
    """Run a program of dask, in silence."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    import_module(module).main(words)


def end(process: BaseProcess) -> None:
    process.kill()
    process.join()


@dataclass
class Outcome:
    """What is in the file after all."""

    runs: list[Run]
    begun: Counter[int]  # how often each job was begun
    lines: int
    calls: int  # of the program

    @property
    def repeated(self) -> int:
        """Jobs that were begun in vain."""
        return sum(self.begun.values()) - len(self.begun)


def program(cluster: LocalProcesses, folder: Path, count: int, seconds: float) -> BaseProcess:
    """A client that makes so many runs of so many seconds; what it says on stderr is in a file."""
    return start(work, cluster.address, str(folder), count, seconds)


def survive(folder: Path, count: int, seconds: float, moments: Sequence[tuple[int, str]]) -> Outcome:
    """Let a cluster make runs, and kill a part of it when so many are done; each part comes again.

    Parameters
    ----------
    moments : sequence of (int, str)
        Numbers of lines, rising, and "scheduler", "worker" or "client".
    """
    calls = 1
    with LocalProcesses() as cluster:
        client = program(cluster, folder, count, seconds)
        for lines, part in moments:
            wait_for(lambda lines=lines: written(folder) >= lines, client)
            if part == "client":
                end(client)
                client, calls = program(cluster, folder, count, seconds), calls + 1
            elif part == "scheduler":
                cluster.kill_scheduler()
            else:
                cluster.kill_worker()
        while exit_code(client) == LOST:  # no scheduler came in time: the same call goes on
            client, calls = program(cluster, folder, count, seconds), calls + 1
        assert client.exitcode == 0, (folder / "stderr").read_text()
    begun = Counter(map(int, (folder / "begun").read_text().split()))
    return Outcome(read_runs(folder / "runs.jsonl"), begun, written(folder), calls)


def written(folder: Path) -> int:
    path = folder / "runs.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def exit_code(client: BaseProcess) -> int | None:
    """How a client ends; None if it does not."""
    client.join(_PATIENCE)
    return client.exitcode


def wait_for(reached: Callable[[], bool], client: BaseProcess) -> None:
    stop = time.monotonic() + _PATIENCE
    while not reached():
        assert time.monotonic() < stop, "the runs do not come"
        if not client.is_alive():
            return
        time.sleep(0.01)


def at_random(seed: int, count: int, times: int) -> list[tuple[int, str]]:
    """Moments at which something is killed."""
    draw = random.Random(seed)
    lines = sorted(draw.randrange(count) for _ in range(times))
    return [(line, draw.choice(["scheduler", "worker", "client"])) for line in lines]


def work(address: str, folder: str, count: int, seconds: float) -> None:
    os.dup2(os.open(Path(folder, "stderr"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    with cluster_workers(address) as workers, RunLog(Path(folder) / "runs.jsonl") as log:
        try:
            run_jobs(touches(folder, count, seconds), log, workers)
        except WorkersLostError as error:
            print(error, file=sys.stderr)
            sys.exit(LOST)


def check(outcome: Outcome, count: int, killed: int) -> None:
    """No failure, each key once, the sums right; of what was begun in vain no more than was under way."""
    values = {int(run["key"]): run["sum"] for run in outcome.runs}
    half = count // 2
    assert values == {n: n if n < half else 2 * n - half for n in range(count)}
    assert [run["error"] for run in outcome.runs] == [None] * count
    assert outcome.lines == count
    assert outcome.repeated <= 4 * killed  # two workers, each with one job at work and one beside it


if __name__ == "__main__":
    seed, times = (*map(int, sys.argv[1:]), *(0, 20)[len(sys.argv) - 1 :])
    moments = at_random(seed, 8 * times, times)
    with tempfile.TemporaryDirectory() as place:
        outcome = survive(Path(place), 8 * times, 0.2, moments)
    print(moments)
    print(f"{outcome.lines} lines, {outcome.repeated} jobs begun in vain, {outcome.calls} calls")
    check(outcome, 8 * times, times)
