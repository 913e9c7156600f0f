"""``mtpp table placement``: Placeto's Table 1, Figure 5, orders and ablations, and which claims hold here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from experiments.placement_jobs import ABLATIONS, OTHER_DEVICES, Budget, plan_jobs
from experiments.placement_runs import make_runs
from experiments.plots import save_figure
from experiments.rendering import FORMATS
from experiments.runs import Run, RunLog
from instances import InputError
from instances.families import PLACEMENT_FAMILIES

__all__ = ["Claim", "Measured", "claims", "make_placement_tables", "plot_distributions", "table_rows"]

_NOTE = (
    "Step time over the work of the graph on one device, mean over the test graphs, median of the seeds; in brackets "
    "the simulations of a graph. Rows 'anneal, as …' have as many simulations as the row that they are named after."
)
#: Rows of the first table, and the run that each is from.
_ROWS = {
    **dict.fromkeys(("single", "random, mean", "random", "expert", "metis", "scotch", "heft", "climb, 6n"), "rivals"),
    **dict.fromkeys(("zero-shot", "anneal, as zero-shot", "sampled", "anneal, as sampled"), "fast"),
    "zero-shot + climb, 4n": "fast",
    "anneal, long": "rivals",
}
_ALONE_ROWS = {
    "planner, zero-shot": ("planner", "zero-shot"),
    "planner, optimised": ("planner", "best"),
    "placeto, zero-shot": ("fast", "zero-shot"),
    "placeto, optimised, likeliest": ("optimised", "likeliest"),
    "placeto, optimised, best": ("optimised", "best"),
    "anneal, as optimised": ("optimised", "anneal, as best"),
}


class Claim(NamedTuple):
    """What is said, whether it is so here (None: a number is missing), and what was measured."""

    source: str
    text: str
    holds: bool | None
    measured: str


class Measured:
    """Answers of runs by family and kind.

    Parameters
    ----------
    runs : iterable of Run
        Those that failed are left out.
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = [run for run in runs if run["error"] is None]
        self.families = list(dict.fromkeys(run["instance"] for run in self._of("fast")))

    def answers(self, family: str, what: str) -> list[dict[str, Any]]:
        """Answers of all seeds."""
        return [run["answer"] for run in self._of(what) if run["instance"] == family]

    def value(self, family: str, what: str, name: str, graphs: int | None = None) -> float | None:
        """Median over seeds of the mean over (the first few) graphs."""
        found = [np.mean(a[name]["times"][:graphs]) for a in self.answers(family, what) if name in a]
        return float(median(found)) if found else None

    def simulations(self, family: str, what: str, name: str) -> float | None:
        """Median over seeds of the mean simulations of a graph; None if none are counted."""
        counts = [a[name]["simulations"] for a in self.answers(family, what) if name in a]
        return float(median(np.mean(c) for c in counts)) if counts and None not in counts else None

    def ablation(self, name: str) -> float | None:
        """Median over seeds of one design."""
        found = [run["answer"] for run in self._of("ablation") if run["options"]["name"] == name]
        return float(median(np.mean(a["zero-shot"]["times"]) for a in found)) if found else None

    def graphs(self, family: str) -> int:
        """Number of graphs that were optimised one by one."""
        return min((len(a["best"]["times"]) for a in self.answers(family, "optimised")), default=0)

    def _of(self, what: str) -> list[Run]:
        return [run for run in self._runs if run["method"] == what]


def make_placement_tables(*, budget: Budget, out: Path, folder: Path | None, style: str) -> int:
    """Make the runs that are missing, then print and write tables, figures and claims of all of them.

    Parameters
    ----------
    budget : Budget
    out : Path
        File of runs; those done are not repeated.
    folder : Path, optional
        Where tables (.md, .csv, .tex) and figures (.png, .svg) go.
    style : str
        Format of the printed tables.

    Returns
    -------
    int
        0, or 1 if a run failed.

    Raises
    ------
    InputError, OSError
        Before any run is made, also where PyTorch is missing.
    """
    if style not in FORMATS:
        raise InputError(f"--format {style}: choose one of {', '.join(FORMATS)}.")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with RunLog(out) as log:
            runs = make_runs(plan_jobs(PLACEMENT_FAMILIES, budget), log)
    except KeyboardInterrupt:
        print(f"Stopped; {out} holds the runs that are done, and the same call makes the rest.", file=sys.stderr)
        raise
    measured = Measured(runs)
    for name, (caption, rows) in TABLES.items():
        header, body = rows(measured)
        print(f"{caption}\n\n{FORMATS[style](header, body)}\n")
        if folder is not None:
            for suffix in ("md", "csv", "tex"):
                text = FORMATS[suffix](header, body) + "\n"
                (folder / f"placement-{name}.{suffix}").write_text(text, encoding="utf-8")
    print(_NOTE)
    if folder is not None:
        for family in measured.families:
            for suffix in ("png", "svg"):
                save_figure(plot_distributions(measured, family), folder / f"placement-{family}.{suffix}")
    failed = [run for run in runs if run["error"] is not None]
    if failed:
        print(f"{len(failed)} of {len(runs)} runs failed; {out} has the reasons.", file=sys.stderr)
    return int(bool(failed))


def table_rows(measured: Measured) -> tuple[list[str], list[list[str]]]:
    """The shape of Table 1: what each method reaches, and how many placements it has looked at."""
    rows = [[row, *(_cell(measured, family, what, row) for family in measured.families)] for row, what in _ROWS.items()]
    return ["on 16 unseen graphs, k = 4", *measured.families], rows


def _alone_rows(measured: Measured) -> tuple[list[str], list[list[str]]]:
    rows = []
    for row, (what, name) in _ALONE_ROWS.items():
        cells = [_cell(measured, family, what, name, measured.graphs(family)) for family in measured.families]
        rows.append([row, *cells])
    return ["on single graphs", *measured.families], rows


