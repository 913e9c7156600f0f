"""The run engine: nothing lost, nothing twice, whatever dies."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from study_jobs import Sum, answers, diamonds, questions

from instances import Instance, Platform
from instances.graph.graph import save_graph
from mtpp.runs import engine
from mtpp.runs.engine import run_jobs
from mtpp.runs.job import SCHEMA, Run, RunLog, read_runs
from mtpp.runs.partition_job import jobs_of
from mtpp.runs.workers import AHEAD, Workers, local_workers, this_process
from mtpp_models import SolveOptions

METHODS = ("kahn", "random-100", "simple", "bottleneck", "exact")
QUICK = METHODS[:3]


@pytest.fixture(scope="module")
def expected() -> list[Run]:
    """The runs of all methods on the questions, made one after the other in this process."""
    runs: dict[str, Run] = {}
    for job in jobs_of(questions(), METHODS):
        runs[job.key] = job.run([runs[key] for key in job.waits_for])
    return answers(list(runs.values()))


def test_a_run_that_lacks_a_field_is_made_again(tmp_path: Path) -> None:
    """A line with the right key alone answers nothing."""
    (job,) = jobs_of(questions([2]), ["kahn"])
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps({"schema": SCHEMA, "key": job.key, "error": None}) + "\n")
    with RunLog(path) as log:
        (run,) = run_jobs([job], log, Workers(lambda: ThreadPoolExecutor(1)))
    assert run["bottleneck"] > 0


@pytest.mark.slow
def test_processes_give_the_same_answers_and_a_rerun_does_nothing(tmp_path: Path, expected: list[Run]) -> None:
    """Two processes answer as one; the second call makes no run."""
    jobs = jobs_of(questions(), METHODS)
    made: list[Run] = []
    with RunLog(tmp_path / "runs.jsonl") as log, local_workers(2) as workers:
        assert answers(run_jobs(jobs, log, workers, made.append)) == expected
        assert len(made) == len(jobs)
        assert [run["key"] for run in run_jobs(jobs, log, workers, made.append)] == [job.key for job in jobs]
        assert len(made) == len(jobs)
    assert answers(read_runs(tmp_path / "runs.jsonl")) == expected


class Deadly(Instance):
    """Kills the process that unpickles it, as a crashing solver would."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (1,)


@pytest.mark.slow
def test_a_dying_process_costs_its_own_run_only(tmp_path: Path, expected: list[Run]) -> None:
    """The guilty run is recorded with an error, all others are made, and a rerun tries only that one again."""
    jobs = jobs_of(questions(), QUICK)
    platform = Platform(5, bandwidth=2.0)
    guilty = jobs_of([Deadly(diamonds(), platform)], ["kahn"])
    path = tmp_path / "runs.jsonl"
    with RunLog(path) as log, local_workers(2) as workers:
        failed, *others = run_jobs([*guilty, *jobs], log, workers)
    assert "died" in failed["error"]
    assert answers(others) == [run for run in expected if run["method"] in QUICK]
    assert len(path.read_text().splitlines()) == len(jobs) + 1
    healthy = jobs_of([Instance(diamonds(), platform)], ["kahn"])
    made: list[Run] = []
    with RunLog(path) as log, local_workers(1) as workers:
        run_jobs([*healthy, *jobs], log, workers, made.append)
    assert [(run["key"], run["error"]) for run in made] == [(failed["key"], None)]


@pytest.mark.parametrize("processes", [1, 3])
def test_a_job_gets_the_runs_that_it_waits_for(processes: int, tmp_path: Path) -> None:
    """In their order and wherever they are from: this call, an earlier one, or nowhere, if nobody asked for them."""
    jobs = [Sum("d", 1, ("b", "c")), Sum("c", 10, ("a", "not asked")), Sum("b", 100, seconds=0.1), Sum("a", 1000)]
    with RunLog(tmp_path / "runs.jsonl") as log, ThreadPoolExecutor(processes) as pool:
        log.append(jobs[3].record(sum=5000))
        runs = run_jobs(jobs, log, Workers(lambda: pool, processes))
    assert [run["sum"] for run in runs] == [5111, 5010, 100, 5000]


@pytest.mark.slow
def test_bug_a_last_run_that_kills_slowly_is_not_tried_for_ever(tmp_path: Path) -> None:
    """A process that dies later than the next look at it is known for guilty, also when no other suspect is left."""
    jobs = [Sum("slow", deadly=True, seconds=1.0), Sum("other", 1, seconds=0.5)]
    made: list[Run] = []
    with RunLog(tmp_path / "runs.jsonl") as log, local_workers(2) as workers:
        slow, other = run_jobs(jobs, log, workers, made.append)
    assert "died" in slow["error"]
    assert (other["sum"], other["error"]) == (1, None)
    assert len(made) == 2


@pytest.mark.slow
def test_resume_after_kill(tmp_path: Path) -> None:
    """After kill -9 in mid-run, the same call makes the rest: every key is there, no finished run is made twice."""
    save_graph(diamonds(), tmp_path / "graph.json")
    path = tmp_path / "runs.jsonl"
    methods = "kahn,random-1,random-100,brkga-100,bottleneck,exact"
    command = [sys.executable, "-m", "mtpp", "table", str(tmp_path / "graph.json"), "--bandwidth", "2"]
    command += ["-k", "2,3,4", "--methods", methods, "--jobs", "1", "--out", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < 5):
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = path.read_bytes()
    finished = before[: before.rfind(b"\n") + 1]
    path.write_bytes(before + b'{"schema": "mtpp-run/2", "key": "torn')  # as if killed while writing
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert "Table 3" in again.stdout
    after = path.read_bytes()
    assert after.startswith(finished)
    keys = [json.loads(line)["key"] for line in after.splitlines()]
    instances = [Instance(diamonds(), Platform(k, 2.0)) for k in (2, 3, 4)]
    jobs = jobs_of(instances, [*methods.split(","), "simple"], SolveOptions(time_limit=60.0))
    assert sorted(keys) == sorted(job.key for job in jobs)


