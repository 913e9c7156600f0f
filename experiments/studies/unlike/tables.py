"""``mtpp table unlike``: rules of thumb over proved optima, and published clusters beside ours."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.studies.report import Report, Section
from experiments.studies.unlike.jobs import PHASES, RULES, SECONDS, UnlikeJob, flow_jobs, unlike_jobs
from mtpp.plots.partitions import plot_rules
from mtpp.plots.plans import plot_flows
from mtpp.runs.job import Run
from mtpp.runs.workers import Workers

#: Gap [%] and seconds of a solver with 20 threads, as its logs in the artifact of Helix (Mei et al., ASPLOS 2025) say.
_SOLVER = {
    "10-nodes-30b": (0, 3803),
    "24-nodes-one-cluster-70b": (5953, 600),
    "42-nodes-70b": (5523, 4382),
    "42-nodes-pruned-70b": (2122, None),
    "24-nodes-three-sites-70b": (7211, None),
    "24-nodes-three-sites-pruned-70b": (3670, None),
}
_RATIOS = (
    "Bottleneck of each rule over the proved optimum on the same devices; – where the rule's cut does not fit into\n"
    "their memories. Layers in proportion to: nothing, memory, peak rate, and the speed of a layer on that device.\n"
    "The devices stand in the order in which the cluster names them; the optimum may order them otherwise, and\n"
    "leave some out."
)
_WORST = "Over all questions that have an answer. Fits: how many of the rule's cuts do."
_FLOWS = (
    "Requests per second. Published: the layers of the published answer, its gap as the solver proved it with 20\n"
    "threads, and its seconds. Here: twenty seconds on one thread for search and proof together."
)


def make_unlike_tables(
    workers: Workers, report: Report, networks: Sequence[str] | None = None, limit: float | None = SECONDS
) -> int:
    """Make missing runs, then print and write tables and pictures; 1 if a run failed, else 0.

    Raises
    ------
    InputError, OSError
        Before any run is made.
    """
    published = flow_jobs(limit)
    if isinstance(published, str):
        print(f"unlike: {published}.", file=sys.stderr)
        published = []
    runs = report.make_runs([*unlike_jobs(networks), *published], workers)
    done = [run for run in runs if not UnlikeJob.failed(run)]
    flows = [run for run in done if run["method"] == "flow"]
    cuts = [run for run in done if run["method"] != "flow" and run["best"] is not None]
    sections = [_ratios(cuts), _summary(cuts), _cuts(cuts), *([_published(flows)] if flows else [])]
    report.publish(sections, lambda: _pictures(cuts, flows))
    return report.exit_code([UnlikeJob.failed(run) for run in runs])


def ratio_of(run: Run, rule: str) -> float | None:
    """Bottleneck of the rule over the optimum; None if the rule's cut does not fit."""
    bottleneck = run["rules"][rule]["bottleneck"]
    return None if bottleneck is None else float(bottleneck / run["best"]["bottleneck"])


def _ratios(runs: Sequence[Run]) -> Section:
    rows = [
        [
            *_question(run),
            f"{run['best']['bottleneck'] * 1e3:.4g}",
            *("–" if (ratio := ratio_of(run, rule)) is None else f"{ratio:.3f}" for rule in RULES),
        ]
        for run in runs
    ]
    numbers = pd.DataFrame(
        [(*_question(run), rule, run["best"]["bottleneck"], ratio_of(run, rule)) for run in runs for rule in RULES],
        columns=[*_QUESTION, "rule", "best", "ratio"],
    ).astype({"ratio": float})
    title = "Rules of thumb over the proved optimum"
    return Section("unlike-rules", title, [*_QUESTION, "best [ms]", *RULES], rows, _RATIOS, numbers=numbers)


def _summary(runs: Sequence[Run]) -> Section:
    rows = []
    for phase in PHASES:
        for rule in RULES:
            ratios = [ratio_of(run, rule) for run in runs if run["phase"] == phase]
            fitting = [ratio for ratio in ratios if ratio is not None]
            mean = f"{np.exp(np.mean(np.log(fitting))):.3f}" if fitting else "–"
            worst = f"{max(fitting):.3f}" if fitting else "–"
            rows.append([phase, rule, f"{len(fitting)} of {len(ratios)}", mean, worst])
    header = ["phase", "rule", "fits", "geometric mean", "worst"]
    return Section("unlike-summary", "What each rule costs", header, rows, _WORST)


def _cuts(runs: Sequence[Run]) -> Section:
    rows = [[*_question(run), _layers(run["best"])] for run in runs]
    return Section("unlike-layers", "Layers of the best cut, in order", [*_QUESTION, "layers"], rows, text={3})


def _published(runs: Sequence[Run]) -> Section:
    rows = []
    for run in runs:
        gap, seconds = _SOLVER.get(run["instance"], (None, None))
        rows.append(
            [
                run["instance"],
                f"{run['published']:,.1f}",
                "–" if gap is None else f"{gap:,} %",
                "–" if seconds is None else f"{seconds:,}",
                f"{run['flow']:,.1f}",
                f"{run['most']:,.1f}",
                f"{(run['most'] / run['flow'] - 1) * 100:.3f} %",
                run["by"],
            ]
        )
    header = ["cluster", "published", "its gap", "its s", "here", "at most", "gap", "by"]
    numbers = pd.DataFrame(runs)[["instance", "published", "flow", "most", "by"]]
    return Section("unlike-flow", "Published clusters [requests/s]", header, rows, _FLOWS, numbers=numbers)


def _pictures(runs: Sequence[Run], flows: Sequence[Run]) -> dict[str, Axes]:
    pictures = {}
    for phase in PHASES:
        of_phase = [run for run in runs if run["phase"] == phase]
        labels = [f"{run['network']}, {run['cluster']}" for run in of_phase]
        ratios = {rule: [ratio_of(run, rule) for run in of_phase] for rule in RULES}
        quantity = f"bottleneck of the rule over the proved optimum, {phase}"
        pictures[f"unlike-{phase}"] = plot_rules(labels, ratios, quantity)
    if flows:
        columns = {
            "published": [run["published"] for run in flows],
            "here": [run["flow"] for run in flows],
            "proved to be the most": [run["most"] for run in flows],
        }
        pictures["unlike-flow"] = plot_flows([run["instance"] for run in flows], columns)
    return pictures


_QUESTION = ("decoder", "phase", "devices")


def _question(run: Run) -> list[str]:
    return [run["network"], run["phase"], run["cluster"]]


def _layers(run: dict[str, Any]) -> str:
    """The devices with their numbers of layers, as text; equal neighbours are one item."""
    rows = [(*item, len(list(same))) for item, same in groupby(run["layers"])]
    return ", ".join(f"{name}: {count}" + (f" (x{times})" if times > 1 else "") for name, count, times in rows)
