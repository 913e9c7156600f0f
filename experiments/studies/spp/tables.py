"""Tables of the study of training pipelines, and what the paper claims."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import scipy
from matplotlib.axes import Axes

from experiments.studies.report import PaperClaim, Report, Section
from experiments.studies.spp.jobs import (
    BASELINES,
    BOTH_SIDES,
    BOUND,
    CALIBRATION,
    GUARANTEES,
    SETTINGS,
    STABLE,
    TABLE,
    TABLE_III,
    TITLES,
    Question,
    TrainingJob,
    by_stages,
    cycles,
    jobs_of,
    mean_ratios,
    mean_times,
    percent,
    points,
    speed_up,
    training_frame,
)
from heuristics.planning import PLANNERS
from instances.planning.chains import DEVICE_MEMORY
from mtpp.plots.style import axes_of, readable_log, with_legend
from mtpp.runs.statistics import geometric_mean
from mtpp.runs.workers import Workers

# Table III of the paper next to the same planners here, cell by cell, and the agreement of both rankings.


_NAMES = {"spp": "SPP", **BASELINES}
_COLUMNS = ["testbed", "model", "planner", "paper", "paper speed-up", "here", "speed-up", "memory", "fits"]


def cells(frame: pd.DataFrame) -> pd.DataFrame:
    """The 63 cells of Table III, from a frame of `training_frame`.

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
                time = None if run is None else run["settings"][planner][0]
                least = None if run is None else run["settings"]["spp"][0]
                needed = None if run is None else run["needs"][planner]
                fits = None if needed is None else needed <= DEVICE_MEMORY[testbed]
                over = None if time is None or least is None else time / least - 1
                paper_speed_up = None if planner == "spp" else speed_up(testbed, model, planner)
                rows.append([testbed, model, planner, paper, paper_speed_up, time, over, needed, fits])
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
    """Rank correlation (Spearman) of the paper's speed-ups with those measured here.

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
        models = list(zip(*ratios, strict=True))  # of each the paper's ratios, (cells,), and ours, (settings, cells)
        errors = [np.abs(np.log(ours / published)).sum(axis=1) for published, ours in models]
        total = np.sum(errors, axis=0)
        for (published, ours), error in zip(models, errors, strict=True):
            paper += published.tolist()
            stated += ours[0].tolist()
            fitted += ours[int(total.argmin())].tolist()
            left_out += ours[int((total - error).argmin())].tolist()
    names = {"as stated": stated, "fitted": fitted, "left out": left_out}
    return {name: float(scipy.stats.spearmanr(paper, values).statistic) for name, values in names.items()}


def plot_cells(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Plot each planner's time relative to SPP's, less 1 [%]: the paper's on x, ours on y; a point per cell."""
    ax = axes_of(ax, 7, 4.5)
    limit = 100 * max(1.0, float(table[["paper speed-up", "speed-up"]].max().max()))
    ax.plot([0, limit], [0, limit], color="0.8", zorder=0)
    for i, planner in enumerate(BASELINES):
        for testbed, marker in zip(TABLE, "os", strict=True):
            rows = table[(table["planner"] == planner) & (table["testbed"] == testbed)]
            if len(rows):
                colour, label = matplotlib.colormaps["tab10"](i), f"{BASELINES[planner]}, {testbed}"
                x, y = (100 * rows[column] for column in ("paper speed-up", "speed-up"))
                ax.plot(x, y, marker, color=colour, label=label, fillstyle="full" if marker == "o" else "none")
    ax.set_xlabel("time over SPP, less 1, in the paper [%]")
    ax.set_ylabel("the same here, analytic layer times [%]")
    ax.grid(color="0.92")
    return with_legend(ax)


def _calibration(frame: pd.DataFrame, testbed: str, model: str) -> Mapping[Hashable, Any] | None:
    """The run of CALIBRATION of a model on a testbed; None if it is missing or failed."""
    cell = frame[(frame["figure"] == f"{TABLE_III} {testbed}") & (frame["label"] == model)]
    rows = cell[(cell["method"] == CALIBRATION) & cell["error"].isna()]
    return None if rows.empty else rows.iloc[0].to_dict()


