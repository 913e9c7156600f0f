"""Runs that earlier versions wrote: the same question has the same key and fields, so it is not asked again."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest
from study_jobs import diamonds

from experiments.studies.placeto.budget import Budget
from experiments.studies.placeto.jobs import jobs_of as placement_jobs
from experiments.studies.spp.jobs import BOUND, STAGES, TrainingJob
from instances import Instance, Platform
from instances.planning import Cluster, LayerChain, TrainingInstance
from mtpp.runs.engine import run_jobs
from mtpp.runs.job import Job
from mtpp.runs.log import Run, RunLog
from mtpp.runs.partition_job import jobs_of as partition_jobs
from mtpp.runs.workers import local_workers
from mtpp_models import SolveOptions

#: Written by version 0.1.0, when each study had a loop of its own.
OLD = Path(__file__).with_name("old_runs.jsonl")


@pytest.fixture(autouse=True)
def _version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.1.0")


def partitioning() -> list[Job]:
    free, bound = Instance(diamonds(), Platform(2, 2.0)), Instance(diamonds(), Platform(3, 2.0, 9.0))
    return [
        *partition_jobs([free, bound], ["kahn", "simple", "exact"], SolveOptions(time_limit=60.0)),
        *partition_jobs([free], ["certify", "exact-lp"], SolveOptions(time_limit=None, gap=0.1, threads=2, seed=3)),
    ]


def training() -> list[Job]:
    chain = LayerChain([1.0, 1.0], [2.0, 2.0], [4.0], [4.0], [6.0, 6.0], name="tiny")
    instance = TrainingInstance(chain, Cluster.of_servers((1, 2), 2.0, 1.0), 2)
    return [TrainingJob(instance, method) for method in ("spp", BOUND, STAGES, "pipedream-hierarchical")]


def placement() -> list[Job]:
    budget = Budget(updates=1, alone=1, ablation=1, annealing=100, graphs=1, seeds=1)
    return [
        job for job in placement_jobs(["ptb"], budget) if job.what == "planner" or job.options.get("name") == "fast"
    ]


def old_runs() -> dict[str, Run]:
    return {run["key"]: run for run in map(json.loads, OLD.read_text().splitlines())}


def test_every_old_run_is_of_a_job() -> None:
    assert {job.key for job in (*partitioning(), *training(), *placement())} == set(old_runs())


@pytest.mark.parametrize("jobs", [partitioning, training, placement])
def test_old_runs_are_not_made_again(jobs: Any, tmp_path: Path) -> None:
    """The answers that come back are the old ones, and nothing is added to the file."""
    path = tmp_path / "runs.jsonl"
    path.write_bytes(OLD.read_bytes())
    with RunLog(path) as log, local_workers(1) as workers:
        runs = run_jobs(jobs(), log, workers)
    assert runs == [old_runs()[job.key] for job in jobs()]
    assert path.read_bytes() == OLD.read_bytes()


def test_runs_of_a_retired_method_are_passed_by(tmp_path: Path) -> None:
    """They stay in the file and count for nothing, nor does the method have to exist."""
    retired = next(run for run in old_runs().values() if run["method"] == "kahn")
    retired |= {"key": "retired", "method": "learned-orders-101", "bottleneck": 0.0}
    path = tmp_path / "runs.jsonl"
    path.write_bytes(OLD.read_bytes() + json.dumps(retired).encode() + b"\n")
    before = path.read_bytes()
    with RunLog(path) as log, local_workers(1) as workers:
        runs = run_jobs(partitioning(), log, workers)
    assert runs == [old_runs()[job.key] for job in partitioning()]
    assert path.read_bytes() == before


_MAY_DIFFER = ("schema", "seconds", "solver_version")


@pytest.mark.parametrize("jobs", [partitioning, training])
def test_old_and_new_runs_are_alike(jobs: Any) -> None:
    """The same fields in the same order, and the same answers but for the time and the version of the solver."""
    old, new = old_runs(), {}
    for job in jobs():
        new[job.key] = job.run([new[key] for key in job.waits_for])
        before = old[job.key]
        assert ["schema", *new[job.key]] == list(before)
        assert new[job.key] | {name: before[name] for name in _MAY_DIFFER if name in before} == before
