"""All runs behind the numbers of papers: what they are, what they cost, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.studies.papers.partition import PartitionMeasures, PartitionRuns, seconds_of
from experiments.studies.papers.plan import Row
from experiments.studies.papers.training import (
    BUDGETS,
    PlacementMeasures,
    TrainingMeasures,
    training_jobs,
    training_questions,
)
from experiments.studies.papers.verdicts import Claim, Measured, PaperNumber, comparison, judge_item, numbers
from experiments.studies.placeto.jobs import jobs_of
from experiments.studies.report import Finding, Report, Section
from heuristics.placement.placeto import require_torch
from instances import InputError
from mtpp.runs.job import Job
from mtpp.runs.log import Run
from mtpp.runs.workers import Workers

_ENDS = {"here": "value", "low": "low", "high": "high"}

#: Seconds of a run of pipelined training, and hours of all runs of placement by their budget.
_TRAINING, _PLACEMENT = 1.0, {"": 0.0, "least": 0.02, "quick": 0.3, "full": 2.0}


@dataclass(frozen=True)
class PaperMeasures:
    """Runs of a study, and the measures made of them."""

    partition: PartitionMeasures
    training: TrainingMeasures
    placement: PlacementMeasures
    runs: dict[str, list[Run]]  # by study
    failed: list[bool]  # whether each run failed

    def claims(self, papers: Sequence[str]) -> pd.DataFrame:
        """A row for each number of these papers: the number, what was measured, the verdict and its reason."""
        rows = {number: self._claim(number) for number in numbers() if number.paper in papers}
        items: dict[tuple[str, str], list[Claim]] = {}
        for number, claim in rows.items():
            items.setdefault((number.paper, number.item), []).append(claim)
        verdicts = {
            claim[0]: verdict
            for claims in items.values()
            for claim, verdict in zip(claims, judge_item(claims), strict=True)
        }
        return pd.DataFrame([_row(claim, *verdicts[number]) for number, claim in rows.items()])

    def _claim(self, number: PaperNumber) -> Claim:
        allowed = self.partition.comparison_of(number) if number.paper == "mtpp" else comparison(number)
        return number, allowed, self._measured(number)

    def _measured(self, number: PaperNumber) -> Measured | None:
        if number.paper == "mtpp":
            return self.partition.measured(number)
        return self.training.measured(number) if number.paper == "spp" else self.placement.measured(number)


def _row(claim: Claim, verdict: Finding, why: str) -> dict[str, Any]:
    """A row of the frame of numbers."""
    number, _, measured = claim
    part = None if measured is None else measured.part
    counts = (None, None) if measured is None or part is None else (measured.clusters, measured.graphs)
    ends = {name: None if part is None else _none_if_nan(getattr(part, end)) for name, end in _ENDS.items()}
    return {
        **number._asdict(),
        **ends,
        "clusters": counts[0],
        "graphs": counts[1],
        "verdict": str(verdict),
        "why": why,
    }


@dataclass
class PaperStudy:
    """Jobs for the rows of a plan.

    Raises
    ------
    InputError
        If a graph, a method or a folder is refused.
    """

    rows: Sequence[Row]
    regal: str | None = None  # folder of REGAL's test graphs
    profile: str | None = None  # its name, which runs of partitioning keep
    left_out: list[str] = field(default_factory=list)  # what is not run, and why

    def __post_init__(self) -> None:
        rows = [row for row in self.rows if row.study == "partition"]
        self.partition = PartitionRuns(rows, self.regal, self.profile)
        self.left_out += self.partition.left_out
        self._asked = training_questions([row for row in self.rows if row.study == "training"])
        self._budget = next((row.budget for row in self.rows if row.study == "placeto"), "")
        self.jobs: dict[str, Sequence[Job]] = {"partition": self.partition.jobs, "training": training_jobs(self._asked)}
        self._no_torch = _no_torch() if self._budget else ""
        if self._no_torch:
            self.left_out.append(self._no_torch)
        ready = self._budget and not self._no_torch
        self.jobs["placeto"] = jobs_of(BUDGETS[self._budget]) if ready else []

    def costs(self) -> Section:
        """Runs and processor hours at most, by study; those of searches are estimated."""
        hours = {
            "partition": sum(seconds_of(job) for job in self.partition.jobs) / 3600,
            "training": _TRAINING * len(self.jobs["training"]) / 3600,
            "placeto": _PLACEMENT[self._budget] if self.jobs["placeto"] else 0.0,
        }
        rows = [[name, str(len(jobs)), f"{hours[name]:.2f}"] for name, jobs in self.jobs.items()]
        total = ["all", str(sum(map(len, self.jobs.values()))), f"{sum(hours.values()):.2f}"]
        return Section("costs", "What this takes", ["study", "runs", "core-hours at most"], [*rows, total])

    def run(self, folder: Path, workers: Workers, *, quiet: bool) -> PaperMeasures:
        """Make the runs that the files in a folder lack.

        Raises
        ------
        OSError, InputError
            If a file cannot be written.
        KeyboardInterrupt
            After Ctrl-C; the runs that are done are in the files.
        """
        runs, failed = {}, []
        for name, jobs in self.jobs.items():
            runs[name] = Report(folder / f"{name}.jsonl", quiet=quiet).make_runs(jobs, workers) if jobs else []
            failed += [
                job.failed(run) for job, run in zip({job.key: job for job in jobs}.values(), runs[name], strict=True)
            ]
        placement = PlacementMeasures(runs["placeto"], BUDGETS[self._budget or "quick"], self._no_torch)
        partition = PartitionMeasures(self.partition, runs["partition"], self.regal is not None)
        return PaperMeasures(partition, TrainingMeasures(self._asked, runs["training"]), placement, runs, failed)


def _no_torch() -> str:
    try:
        require_torch()
    except InputError as error:
        return f"not run: {error}"
    return ""


def _none_if_nan(value: float) -> float | None:
    return None if value != value else float(value)  # NaN
