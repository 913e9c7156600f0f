"""Jobs of ``mtpp table training``: the questions of the paper, and each planner's answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from experiments.studies.papers.numbers import table_iii
from heuristics.planning import PLANNERS
from heuristics.planning.execution import iteration_time, pe
from heuristics.planning.spp import fastest, plans_by_stages, recursive_device_order, spp, spp_plans
from instances import InputError
from instances.planning import Iteration, TrainingInstance
from instances.planning.chains import SWEEPS, TESTBEDS, TRAINED_MODELS, simulation
from mtpp.runs.job import Run, StudyJob
from mtpp.runs.statistics import geometric_mean
from mtpp_models.planning.bounds import iteration_bound, lemma_1, lemma_2, theorem_1

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
    """Job that answers one training question by one method."""

    instance: TrainingInstance
    method: str  # name of a planner, or one of the constants above

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
        """Members of the run: time, utilisation and stages of a planner, or the bound, and so on."""
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
    """The value of a parameter as a label on its figure's axis."""
    if parameter == "servers":
        return ",".join(f"{value.count(size)}x{size}" for size in dict.fromkeys(value))
    if parameter == "between":
        return "–".join(f"{rate:g}" for rate in value)
    return f"{value:g}"


# Measures of the study besides the planners' own answers: guarantees, both sides of cuts, cycles, Table III.


#: A spread below this is "stable" or "similar".
STABLE = 1.15

#: Speed of links over the stated one, and time of an AllReduce over that of equation (1).
SETTINGS = tuple(product((1.0, 0.5, 0.25, 0.125, 0.0625), (1.0, 2.0, 4.0)))


def both_sides(instance: TrainingInstance) -> float:
    """Time of SPP with the better device order: the smaller or the larger side of each cut first [s]."""
    larger = recursive_device_order(instance.cluster, smaller_first=False)
    plan = fastest(instance, [*spp_plans(instance), *plans_by_stages(instance, larger, pe)])
    return iteration_time(plan, pe(plan.n_stages, instance.microbatches))


def guarantees(instance: TrainingInstance) -> dict[str, list[float]]:
    """Both sides of the inequalities of Lemma 1, Lemma 2 and Theorem 1 [s]."""
    iteration = spp(instance)
    (schedule,) = iteration.schedules
    least = min(plan.workload for plan in spp_plans(instance) if plan is not None)
    bound = iteration_bound(instance, allow_idle=False, ceiling=iteration.time)
    inequalities = (lemma_1(schedule), lemma_2(instance, least), theorem_1(instance, iteration.time, bound.value))
    return {inequality.name: [inequality.left, inequality.right] for inequality in inequalities}


def calibrated(instance: TrainingInstance) -> dict[str, Any]:
    """Times of the planners of Table III in all `SETTINGS`, and bytes on a device in the first setting."""
    times: dict[str, list[float | None]] = {}
    needs = {}
    for planner in ("spp", *BASELINES):
        iterations = [_answer(planner, _at(instance, *setting)) for setting in SETTINGS]
        times[planner] = [None if iteration is None else iteration.time for iteration in iterations]
        needs[planner] = None if iterations[0] is None else max(_memory(iterations[0]))
    return {"settings": times, "needs": needs}


def cycles(stages: int, microbatches: int) -> int:
    """Number of cycles of PE's queues (Algorithm 1): in each, every block passes a microbatch on."""
    waiting, count = [microbatches] + [0] * (4 * stages - 4), 0
    while any(waiting):
        served = [queue > 0 for queue in waiting]
        waiting = [
            queue - now + before for queue, now, before in zip(waiting, served, [False, *served[:-1]], strict=True)
        ]
        count += 1
    return count


def flat_from(workloads: Sequence[float]) -> int:
    """Number of stages from which on W is stable; `workloads` begins with the plan of one stage.

    Examples
    --------
    >>> flat_from([4.0, 2.0, 1.1, 1.0, 1.05])
    3
    """
    tails = (workloads[first:] for first in range(len(workloads)))
    return next(i for i, tail in enumerate(tails, start=1) if max(tail) < STABLE * min(tail))


def _at(instance: TrainingInstance, speed: float, synchronisation: float) -> TrainingInstance:
    """The question with bandwidth times `speed` and AllReduces `synchronisation` times as long."""
    chain, cluster = instance.chain, instance.cluster
    return replace(
        instance,
        chain=replace(chain, param_bytes=chain.param_bytes * synchronisation),
        cluster=replace(cluster, bandwidth=cluster.bandwidth * speed),
        parameter_copies=instance.parameter_copies / synchronisation,
    )


def _answer(planner: str, instance: TrainingInstance) -> Iteration | None:
    try:
        return PLANNERS[planner].run(instance, np.random.default_rng(0))
    except InputError:
        return None


def _memory(iteration: Iteration) -> Iterator[float]:
    """Bytes on the fullest device of each pipeline of an iteration."""
    for schedule in iteration.schedules:
        plan, alone = schedule.plan, schedule.plan.n_stages == 1
        yield float((plan.memory_needed([plan.instance.microbatches]) if alone else schedule.memory_needed).max())


