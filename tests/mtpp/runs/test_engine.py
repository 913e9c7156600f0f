"""The run engine: nothing lost, nothing twice, whatever dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from study_jobs import Sum, answers, diamonds, questions

from instances import Instance, Platform
from instances.graph.graph_file import save_graph
from mtpp.runs.engine import run_jobs
from mtpp.runs.log import SCHEMA, Run, RunLog, read_runs
from mtpp.runs.partition_job import jobs_of
from mtpp.runs.workers import Workers, local_workers
from mtpp_models import SolveOptions

METHODS = ("kahn", "random-100", "simple", "bottleneck", "exact")


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


def test_a_dying_process_costs_its_own_run_only(tmp_path: Path, expected: list[Run]) -> None:
    """The guilty run is recorded with an error, all others are made, and a rerun tries only that one again."""
    jobs = jobs_of(questions(), METHODS)
    platform = Platform(5, bandwidth=2.0)
    guilty = jobs_of([Deadly(diamonds(), platform)], ["kahn"])
    path = tmp_path / "runs.jsonl"
    with RunLog(path) as log, local_workers(2) as workers:
        failed, *others = run_jobs([*guilty, *jobs], log, workers)
    assert "died" in failed["error"]
    assert answers(others) == expected
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


def test_bug_a_last_run_that_kills_slowly_is_not_tried_for_ever(tmp_path: Path) -> None:
    """A process that dies later than the next look at it is known for guilty, also when no other suspect is left."""
    jobs = [Sum("slow", deadly=True, seconds=1.0), Sum("other", 1, seconds=0.5)]
    made: list[Run] = []
    with RunLog(tmp_path / "runs.jsonl") as log, local_workers(2) as workers:
        slow, other = run_jobs(jobs, log, workers, made.append)
    assert "died" in slow["error"]
    assert (other["sum"], other["error"]) == (1, None)
    assert len(made) == 2


def test_resume_after_kill(tmp_path: Path) -> None:
    """After kill -9 in mid-run, the same call makes the rest: every key is there, no finished run is made twice."""
    save_graph(diamonds(), tmp_path / "graph.json")
    path = tmp_path / "runs.jsonl"
    methods = "kahn,random-1,random-100,brkga-100,bottleneck,guess-the-bottleneck,exact"
    command = [sys.executable, "-m", "mtpp", "table", str(tmp_path / "graph.json"), "--bandwidth", "2"]
    command += ["-k", "2,3,4,5", "--methods", methods, "--jobs", "1", "--out", str(path)]
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
    instances = [Instance(diamonds(), Platform(k, 2.0)) for k in (2, 3, 4, 5)]
    jobs = jobs_of(instances, [*methods.split(","), "simple"], SolveOptions(time_limit=60.0))
    assert sorted(keys) == sorted(job.key for job in jobs)
