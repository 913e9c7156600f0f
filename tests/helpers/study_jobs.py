"""Jobs for tests of the run engine, which other processes can import."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from instances import ComputationGraph, Instance, Platform
from mtpp.runs.job import Job, Run

#: What must not depend on when and where a run was made.
ANSWER = ("key", "instance", "k", "method", "bottleneck", "bound", "optimal", "block", "error")


def diamonds(count: int = 4) -> ComputationGraph:
    """A chain of diamonds, the works all different."""
    edges = [e for i in range(0, 3 * count, 3) for e in ((i, i + 1), (i, i + 2), (i + 1, i + 3), (i + 2, i + 3))]
    n = 3 * count + 1
    return ComputationGraph.from_edges(edges, [1 + 7 * v % 5 for v in range(n)], [1.0] * n, name="diamonds")


def questions(ks: Sequence[int] = (2, 3)) -> list[Instance]:
    return [Instance(diamonds(), Platform(k, bandwidth=2.0)) for k in ks]


def answers(runs: Sequence[Run]) -> list[Run]:
    return sorted(({name: run[name] for name in ANSWER} for run in runs), key=lambda run: str(run["key"]))


@dataclass(frozen=True, eq=False)
class Sum(Job):
    """Its number and the sums of the jobs that it waits for, after some seconds; a deadly one ends its process."""

    key: str = ""
    number: int = 0
    waits_for: tuple[str, ...] = ()
    seconds: float = field(default=0.0, kw_only=True)
    deadly: bool = field(default=False, kw_only=True)

    def record(self, seconds: float | None = None, error: str | None = None, **answer: Any) -> Run:
        return {"key": self.key, "instance": "sums", "k": 1, "method": "sum", "error": error, "sum": None, **answer}

    def answer(self, start: Sequence[Run]) -> Run:
        time.sleep(self.seconds)
        if self.deadly:
            os._exit(1)
        return {"sum": self.number + sum(run["sum"] for run in start)}
