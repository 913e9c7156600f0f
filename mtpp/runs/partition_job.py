"""Jobs of partitions: methods by name, and runs of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from heuristics import HEURISTICS, Limits, search
from instances import InputError, Instance, Partition
from instances.deadline import Deadline
from instances.errors import NothingFoundError, nearest
from instances.json_files import finite_or_none
from instances.results import LP_SUFFIX, thinned
from mtpp.certifying.certify import certify
from mtpp.runs.code_hash import sources_of
from mtpp.runs.job import MEASURED, Job, Run, key_of, other_code
from mtpp.runs.method_process import Task
from mtpp.runs.sources import PROJECT, Homes
from mtpp.runs.user_methods import CERTIFY, UserMethod, as_user_method, base_name, refuse_taken_name
from mtpp.versions import package_version
from mtpp_models import MODELS, SolveOptions, SolverFaultError, relaxation, simple, solve
from mtpp_models.formulations.formulation import Formulation
from mtpp_models.registry import find_model
from mtpp_models.solvers.registry import SOLVERS

# Methods that runs of partitioning are made by, under the names that runs have.


# Moments of a run that its line in a file keeps.
_MOST_POINTS = 100


@dataclass(frozen=True, eq=False)
class RunMethod:
    """A heuristic, a bound, or "certify", with the hash of its code."""

    name: str
    sources: str  # hash of that code
    user_method: UserMethod | None = None  # the caller's own method, if it is one

    @property
    def is_search(self) -> bool:
        """Whether the method is a heuristic, which needs no partition to start from."""
        return self.name in HEURISTICS if self.user_method is None else self.user_method.model is None

    @cached_property
    def needs_solver(self) -> bool:
        """Whether the method uses a solver."""
        if self.is_search:
            return False
        if self.user_method is not None:
            return self.user_method.model is not None and self.user_method.model.by_solver
        return self.name == CERTIFY or isinstance(find_model(self.name.removesuffix(LP_SUFFIX)), Formulation)

    @property
    def finds_partitions(self) -> bool:
        """Whether runs contain new partitions, rather than the one they started from."""
        if self.is_search or self.name == CERTIFY:
            return True
        if self.user_method is not None:
            return self.user_method.model is not None and self.user_method.model.exact
        return not self.name.endswith(LP_SUFFIX) and find_model(self.name).exact

    @property
    def takes_kinds(self) -> bool:
        """Whether the method takes several kinds of devices; a caller's function may."""
        if self.user_method is not None:
            return self.user_method.model is None or self.user_method.model.any_kinds
        if self.name in HEURISTICS:
            return HEURISTICS[self.name].kinds == "any"
        return self.name == CERTIFY or find_model(self.name.removesuffix(LP_SUFFIX)).kinds == "any"

    @property
    def can_travel(self) -> bool:
        """Whether other processes can run the method."""
        return self.user_method is None or self.user_method.can_travel

    def is_same_here(self) -> bool:
        """Whether this process has the caller's code of the method."""
        return self.user_method is not None or _loaded_method(self.name).sources == self.sources

    def answer(
        self, instance: Instance, options: SolveOptions, start: Partition | None, patience: float | None, *, twice: bool
    ) -> Run:
        """Fields of the answer; with `twice`, also whether a repetition gives the same one.

        Parameters
        ----------
        options : SolveOptions
            For a heuristic only seed and time limit are used.
        start : Partition, optional
            Partition that a bound starts from.
        patience : float, optional
            Seconds, plus a margin, after which a caller's own method is ended.
        """
        if self.user_method is None:
            if self.is_search:
                return describe(_searched(instance, self.name, options.seed, options.time_limit))
            return proved(self.name, instance, options, start)
        task = Task(instance, options, start)
        partition, spent = self.user_method.answer(task, patience)
        answer = {} if partition is None else describe(partition)
        if spent.bound is not None:
            answer |= {"bound": spent.bound, "optimal": False}
        if twice and partition is not None:
            again = self.user_method.answer(task, patience)[0]
            answer["repeatable"] = again is not None and describe(again) == describe(partition)
        return answer | {MEASURED: (spent.seconds, spent.cpu_seconds)}


def run_methods(candidates: Iterable[Any]) -> list[RunMethod]:
    """Methods by name, from names, functions, models or addresses, with their present code.

    Raises
    ------
    InputError
        If one is unknown, or two have the same name.
    """
    homes, methods = Homes(PROJECT), dict[str, RunMethod]()
    for item in candidates:
        method = as_user_method(item)
        if isinstance(method, str):
            check_method(method)
            methods[method] = RunMethod(method, _sources(method, homes))
            continue
        if method.name in methods and (methods[method.name].user_method or method).sources != method.sources:
            remedy = "give one another __name__, or another name to its file or its model."
            raise InputError(f"methods: two are called {method.name}; {remedy}")
        refuse_taken_name(method)
        methods[method.name] = RunMethod(method.name, _sources(method, homes), method)
    return list(methods.values())


