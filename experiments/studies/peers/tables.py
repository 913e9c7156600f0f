"""Methods of this project beside solvers and searches of other packages, each with the same time on the same questions.

Solvers solve the exact program alone, from no partition; `certify` has the same time for search and proof together.
What a package cannot take, as models beyond a limited licence, counts as no answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.studies.peers.methods import metis, pymoo_brkga
from experiments.studies.report import Report, Section
from instances import Instance, Platform
from instances.architectures import ARCHITECTURES
from instances.random_graphs import GRAPH_MODELS, regal_style
from mtpp.plots.profiles import plot_performance
from mtpp.runs.statistics import compare_methods, geometric_means
from mtpp_models import SolveOptions, available_solvers

#: Blocks, sizes of random graphs, networks, and seconds for each run.
BLOCKS, SIZES, NETWORKS, SECONDS = (4, 8), (60, 140), ("squeezenet", "gnmt", "densenet121"), 5.0
#: Searches of this project, and those of other packages.
SEARCHES = ("kahn", "local-search", "portfolio", metis, pymoo_brkga)
_CERTIFY, _EXACT, _SEED = "certify", "exact", 8107


def questions(*, quick: bool = False) -> list[Instance]:
    """Random graphs in the style of REGAL's at bandwidth 1, and networks of batch 1 at 25 GB/s."""
    asked = []
    for k in BLOCKS[:1] if quick else BLOCKS:
        for n in SIZES[:1] if quick else SIZES:
            asked += [Instance(regal_style(family, n, _SEED + n), Platform(k, 1.0)) for family in GRAPH_MODELS]
        networks = () if quick else NETWORKS
        asked += [Instance(ARCHITECTURES[name].build(), Platform(k, 25e9)) for name in networks]
    return asked


def peers(asked: list[Instance], seconds: float, report: Report, jobs: int) -> pd.DataFrame:
    """A frame of `mtpp.compare` with a row for each run; solvers are methods by their names."""
    options = SolveOptions(time_limit=seconds)
    words: dict[str, Any] = {"file": report.out, "jobs": jobs, "accept_old": report.accept_old}
    searches = compare_methods(asked, [*SEARCHES, _CERTIFY], ["highs"], options, budgets=[seconds], **words)
    proofs = compare_methods(asked, [_EXACT], list(available_solvers()), options, **words)
    proofs["method"] = _EXACT + ", " + proofs["solver"]
    return pd.concat([searches, proofs], ignore_index=True)


def peer_section(frame: pd.DataFrame) -> Section:
    """Table of methods: questions answered, costs over the best, bounds below the best, proofs."""
    frame = frame.assign(question=frame["graph"] + " " + frame["k"].astype(str))
    best = frame.groupby("question")["bottleneck"].min()
    bound = frame.groupby("question")["bound"].max()
    rows = []
    for method, runs in frame.groupby("method", sort=False):
        runs = runs.set_index("question")
        costs, bounds = (runs["bottleneck"] / best[runs.index]).dropna(), (bound[runs.index] / runs["bound"]).dropna()
        proved = int((runs["bound"] * (1 + 1e-6) >= runs["bottleneck"]).sum())
        rows.append(
            [
                str(method),
                f"{len(costs)} of {len(runs)}",
                _mean(costs, runs),
                "–" if bounds.empty else _mean(bounds, runs),
                "–" if bounds.empty else str(proved),
                f"{runs['cpu_seconds'].mean():.1f}",
            ]
        )
    header = ["method", "answered", "cost over the best", "best bound over its", "proved", "processor [s]"]
    note = (
        "Geometric means over the questions that a method answered, with 95 % intervals over graphs;\n"
        "the best of a question is that of all rows. Proved: cost and bound are equal."
    )
    numbers = frame.drop(columns="question")
    return Section("peers", "The same questions for the same time", header, rows, note, numbers=numbers)


def _mean(ratios: pd.Series[float], runs: pd.DataFrame) -> str:
    """Geometric mean with its interval, if there are enough graphs for one."""
    mean = geometric_means([ratios.to_numpy()], runs.loc[ratios.index, "cluster"].tolist())
    interval = "" if np.isnan(mean.low[0]) else f" [{mean.low[0]:.4f}, {mean.high[0]:.4f}]"
    return f"{mean.value[0]:.4f}{interval}"


def plot_peers(frame: pd.DataFrame) -> Mapping[str, Axes]:
    """Performance profile of the costs."""
    costs = frame.pivot_table(index=["graph", "k"], columns="method", values="bottleneck", dropna=False, sort=False)
    return {"peers": plot_performance({str(name): costs[name].to_numpy() for name in costs})}


def make_peer_tables(report: Report, jobs: int, *, quick: bool = False) -> int:
    """Make the runs that are missing, print and write the table and its picture; the exit code."""
    frame = peers(questions(quick=quick), SECONDS / 5 if quick else SECONDS, report, jobs)
    report.publish([peer_section(frame)], lambda: plot_peers(frame))
    return 0
