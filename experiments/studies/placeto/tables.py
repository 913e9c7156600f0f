"""Tables of the study of placements, and what the paper claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd
from matplotlib.axes import Axes

from experiments.studies.placeto.jobs import PlacementJob, jobs_of
from experiments.studies.placeto.measured import (
    ABLATED,
    ABLATED_DEVICES,
    ABLATIONS,
    DEVICES,
    OTHER_DEVICES,
    Budget,
    Measured,
    number,
)
from experiments.studies.report import PaperClaim, Report, Section
from heuristics.placement.placeto import require_torch
from instances.placement.networks import PLACEMENT_FAMILIES
from mtpp.plots.style import axes_of, with_legend
from mtpp.runs.workers import Workers

# Statements of the paper on Placeto and expectations, compared with measurements.


_PAPER, _OURS = "the paper", "this project"

#: Results of annealing on the same graphs with the simulations of the policy, and of *greedy*.
_Beside = tuple[float | None, float | None]


def claims(measured: Measured) -> list[PaperClaim]:
    """All claims, family by family."""
    stated = [
        claim
        for family in measured.families
        for claim in (*_claims_unseen(measured, family), *_claims_alone(measured, family))
    ]
    return stated + (_claims_of_ablations(measured) if ABLATED in measured.families else [])


def _claims_unseen(measured: Measured, family: str) -> list[PaperClaim]:
    """Claims on graphs that a policy for the family has not seen."""

    def fast(name: str) -> float | None:
        return measured.value(family, "fast", name)

    rivals = {name: measured.value(family, "rivals", name) for name in ("single", "metis", "heft", "greedy")}
    zero_shot, sampled = fast("zero-shot"), fast("sampled")
    beside = (fast("anneal, as zero-shot"), rivals["greedy"])
    longer = (fast("anneal, as sampled"), rivals["greedy"])
    long = measured.value(family, "rivals", "anneal, long")
    low, high = measured.orders(family)
    text = f"{family}: zero-shot, the slowest traversal order is within 10 % of the fastest"
    equal = "annealing at equal simulations"
    return [
        PaperClaim(_PAPER, text, high < 1.1 * low, f"{high:.3f}, {1.1 * low:.3f}", beside),
        *(_less(_OURS, f"{family}: zero-shot beats {name}", zero_shot, rivals[name], beside) for name in rivals),
        _less(_OURS, f"{family}: zero-shot beats {equal}", zero_shot, beside[0], beside),
        _less(_OURS, f"{family}: sampled beats {equal}", sampled, longer[0], longer),
        _less(_OURS, f"{family}: sampled beats long annealing", sampled, long, longer),
    ]


def _claims_alone(measured: Measured, family: str) -> list[PaperClaim]:
    """Claims on the graphs that policies and planners were also trained for one by one."""
    graphs = measured.graphs(family)

    def value(what: str, name: str) -> float | None:
        return measured.value(family, what, name, graphs)

    zero_shot, optimised, greedy = value("fast", "zero-shot"), value("optimised", "best"), value("rivals", "greedy")
    beside, longer = (value("fast", "anneal, as zero-shot"), greedy), (value("optimised", "anneal, as best"), greedy)
    planned, random = value("planner", "zero-shot"), value("rivals", "random, mean")
    text = f"{family}: zero-shot is within 5 % of Placeto optimised"
    return [
        *(
            _less(_PAPER, f"{family}: Placeto optimised beats {name}", optimised, value("rivals", name), longer)
            for name in ("single", "scotch", "expert")
        ),
        _less(
            _PAPER, f"{family}: Placeto optimised beats planner optimised", optimised, value("planner", "best"), longer
        ),
        _less(_PAPER, text, zero_shot, _times(1.05, optimised), beside),
        _less(_PAPER, f"{family}: zero-shot beats planner zero-shot", zero_shot, planned, beside),
        _less(
            _PAPER,
            f"{family}: planner zero-shot is at most 10 % better than random",
            _times(0.9, random),
            planned,
            beside,
        ),
    ]


def _claims_of_ablations(measured: Measured) -> list[PaperClaim]:
    """Claims on designs after few updates, by the ends of episodes, since most episodes pass a better placement."""
    greedy = measured.value(ABLATED, "fast", f"k = {ABLATED_DEVICES}: greedy")
    stated = []
    for better, worse, text in (
        ("placeto", "placeto, partitioner", "the full policy beats the partitioner"),
        ("placeto, partitioner", "placeto, aggregator", "the partitioner beats the aggregator"),
        ("placeto", "placeto, terminal reward", "rewards for steps beat a terminal one"),
    ):
        a, b = measured.ablation(better, "last"), measured.ablation(worse, "last")
        stated.append(_less(_PAPER, f"ablation: {text}", a, b, (measured.ablation(better, "anneal"), greedy)))
    return stated


def _less(source: str, text: str, a: float | None, b: float | None, beside: _Beside) -> PaperClaim:
    """A claim that holds if the first number is less than the second."""
    holds = None if a is None or b is None else a < b
    return PaperClaim(source, text, holds, f"{number(a)}, {number(b)}", beside)


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


# ``mtpp table placement``: Placeto's Table 1, Figure 5, orders and ablations, and which claims hold here.


_NOTE = """\
Step time over the work of the graph on one device: mean over the test graphs, median of the seeds; less is better.
In brackets the simulations of a graph, where they are counted; a policy that moves nothing needs one.
Rows of policies are the best placement that they saw, 'last' is the best of those that their episodes ended with.
Zero-shot: two episodes with the likeliest devices, from two kinds of start. Sampled: 16 episodes with drawn devices.
Rows 'anneal, as …' have as many simulations as the row that they are named after; 'random' is the best of 1000 random
placements, 'random, mean' their mean; 'placeto' the policy that comes with the package; n the nodes of a graph."""
_ALONE_NOTE = """\
Optimised: trained for that graph alone; 'likeliest' is what the policy says in the end, all else the best placement
of the whole training. Planner: the recurrent network of Mirhoseini et al. (2017), zero-shot after as many updates."""
_TRANSFER_NOTE = """\
The policies of the first table, on graphs of about twice the size ('large') and on other numbers of devices.
The last row has the means over the test graphs of the best and the worst of 16 random traversal orders."""
_CLAIMS_NOTE = """\
A claim holds if the first number is less than the second, which includes what the claim allows. Beside them, on the
same graphs: annealing with as many simulations as the policy took, and greedy."""
_RIVALS = ("single", "random, mean", "random", "expert", "metis", "scotch", "heft", "greedy", "placeto", "climb, 6n")
_FAST = (
    "zero-shot",
    "zero-shot, last",
    "anneal, as zero-shot",
    "sampled",
    "anneal, as sampled",
    "zero-shot + climb, 4n",
)
#: Rows of the first table, and the run that each is from.
_ROWS = {
    **dict.fromkeys(_RIVALS, "rivals"),
    **dict.fromkeys(_FAST, "fast"),
    "anneal, long": "rivals",
}
_ALONE_ROWS = {
    "planner, zero-shot": ("planner", "zero-shot"),
    "planner, optimised": ("planner", "best"),
    "placeto, zero-shot": ("fast", "zero-shot"),
    "placeto, optimised, likeliest": ("optimised", "likeliest"),
    "placeto, optimised, best": ("optimised", "best"),
    "anneal, as optimised": ("optimised", "anneal, as best"),
    "greedy": ("rivals", "greedy"),
}
_TRANSFER_RIVALS = ("anneal", "metis", "heft", "greedy")
#: Lines of the picture: the run and the answer, colour, style and width.
_LINES = {
    "Placeto, zero-shot": ("fast", "zero-shot", "C0", "--", 3.2),
    "Placeto, optimised": ("optimised", "best", "C0", "-", 3.2),
    "planner, zero-shot": ("planner", "zero-shot", "C1", "--", 1.6),
    "planner, optimised": ("planner", "best", "C1", "-", 1.6),
    "annealing, as Placeto optimised": ("optimised", "anneal, as best", "black", "-", 1.6),
    "greedy": ("rivals", "greedy", "C2", "-", 1.6),
    "random": ("rivals", "random, mean", "0.6", "-", 1.6),
}


def make_placement_tables(
    budget: Budget, workers: Workers, report: Report, families: Iterable[str] = PLACEMENT_FAMILIES
) -> int:
    """Make the runs that are missing, then print and write tables, figures and claims; 1 if a run failed, else 0.

    Parameters
    ----------
    budget : Budget
    workers : Workers
    report : Report
    families : iterable of str, optional
        All by default.

    Raises
    ------
    InputError, OSError
        Before any run is made, also where PyTorch is missing.
    """
    require_torch()
    runs = report.make_runs(jobs_of(families, budget), workers)
    measured = Measured(runs)
    report.publish(
        sections(measured, budget),
        lambda: {f"placement-{family}": plot_distributions(measured, family) for family in measured.families},
    )
    return report.exit_code([PlacementJob.failed(run) for run in runs])


def sections(measured: Measured, budget: Budget) -> list[Section]:
    """All tables, the claims last."""
    made = (_unseen, _alone, _transfer, _effort, _ablations, _claims)
    return [section(measured, budget) for section in made]


def plot_distributions(measured: Measured, family: str, ax: Axes | None = None) -> Axes:
    """Distributions over the graphs that were optimised one by one (Figure 5), pooled over seeds."""
    ax = axes_of(ax, 7, 4)
    graphs = measured.graphs(family)
    for label, (what, name, colour, line, width) in _LINES.items():
        times = [time for answer in measured.answers(family, what) for time in answer[name]["times"][:graphs]]
        if times:
            ax.ecdf(times, color=colour, linestyle=line, linewidth=width, label=label)
    title = f"{family}, k = {DEVICES}, {graphs} unseen graphs"
    ax.set(title=title, xlabel="step time / step time on one device", ylabel="share of graphs", ylim=(0, 1.02))
    return with_legend(ax, fontsize="medium")


def _unseen(measured: Measured, budget: Budget) -> Section:
    return Section(
        "placement-unseen",
        f"Zero-shot after {budget.updates} updates, {budget.seeds} seeds, and rivals (Table 1)",
        [f"on unseen graphs, k = {DEVICES}", *measured.families],
        [_row(measured, row, what, row) for row, what in _ROWS.items()],
        _NOTE,
        numbers=_numbers(measured, {row: (what, row) for row, what in _ROWS.items()}),
    )


def _alone(measured: Measured, budget: Budget) -> Section:
    rows = [
        [row, *(_cell(measured, family, what, name, measured.graphs(family)) for family in measured.families)]
        for row, (what, name) in _ALONE_ROWS.items()
    ]
    title = f"Optimised for each of {budget.graphs} graphs alone, {budget.alone} updates (Table 1 and Figure 5)"
    header = [f"on single graphs, k = {DEVICES}", *measured.families]
    numbers = _numbers(measured, _ALONE_ROWS, alone=True)
    return Section("placement-alone", title, header, rows, _ALONE_NOTE, numbers=numbers)


def _transfer(measured: Measured, budget: Budget) -> Section:
    groups = ("large", *(f"k = {k}" for k in OTHER_DEVICES))
    names = [row for name in groups for row in (name, *(f"{name}: {rival}" for rival in _TRANSFER_RIVALS))]
    orders = [measured.orders(family) for family in measured.families]
    rows = [_row(measured, name, "fast", name) for name in names]
    rows.append(["random orders, best to worst", *(f"{low:.3f} to {high:.3f}" for low, high in orders)])
    title = "Other sizes, numbers of devices and traversal orders, zero-shot"
    header, numbers = ["carried over", *measured.families], _numbers(measured, {name: ("fast", name) for name in names})
    return Section("placement-transfer", title, header, rows, _TRANSFER_NOTE, numbers=numbers)


def _effort(measured: Measured, budget: Budget) -> Section:
    rows = [
        [row, *(f"{factor * measured.seconds(family, name):.3g}" for family in measured.families)]
        for row, name, factor in (
            (f"training, {budget.updates} updates [s]", "training", 1.0),
            ("placing a graph, zero-shot [ms]", "placing", 1e3),
        )
    ]
    return Section("placement-effort", "Effort on this machine", ["on one core", *measured.families], rows)


def _ablations(measured: Measured, budget: Budget) -> Section:
    rows = [
        [design, *(number(measured.ablation(design, name)) for name in ("zero-shot", "last", "anneal"))]
        for design in ABLATIONS
    ]
    header = [f"on {ABLATED}, k = {ABLATED_DEVICES}", "zero-shot", "zero-shot, last", "anneal, as zero-shot"]
    return Section("placement-ablations", f"Ablations after {budget.ablation} updates", header, rows)


def _claims(measured: Measured, budget: Budget) -> Section:
    rows = [
        [claim.text, claim.source, claim.finding.shown, claim.measured, *map(number, claim.beside)]
        for claim in claims(measured)
    ]
    header = ["claim", "of", "holds", "measured", "annealing", "greedy"]
    return Section("placement-claims", "Claims; those that do not reproduce say FAILS", header, rows, _CLAIMS_NOTE)


def _numbers(measured: Measured, rows: Mapping[str, tuple[str, str]], *, alone: bool = False) -> pd.DataFrame:
    rows_of_numbers = [
        (
            row,
            family,
            measured.value(family, *of, measured.graphs(family) if alone else None),
            measured.simulations(family, *of),
        )
        for row, of in rows.items()
        for family in measured.families
    ]
    return pd.DataFrame(rows_of_numbers, columns=["row", "family", "time", "simulations"]).astype(
        {"time": float, "simulations": float}
    )


def _row(measured: Measured, label: str, what: str, name: str) -> list[str]:
    return [label, *(_cell(measured, family, what, name) for family in measured.families)]


def _cell(measured: Measured, family: str, what: str, name: str, graphs: int | None = None) -> str:
    calls = measured.simulations(family, what, name)
    return number(measured.value(family, what, name, graphs)) + ("" if calls is None else f" ({calls:.0f})")
