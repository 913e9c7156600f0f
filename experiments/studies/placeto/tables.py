"""``mtpp table placeto``: Placeto's Table 1, ablations and traversal orders, with the paper's figures next to ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from experiments.studies.placeto.jobs import (
    ABLATED,
    ABLATED_DEVICES,
    CELLS,
    DESIGNS,
    K80_MEMORY,
    ORDERED,
    Cell,
    NetworkBudget,
    NetworkJob,
    jobs_of,
)
from experiments.studies.report import Report, Section
from heuristics.placement.placeto import require_torch
from mtpp.plots.style import axes_of, with_legend
from mtpp.runs.job import Run
from mtpp.runs.workers import Workers

# Numbers of runs: the best placement of each, samples until it, and Placeto against the RNN.


#: Samples count until a time within this of the best one.
_CLOSE = 1.01


class Against(NamedTuple):
    """Placeto compared with the RNN on one network; None where a run is missing."""

    reduction: float | None  # part by which Placeto's step is shorter than the RNN's
    samples: tuple[int, int] | None  # Placeto's episodes and simulations until its best time
    planned: tuple[int, int] | None  # the RNN's until its best time
    reached: tuple[int, int] | None  # Placeto's until the RNN's best time

    @property
    def factor(self) -> float | None:
        """Samples that the RNN needs over those that Placeto needs for the same quality."""
        return None if self.reached is None or self.planned is None else self.planned[0] / self.reached[0]


def against(runs: Sequence[Run], cell: Cell) -> Against:
    """Comparison of the published network with the recurrent planner on one network."""
    ours, rnn = (answer_of(runs, what, cell) for what in ("published", "recurrent"))
    best, other = best_of(ours), best_of(rnn)
    reduction = None if best is None or other is None else 1 - best["time"] / other["time"]
    return Against(reduction, _until(ours, best), _until(rnn, other), _until(ours, other))


def answer_of(runs: Iterable[Run], what: str, cell: Cell) -> dict[str, Any] | None:
    """Answer of a kind of job for a network; None without a run."""
    for run in runs:
        if (run["method"], run["instance"], run["k"]) == (what, cell.network, cell.devices):
            return dict(run["answer"])
    return None


def best_of(answer: dict[str, Any] | None) -> dict[str, float] | None:
    """The last point of a learning curve."""
    return None if answer is None else {"time": answer["curve"][-1][2]}


def orders_of(runs: Iterable[Run], *, planner: bool, orders: int) -> tuple[list[float], float] | None:
    """Step times in unseen orders, and the best one in training, of the run with `orders` training orders."""
    for run in runs:
        options = run["options"]
        if run["method"] == "orders" and (options["planner"], options["orders"]) == (planner, orders):
            return run["answer"]["times"], run["answer"]["curve"][-1][2]
    return None


def design_times(runs: Iterable[Run]) -> dict[str, list[float]]:
    """Times on unseen graphs by design of the network."""
    return {run["options"]["design"]: run["answer"]["times"] for run in runs if run["method"] == "design"}


def _until(answer: dict[str, Any] | None, goal: dict[str, float] | None) -> tuple[int, int] | None:
    """Episodes and simulations until the curve nearly reaches the goal; None if it never does."""
    if answer is None or goal is None:
        return None
    for episodes, simulations, time in answer["curve"]:
        if time <= _CLOSE * goal["time"]:
            return episodes, simulations
    return None


# ``mtpp table placeto``: all tables, and the picture.


_LEARNED = ("published", "recurrent")
_RIVALS = ("single", "expert", "scotch", "metis", "anneal", "ordered")
_TIMES_NOTE = """\
Best step time that was found, over that of one device; simulated, groups of operators, first ready first served.
'anneal' and 'ordered' have as many simulations as the RNN has placements; 'ordered' also chooses the order of nodes and
transfers. OOM: a device needs more than 11 GB. One seed: differences under 2 % say nothing."""
_PAPER_NOTE = """\
Reduction: how much shorter the step of Placeto is than that of the RNN. Samples: until a time within 1 % of the best
one; the paper counts those until the best. Of Placeto, episodes, and in brackets simulations, one for each step that
moves a node. To the RNN: samples until Placeto is within 1 % of the RNN's best, a dash where it never is; speedup: how
many times fewer these are than the RNN's."""
_PAPER_TIMES_NOTE = "As the paper has them, in seconds on K80 cards: what is large there need not be large here."
_DESIGNS_NOTE = """\
Mean of the step time over that of one device, on unseen graphs, after one sweep with the likeliest devices; and how
much slower than the full network. Below them the RNN, which was trained on the same graphs, list schedulers, and the
mean of 1000 random placements. One seed: differences under 2 % say nothing."""
_ORDERS_NOTE = """\
Times of placements in unseen random traversal orders over that of one device, and their mean over the best placement
of the training. The paper: within 5 % on average and about 10 % between fastest and slowest; the RNN 30 % worse."""


def make_placeto_tables(budget: NetworkBudget, workers: Workers, report: Report) -> int:
    """Make missing runs, then print and write tables and a picture; 1 if a run failed, else 0.

    Raises
    ------
    InputError, OSError
        Before any run is made, also where PyTorch is missing.
    """
    require_torch()
    runs = report.make_runs(jobs_of(budget), workers)
    report.publish(placeto_sections(runs, budget), lambda: {"placeto-curves": plot_curves(runs)})
    return report.exit_code([NetworkJob.failed(run) for run in runs])


