"""Numbers of the papers on pipelined training (SPP) and on placement (Placeto) beside those measured here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.studies.papers.numbers import Measured, PaperNumber, Part, Row, percent_above, value_of
from experiments.studies.placeto import (
    CELLS,
    NETWORKS,
    QUICK_NETWORKS,
    Cell,
    NetworkBudget,
    against,
    answer_of,
    best_of,
    design_times,
    orders_of,
)
from experiments.studies.spp.jobs import (
    CALIBRATION,
    STAGES,
    TABLE_III,
    Question,
    TrainingJob,
    cycles,
    flat_from,
    place_of,
    points,
    questions,
    training_frame,
)
from experiments.studies.spp.tables import cells
from instances.planning.chains import DEVICE_MEMORY, SWEEPS, simulation
from mtpp.runs.job import Run
from mtpp.runs.statistics import geometric_means, means

# Runs and measures for the numbers of SPP: Table III with analytic layer times, Figures 4, 9 and 11.


_PIPEDREAM = "clusters drawn by seed; this PipeDream minimises W, the slowest stage"
_LARGEST = {
    "SPP against state of the art": ("data-parallel", "gpipe", "pipedream", "hetpipe"),
    "SPP against GPipe": ("gpipe",),
    "SPP against PipeDream": ("pipedream",),
    "SPP against HetPipe": ("hetpipe",),
}


def training_questions(rows: Sequence[Row]) -> list[Question]:
    """Points of the figures on as many clusters as the plan has seeds, and the models of Table III."""
    workload: list[Question] = []
    for row in rows:
        if "Table III" in row.items:
            workload += [question for question in questions(quick=True) if question.figure.startswith(TABLE_III)]
        if "Fig. 9" in row.items:
            parameter, values = SWEEPS["9"]
            for value in values:
                option: dict[str, Any] = {parameter: value}
                workload += [Question("9", f"{value:g}", simulation(seed, **option)) for seed in range(row.seeds)]
        if "Fig. 11" in row.items:
            workload += [Question("11", "default", simulation(seed)) for seed in range(row.seeds)]
    return workload


def training_jobs(workload: Sequence[Question]) -> list[TrainingJob]:
    """Jobs behind the numbers of each question."""
    methods = {"9": ("spp", "pipedream"), "11": (STAGES,)}
    jobs = [
        TrainingJob(question.instance, name)
        for question in workload
        for name in methods.get(question.figure, (CALIBRATION,))
    ]
    return list({job.key: job for job in jobs}.values())


class TrainingMeasures:
    """Measures of the runs of pipelined training for the numbers of SPP.

    Parameters
    ----------
    workload : sequence of Question
        Points of the figures and rows of the table.
    runs : sequence of Run
        Runs of all jobs of these questions.

    Attributes
    ----------
    frame : DataFrame
        As `training_frame`; empty without runs.
    """

    def __init__(self, workload: Sequence[Question], runs: Sequence[Run]) -> None:
        self.frame = training_frame(workload, runs) if runs else pd.DataFrame()
        self._cells = cells(self.frame) if runs else pd.DataFrame()

    def measured(self, number: PaperNumber) -> Measured | None:
        """Measurement for a number; None if there is none."""
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
        """Time of SPP over a rival's; where a rival ran out of memory, the memory over its need."""
        if self._cells.empty:
            return Measured(None, note="not run")
        testbed, model, planner = place_of(number.row, number.column)
        block = self._cells[(self._cells["testbed"] == testbed) & (self._cells["model"] == model)].set_index("planner")
        seconds = float(block["here"][planner])
        absolute = Part(seconds, seconds, seconds)
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
        return Measured(percent.part, len(table), table["model"].nunique(), note=percent.note)

    def _figure_9(self) -> Measured:
        """Time of PipeDream over that of SPP, less 1 [%]: the least over numbers of layers."""
        parts, clusters = [], 0
        for label in dict.fromkeys(self.frame[self.frame["figure"] == "9"]["label"]) if len(self.frame) else ():
            spp, other = (points(self.frame, "9", name).set_index("question")["time"] for name in ("spp", "pipedream"))
            spp_points = points(self.frame, "9", "spp")
            group = spp_points[spp_points["label"] == label]["question"]
            mean = geometric_means([(other[group] / spp[group]).to_numpy()], group.tolist())
            parts.append(Part.of(mean, percent_above, f"{label} layers:"))
            clusters = mean.clusters
        if not parts:
            return Measured(None, note="not run")
        return Measured(min(parts, key=lambda part: part.value), clusters, clusters, parts, _PIPEDREAM)

    def _figure_11(self, number: PaperNumber) -> Measured | None:
        """Number of stages from which W is flat, and number that SPP chooses: means over clusters."""
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
    """Mean number of layers, or of devices, in each of the four stages of the default setting."""
    setting = "BERT-large, default setting"
    if number.column.startswith("layers"):
        total = value_of("spp", "Section V-B", setting, "transformer layers") or 0.0
    else:
        total = value_of("spp", "Fig. 11", "devices", "GPUs") or 0.0
    return _exact(total / 4, "computed")


def _exact(value: float, note: str) -> Measured:
    return Measured(Part(value, value, value), 1, 1, note=note)


# Measures for the numbers of Placeto: Table 1, its ablations, its traversal orders.


