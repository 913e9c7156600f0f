"""Any methods on any graphs as one frame, a row a run."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from instances import InputError, Instance
from mtpp.runs.engine import run_jobs, unfinished
from mtpp.runs.log import Run, RunLog, remarks
from mtpp.runs.method_process import end_processes
from mtpp.runs.partition_job import PartitionJob, jobs_of
from mtpp.runs.progress import own_bar
from mtpp.runs.workers import this_process, workers_at
from mtpp_models import SolveOptions, SolverNotAvailableError, simple
from mtpp_models.solvers.registry import SOLVERS, find_solver

__all__ = ["COLUMNS", "compare_methods"]

#: Columns of a row.
COLUMNS = (
    "graph",
    "cluster",
    "n",
    "m",
    "k",
    "method",
    "solver",
    "seed",
    "budget",
    "bottleneck",
    "bound",
    "ratio",
    "simple",
    "seconds",
    "cpu_seconds",
    "remark",
    "error",
)
_NUMBERS = ("budget", "bottleneck", "bound", "ratio", "simple", "seconds", "cpu_seconds")


def compare_methods(
    instances: Iterable[Instance],
    methods: Iterable[Any],
    solvers: Sequence[str],
    options: SolveOptions,
    file: Path | None = None,
    jobs: int = 1,
    *,
    scheduler: str | None = None,
    seeds: Sequence[int] = (),
    budgets: Sequence[float | None] = (None,),
    accept_old: bool = False,
) -> pd.DataFrame:
    """Run every method on every instance, and those that need a solver with each of the solvers.

    Parameters
    ----------
    instances : iterable of Instance
    methods : iterable
        Heuristics, models and "certify", as for ``mtpp table``, and heuristics of the caller, see `jobs_of`; bounds
        start from the best partition of the heuristics.
    solvers : sequence of str
    options : SolveOptions
        Its solver does not count; the time limit is for each bound.
    file : Path, optional
        File of runs; those that are done are not repeated.
    jobs : int
        Processes; 1 is this one.
    scheduler : str, optional
        Of dask.distributed, whose workers are used instead.
    seeds, budgets : sequence
        Of heuristics, see `jobs_of`.
    accept_old : bool
        Whether runs of the version before, which do not know the code that made them, are answers.

    Returns
    -------
    DataFrame
        The columns are `COLUMNS`. `ratio` is the bottleneck over the best bound that is known for the graph and k,
        *simple* among them; what is not known is missing. `remark` says "late" of a heuristic that took more than 1.1
        of its budget, and "not repeatable" of one that gave another answer when it was asked again. `error` is the text
        of a failure.

    Raises
    ------
    InputError, OSError
        Before any run is made.
    WorkersLostError
        If the scheduler is lost.
    """
    made = {
        solver: jobs_of(instances, methods, replace(options, solver=solver), seeds=seeds, budgets=budgets)
        for solver in _checked(solvers)
    }
    wanted = [job for row in zip(*made.values(), strict=True) for job in (row if row[0].by.needs_solver else row[:1])]
    if not wanted:
        raise InputError("There is nothing to compare; give a graph, a k, a method and a solver at least.")
    if any(not job.by.can_travel for job in wanted) and (jobs > 1 or scheduler is not None):
        names = sorted({job.method for job in wanted if not job.by.can_travel})
        raise InputError(
            f"methods: {names[0]} has no file that other processes could load; write it to a file and give "
            f"mine.py:{names[0]}, or use this process alone."
        )
    folder: AbstractContextManager[str] = nullcontext("") if file is not None else tempfile.TemporaryDirectory()
    here = this_process() if jobs == 1 and scheduler is None else workers_at(scheduler, jobs)
    with (
        folder as place,
        RunLog(file or Path(place) / "runs.jsonl", accept_old=accept_old) as log,
        here as workers,
        own_bar(len(unfinished(wanted, log))) as bar,
        ExitStack() as after,
    ):
        after.callback(end_processes)
        runs = {run["key"]: run for run in run_jobs(wanted, log, workers, bar.advance)}
    answered = [(job, runs[job.key]) for job in wanted]
    best = {job.instance.key: simple(job.instance) for job in wanted}
    for job, run in answered:
        best[job.instance.key] = max(best[job.instance.key], run["bound"] or 0.0)
    shaky = {job.method for job, run in answered if run["repeatable"] is False}
    rows = [_row(job, run, best[job.instance.key], job.method in shaky) for job, run in answered]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(dict.fromkeys(_NUMBERS, float))


def _checked(solvers: Sequence[str]) -> Sequence[str]:
    """Refuse names that are none; a solver that is not installed here fails in its rows."""
    for name in solvers:
        try:
            find_solver(name)
        except SolverNotAvailableError as error:
            if name not in SOLVERS:
                raise InputError(str(error)) from None
    return solvers


def _row(job: PartitionJob, run: Run, best: float, shaky: bool) -> dict[str, Any]:
    bottleneck = run["bottleneck"] if job.by.finds_partitions else None
    return {
        "graph": job.instance.name,
        "n": job.instance.graph.n,
        "m": job.instance.graph.m,
        "k": job.instance.k,
        "method": job.method,
        "solver": job.options.solver if job.by.needs_solver else None,
        "seed": job.options.seed,
        "budget": job.budget,
        "ratio": None if bottleneck is None else _ratio(bottleneck, best),
        "bottleneck": bottleneck,
        "remark": ", ".join(dict.fromkeys(remarks(run) + ["not repeatable"] * shaky)) or None,
        **{name: run[name] for name in ("cluster", "simple", "bound", "seconds", "error")},
        "cpu_seconds": run.get("cpu_seconds"),
    }


def _ratio(bottleneck: float, bound: float) -> float:
    if bound > 0:
        return max(1.0, bottleneck / bound)
    return 1.0 if bottleneck == 0 else math.inf
