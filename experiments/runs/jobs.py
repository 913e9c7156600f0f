"""One run of one method on one instance: what it is called, and doing it."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from experiments.certificates.ladder import certify
from experiments.runs.log import Run
from experiments.versions import package_version
from heuristics import HEURISTICS
from instances import InputError, Instance, Partition
from mtpp_models import MODELS, SolveOptions, solve
from mtpp_models.registry import find_model

__all__ = ["CERTIFY", "LP_SUFFIX", "Job", "Start", "base_name", "check_method", "execute", "plan_jobs"]

#: A model's name with this suffix is its LP relaxation.
LP_SUFFIX = "-lp"

#: The method that searches and proves under one time limit.
CERTIFY = "certify"

#: Block and order of a partition to start from, as a run holds them.
Start = tuple[Sequence[int], Sequence[int] | None]


@dataclass(frozen=True, eq=False)
class Job:
    """One run to be made.

    Parameters
    ----------
    instance : Instance
    method : str
        Name of a heuristic, or of a model, with the suffix ``-lp`` for its relaxation; exact+all is strengthened.
    options : SolveOptions
        Of a heuristic the seed alone counts.
    """

    instance: Instance
    method: str
    options: SolveOptions = SolveOptions()

    @property
    def is_search(self) -> bool:
        """Whether the method is a heuristic, which needs no partition to start from."""
        return self.method in HEURISTICS

    @cached_property
    def identity(self) -> Run:
        """What tells this run from others: the fields that the key is made of, and the key."""
        platform, options = self.instance.platform, None if self.is_search else self.options
        fields = {
            "graph": self.instance.graph.content_hash,
            "bandwidth": _finite(platform.bandwidth),
            "memory": _finite(platform.memory),
            "activation_buffer": platform.activation_buffer,
            "k": platform.k,
            "method": self.method,
            "parameters": {} if options is None else {"gap": options.gap, "threads": options.threads},
            "seed": self.options.seed,
            "solver": None if options is None else options.solver,
            "time_limit": None if options is None else options.time_limit,
            "version": package_version(),
        }
        return {"key": hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest(), **fields}

    @property
    def key(self) -> str:
        """Hash of the identity."""
        return str(self.identity["key"])

    def record(self, seconds: float | None = None, error: str | None = None, **answer: Any) -> Run:
        """One line for the file of runs."""
        graph = self.instance.graph
        blank = dict.fromkeys(("bottleneck", "bound", "optimal", "solver_version", "block", "order"))
        return {
            **self.identity,
            "instance": self.instance.name,
            "question": self.instance.key,
            "kind": "heuristic" if self.is_search else "model",
            "n": graph.n,
            "m": graph.m,
            "communication_over_work": _finite(self.instance.communication_over_work),
            "time_unit": graph.time_unit,
            "seconds": seconds,
            "error": error,
            **(blank | answer),
        }


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


def plan_jobs(
    instances: Iterable[Instance], methods: Sequence[str], options: SolveOptions = SolveOptions()
) -> list[Job]:
    """Every method on every instance."""
    for method in methods:
        check_method(method)
    return [Job(instance, method, options) for instance in instances for method in methods]


def execute(job: Job, start: Start | None = None) -> Run:
    """Make a run; a failure is a line with an error text.

    Parameters
    ----------
    job : Job
    start : (block, order), optional
        A partition for a model to start from.

    Returns
    -------
    dict
        The line for the file of runs.

    Raises
    ------
    KeyboardInterrupt
        If the run was interrupted; a part of a run is not a run.
    """
    began = time.perf_counter()
    try:
        answer = _search(job) if job.is_search else _bound(job, start)
    except Exception as error:
        return job.record(seconds=time.perf_counter() - began, error=f"{type(error).__name__}: {error}")
    return job.record(seconds=time.perf_counter() - began, **answer)


def _search(job: Job) -> Run:
    return _describe(HEURISTICS[job.method].run(job.instance, np.random.default_rng(job.options.seed)))


def _bound(job: Job, start: Start | None) -> Run:
    known = None if start is None else Partition(job.instance, *start)
    if job.method == CERTIFY:
        result = certify(job.instance, job.options, start=known, on_fault=_fail)
    else:
        name, lp, _ = job.method.partition(LP_SUFFIX)
        result = solve(job.instance, name, job.options, start=known, relaxation=bool(lp))
    if result.interrupted:
        raise KeyboardInterrupt
    answer = {} if result.partition is None else _describe(result.partition)
    if result.bound is not None:
        optimal = result.proved if job.method == CERTIFY else result.bound.optimal
        answer |= {"bound": result.bound.value, "optimal": optimal}
    return answer | {"solver_version": result.solver}


def _fail(fault: Exception) -> None:
    raise fault


def _describe(partition: Partition) -> Run:
    platform = partition.instance.platform
    answer: Run = {"bottleneck": partition.bottleneck, "block": partition.block.tolist()}
    if partition.instance.has_overflow and platform.activation_buffer is None:  # else the order costs nothing
        answer["order"] = partition.order.tolist()
    return answer


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
