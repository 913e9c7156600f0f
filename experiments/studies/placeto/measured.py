"""Efforts of the study of placements, and what runs measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from mtpp.runs.log import Run

# Budget of ``mtpp table placement``: updates of training, simulations of annealing, and the graphs.


#: Devices of the main questions, and of those that a policy is carried over to.
DEVICES, OTHER_DEVICES = 4, (2, 8)
#: The family of the ablations, and their devices.
ABLATED, ABLATED_DEVICES = "ptb", 2
#: Random traversal orders, and sampled episodes.
ORDERS, SAMPLES = 16, 16
#: Episodes of each update when a policy or a planner is trained for one graph alone.
ALONE = 32
#: The policy, its arguments and the training of each ablation.
ABLATIONS: dict[str, dict[str, Any]] = {
    "placeto": {"policy": "placeto", "rounds": 2, "outer": True},
    "placeto, terminal reward": {"policy": "placeto", "rounds": 2, "outer": True, "reward": "terminal"},
    "placeto, partitioner": {"policy": "placeto", "rounds": 0, "outer": True},
    "placeto, aggregator": {"policy": "placeto", "rounds": 0, "outer": True, "pooled": False},
    "device pool": {"policy": "device-pool", "rounds": 8},
    "device pool, no messages": {"policy": "device-pool", "rounds": 0},
    "fast": {"policy": "fast"},
    "fast, terminal reward": {"policy": "fast", "reward": "terminal"},
    "fast, discount 1": {"policy": "fast", "discount": 1.0},
}


@dataclass(frozen=True)
class Budget:
    """Lengths of training and annealing, in updates and simulations, so that runs repeat exactly."""

    updates: int = 200  # of a policy for a family, 64 episodes each
    alone: int = 120  # of a policy for one graph, 32 episodes each; a planner has twice as many, 16 placements each
    ablation: int = 50  # of each ablation
    annealing: int = 100_000  # simulations of the long annealing of each graph
    graphs: int = 4  # test graphs that are optimised one by one
    seeds: int = 3  # the table shows the median


#: A first look.
QUICK = Budget(updates=40, alone=20, ablation=10, graphs=2, seeds=1)


# Numbers of ``mtpp table placement``: means over graphs, medians of seeds.


class Measured:
    """Answers of runs by family and kind.

    Parameters
    ----------
    runs : iterable of Run
        Those that failed are left out.

    Attributes
    ----------
    families : list of str
        Those that a policy was trained for.
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = [run for run in runs if run["error"] is None]
        self.families = list(dict.fromkeys(run["instance"] for run in self._of("fast")))

    def answers(self, family: str, what: str) -> list[dict[str, Any]]:
        """Answers of all seeds."""
        return [run["answer"] for run in self._of(what) if run["instance"] == family]

    def value(self, family: str, what: str, name: str, graphs: int | None = None) -> float | None:
        """Median over seeds of the mean over (the first few) graphs."""
        return _middle([answer for answer in self.answers(family, what) if name in answer], name, graphs)

    def simulations(self, family: str, what: str, name: str) -> float | None:
        """Median over seeds of the mean simulations of a graph; None if none are counted."""
        counts = [answer[name]["simulations"] for answer in self.answers(family, what) if name in answer]
        return float(median(np.mean(count) for count in counts)) if counts and None not in counts else None

    def ablation(self, design: str, name: str) -> float | None:
        """Median over seeds of one design."""
        return _middle([run["answer"] for run in self._of("ablation") if run["options"]["name"] == design], name)

    def seconds(self, family: str, name: str) -> float:
        """Median over seeds of the time for *training* a policy, or for *placing* a graph with it."""
        return float(median(answer[name] for answer in self.answers(family, "fast")))

    def graphs(self, family: str) -> int:
        """Number of graphs that were optimised one by one."""
        return min((len(answer["best"]["times"]) for answer in self.answers(family, "optimised")), default=0)

    def orders(self, family: str) -> tuple[float, float]:
        """Least and largest mean over the graphs of a random traversal order, medians of the seeds."""
        orders = [answer["orders"] for answer in self.answers(family, "fast")]
        return float(median(map(min, orders))), float(median(map(max, orders)))

    def _of(self, what: str) -> list[Run]:
        return [run for run in self._runs if run["method"] == what]


def number(value: float | None) -> str:
    """Three digits, or a dash for what is missing."""
    return "–" if value is None else f"{value:.3f}"


def _middle(answers: list[dict[str, Any]], name: str, graphs: int | None = None) -> float | None:
    means = [np.mean(answer[name]["times"][:graphs]) for answer in answers if graphs != 0]
    return float(median(means)) if means else None