def _ratios(frame: pd.DataFrame, testbed: str) -> tuple[list[np.ndarray], list[np.ndarray]] | None:
    """Times over SPP's by model: in the paper, and here in each setting."""
    paper_ratios, run_ratios = [], []
    for model, seconds in TABLE[testbed].items():
        run = _calibration(frame, testbed, model)
        planners = [planner for planner in seconds if planner != "spp" and seconds[planner] is not None]
        if run is None or any(None in run["settings"][planner] for planner in ("spp", *planners)):
            return None
        least = np.array(run["settings"]["spp"])
        paper_ratios.append(np.array([1 + (speed_up(testbed, model, planner) or 0.0) for planner in planners]))
        run_ratios.append(np.array([run["settings"][planner] / least for planner in planners]).T)
        assert run_ratios[-1].shape == (len(SETTINGS), len(planners))
    return paper_ratios, run_ratios


def _number(value: float, style: str, missing: str = "–") -> str:
    return missing if math.isnan(value) else format(value, style)


def _percent(value: float) -> str:
    return percent(1 + value)


# Statements of the paper on its planner and its experiments (SPP), compared with measurements.


#: Times that are as near as that are equal.
_TIE = 1e-6
_MUCH = 1.2

#: The statements of the lemmas and the theorem, by the name of `Guarantee`.
_PROVED = {
    "Lemma 1": "PE takes at most M + 4 S - 4 cycles and the longest AllReduce",
    "Lemma 2": "W of PRM is at most 1 + Φ times the least, at least the work of a device",
    "Theorem 1": "SPP takes at most (2 + (4 V - 4) / M) (1 + Φ) times as long as any plan on all devices",
}
#: Cycles of the example with 2 stages and 6 microbatches.
_CYCLES = (2, 6, 10)
#: From how many stages on W is flat, and the stages of SPP's choice.
_FLAT, _STAGES = 4, 6
#: Planners whose largest speed-up the paper names.
_NAMED = ("gpipe", "pipedream", "hetpipe")


def claims(frame: pd.DataFrame) -> list[PaperClaim]:
    """Compare the statements of the paper with `frame`, that of `training_frame`."""
    return [
        *_guarantees(frame),
        _polynomial(frame),
        _example(),
        _never_above_data_parallel(frame),
        _fastest(frame, "6", "SPP outperforms all for all numbers of microbatches"),
        _use(frame),
        _stable(frame),
        _fastest(frame, "8", "SPP outperforms all in all topologies"),
        _faster_than_pipedream(frame),
        _stable_over_layers(frame),
        _similar(frame),
        _grows(frame),
        _flat(frame),
        _fewer_stages(frame),
        _six(frame),
        *_table_iii(cells(frame)),
    ]


def _guarantees(frame: pd.DataFrame) -> Iterator[PaperClaim]:
    """A claim for each guarantee: the number of questions on which the inequality holds.

    Where a bound stands for the unknown optimum a guarantee may seem to fail, so nothing is refuted.
    """
    runs = frame[(frame["method"] == GUARANTEES) & frame["error"].isna()].drop_duplicates("question")
    sides = runs["guarantees"].to_list() if "guarantees" in runs else []
    for name, text in _PROVED.items():
        pairs = [guarantees[name] for guarantees in sides]
        holding = sum(left <= right * (1 + _TIE) for left, right in pairs)
        nearest = max((left / right for left, right in pairs if right > 0), default=math.nan)
        measured = f"{holding} of {len(pairs)} questions, left side at most {nearest:.0%} of the right one"
        measured += "" if holding == len(pairs) else ", where a bound stands for the least, so nothing is refuted"
        yield PaperClaim("text", f"{name}: {text}", True if pairs and holding == len(pairs) else None, measured)


def _polynomial(frame: pd.DataFrame) -> PaperClaim:
    """The claim of polynomial time, which holds by the algorithm's loops; measured seconds illustrate it."""
    runs = points(frame, "9", "spp").groupby("label", sort=False)["seconds"].mean()
    examples = ", ".join(f"{seconds:.2g} s at {label} layers" for label, seconds in runs.dropna().items())
    return PaperClaim(
        "text", "SPP takes polynomial time", True, f"its loops: L² V² + L V³ a stage count; {examples or '–'}"
    )


def _example() -> PaperClaim:
    stages, microbatches, expected = _CYCLES
    took = cycles(stages, microbatches)
    text = f"PE takes {expected} cycles for {stages} stages and {microbatches} microbatches"
    return PaperClaim("Figure 4", text, took == expected, f"{took} cycles")


