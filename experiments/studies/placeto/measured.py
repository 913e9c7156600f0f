"""Numbers of ``mtpp table placement``: means over graphs, medians of seeds."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

import numpy as np

from mtpp.runs.log import Run

__all__ = ["Measured", "number"]


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
