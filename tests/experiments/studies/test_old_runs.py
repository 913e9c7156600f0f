"""Runs that earlier versions wrote: read always, but an answer only for those who accept that."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from study_jobs import diamonds

from experiments.studies.spp.jobs import BOUND, STAGES, TrainingJob
from instances import Instance, Platform
from instances.planning import Cluster, LayerChain, TrainingInstance
from mtpp.runs import job as log_module
from mtpp.runs.engine import run_jobs
from mtpp.runs.job import Job, Run, RunLog
from mtpp.runs.partition_job import jobs_of as partition_jobs
from mtpp.runs.workers import local_workers, this_process
from mtpp.versions import package_version
from mtpp_models import SolveOptions

#: Written by version 0.1.0, when each study had a loop of its own.
OLD = Path(__file__).with_name("old_runs.jsonl")


@pytest.fixture(autouse=True)
def _version(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for known in (package_version, log_module._machine):
        known.cache_clear()
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.1.0")
    yield
    for known in (package_version, log_module._machine):
        known.cache_clear()


def partitioning() -> list[Job]:
    free, bound = Instance(diamonds(), Platform(2, 2.0)), Instance(diamonds(), Platform(3, 2.0, 9.0))
    return [
        *partition_jobs([free, bound], ["kahn", "simple", "exact"], SolveOptions(time_limit=60.0)),
        *partition_jobs([free], ["certify"], SolveOptions(time_limit=None, gap=0.1, threads=2, seed=3)),
    ]


def training() -> list[Job]:
    chain = LayerChain([1.0, 1.0], [2.0, 2.0], [4.0], [4.0], [6.0, 6.0], name="tiny")
    instance = TrainingInstance(chain, Cluster.of_servers((1, 2), 2.0, 1.0), 2)
    return [TrainingJob(instance, method) for method in ("spp", BOUND, STAGES, "pipedream-hierarchical")]


def old_runs() -> dict[str, Run]:
    return {run["key"]: run for run in map(json.loads, OLD.read_text().splitlines())}


def test_every_old_run_is_of_a_job() -> None:
    """But for relaxations, which stated *simple* where that was more."""
    still = {key for key, run in old_runs().items() if not run["method"].endswith("-lp")}
    assert {job.old_key for job in (*partitioning(), *training())} == still


@pytest.mark.parametrize("jobs", [partitioning, training])
def test_old_runs_are_not_made_again_by_those_who_accept_them(jobs: Any, tmp_path: Path) -> None:
    """The answers that come back are the old ones, which claim no code, and nothing is added to the file."""
    path = tmp_path / "runs.jsonl"
    path.write_bytes(OLD.read_bytes())
    with RunLog(path, accept_old=True) as log, local_workers(1) as workers:
        runs = run_jobs(jobs(), log, workers)
    for job, run in zip(jobs(), runs, strict=True):
        old = old_runs()[job.old_key]
        assert run == run | old | {"key": job.key}
        assert {run[name] for name in ("sources",) if name in run} <= {None}
        assert run.keys() >= job.record().keys()
    assert path.read_bytes() == OLD.read_bytes()


def test_old_runs_answer_nothing_by_default(tmp_path: Path) -> None:
    """All is made again, and the old lines stay."""
    path = tmp_path / "runs.jsonl"
    path.write_bytes(OLD.read_bytes())
    with RunLog(path) as log, this_process() as workers:
        runs = run_jobs(training(), log, workers)
        assert old_runs().items() <= log.runs.items()
    assert all(run["sources"] for run in runs)
    assert path.read_bytes().startswith(OLD.read_bytes())
    assert path.read_bytes().count(b"mtpp-run/2") == len(runs)


def test_runs_of_a_retired_method_are_passed_by(tmp_path: Path) -> None:
    """They stay in the file and count for nothing, nor does the method have to exist."""
    retired = next(run for run in old_runs().values() if run["method"] == "kahn")
    retired |= {"key": "retired", "method": "learned-orders-101", "bottleneck": 0.0}
    path = tmp_path / "runs.jsonl"
    path.write_bytes(OLD.read_bytes() + json.dumps(retired).encode() + b"\n")
    before = path.read_bytes()
    with RunLog(path, accept_old=True) as log, local_workers(1) as workers:
        run_jobs(partitioning(), log, workers)
        assert log.runs["retired"] == retired
    assert path.read_bytes() == before


#: Fields of answers.
ANSWERS = ("bottleneck", "bound", "optimal", "block", "order", "time", "utilisation", "stages", "workloads", "times")


@pytest.mark.parametrize("jobs", [partitioning, training])
def test_old_and_new_runs_are_alike(jobs: Any) -> None:
    """All old fields are there, and the same answers."""
    old, new = old_runs(), {}
    for job in jobs():
        new[job.key] = job.run([new[key] for key in job.waits_for])
        before = old[job.old_key]
        assert new[job.key].keys() >= before.keys() - {"schema"}
        assert {name: new[job.key].get(name) for name in ANSWERS} == {name: before.get(name) for name in ANSWERS}
