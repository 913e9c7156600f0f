"""The runs behind ``mtpp table training``: the questions of the paper, and each planner's answer."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from experiments.progress import RunBar
from experiments.runs.log import Run, RunLog
from experiments.runs.workers import local_workers
from experiments.versions import package_version
from heuristics.planning import PLANNERS
from heuristics.planning.execution import iteration_time, pe
from heuristics.planning.spp import spp, spp_plans
from instances import InputError
from instances.planning import TrainingInstance
from instances.planning.paper_settings import SWEEPS, TESTBEDS, TRAINED_MODELS, simulation
from mtpp_models.planning.guarantees import iteration_bound

__all__ = [
    "BOUND",
    "STAGES",
    "TABLE_III",
    "Question",
    "TrainingJob",
    "execute",
    "failed",
    "make_runs",
    "plan_jobs",
    "questions",
]

#: Methods besides the planners: the bound for one stage a device, and SPP's plans of each number of stages (Fig. 11).
BOUND, STAGES = "bound", "stages"

#: The figure of Table III has as many parts as there are testbeds.
TABLE_III = "III"

_SEEDS = 3
_KIND = "training"


@dataclass(frozen=True, eq=False)
class Question:
    """A point of a figure, or a row of Table III.

    Parameters
    ----------
    figure : str
        ``6`` … ``11``, or ``III`` and the testbed.
    label : str
        Where it stands in the figure.
    instance : TrainingInstance
    """

    figure: str
    label: str
    instance: TrainingInstance


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """One method on one instance.

    Parameters
    ----------
    instance : TrainingInstance
    method : str
        A planner, `BOUND` or `STAGES`.
    """

    instance: TrainingInstance
    method: str

    @cached_property
    def key(self) -> str:
        """Hash of everything that the answer depends on."""
        fields = [_KIND, self.instance.key, self.method, package_version()]
        return hashlib.sha256(json.dumps(fields).encode()).hexdigest()

    def record(self, seconds: float | None, error: str | None = None, **answer: object) -> Run:
        """One line for the file of runs; k is the number of devices."""
        instance = self.instance
        return {
            "key": self.key,
            "kind": _KIND,
            "question": instance.key,
            "instance": f"{instance.chain.name} on {instance.cluster.name}, M = {instance.microbatches}",
            "k": instance.cluster.n,
            "method": self.method,
            "version": package_version(),
            "seconds": seconds,
            "error": error,
            **(dict.fromkeys(("time", "bound", "utilisation", "stages", "workloads", "times")) | answer),
        }


def questions(*, quick: bool) -> list[Question]:
    """All points of the figures 6 to 11 for each cluster seed, and the rows of Table III.

    Parameters
    ----------
    quick : bool
        One seed instead of three, and every second point.
    """
    seeds, step = (1, 2) if quick else (_SEEDS, 1)
    found = []
    for figure, (parameter, values) in SWEEPS.items():
        for value in values[::step]:
            for seed in range(seeds):
                options: dict[str, Any] = {parameter: value}
                found.append(Question(figure, _label(parameter, value), simulation(seed, **options)))
    found += [Question("11", "default", simulation(seed)) for seed in range(seeds)]
    found += [
        Question(f"{TABLE_III} {testbed}", name, model.instance(testbed))
        for testbed in TESTBEDS
        for name, model in TRAINED_MODELS.items()
    ]
    return found


def plan_jobs(asked: Sequence[Question]) -> list[TrainingJob]:
    """Every planner and the bound on each different instance; the plans by number of stages for Fig. 11 alone."""
    jobs = []
    for question in asked:
        methods = (STAGES,) if question.figure == "11" else (*PLANNERS, BOUND)
        jobs += [TrainingJob(question.instance, method) for method in methods]
    return list({job.key: job for job in jobs}.values())


def execute(job: TrainingJob) -> Run:
    """Make a run; a planner that cannot answer leaves a line with an error text."""
    began = time.perf_counter()
    try:
        answer = _ANSWERS.get(job.method, _plan)(job)
    except Exception as error:
        return job.record(time.perf_counter() - began, f"{type(error).__name__}: {error}")
    return job.record(time.perf_counter() - began, **answer)


def failed(run: Run) -> bool:
    """Whether a run broke off; a planner that refuses an instance has answered."""
    error = run.get("error", "")
    return error is not None and not error.startswith(InputError.__name__)


def make_runs(jobs: Sequence[TrainingJob], log: RunLog, processes: int) -> list[Run]:
    """Make the runs that `log` does not hold yet, and those that failed; return all of them in the order of `jobs`."""
    missing = [job for job in jobs if job.key not in log.runs or failed(log.runs[job.key])]
    if len(missing) < len(jobs):
        print(f"{len(jobs) - len(missing)} runs are done already.", file=sys.stderr)
    if missing:
        with local_workers(processes) as workers, RunBar(len(missing)) as bar:
            pool = workers.executor()
            try:
                futures = {pool.submit(execute, job): job for job in missing}
                for future in as_completed(futures):
                    try:
                        run = future.result()
                    except BrokenExecutor as error:
                        run = futures[future].record(None, f"{type(error).__name__}: a process died; try again")
                    log.append(run)
                    bar.advance(run if failed(run) else run | {"error": None})
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
    return [log.runs[job.key] for job in jobs]


def _plan(job: TrainingJob) -> Run:
    iteration = PLANNERS[job.method].run(job.instance, np.random.default_rng(0))
    stages = None if iteration.plan is None else iteration.plan.n_stages
    return {"time": iteration.time, "utilisation": iteration.utilisation, "stages": stages}


def _bound(job: TrainingJob) -> Run:
    return {"bound": iteration_bound(job.instance, ceiling=spp(job.instance).time).value}


def _stages(job: TrainingJob) -> Run:
    plans = [plan for plan in spp_plans(job.instance) if plan is not None]
    times = [iteration_time(plan, pe(plan.n_stages, job.instance.microbatches)) for plan in plans]
    return {"workloads": [plan.workload for plan in plans], "times": times}


_ANSWERS: dict[str, Callable[[TrainingJob], Run]] = {BOUND: _bound, STAGES: _stages}


def _label(parameter: str, value: Any) -> str:
    if parameter == "servers":
        return ",".join(f"{value.count(size)}x{size}" for size in dict.fromkeys(value))
    if parameter == "between":
        return "–".join(f"{rate:g}" for rate in value)
    return f"{value:g}"
