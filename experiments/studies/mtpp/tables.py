"""The paper's Tables 1 to 3 as pure functions of runs.

Every cell is a geometric mean over all instances of that column. A missing bound counts as *simple*, a missing
partition makes the cell '–'. The ratio of 0 to 0 is 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from heuristics import HEURISTICS
from instances import InputError
from mtpp.runs.log import Run
from mtpp.runs.partition_job import CERTIFY, LP_SUFFIX, base_name
from mtpp_models import MODELS, Strengthening

__all__ = [
    "Table",
    "bound_table",
    "certificate_table",
    "geometric_mean",
    "heuristic_table",
    "instance_rows",
    "profile_ratios",
    "run_frame",
    "running_times",
    "time_table",
]

_CONFIGURATION = ("solver", "time_limit", "parameters", "seed", "version")
_ORDER = {name: i for i, name in enumerate((*HEURISTICS, *MODELS, CERTIFY))}


@dataclass(frozen=True, eq=False)
class Table:
    """Ratios by method and k."""

    name: str  # of its files
    title: str  # heading
    cells: pd.DataFrame  # one row a method, one column a k; NaN where a partition is missing
    solved: pd.DataFrame | None  # percentage of instances solved to optimality, same shape
    note: str  # how many instances each column has, and how many runs are missing

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows of text."""
        body = []
        for i, label in enumerate(self.cells.index):
            cells = [_cell(float(value)) for value in self.cells.iloc[i]]
            if self.solved is not None:
                cells = [f"{c} ({p:.0f} %)" for c, p in zip(cells, self.solved.iloc[i], strict=True)]
            body.append([str(label), *cells])
        return ["", *(f"k={k}" for k in self.cells.columns)], body


def run_frame(runs: Iterable[Run]) -> pd.DataFrame:
    """Frame of runs, with the columns `label` (the method, and its configuration if there are several) and `simple`.

    Raises
    ------
    InputError
        If there is no run, or an instance has no run of *simple*.
    """
    frame = pd.DataFrame(list(runs))
    if frame.empty:
        raise InputError("There is no run to make a table of.")
    for column in ("bottleneck", "bound", "seconds"):
        frame[column] = frame[column].astype(float)
    simple = frame[(frame["method"] == "simple") & frame["error"].isna()].groupby("question")["bound"].max()
    frame["simple"] = frame["question"].map(simple)
    for _, run in frame[frame["simple"].isna()].head(1).iterrows():
        raise InputError(f"{run['instance']}, k = {run['k']} has no run of the bound 'simple'; make one first.")
    frame["label"] = frame["method"]
    for _, group in frame.groupby("method"):
        texts = {c: group[c].map(str) for c in _CONFIGURATION}
        for column in (c for c in _CONFIGURATION if texts[c].nunique() > 1):
            frame.loc[group.index, "label"] += f" {column}=" + texts[column]
    order = frame["method"].map(lambda name: (_ORDER[base_name(name)], not name.endswith(LP_SUFFIX), _strength(name)))
    return frame.assign(_order=order).sort_values(["_order", "label", "k"], kind="stable").drop(columns="_order")


def heuristic_table(frame: pd.DataFrame) -> Table:
    """Table 1: the partitions of each heuristic over *simple*."""
    rows = frame[frame["kind"] == "heuristic"]
    title = "Table 1: bottleneck over simple"
    return _table("table1", title, frame, rows, lambda run: _ratio(run["bottleneck"], run["simple"]), math.nan)


def bound_table(frame: pd.DataFrame) -> Table:
    """Table 2: each bound over *simple*, with the percentage solved to optimality."""
    rows = frame[frame["kind"] == "model"]
    title = "Table 2: bound over simple (solved to optimality)"
    table = _table(
        "table2", title, frame, rows, lambda run: _ratio(max(_or(run["bound"], 0.0), run["simple"]), run["simple"]), 1.0
    )
    counts = frame.groupby("k")["question"].nunique()
    solved = rows[rows["optimal"].eq(True)].groupby(["label", "k"])["question"].nunique().unstack("k")
    percent = 100 * solved.reindex(index=table.cells.index, columns=table.cells.columns).fillna(0) / counts
    return Table(table.name, table.title, table.cells, percent, table.note)


