"""``mtpp table training``: Figures 6 to 11 and Table III of SPP as tables and plots, and claims that do not hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.studies.claim import PaperClaim
from experiments.studies.report import Report, Section
from experiments.studies.spp.claims import claims
from experiments.studies.spp.frames import (
    TITLES,
    by_stages,
    mean_ratios,
    mean_times,
    percent,
    points,
    training_frame,
)
from experiments.studies.spp.jobs import BOUND, TABLE_III, Question, TrainingJob, jobs_of
from experiments.studies.spp.measures import SETTINGS
from experiments.studies.spp.paper import TABLE
from experiments.studies.spp.table_iii import cell_rows, cells, correlations, plot_cells
from heuristics.planning import PLANNERS
from instances.planning.chains import DEVICE_MEMORY
from mtpp.plots.style import axes_of, readable_log, with_legend
from mtpp.runs.statistics.intervals import geometric_mean
from mtpp.runs.workers import Workers

__all__ = ["figure_rows", "make_training_tables", "plot_stages", "plot_sweep", "table_iii_sections"]

_NOTE = "Planner: its time over that of spp, less 1. Geometric means over the clusters."
_SCOPE = "Figure 5 (accuracy over time) is out of scope: nothing is trained here."
_CELLS = (
    "Paper: Luo et al., INFOCOM 2022, Table III. Here: blocks of layers, analytic times, parameters as in Table II. "
    "Memory: the fullest device, 16 bytes a parameter, DP with all its samples at once, GPipe without recomputation; "
    "OOM is more than {:.0f} GiB. Plans here do not look at memory."
)
_LIMIT = (
    "The paper's profiles are not published: its times over SPP's need links and layer times that differ from model to "
    "model, which no one setting gives."
)


def make_training_tables(asked: Sequence[Question], workers: Workers, report: Report) -> int:
    """Make the runs that are missing, then print and write tables, plots and claims; 1 if a run failed, else 0.

    Raises
    ------
    InputError, OSError
        Before any run is made.
    """
    runs = report.make_runs(jobs_of(asked), workers)
    frame = training_frame(asked, runs)
    report.publish(_sections(frame), lambda: _pictures(frame))
    return report.exit_code([TrainingJob.failed(run) for run in runs])


def figure_rows(frame: pd.DataFrame, figure: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of text of a figure: time of SPP, times of the others over it, gaps to the bound."""
    over = mean_ratios(frame, figure)
    spp = mean_times(frame, figure, "spp")
    rivals = [method for method in PLANNERS if method != "spp"]
    rows = []
    for label in over.index:
        gaps = [over.loc[label, "spp over bound"], over.loc[label, "improved over bound"]]
        cells = [percent(ratio) for ratio in (*over.loc[label, rivals], *gaps)]
        rows.append([str(label), f"{spp[label]:.4g}", *cells])
    return [TITLES[figure][1], "spp [s]", *rivals, "spp over bound", "improved over bound"], rows


def _figure_numbers(frame: pd.DataFrame, figure: str) -> pd.DataFrame:
    over = mean_ratios(frame, figure).rename(columns={method: f"{method} over spp" for method in PLANNERS})
    over.insert(0, "spp [s]", mean_times(frame, figure, "spp"))
    return over.drop(columns="spp over spp").rename_axis(TITLES[figure][1]).reset_index()


def plot_sweep(frame: pd.DataFrame, figure: str, ax: Axes | None = None) -> Axes:
    """Times of the planners and the bound over the points of a figure; `frame` is that of `training_frame`."""
    ax = axes_of(ax, 8, 4.5)
    labels = list(dict.fromkeys(frame[frame["figure"] == figure]["label"]))
    places = range(len(labels))
    for i, method in enumerate(PLANNERS):
        times = mean_times(frame, figure, method).reindex(labels)
        ours = method in ("spp", "improved")
        line = "none" if figure.startswith(TABLE_III) else "-" if ours else "--"
        colour = matplotlib.colormaps["tab10"](i)
        ax.plot(places, times, "o", color=colour, label=method, linestyle=line, linewidth=2.2 if ours else 1.2)
    bounds = points(frame, figure, BOUND).groupby("label", sort=False)["bound"].mean().reindex(labels)
    ax.plot(places, bounds, "_", color="black", markersize=22, label="bound, one stage a device")
    ax.set_xticks(places, labels, rotation=30 if max(map(len, labels)) > 8 else 0)
    ax.set_yscale("log")
    readable_log(ax.yaxis)
    ax.set_xlabel(TITLES[figure][1])
    ax.set_ylabel("time of an iteration [s]")
    return with_legend(ax)


