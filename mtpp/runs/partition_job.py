"""One run of one method on one instance: its key, the runs that it starts from, and its execution."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from heuristics import HEURISTICS, search
from instances import InputError, Instance, Partition
from instances.json_files import finite_or_none
from mtpp.certifying.certify import certify
from mtpp.runs.job import Job
from mtpp.runs.log import Run
from mtpp.versions import package_version
from mtpp_models import MODELS, SolveOptions, solve
from mtpp_models.registry import find_model

__all__ = ["CERTIFY", "LP_SUFFIX", "PartitionJob", "base_name", "check_method", "jobs_of"]

#: A model's name with this suffix is its LP relaxation.
LP_SUFFIX = "-lp"

#: The method that searches and proves under one time limit.
CERTIFY = "certify"


@dataclass(frozen=True, eq=False)
class PartitionJob(Job):
    """One method on one instance."""

    instance: Instance
    # Name of a heuristic, or of a model, with the suffix ``-lp`` for its relaxation; exact+all is strengthened.
    method: str
    options: SolveOptions = SolveOptions()  # of a heuristic the seed alone counts
    # Keys of the heuristics on the instance; a bound starts from the best of their partitions.
    waits_for: tuple[str, ...] = ()

    @property
    def is_search(self) -> bool:
        """Whether the method is a heuristic, which needs no partition to start from."""
        return self.method in HEURISTICS

    @cached_property
    def identity(self) -> Run:
        """Fields that identify this run, and the key, which is their hash."""
        platform, options = self.instance.platform, None if self.is_search else self.options
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
            "time_limit": None if options is None else options.time_limit,
            "version": package_version(),
        }
        if platform.fit or self.instance.constraints:
            fields["question"] = self.instance.key
        return {"key": hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest(), **fields}

    @property
    def key(self) -> str:
        """Hash of the identity."""
        return str(self.identity["key"])

    def record(self, seconds: float | None = None, error: str | None = None, **answer: Any) -> Run:
        """One line for the file of runs."""
        graph, ratio = self.instance.graph, self.instance.communication_over_work
        blank = dict.fromkeys(("bottleneck", "bound", "optimal", "solver_version", "block", "order"))
        return {
            **self.identity,
            "instance": self.instance.name,
            "question": self.instance.key,
            "kind": "heuristic" if self.is_search else "model",
            "n": graph.n,
            "m": graph.m,
            "communication_over_work": None if ratio is None else finite_or_none(ratio),
            "time_unit": graph.time_unit,
            "seconds": seconds,
            "error": error,
            **(blank | answer),
        }

    def is_done(self, run: Run | None) -> bool:
        """Whether a run of the file answers the job; a heuristic's has a partition."""
        if run is None or not super().is_done(run) or run["seconds"] is None:
            return False
        return not self.is_search or None not in (run["bottleneck"], run["block"])

    def answer(self, start: Sequence[Run]) -> Run:
        """Compute a partition, or a bound and perhaps a partition."""
        if self.is_search:
            found = search(self.instance, self.method, np.random.default_rng(self.options.seed))
            if found.partition is None:
                raise InputError(found.impossible or "none found")
            return _describe(found.partition)
        known = _best(self.instance, start)
        if self.method == CERTIFY:
            result = certify(self.instance, self.options, start=known, on_fault=_fail)
        else:
            name, lp, _ = self.method.partition(LP_SUFFIX)
            result = solve(self.instance, name, self.options, start=known, relaxation=bool(lp))
        if result.interrupted:
            raise KeyboardInterrupt
        answer = {} if result.partition is None else _describe(result.partition)
        if result.bound is not None:
            optimal = result.proved if self.method == CERTIFY else result.bound.optimal
            answer |= {"bound": result.bound.value, "optimal": optimal}
        return answer | {"solver_version": result.solver}


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
            f"or {CERTIFY}."
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


def jobs_of(
    instances: Iterable[Instance], methods: Sequence[str], options: SolveOptions = SolveOptions()
) -> list[PartitionJob]:
    """Every method on every instance; bounds wait for the heuristics of their instance.

    Raises
    ------
    InputError
        If there is no such method.
    """
    for method in methods:
        check_method(method)
    jobs = []
    for instance in instances:
        searches = {method: PartitionJob(instance, method, options) for method in methods if method in HEURISTICS}
        before = tuple(job.key for job in searches.values())
        jobs += [searches.get(method) or PartitionJob(instance, method, options, before) for method in methods]
    return jobs


def _best(instance: Instance, runs: Sequence[Run]) -> Partition | None:
    """The best partition of some runs, the first one in a tie."""
    found = [run for run in runs if run["error"] is None]
    best = min(found, key=lambda run: run["bottleneck"], default=None)
    return None if best is None else Partition(instance, best["block"], best["order"])


def _fail(fault: Exception) -> None:
    raise fault


def _describe(partition: Partition) -> Run:
    answer: Run = {"bottleneck": partition.bottleneck, "block": partition.block.tolist()}
    if partition.instance.needs_peaks:  # else the order costs nothing
        answer["order"] = partition.order.tolist()
    return answer
