"""What ``mtpp table placement`` measures: each policy, rival and ablation, with its budget."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from experiments.versions import package_version
from heuristics.placement.placeto.environment import Start
from instances.families import BANDWIDTH, PLACEMENT_FAMILIES
from instances.placement import PlacementInstance

__all__ = [
    "ABLATIONS",
    "ALONE",
    "DEVICES",
    "KIND",
    "LONG",
    "ORDERS",
    "OTHER_DEVICES",
    "QUICK",
    "SAMPLES",
    "Budget",
    "PlacementJob",
    "plan_jobs",
    "schedule_of",
    "start_of",
]

KIND = "placement"
#: Devices of the main questions, and of those that a policy is carried over to.
DEVICES, OTHER_DEVICES = 4, (2, 8)
#: Simulations of the long annealing, random traversal orders, and sampled episodes.
LONG, ORDERS, SAMPLES = 100_000, 16, 16
#: Episodes of each update when a policy or a planner is trained for one graph alone.
ALONE = 32


@dataclass(frozen=True)
class Budget:
    """How long is trained, in updates, so that runs repeat exactly.

    Parameters
    ----------
    updates : int
        Of a policy for a family, 64 episodes each.
    alone : int
        Of a policy for one graph, 32 episodes each; a planner has twice as many, 16 placements each.
    ablation : int
        Of each ablation.
    graphs : int
        Test graphs that are optimised one by one.
    seeds : int
        The table shows the median.
    """

    updates: int = 150
    alone: int = 60
    ablation: int = 30
    graphs: int = 4
    seeds: int = 3


#: A first look.
QUICK = Budget(updates=40, alone=20, ablation=6, graphs=2, seeds=1)


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

    def instances(self, split: str, devices: int = DEVICES) -> list[PlacementInstance]:
        """Questions of a split of the family."""
        graphs = PLACEMENT_FAMILIES[self.family].split(split)
        return [PlacementInstance(graph, devices, BANDWIDTH) for graph in graphs]


@cache
def _hashes(family: str) -> list[str]:
    """Of the graphs to train and to test on."""
    return [graph.content_hash for split in ("train", "test") for graph in PLACEMENT_FAMILIES[family].split(split)]


def plan_jobs(families: Iterable[str], budget: Budget) -> list[PlacementJob]:
    """All that the tables need."""
    jobs = []
    for family in families:
        jobs.append(PlacementJob(family, "rivals", 0))
        for seed in range(budget.seeds):
            jobs.append(PlacementJob(family, "fast", seed, {"updates": budget.updates}))
            alone = {"updates": budget.alone, "graphs": budget.graphs}
            jobs.append(PlacementJob(family, "optimised", seed, alone))
            jobs.append(PlacementJob(family, "planner", seed, alone))
    for seed in range(budget.seeds):
        for name, options in ABLATIONS.items():
            jobs.append(PlacementJob("ptb", "ablation", seed, {"name": name, "updates": budget.ablation, **options}))
    return jobs


#: Name to the policy, its arguments, and the training; on ptb with two devices.
ABLATIONS: dict[str, dict[str, Any]] = {
    "placeto": {"policy": "placeto", "rounds": 2},
    "placeto, terminal reward": {"policy": "placeto", "rounds": 2, "reward": "terminal"},
    "placeto, partitioner": {"policy": "placeto", "rounds": 0},
    "placeto, aggregator": {"policy": "placeto", "rounds": 0, "pooled": False},
    "device pool": {"policy": "device-pool", "rounds": 8},
    "device pool, no messages": {"policy": "device-pool", "rounds": 0},
    "fast": {"policy": "fast"},
    "fast, terminal reward": {"policy": "fast", "reward": "terminal"},
    "fast, reward of the best": {"policy": "fast", "reward": "best"},
    "fast, discount 1": {"policy": "fast", "discount": 1.0},
}


def schedule_of(family: str) -> dict[str, Any]:
    """How to train on a family, besides the budget.

    Where moving data is dear, any start but one device is a bad one, and so are most moves away from it: less
    entropy ends in a policy that moves nothing.
    """
    if family == "cifar10":
        return {"start": ("single",), "entropy": 0.5, "discount": 0.9}
    return {"start": ("random",)}


def start_of(family: str) -> Start:
    """From where the episodes of a family start."""
    return schedule_of(family)["start"][0]