def plot_stages(frame: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """W and the time of SPP's plans over the number of stages (Figure 11)."""
    ax = axes_of(ax, 8, 4.5)
    stages, workloads, times = by_stages(frame)
    ax.plot(stages, times, "o-", color="#3b5b92", markersize=4, label="time of an iteration")
    ax.plot(stages, workloads, "s--", color="#c44e52", markersize=4, label="W")
    if len(times):
        fastest = times.argmin()
        ax.plot(stages[fastest], times[fastest], "o", color="black", fillstyle="none", markersize=11, label="fastest")
        ax.set_ylim(0, 1.05 * times.max())
    ax.set_xlabel("stages")
    ax.set_ylabel("time [s]")
    return with_legend(ax)


def _sections(frame: pd.DataFrame) -> list[Section]:
    return [
        *(
            Section(_file(figure), title, *figure_rows(frame, figure), _NOTE, numbers=_figure_numbers(frame, figure))
            for figure, (title, _) in TITLES.items()
        ),
        Section(_file("11"), "Figure 11: W and time by number of stages", *_stage_rows(frame)),
        *table_iii_sections(frame),
        Section("claims", "Claims of the paper", *_claim_rows(claims(frame)), _notes(frame), text=(1, 3)),
    ]


def table_iii_sections(frame: pd.DataFrame) -> list[Section]:
    """Table III beside the paper, testbed by testbed, and how the speed-ups correlate."""
    ranking = Section("table-iii-ranking", "Table III: rank correlation of the speed-ups", *_ranking(frame), _LIMIT)
    return [*(_side_by_side(cells(frame), testbed) for testbed in TABLE), ranking]


def _pictures(frame: pd.DataFrame) -> dict[str, Axes]:
    drawn = {_file(figure): plot_sweep(frame, figure) for figure in TITLES}
    return drawn | {_file("11"): plot_stages(frame), "table-iii-paper": plot_cells(cells(frame))}


def _side_by_side(table: pd.DataFrame, testbed: str) -> Section:
    note = _CELLS.format(DEVICE_MEMORY[testbed] / 2**30)
    title, numbers = f"Table III, {testbed}, beside the paper", table[table["testbed"] == testbed]
    return Section(f"table-iii-paper-{testbed}", title, *cell_rows(table, testbed), note, numbers=numbers)


def _ranking(frame: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Rank correlations by what the links and AllReduces are."""
    words = {
        "as stated": "links and AllReduces as stated",
        "fitted": f"the one of {len(SETTINGS)} settings on each testbed that fits best",
        "left out": "each model with what fits all others best",
    }
    correlation = correlations(frame)
    rows = [[text, "–" if np.isnan(correlation[name]) else f"{correlation[name]:+.2f}"] for name, text in words.items()]
    return ["speeds here", "Spearman"], rows


def _stage_rows(frame: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    stages, workloads, times = by_stages(frame)
    rows = [[str(n), f"{w:.4g}", f"{t:.4g}"] for n, w, t in zip(stages, workloads, times, strict=True)]
    return ["stages", "W [s]", "time [s]"], rows


def _claim_rows(said: Iterable[PaperClaim]) -> tuple[list[str], list[list[str]]]:
    rows = [[c.source, c.text, c.finding.shown, c.measured] for c in said]
    return ["", "claim", "here", "measured"], rows


def _notes(frame: pd.DataFrame) -> str:
    """Notes below the tables: scope, number of clusters behind a point, and gain of annealing."""
    clusters = frame[frame["figure"] == "6"].groupby("label")["question"].nunique()
    return f"{_SCOPE}\nClusters a simulated setting: {clusters.min()}; no point is left out.\n{_gain(frame)}"


def _name(figure: str) -> str:
    return f"Table {figure}" if figure.startswith(TABLE_III) else f"Figure {figure}"


def _gain(frame: pd.DataFrame) -> str:
    """Gain of the improved planner over the simulations, each counted once."""
    rows = frame[~frame["figure"].str.startswith(TABLE_III)].drop_duplicates(["question", "method"])
    times = rows.pivot_table(index="question", columns="method", values="time")
    gain = geometric_mean(times["improved"] / times["spp"])
    return f"improved over spp: {percent(gain)}, geometric mean over {len(times)} simulated settings."


def _file(figure: str) -> str:
    return _name(figure).lower().replace(" ", "-")