def certificate_table(frame: pd.DataFrame) -> Table:
    """Table 3: the best partition over the best bound so far; each row adds one bound, so columns only fall."""
    best = frame.groupby("question")["bottleneck"].min()
    rows = frame[frame["kind"] == "model"].copy()
    labels = list(dict.fromkeys(rows["label"]))
    grid = rows.pivot(index="question", columns="label", values="bound")[labels]
    so_far = grid.T.fillna(0).cummax().T.stack()
    questions = frame.drop_duplicates("question").set_index("question")
    reached = pd.DataFrame({"bound": so_far}).reset_index()
    reached["simple"] = reached["question"].map(questions["simple"])
    reached["bound"] = reached[["bound", "simple"]].max(axis=1)
    reached["bottleneck"] = reached["question"].map(best)
    reached["k"] = reached["question"].map(questions["k"])
    table = _table(
        "table3",
        "Table 3: best partition over the best bound so far",
        frame,
        reached,
        lambda run: _ratio(run["bottleneck"], run["bound"]),
        math.nan,
    )
    cells = table.cells.set_axis([labels[0], *(f"+ {label}" for label in labels[1:])])
    return Table(table.name, table.title, cells, None, _note(frame, rows))


def time_table(frame: pd.DataFrame) -> Table:
    """Seconds of each bound; means are geometric ones of seconds + 1, less 1, so that blinks do not count."""
    rows = frame[(frame["kind"] == "model") & frame["error"].isna()]
    title = "Seconds of each bound (mean of seconds + 1, less 1)"
    table = _table("seconds", title, frame, rows, lambda run: 1 + run["seconds"], math.nan)
    return replace(table, cells=table.cells - 1)


def instance_rows(frame: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Header and rows of text of the instances: name, n, m, communication over work."""
    unique = frame.drop_duplicates("instance")
    body = [
        [str(run["instance"]), str(run["n"]), str(run["m"]), _cell(_or(run["communication_over_work"], math.nan))]
        for _, run in unique.sort_values("instance").iterrows()
    ]
    return ["instance", "n", "m", "comm/work"], body


def running_times(frame: pd.DataFrame) -> dict[str, list[float]]:
    """Seconds of each bound's runs, for Figure 4."""
    rows = frame[(frame["kind"] == "model") & frame["error"].isna()]
    return {str(label): group["seconds"].tolist() for label, group in rows.groupby("label", sort=False)}


def profile_ratios(frame: pd.DataFrame) -> dict[str, list[float]]:
    """Ratios of each heuristic's partitions to the best bound, NaN where one is missing."""
    bound = frame.groupby("question")["bound"].max()
    rows = frame[frame["kind"] == "heuristic"]
    ratios = [_ratio(run["bottleneck"], bound[run["question"]]) for _, run in rows.iterrows()]
    rows = rows.assign(ratio=ratios)
    return {str(label): group["ratio"].tolist() for label, group in rows.groupby("label", sort=False)}


def geometric_mean(values: Iterable[float]) -> float:
    """Geometric mean of positive numbers; infinite if one is, NaN if one is NaN.

    Examples
    --------
    >>> geometric_mean([1.0, 4.0])
    2.0
    """
    return float(np.exp(np.mean(np.log(list(values)))))


def _table(
    name: str,
    title: str,
    frame: pd.DataFrame,
    rows: pd.DataFrame,
    ratio: Callable[[Mapping[Hashable, Any]], float],
    missing: float,
) -> Table:
    """Mean over all instances of `frame` for each label of `rows`; `missing` replaces a run that does not exist."""
    cells: dict[Any, dict[str, float]] = {}
    by_label_and_question = rows.set_index(["label", "question"])
    for k, column in frame.groupby("k"):
        for label in dict.fromkeys(rows["label"]):
            values = []
            for question in column["question"].unique():
                there = (label, question) in by_label_and_question.index
                values.append(ratio(by_label_and_question.loc[(label, question)]) if there else missing)
            cells.setdefault(k, {})[label] = geometric_mean(values)
    return Table(name, title, pd.DataFrame(cells), None, _note(frame, rows))


def _strength(method: str) -> int:
    """Number of parts of a strengthened model."""
    _, plus, parts = method.removesuffix(LP_SUFFIX).partition("+")
    return sum(vars(Strengthening.of(parts)).values()) if plus else 0


def _note(frame: pd.DataFrame, rows: pd.DataFrame) -> str:
    counts = frame.groupby("k")["question"].nunique()
    sizes = ", ".join(f"k={k}: {count}" for k, count in counts.items())
    count = str(counts.iloc[0]) if counts.nunique() == 1 else sizes
    expected = rows["label"].nunique() * int(counts.sum())
    missing = expected - (int(rows["error"].isna().sum()) if "error" in rows else len(rows))
    note = f"Geometric mean over the instances ({count})."
    return note if missing == 0 else f"{note} {missing} of {expected} runs are missing."


def _ratio(value: float, reference: float) -> float:
    """Value over reference; 1 for 0 over 0, infinite for something over 0."""
    if reference > 0 or math.isnan(value) or math.isnan(reference):
        return value / reference
    return 1.0 if value == 0 else math.inf


def _or(value: float | None, other: float) -> float:
    return other if value is None or math.isnan(value) else float(value)


def _cell(value: float) -> str:
    if math.isnan(value):
        return "–"
    return "∞" if math.isinf(value) else f"{value:.3f}"
