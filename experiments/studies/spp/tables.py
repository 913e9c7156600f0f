"""``mtpp table training``: Figures 6 to 11 and Table III of SPP as tables and plots, and what does not reproduce."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import matplotlib
import pandas as pd
from matplotlib.axes import Axes

from experiments.plots.style import axes_of, legend_beside, plain, readable_log
from experiments.runs.workers import Workers
from experiments.studies.claim import Claim
from experiments.studies.mtpp.tables import geometric_mean
from experiments.studies.report import Report, Section
from experiments.studies.spp.claims import claims
from experiments.studies.spp.frames import TITLES, by_stages, mean_ratios, percent, points, training_frame
from experiments.studies.spp.jobs import BOUND, TABLE_III, Question, TrainingJob, jobs_of
from heuristics.planning import PLANNERS

__all__ = ["figure_rows", "make_training_tables", "plot_stages", "plot_sweep"]

_NOTE = "Planner: its time over that of spp, less 1. Geometric means over the clusters."
_SCOPE = "Figure 5 (accuracy over time) is out of scope: nothing is trained here."


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
    spp = points(frame, figure, "spp").groupby("label", sort=False)["time"].mean()
    rivals = [method for method in PLANNERS if method != "spp"]
    rows = []
    for label in over.index:
        gaps = [over.loc[label, "spp over bound"], over.loc[label, "improved over bound"]]
        cells = [percent(ratio) for ratio in (*over.loc[label, rivals], *gaps)]
        rows.append([str(label), f"{spp[label]:.4g}", *cells])
    return [TITLES[figure][1], "spp [s]", *rivals, "spp over bound", "improved over bound"], rows


def plot_sweep(frame: pd.DataFrame, figure: str, ax: Axes | None = None) -> Axes:
    """Times of the planners and the bound over the points of a figure; `frame` is that of `training_frame`."""
    ax = axes_of(ax, 8, 4.5)
    labels = list(dict.fromkeys(frame[frame["figure"] == figure]["label"]))
    places = range(len(labels))
    for i, method in enumerate(PLANNERS):
        times = points(frame, figure, method).groupby("label", sort=False)["time"].mean().reindex(labels)
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
    return _with_legend(ax)


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
    return _with_legend(ax)


def _sections(frame: pd.DataFrame) -> list[Section]:
    return [
        *(Section(_file(figure), title, *figure_rows(frame, figure), _NOTE) for figure, (title, _) in TITLES.items()),
        Section(_file("11"), "Figure 11: W and time by number of stages", *_stage_rows(frame)),
        Section("claims", "Claims of the paper", *_claim_rows(claims(frame)), f"{_SCOPE}\n{_gain(frame)}"),
    ]


def _pictures(frame: pd.DataFrame) -> dict[str, Axes]:
    return {_file(figure): plot_sweep(frame, figure) for figure in TITLES} | {_file("11"): plot_stages(frame)}


def _stage_rows(frame: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    stages, workloads, times = by_stages(frame)
    rows = [[str(n), f"{w:.4g}", f"{t:.4g}"] for n, w, t in zip(stages, workloads, times, strict=True)]
    return ["stages", "W [s]", "time [s]"], rows


def _claim_rows(said: Iterable[Claim]) -> tuple[list[str], list[list[str]]]:
    rows = [[_name(c.source), c.text, c.verdict("reproduced", "NOT reproduced"), c.measured] for c in said]
    return ["", "claim", "here", "measured"], rows


def _name(figure: str) -> str:
    return f"Table {figure}" if figure.startswith(TABLE_III) else f"Figure {figure}"


def _gain(frame: pd.DataFrame) -> str:
    """How much the improved planner gains over the simulations, each counted once."""
    rows = frame[~frame["figure"].str.startswith(TABLE_III)].drop_duplicates(["question", "method"])
    times = rows.pivot_table(index="question", columns="method", values="time")
    gain = geometric_mean(times["improved"] / times["spp"])
    return f"improved over spp: {percent(gain)}, geometric mean over {len(times)} simulated settings."


def _file(figure: str) -> str:
    return _name(figure).lower().replace(" ", "-")


def _with_legend(ax: Axes) -> Axes:
    ax.grid(color="0.92")
    plain(ax)
    legend_beside(ax)
    return ax
