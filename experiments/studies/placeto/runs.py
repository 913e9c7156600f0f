"""The runs behind ``mtpp table placement``: policies trained on a family, and what they and their rivals do."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from experiments.progress import RunBar
from experiments.runs.log import Run, RunLog
from experiments.studies.placeto.jobs import (
    ALONE,
    KIND,
    ORDERS,
    OTHER_DEVICES,
    SAMPLES,
    PlacementJob,
)
from experiments.versions import package_version
from heuristics.limits import Limits
from heuristics.placement.annealing import anneal_placement, climb
from heuristics.placement.placeto import Episodes, place
from heuristics.placement.placeto.rollout import Scorer
from heuristics.placement.registry import PLACERS
from heuristics.placement.rivals import random_placements
from heuristics.placement.simulator import step_times
from instances import InputError
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

__all__ = ["execute", "make_runs"]


def execute(job: PlacementJob) -> Run:
    """Make a run; one that fails leaves a line with an error text."""
    began, answer, error = time.perf_counter(), None, None
    try:
        answer = _ANSWERS[job.what](job)
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
    asked = {"instance": job.family, "k": job.devices, "method": job.what, "seed": job.seed, "options": job.options}
    tail = {"version": package_version(), "seconds": time.perf_counter() - began, "error": error}
    return {"key": job.key, "kind": KIND, **asked, **tail, "answer": answer}


def make_runs(jobs: Sequence[PlacementJob], log: RunLog) -> list[Run]:
    """Make the runs that `log` does not hold yet, and those that failed; return all of them in the order of `jobs`."""
    missing = [job for job in jobs if log.runs.get(job.key, {}).get("error", "") is not None]
    if len(missing) < len(jobs):
        print(f"{len(jobs) - len(missing)} runs are done already.", file=sys.stderr)
    if missing:
        with RunBar(len(missing)) as bar:
            for job in missing:
                log.append(execute(job))
                bar.advance(log.runs[job.key])
    return [log.runs[job.key] for job in jobs]


def _measured(placements: Iterable[Placement], simulations: Iterable[int] | None = None) -> dict[str, Any]:
    times = [placement.relative_time for placement in placements]
    return {"times": times, "simulations": None if simulations is None else list(simulations)}


def _outcomes(
    instances: Sequence[PlacementInstance], scorer: Scorer, seed: int, **options: Any
) -> tuple[list[Episodes], dict[str, Any]]:
    """Place each instance; the same generator for each, so that instances do not depend on one another."""
    found = [place(instance, scorer, np.random.default_rng(seed), **options) for instance in instances]
    return found, _measured((outcome.best for outcome in found), (outcome.simulations for outcome in found))


def _annealed(instances: Sequence[PlacementInstance], simulations: Iterable[int], seed: int) -> dict[str, Any]:
    calls = [max(2, count) for count in simulations]  # it begins with two
    rng = np.random.default_rng(seed)
    found = [anneal_placement(i, rng, simulations=count) for i, count in zip(instances, calls, strict=True)]
    return _measured(found, calls)


def _rivals(job: PlacementJob) -> dict[str, Any]:
    """What needs no training. A rival that cannot run here is left out."""
    instances, answer = job.instances("test"), {}
    for name in ("single", "random", "expert", "metis", "scotch", "heft", "greedy", "placeto"):
        try:
            rng = np.random.default_rng(job.seed)
            answer[name] = _measured(PLACERS[name].run(instance, rng, Limits()) for instance in instances)
        except InputError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    answer["random"]["simulations"] = [1000] * len(instances)
    answer["greedy"]["simulations"] = [instance.devices * instance.graph.n for instance in instances]
    rng = np.random.default_rng(job.seed)
    rows = [step_times(i, random_placements(i, rng, 1000)).mean() / i.total_work for i in instances]
    answer["random, mean"] = {"times": [float(row) for row in rows], "simulations": None}
    calls = [6 * instance.graph.n for instance in instances]
    answer["climb, 6n"] = _measured((climb(i, rng, simulations=6 * i.graph.n) for i in instances), calls)
    answer["anneal, long"] = _annealed(instances, [job.options["annealing"]] * len(instances), job.seed)
    return answer


def _fast(job: PlacementJob) -> dict[str, Any]:
    """A policy for the family: on unseen graphs, other sizes, other numbers of devices, other orders."""
    from heuristics.placement.placeto import policy, training

    schedule = job.options["training"]
    start = schedule["start"]
    made = policy.create("fast", job.seed)
    how = training.Training(job.options["updates"], seed=job.seed, **schedule)
    began = time.perf_counter()
    curve = training.train(made, job.instances("train"), how)
    answer: dict[str, Any] = {"training": time.perf_counter() - began, "curve": [list(point) for point in curve]}
    scorer, test = policy.capture(made).scorer(), job.instances("test")
    began = time.perf_counter()
    zero_shot, answer["zero-shot"] = _outcomes(test, scorer, job.seed, start=start)
    answer["placing"] = (time.perf_counter() - began) / len(test)
    answer["zero-shot, last"] = _measured(outcome.last for outcome in zero_shot)
    _, answer["sampled"] = _outcomes(test, scorer, job.seed, start=start, samples=SAMPLES)
    for name in ("zero-shot", "sampled"):
        answer[f"anneal, as {name}"] = _annealed(test, answer[name]["simulations"], job.seed)
    rng = np.random.default_rng(job.seed)
    climbed = [climb(i, rng, start=o.best, simulations=4 * i.graph.n) for i, o in zip(test, zero_shot, strict=True)]
    answer["zero-shot + climb, 4n"] = _measured(climbed, (o.simulations + 4 * len(o.best.device) for o in zero_shot))
    others = {"large": job.instances("large")} | {f"k = {k}": job.instances("test", k) for k in OTHER_DEVICES}
    for name, instances in others.items():
        _, answer[name] = _outcomes(instances, scorer, job.seed, start=start)
        for rival in ("metis", "heft", "greedy"):
            found = (PLACERS[rival].run(instance, np.random.default_rng(0), Limits()) for instance in instances)
            answer[f"{name}: {rival}"] = _measured(found)
        answer[f"{name}: anneal"] = _annealed(instances, answer[name]["simulations"], job.seed)
    orders = [_outcomes(test, scorer, s, start=start, order="random")[1]["times"] for s in range(ORDERS)]
    answer["orders"] = [float(np.mean(times)) for times in orders]
    return answer


def _optimised(job: PlacementJob) -> dict[str, Any]:
    """A policy for each single test graph: the likeliest placement after its training, and the best one ever seen."""
    from heuristics.placement.placeto import policy, training

    schedule, test = job.options["training"], job.instances("test")[: job.options["graphs"]]
    likeliest, best, simulations = [], [], []
    for instance in test:
        made = policy.create("fast", job.seed)
        how = training.Training(job.options["updates"], graphs=1, episodes=ALONE, seed=job.seed, **schedule)
        curve = training.train(made, [instance], how)
        simulations.append(curve[-1].simulations)
        rng = np.random.default_rng(job.seed)
        likeliest.append(place(instance, policy.capture(made).scorer(), rng, start=schedule["start"]).best)
        best.append(min(likeliest[-1].relative_time, *(point.best for point in curve)))
    return {
        "likeliest": _measured(likeliest),
        "best": {"times": best, "simulations": simulations},
        "anneal, as best": _annealed(test, simulations, job.seed),
    }


def _planner(job: PlacementJob) -> dict[str, Any]:
    """The recurrent planner: trained on the family, and on each test graph alone."""
    import torch

    from heuristics.placement.placeto import recurrent_planner

    test = job.instances("test")[: job.options["graphs"]]
    updates = 2 * job.options["updates"]
    with torch.random.fork_rng():
        torch.manual_seed(job.seed)
        made = recurrent_planner.Planner(job.devices)
        recurrent_planner.train_planner(made, job.instances("train"), updates=updates, seed=job.seed)
        zero_shot = [recurrent_planner.plan(made, instance, None) for instance in test]
        best = []
        for instance in test:
            alone = recurrent_planner.Planner(job.devices)
            best += recurrent_planner.train_planner(alone, [instance], updates=updates, seed=job.seed)
    return {"zero-shot": _measured(zero_shot), "best": _measured(best, [16 * updates] * len(best))}


def _ablation(job: PlacementJob) -> dict[str, Any]:
    """One design after a small budget, on few devices."""
    from heuristics.placement.placeto import policy, training

    options = {key: value for key, value in job.options.items() if key not in ("name", "updates")}
    name = options.pop("policy")
    schedule: dict[str, Any] = {key: options.pop(key) for key in ("reward", "discount") if key in options}
    schedule |= {"sweeps": 1, "start": ("empty",)}
    if name == "placeto":
        options |= {"devices": job.devices, "width": 8}
        schedule |= {"entropy": 0.01, "rate": 5e-3}
    made = policy.create(name, job.seed, **options)
    how = training.Training(job.options["updates"], seed=job.seed, **schedule)
    curve = training.train(made, job.instances("train"), how)
    test, scorer = job.instances("test"), policy.scorer(made)
    found, zero_shot = _outcomes(test, scorer, job.seed, sweeps=1, start="empty")
    return {
        "zero-shot": zero_shot,
        "last": _measured(outcome.last for outcome in found),
        "anneal": _annealed(test, zero_shot["simulations"], job.seed),
        "curve": [list(point) for point in curve],
    }


_ANSWERS: dict[str, Callable[[PlacementJob], dict[str, Any]]] = {
    "rivals": _rivals,
    "fast": _fast,
    "optimised": _optimised,
    "planner": _planner,
    "ablation": _ablation,
}
