"""Table III of the paper next to the same planners here, cell by cell, and the agreement of both rankings."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import spearmanr

from experiments.studies.spp.frames import percent
from experiments.studies.spp.jobs import CALIBRATION, TABLE_III
from experiments.studies.spp.measures import SETTINGS
from experiments.studies.spp.paper import BASELINES, TABLE, speed_up
from instances.planning.chains import DEVICE_MEMORY
from mtpp.plots.style import axes_of, with_legend

__all__ = ["cell_rows", "cells", "correlations", "plot_cells"]

_NAMES = {"spp": "SPP", **BASELINES}
_COLUMNS = ["testbed", "model", "planner", "paper", "paper speed-up", "here", "speed-up", "memory", "fits"]


def cells(frame: pd.DataFrame) -> pd.DataFrame:
    """All 63 cells of Table III; `frame` is that of `training_frame`.

    Returns
    -------
    DataFrame
        Testbed, model and planner; `paper` and `here` [s], missing where the paper ran out of memory or no run is
        there; `paper speed-up` and `speed-up` over SPP, as parts; `memory` [bytes] here, and whether it `fits`.
    """
    rows = []
    for testbed, models in TABLE.items():
        for model, seconds in models.items():
            run = _calibration(frame, testbed, model)
            for planner, paper in seconds.items():
                here = None if run is None else run["settings"][planner][0]
                least = None if run is None else run["settings"]["spp"][0]
                needed = None if run is None else run["needs"][planner]
                fits = None if needed is None else needed <= DEVICE_MEMORY[testbed]
                over = None if here is None or least is None else here / least - 1
                said = None if planner == "spp" else speed_up(testbed, model, planner)
                rows.append([testbed, model, planner, paper, said, here, over, needed, fits])
    numbers = ("paper", "paper speed-up", "here", "speed-up", "memory")
    return pd.DataFrame(rows, columns=_COLUMNS).astype(dict.fromkeys(numbers, float))


def cell_rows(table: pd.DataFrame, testbed: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of text of one testbed, the paper's figures beside those from here."""
    rows = []
    for cell in table[table["testbed"] == testbed].to_dict("records"):
        first = cell["planner"] == "spp"
        rows.append(
            [
                cell["model"] if first else "",
                _NAMES[cell["planner"]],
                _number(cell["paper"], ".3f", "OOM"),
                _number(cell["here"], ".3f"),
                "" if first else _percent(cell["paper speed-up"]),
                "" if first else _percent(cell["speed-up"]),
                _number(cell["memory"] / 2**30, ".1f"),
                {True: "", False: "OOM", None: "–"}[cell["fits"]],
            ]
        )
    header = ["model", "planner", "paper [s]", "here [s]", "paper over SPP", "here over SPP", "memory [GiB]", ""]
    return header, rows


def correlations(frame: pd.DataFrame) -> dict[str, float]:
    """Rank correlation (Spearman) of the speed-ups of the paper with those from here; NaN without all runs.

    - ``as stated``: analytic layer times, links and AllReduces as stated.
    - ``fitted``: with that one of `SETTINGS` on each testbed that comes closest to the paper's times over SPP's (mean
      error of logarithms).
    - ``left out``: each model with what comes closest on all other models of its testbed.
    """
    ratios_of = {testbed: _ratios(frame, testbed) for testbed in TABLE}
    if any(ratios is None for ratios in ratios_of.values()):
        return dict.fromkeys(("as stated", "fitted", "left out"), math.nan)
    paper, stated, fitted, left_out = [], [], [], []
    for ratios in ratios_of.values():
        assert ratios is not None
        said, here = ratios  # of each model, (cells,) and (settings, cells)
        errors = [np.abs(np.log(there / published)).sum(axis=1) for published, there in zip(said, here, strict=True)]
        total = np.sum(errors, axis=0)
        for published, there, error in zip(said, here, errors, strict=True):
            paper += published.tolist()
            stated += there[0].tolist()
            fitted += there[int(total.argmin())].tolist()
            left_out += there[int((total - error).argmin())].tolist()
    names = {"as stated": stated, "fitted": fitted, "left out": left_out}
    return {name: float(spearmanr(paper, values).statistic) for name, values in names.items()}


def plot_cells(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Time over SPP in the paper and here, a point a cell; on the diagonal both agree."""
    ax = axes_of(ax, 7, 4.5)
    limit = 100 * max(1.0, float(table[["paper speed-up", "speed-up"]].max().max()))
    ax.plot([0, limit], [0, limit], color="0.8", zorder=0)
    for i, planner in enumerate(BASELINES):
        for testbed, marker in zip(TABLE, "os", strict=True):
            shown = table[(table["planner"] == planner) & (table["testbed"] == testbed)]
            if len(shown):
                colour, label = matplotlib.colormaps["tab10"](i), f"{BASELINES[planner]}, {testbed}"
                x, y = (100 * shown[column] for column in ("paper speed-up", "speed-up"))
                ax.plot(x, y, marker, color=colour, label=label, fillstyle="full" if marker == "o" else "none")
    ax.set_xlabel("time over SPP, less 1, in the paper [%]")
    ax.set_ylabel("the same here, analytic layer times [%]")
    return with_legend(ax)


def _calibration(frame: pd.DataFrame, testbed: str, model: str) -> Mapping[Hashable, Any] | None:
    here = frame[(frame["figure"] == f"{TABLE_III} {testbed}") & (frame["label"] == model)]
    rows = here[(here["method"] == CALIBRATION) & here["error"].isna()]
    return None if rows.empty else rows.iloc[0].to_dict()


def _ratios(frame: pd.DataFrame, testbed: str) -> tuple[list[np.ndarray], list[np.ndarray]] | None:
    """Times over SPP's of each model: in the paper, and here in each setting, for the planners that the paper has."""
    said, here = [], []
    for model, seconds in TABLE[testbed].items():
        run = _calibration(frame, testbed, model)
        shown = [planner for planner in seconds if planner != "spp" and seconds[planner] is not None]
        if run is None or any(None in run["settings"][planner] for planner in ("spp", *shown)):
            return None
        least = np.array(run["settings"]["spp"])
        said.append(np.array([1 + (speed_up(testbed, model, planner) or 0.0) for planner in shown]))
        here.append(np.array([run["settings"][planner] / least for planner in shown]).T)
        assert here[-1].shape == (len(SETTINGS), len(shown))
    return said, here


def _number(value: float, style: str, missing: str = "–") -> str:
    return missing if math.isnan(value) else format(value, style)


def _percent(value: float) -> str:
    return percent(1 + value)
