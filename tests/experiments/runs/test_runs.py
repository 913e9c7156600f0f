"""Runs on disk and their scheduling: nothing lost, nothing twice, whatever dies."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from experiments.runs.jobs import Job, execute, plan_jobs
from experiments.runs.log import SCHEMA, RunLog, read_runs
from experiments.runs.workers import Workers, local_workers, run_jobs
from instances import ComputationGraph, InputError, Instance, Platform
from instances.graph.graph_file import save_graph
from mtpp_models import SolveOptions

METHODS = ("kahn", "random-100", "simple", "bottleneck", "exact")
#: What must not depend on when and where a run was made.
ANSWER = ("key", "instance", "k", "method", "bottleneck", "bound", "optimal", "block", "error")


def diamonds(count: int = 4) -> ComputationGraph:
    """A chain of diamonds, the works all different."""
    edges = [e for i in range(0, 3 * count, 3) for e in ((i, i + 1), (i, i + 2), (i + 1, i + 3), (i + 2, i + 3))]
    n = 3 * count + 1
    return ComputationGraph.from_edges(edges, [1 + 7 * v % 5 for v in range(n)], [1.0] * n, name="diamonds")


def questions(ks: Sequence[int] = (2, 3)) -> list[Instance]:
    return [Instance(diamonds(), Platform(k, bandwidth=2.0)) for k in ks]


def answers(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(({name: run[name] for name in ANSWER} for run in runs), key=lambda run: str(run["key"]))


@pytest.fixture(scope="module")
def expected() -> list[dict[str, Any]]:
    """The runs of all methods on the questions, made one after the other in this process."""
    runs: list[dict[str, Any]] = []
    best: dict[str, dict[str, Any]] = {}
    for job in plan_jobs(questions(), METHODS):
        start = best.get(job.instance.key) if not job.is_search else None
        run = execute(job, None if start is None else (start["block"], None))
        if job.is_search and run["bottleneck"] < best.get(job.instance.key, {"bottleneck": math.inf})["bottleneck"]:
            best[job.instance.key] = run
        runs.append(run)
    return answers(runs)


def test_a_run_says_what_it_is() -> None:
    """A line carries the identity, the size of the instance and the answer."""
    run = execute(plan_jobs(questions([2]), ["kahn"])[0])
    assert run["error"] is None
    assert (run["n"], run["m"], run["k"], run["kind"]) == (13, 16, 2, "heuristic")
    assert len(run["block"]) == 13
    assert run["bound"] is None
    assert run["solver"] is None
    assert json.loads(json.dumps(run)) == run


@pytest.mark.parametrize(
    "change",
    [
        {"options": SolveOptions(seed=1)},
        {"method": "bottleneck"},
        {"options": SolveOptions(solver="scip")},
        {"options": SolveOptions(time_limit=3)},
        {"options": SolveOptions(gap=0.1)},
        {"options": SolveOptions(threads=2)},
        {"instance": Instance(diamonds(), Platform(3, 2.0))},
        {"instance": Instance(diamonds(), Platform(2, 3.0))},
        {"instance": Instance(diamonds(), Platform(2, 2.0, memory=9))},
        {"instance": Instance(diamonds(), Platform(2, 2.0, memory=9, activation_buffer=1))},
        {"instance": Instance(diamonds(5), Platform(2, 2.0))},
    ],
)
def test_the_key_tells_runs_apart(change: dict[str, Any]) -> None:
    """Whatever changes the answer changes the key."""
    base: dict[str, Any] = {"instance": questions([2])[0], "method": "exact", "options": SolveOptions()}
    assert Job(**base).key == Job(**base).key
    assert Job(**(base | change)).key != Job(**base).key


def test_a_failure_is_a_line() -> None:
    """An exception of a method becomes the error text of its run."""
    job = plan_jobs(questions([2]), ["exact"], SolveOptions(solver="no-such-solver"))[0]
    run = execute(job)
    assert run["error"].startswith("InputError: There is no solver called 'no-such-solver'")
    assert run["bound"] is None


def test_append_and_read(tmp_path: Path) -> None:
    """What is written is read; the last line of a key counts."""
    path = tmp_path / "new" / "runs.jsonl"
    with RunLog(path) as log:
        log.append({"key": "a", "x": 1})
        log.append({"key": "b", "x": None})
        log.append({"key": "a", "x": 2})
    lines = path.read_text().splitlines()
    assert [json.loads(line)["schema"] for line in lines] == [SCHEMA] * 3
    assert [(run["key"], run["x"]) for run in read_runs(path)] == [("a", 2), ("b", None)]


@pytest.mark.parametrize(
    "torn", ['{"schema": "mtpp-run/1", "key": "b", "blo', '{"sch', "{", '{"schema": "mtpp-run/1"}']
)
def test_a_torn_last_line_is_repaired(tmp_path: Path, torn: str) -> None:
    """What a killed writer left of its line is dropped, and the next line is whole."""
    path = tmp_path / "runs.jsonl"
    whole = f'{{"schema": "{SCHEMA}", "key": "a"}}\n'
    path.write_text(whole + torn)
    assert [run["key"] for run in read_runs(path)] == ["a"]
    with RunLog(path) as log:
        log.append({"key": "c"})
    assert path.read_text() == whole + f'{{"schema": "{SCHEMA}", "key": "c"}}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"schema": "other/1", "key": "a"}\n', "line 1 has schema 'other/1'"),
        ('{"format": "mtpp-graph/1"}', "line 1 is not"),
        ("[1]\n", "line 1 is not"),
        ("\n", "line 1 is not"),
        (b"\xff\xfe\n", "line 1 is not"),
    ],
)
def test_a_foreign_file_is_refused_and_left_alone(tmp_path: Path, content: str | bytes, message: str) -> None:
    """Nothing of a file that is not ours is removed."""
    path = tmp_path / "runs.jsonl"
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        RunLog(path)
    with pytest.raises(InputError, match=message):
        read_runs(path)
    assert path.read_bytes() == data


WHOLE = f'{{"schema": "{SCHEMA}", "key": "a", "error": null}}'
DAMAGED = {
    "cut short": '{"schema": ',
    "no key": f'{{"schema": "{SCHEMA}"}}',
    "a key of another type": f'{{"schema": "{SCHEMA}", "key": ["a"]}}',
    "NaN": f'{{"schema": "{SCHEMA}", "key": "a", "bound": NaN}}',
    "a bound of another type": f'{{"schema": "{SCHEMA}", "key": "a", "bound": "7"}}',
    "an error of another type": f'{{"schema": "{SCHEMA}", "key": "a", "error": 7}}',
    "blocks of another type": f'{{"schema": "{SCHEMA}", "key": "a", "block": [0, "1"]}}',
    "a missing k": f'{{"schema": "{SCHEMA}", "key": "a", "k": null}}',
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("end", ["\n", ""])
def test_a_damaged_line_is_named_and_costs_no_other(
    damaged: str, end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stays in the file, one line on stderr tells where, and what is appended stands by itself."""
    if not end and damaged.startswith('{"schema"'):
        end = "\n"  # without it, this is what a killed writer leaves
    path = tmp_path / "runs.jsonl"
    path.write_text(f"{WHOLE}\n{damaged}{end}")
    with RunLog(path) as log:
        assert list(log.runs) == ["a"]
        assert log.runs["a"]["error"] is None
        log.append({"key": "b"})
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"{path}, line 2 is not a run" in err
    assert path.read_text().startswith(f"{WHOLE}\n{damaged}\n")
    assert [run["key"] for run in read_runs(path)] == ["a", "b"]