def check_method(name: str) -> None:
    """Refuse a name that is neither a heuristic nor a model.

    Raises
    ------
    InputError
        The message lists the names.
    """
    if name in HEURISTICS or name == CERTIFY:
        return
    if base_name(name) not in MODELS:
        rest = (
            f"choose heuristics among {', '.join(HEURISTICS)}, models among {', '.join(MODELS)} "
            f"(with +all: strengthened, with {LP_SUFFIX}: the relaxation), {CERTIFY}, or name your own, as mine.py:NAME"
        )
        raise InputError(f"Unknown method {name!r}{nearest((*HEURISTICS, *MODELS, CERTIFY), name, rest)}")
    model = find_model(name.removesuffix(LP_SUFFIX))
    if name.endswith(LP_SUFFIX) and not isinstance(model, Formulation):
        raise InputError(f"{name}: {model.name} needs no solver and has no relaxation; leave out {LP_SUFFIX}.")


@lru_cache
def solver_version(name: str) -> str | None:
    """Version of a solver, if it can run on this machine."""
    try:
        return SOLVERS[name].version() if name in SOLVERS else None
    except SolverFaultError:
        return None


def describe(partition: Partition) -> Run:
    """Fields of a run about a partition."""
    answer: Run = {"bottleneck": partition.bottleneck, "block": partition.block.tolist()}
    if partition.instance.needs_peaks:  # else the order costs nothing
        answer["order"] = partition.order.tolist()
    if not partition.instance.is_alike:
        answer["devices"] = partition.kind.tolist()
    return answer


def _searched(instance: Instance, name: str, seed: int, time_limit: float | None) -> Partition:
    limits = None if time_limit is None else Limits(Deadline.after(time_limit))
    result = search(instance, name, np.random.default_rng(seed), limits)
    if result.interrupted:
        raise KeyboardInterrupt
    if result.impossible is not None:
        raise InputError(result.impossible)
    if result.partition is None:
        raise NothingFoundError("none found")
    return result.partition


def proved(name: str, instance: Instance, options: SolveOptions, start: Partition | None) -> Run:
    """Fields of a run about a bound."""
    if name == CERTIFY:
        result = certify(instance, options, start=start, on_fault=_fail)
    elif name.endswith(LP_SUFFIX):
        bound = relaxation(instance, name.removesuffix(LP_SUFFIX), options, start=start).bound
        return {} if bound is None or bound == math.inf else {"bound": bound, "optimal": True}
    else:
        result = solve(instance, name, options, start=start)
    if result.interrupted:
        raise KeyboardInterrupt
    answer = {} if result.partition is None else describe(result.partition)
    if result.bound is not None:
        optimal = result.proved if name == CERTIFY else result.bound.optimal
        answer |= {"bound": result.bound.value, "optimal": optimal}
        answer |= {name: value for name, value in result.bound.witness.items() if name == "at_most"}
    moments = thinned(list(result.moments), _MOST_POINTS)
    trace = [[round(moment.seconds, 6), _finite(moment.cost), moment.bound] for moment in moments]
    return answer | ({"trace": trace} if len(trace) > 1 else {})


def _finite(value: float | None) -> float | None:
    return None if value is None else finite_or_none(value)


def _fail(fault: Exception) -> None:
    raise fault


def _sources(method: str | UserMethod, homes: Homes) -> str:
    """Hash of the code of a method, and of the functions that call it."""
    if isinstance(method, UserMethod):
        glue = search if method.model is None else solve
        return sources_of(method.sources, glue=[describe, glue], homes=homes)
    if method in HEURISTICS:
        return sources_of(HEURISTICS[method].run, glue=[_searched, describe, search], homes=homes)
    if method == CERTIFY:
        return sources_of(certify, glue=[describe], homes=homes)
    model = find_model(method.removesuffix(LP_SUFFIX))
    return sources_of(model, glue=[relaxation] if method.endswith(LP_SUFFIX) else [describe, solve], homes=homes)


@lru_cache
def _loaded_method(name: str) -> RunMethod:
    """A method of this project with the hash of its code as loaded."""
    return RunMethod(name, _sources(name, Homes(PROJECT)))


# One run of one method on one instance: its key, the runs that it starts from, and its execution.