def _never_above_data_parallel(frame: pd.DataFrame) -> PaperClaim:
    times = frame.drop_duplicates(["question", "method"]).pivot_table(
        index="question", columns="method", values="time", dropna=False
    )
    times = times.reindex(columns=["spp", "data-parallel"]).dropna()
    over = times["spp"] / times["data-parallel"]
    measured = f"{(over <= 1 + _TIE).sum()} of {len(over)} questions, at most {over.max():.3f}"
    return PaperClaim(
        "text", "SPP is never slower than DP", bool((over <= 1 + _TIE).all()) if len(over) else None, measured
    )


def _fastest(frame: pd.DataFrame, figure: str, text: str) -> PaperClaim:
    """Whether SPP is the fastest everywhere, and the closest rival."""
    over = mean_ratios(frame, figure)[list(BASELINES)]
    values = over.to_numpy()
    if np.isnan(values).all():
        return PaperClaim(f"Figure {figure}", text, None, "no runs")
    row, column = map(int, np.unravel_index(np.nanargmin(values), values.shape))
    closest = float(values[row, column])
    label, rival = over.index[row], list(BASELINES)[column]
    measured = f"closest: {BASELINES[rival]} at {label}, {percent(closest)}"
    faster = closest > 1 + _TIE
    if not faster:
        measured += _with_both_sides(frame, figure, label, rival)
    return PaperClaim(f"Figure {figure}", text, None if faster and np.isnan(values).any() else faster, measured)


def _with_both_sides(frame: pd.DataFrame, figure: str, label: str, rival: str) -> str:
    """Clause on SPP if it also tries the larger side of each cut first; may be empty."""
    ours, other = (mean_times(frame, figure, method).get(label, math.nan) for method in (BOTH_SIDES, rival))
    return "" if math.isnan(ours) else f"; with both sides of each cut first {percent(other / ours)}"


def _use(frame: pd.DataFrame) -> PaperClaim:
    used = points(frame, "6", "spp").groupby("label", sort=False)["utilisation"].mean()
    measured = f"{used.iloc[0]:.0%} to {used.iloc[-1]:.0%}" if len(used) else "no runs"
    return _claim("6", "more microbatches, better use of the devices", used.is_monotonic_increasing, measured, used)


def _stable(frame: pd.DataFrame) -> PaperClaim:
    steady, falling = (
        {method: _spread(mean_times(frame, "7", method)) for method in methods}
        for methods in (("spp", "gpipe", "pipedream"), ("data-parallel", "hetpipe"))
    )
    text = "SPP, GPipe and PipeDream are stable over bandwidths, DP and HetPipe are not"
    spreads = steady | falling
    measured = ", ".join(f"{method} {_factor(spread)}" for method, spread in spreads.items())
    holds = max(steady.values()) < STABLE < min(falling.values())
    return _claim("7", text, holds, measured, spreads.values())


def _faster_than_pipedream(frame: pd.DataFrame) -> PaperClaim:
    over = mean_ratios(frame, "9")["pipedream"]
    text = "over 20 % faster than PipeDream (synchronous) for all numbers of layers"
    measured = ", ".join(map(percent, over))
    both = mean_times(frame, "9", "pipedream") / mean_times(frame, "9", BOTH_SIDES)
    if both.notna().all() and len(both):
        measured += f"; with both sides of each cut first {', '.join(map(percent, both))}; this PipeDream minimises W"
    return _claim("9", text, bool((over > _MUCH).all()), measured, over)


def _stable_over_layers(frame: pd.DataFrame) -> PaperClaim:
    spreads = {}
    for method in ("spp", "pipedream"):
        times = mean_times(frame, "9", method)
        numbered = all(str(label).isdigit() for label in times.index)
        spreads[method] = _spread(times / times.index.astype(float)) if numbered else math.nan
    measured = ", ".join(f"{method} {_factor(spread)}" for method, spread in spreads.items())
    text = "SPP and PipeDream are stable over layers (time a layer)"
    return _claim("9", text, max(spreads.values()) < STABLE, measured, spreads.values())


def _similar(frame: pd.DataFrame) -> PaperClaim:
    spread = _spread(mean_times(frame, "10", "spp"))
    text = "SPP's time is similar for all sizes of activations"
    return _claim("10", text, spread < STABLE, _factor(spread), [spread])


def _grows(frame: pd.DataFrame) -> PaperClaim:
    spread = _spread(mean_times(frame, "10", "gpipe"))
    text = "GPipe's time grows with the activations"
    return _claim("10", text, spread > STABLE, _factor(spread), [spread])


