"""``mtpp table training``: Figures 6 to 11 and Table III of SPP as tables and plots, and what does not reproduce."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from experiments.plots import save_figure
from experiments.rendering import FORMATS
from experiments.runs import RunLog
from experiments.tables import geometric_mean
from experiments.training_claims import Claim, claims
from experiments.training_frames import TITLES, by_stages, mean_ratios, percent, points, training_frame
from experiments.training_runs import BOUND, TABLE_III, Question, failed, make_runs, plan_jobs
from heuristics.pipeline import PLANNERS
from instances import InputError

__all__ = ["figure_rows", "make_training_tables", "plot_stages", "plot_sweep"]

_NOTE = "Planner: its time over that of spp, less 1. Geometric means over the clusters."
_SCOPE = "Figure 5 (accuracy over time) is out of scope: nothing is trained here."


def make_training_tables(asked: Sequence[Question], *, out: Path, folder: Path | None, style: str, jobs: int) -> int:
    """Make the runs that are missing, then print and write tables, plots and claims of all of them.

    Parameters
    ----------
    asked : sequence of Question
    out : Path
        File of runs; those done are not repeated.
    folder : Path, optional
        Where tables (.md, .csv, .tex) and figures (.png, .svg) go.
    style : str
        Format of the printed tables.
    jobs : int
        Processes.

    Returns
    -------
    int
        0, or 1 if a run failed.

    Raises
    ------
    InputError, OSError
        Before any run is made.
    """
    if style not in FORMATS:
        raise InputError(f"--format {style}: choose one of {', '.join(FORMATS)}.")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with RunLog(out) as log:
            runs = make_runs(plan_jobs(asked), log, jobs)
    except KeyboardInterrupt:
        print(f"Stopped; {out} holds the runs that are done, and the same call makes the rest.", file=sys.stderr)
        raise
    frame = training_frame(asked, runs)
    for figure, (title, _) in TITLES.items():
        print(f"{title}\n\n{FORMATS[style](*figure_rows(frame, figure))}\n{_NOTE}\n")
    print(f"Figure 11: W and time by number of stages\n\n{FORMATS[style](*_stage_rows(frame))}\n")
    said = claims(frame)
    header, rows = _claim_rows(said)
    print(f"Claims of the paper\n\n{FORMATS[style](header, rows)}\n\n{_SCOPE}\n{_gain(frame)}")
    if folder is not None:
        _write(frame, said, folder)
    broken = sum(map(failed, runs))
    if broken:
        print(
            f"{broken} of {len(runs)} runs failed; {out} has the reasons. The same call tries them again.",
            file=sys.stderr,
        )
    return int(broken > 0)


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
    """Times of the planners and the bound over the points of a figure.

    Parameters
    ----------
    frame : DataFrame
        Of `training_frame`.
    figure : str
    ax : matplotlib.axes.Axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
    """
    ax = _axes(ax)
    labels = list(dict.fromkeys(frame[frame["figure"] == figure]["label"]))
    places = range(len(labels))
    for i, method in enumerate(PLANNERS):
        times = points(frame, figure, method).groupby("label", sort=False)["time"].mean().reindex(labels)
        ours = method in ("spp", "improved")
        line = "none" if figure.startswith(TABLE_III) else "-" if ours else "--"
        colour = matplotlib.colormaps["tab10"](i)
        ax.plot(places, times, "o", color=colour, label=method, linestyle=line, linewidth=2.2 if ours else 1.2)
    bounds = points(frame, figure, BOUND).groupby("label", sort=False)["bound"].mean().reindex(labels)
    ax.plot(places, bounds, "_", color="black", markersize=22, label="bound for any plan")
    ax.set_xticks(places, labels, rotation=30 if max(map(len, labels)) > 8 else 0)
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(TITLES[figure][1])
    ax.set_ylabel("time of an iteration [s]")
    return _with_legend(ax)


def plot_stages(frame: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """W and the time of SPP's plans over the number of stages (Figure 11)."""
    ax = _axes(ax)
    stages, workloads, times = by_stages(frame)
    ax.plot(stages, times, "o-", color="#3b5b92", markersize=4, label="time of an iteration")
    ax.plot(stages, workloads, "s--", color="#c44e52", markersize=4, label="W")
    ax.plot(stages[times.argmin()], times.min(), "o", color="black", fillstyle="none", markersize=11, label="fastest")
    ax.set_xlabel("stages")
    ax.set_ylabel("time [s]")
    ax.set_ylim(0, 1.05 * times.max())
    return _with_legend(ax)


def _stage_rows(frame: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    stages, workloads, times = by_stages(frame)
    rows = [[str(n), f"{w:.4g}", f"{t:.4g}"] for n, w, t in zip(stages, workloads, times, strict=True)]
    return ["stages", "W [s]", "time [s]"], rows


def _claim_rows(said: Iterable[Claim]) -> tuple[list[str], list[list[str]]]:
    rows = [[_name(c.figure), c.text, "reproduced" if c.holds else "NOT reproduced", c.measured] for c in said]
    return ["", "claim", "here", "measured"], rows


def _name(figure: str) -> str:
    return f"Table {figure}" if figure.startswith(TABLE_III) else f"Figure {figure}"


def _gain(frame: pd.DataFrame) -> str:
    """How much the improved planner gains over the simulations, each counted once."""
    rows = frame[~frame["figure"].str.startswith(TABLE_III)].drop_duplicates(["question", "method"])
    times = rows.pivot_table(index="question", columns="method", values="time")
    gain = geometric_mean(times["improved"] / times["spp"])
    return f"improved over spp: {percent(gain)}, geometric mean over {len(times)} simulated settings."


def _write(frame: pd.DataFrame, said: Sequence[Claim], folder: Path) -> None:
    contents = {_name(figure): figure_rows(frame, figure) for figure in TITLES}
    contents |= {"Figure 11": _stage_rows(frame), "claims": _claim_rows(said)}
    for name, (header, rows) in contents.items():
        for suffix in ("md", "csv", "tex"):
            text = FORMATS[suffix](header, rows)
            (folder / f"{_file(name)}.{suffix}").write_text(text + "\n", encoding="utf-8")
    pictures = {_name(figure): plot_sweep(frame, figure) for figure in TITLES}
    for name, ax in (pictures | {"Figure 11": plot_stages(frame)}).items():
        for suffix in ("png", "svg"):
            save_figure(ax, folder / f"{_file(name)}.{suffix}")


def _file(name: str) -> str:
    return name.lower().replace(" ", "-")


def _axes(ax: Axes | None) -> Axes:
    return Figure(figsize=(8, 4.5), layout="constrained").add_subplot() if ax is None else ax


def _with_legend(ax: Axes) -> Axes:
    ax.grid(color="0.92")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize="small")
    return ax