@dataclass(frozen=True, eq=False)
class PartitionJob(Job):
    """Job that runs one method on one instance."""

    instance: Instance
    by: RunMethod
    options: SolveOptions = SolveOptions()  # a heuristic takes only the seed from them
    # Keys of the heuristics on the instance; a bound starts from the best of their partitions.
    waits_for: tuple[str, ...] = ()
    budget: float | None = None  # seconds of a heuristic; by default it does its own number of evaluations
    twice: bool = False  # whether a heuristic of a caller is asked twice
    solver_version: str | None = None
    profile: str | None = None  # name of the profile of the study that asks

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.by.name

    @property
    def identity(self) -> Run:
        """Fields on which the answer depends."""
        more = {"solver_version": self.solver_version, "sources": self.by.sources}
        time_limit = self.budget if self.by.is_search else self.options.time_limit
        return {**self._question(time_limit), **more}

    def _question(self, time_limit: float | None) -> Run:
        """Fields on which the answer depends, without the code."""
        platform, options = self.instance.platform, None if self.by.is_search else self.options
        fields = {
            "graph": self.instance.graph.content_hash,
            "bandwidth": finite_or_none(platform.bandwidth),
            "memory": finite_or_none(platform.memory),
            "activation_buffer": platform.activation_buffer,
            "k": platform.k,
            "method": self.method,
            "parameters": {
                name: value
                for name, value in ({} if options is None else options.identity).items()
                if name not in ("seed", "time_limit")
            },
            "seed": self.options.seed,
            "solver": None if options is None else options.solver,
            "time_limit": time_limit,
        }
        if platform.fit or self.instance.constraints or not self.instance.is_alike:
            fields["question"] = self.instance.key
        return fields

    @cached_property
    def key(self) -> str:
        """Hash of the identity."""
        return key_of(self.identity)

    @property
    def old_key(self) -> str | None:
        """Key of earlier versions, with the package version in place of the code."""
        if self.budget is not None or self.by.user_method is not None:
            return None
        time_limit = None if self.by.is_search else self.options.time_limit
        return key_of(self._question(time_limit) | {"version": package_version()})

    def record(self, seconds: float | None = None, error: str | None = None, **answer: Any) -> Run:
        """The run as a row for the file of runs."""
        graph, ratio = self.instance.graph, self.instance.communication_over_work
        blank = dict.fromkeys(("bottleneck", "bound", "optimal", "block", "order", "repeatable"))
        return {
            "key": self.key,
            **self.identity,
            "version": package_version(),
            "profile": self.profile,
            "instance": self.instance.name,
            "cluster": self.instance.family,
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
        """Whether a run answers the job; a heuristic's must have a partition."""
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
        """Reason why this process must not run the job, as its method or solver differs; None if it may."""
        if not self.by.is_same_here():
            return other_code(self.method)
        solver = self.options.solver
        if self.solver_version is not None and (version := solver_version(solver)) != self.solver_version:
            return f"this worker has {solver} {version}, the caller {self.solver_version}; install the same."
        return None

    def answer(self, start: Sequence[Run]) -> Run:
        """Compute a partition, or a bound and perhaps a partition."""
        if self.by.is_search:
            patience, options = self.budget or self.options.time_limit, replace(self.options, time_limit=self.budget)
            return self.by.answer(self.instance, options, None, patience, twice=self.twice)
        best = _best(start)
        incumbent = None
        if best is not None:
            incumbent = Partition(self.instance, best["block"], best["order"], best.get("devices"))
        return self.by.answer(self.instance, self.options, incumbent, self.options.time_limit, twice=False)


def jobs_of(
    instances: Iterable[Instance],
    methods: Iterable[Any],
    options: SolveOptions = SolveOptions(),
    *,
    seeds: Sequence[int] = (),
    budgets: Sequence[float | None] = (None,),
    profile: str | None = None,
) -> list[PartitionJob]:
    """Jobs for every method on every instance; bounds wait for the instance's heuristics.

    Parameters
    ----------
    instances : iterable of Instance
    methods : iterable
        Names, or methods of the caller: functions, models, ``package.module:NAME`` or ``file.py:NAME``.
    options : SolveOptions
        Its time limit is for each bound, and ends a heuristic of the caller that has no budget.
    seeds : sequence of int
        Each heuristic runs with every seed; by default with that of the options, which bounds use.
    budgets : sequence of float or None
        Seconds for each heuristic, each with every budget; None is the heuristic's own number of evaluations.
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
                    twice=by.user_method is not None and place == 0 and seeded is drawn[0],
                    profile=profile,
                )
                for seeded in drawn
                for budget in budgets
            ]
            for by in methods_run
            if by.is_search
        }
        before = tuple(job.key for jobs_of_search in searches.values() for job in jobs_of_search)
        for by in methods_run:
            release = version if by.needs_solver else None
            jobs += searches.get(by.name) or [
                PartitionJob(instance, by, drawn[0], before, solver_version=release, profile=profile)
            ]
    return jobs


def _best(runs: Sequence[Run]) -> Run | None:
    """The run with the best partition, the first of equal ones."""
    return min((run for run in runs if run["error"] is None), key=lambda run: run["bottleneck"], default=None)