def test_a_run_that_lacks_a_field_is_made_again(tmp_path: Path) -> None:
    """A line with the right key alone answers nothing."""
    (job,) = plan_jobs(questions([2]), ["kahn"])
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps({"schema": SCHEMA, "key": job.key, "error": None}) + "\n")
    with RunLog(path) as log:
        (run,) = run_jobs([job], log, Workers(lambda: ThreadPoolExecutor(1)))
    assert run["bottleneck"] > 0


def test_one_writer(tmp_path: Path) -> None:
    """A second writer is refused while the first one is at work."""
    path = tmp_path / "runs.jsonl"
    with RunLog(path), pytest.raises(InputError, match="another process"):
        RunLog(path)
    with RunLog(path):
        pass


def test_processes_give_the_same_answers_and_a_rerun_does_nothing(
    tmp_path: Path, expected: list[dict[str, Any]]
) -> None:
    """Two processes answer as one; the second call makes no run."""
    jobs = plan_jobs(questions(), METHODS)
    made: list[dict[str, Any]] = []
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


def test_a_dying_process_costs_its_own_run_only(tmp_path: Path, expected: list[dict[str, Any]]) -> None:
    """The guilty run is recorded with an error, all others are made, and a rerun tries only that one again."""
    jobs = plan_jobs(questions(), METHODS)
    platform = Platform(5, bandwidth=2.0)
    guilty = plan_jobs([Deadly(diamonds(), platform)], ["kahn"])
    path = tmp_path / "runs.jsonl"
    with RunLog(path) as log, local_workers(2) as workers:
        failed, *others = run_jobs([*guilty, *jobs], log, workers)
    assert "died" in failed["error"]
    assert answers(others) == expected
    assert len(path.read_text().splitlines()) == len(jobs) + 1
    healthy = plan_jobs([Instance(diamonds(), platform)], ["kahn"])
    made: list[dict[str, Any]] = []
    with RunLog(path) as log, local_workers(1) as workers:
        run_jobs([*healthy, *jobs], log, workers, made.append)
    assert [(run["key"], run["error"]) for run in made] == [(failed["key"], None)]


