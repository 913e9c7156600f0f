"""One run of one method on one instance: its key, the runs that it starts from, and its execution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from instances import Instance, Partition
from instances.json_files import finite_or_none
from mtpp.runs.job import Job, key_of, other_code
from mtpp.runs.log import Run
from mtpp.runs.methods import (
    CERTIFY,
    LP_SUFFIX,
    RunMethod,
    base_name,
    check_method,
    proved,
    run_methods,
    solver_version,
)
from mtpp.versions import package_version
from mtpp_models import SolveOptions, simple

__all__ = ["CERTIFY", "LP_SUFFIX", "PartitionJob", "base_name", "check_method", "jobs_of"]


@dataclass(frozen=True, eq=False)
class PartitionJob(Job):
    """One method on one instance."""

    instance: Instance
    by: RunMethod
    options: SolveOptions = SolveOptions()  # of a heuristic the seed alone counts
    # Keys of the heuristics on the instance; a bound starts from the best of their partitions.
    waits_for: tuple[str, ...] = ()
    budget: float | None = None  # seconds of a heuristic; by default it does its own number of evaluations
    twice: bool = False  # whether a heuristic of a caller is asked twice
    solver_version: str | None = None
    profile: str | None = None  # of the study that asks

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.by.name

    @property
    def identity(self) -> Run:
        """Fields that the answer depends on."""
        more = {"solver_version": self.solver_version, "sources": self.by.sources}
        time_limit = self.budget if self.by.is_search else self.options.time_limit
        return {**self._question(time_limit), **more}

    def _question(self, time_limit: float | None) -> Run:
        """Fields that the answer depends on, but for the code."""
        platform, options = self.instance.platform, None if self.by.is_search else self.options
        fields = {
            "graph": self.instance.graph.content_hash,
            "bandwidth": finite_or_none(platform.bandwidth),
            "memory": finite_or_none(platform.memory),
            "activation_buffer": platform.activation_buffer,
            "k": platform.k,
            "method": self.method,
            "parameters": {} if options is None else {"gap": options.gap, "threads": options.threads},
            "seed": self.options.seed,
            "solver": None if options is None else options.solver,
            "time_limit": time_limit,
        }
        if platform.fit or self.instance.constraints:
            fields["question"] = self.instance.key
        return fields

    @cached_property
    def key(self) -> str:
        """Hash of the identity."""
        return key_of(self.identity)

    @property
    def old_key(self) -> str | None:
        """Key that counted the version of the package in place of the code."""
        if self.budget is not None or self.by.own is not None:
            return None
        time_limit = None if self.by.is_search else self.options.time_limit
        return key_of(self._question(time_limit) | {"version": package_version()})

    def record(self, seconds: float | None = None, error: str | None = None, **answer: Any) -> Run:
        """One line for the file of runs."""
        graph, ratio = self.instance.graph, self.instance.communication_over_work
        blank = dict.fromkeys(("bottleneck", "bound", "optimal", "block", "order", "repeatable"))
        return {
            "key": self.key,
            **self.identity,
            "version": package_version(),
            "profile": self.profile,
            "instance": self.instance.name,
            "cluster": self.instance.cluster,
            "question": self.instance.key,
            "kind": "heuristic" if self.by.is_search else "model",
            "n": graph.n,
            "m": graph.m,
            "communication_over_work": None if ratio is None else finite_or_none(ratio),
            "time_unit": graph.time_unit,
            "simple": simple(self.instance),
            "seconds": seconds,
            "error": error,
            **(blank | answer),
        }

    def is_done(self, run: Run | None) -> bool:
        """Whether a run of the file answers the job; a heuristic's has a partition."""
        if run is None or not super().is_done(run) or run["seconds"] is None:
            return False
        if self.twice and run["repeatable"] is None:
            return False
        return not self.by.is_search or None not in (run["bottleneck"], run["block"])

    def chosen(self, start: Sequence[Run]) -> Sequence[Run]:
        """The run with the best partition."""
        best = _best(start)
        return [] if best is None else [best]

    def refusal(self) -> str | None:
        """Another method or solver than the caller's."""
        if not self.by.is_same_here():
            return other_code(self.method)
        if self.solver_version is not None and (here := solver_version(self.options.solver)) != self.solver_version:
            return f"this worker has {self.options.solver} {here}, the caller {self.solver_version}; install the same."
        return None

    def answer(self, start: Sequence[Run]) -> Run:
        """Compute a partition, or a bound and perhaps a partition."""
        if self.by.is_search:
            patience = self.budget or self.options.time_limit
            return self.by.search(self.instance, self.options.seed, self.budget, patience, twice=self.twice)
        best = _best(start)
        incumbent = None if best is None else Partition(self.instance, best["block"], best["order"])
        return proved(self.method, self.instance, self.options, incumbent)


def jobs_of(
    instances: Iterable[Instance],
    methods: Iterable[Any],
    options: SolveOptions = SolveOptions(),
    *,
    seeds: Sequence[int] = (),
    budgets: Sequence[float | None] = (None,),
    profile: str | None = None,
) -> list[PartitionJob]:
    """Every method on every instance; bounds wait for the heuristics of their instance.

    Parameters
    ----------
    instances : iterable of Instance
    methods : iterable
        Names, or heuristics of the caller: functions, ``package.module:function`` or ``file.py:function``.
    options : SolveOptions
        Its time limit is for each bound, and ends a heuristic of the caller that has no budget.
    seeds : sequence of int
        Each for every heuristic, by default that of the options, which bounds have.
    budgets : sequence of float or None
        Seconds for heuristics, each for every one of them; None is its own number of evaluations.
    profile : str, optional
        Name of the extent of a study, for the runs.

    Raises
    ------
    InputError
        If there is no such method.
    """
    methods_run = run_methods(methods)
    version = solver_version(options.solver) if any(by.needs_solver for by in methods_run) else None
    drawn = [replace(options, seed=seed) for seed in (seeds or [options.seed])]
    jobs: list[PartitionJob] = []
    for place, instance in enumerate(instances):
        searches = {
            by.name: [
                PartitionJob(
                    instance,
                    by,
                    seeded,
                    budget=budget,
                    twice=by.own is not None and place == 0 and seeded is drawn[0],
                    profile=profile,
                )
                for seeded in drawn
                for budget in budgets
            ]
            for by in methods_run
            if by.is_search
        }
        before = tuple(job.key for made in searches.values() for job in made)
        for by in methods_run:
            release = version if by.needs_solver else None
            jobs += searches.get(by.name) or [
                PartitionJob(instance, by, drawn[0], before, solver_version=release, profile=profile)
            ]
    return jobs


def _best(runs: Sequence[Run]) -> Run | None:
    """The run with the best partition, the first one in a tie."""
    return min((run for run in runs if run["error"] is None), key=lambda run: run["bottleneck"], default=None)
