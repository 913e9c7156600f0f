"""``mtpp table placeto``: Placeto's Table 1, ablations and traversal orders, with the paper's figures next to ours.

Addanki et al., NeurIPS 2019: Table 1 (seconds a step on K80 cards, and placements sampled until the best one), Section
4.3 (ablations, traversal orders).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from experiments.studies.papers.numbers import value_of
from experiments.studies.report import Report, Section
from heuristics.method import Limits
from heuristics.placement.annealing import anneal_placement, search_order
from heuristics.placement.placeto import play_episodes, require_torch
from heuristics.placement.placeto.environment import Environment, PlacementArrays, traversal
from heuristics.placement.registry import PLACERS
from heuristics.placement.rivals import random_placements
from heuristics.placement.simulator import step_times
from instances import InputError
from instances.graph.tensors import FloatArray, IntArray
from instances.machines import Machines
from instances.placement.networks import BANDWIDTH, PLACEMENT_FAMILIES, group_nodes, placement_network
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from mtpp.plots.style import axes_of, with_legend
from mtpp.runs.job import Run, StudyJob
from mtpp.runs.workers import Workers

# Jobs: the published network and its rivals on the networks of the paper.


class Cell(NamedTuple):
    """A row of Table 1: a network, devices, and the paper's figures; None is out of memory."""

    network: str  # of `PLACEMENT_NETWORKS`
    devices: int
    single: float | None  # seconds
    scotch: float | None
    expert: float | None
    placeto: float
    recurrent: float
    placeto_samples: float  # thousands of placements until the best one
    recurrent_samples: float


#: Networks of the paper, and as they are called here with 2 and 4 devices.
NETWORKS = {
    "Inception-V3": ("inception-v3", "inception-v3"),
    "NMT": ("nmt-2-layers", "nmt-4-layers"),
    "NASNet": ("nasnet-mobile", "nasnet-mobile"),
}