def _flat(frame: pd.DataFrame) -> PaperClaim:
    text = f"W falls with the stages, and is stable from {_FLAT} on"
    _, workloads, _ = by_stages(frame)
    if len(workloads) < _FLAT:
        return PaperClaim("Figure 11", text, None, "too few stages")
    first, later = workloads[0], workloads[_FLAT - 1 :]
    spread = float(later.max() / later.min())
    where = int(later.argmin()) + _FLAT
    measured = f"{first:.3g} s with one, {later.min():.3g} with {where}, {workloads[-1]:.3g} with {len(workloads)}"
    return PaperClaim(
        "Figure 11", text, bool(spread < STABLE and first > later.max()), f"{measured}; {_factor(spread)}"
    )


def _fewer_stages(frame: pd.DataFrame) -> PaperClaim:
    text = "the least W is not the least time, which has fewer stages"
    _, workloads, times = by_stages(frame)
    if not len(times):
        return PaperClaim("Figure 11", text, None, "no runs")
    best, least = int(times.argmin()) + 1, int(workloads.argmin()) + 1
    return PaperClaim("Figure 11", text, 1 < best < least, f"time: {best} stages, W: {least}")


def _six(frame: pd.DataFrame) -> PaperClaim:
    text = f"SPP takes {_STAGES} stages"
    _, _, times = by_stages(frame)
    if len(times) < _STAGES:
        return PaperClaim("Figure 11", text, None, "too few stages")
    best = int(times.argmin()) + 1
    return PaperClaim(
        "Figure 11", text, best == _STAGES, f"{best}, {times[best - 1] / times[_STAGES - 1]:.3f} of {_STAGES}"
    )


def _table_iii(table: pd.DataFrame) -> Iterator[PaperClaim]:
    """The claims of Section V-A on Table III; undecided if a cell is missing."""
    rivals = table[(table["planner"] != "spp") & table["paper"].notna()]
    over = rivals["speed-up"]
    open_ = over.isna().any()

    def claim(text: str, holds: bool, measured: str) -> PaperClaim:
        return PaperClaim(
            "Table III", text, None if open_ else bool(holds), "not all runs are there" if open_ else measured
        )

    faster = int((over > _TIE).sum())
    ties = rivals[over.abs() <= _TIE]
    measured = f"{faster}; DP is what SPP chooses in {len(ties)}" if len(ties) else str(faster)
    yield claim(f"SPP outperforms all in all {len(over)} cells", faster == len(over), measured)
    for planner in _NAMED:
        largest = rivals[rivals["planner"] == planner]["paper speed-up"].max()
        ours = rivals[rivals["planner"] == planner]["speed-up"].max()
        text = f"SPP is up to {100 * largest:.0f} % faster than {BASELINES[planner]}"
        yield claim(text, abs(ours / largest - 1) < STABLE - 1, f"up to {100 * ours:.0f} %")
    reduced = rivals[rivals["planner"].isin(("data-parallel", "hetpipe"))]["speed-up"]
    many = int((reduced > _MUCH - 1).sum())
    text = "more than 20 % faster than DP and HetPipe in most cases"
    yield claim(text, 2 * many > len(reduced), f"{many} of {len(reduced)}")
    yield _out_of_memory(table)


def _out_of_memory(table: pd.DataFrame) -> PaperClaim:
    text = "two cells run out of memory: DP on BERT-48 and PipeDream on ResNet152, 1080Ti x 8"
    missing = table[table["paper"].isna()]
    if missing["memory"].isna().any():
        return PaperClaim("Table III", text, None, "not all runs are there")
    needs = ", ".join(f"{cell['model']} {cell['memory'] / 2**30:.1f} GiB" for cell in missing.to_dict("records"))
    others = int((table["fits"].eq(False) & table["paper"].notna()).sum())
    measured = f"they need {needs}; {others} cells that the paper ran need more than is there"
    return PaperClaim("Table III", text, bool(missing["fits"].eq(False).all() and others == 0), measured)


def _claim(figure: str, text: str, holds: bool, measured: str, numbers: Iterable[float]) -> PaperClaim:
    """A claim, undecided if a number is missing."""
    values = list(numbers)
    missing = not values or any(map(np.isnan, values))
    return PaperClaim(f"Figure {figure}", text, None if missing else bool(holds), measured)


