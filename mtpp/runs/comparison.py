"""Any methods on any graphs as one frame, a row a run."""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from heuristics import HEURISTICS
from instances import InputError, Instance
from mtpp.runs.engine import run_jobs
from mtpp.runs.log import Run, RunLog
from mtpp.runs.partition_job import CERTIFY, LP_SUFFIX, PartitionJob, check_method, jobs_of
from mtpp.runs.progress import RunBar
from mtpp.runs.workers import local_workers, this_process
from mtpp_models import SolveOptions, SolverNotAvailableError, simple
from mtpp_models.formulations.formulation import Formulation
from mtpp_models.registry import find_model
from mtpp_models.solvers.registry import SOLVERS, find_solver

__all__ = ["COLUMNS", "compare_methods"]

#: Columns of a row.
COLUMNS = ("graph", "n", "m", "k", "method", "solver", "bottleneck", "bound", "ratio", "seconds", "error")


def compare_methods(
    instances: Iterable[Instance],
    methods: Sequence[str],
    solvers: Sequence[str],
    options: SolveOptions,
    file: Path | None = None,
    jobs: int = 1,
) -> pd.DataFrame:
    """Run every method on every instance, and those that need a solver with each of the solvers.

    Parameters
    ----------
    instances : iterable of Instance
    methods : sequence of str
        Heuristics, models and "certify", as for ``mtpp table``; bounds start from the best partition of the heuristics.
    solvers : sequence of str
    options : SolveOptions
        Its solver does not count; the time limit is for each bound.
    file : Path, optional
        File of runs; those that are done are not repeated.
    jobs : int
        Processes; 1 is this one.

    Returns
    -------
    DataFrame
        The columns are `COLUMNS`. `ratio` is the bottleneck over the best bound that is known for the graph and k,
        *simple* among them; what is not known is missing. `error` is the text of a failure.

    Raises
    ------
    InputError, OSError
        Before any run is made.
    """
    wanted = _jobs(list(instances), methods, solvers, options)
    folder: AbstractContextManager[str] = nullcontext("") if file is not None else tempfile.TemporaryDirectory()
    workers = this_process() if jobs == 1 else local_workers(jobs)
    with folder as place, RunLog(file or Path(place) / "runs.jsonl") as log, workers as crew:
        missing = {job.key for job in wanted if not job.is_done(log.runs.get(job.key))}
        with RunBar(len(missing)) if sys.stderr.isatty() else nullcontext() as bar:
            made = run_jobs(wanted, log, crew, *([] if bar is None else [bar.advance]))
    runs = {run["key"]: run for run in made}
    found = [(job, runs[job.key]) for job in wanted]
    best = {job.instance.key: simple(job.instance) for job in wanted}
    for job, run in found:
        best[job.instance.key] = max(best[job.instance.key], run["bound"] or 0.0)
    frame = pd.DataFrame([_row(job, run, best[job.instance.key]) for job, run in found], columns=list(COLUMNS))
    return frame.astype(dict.fromkeys(("bottleneck", "bound", "ratio", "seconds"), float))


def _jobs(
    instances: Sequence[Instance], methods: Sequence[str], solvers: Sequence[str], options: SolveOptions
) -> list[PartitionJob]:
    """Instance by instance, method by method, solver by solver."""
    if not (instances and methods and solvers):
        raise InputError("There is nothing to compare; give a graph, a k, a method and a solver at least.")
    for solver in solvers:
        _check_solver(solver)
    for method in methods:
        check_method(method)
    made = {solver: jobs_of(instances, methods, replace(options, solver=solver)) for solver in solvers}
    rows = zip(*made.values(), strict=True)
    return [job for row in rows for job in (row if _needs_solver(row[0].method) else row[:1])]


def _check_solver(name: str) -> None:
    """Refuse a name that is none; one that is not installed here fails in its rows."""
    try:
        find_solver(name)
    except SolverNotAvailableError as error:
        if name not in SOLVERS:
            raise InputError(str(error)) from None


def _needs_solver(method: str) -> bool:
    if method in HEURISTICS:
        return False
    return method == CERTIFY or isinstance(find_model(method.removesuffix(LP_SUFFIX)), Formulation)


def _finds_partitions(method: str) -> bool:
    """Whether a partition in the run is the method's own, and not the one that it started from."""
    return method in (*HEURISTICS, CERTIFY) or (not method.endswith(LP_SUFFIX) and find_model(method).exact)


def _row(job: PartitionJob, run: Run, best: float) -> dict[str, Any]:
    bottleneck = run["bottleneck"] if _finds_partitions(job.method) else None
    return {
        "graph": job.instance.name,
        "n": job.instance.graph.n,
        "m": job.instance.graph.m,
        "k": job.instance.k,
        "method": job.method,
        "solver": job.options.solver if _needs_solver(job.method) else None,
        "ratio": None if bottleneck is None else _ratio(bottleneck, best),
        "bottleneck": bottleneck,
        **{name: run[name] for name in ("bound", "seconds", "error")},
    }


def _ratio(bottleneck: float, bound: float) -> float:
    if bound > 0:
        return max(1.0, bottleneck / bound)
    return 1.0 if bottleneck == 0 else math.inf
