"""Jobs of ``mtpp table training``: the questions of the paper, and each planner's answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.studies.spp.measures import both_sides, calibrated, guarantees
from heuristics.planning import PLANNERS
from heuristics.planning.execution import iteration_time, pe
from heuristics.planning.spp import spp, spp_plans
from instances import InputError
from instances.planning import TrainingInstance
from instances.planning.chains import SWEEPS, TESTBEDS, TRAINED_MODELS, simulation
from mtpp.runs.job import StudyJob
from mtpp.runs.log import Run
from mtpp_models.planning.bounds import iteration_bound

#: Methods besides the planners: the bound for one stage a device, and SPP's plans of each number of stages (Fig. 11).
BOUND, STAGES = "bound", "stages"
#: SPP with the better of both sides of each cut first, of which the paper names none; its lemmas and its theorem; and
#: what the planners of Table III take and keep on links of other speeds.
BOTH_SIDES, GUARANTEES, CALIBRATION = "spp-both-sides", "guarantees", "calibration"

#: The figure of Table III has as many parts as there are testbeds.
TABLE_III = "III"

#: Figures where the side of a cut that comes first decides.
_BOTH = ("8", "9")
_SEEDS = 3
_KIND = "training"


@dataclass(frozen=True, eq=False)
class Question:
    """A point of a figure, or a row of Table III."""

    figure: str  # ``6`` … ``11``, or ``III`` and the testbed
    label: str  # where it stands in the figure
    instance: TrainingInstance


@dataclass(frozen=True, eq=False)
class TrainingJob(StudyJob):
    """One method on one instance."""

    instance: TrainingInstance
    method: str  # a planner, or one of the words above

    @property
    def question(self) -> list[Any]:
        """The instance and the method."""
        return [_KIND, self.instance.key, self.method]

    def record(self, seconds: float | None = None, error: str | None = None, **answer: Any) -> Run:
        """One line for the file of runs; k is the number of devices."""
        instance = self.instance
        about = {
            "kind": _KIND,
            "question": instance.key,
            "instance": f"{instance.chain.name} on {instance.cluster.name}, M = {instance.microbatches}",
            "k": instance.cluster.n,
            "method": self.method,
        }
        blank = dict.fromkeys(("time", "bound", "utilisation", "stages", "workloads", "times"))
        return self.line(about, seconds, error, blank | answer)

    def answer(self, start: Sequence[Run]) -> Run:
        """Time, utilisation and stages of a planner; the bound; W and time by number of stages; and so on."""
        if self.method == BOUND:
            return {"bound": iteration_bound(self.instance, ceiling=spp(self.instance).time).value}
        if self.method == BOTH_SIDES:
            return {"time": both_sides(self.instance)}
        if self.method == GUARANTEES:
            return {"guarantees": guarantees(self.instance)}
        if self.method == CALIBRATION:
            return calibrated(self.instance)
        if self.method == STAGES:
            plans = [plan for plan in spp_plans(self.instance) if plan is not None]
            times = [iteration_time(plan, pe(plan.n_stages, self.instance.microbatches)) for plan in plans]
            return {"workloads": [plan.workload for plan in plans], "times": times}
        iteration = PLANNERS[self.method].run(self.instance, np.random.default_rng(0))
        stages = None if iteration.plan is None else iteration.plan.n_stages
        return {"time": iteration.time, "utilisation": iteration.utilisation, "stages": stages}

    @staticmethod
    def failed(run: Run) -> bool:
        """Whether a run broke off; a planner that refuses an instance has answered."""
        return run["error"] is not None and not run["error"].startswith(InputError.__name__)


def questions(*, quick: bool) -> list[Question]:
    """All points of the figures 6 to 11 for each cluster seed, and the rows of Table III.

    If `quick`, there is one seed instead of three; no point is left out.
    """
    seeds = 1 if quick else _SEEDS
    points = []
    for figure, (parameter, values) in SWEEPS.items():
        for value in values:
            for seed in range(seeds):
                options: dict[str, Any] = {parameter: value}
                points.append(Question(figure, _label(parameter, value), simulation(seed, **options)))
    points += [Question("11", "default", simulation(seed)) for seed in range(seeds)]
    points += [
        Question(f"{TABLE_III} {testbed}", name, model.instance(testbed))
        for testbed in TESTBEDS
        for name, model in TRAINED_MODELS.items()
    ]
    return points


def jobs_of(points: Sequence[Question]) -> list[TrainingJob]:
    """List the jobs: every planner and the bound on each instance, and extras of some figures and Table III."""
    jobs = []
    for question in points:
        methods = [*PLANNERS, BOUND, GUARANTEES]
        if question.figure == "11":
            methods = [STAGES]
        elif question.figure.startswith(TABLE_III):
            methods.append(CALIBRATION)
        elif question.figure in _BOTH:
            methods.append(BOTH_SIDES)
        jobs += [TrainingJob(question.instance, method) for method in methods]
    return list({job.key: job for job in jobs}.values())


def _label(parameter: str, value: Any) -> str:
    """The value of a parameter as the axis of its figure shows it."""
    if parameter == "servers":
        return ",".join(f"{value.count(size)}x{size}" for size in dict.fromkeys(value))
    if parameter == "between":
        return "–".join(f"{rate:g}" for rate in value)
    return f"{value:g}"