# Table III of the paper: seconds of an iteration, measured on two testbeds (Luo et al., INFOCOM 2022, Section V-A).


#: Planners besides SPP in the paper's words, and here; its PipeDream and HetPipe are synchronous.
BASELINES = MappingProxyType({"data-parallel": "DP", "gpipe": "GPipe", "pipedream": "PipeDream", "hetpipe": "HetPipe"})

#: Models of the paper, and as they are called here.
_MODELS = {
    "VGG19": "vgg19",
    "ResNet152": "resnet152",
    "Inception-V3": "inception-v3",
    "Transformer": "transformer-base",
    "BERT-large": "bert-large",
    "XLNet-large": "xlnet-large",
    "BERT-48": "bert-48",
}


def place_of(row: str, column: str) -> tuple[str, str, str]:
    """Names of testbed, model and planner of a cell of the table.

    Examples
    --------
    >>> place_of("VGG19, 1080Ti-8", "DP")
    ('1080ti-8', 'vgg19', 'data-parallel')
    """
    model, testbed = row.split(", ")
    planners = {name: planner for planner, name in BASELINES.items()} | {"SPP": "spp"}
    return testbed.lower(), _MODELS[model], planners[column]


def _table() -> dict[str, dict[str, dict[str, float | None]]]:
    table: dict[str, dict[str, dict[str, float | None]]] = {}
    for cell in table_iii():
        testbed, model, planner = place_of(cell.row, cell.column)
        table.setdefault(testbed, {}).setdefault(model, {})[planner] = cell.number
    return table


#: By testbed, model and planner; None where the paper ran out of memory. The second testbed is one server, where
#: HetPipe is PipeDream.
TABLE = _table()


def speed_up(testbed: str, model: str, planner: str) -> float | None:
    """Time of a planner over that of SPP, less 1, in the paper; None where it ran out of memory.

    Examples
    --------
    >>> round(speed_up("v100-4", "inception-v3", "pipedream"), 3)
    1.574
    """
    row = TABLE[testbed][model]
    seconds, least = row[planner], row["spp"]
    assert least is not None
    return None if seconds is None else seconds / least - 1


# Runs of pipelined training as a frame, point by point of the figures.


#: Of each figure with planners side by side, its title and its axis.
TITLES = {
    "6": ("Figure 6: time of an iteration by number of microbatches", "microbatches"),
    "7": ("Figure 7: by bandwidth between servers", "bandwidth between servers [Gbps]"),
    "8": ("Figure 8: by topology", "servers x devices"),
    "9": ("Figure 9: by number of transformer layers", "transformer layers"),
    "10": ("Figure 10: by size of activations", "factor of the activations"),
    f"{TABLE_III} 1080ti-8": ("Table III, 1080Ti x 8, analytic layer times", "model"),
    f"{TABLE_III} v100-4": ("Table III, V100 x 4, analytic layer times", "model"),
}


def training_frame(questions: Sequence[Question], runs: Iterable[Run]) -> pd.DataFrame:
    """Frame with one row for each question and method, with `figure` and `label`; in the order of `questions`."""
    rows = [(q.figure, q.label, q.instance.key) for q in questions]
    where = pd.DataFrame(rows, columns=["figure", "label", "question"])
    answers = pd.DataFrame(list(runs)).astype({"time": float, "bound": float, "utilisation": float})
    return where.merge(answers, on="question", sort=False)


def points(frame: pd.DataFrame, figure: str, method: str) -> pd.DataFrame:
    """Rows of a frame with a method in a figure."""
    return frame[(frame["figure"] == figure) & (frame["method"] == method)]


def mean_ratios(frame: pd.DataFrame, figure: str) -> pd.DataFrame:
    """Mean ratios over clusters by label: planners over SPP, and two of them over the bound."""
    rows = frame[frame["figure"] == figure]
    times = rows.pivot_table(index=["label", "question"], columns="method", values="time", sort=False)
    times = times.reindex(columns=list(PLANNERS))
    bounds = points(frame, figure, BOUND).set_index(["label", "question"])["bound"]
    ratios = times.div(times["spp"], axis=0)
    for method in ("spp", "improved"):
        ratios[f"{method} over bound"] = times[method] / bounds
    return ratios.groupby("label", sort=False).agg(geometric_mean)


def mean_times(frame: pd.DataFrame, figure: str, method: str) -> pd.Series:
    """Mean times of a method over the clusters by label [s]."""
    return points(frame, figure, method).groupby("label", sort=False)["time"].mean()


def by_stages(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of stages, with the means over clusters of the workload W and of SPP's time [s]; empty without runs."""
    rows = frame[(frame["method"] == STAGES) & frame["error"].isna()]
    if rows.empty:
        return np.empty(0, dtype=int), np.empty(0), np.empty(0)
    workloads, times = (np.mean(rows[column].to_list(), axis=0) for column in ("workloads", "times"))
    return np.arange(1, len(times) + 1), workloads, times


def percent(ratio: float) -> str:
    """Format the amount by which a ratio is above 1."""
    return "–" if np.isnan(ratio) else f"{100 * (ratio - 1):+.1f} %"
