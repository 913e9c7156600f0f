"""The verb ``table``: make the runs that are missing, then print and write the tables of all of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from experiments.cli.inputs import load_targets
from experiments.cli.units import parse_names
from experiments.plots import partitions as plots
from experiments.progress import RunBar
from experiments.runs.jobs import Job, plan_jobs
from experiments.runs.log import RunLog
from experiments.runs.workers import Workers, cluster_workers, is_done, local_workers, run_jobs
from experiments.studies.mtpp import tables
from experiments.studies.report import Section, check_style, exit_code, open_log, publish
from heuristics import HEURISTICS
from instances import InputError
from mtpp_models import MODELS, SolveOptions
from mtpp_models.formulations.parts import ablation
from mtpp_models.solvers.registry import find_solver

__all__ = ["make_tables"]


def make_tables(
    targets: Sequence[str],
    blocks: str,
    *,
    methods: str | None,
    bandwidth: str | None,
    memory: str | None,
    activation_buffer: str | None,
    options: SolveOptions,
    jobs: int,
    scheduler: str | None,
    out: Path,
    folder: Path | None,
    style: str,
) -> int:
    """Do what the verb says; the parameters are its options.

    Returns
    -------
    int
        0, or 1 if a run failed.

    Raises
    ------
    InputError, OSError, SolverNotAvailableError
        Before any run is made.
    """
    check_style(style)
    chosen = [*HEURISTICS, *MODELS, _LAST] if methods is None else _methods(methods)
    chosen = list(dict.fromkeys((*chosen, "simple")))  # the tables' reference
    planned = plan_jobs(load_targets(targets, blocks, bandwidth, memory, activation_buffer), chosen, options)
    find_solver(options.solver)
    with _workers(jobs, scheduler) as workers, open_log(out, folder) as log:
        runs = _run(planned, log, workers)
    frame = tables.run_frame(runs)
    publish(_sections(frame), lambda: _pictures(frame), folder, style)
    return exit_code(sum(run["error"] is not None for run in runs), len(runs), out)


#: What the tables end with, beyond the models of the registry.
_LAST = "exact+all"


def _methods(names: str) -> list[str]:
    """Methods by name; "exact+each" is an ablation of the strengthened model."""
    given = [(name.removesuffix(_EACH), name.endswith(_EACH)) for name in parse_names(names)]
    methods = [name for base, each in given for name in (ablation(base) if each else (base,))]
    if any("+" in name for name in methods) and not any(name in HEURISTICS for name in methods):
        raise InputError(f"--methods {names}: a strengthened model needs a partition to start from; add a heuristic.")
    return methods


_EACH = "+each"


def _run(planned: list[Job], log: RunLog, workers: Workers) -> list[dict[str, object]]:
    wanted = {job.key: job for job in planned}
    missing = sum(not is_done(log.runs.get(key), job) for key, job in wanted.items())
    if missing < len(wanted):
        print(f"{len(wanted) - missing} runs are done already.", file=sys.stderr)
    with RunBar(missing) as bar:
        return run_jobs(planned, log, workers, bar.advance)


def _workers(jobs: int, scheduler: str | None) -> AbstractContextManager[Workers]:
    return local_workers(jobs) if scheduler is None else cluster_workers(scheduler)


def _sections(frame: pd.DataFrame) -> list[Section]:
    """Table 1 needs a heuristic; the others always have *simple*."""
    first = [tables.heuristic_table(frame)] if (frame["kind"] == "heuristic").any() else []
    ratios = (*first, tables.bound_table(frame), tables.certificate_table(frame), tables.time_table(frame))
    instances = Section("instances", "Instances", *tables.instance_rows(frame))
    return [instances, *(Section(table.name, table.title, *table.rows(), table.note) for table in ratios)]


def _pictures(frame: pd.DataFrame) -> dict[str, Axes]:
    pictures = {"running-times": plots.plot_running_times(tables.running_times(frame))}
    if profiles := tables.profile_ratios(frame):
        pictures["ratio-profile"] = plots.plot_ratio_profile(profiles)
    return pictures