def _spread(times: pd.Series) -> float:
    """Slowest over fastest point; NaN if one is missing."""
    return float(times.max(skipna=False) / times.min(skipna=False)) if len(times) else math.nan


def _factor(spread: float) -> str:
    return "–" if np.isnan(spread) else f"x {spread:.2f}"


# ``mtpp table training``: Figures 6 to 11 and Table III of SPP as tables and plots, and claims that do not hold.


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


def make_training_tables(points: Sequence[Question], workers: Workers, report: Report) -> int:
    """Make missing runs, then print and write tables, plots and claims; 1 if a run failed, else 0.

    Raises
    ------
    InputError, OSError
        Before any run is made.
    """
    runs = report.make_runs(jobs_of(points), workers)
    frame = training_frame(points, runs)
    report.publish(_sections(frame), lambda: _pictures(frame))
    return report.exit_code([TrainingJob.failed(run) for run in runs])


def figure_rows(frame: pd.DataFrame, figure: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a figure: time of SPP, times of rivals over it, gaps to the bound."""
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
    """The numbers of `figure_rows`, as fractions and seconds, for files."""
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
    ax.grid(color="0.92")
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
    ax.grid(color="0.92")
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
    """Table III with the paper's numbers, for each testbed, and the correlation of speed-ups."""
    ranking = Section("table-iii-ranking", "Table III: rank correlation of the speed-ups", *_ranking(frame), _LIMIT)
    return [*(_side_by_side(cells(frame), testbed) for testbed in TABLE), ranking]


def _pictures(frame: pd.DataFrame) -> dict[str, Axes]:
    """Plots by the names of their files."""
    drawn = {_file(figure): plot_sweep(frame, figure) for figure in TITLES}
    return drawn | {_file("11"): plot_stages(frame), "table-iii-paper": plot_cells(cells(frame))}


def _side_by_side(table: pd.DataFrame, testbed: str) -> Section:
    """Table III of one testbed with the paper's numbers."""
    note = _CELLS.format(DEVICE_MEMORY[testbed] / 2**30)
    title, numbers = f"Table III, {testbed}, beside the paper", table[table["testbed"] == testbed]
    return Section(f"table-iii-paper-{testbed}", title, *cell_rows(table, testbed), note, numbers=numbers)


def _ranking(frame: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Header and rows of rank correlations between times in the paper and here, for three choices of speeds."""
    words = {
        "as stated": "links and AllReduces as stated",
        "fitted": f"the one of {len(SETTINGS)} settings on each testbed that fits best",
        "left out": "each model with what fits all others best",
    }
    correlation = correlations(frame)
    rows = [[text, "–" if np.isnan(correlation[name]) else f"{correlation[name]:+.2f}"] for name, text in words.items()]
    return ["speeds here", "Spearman"], rows


def _stage_rows(frame: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Header and rows of text of Figure 11."""
    stages, workloads, times = by_stages(frame)
    rows = [[str(n), f"{w:.4g}", f"{t:.4g}"] for n, w, t in zip(stages, workloads, times, strict=True)]
    return ["stages", "W [s]", "time [s]"], rows


def _claim_rows(compared: Iterable[PaperClaim]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of text of claims."""
    rows = [[c.source, c.text, c.finding.shown, c.measured] for c in compared]
    return ["", "claim", "here", "measured"], rows


def _notes(frame: pd.DataFrame) -> str:
    """Notes below the tables: scope, number of clusters for each point, and gain of annealing."""
    clusters = frame[frame["figure"] == "6"].groupby("label")["question"].nunique()
    return f"{_SCOPE}\nClusters a simulated setting: {clusters.min()}; no point is left out.\n{_gain(frame)}"


def _name(figure: str) -> str:
    return f"Table {figure}" if figure.startswith(TABLE_III) else f"Figure {figure}"


def _gain(frame: pd.DataFrame) -> str:
    """A sentence on the time that plans of `improved` save compared with SPP."""
    rows = frame[~frame["figure"].str.startswith(TABLE_III)].drop_duplicates(["question", "method"])
    times = rows.pivot_table(index="question", columns="method", values="time")
    gain = geometric_mean(times["improved"] / times["spp"])
    return f"improved over spp: {percent(gain)}, geometric mean over {len(times)} simulated settings."


def _file(figure: str) -> str:
    return _name(figure).lower().replace(" ", "-")
