"""Runs of partitioning: what they are called, and what they answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from study_jobs import diamonds, questions

from instances import InputError, Instance, Platform
from mtpp.runs.partition_job import PartitionJob, jobs_of
from mtpp_models import SolveOptions


def test_a_run_says_what_it_is() -> None:
    """A line carries the identity, the size of the instance and the answer."""
    run = jobs_of(questions([2]), ["kahn"])[0].run()
    assert run["error"] is None
    assert (run["n"], run["m"], run["k"], run["kind"]) == (13, 16, 2, "heuristic")
    assert len(run["block"]) == 13
    assert run["bound"] is None
    assert run["solver"] is None
    assert json.loads(json.dumps(run)) == run


@pytest.mark.parametrize(
    "change",
    [
        {"options": SolveOptions(seed=1)},
        {"method": "bottleneck"},
        {"options": SolveOptions(solver="scip")},
        {"options": SolveOptions(time_limit=3)},
        {"options": SolveOptions(gap=0.1)},
        {"options": SolveOptions(threads=2)},
        {"instance": Instance(diamonds(), Platform(3, 2.0))},
        {"instance": Instance(diamonds(), Platform(2, 3.0))},
        {"instance": Instance(diamonds(), Platform(2, 2.0, memory=9))},
        {"instance": Instance(diamonds(), Platform(2, 2.0, memory=9, activation_buffer=1))},
        {"instance": Instance(diamonds(5), Platform(2, 2.0))},
    ],
)
def test_the_key_tells_runs_apart(change: dict[str, Any]) -> None:
    """Whatever changes the answer changes the key."""
    base: dict[str, Any] = {"instance": questions([2])[0], "method": "exact", "options": SolveOptions()}
    assert PartitionJob(**base).key == PartitionJob(**base).key
    assert PartitionJob(**(base | change)).key != PartitionJob(**base).key


def test_a_failure_is_a_line() -> None:
    """An exception of a method becomes the error text of its run."""
    run = jobs_of(questions([2]), ["exact"], SolveOptions(solver="no-such-solver"))[0].run()
    assert run["error"].startswith("InputError: There is no solver 'no-such-solver'")
    assert run["bound"] is None


def test_a_bound_starts_from_the_best_heuristic() -> None:
    """With a gap of nearly 1 the exact model keeps the start; a search that failed is none."""
    exact, *searches = jobs_of(questions([3]), ["exact", "kahn", "random-100"], SolveOptions(gap=0.9))
    assert exact.waits_for == tuple(job.key for job in searches)
    runs = [job.run() for job in searches]
    best = min(run["bottleneck"] for run in runs)
    assert exact.run([searches[0].record(error="it broke"), *runs])["bottleneck"] <= best


def test_unknown_methods_are_refused() -> None:
    with pytest.raises(InputError, match="Unknown method 'nonsense'"):
        jobs_of(questions(), ["nonsense"])
