"""Frame of runs of partitioning, however many: one row a run, without its blocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from heuristics import HEURISTICS
from instances import InputError
from mtpp.runs.log import Run
from mtpp.runs.partition_job import CERTIFY, LP_SUFFIX, base_name
from mtpp.runs.statistics.intervals import cluster_of
from mtpp_models import MODELS, Strengthening

__all__ = ["instance_rows", "run_frame"]

#: Fields of a run that tables use; those that a file lacks are missing.
_NUMBERS = ("bottleneck", "bound", "simple", "seconds", "cpu_seconds", "communication_over_work", "time_limit")
_TEXTS = ("key", "question", "instance", "cluster", "kind", "method", "error", "solver", "version", "sources")
_FIELDS = (*_TEXTS, *_NUMBERS, "parameters", "n", "m", "k", "seed", "optimal")
#: What tells runs of one method apart, besides the seed, over which tables take means.
_CONFIGURATION = ("solver", "time_limit", "parameters", "version", "sources")
_ORDER = {name: i for i, name in enumerate((*HEURISTICS, *MODELS, CERTIFY))}
#: Digits of a hash that tell one from another.
_DIGITS = 8


def run_frame(runs: Iterable[Run]) -> pd.DataFrame:
    """Frame of runs, the last one of each key.

    Returns
    -------
    DataFrame
        Besides the fields of a run it has `label` (the method, and its configuration if there are several), `simple`
        (NaN where that bound was not run) and `cluster` (the network of the graph). Rows are in the order of tables.

    Raises
    ------
    InputError
        If there is no run of partitioning, or none of them has the bound *simple* to be compared with.
    """
    columns: dict[str, list[Any]] = {name: [] for name in _FIELDS}
    for run in runs:
        if run["kind"] in ("heuristic", "model"):
            for name, column in columns.items():
                column.append(run.get(name))
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
    """Header and rows of text of the instances: name, n, m, communication over work."""
    unique = frame.drop_duplicates("instance").sort_values("instance")
    shares = ["–" if pd.isna(share) else f"{share:.3f}" for share in unique["communication_over_work"]]
    rows = zip(unique["instance"], unique["n"], unique["m"], shares, strict=True)
    return ["instance", "n", "m", "comm/work"], [[str(cell) for cell in row] for row in rows]


def _simple(frame: pd.DataFrame) -> pd.Series[float]:
    """The bound *simple* by question, from the runs that have it in a field, or of the method itself."""
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
            shown = texts.str.slice(stop=_DIGITS) if name == "sources" else texts
            labels = labels.where(~several, labels + f" {name}=" + shown)
    return labels


def _place(method: str) -> tuple[int, bool, int]:
    """Sort key of a method in tables: order of the registries, relaxations first, then by strength; others last."""
    _, plus, parts = method.removesuffix(LP_SUFFIX).partition("+")
    place = _ORDER.get(base_name(method), len(_ORDER))
    strength = sum(vars(Strengthening.of(parts)).values()) if plus and place < len(_ORDER) else 0
    return place, not method.endswith(LP_SUFFIX), strength
