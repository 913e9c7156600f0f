"""Study of partitions: data frames of runs, and tables of ratios."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from experiments.studies.report import Report, Section
from heuristics import HEURISTICS
from instances import InputError, Instance
from instances.errors import said
from instances.results import LP_SUFFIX, PROOF_TOLERANCE
from mtpp.plots.profiles import plot_intervals, plot_performance, plot_ratio_profile, plot_running_times
from mtpp.runs.job import Run, read_runs
from mtpp.runs.partition_job import PartitionJob, jobs_of, run_methods
from mtpp.runs.sources import writing
from mtpp.runs.statistics import (
    LEAST_CLUSTERS,
    SIGNIFICANT,
    cluster_of,
    cluster_sums,
    gap_integral,
    holm,
    means,
    paired_p,
    points_of,
    primal_integral,
    ratio_of,
)
from mtpp.runs.user_methods import CERTIFY, base_name, is_address
from mtpp.runs.workers import Workers
from mtpp_models import MODELS, SolveOptions, Strengthening
from mtpp_models.formulations.strengthening import ablation
from mtpp_models.solvers.registry import find_solver

# Frame of runs of partitioning, however many: one row a run, without its blocks.


#: Fields of a run that tables use; those that a file lacks are missing.
_NUMBERS = (
    *("bottleneck", "bound", "at_most", "simple", "seconds", "cpu_seconds"),
    *("communication_over_work", "time_limit"),
)
_TEXTS = ("key", "question", "instance", "cluster", "kind", "method", "error", "solver", "version", "sources")
_FIELDS = (*_TEXTS, *_NUMBERS, "parameters", "n", "m", "k", "seed", "optimal")
#: What tells runs of one method apart, besides the seed, over which tables take means.
_CONFIGURATION = ("solver", "time_limit", "parameters", "version", "sources")
_ORDER = {name: i for i, name in enumerate((*HEURISTICS, *MODELS, CERTIFY))}
#: Digits of a hash that tell one from another.
_DIGITS = 8


def run_frame(runs: Iterable[Run]) -> pd.DataFrame:
    """Frame of runs; of several runs with one key only the last.

    Returns
    -------
    DataFrame
        Besides the fields of a run it has `label` (the method, and its configuration if there are several), `simple`
        (NaN where that bound was not run), `cluster` (the network of the graph) and `points` (see `points_of`). Rows
        are in the order of tables.

    Raises
    ------
    InputError
        If there is no run of partitioning, or none of them has the bound *simple* to be compared with.
    """
    columns: dict[str, list[Any]] = {name: [] for name in (*_FIELDS, "points")}
    for run in runs:
        if run["kind"] in ("heuristic", "model"):
            for name, column in columns.items():
                column.append(points_of(run) if name == "points" else run.get(name))
    frame = pd.DataFrame(columns)
    if frame.empty:
        raise InputError("There is no run of partitioning to make a table of.")
    frame = frame.drop_duplicates("key", keep="last").astype(dict.fromkeys(_NUMBERS, float))
    frame["simple"] = frame["question"].map(_simple(frame))
    if frame["simple"].isna().all():
        first = frame.iloc[0]
        raise InputError(f"{first['instance']}, k = {first['k']} has no run of the bound 'simple'; make one first.")
    names = {name: cluster_of(name) for name in frame["instance"].unique()}
    frame["cluster"] = frame["cluster"].fillna(frame["instance"].map(names))
    frame["label"] = _labels(frame)
    places = {name: _place(name) for name in frame["method"].unique()}
    order = frame["method"].map(places)
    return frame.assign(_order=order).sort_values(["_order", "label", "k"], kind="stable").drop(columns="_order")


def instance_rows(frame: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the instances: name, n, m, communication over work, and the closing bound."""
    unique = frame.drop_duplicates("instance").sort_values("instance")
    shares = ["–" if pd.isna(share) else f"{share:.3f}" for share in unique["communication_over_work"]]
    closed = dict[str, Iterable[str]]()
    if (frame["kind"] == "model").any():
        by_k = _first_to_close(frame).pivot_table(index="instance", columns="k", values="closed", aggfunc="first")
        closed = {f"k={k}": by_k[k].reindex(unique["instance"]).astype(object).fillna("–") for k in by_k}
    rows = zip(unique["instance"], unique["n"], unique["m"], shares, *closed.values(), strict=True)
    return ["instance", "n", "m", "comm/work", *closed], [[str(cell) for cell in row] for row in rows]


