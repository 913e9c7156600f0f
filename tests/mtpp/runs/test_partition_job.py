"""Runs of partitioning: what they are called, and what they answer."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from study_jobs import diamonds, questions

from instances import InputError, Instance, Platform
from mtpp.runs.partition_job import jobs_of
from mtpp_models import SOLVERS, SolveOptions, simple


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
    assert key(**base) == key(**base)
    assert key(**(base | change)) != key(**base)


def key(instance: Instance, method: str, options: SolveOptions) -> str:
    (job,) = jobs_of([instance], [method], options)
    return job.key


def test_seeds_and_budgets_belong_to_heuristics() -> None:
    """A search runs with each of them, a bound once; all searches come before the bound."""
    jobs = jobs_of(questions([2]), ["random-1", "pinned"], seeds=[3, 4], budgets=[None, 0.5], profile="quick")
    assert [(job.method, job.options.seed, job.budget) for job in jobs] == [
        ("random-1", 3, None),
        ("random-1", 3, 0.5),
        ("random-1", 4, None),
        ("random-1", 4, 0.5),
        ("pinned", 3, None),
    ]
    assert len({job.key for job in jobs}) == 5
    assert jobs[-1].waits_for == tuple(job.key for job in jobs[:-1])
    assert {job.record()["profile"] for job in jobs} == {"quick"}


def test_a_run_says_how_it_was_made() -> None:
    """When, where, by which code and versions; bounds that need a solver name its version."""
    searched, proved = (job.run() for job in jobs_of(questions([2]), ["kahn", "exact"]))
    for run in (searched, proved):
        assert run["start"].endswith("+00:00")
        assert run["cores"] >= 1
        assert run["cpu_seconds"] >= 0
        assert run["versions"]["numpy"] == np.__version__
        assert (run["simple"], run["cluster"]) == (jobs_simple(), "diamonds")
        assert len(run["sources"]) == 64
        assert run["commit"] is None or re.fullmatch("[0-9a-f]{40}(-dirty)?", run["commit"])
    assert searched["solver_version"] is None
    assert proved["solver_version"] == SOLVERS["highs"].version()


def jobs_simple() -> float:
    return simple(questions([2])[0])


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
