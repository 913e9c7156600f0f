"""Runs and measures for the numbers of SPP: Table III with analytic layer times, Figures 4, 9 and 11."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.studies.papers.plan import Row
from experiments.studies.papers.published import PaperNumber, value_of
from experiments.studies.papers.verdicts import Measured, Part, percent_above
from experiments.studies.spp.frames import points, training_frame
from experiments.studies.spp.jobs import CALIBRATION, STAGES, TABLE_III, Question, TrainingJob, questions
from experiments.studies.spp.measures import cycles, flat_from
from experiments.studies.spp.paper import place_of
from experiments.studies.spp.table_iii import cells
from instances.planning.chains import DEVICE_MEMORY, SWEEPS, simulation
from mtpp.runs.log import Run
from mtpp.runs.statistics.intervals import geometric_means, means

__all__ = ["TrainingMeasures", "training_jobs", "training_questions"]

_PIPEDREAM = "clusters drawn by seed; this PipeDream minimises W, the slowest stage"
_LARGEST = {
    "SPP against state of the art": ("data-parallel", "gpipe", "pipedream", "hetpipe"),
    "SPP against GPipe": ("gpipe",),
    "SPP against PipeDream": ("pipedream",),
    "SPP against HetPipe": ("hetpipe",),
}


def training_questions(rows: Sequence[Row]) -> list[Question]:
    """Points of the figures on as many clusters as the plan has seeds, and the models of Table III."""
    asked: list[Question] = []
    for row in rows:
        if "Table III" in row.items:
            asked += [question for question in questions(quick=True) if question.figure.startswith(TABLE_III)]
        if "Fig. 9" in row.items:
            parameter, values = SWEEPS["9"]
            for value in values:
                option: dict[str, Any] = {parameter: value}
                asked += [Question("9", f"{value:g}", simulation(seed, **option)) for seed in range(row.seeds)]
        if "Fig. 11" in row.items:
            asked += [Question("11", "default", simulation(seed)) for seed in range(row.seeds)]
    return asked


def training_jobs(asked: Sequence[Question]) -> list[TrainingJob]:
    """Jobs that the numbers need, of each question."""
    methods = {"9": ("spp", "pipedream"), "11": (STAGES,)}
    jobs = [
        TrainingJob(question.instance, name)
        for question in asked
        for name in methods.get(question.figure, (CALIBRATION,))
    ]
    return list({job.key: job for job in jobs}.values())


class TrainingMeasures:
    """Measures of the runs of pipelined training for the numbers of SPP.

    Parameters
    ----------
    asked : sequence of Question
    runs : sequence of Run
        All that the jobs of these questions made.

    Attributes
    ----------
    frame : DataFrame
        As `training_frame`; empty without runs.
    """

    def __init__(self, asked: Sequence[Question], runs: Sequence[Run]) -> None:
        self.frame = training_frame(asked, runs) if runs else pd.DataFrame()
        self._cells = cells(self.frame) if runs else pd.DataFrame()

    def measured(self, number: PaperNumber) -> Measured | None:
        """Measure for a number; None if nothing is measured for it."""
        if number.item == "Table III":
            return self._cell(number)
        if number.item == "Fig. 9":
            return self._figure_9()
        if number.item == "Fig. 11":
            return self._figure_11(number)
        if number.item == "Footnote 3":
            return _footnote(number)
        if (number.item, number.column) == ("Fig. 4", "cycles"):
            stages, microbatches = (value_of("spp", "Fig. 4", "cycle schedule", c) for c in ("stages", "microbatches"))
            return _exact(cycles(int(stages or 0), int(microbatches or 0)), "counted")
        if number.row in _LARGEST:
            return self._speed_ups(
                lambda table: table["planner"].isin(_LARGEST[number.row]), np.max, "largest speed-up"
            )
        if number.row == "SPP against DP and HetPipe":
            return self._speed_ups(
                lambda table: table["planner"].isin(("data-parallel", "hetpipe")) & (table["testbed"] == "1080ti-8"),
                np.median,
                "median speed-up",
            )
        return None

    def _cell(self, number: PaperNumber) -> Measured:
        """Ratio of SPP to a rival; where the paper ran out of memory, that of memory to what is needed."""
        if self._cells.empty:
            return Measured(None, note="not run")
        testbed, model, planner = place_of(number.row, number.column)
        block = self._cells[(self._cells["testbed"] == testbed) & (self._cells["model"] == model)].set_index("planner")
        here = float(block["here"][planner])
        absolute = Part(here, here, here)
        if number.number is None:
            ratio = DEVICE_MEMORY[testbed] / float(block["memory"][planner])
            return Measured(absolute, 1, 1, [Part(ratio, ratio, ratio, "memory of a device over what is needed")])
        others = block.drop("spp")["here"] if planner == "spp" else block.loc[[planner], "here"]
        best = str(others.astype(float).idxmin())
        ratio = float(block["here"]["spp"]) / float(others[best])
        return Measured(absolute, 1, 1, [Part(ratio, ratio, ratio, f"spp over {best}")], "analytic layer times")

    def _speed_ups(
        self, chosen: Callable[[pd.DataFrame], pd.Series[bool]], summary: Callable[[pd.Series[float]], float], note: str
    ) -> Measured:
        if self._cells.empty:
            return Measured(None, note="not run")
        table = self._cells[chosen(self._cells) & self._cells["paper"].notna()]
        percent = _exact(100 * float(summary(table["speed-up"])), f"{note} of {len(table)} cells of Table III")
        return Measured(percent.here, len(table), table["model"].nunique(), note=percent.note)

    def _figure_9(self) -> Measured:
        """Time of PipeDream over that of SPP, less 1 [%], for each number of layers; the least of them is shown."""
        parts, clusters = [], 0
        for label in dict.fromkeys(self.frame[self.frame["figure"] == "9"]["label"]) if len(self.frame) else ():
            spp, other = (points(self.frame, "9", name).set_index("question")["time"] for name in ("spp", "pipedream"))
            asked = points(self.frame, "9", "spp")
            here = asked[asked["label"] == label]["question"]
            mean = geometric_means([(other[here] / spp[here]).to_numpy()], here.tolist())
            parts.append(Part.of(mean, percent_above, f"{label} layers:"))
            clusters = mean.clusters
        if not parts:
            return Measured(None, note="not run")
        return Measured(min(parts, key=lambda part: part.value), clusters, clusters, parts, _PIPEDREAM)

    def _figure_11(self, number: PaperNumber) -> Measured | None:
        """Number of stages from which W is flat, and that of SPP's choice: means over clusters drawn by seed."""
        rows = points(self.frame, "11", STAGES) if len(self.frame) else self.frame
        if rows.empty or rows["error"].notna().any():
            return Measured(None, note="not run")
        if number.column == "stable from":
            values = [flat_from(workloads) for workloads in rows["workloads"]]
        else:
            values = [int(np.argmin(times)) + 1 for times in rows["times"]]
        mean = means([values], rows["question"].tolist())
        return Measured(Part.of(mean), mean.graphs, mean.clusters, note="clusters drawn by seed")


def _footnote(number: PaperNumber) -> Measured:
    """Layers or devices of the default setting over four stages."""
    setting = "BERT-large, default setting"
    if number.column.startswith("layers"):
        total = value_of("spp", "Section V-B", setting, "transformer layers") or 0.0
    else:
        total = value_of("spp", "Fig. 11", "devices", "GPUs") or 0.0
    return _exact(total / 4, "computed")


def _exact(value: float, note: str) -> Measured:
    return Measured(Part(value, value, value), 1, 1, note=note)