def _cell(network: str, devices: int) -> Cell:
    name = NETWORKS[network][devices // 4]
    single = value_of("placeto", "Table 1", network, "single GPU")
    columns = ("scotch", "expert", "Placeto", "RNN", "Placeto placements sampled", "RNN placements sampled")
    row = f"{network} {devices} GPUs"
    return Cell(name, devices, single, *(value_of("placeto", "Table 1", row, column) for column in columns))  # type: ignore[arg-type]


CELLS = tuple(_cell(network, devices) for network in NETWORKS for devices in (2, 4))


def _slower(row: str, column: str) -> float | None:
    percent = value_of("placeto", "Section 4.3", row, column)
    return None if percent is None else percent / 100


#: The network and devices of the traversal orders, the family and devices of the ablations.
ORDERED, ABLATED, ABLATED_DEVICES = ("inception-v3", 2), "nmt", 2
#: Arguments of the published network and its training, and by how much the paper says that placements get slower.
DESIGNS: dict[str, tuple[dict[str, Any], float | None]] = {
    "full": ({}, 0.0),
    "partitioner": ({"rounds": 0}, _slower("simple partitioner against Placeto", "slower on average")),
    "aggregator": (
        {"rounds": 0, "pooled": False},
        _slower("simple aggregator against Placeto", "worse on average, about"),
    ),
    "full, sums as they are (no h)": ({"outer": False}, None),
    "full, no start times": ({"timed": False}, None),
    "full, reward at the end": ({"reward": "terminal"}, None),
}
#: Bytes of a device beyond which a placement does not fit: the limit of the released code.
K80_MEMORY = 11e9


@dataclass(frozen=True)
class NetworkBudget:
    """Lengths of trainings and searches in placements, so that runs repeat exactly: two hours at most on one core."""

    groups: int = 100  # of operators, of each network
    published: int = 4_000  # episodes of the published network
    recurrent: int = 40_000  # placements of the recurrent planner, and of searches
    ablation: int = 3_000  # episodes of each design
    orders: int = 64  # traversal orders to train with, and as many unseen ones
    ordered: int = 4_000  # episodes with them, and five times as many placements of the planner
    graphs: int = 16  # of a family at most, for the designs


#: A first look, in a few minutes: enough to see that all of it runs, too little to learn much.
QUICK_NETWORKS = NetworkBudget(published=64, recurrent=1_600, ablation=64, orders=4, ordered=64, graphs=2)


_KIND = "placeto"
#: Numbers in each direction of an embedding, episodes of an update, and placements of an update of the planner.
_WIDTH, _EPISODES, _PLANNED = 8, 32, 16
#: Placements of the planner for an episode of the network.
_TO_ONE = 5
_RIVALS = ("single", "expert", "scotch", "metis", "heft", "greedy")


@dataclass(frozen=True, eq=False)
class NetworkJob(StudyJob):
    """A training or a search for one network, with its measurement."""

    name: str  # network or family
    devices: int
    options: dict[str, Any] = field(default_factory=dict)  # parameters that distinguish it; part of the key
    #: The kind, as runs call it.
    what: ClassVar[str]

    @property
    def question(self) -> list[Any]:
        """Network, devices, kind and options."""
        return [_KIND, self.name, self.devices, self.what, self.options]

    def record(self, seconds: float | None = None, error: str | None = None, **answer: Any) -> Run:
        """The run as a row for the file of runs."""
        about = {"kind": _KIND, "instance": self.name, "k": self.devices, "method": self.what, "options": self.options}
        return self.line(about, seconds, error, {"answer": answer or None})

    def instance(self) -> PlacementInstance:
        """The network, in groups."""
        return PlacementInstance(_network(self.name, self.options["groups"]), Machines.alike(self.devices, BANDWIDTH))


class Curve:
    """History of improvements: (episodes or placements, simulations, best time)."""

    def __init__(self) -> None:
        self.points: list[tuple[int, int, float]] = []
        self.episodes, self.simulations = 0, 0

    def policy(self, batch: Sequence[Environment]) -> bool:
        """Record the progress of a policy; never stop its training."""
        for environment in batch:
            best = float(environment.best.min())
            self._count(len(environment.place), environment.simulations, best)
        return False

    def planner(self, times: FloatArray) -> None:
        """Record the progress of a planner."""
        self._count(len(times), len(times), float(times.min()))

    def answer(self) -> dict[str, Any]:
        """Members for the file of runs."""
        return {"curve": self.points, "episodes": self.episodes, "simulations": self.simulations}

    def _count(self, episodes: int, simulations: int, best: float) -> None:
        self.episodes += episodes
        self.simulations += simulations
        if not self.points or best < self.points[-1][2]:
            self.points.append((self.episodes, self.simulations, best))


class PublishedJob(NetworkJob):
    """Job that trains the published policy network on one computation graph alone."""

    what = "published"

    def answer(self, start: Sequence[Run]) -> Run:
        """Train; return the learning curve."""
        return _trained(self.instance(), self.options["episodes"], "topological", Curve())[1]


class RecurrentJob(NetworkJob):
    """Job that trains the recurrent planner on one computation graph alone."""

    what = "recurrent"

    def answer(self, start: Sequence[Run]) -> Run:
        """Train; return the learning curve."""
        return _planned([self.instance()], self.options["placements"], ())[1]


class SearchJob(NetworkJob):
    """Job that places one network by each method without training, with as many simulations as the planner has."""

    what = "search"

    def answer(self, start: Sequence[Run]) -> Run:
        """Relative step time and peak memory by placer; unavailable placers are left out."""
        instance = self.instance()
        answer: dict[str, Any] = {"one device": instance.total_work}
        limits = Limits(evaluations=self.options["placements"])
        placers: dict[str, Callable[[np.random.Generator], Placement]] = {
            name: lambda rng, name=name: PLACERS[name].run(instance, rng, Limits())  # type: ignore[misc]
            for name in _RIVALS
        }
        placers["anneal"] = lambda rng: anneal_placement(instance, rng, limits)
        placers["ordered"] = lambda rng: search_order(instance, rng, limits)
        for name, placer in placers.items():
            try:
                placement = placer(np.random.default_rng(0))
            except InputError:
                continue
            answer[name] = {"time": placement.relative_time, "peak": float(placement.peak_memory.max())}
        return answer


class OrdersJob(NetworkJob):
    """Job that trains with some traversal orders of the nodes, and places in other orders."""

    what = "orders"

    def answer(self, start: Sequence[Run]) -> Run:
        """Step times in orders not used in training, and the best step time of the training."""
        instance, orders, unseen = self.instance(), self.options["orders"], self.options["unseen"]
        if self.options["planner"]:
            planner, answer = _planned([instance], self.options["placements"], _orders(instance, 0, orders))
            from heuristics.placement.placeto.network import plan

            times = [plan(planner, instance, None, order=o).relative_time for o in _orders(instance, orders, unseen)]
        else:
            score, answer = _trained(instance, self.options["placements"], orders, Curve())
            rngs = (np.random.default_rng((1, seed)) for seed in range(unseen))
            played = (play_episodes(instance, score, rng, ["random"], order="random") for rng in rngs)
            times = [episode.last().relative_time for episode in played]
        return {**answer, "times": times}


class FamilyJob(NetworkJob):
    """Job that trains on graphs of a family and measures on other graphs of the family."""

    def questions(self, split: str) -> list[PlacementInstance]:
        """Placement questions on the first graphs of a split, one of `SPLITS`."""
        graphs = PLACEMENT_FAMILIES[self.name].split(split)[: self.options["graphs"]]
        return [PlacementInstance(graph, Machines.alike(self.devices, BANDWIDTH)) for graph in graphs]


class DesignJob(FamilyJob):
    """Job that trains one ablation of the network or of its training."""

    what = "design"

    def answer(self, start: Sequence[Run]) -> Run:
        """Relative step times on unseen graphs (1 is one device), after one sweep that takes the likeliest devices."""
        from heuristics.placement.placeto import network, training

        design = dict(DESIGNS[self.options["design"]][0])
        reward, updates = design.pop("reward", "step"), max(1, self.options["episodes"] // (8 * 8))
        policy = network.create(0, devices=self.devices, width=_WIDTH, **design)
        how = training.Training(updates, graphs=8, episodes=8, reward=reward, start=("empty",))
        training.train(policy, self.questions("train"), how)
        score, rng = network.scorer(policy), np.random.default_rng(0)
        placements = [play_episodes(question, score, rng, ["empty"]).last() for question in self.questions("test")]
        return {"times": [placement.relative_time for placement in placements]}


class UnseenJob(FamilyJob):
    """Job that runs rivals on the graphs of `DesignJob`: the recurrent planner, list scheduling, random placements."""

    what = "unseen"

    def answer(self, start: Sequence[Run]) -> Run:
        """Step times relative to one device, by rival; those of random placements are means."""
        from heuristics.placement.placeto.network import plan

        planner, _ = _planned(self.questions("train"), self.options["placements"], ())
        test, rng = self.questions("test"), np.random.default_rng(0)
        drawn = (step_times(question, random_placements(question, rng, 1000)).mean() for question in test)
        return {
            "RNN": [plan(planner, question, None).relative_time for question in test],
            "random": [float(time) / question.total_work for time, question in zip(drawn, test, strict=True)],
            **{name: [PLACERS[name].run(q, rng, Limits()).relative_time for q in test] for name in ("heft", "greedy")},
        }


def jobs_of(budget: NetworkBudget) -> list[NetworkJob]:
    """All jobs behind the tables, the cheap ones first."""
    groups = {"groups": budget.groups}
    planned = {**groups, "placements": budget.recurrent}
    jobs: list[NetworkJob] = [SearchJob(c.network, c.devices, planned) for c in CELLS]
    jobs += [RecurrentJob(c.network, c.devices, planned) for c in CELLS]
    jobs += [PublishedJob(c.network, c.devices, {**groups, "episodes": budget.published}) for c in CELLS]
    designed = {"graphs": budget.graphs, "episodes": budget.ablation}
    jobs += [DesignJob(ABLATED, ABLATED_DEVICES, {"design": d, **designed}) for d in DESIGNS]
    unseen = {"graphs": budget.graphs, "placements": _TO_ONE * budget.ablation}
    jobs.append(UnseenJob(ABLATED, ABLATED_DEVICES, unseen))
    return [*jobs, *_jobs_of_orders(budget)]


def _jobs_of_orders(budget: NetworkBudget) -> Iterator[NetworkJob]:
    for planner, orders in ((False, budget.orders), (False, 1), (True, budget.orders)):
        options = {"groups": budget.groups, "planner": planner, "orders": orders, "unseen": budget.orders}
        yield OrdersJob(*ORDERED, {**options, "placements": budget.ordered * (_TO_ONE if planner else 1)})


@cache
def _network(name: str, groups: int) -> Any:
    return group_nodes(placement_network(name), groups).graph


def _orders(instance: PlacementInstance, first: int, count: int) -> list[IntArray]:
    """Random topological orders, the same for each run."""
    question, seeds = PlacementArrays(instance), range(first, first + count)
    return [traversal(question, "random", 1, np.random.default_rng((2, seed))) for seed in seeds]


def _trained(instance: PlacementInstance, episodes: int, order: Any, curve: Curve) -> tuple[Any, dict[str, Any]]:
    """The trained published network as a scorer, and the record of its training."""
    from heuristics.placement.placeto import network, training

    policy = network.create(0, devices=instance.devices, width=_WIDTH)
    how = training.Training(max(1, episodes // _EPISODES), episodes=_EPISODES, order=order)
    training.train(policy, [instance], how, watch=curve.policy)
    return network.scorer(policy), curve.answer()


def _planned(
    instances: Sequence[PlacementInstance], placements: int, orders: Iterable[IntArray]
) -> tuple[Any, dict[str, Any]]:
    """The trained recurrent planner, and the record of its training."""
    import torch

    from heuristics.placement.placeto.network import Planner, train_planner

    curve, updates = Curve(), max(1, placements // _PLANNED)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        planner = Planner(instances[0].devices)
    train_planner(planner, instances, updates=updates, episodes=_PLANNED, orders=list(orders), watch=curve.planner)
    return planner, curve.answer()


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
    """How the published policy compares with the recurrent planner on the computation graph of a row of Table 1."""
    ours, rnn = (answer_of(runs, what, cell) for what in ("published", "recurrent"))
    best, other = best_of(ours), best_of(rnn)
    reduction = None if best is None or other is None else 1 - best["time"] / other["time"]
    return Against(reduction, _until(ours, best), _until(rnn, other), _until(ours, other))


def answer_of(runs: Iterable[Run], what: str, cell: Cell) -> dict[str, Any] | None:
    """Answer of the job `what` ("published", "search", …) for a row of Table 1; None without a run."""
    for run in runs:
        if (run["method"], run["instance"], run["k"]) == (what, cell.network, cell.devices):
            return dict(run["answer"])
    return None


def best_of(answer: dict[str, Any] | None) -> dict[str, float] | None:
    """The last point of a learning curve."""
    return None if answer is None else {"time": answer["curve"][-1][2]}


def orders_of(runs: Iterable[Run], *, planner: bool, orders: int) -> tuple[list[float], float] | None:
    """Step times in unseen orders, and the best one in training, of the run with `orders` orders; None without it."""
    for run in runs:
        options = run["options"]
        if run["method"] == "orders" and (options["planner"], options["orders"]) == (planner, orders):
            return run["answer"]["times"], run["answer"]["curve"][-1][2]
    return None


def design_times(runs: Iterable[Run]) -> dict[str, list[float]]:
    """Relative step times on unseen graphs, by name of the ablation."""
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
_SHOWN = ("single", "expert", "scotch", "metis", "anneal", "ordered")
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
    return [_times(done, budget), _paper_times(), _against(done), _designs(done), _order_section(done, budget)]


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
        rows.append([_name(cell), alone, *learned, *(_time(searched.get(name)) for name in _SHOWN)])
    title = f"Table 1: best placement of {budget.groups} groups of operators"
    header = ["network, devices", "one device [s]", "Placeto", "RNN", *_SHOWN]
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


def _order_section(runs: list[Run], budget: NetworkBudget) -> Section:
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
