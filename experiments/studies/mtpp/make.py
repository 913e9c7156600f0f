"""The tables of the paper: make the runs that are missing, then print and write the tables of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from experiments.studies.mtpp.tables import (
    bound_table,
    certificate_table,
    closing_rows,
    costs,
    gap_table,
    heuristic_table,
    instance_rows,
    primal_table,
    profile_ratios,
    run_frame,
    running_times,
    time_table,
)
from experiments.studies.report import Report, Section
from heuristics import HEURISTICS
from instances import InputError, Instance
from instances.errors import said
from instances.results import LP_SUFFIX
from mtpp.plots.profiles import plot_intervals, plot_performance, plot_ratio_profile, plot_running_times
from mtpp.runs.log import Run, read_runs
from mtpp.runs.own_methods import is_address
from mtpp.runs.partition_job import PartitionJob, jobs_of, run_methods
from mtpp.runs.workers import Workers
from mtpp_models import MODELS, SolveOptions
from mtpp_models.formulations.strengthening import ablation
from mtpp_models.solvers.registry import find_solver

#: Last rows of the tables, beyond the models of the registry.
_LAST = "exact+all"

#: A strengthened model with this suffix stands for itself without any one of its parts.
_EACH = "+each"


def make_tables(
    instances: Iterable[Instance],
    methods: Sequence[str] | None,
    options: SolveOptions,
    workers: Workers,
    report: Report,
    *,
    seeds: Sequence[int] = (),
    budgets: Sequence[float | None] = (None,),
) -> int:
    """Make the runs that are missing, then print and write the tables of all; 1 if a run failed, else 0.

    Parameters
    ----------
    instances : iterable of Instance
    methods : sequence of str, optional
        Heuristics and models; "exact+each" is an ablation of the strengthened model. By default all that answer the
        questions.
    options : SolveOptions
        The time limit is for each bound.
    workers : Workers
    report : Report
    seeds, budgets : sequence
        Of the heuristics, see `jobs_of`.

    Raises
    ------
    InputError, OSError, SolverNotAvailableError
        Before any run is made.
    """
    instances = list(instances)
    chosen = [*HEURISTICS, *MODELS, _LAST] if methods is None else _methods(methods)
    if not all(instance.is_alike for instance in instances):
        chosen = _over_kinds(chosen, named=methods is not None)
    with_simple = list(dict.fromkeys((*chosen, "simple")))  # the tables' reference
    jobs = jobs_of(instances, with_simple, options, seeds=seeds, budgets=budgets)
    find_solver(options.solver)
    runs = report.make_runs(jobs, workers)
    _publish(run_frame(runs), report)
    return report.exit_code([PartitionJob.failed(run) for run in runs])


def tables_from(files: Iterable[str | Path], report: Report) -> int:
    """Print and write the tables of files of runs; nothing is run.

    Raises
    ------
    InputError, OSError
        If a file cannot be read, or there is no run of partitioning.
    """
    _publish(run_frame(_read(files)), report)
    return 0


def _read(files: Iterable[str | Path]) -> Iterator[Run]:
    for file in files:
        yield from read_runs(file)


def _publish(frame: pd.DataFrame, report: Report) -> None:
    report.publish(_sections(frame), lambda: _pictures(frame))


def _methods(names: Sequence[str]) -> list[str]:
    """Methods by name, ablations written out."""
    methods = []
    for name in names:
        model, lp = name.removesuffix(LP_SUFFIX), LP_SUFFIX if name.endswith(LP_SUFFIX) else ""
        several = ablation(model.removesuffix(_EACH)) if model.endswith(_EACH) else (model,)
        methods += [part + lp for part in several]
    if any("+" in name for name in methods) and not any(name in HEURISTICS or is_address(name) for name in methods):
        option = said("methods", ",".join(names))
        raise InputError(f"{option}: a strengthened model needs a partition to start from; add a heuristic.")
    return methods


def _over_kinds(methods: Sequence[str], *, named: bool) -> list[str]:
    """The methods that answer questions over several kinds of devices; those that do not are refused if `named`."""
    unfit = [by.name for by in run_methods(methods) if not by.takes_kinds]
    fit = [name for name in methods if name not in unfit]
    if named and unfit:
        option = said("methods", ",".join(methods))
        raise InputError(f"{option}: only for devices that are alike: {', '.join(unfit)}; leave that out.")
    return fit


def _sections(frame: pd.DataFrame) -> list[Section]:
    """Sections of the study: tables of searches if heuristics were run, tables of bounds if models were."""
    of_searches, of_bounds = (heuristic_table, primal_table), (bound_table, certificate_table, time_table, gap_table)
    is_searched, is_bounded = ((frame["kind"] == kind).any() for kind in ("heuristic", "model"))
    ratios = [make(frame) for make in of_searches if is_searched] + [make(frame) for make in of_bounds if is_bounded]
    title = "Instances, and the first bound to reach the best partition" if is_bounded else "Instances"
    closing = "First bound to reach the best partition, by part of the graphs"
    return [
        Section("instances", title, *instance_rows(frame)),
        *(Section(table.name, table.title, *table.rows(), table.note, numbers=table.numbers) for table in ratios),
        *([Section("closed", closing, *closing_rows(frame))] if is_bounded else []),
    ]


def _pictures(frame: pd.DataFrame) -> dict[str, Axes]:
    pictures = {"running-times": plot_running_times(running_times(frame))}
    if profiles := profile_ratios(frame):
        pictures["ratio-profile"] = plot_ratio_profile(profiles)
        pictures["performance-profile"] = plot_performance(costs(frame))
        pictures["table1"] = plot_intervals(heuristic_table(frame).cells, "bottleneck over simple")
    return pictures
