"""The verb ``table``: make the runs that are missing, then print and write the tables of all of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pandas as pd

from experiments import plots, tables
from experiments.jobs import BoundSettings, Job, plan_jobs
from experiments.progress import RunBar
from experiments.questions import load_targets
from experiments.rendering import FORMATS
from experiments.runs import RunLog
from experiments.scheduling import Workers, cluster_workers, local_workers, run_jobs
from experiments.units import parse_names
from heuristics import HEURISTICS
from instances import InputError
from mtpp_models import MODELS
from mtpp_models.solvers import find_solver
from mtpp_models.strengthening import ablation

__all__ = ["make_tables", "write_tables"]


def make_tables(
    targets: Sequence[str],
    blocks: str,
    *,
    methods: str | None,
    bandwidth: str | None,
    memory: str | None,
    activation_buffer: str | None,
    solver: str,
    time_limit: float,
    gap: float,
    threads: int,
    seed: int,
    jobs: int,
    cluster: str | None,
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
    if style not in FORMATS:
        raise InputError(f"--format {style}: choose one of {', '.join(FORMATS)}.")
    settings = BoundSettings(solver, time_limit, gap, threads)
    chosen = [*HEURISTICS, *MODELS, _LAST] if methods is None else _methods(methods)
    chosen = list(dict.fromkeys((*chosen, "simple")))  # the tables' reference
    planned = plan_jobs(load_targets(targets, blocks, bandwidth, memory, activation_buffer), chosen, seed, settings)
    find_solver(solver)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with _workers(jobs, cluster) as workers, RunLog(out) as log:
            runs = _run(planned, log, workers)
    except KeyboardInterrupt:
        print(f"Stopped; {out} holds the runs that are done, and the same call makes the rest.", file=sys.stderr)
        raise
    frame = tables.run_frame(runs)
    for caption, note, text in _sections(frame, style):
        print(f"{caption}\n\n{text}\n{f'{chr(10)}{note}{chr(10)}' if note else ''}")
    if folder is not None:
        write_tables(frame, folder)
    failed = sum(run["error"] is not None for run in runs)
    if failed:
        print(
            f"{failed} of {len(runs)} runs failed; {out} has the reasons. The same call tries them again.",
            file=sys.stderr,
        )
    return int(failed > 0)


def write_tables(frame: pd.DataFrame, folder: Path) -> None:
    """Write the tables as Markdown, CSV and LaTeX, and the figures as PNG and SVG.

    Parameters
    ----------
    frame : DataFrame
        As `experiments.tables.run_frame` makes it.
    folder : Path
        There already; files of the same name are replaced.
    """
    contents = {"instances": tables.instance_rows(frame)}
    contents |= {table.name: table.rows() for table in _tables(frame)}
    for name, (header, rows) in contents.items():
        for suffix in ("md", "csv", "tex"):
            (folder / f"{name}.{suffix}").write_text(FORMATS[suffix](header, rows) + "\n", encoding="utf-8")
    figures = {"running-times": plots.plot_running_times(tables.running_times(frame))}
    if profiles := tables.profile_ratios(frame):
        figures["ratio-profile"] = plots.plot_ratio_profile(profiles)
    for name, ax in figures.items():
        for suffix in ("png", "svg"):
            plots.save_figure(ax, folder / f"{name}.{suffix}")


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
    done = {key for key, run in log.runs.items() if run["error"] is None}
    missing = len({job.key for job in planned} - done)
    if missing < len({job.key for job in planned}):
        print(f"{len({job.key for job in planned}) - missing} runs are done already.", file=sys.stderr)
    with RunBar(missing) as bar:
        return run_jobs(planned, log, workers, bar.advance)


def _workers(jobs: int, cluster: str | None) -> AbstractContextManager[Workers]:
    return local_workers(jobs) if cluster is None else cluster_workers(cluster)


def _tables(frame: pd.DataFrame) -> list[tables.Table]:
    """Table 1 needs a heuristic; the others always have *simple*."""
    first = [tables.heuristic_table(frame)] if (frame["kind"] == "heuristic").any() else []
    return [*first, tables.bound_table(frame), tables.certificate_table(frame), tables.time_table(frame)]


def _sections(frame: pd.DataFrame, style: str) -> list[tuple[str, str, str]]:
    render = FORMATS[style]
    sections = [("Instances", "", render(*tables.instance_rows(frame)))]
    return sections + [(table.title, table.note, render(*table.rows())) for table in _tables(frame)]
