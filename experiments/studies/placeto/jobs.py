"""What ``mtpp table placement`` measures: each policy, rival and ablation, with its budget."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from experiments.versions import package_version
from instances.placement.families import BANDWIDTH, PLACEMENT_FAMILIES
from instances.placement.problem import PlacementInstance

__all__ = [
    "ABLATED",
    "ABLATED_DEVICES",
    "ABLATIONS",
    "ALONE",
    "DEVICES",
    "KIND",
    "ORDERS",
    "OTHER_DEVICES",
    "QUICK",
    "SAMPLES",
    "Budget",
    "PlacementJob",
    "plan_jobs",
]

KIND = "placement"
#: Devices of the main questions, and of those that a policy is carried over to.
DEVICES, OTHER_DEVICES = 4, (2, 8)
#: The family of the ablations, and their devices.
ABLATED, ABLATED_DEVICES = "ptb", 2
#: Random traversal orders, and sampled episodes.
ORDERS, SAMPLES = 16, 16
#: Episodes of each update when a policy or a planner is trained for one graph alone.
ALONE = 32


@dataclass(frozen=True)
class Budget:
    """How long is trained and annealed, in updates and simulations, so that runs repeat exactly.

    Parameters
    ----------
    updates : int
        Of a policy for a family, 64 episodes each.
    alone : int
        Of a policy for one graph, 32 episodes each; a planner has twice as many, 16 placements each.
    ablation : int
        Of each ablation.
    annealing : int
        Simulations of the long annealing of each graph.
    graphs : int
        Test graphs that are optimised one by one.
    seeds : int
        The table shows the median.
    """

    updates: int = 200
    alone: int = 120
    ablation: int = 50
    annealing: int = 100_000
    graphs: int = 4
    seeds: int = 3


#: A first look.
QUICK = Budget(updates=40, alone=20, ablation=10, graphs=2, seeds=1)


@dataclass(frozen=True, eq=False)
class PlacementJob:
    """One thing to train and measure.

    Parameters
    ----------
    family : str
    what : str
        Of `placement_runs`: rivals, fast, optimised, planner or ablation.
    seed : int
    options : mapping
        What distinguishes it from others of its kind; part of the key.
    """

    family: str
    what: str
    seed: int
    options: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """Hash of everything that the answer depends on."""
        fields = [KIND, self.family, _hashes(self.family), self.what, self.seed, self.options, package_version()]
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

    @property
    def devices(self) -> int:
        """Devices to train for."""
        return ABLATED_DEVICES if self.what == "ablation" else DEVICES

    def instances(self, split: str, devices: int | None = None) -> list[PlacementInstance]:
        """Questions of a split of the family, with its devices or others."""
        graphs = PLACEMENT_FAMILIES[self.family].split(split)
        return [PlacementInstance(graph, devices or self.devices, BANDWIDTH) for graph in graphs]


@cache
def _hashes(family: str) -> list[str]:
    """Of the graphs to train and to test on."""
    return [graph.content_hash for split in ("train", "test") for graph in PLACEMENT_FAMILIES[family].split(split)]


def plan_jobs(families: Iterable[str], budget: Budget) -> list[PlacementJob]:
    """All that the tables need."""
    jobs = []
    for family in families:
        training = _schedule(family)
        jobs.append(PlacementJob(family, "rivals", 0, {"annealing": budget.annealing}))
        for seed in range(budget.seeds):
            jobs.append(PlacementJob(family, "fast", seed, {"updates": budget.updates, "training": training}))
            alone = {"updates": budget.alone, "graphs": budget.graphs}
            jobs.append(PlacementJob(family, "optimised", seed, {**alone, "training": training}))
            jobs.append(PlacementJob(family, "planner", seed, alone))
    for seed in range(budget.seeds):
        for name, options in ABLATIONS.items():
            jobs.append(PlacementJob(ABLATED, "ablation", seed, {"name": name, "updates": budget.ablation, **options}))
    return jobs


#: Name to the policy, its arguments, and the training.
ABLATIONS: dict[str, dict[str, Any]] = {
    "placeto": {"policy": "placeto", "rounds": 2},
    "placeto, terminal reward": {"policy": "placeto", "rounds": 2, "reward": "terminal"},
    "placeto, partitioner": {"policy": "placeto", "rounds": 0},
    "placeto, aggregator": {"policy": "placeto", "rounds": 0, "pooled": False},
    "device pool": {"policy": "device-pool", "rounds": 8},
    "device pool, no messages": {"policy": "device-pool", "rounds": 0},
    "fast": {"policy": "fast"},
    "fast, terminal reward": {"policy": "fast", "reward": "terminal"},
    "fast, discount 1": {"policy": "fast", "discount": 1.0},
}


def _schedule(family: str) -> dict[str, Any]:
    """How to train on a family, besides the budget; placements start from each of `start` in turn, too.

    Where moving data is dear, random starts are bad ones, and so is nearly every move away from one device: less
    entropy ends in a policy that moves nothing.
    """
    if family == "cifar10":
        return {"start": ["single"], "entropy": 0.5, "discount": 0.9}
    return {"start": ["empty", "random"]}
