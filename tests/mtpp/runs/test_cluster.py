"""A cluster of which one worker dies: nothing lost, nothing twice."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_jobs import (
    HOLD,
    LOST,
    LocalProcesses,
    check,
    end,
    exit_code,
    load_once,
    program,
    survive,
    wait_for,
    written,
)
from study_jobs import diamonds
from user_heuristics import SOUND

import mtpp
from experiments.studies.spp.jobs import BOUND, STAGES, TrainingJob
from instances import ComputationGraph, InputError, Instance, Platform
from instances.planning import Cluster, LayerChain, TrainingInstance
from mtpp.runs.engine import run_jobs
from mtpp.runs.job import RunLog, read_runs
from mtpp.runs.partition_job import jobs_of
from mtpp.runs.workers import cluster_workers

distributed = pytest.importorskip("distributed", reason="needs the extra 'cluster'")
dask = pytest.importorskip("dask", reason="needs the extra 'cluster'")


@pytest.fixture(scope="module", autouse=True)
def copies() -> Iterator[None]:
    """Those of a local cluster are, too."""
    load_once()
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        yield


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """Address of a cluster with one worker."""
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster:
        yield cluster.scheduler_address


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    """One of two workers is killed in mid-run; all runs are made once, and their answers are those of one process."""
    n = 12
    edges = [(v, v + 1) for v in range(n - 1)] + [(v, v + 3) for v in range(n - 3)]
    graph = ComputationGraph.from_edges(edges, [1 + 5 * v % 7 for v in range(n)], [1.0] * n)
    instances = [Instance(graph, Platform(k, bandwidth=2.0)) for k in (2, 3)]
    jobs = jobs_of(instances, ["kahn", "random-100", "brkga-100", "simple", "bottleneck", "exact"])
    path = tmp_path / "runs.jsonl"
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, cluster_workers(cluster.scheduler_address) as workers:
        first = cluster.workers[0]
        made: list[dict[str, Any]] = []

        def kill_one(run: dict[str, Any]) -> None:
            made.append(run)
            if len(made) == 4:
                os.kill(first.pid, 9)

        with RunLog(path) as log:
            runs = run_jobs(jobs, log, workers, kill_one)
    assert [run["key"] for run in runs] == [job.key for job in jobs]
    assert [run["error"] for run in runs] == [None] * len(jobs)
    assert len(path.read_text().splitlines()) == len(made) == len(jobs)
    assert {run["key"] for run in read_runs(path)} == {job.key for job in jobs}
    for k in (2, 3):
        values = {run["method"]: run for run in runs if run["k"] == k}
        assert values["exact"]["bound"] == pytest.approx(values["exact"]["bottleneck"], rel=1e-5)


def test_runs_of_training_are_those_of_one_process(scheduler: str, tmp_path: Path) -> None:
    """The workers of a cluster answer what this process answers, with the same key."""
    chain = LayerChain([1.0, 1.0], [2.0, 2.0], [4.0], [4.0], [6.0, 6.0])
    instance = TrainingInstance(chain, Cluster.of_servers((1, 2), 2.0, 1.0), 2)
    jobs = [TrainingJob(instance, method) for method in ("spp", "pipedream-hierarchical", BOUND, STAGES)]
    with cluster_workers(scheduler) as workers, RunLog(tmp_path / "runs.jsonl") as log:
        runs = run_jobs(jobs, log, workers)
    made = [job.run() for job in jobs]
    fields = [name for name in jobs[0].record() if name != "seconds"]
    assert [[run[name] for name in fields] for run in runs] == [[run[name] for name in fields] for run in made]


@pytest.mark.slow
def test_user_methods_answer_there_as_here(scheduler: str, tmp_path: Path) -> None:
    """The file goes with the job; its process runs beside a worker that may have none of its own."""
    (tmp_path / "mine.py").write_text(f"{SOUND}\nfrom mtpp_models import MODELS\n\nBOUND = MODELS['pinned']\n")
    methods = ["random-1", *(f"{tmp_path}/mine.py:{name}" for name in ("mine", "BOUND"))]
    words: dict[str, Any] = {"methods": methods, "k": [2, 3], "bandwidth": 2.0}
    there = mtpp.compare(diamonds(), **words, scheduler=scheduler)
    assert there["error"].isna().all()
    times = ["seconds", "cpu_seconds", "primal_integral", "gap_integral"]
    assert there.drop(columns=times).equals(mtpp.compare(diamonds(), **words).drop(columns=times))


def test_no_scheduler_is_an_input_error() -> None:
    """An address where nobody answers is refused in one line."""
    with pytest.raises(InputError, match="no scheduler answers"), cluster_workers("nonsense://nowhere:1"):
        pass


def test_lost_connections_are_not_logged() -> None:
    """Of the loggers that tell of them none prints meanwhile, and all do again afterwards."""
    names = ("distributed.client", "distributed.core", "tornado.application")
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster:
        with cluster_workers(cluster.scheduler_address):
            assert not any(logging.getLogger(name).isEnabledFor(logging.ERROR) for name in names)
        assert all(logging.getLogger(name).isEnabledFor(logging.ERROR) for name in names)


def test_workers_with_several_threads_are_refused() -> None:
    """Two solvers in one process would get in each other's way."""
    options = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**options) as cluster,
        pytest.raises(InputError, match="--nthreads 1"),
        cluster_workers(cluster.scheduler_address),
    ):
        pass


@pytest.mark.slow
def test_scheduler_worker_and_client_die(tmp_path: Path) -> None:
    """Each is killed once, in mid-run: no run is lost, none fails, only those under way are made again."""
    moments = [(4, "worker"), (12, "scheduler"), (20, "client")]
    outcome = survive(tmp_path, 30, 0.2, moments)
    check(outcome, 30, len(moments))
    assert outcome.calls == 2


@pytest.mark.slow
def test_a_scheduler_that_stays_away_ends_the_call(tmp_path: Path) -> None:
    """With what to do; the runs that are done are there, and the same call goes on."""
    (tmp_path / HOLD).touch()
    with LocalProcesses(1) as cluster:
        client = program(cluster, tmp_path, 30, 0.05)
        wait_for(lambda: written(tmp_path) >= 10, client)
        end(cluster.scheduler)
        assert exit_code(client) == LOST
        said = (tmp_path / "stderr").read_text().splitlines()
        assert "lost; start the scheduler again and repeat the call" in said[-1]
        assert all("no worker is there yet" in line for line in said[:-1]), said
        runs = read_runs(tmp_path / "runs.jsonl")
        assert 10 <= len(runs) < 30
        assert {run["error"] for run in runs} == {None}
        (tmp_path / HOLD).unlink()
        cluster.kill_scheduler()
        client = program(cluster, tmp_path, 30, 0.05)
        assert exit_code(client) == 0
    assert sorted(int(run["key"]) for run in read_runs(tmp_path / "runs.jsonl")) == list(range(30))
