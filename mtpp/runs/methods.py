"""Methods that runs of partitioning are made by, under the names that runs have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from heuristics import HEURISTICS, Limits, search
from instances import InputError, Instance, Partition
from instances.deadline import Deadline
from mtpp.certifying.certify import certify
from mtpp.runs.fingerprint import sources_of
from mtpp.runs.job import MEASURED
from mtpp.runs.log import Run
from mtpp.runs.own_methods import OwnMethod, own_method
from mtpp.runs.sources import PROJECT, Homes
from mtpp_models import MODELS, SolveOptions, SolverFaultError, solve
from mtpp_models.formulations.formulation import Formulation
from mtpp_models.registry import find_model
from mtpp_models.solvers.registry import SOLVERS

__all__ = [
    "CERTIFY",
    "LP_SUFFIX",
    "RunMethod",
    "base_name",
    "check_method",
    "describe",
    "proved",
    "run_methods",
    "solver_version",
]

#: A model's name with this suffix is its LP relaxation.
LP_SUFFIX = "-lp"

#: The method that searches and proves under one time limit.
CERTIFY = "certify"


@dataclass(frozen=True, eq=False)
class RunMethod:
    """A heuristic, a bound, or "certify", and the code that it is made of."""

    name: str
    sources: str  # hash of that code
    own: OwnMethod | None = None  # a heuristic of a caller

    @property
    def is_search(self) -> bool:
        """Whether it is a heuristic, which needs no partition to start from."""
        return self.own is not None or self.name in HEURISTICS

    @cached_property
    def needs_solver(self) -> bool:
        """Whether a solver works for it."""
        if self.is_search:
            return False
        return self.name == CERTIFY or isinstance(find_model(self.name.removesuffix(LP_SUFFIX)), Formulation)

    @property
    def finds_partitions(self) -> bool:
        """Whether a partition in a run is its own, and not the one that it started from."""
        if self.is_search or self.name == CERTIFY:
            return True
        return not self.name.endswith(LP_SUFFIX) and find_model(self.name).exact

    @property
    def can_travel(self) -> bool:
        """Whether other processes can run it."""
        return self.own is None or self.own.can_travel

    def is_same_here(self) -> bool:
        """Whether this process has the code that the caller has; a heuristic of a caller brings its own."""
        return self.own is not None or _loaded_method(self.name).sources == self.sources

    def search(
        self, instance: Instance, seed: int, time_limit: float | None, patience: float | None, *, twice: bool
    ) -> Run:
        """Fields of the answer of a heuristic; if `twice`, whether it gives the same answer again."""
        if self.own is None:
            return describe(_searched(instance, self.name, seed, time_limit))
        partition, spent = self.own.search(instance, seed, time_limit, patience)
        answer = describe(partition) | {MEASURED: (spent.seconds, spent.cpu_seconds)}
        if twice:
            again, _ = self.own.search(instance, seed, time_limit, patience)
            answer["repeatable"] = again.bottleneck == partition.bottleneck and bool(
                (again.block == partition.block).all()
            )
        return answer


def run_methods(given: Iterable[Any]) -> list[RunMethod]:
    """Methods by name, as functions, or where functions are, with the code that they have now.

    Raises
    ------
    InputError
        If one is unknown, or two have the same name.
    """
    homes, methods = Homes(PROJECT), dict[str, RunMethod]()
    for item in given:
        method = own_method(item)
        if isinstance(method, str):
            check_method(method)
            methods[method] = RunMethod(method, _sources(method, homes))
            continue
        if method.name in methods and (methods[method.name].own or method).sources != method.sources:
            raise InputError(f"methods: two are called {method.name}; give one of them another name.")
        if method.name == CERTIFY or base_name(method.name) in MODELS or _is_name_of_ours(method.name):
            raise InputError(f"methods: {method.name} is a method of this project; give yours another name.")
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
        raise InputError(
            f"Unknown method {name!r}; choose heuristics among {', '.join(HEURISTICS)}, "
            f"models among {', '.join(MODELS)} (with +all: strengthened, with {LP_SUFFIX}: the relaxation), "
            f"{CERTIFY}, or name your own, as in mine.py:function."
        )
    find_model(name.removesuffix(LP_SUFFIX))


def base_name(method: str) -> str:
    """Name without what is added to the model or taken from it.

    Examples
    --------
    >>> base_name("exact+all-joins-lp")
    'exact'
    """
    return method.removesuffix(LP_SUFFIX).partition("+")[0]


@lru_cache
def solver_version(name: str) -> str | None:
    """Version of a solver, if it can run here."""
    try:
        return SOLVERS[name].version() if name in SOLVERS else None
    except SolverFaultError:
        return None


def describe(partition: Partition) -> Run:
    """Fields of a partition."""
    answer: Run = {"bottleneck": partition.bottleneck, "block": partition.block.tolist()}
    if partition.instance.needs_peaks:  # else the order costs nothing
        answer["order"] = partition.order.tolist()
    return answer


def _is_name_of_ours(name: str) -> bool:
    return name in HEURISTICS and own_method(name) == name


def _searched(instance: Instance, name: str, seed: int, time_limit: float | None) -> Partition:
    limits = None if time_limit is None else Limits(Deadline.after(time_limit))
    result = search(instance, name, np.random.default_rng(seed), limits)
    if result.interrupted:
        raise KeyboardInterrupt
    if result.partition is None:
        raise InputError(result.impossible or "none found")
    return result.partition


def proved(name: str, instance: Instance, options: SolveOptions, start: Partition | None) -> Run:
    """Fields of the answer of a bound."""
    if name == CERTIFY:
        result = certify(instance, options, start=start, on_fault=_fail)
    else:
        model, lp, _ = name.partition(LP_SUFFIX)
        result = solve(instance, model, options, start=start, relaxation=bool(lp))
    if result.interrupted:
        raise KeyboardInterrupt
    answer = {} if result.partition is None else describe(result.partition)
    if result.bound is not None:
        optimal = result.proved if name == CERTIFY else result.bound.optimal
        answer |= {"bound": result.bound.value, "optimal": optimal}
    return answer


def _fail(fault: Exception) -> None:
    raise fault


def _sources(method: str | OwnMethod, homes: Homes) -> str:
    """Hash of the code of a method, and of the functions here that call it."""
    if isinstance(method, OwnMethod):
        return sources_of(method.sources, glue=[describe, search], homes=homes)
    if method in HEURISTICS:
        return sources_of(HEURISTICS[method].run, glue=[_searched, describe, search], homes=homes)
    if method == CERTIFY:
        return sources_of(certify, glue=[describe], homes=homes)
    model = find_model(method.removesuffix(LP_SUFFIX))
    return sources_of(model, method.endswith(LP_SUFFIX), glue=[describe, solve], homes=homes)


@lru_cache
def _loaded_method(name: str) -> RunMethod:
    """A method of this project with the hash of its code as this process has loaded it."""
    return RunMethod(name, _sources(name, Homes(PROJECT)))