def test_bounds_start_from_the_best_heuristic(tmp_path: Path) -> None:
    """With a gap of nearly 1 the exact model keeps the start, so its partition is the best of the heuristics."""
    jobs = plan_jobs(questions([3]), ["exact", "kahn", "random-100"], SolveOptions(gap=0.9))
    with RunLog(tmp_path / "runs.jsonl") as log:
        exact, *heuristics = run_jobs(jobs, log, Workers(lambda: ThreadPoolExecutor(2)))
    assert exact["bottleneck"] <= min(run["bottleneck"] for run in heuristics)


def test_unknown_methods_and_no_processes_are_refused() -> None:
    """Wrong names and numbers are input errors."""
    with pytest.raises(InputError, match="Unknown method 'nonsense'"):
        plan_jobs(questions(), ["nonsense"])
    with pytest.raises(InputError, match="--jobs 0"), local_workers(0):
        pass


def test_resume_after_kill(tmp_path: Path) -> None:
    """After kill -9 in mid-run, the same call makes the rest: every key is there, no finished run is made twice."""
    save_graph(diamonds(), tmp_path / "graph.json")
    path = tmp_path / "runs.jsonl"
    methods = "kahn,random-1,random-100,brkga-100,bottleneck,guess-the-bottleneck,exact"
    command = [sys.executable, "-m", "experiments", "table", str(tmp_path / "graph.json"), "--bandwidth", "2"]
    command += ["-k", "2,3,4,5", "--methods", methods, "--jobs", "1", "--out", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < 5):
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = path.read_bytes()
    finished = before[: before.rfind(b"\n") + 1]
    path.write_bytes(before + b'{"schema": "mtpp-run/1", "key": "torn')  # as if killed while writing
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert "Table 3" in again.stdout
    after = path.read_bytes()
    assert after.startswith(finished)
    keys = [json.loads(line)["key"] for line in after.splitlines()]
    instances = [Instance(diamonds(), Platform(k, 2.0)) for k in (2, 3, 4, 5)]
    jobs = plan_jobs(instances, [*methods.split(","), "simple"], SolveOptions(time_limit=60.0))
    assert sorted(keys) == sorted(job.key for job in jobs)


def test_workers_leave_when_the_parent_is_killed(tmp_path: Path) -> None:
    """No process is left behind by kill -9."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, time\n"
        "from experiments.runs.workers import local_workers\n"
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
    for _ in range(1000):
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
