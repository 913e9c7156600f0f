"""Runs of pipelined training as a frame, point by point of the figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from experiments.studies.spp.jobs import BOUND, STAGES, TABLE_III, Question
from heuristics.planning import PLANNERS
from mtpp.runs.job import Run
from mtpp.runs.statistics import geometric_mean

#: Of each figure with planners side by side, its title and its axis.
TITLES = {
    "6": ("Figure 6: time of an iteration by number of microbatches", "microbatches"),
    "7": ("Figure 7: by bandwidth between servers", "bandwidth between servers [Gbps]"),
    "8": ("Figure 8: by topology", "servers x devices"),
    "9": ("Figure 9: by number of transformer layers", "transformer layers"),
    "10": ("Figure 10: by size of activations", "factor of the activations"),
    f"{TABLE_III} 1080ti-8": ("Table III, 1080Ti x 8, analytic layer times", "model"),
    f"{TABLE_III} v100-4": ("Table III, V100 x 4, analytic layer times", "model"),
}


def training_frame(questions: Sequence[Question], runs: Iterable[Run]) -> pd.DataFrame:
    """Frame with one row for each question and method, with `figure` and `label`; in the order of `questions`."""
    rows = [(q.figure, q.label, q.instance.key) for q in questions]
    where = pd.DataFrame(rows, columns=["figure", "label", "question"])
    answers = pd.DataFrame(list(runs)).astype({"time": float, "bound": float, "utilisation": float})
    return where.merge(answers, on="question", sort=False)


def points(frame: pd.DataFrame, figure: str, method: str) -> pd.DataFrame:
    """Rows of a method in a figure."""
    return frame[(frame["figure"] == figure) & (frame["method"] == method)]


def mean_ratios(frame: pd.DataFrame, figure: str) -> pd.DataFrame:
    """Mean ratios over the clusters by label: each planner over SPP, and two of them over the bound."""
    rows = frame[frame["figure"] == figure]
    times = rows.pivot_table(index=["label", "question"], columns="method", values="time", sort=False)
    times = times.reindex(columns=list(PLANNERS))
    bounds = points(frame, figure, BOUND).set_index(["label", "question"])["bound"]
    ratios = times.div(times["spp"], axis=0)
    for method in ("spp", "improved"):
        ratios[f"{method} over bound"] = times[method] / bounds
    return ratios.groupby("label", sort=False).agg(geometric_mean)


def mean_times(frame: pd.DataFrame, figure: str, method: str) -> pd.Series:
    """Mean times of a method over the clusters by label [s]."""
    return points(frame, figure, method).groupby("label", sort=False)["time"].mean()


def by_stages(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of stages, and the means over the clusters of W and of SPP's time; empty if no run has them."""
    rows = frame[(frame["method"] == STAGES) & frame["error"].isna()]
    if rows.empty:
        return np.empty(0, dtype=int), np.empty(0), np.empty(0)
    workloads, times = (np.mean(rows[column].to_list(), axis=0) for column in ("workloads", "times"))
    return np.arange(1, len(times) + 1), workloads, times


def percent(ratio: float) -> str:
    """Format the amount by which a ratio is above 1."""
    return "–" if np.isnan(ratio) else f"{100 * (ratio - 1):+.1f} %"
