"""Jobs of ``mtpp table placement``: policies trained on a family, their placements, and those of rival methods."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np

from experiments.studies.placeto.measured import (
    ABLATED,
    ABLATED_DEVICES,
    ABLATIONS,
    ALONE,
    DEVICES,
    ORDERS,
    OTHER_DEVICES,
    SAMPLES,
    Budget,
)
from heuristics.method import Limits
from heuristics.placement.annealing import anneal_placement, climb
from heuristics.placement.placeto import Episodes, place
from heuristics.placement.placeto.rollout import Scorer
from heuristics.placement.registry import PLACERS
from heuristics.placement.rivals import random_placements
from heuristics.placement.simulator import step_times
from instances import InputError
from instances.deadline import Stopwatch
from instances.placement.networks import BANDWIDTH, PLACEMENT_FAMILIES
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from mtpp.runs.job import StudyJob
from mtpp.runs.log import Run

_KIND = "placement"


@dataclass(frozen=True, eq=False)
class PlacementJob(StudyJob):
    """One thing to train and measure."""

    family: str
    seed: int
    # What distinguishes it from others of its kind; part of the key.
    options: dict[str, Any] = field(default_factory=dict)
    #: The kind, as runs call it.
    what: ClassVar[str]

    @property
    def question(self) -> list[Any]:
        """Graphs, kind, seed and options."""
        return [_KIND, self.family, _hashes(self.family), self.what, self.seed, self.options]

    @property
    def devices(self) -> int:
        """Devices to train for."""
        return DEVICES

    def instances(self, split: str, devices: int | None = None) -> list[PlacementInstance]:
        """Questions of a split of the family, with its devices or others."""
        graphs = PLACEMENT_FAMILIES[self.family].split(split)
        return [PlacementInstance(graph, devices or self.devices, BANDWIDTH) for graph in graphs]

    def record(self, seconds: float | None = None, error: str | None = None, **answer: Any) -> Run:
        """One line for the file of runs."""
        about = {"kind": _KIND, "instance": self.family, "k": self.devices, "method": self.what, "seed": self.seed}
        return self.line(about | {"options": self.options}, seconds, error, {"answer": answer or None})


class RivalsJob(PlacementJob):
    """Placements of all rivals that need no training. A rival that cannot run here is left out."""

    what = "rivals"

    def answer(self, start: Sequence[Run]) -> Run:
        """Times and simulations by the name of a row."""
        instances, answer = self.instances("test"), {}
        for name in ("single", "random", "expert", "metis", "scotch", "heft", "greedy", "placeto"):
            try:
                rng = np.random.default_rng(self.seed)
                answer[name] = _measured(PLACERS[name].run(instance, rng, Limits()) for instance in instances)
            except InputError as error:
                print(f"{name} is left out: {error}", file=sys.stderr)
        answer["random"]["simulations"] = [1000] * len(instances)
        answer["greedy"]["simulations"] = [instance.devices * instance.graph.n for instance in instances]
        rng = np.random.default_rng(self.seed)
        rows = [step_times(i, random_placements(i, rng, 1000)).mean() / i.total_work for i in instances]
        answer["random, mean"] = {"times": [float(row) for row in rows], "simulations": None}
        calls = [6 * instance.graph.n for instance in instances]
        answer["climb, 6n"] = _measured((climb(i, rng, simulations=6 * i.graph.n) for i in instances), calls)
        answer["anneal, long"] = _annealed(instances, [self.options["annealing"]] * len(instances), self.seed)
        return answer


class FastJob(PlacementJob):
    """A policy for the family: on unseen graphs, other sizes, other numbers of devices, other orders."""

    what = "fast"

    def answer(self, start: Sequence[Run]) -> Run:
        """Times and simulations by the name of a row."""
        from heuristics.placement.placeto import policy, training

        schedule = self.options["training"]
        starts = schedule["start"]
        made = policy.create("fast", self.seed)
        how = training.Training(self.options["updates"], seed=self.seed, **schedule)
        watch = Stopwatch()
        curve = training.train(made, self.instances("train"), how)
        answer: dict[str, Any] = {"training": watch.passed, "curve": [list(point) for point in curve]}
        scorer, test = policy.capture(made).scorer(), self.instances("test")
        watch = Stopwatch()
        zero_shot, answer["zero-shot"] = _outcomes(test, scorer, self.seed, start=starts)
        answer["placing"] = (watch.passed) / len(test)
        answer["zero-shot, last"] = _measured(outcome.last for outcome in zero_shot)
        _, answer["sampled"] = _outcomes(test, scorer, self.seed, start=starts, samples=SAMPLES)
        for name in ("zero-shot", "sampled"):
            answer[f"anneal, as {name}"] = _annealed(test, answer[name]["simulations"], self.seed)
        rng = np.random.default_rng(self.seed)
        climbed = [climb(i, rng, start=o.best, simulations=4 * i.graph.n) for i, o in zip(test, zero_shot, strict=True)]
        calls = [o.simulations + 4 * len(o.best.device) for o in zero_shot]
        answer["zero-shot + climb, 4n"] = _measured(climbed, calls)
        others = {"large": self.instances("large")} | {f"k = {k}": self.instances("test", k) for k in OTHER_DEVICES}
        for name, instances in others.items():
            _, answer[name] = _outcomes(instances, scorer, self.seed, start=starts)
            for rival in ("metis", "heft", "greedy"):
                placements = (
                    PLACERS[rival].run(instance, np.random.default_rng(0), Limits()) for instance in instances
                )
                answer[f"{name}: {rival}"] = _measured(placements)
            answer[f"{name}: anneal"] = _annealed(instances, answer[name]["simulations"], self.seed)
        orders = [_outcomes(test, scorer, s, start=starts, order="random")[1]["times"] for s in range(ORDERS)]
        answer["orders"] = [float(np.mean(times)) for times in orders]
        return answer


class OptimisedJob(PlacementJob):
    """Policy trained for each single test graph: its likeliest placement, and the best one of its training."""

    what = "optimised"

    def answer(self, start: Sequence[Run]) -> Run:
        """Times and simulations by the name of a row."""
        from heuristics.placement.placeto import policy, training

        schedule, test = self.options["training"], self.instances("test")[: self.options["graphs"]]
        likeliest, best, simulations = [], [], []
        for instance in test:
            made = policy.create("fast", self.seed)
            how = training.Training(self.options["updates"], graphs=1, episodes=ALONE, seed=self.seed, **schedule)
            curve = training.train(made, [instance], how)
            simulations.append(curve[-1].simulations)
            rng = np.random.default_rng(self.seed)
            likeliest.append(place(instance, policy.capture(made).scorer(), rng, start=schedule["start"]).best)
            best.append(min(likeliest[-1].relative_time, *(point.best for point in curve)))
        return {
            "likeliest": _measured(likeliest),
            "best": {"times": best, "simulations": simulations},
            "anneal, as best": _annealed(test, simulations, self.seed),
        }


class PlannerJob(PlacementJob):
    """The recurrent planner: trained on the family, and on each test graph alone."""

    what = "planner"

    def answer(self, start: Sequence[Run]) -> Run:
        """Times and simulations by the name of a row."""
        import torch

        from heuristics.placement.placeto import recurrent_planner

        test = self.instances("test")[: self.options["graphs"]]
        updates = 2 * self.options["updates"]
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            made = recurrent_planner.Planner(self.devices)
            recurrent_planner.train_planner(made, self.instances("train"), updates=updates, seed=self.seed)
            zero_shot = [recurrent_planner.plan(made, instance, None) for instance in test]
            best = []
            for instance in test:
                alone = recurrent_planner.Planner(self.devices)
                best += recurrent_planner.train_planner(alone, [instance], updates=updates, seed=self.seed)
        return {"zero-shot": _measured(zero_shot), "best": _measured(best, [16 * updates] * len(best))}


class AblationJob(PlacementJob):
    """One design after a small budget, on few devices."""

    what = "ablation"

    @property
    def devices(self) -> int:
        """Few, as all designs have to be trained."""
        return ABLATED_DEVICES

    def answer(self, start: Sequence[Run]) -> Run:
        """Times and simulations by the name of a row."""
        from heuristics.placement.placeto import policy, training

        options = {key: value for key, value in self.options.items() if key not in ("name", "updates")}
        name = options.pop("policy")
        schedule: dict[str, Any] = {key: options.pop(key) for key in ("reward", "discount") if key in options}
        schedule |= {"sweeps": 1, "start": ("empty",)}
        if name == "placeto":
            options |= {"devices": self.devices, "width": 8}
            schedule |= {"entropy": 0.01, "rate": 5e-3}
        made = policy.create(name, self.seed, **options)
        how = training.Training(self.options["updates"], seed=self.seed, **schedule)
        curve = training.train(made, self.instances("train"), how)
        test, scorer = self.instances("test"), policy.scorer(made)
        outcomes, zero_shot = _outcomes(test, scorer, self.seed, sweeps=1, start="empty")
        return {
            "zero-shot": zero_shot,
            "last": _measured(outcome.last for outcome in outcomes),
            "anneal": _annealed(test, zero_shot["simulations"], self.seed),
            "curve": [list(point) for point in curve],
        }


def jobs_of(families: Iterable[str], budget: Budget) -> list[PlacementJob]:
    """All that the tables need."""
    jobs: list[PlacementJob] = []
    for family in families:
        training = _schedule(family)
        jobs.append(RivalsJob(family, 0, {"annealing": budget.annealing}))
        for seed in range(budget.seeds):
            jobs.append(FastJob(family, seed, {"updates": budget.updates, "training": training}))
            alone = {"updates": budget.alone, "graphs": budget.graphs}
            jobs.append(OptimisedJob(family, seed, {**alone, "training": training}))
            jobs.append(PlannerJob(family, seed, alone))
    for seed in range(budget.seeds):
        for name, options in ABLATIONS.items():
            jobs.append(AblationJob(ABLATED, seed, {"name": name, "updates": budget.ablation, **options}))
    return jobs


@cache
def _hashes(family: str) -> list[str]:
    """Hashes of the graphs to train and to test on."""
    return [graph.content_hash for split in ("train", "test") for graph in PLACEMENT_FAMILIES[family].split(split)]


def _schedule(family: str) -> dict[str, Any]:
    """Parameters of training on a family, besides the budget; placements start from each of `start` in turn, too.

    Where moving data is expensive, random starts are bad ones, and so is nearly every move away from one device: less
    entropy ends in a policy that moves nothing.
    """
    if family == "cifar10":
        return {"start": ["single"], "entropy": 0.5, "discount": 0.9}
    return {"start": ["empty", "random"]}


def _measured(placements: Iterable[Placement], simulations: Iterable[int] | None = None) -> dict[str, Any]:
    times = [placement.relative_time for placement in placements]
    return {"times": times, "simulations": None if simulations is None else list(simulations)}


def _outcomes(
    instances: Sequence[PlacementInstance], scorer: Scorer, seed: int, **options: Any
) -> tuple[list[Episodes], dict[str, Any]]:
    """Place each instance; the same generator for each, so that instances do not depend on one another."""
    outcomes = [place(instance, scorer, np.random.default_rng(seed), **options) for instance in instances]
    return outcomes, _measured((outcome.best for outcome in outcomes), (outcome.simulations for outcome in outcomes))


def _annealed(instances: Sequence[PlacementInstance], simulations: Iterable[int], seed: int) -> dict[str, Any]:
    calls = [max(2, count) for count in simulations]  # it begins with two
    rng = np.random.default_rng(seed)
    placements = [anneal_placement(i, rng, simulations=count) for i, count in zip(instances, calls, strict=True)]
    return _measured(placements, calls)