def _transfer_rows(measured: Measured) -> tuple[list[str], list[list[str]]]:
    rows = []
    for name in ("large", *(f"k = {k}" for k in OTHER_DEVICES)):
        for row in (name, f"{name}: anneal", f"{name}: metis", f"{name}: heft"):
            rows.append([row, *(_cell(measured, family, "fast", row) for family in measured.families)])
    orders = [_orders(measured, family) for family in measured.families]
    rows.append(["random orders, least to largest", *(f"{low:.3f} to {high:.3f}" for low, high in orders)])
    return ["carried over, zero-shot", *measured.families], rows


def _ablation_rows(measured: Measured) -> tuple[list[str], list[list[str]]]:
    return ["ablation, k = 2", "ptb"], [[name, _number(measured.ablation(name))] for name in ABLATIONS]


def _claim_rows(measured: Measured) -> tuple[list[str], list[list[str]]]:
    said = {True: "yes", False: "NO", None: "–"}
    rows = [[claim.text, claim.source, said[claim.holds], claim.measured] for claim in claims(measured)]
    return ["claim", "of", "holds", "measured"], rows


#: Name of a file to its caption and its rows.
TABLES: dict[str, tuple[str, Callable[[Measured], tuple[list[str], list[list[str]]]]]] = {
    "unseen": ("Zero-shot and its rivals (Table 1)", table_rows),
    "alone": ("Optimised for each graph alone (Table 1 and Figure 5)", _alone_rows),
    "transfer": ("Other sizes, numbers of devices and traversal orders", _transfer_rows),
    "ablations": ("Ablations after few updates", _ablation_rows),
    "claims": ("Claims; those that do not reproduce say NO", _claim_rows),
}


def claims(measured: Measured) -> list[Claim]:
    """What the paper says, and what one would like to hold, against the numbers."""
    found = []
    for family in measured.families:

        def value(what: str, name: str, family: str = family) -> float | None:
            return measured.value(family, what, name)

        zero_shot, sampled = value("fast", "zero-shot"), value("fast", "sampled")
        for rival in ("metis", "heft", "expert"):
            found.append(_less(_PAPER, f"{family}: zero-shot beats {rival}", zero_shot, value("rivals", rival)))
        graphs = measured.graphs(family)
        here = measured.value(family, "fast", "zero-shot", graphs)
        for row, name in (("likeliest", "likeliest"), ("best", "best placement")):
            text = f"{family}: zero-shot is within 5 % of the {name} of optimising for the graph"
            found.append(_less(_PAPER, text, here, _times(1.05, measured.value(family, "optimised", row))))
        text = f"{family}: optimised Placeto beats the optimised planner"
        optimised, planned = measured.value(family, "optimised", "best"), measured.value(family, "planner", "best")
        found.append(_less(_PAPER, text, optimised, planned))
        low, high = _orders(measured, family)
        text = f"{family}: any traversal order is within 3 % of their mean"
        found.append(Claim(_PAPER, text, high - low <= 0.06 * (high + low) / 2, f"{low:.3f} to {high:.3f}"))
        for name, number in (("zero-shot", zero_shot), ("sampled", sampled)):
            text = f"{family}: {name} beats annealing at equal simulations"
            found.append(_less(_OURS, text, number, value("fast", f"anneal, as {name}")))
        text = f"{family}: sampled beats long annealing"
        found.append(_less(_OURS, text, sampled, value("rivals", "anneal, long")))
    full, part, none = (measured.ablation(f"placeto{name}") for name in ("", ", partitioner", ", aggregator"))
    found.append(_less(_PAPER, "ablation: the full policy beats the partitioner", full, part))
    found.append(_less(_PAPER, "ablation: the partitioner beats the aggregator", part, none))
    step, terminal = measured.ablation("placeto"), measured.ablation("placeto, terminal reward")
    found.append(_less(_PAPER, "ablation: rewards for steps beat a terminal one", step, terminal))
    return found


_PAPER, _OURS = "the paper", "this project"


def plot_distributions(measured: Measured, family: str, ax: Axes | None = None) -> Axes:
    """Distributions over test graphs (Figure 5), one line a method, pooled over seeds.

    Parameters
    ----------
    measured : Measured
    family : str
    ax : matplotlib.axes.Axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
    """
    if ax is None:
        _, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    lines = _ALONE_ROWS | {"random": ("rivals", "random, mean"), "annealing, long": ("rivals", "anneal, long")}
    graphs = measured.graphs(family)
    for i, (label, (what, name)) in enumerate(lines.items()):
        times = sorted(t for answer in measured.answers(family, what) for t in answer[name]["times"][:graphs])
        shares = np.arange(1, len(times) + 1) / max(len(times), 1)
        ax.step(times, shares, where="post", color=f"C{i}", label=label)
    ax.set(title=family, xlabel="step time over one device", ylabel="share of graphs", ylim=(0, 1.02))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1))
    return ax


def _orders(measured: Measured, family: str) -> tuple[float, float]:
    """Least and largest mean over random orders, medians of the seeds."""
    orders: Sequence[Sequence[float]] = [answer["orders"] for answer in measured.answers(family, "fast")]
    return median(map(min, orders)), median(map(max, orders))


def _less(source: str, text: str, a: float | None, b: float | None) -> Claim:
    return Claim(source, text, None if a is None or b is None else a < b, f"{_number(a)}, {_number(b)}")


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


def _cell(measured: Measured, family: str, what: str, name: str, graphs: int | None = None) -> str:
    calls = measured.simulations(family, what, name)
    return _number(measured.value(family, what, name, graphs)) + ("" if calls is None else f" ({calls:.0f})")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