def placeto_sections(runs: Iterable[Run], budget: NetworkBudget) -> list[Section]:
    """All tables; missing values are a dash."""
    done = [run for run in runs if run["error"] is None]
    return [_times(done, budget), _paper_times(), _against(done), _designs(done), _orders(done, budget)]


def plot_curves(runs: Iterable[Run]) -> Axes:
    """The best time so far over simulations, of the published network and the RNN."""
    ax, done = axes_of(None, 7, 4), [run for run in runs if run["error"] is None]
    for i, cell in enumerate(CELLS):
        for what, line in (("published", "-"), ("recurrent", ":")):
            answer = answer_of(done, what, cell)
            if answer is not None:
                _, simulations, best = zip(*answer["curve"], strict=True)
                steps = ([*simulations, answer["simulations"]], [*best, best[-1]])
                ax.step(*steps, where="post", color=f"C{i}", linestyle=line, label=f"{_name(cell)}, {what}")
    ax.set(xlabel="simulations", ylabel="best step time / that of one device", xscale="log")
    ax.grid(color="0.92")
    return with_legend(ax)


def _times(runs: list[Run], budget: NetworkBudget) -> Section:
    rows = []
    for cell in CELLS:
        searched = answer_of(runs, "search", cell) or {}
        learned = [_time(best_of(answer_of(runs, what, cell))) for what in _LEARNED]
        alone = f"{searched['one device']:.3f}" if searched else "–"
        rows.append([_name(cell), alone, *learned, *(_time(searched.get(name)) for name in _RIVALS)])
    title = f"Table 1: best placement of {budget.groups} groups of operators"
    header = ["network, devices", "one device [s]", "Placeto", "RNN", *_RIVALS]
    return Section("placeto-times", title, header, rows, _TIMES_NOTE)


def _paper_times() -> Section:
    rows = [
        [_name(c), f"{c.placeto:.2f}", f"{c.recurrent:.2f}", *("OOM" if x is None else f"{x:.2f}" for x in c[2:5])]
        for c in CELLS
    ]
    header = ["network, devices", "Placeto", "RNN", "single", "Scotch", "expert"]
    return Section("placeto-paper", "Table 1 as published [s]", header, rows, _PAPER_TIMES_NOTE)


def _against(runs: list[Run]) -> Section:
    rows = []
    for cell in CELLS:
        compared = against(runs, cell)
        rows.append(
            [
                _name(cell),
                _percent(compared.reduction),
                _percent(1 - cell.placeto / cell.recurrent),
                _samples(compared.samples, with_failures=True),
                _samples(compared.planned, with_failures=False),
                _samples(compared.reached, with_failures=True),
                "–" if compared.factor is None else f"{compared.factor:.2g}x",
                f"{cell.recurrent_samples / cell.placeto_samples:.2g}x",
            ]
        )
    header = ["network, devices", "reduction", "paper", "samples", "of the RNN", "to the RNN", "speedup", "paper"]
    return Section("placeto-samples", "Placeto against the RNN, and the paper", header, rows, _PAPER_NOTE)


def _designs(runs: list[Run]) -> Section:
    means = {design: float(np.mean(times)) for design, times in design_times(runs).items()}
    full = means.get("full")
    unseen: dict[str, Any] = next((run["answer"] for run in runs if run["method"] == "unseen"), {})
    means |= {rival: float(np.mean(times)) for rival, times in unseen.items()}
    figures = {design: figure for design, (_, figure) in DESIGNS.items()} | dict.fromkeys(unseen)
    rows = [
        [
            name,
            "–" if name not in means else f"{means[name]:.3f}",
            _percent(None if full is None or name not in means else means[name] / full - 1),
            _percent(figure),
        ]
        for name, figure in figures.items()
    ]
    header = [f"on {ABLATED}, {ABLATED_DEVICES} devices", "step time", "slower by", "paper"]
    return Section("placeto-designs", "Ablations of the published network, zero-shot", header, rows, _DESIGNS_NOTE)


def _orders(runs: list[Run], budget: NetworkBudget) -> Section:
    rows = []
    for label, planner, orders in (
        (f"Placeto, {budget.orders} orders", False, budget.orders),
        ("Placeto, one order", False, 1),
        (f"RNN, {budget.orders} orders", True, budget.orders),
    ):
        row = [label, *"––––"]
        orders_and_best = orders_of(runs, planner=planner, orders=orders)
        if orders_and_best is not None:
            times, best = orders_and_best
            means = [f"{x:.3f}" for x in (np.mean(times), min(times), max(times))]
            row = [label, *means, _percent(float(np.mean(times)) / best - 1)]
        rows.append(row)
    header = ["trained with", "mean", "fastest", "slowest", "above the best"]
    title = f"{budget.orders} unseen traversal orders of {_name(ORDERED)} devices"
    return Section("placeto-orders", title, header, rows, _ORDERS_NOTE)


def _name(cell: Cell | tuple[str, int]) -> str:
    return f"{cell[0]}, {cell[1]}"


def _time(answer: dict[str, float] | None) -> str:
    if answer is None:
        return "–"
    return "OOM" if answer.get("peak", 0.0) > K80_MEMORY else f"{answer['time']:.3f}"


def _samples(count: tuple[int, int] | None, *, with_failures: bool) -> str:
    if count is None:
        return "–"
    return f"{count[0]} ({count[1]})" if with_failures else f"{count[0]}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"