#: Lengths of training by the word of a plan; the least only shows that all of it runs.
BUDGETS = {
    "least": NetworkBudget(groups=8, published=32, recurrent=16, ablation=64, orders=2, ordered=16, graphs=1),
    "quick": QUICK_NETWORKS,
    "full": NetworkBudget(),
}

_CELLS = {
    f"{network} {devices} GPUs": CELLS[2 * i + j]
    for i, network in enumerate(NETWORKS)
    for j, devices in enumerate((2, 4))
}
_NMT_4 = "NMT 4 GPUs"


class PlacementMeasures:
    """Measurements for the numbers of Placeto, from runs of learned placement.

    Parameters
    ----------
    runs : sequence of Run
        Failed runs are left out.
    budget : NetworkBudget
        Lengths of the trainings and searches of these runs.
    why : str
        Why nothing was run, if so.

    Attributes
    ----------
    runs : list of Run
    budget : NetworkBudget
    """

    def __init__(self, runs: Sequence[Run], budget: NetworkBudget, why: str = "") -> None:
        self.runs, self.budget, self._why = [run for run in runs if run["error"] is None], budget, why

    def measured(self, number: PaperNumber) -> Measured | None:
        """Measurement for a number; None if there is none."""
        if number.item == "Table 1":
            return self._cell(number)
        if number.item == "Section 4.3":
            return self._design(number) or self._orders(number)
        if number.column in ("fewer training steps, up to", "fewer placement evaluations, up to"):
            return self._factors(CELLS)
        if number.column == "fewer episodes, up to":
            return self._factors([_CELLS["NASNet 2 GPUs"], _CELLS["NASNet 4 GPUs"]])
        if number.column.startswith("fewer samples"):
            return self._factors([_CELLS[number.row.partition(",")[0]]])
        if number.row.endswith("against expert"):
            return self._against_expert(_CELLS[number.row.partition(",")[0]])
        if number.column == "faster":
            return self._single(against(self.runs, _CELLS[_NMT_4]).reduction, 100)
        return None

    def _cell(self, number: PaperNumber) -> Measured | None:
        cell = _CELLS.get(number.row)
        if cell is None:
            return None
        compared = against(self.runs, cell)
        if number.column == "runtime reduction":
            return self._single(compared.reduction, 100)
        if number.column == "speedup factor":
            return self._single(compared.factor)
        if number.column.endswith("placements sampled"):
            count = compared.samples if number.column.startswith("Placeto") else compared.planned
            return self._single(None if count is None else count[0], 1e-3)
        what = {"Placeto": "published", "RNN": "recurrent"}.get(number.column)
        if what is None:
            best = (answer_of(self.runs, "search", cell) or {}).get(number.column)
        else:
            best = best_of(answer_of(self.runs, what, cell))
        alone = (answer_of(self.runs, "search", cell) or {}).get("one device")
        return self._single(None if best is None or alone is None else best["time"] * alone)

    def _factors(self, cells: Sequence[Cell]) -> Measured:
        factors = [factor for factor in (against(self.runs, cell).factor for cell in cells) if factor is not None]
        return self._single(max(factors, default=None))

    def _against_expert(self, cell: Cell) -> Measured:
        best, times = best_of(answer_of(self.runs, "published", cell)), answer_of(self.runs, "search", cell) or {}
        expert = times.get("expert")
        return self._single(None if best is None or expert is None else 1 - best["time"] / expert["time"], 100)

    def _design(self, number: PaperNumber) -> Measured | None:
        """Relative excess of a design's times over the full network's on unseen graphs [%]."""
        names = {"simple aggregator": "aggregator", "simple partitioner": "partitioner"}
        design = names.get(number.row.removesuffix(" against Placeto"))
        times = design_times(self.runs)
        if design is None:
            return None
        if not {"full", design} <= times.keys():
            return self._single(None)
        ratios = np.array(times[design]) / np.array(times["full"])
        mean = geometric_means([ratios], range(len(ratios)))
        return Measured(
            Part.of(mean, percent_above),
            mean.graphs,
            mean.clusters,
            note=f"one training of {self.budget.ablation} episodes",
        )

    def _orders(self, number: PaperNumber) -> Measured | None:
        """Excess of times in unseen orders over the best of the training [%]; None for the number of orders."""
        if number.row == "traversal orders":
            return None
        planner = number.row.startswith("RNN")
        times_in_orders = orders_of(self.runs, planner=planner, orders=self.budget.orders)
        if times_in_orders is None:
            return self._single(None)
        times, best = times_in_orders
        if number.column.startswith("fastest"):
            return self._single(max(times) / min(times) - 1, 100)
        mean = means([100 * (np.array(times) / best - 1)], range(len(times)))
        return Measured(Part.of(mean), 1, mean.clusters, note="orders of one training")

    def _single(self, value: float | None, factor: float = 1.0) -> Measured:
        """A number from a single training, times `factor`, without an interval."""
        if value is None:
            return Measured(None, note=self._why or "not reached, or not run")
        return Measured(Part(factor * value, math.nan, math.nan), 1, 1, note=f"one training, {self._words}")

    @property
    def _words(self) -> str:
        return f"{self.budget.published} episodes of Placeto, {self.budget.recurrent} placements of the RNN"