# What stands for a bound where none has closed a question.
_NONE = "none"


def closing_rows(frame: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Header and rows: for each k, the fraction of the graphs that each bound closes first."""
    counts = _first_to_close(frame).groupby("k")["closed"].value_counts(normalize=True).unstack("k").fillna(0.0)
    order = [label for label in dict.fromkeys(frame["label"]) if label in counts.index]
    rows = [
        [label, *(f"{100 * part:.0f} %" for part in counts.loc[label])]
        for label in (*order, _NONE)
        if label in counts.index
    ]
    return ["", *(f"k={k}" for k in counts)], rows


def _first_to_close(frame: pd.DataFrame) -> pd.DataFrame:
    """One row for each question; `closed` is the quickest bound that reaches the best cost, or "none"."""
    cost = frame["question"].map(frame.groupby("question")["bottleneck"].min())
    rows = frame[(frame["kind"] == "model") & (cost <= frame["bound"] * (1 + PROOF_TOLERANCE))]
    first = rows.sort_values("seconds", kind="stable").drop_duplicates("question").set_index("question")["label"]
    questions = frame.drop_duplicates("question")
    return questions.assign(closed=[first.get(question, _NONE) for question in questions["question"]])


def _simple(frame: pd.DataFrame) -> pd.Series[float]:
    """The bound *simple* of each question, from a field of runs or from runs of the method itself."""
    bound = frame["bound"].where((frame["method"] == "simple") & frame["error"].isna())
    return frame["simple"].fillna(bound).groupby(frame["question"]).max()


def _labels(frame: pd.DataFrame) -> pd.Series[str]:
    labels = frame["method"].astype(str)
    for name in _CONFIGURATION:
        texts = (
            frame[name].map(str) if name == "parameters" else frame[name].astype(str).where(frame[name].notna(), "none")
        )
        several = texts.groupby(frame["method"]).transform("nunique") > 1
        if several.any():
            setting = texts.str.slice(stop=_DIGITS) if name == "sources" else texts
            labels = labels.where(~several, labels + f" {name}=" + setting)
    return labels


def _place(method: str) -> tuple[int, bool, int]:
    """Sort key of a method in tables: its place in the registries, relaxations first, then by added strengthenings."""
    _, plus, parts = method.removesuffix(LP_SUFFIX).partition("+")
    place = _ORDER.get(base_name(method), len(_ORDER))
    strength = sum(vars(Strengthening.of(parts)).values()) if plus and place < len(_ORDER) else 0
    return place, not method.endswith(LP_SUFFIX), strength


# The paper's Tables 1 to 3 as pure functions of runs.
#
# Every cell is a geometric mean over all instances of that column, of each over its seeds, with an interval over
# networks. A missing bound counts as *simple*, a missing partition empties its cell. The ratio of 0 to 0 is 1.


FloatArray = NDArray[np.float64]

#: Columns of the numbers of a table.
COLUMNS = ("item", "row", "column", "value", "low", "high", "graphs", "clusters", "missing", "solved")


@dataclass(frozen=True, eq=False)
class Table:
    """Ratios by method and k."""

    name: str  # of its files
    title: str  # heading
    cells: pd.DataFrame  # one row for each cell: `COLUMNS`, and whether it is like the best of its column
    note: str  # how many instances each column has, how many runs are missing, and how cells read

    @property
    def grid(self) -> pd.DataFrame:
        """Means with a row for each method and a column for each k; NaN where a partition is missing."""
        return self.cells.pivot(index="row", columns="k", values="value").reindex(self.cells["row"].unique())

    @property
    def numbers(self) -> pd.DataFrame:
        """The cells as numbers, for files."""
        return self.cells[list(COLUMNS)]

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows of text."""
        header = ["", *dict.fromkeys(self.cells["column"])]
        body: dict[str, list[str]] = {}
        for cell in self.cells.to_dict("records"):
            text = _number(cell["value"])
            if not np.isnan(cell["low"]):
                text += f" [{_number(cell['low'])}, {_number(cell['high'])}]"
            text += " ≈" * cell["like best"]
            text += "" if np.isnan(cell["solved"]) else f" ({cell['solved']:.0f} %)"
            body.setdefault(cell["row"], [str(cell["row"])]).append(text)
        return header, list(body.values())


@dataclass(frozen=True, eq=False)
class Grid:
    """Logarithms of ratios of methods (rows) on questions (columns); means over seeds."""

    labels: list[str]
    questions: pd.DataFrame  # question, k, cluster, simple
    complete: NDArray[np.bool_]  # (labels, questions), whether all runs ended well
    logs: FloatArray  # (labels, questions), NaN where a number is missing
    solved: FloatArray | None = None  # (labels, questions), part of the runs that were solved to optimality
    expected: int = 0  # runs that there should be
    missing: int = 0  # of them those that failed or are not there

    def of(self, label: str, k: int) -> tuple[FloatArray, list[str]]:
        """Logarithms of a method's ratios on the questions with k blocks, and the networks of these."""
        at = self.questions["k"].to_numpy() == k
        return self.logs[self.labels.index(label), at], self.questions["cluster"][at].tolist()


def heuristic_grid(frame: pd.DataFrame) -> Grid:
    """Logarithms of the bottlenecks of each heuristic over the bound *simple*."""
    rows = frame[frame["kind"] == "heuristic"]
    return _grid(frame, rows, _logarithm(ratio_of(rows["bottleneck"], rows["simple"])))


def bound_grid(frame: pd.DataFrame) -> Grid:
    """Logarithms of each bound over *simple*; missing bounds, and those below *simple*, count as 1.

    Values of linear relaxations may be below *simple*.
    """
    rows = frame[frame["kind"] == "model"]
    bound = np.fmax(rows["bound"].to_numpy(), rows["simple"].to_numpy())
    linear = rows["method"].str.endswith(LP_SUFFIX) & rows["bound"].notna()
    bound = np.where(linear, rows["bound"], bound)
    failed = rows["error"].notna().to_numpy() | rows["bound"].isna().to_numpy()
    logs = np.where(failed, np.nan, _logarithm(ratio_of(bound, rows["simple"])))
    grid = _grid(frame, rows, logs, solved=True)
    return replace(grid, logs=np.nan_to_num(grid.logs, nan=0.0, posinf=np.inf))


def certificate_grid(frame: pd.DataFrame, best: pd.Series[float] | None = None) -> Grid:
    """Logarithms of the best cost over the best of the first r bounds, a row for each r from 1 on."""
    rows = frame[frame["kind"] == "model"]
    grid = _grid(frame, rows, rows["bound"].to_numpy(), best=True)
    least = frame.groupby("question")["bottleneck"].min() if best is None else best
    cost = grid.questions["question"].map(least).to_numpy(dtype=float)
    reached = grid.logs
    if grid.labels:
        reached = np.fmax(np.fmax.accumulate(grid.logs, axis=0), grid.questions["simple"].to_numpy())
    return replace(grid, logs=_logarithm(ratio_of(np.broadcast_to(cost, reached.shape), reached)))


def heuristic_table(frame: pd.DataFrame) -> Table:
    """Table 1: bottleneck of each heuristic's partitions divided by the lower bound *simple*."""
    return table_of("table1", "Table 1: bottleneck over simple", heuristic_grid(frame), best=-1)


def bound_table(frame: pd.DataFrame) -> Table:
    """Table 2: each bound over *simple*, with the percentage solved to optimality."""
    return table_of("table2", "Table 2: bound over simple (solved to optimality)", bound_grid(frame), best=1)


def certificate_table(frame: pd.DataFrame) -> Table:
    """Table 3: the best cost over the best of the first bounds; each row adds one bound."""
    grid = certificate_grid(frame)
    labels = [label if i == 0 else f"+ {label}" for i, label in enumerate(grid.labels)]
    return table_of("table3", "Table 3: best partition over the best bound so far", replace(grid, labels=labels))


def time_table(frame: pd.DataFrame) -> Table:
    """Running time of each bound [s]."""
    rows = frame[(frame["kind"] == "model") & frame["error"].isna()]
    return _table_of_seconds("seconds", "Seconds of each bound", frame, rows, rows["seconds"].tolist())


def gap_table(frame: pd.DataFrame) -> Table:
    """Gap integral of each bound: its relative distance from the best cost, over time."""
    rows = frame[(frame["kind"] == "model") & frame["error"].isna() & frame["bottleneck"].notna()]
    ends = rows["question"].map(frame.groupby("question")["seconds"].max())
    values = [gap_integral(points, end) for points, end in zip(rows["points"], ends, strict=True)]
    return _table_of_seconds("gap-integral", "Gap integral of each bound [s]", frame, rows, values)


def primal_table(frame: pd.DataFrame) -> Table:
    """Primal integral of each search: its relative excess over the best cost, over time."""
    searches = (frame["kind"] == "heuristic") | (frame["method"] == CERTIFY)
    rows, best = frame[searches & frame["bottleneck"].notna()], frame.groupby("question")
    least, horizon = rows["question"].map(best["bottleneck"].min()), rows["question"].map(best["seconds"].max())
    values = [primal_integral(*run) for run in zip(rows["points"], least, horizon, strict=True)]
    return _table_of_seconds("primal-integral", "Primal integral of each search [s]", frame, rows, values)


def _table_of_seconds(name: str, title: str, frame: pd.DataFrame, rows: pd.DataFrame, values: list[float]) -> Table:
    """Table of shifted geometric means [s]: of seconds + 1, less 1, so that very short times hardly count."""
    grid = _grid(frame, rows, np.log1p(np.array(values)))
    table = table_of(name, f"{title} (mean of seconds + 1, less 1)", grid)
    cells = {name: table.cells[name] - 1 for name in ("value", "low", "high")}
    return replace(table, cells=table.cells.assign(**cells))


def running_times(frame: pd.DataFrame) -> dict[str, list[float]]:
    """Seconds of each bound's runs, for Figure 4."""
    rows = frame[(frame["kind"] == "model") & frame["error"].isna()]
    return {str(label): group["seconds"].tolist() for label, group in rows.groupby("label", sort=False)}


def profile_ratios(frame: pd.DataFrame) -> dict[str, list[float]]:
    """Ratios of each heuristic's costs to the best bound, NaN where one is missing."""
    bound = frame.groupby("question")["bound"].max()
    rows = frame[frame["kind"] == "heuristic"]
    rows = rows.assign(ratio=ratio_of(rows["bottleneck"], rows["question"].map(bound)))
    return {str(label): group["ratio"].tolist() for label, group in rows.groupby("label", sort=False)}


def costs(frame: pd.DataFrame) -> dict[str, FloatArray]:
    """Bottlenecks of each heuristic by question, means over seeds, NaN where one is missing."""
    rows = frame[frame["kind"] == "heuristic"]
    grid = _grid(frame, rows, _logarithm(rows["bottleneck"].to_numpy()))
    return dict(zip(grid.labels, np.exp(grid.logs), strict=True))


def _grid(
    frame: pd.DataFrame, rows: pd.DataFrame, values: FloatArray, *, solved: bool = False, best: bool = False
) -> Grid:
    """Values of runs by method and question: means over seeds, or the largest."""
    questions = frame[frame["simple"].notna()].drop_duplicates("question")[["question", "k", "cluster", "simple"]]
    labels = list(dict.fromkeys(rows["label"]))
    place = pd.Series(range(len(questions)), index=questions["question"])
    at = pd.Series(range(len(labels)), index=labels, dtype=int)
    column = rows["question"].map(place).to_numpy(dtype=float, na_value=np.nan)
    answered = ~np.isnan(column)
    where = (rows["label"].map(at).to_numpy(dtype=int)[answered], column[answered].astype(int))
    shape, measured = (len(labels), len(questions)), values[answered]
    counts = np.zeros(shape)
    np.add.at(counts, where, 1)
    result = np.full(shape, np.nan)
    if best:
        np.fmax.at(result, where, measured)
    else:
        np.copyto(result, 0.0, where=counts > 0)
        np.add.at(result, where, measured)
    with np.errstate(invalid="ignore"):
        result = result if best else result / counts
    share = None
    if solved:
        share = np.zeros(shape)
        np.add.at(share, where, rows["optimal"].eq(True).to_numpy()[answered])
        share /= np.maximum(counts, 1)
    failed = int(rows["error"].notna().to_numpy()[answered].sum())
    gone = int((counts == 0).sum())
    return Grid(labels, questions, ~np.isnan(result), result, share, int(counts.sum()) + gone, failed + gone)


def table_of(name: str, title: str, grid: Grid, best: int = 0) -> Table:
    """Means for each method and k; `best` is 1 or -1 if the largest or the smallest of a column is best."""
    rows, tests = [], []
    for k, group in grid.questions.reset_index(drop=True).groupby("k"):
        at, clusters = group.index.to_numpy(), group["cluster"].tolist()
        logs = grid.logs[:, at]
        mean = means(logs, clusters)
        for row, label in enumerate(grid.labels):
            solved = np.nan if grid.solved is None else 100 * grid.solved[row, at].mean()
            absent = int(np.count_nonzero(~grid.complete[row, at]))
            ends = [float(np.exp(end[row])) for end in mean[:3]]
            rows.append((name, label, f"k={k}", *ends, mean.graphs, mean.clusters, absent, solved, k))
        if best:
            tests += _against_best(best * logs, clusters)
    cells = pd.DataFrame(rows, columns=[*COLUMNS, "k"])
    cells["like best"] = _like_best(tests) if best else False
    return Table(name, title, cells.sort_values("k", kind="stable"), _note(grid, cells))


def _against_best(logs: FloatArray, clusters: list[str]) -> list[tuple[float, bool]]:
    """For each row, the p value of the test against the best row, and whether its interval excludes a tie.

    The p value is NaN for the best row itself, where a value is missing, and with too few clusters.
    """
    middle = logs.mean(axis=1)
    if len(set(clusters)) < LEAST_CLUSTERS or not np.isfinite(middle).any():
        return [(np.nan, False)] * len(logs)
    first = int(np.where(np.isfinite(middle), middle, -np.inf).argmax())
    with np.errstate(invalid="ignore"):
        losses = logs[first] - logs
    sums, counts = cluster_sums(losses, clusters)
    mean = means(losses, clusters)
    tested = [
        np.nan if row == first or np.isnan(differences).any() else paired_p(differences, counts)
        for row, differences in enumerate(sums)
    ]
    return [(p, bool(low > 0)) for p, low in zip(tested, mean.low, strict=True)]


def _like_best(tests: list[tuple[float, bool]]) -> NDArray[np.bool_]:
    """For each test of a table, whether the cell ties with the best of its column (p values corrected by Holm)."""
    p, outside = (np.array(part) for part in zip(*tests, strict=True)) if tests else (np.empty(0), np.empty(0, bool))
    corrected = holm(p.tolist())
    return ~np.isnan(corrected) & ~((corrected < SIGNIFICANT) & outside.astype(bool))


def _note(grid: Grid, cells: pd.DataFrame) -> str:
    counts = grid.questions.groupby("k")["question"].nunique()
    sizes = ", ".join(f"k={k}: {count}" for k, count in counts.items())
    count = str(counts.iloc[0]) if counts.nunique() == 1 else sizes
    clusters = int(cells["clusters"].min()) if len(cells) else 0
    note = f"Geometric mean over the instances ({count})"
    if clusters < LEAST_CLUSTERS:
        note += f"; no interval from fewer than {LEAST_CLUSTERS} networks, so that small differences say nothing."
    else:
        note += f" of {clusters} networks, [95 % interval]."
        note += " ≈: not told apart from the best of its column." if cells["like best"].any() else ""
    return note if not grid.missing else f"{note} {grid.missing} of {grid.expected} runs are missing."


def _logarithm(ratios: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(ratios)


def _number(value: float) -> str:
    if np.isnan(value):
        return "–"
    return "∞" if np.isinf(value) else f"{value:.3f}"


# The tables of the paper: make the runs that are missing, then print and write the tables of all of them.


#: Last rows of the tables, beyond the models of the registry.
_LAST = "exact+all"

#: A strengthened model with this suffix stands for itself without any one of its parts.
_EACH = "+each"


def make_tables(
    instances: Iterable[Instance],
    methods: Sequence[str] | None,
    options: SolveOptions,
    workers: Workers,
    report: Report,
    *,
    seeds: Sequence[int] = (),
    budgets: Sequence[float | None] = (None,),
) -> int:
    """Make missing runs, then print and write all tables; 1 if a run failed, else 0.

    Parameters
    ----------
    instances : iterable of Instance
    methods : sequence of str, optional
        Heuristics and models; "exact+each" is an ablation of the strengthened model. By default all that answer the
        questions.
    options : SolveOptions
        The time limit is for each bound.
    workers : Workers
    report : Report
    seeds, budgets : sequence
        Seeds and budgets of the heuristics, see `jobs_of`.

    Raises
    ------
    InputError, OSError, SolverNotAvailableError
        Before any run is made.
    """
    instances = list(instances)
    chosen = [*HEURISTICS, *MODELS, _LAST] if methods is None else _methods(methods)
    if not all(instance.is_alike for instance in instances):
        chosen = _over_kinds(chosen, named=methods is not None)
    with_simple = list(dict.fromkeys((*chosen, "simple")))  # the tables' reference
    with writing(report.out):
        jobs = jobs_of(instances, with_simple, options, seeds=seeds, budgets=budgets)
    find_solver(options.solver)
    runs = report.make_runs(jobs, workers)
    _publish(run_frame(runs), report)
    return report.exit_code([PartitionJob.failed(run) for run in runs])


def tables_from(files: Iterable[str | Path], report: Report) -> int:
    """Print and write the tables of files of runs, without running anything.

    Raises
    ------
    InputError, OSError
        If a file cannot be read, or there is no run of partitioning.
    """
    _publish(run_frame(_read(files)), report)
    return 0


def _read(files: Iterable[str | Path]) -> Iterator[Run]:
    for file in files:
        yield from read_runs(file)


def _publish(frame: pd.DataFrame, report: Report) -> None:
    report.publish(_sections(frame), lambda: _pictures(frame))


def _methods(names: Sequence[str]) -> list[str]:
    """Methods by name, with the names of ablations expanded."""
    methods = []
    for name in names:
        model, lp = name.removesuffix(LP_SUFFIX), LP_SUFFIX if name.endswith(LP_SUFFIX) else ""
        several = ablation(model.removesuffix(_EACH)) if model.endswith(_EACH) else (model,)
        methods += [part + lp for part in several]
    if any("+" in name for name in methods) and not any(name in HEURISTICS or is_address(name) for name in methods):
        option = said("methods", ",".join(names))
        raise InputError(f"{option}: a strengthened model needs a partition to start from; add a heuristic.")
    return methods


def _over_kinds(methods: Sequence[str], *, named: bool) -> list[str]:
    """The methods that take several kinds of devices; others are refused if they were `named`."""
    unfit = [by.name for by in run_methods(methods) if not by.takes_kinds]
    fit = [name for name in methods if name not in unfit]
    if named and unfit:
        option = said("methods", ",".join(methods))
        raise InputError(f"{option}: only for devices that are alike: {', '.join(unfit)}; leave that out.")
    return fit


def _sections(frame: pd.DataFrame) -> list[Section]:
    """Sections of the study: tables of searches if heuristics were run, tables of bounds if models were."""
    of_searches, of_bounds = (heuristic_table, primal_table), (bound_table, certificate_table, time_table, gap_table)
    is_searched, is_bounded = ((frame["kind"] == kind).any() for kind in ("heuristic", "model"))
    ratios = [make(frame) for make in of_searches if is_searched] + [make(frame) for make in of_bounds if is_bounded]
    title = "Instances, and the first bound to reach the best partition" if is_bounded else "Instances"
    closing = "First bound to reach the best partition, by part of the graphs"
    return [
        Section("instances", title, *instance_rows(frame)),
        *(Section(table.name, table.title, *table.rows(), table.note, numbers=table.numbers) for table in ratios),
        *([Section("closed", closing, *closing_rows(frame))] if is_bounded else []),
    ]


def _pictures(frame: pd.DataFrame) -> dict[str, Axes]:
    pictures = {"running-times": plot_running_times(running_times(frame))}
    if profiles := profile_ratios(frame):
        pictures["ratio-profile"] = plot_ratio_profile(profiles)
        pictures["performance-profile"] = plot_performance(costs(frame))
        pictures["table1"] = plot_intervals(heuristic_table(frame).cells, "bottleneck over simple")
    return pictures
