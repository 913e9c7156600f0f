"""Measures for the numbers of Placeto: Table 1, its ablations, its traversal orders."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from experiments.studies.papers.published import PaperNumber
from experiments.studies.papers.verdicts import Measured, Part, percent_above
from experiments.studies.placeto.network_measures import against, answer_of, best_of, design_times, orders_of
from experiments.studies.placeto.published import CELLS, NETWORKS, QUICK_NETWORKS, Cell, NetworkBudget
from mtpp.runs.log import Run
from mtpp.runs.statistics.intervals import geometric_means, means

__all__ = ["BUDGETS", "PlacementMeasures"]

#: Lengths of training by the word of a plan; the least only shows that all of it runs.
BUDGETS = {
    "least": NetworkBudget(
        groups=8, published=32, fast=32, recurrent=16, ablation=64, orders=2, ordered=16, graphs=1, moves=50
    ),
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
    """Numbers of runs of networks.

    Parameters
    ----------
    runs : sequence of Run
        Those that failed are left out.
    budget : NetworkBudget
        With which they were made.
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
        """Measure for a number; None if nothing is measured for it."""
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
        """By how much a design is slower than the full network on unseen graphs [%]."""
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
        """Times in unseen orders over the best of the training, less 1 [%]; each order is a cluster."""
        if number.row == "traversal orders":
            return None
        planner = number.row.startswith("RNN")
        made = orders_of(self.runs, planner=planner, orders=self.budget.orders)
        if made is None:
            return self._single(None)
        times, best = made
        if number.column.startswith("fastest"):
            return self._single(max(times) / min(times) - 1, 100)
        mean = means([100 * (np.array(times) / best - 1)], range(len(times)))
        return Measured(Part.of(mean), 1, mean.clusters, note="orders of one training")

    def _single(self, value: float | None, factor: float = 1.0) -> Measured:
        """A number of one training, times `factor`, without an interval: its spread is unknown."""
        if value is None:
            return Measured(None, note=self._why or "not reached, or not run")
        return Measured(Part(factor * value, math.nan, math.nan), 1, 1, note=f"one training, {self._words}")

    @property
    def _words(self) -> str:
        return f"{self.budget.published} episodes of Placeto, {self.budget.recurrent} placements of the RNN"