def test_the_engine_looks_at_each_job_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work grows as jobs and what they wait for do, not as their square: what each asks for is looked at twice."""
    looks: Counter[str] = Counter()

    class Watched(Sum):
        def __getattribute__(self, name: str) -> Any:
            if name == "waits_for":
                looks[object.__getattribute__(self, "key")] += 1
            return super().__getattribute__(name)

    monkeypatch.setattr(os, "fsync", lambda file: None)
    first = [Watched(f"a{n}", n) for n in range(300)]
    jobs = [*first, *(Watched(f"b{n}", n, (f"a{n}", f"a{n - 1}")) for n in range(1, 300))]
    with RunLog(tmp_path / "runs.jsonl") as log, this_process() as workers:
        runs = run_jobs(jobs, log, workers)
    assert [run["sum"] for run in runs] == [*range(300), *(3 * n - 1 for n in range(1, 300))]
    assert max(looks.values()) <= 4


def test_workers_get_a_window_of_jobs_and_may_come_and_go(tmp_path: Path) -> None:
    """As many as there is room for at each moment, none while there is none."""
    rooms = iter([0, 0, 1, 3, 2])
    latest, most = [0], [0]
    running: set[Any] = set()

    def look() -> int:
        latest[0] = next(rooms, latest[0])
        return latest[0]

    class Pool(ThreadPoolExecutor):
        def submit(self, *work: Any, **words: Any) -> Any:
            future = super().submit(*work, **words)
            running.add(future)
            future.add_done_callback(running.discard)
            most[0] = max(most[0], len(running))
            assert len(running) <= max(3, latest[0])
            return future

    with RunLog(tmp_path / "runs.jsonl") as log:
        runs = run_jobs([Sum(str(n), n, seconds=0.01) for n in range(20)], log, Workers(lambda: Pool(4), look=look))
    assert [run["sum"] for run in runs] == list(range(20))
    assert 1 <= most[0] <= 3


def test_a_job_that_its_workers_drop_comes_again(tmp_path: Path) -> None:
    """What is cancelled, as by a lost scheduler, is no failure; what kills its workers again and again is one."""
    calls: Counter[str] = Counter()

    class Pool(ThreadPoolExecutor):
        def submit(self, *work: Any, **words: Any) -> Any:
            (job, _) = pickle.loads(work[1])
            calls[job.key] += 1
            future: Future[Any] = Future()
            if job.key == "cursed":
                future.set_exception(OSError("the worker is gone"))
            elif calls[job.key] < 4:
                future.cancel()
            else:
                return super().submit(*work, **words)
            return future

    with RunLog(tmp_path / "runs.jsonl") as log:
        runs = run_jobs([Sum("good", 1), Sum("cursed", 2)], log, Workers(lambda: Pool(1)))
    assert (runs[0]["sum"], runs[0]["error"], calls["good"]) == (1, None, 4)
    assert runs[1]["error"] == "Its workers were lost 3 times (OSError: the worker is gone)"
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 2


def test_a_graph_goes_to_each_worker_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs hold hashes; a worker that has not got the graph is sent it with the job, and others drop nothing."""
    kept: list[OrderedDict[str, Any]] = [OrderedDict(), OrderedDict()]
    sent: list[tuple[int, int, int]] = []

    class Pool(ThreadPoolExecutor):
        """Two workers in turns."""

        def submit(self, work: Any, *words: Any, **_: Any) -> Any:
            turn = len(sent) % 2
            parcel, luggage = words
            sent.append((turn, len(parcel), len(luggage)))
            monkeypatch.setattr(engine, "_KEPT", kept[turn])
            future: Future[Any] = Future()
            future.set_result(work(parcel, luggage))
            return future

    jobs = jobs_of(questions(range(2, 12)), ["kahn"])
    with RunLog(tmp_path / "runs.jsonl") as log:
        runs = run_jobs(jobs, log, Workers(lambda: Pool(1), 2 * AHEAD))
        assert [luggage for _, _, luggage in sent] == [1, 1, *[0] * 8]
        kept[0].clear()  # a new worker in the place of an old one
        runs += run_jobs(jobs_of(questions(range(12, 14)), ["kahn"]), log, Workers(lambda: Pool(1), 1))
    assert [run["error"] for run in runs] == [None] * 12
    assert [len(worker) for worker in kept] == [1, 1]
    assert max(size for _, size, _ in sent) < 3000


def test_what_cannot_be_sent_or_written_is_a_failed_run(tmp_path: Path) -> None:
    """And costs no other."""

    class Local(Sum):
        """Of a class that no other process can import."""

    class NotANumber(Sum):
        def answer(self, start: Sequence[Run]) -> Run:
            return {"sum": float("nan")}

    with RunLog(tmp_path / "runs.jsonl") as log, local_workers(1) as workers:
        sent = run_jobs([Local("a", 1), Sum("b", 2)], log, workers)
    with RunLog(tmp_path / "runs.jsonl") as log, this_process() as workers:
        here = run_jobs([NotANumber("c"), Sum("d", 4)], log, workers)
    assert "cannot be sent to another process" in sent[0]["error"]
    assert "Its answer cannot be written (ValueError" in here[0]["error"]
    assert (sent[1]["sum"], here[1]["sum"]) == (2, 4)
