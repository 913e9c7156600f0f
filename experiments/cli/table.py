"""The verb ``mtpp table``: make the runs of a study that are missing, then print its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.cli import options
from experiments.cli.complaints import complain
from experiments.cli.exit_codes import DONE
from instances.errors import InputError

__all__ = ["table"]


def table(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="SUITE|GRAPH…",
            help="A suite (mtpp list suites), architectures, files; or training or placement, alone.",
        ),
    ],
    blocks: options.Blocks = "2,4,8,16,32,64",
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,NAME…]",
            help="Heuristics and models; MODEL-lp is its relaxation, exact+all strengthened, exact+each an ablation of "
            "that.  [default: all, and exact+all]",
        ),
    ] = None,
    bandwidth: options.Bandwidth = None,
    memory: options.Memory = None,
    activation_buffer: options.ActivationBuffer = None,
    solver: options.Solver = "highs",
    time_limit: Annotated[float, typer.Option(metavar="SECONDS", help="For each bound.")] = 60.0,
    gap: options.Gap = 0.0,
    threads: options.Threads = 1,
    seed: options.Seed = 0,
    jobs: Annotated[
        int, typer.Option(metavar="N", help="Processes on this machine; the answers do not depend on it.")
    ] = 1,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of dask.distributed, whose workers are used instead.")
    ] = None,
    cluster: Annotated[str | None, typer.Option(hidden=True)] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Runs, one a line; those done are not repeated.")] = Path(
        "runs.jsonl"
    ),
    tables: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write tables (.md, .csv, .tex) and figures (.png, .svg) there."),
    ] = None,
    style: Annotated[str, typer.Option("--format", metavar="txt|md|csv|tex", help="Of the printed tables.")] = "txt",
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Of training: one cluster instead of three; of placement: little training, one seed."
        ),
    ] = False,
) -> int:
    """Run methods on a suite and print the tables of ratios; a second call goes on where the first one stopped.

    "training" makes the figures and tables of pipelined training, "placement" those of learned placement, which needs
    PyTorch. Of the options, --quick counts for these two alone; --jobs, --scheduler, --out, --tables and --format count
    for all; the others for suites and graphs.

    Example: mtpp table quick -k 2,4,8 --time-limit 10 --jobs 2 --out runs.jsonl --tables results/
    """
    if cluster is not None:  # the word means servers everywhere else
        complain("warning: --cluster of table is called --scheduler now; it is taken as that.", DONE)
        scheduler = scheduler or cluster
    from experiments.runs.workers import workers_at
    from experiments.studies.report import Report

    report = Report(out, tables, style)
    if targets == ["training"]:
        from experiments.studies.spp.jobs import questions
        from experiments.studies.spp.tables import make_training_tables

        with workers_at(scheduler, jobs) as workers:
            return make_training_tables(questions(quick=quick), workers, report)
    if targets == ["placement"]:
        from experiments.studies.placeto.budget import QUICK, Budget
        from experiments.studies.placeto.tables import make_placement_tables

        with workers_at(scheduler, jobs) as workers:
            return make_placement_tables(QUICK if quick else Budget(), workers, report)
    if quick:
        raise InputError("--quick: only the tables of training and placement have a quick form; use the suite quick.")
    from experiments.cli.inputs import load_targets
    from experiments.cli.units import parse_names
    from experiments.studies.mtpp.make import make_tables
    from mtpp_models.solvers.interface import SolveOptions

    asked = SolveOptions(solver=solver, time_limit=time_limit, gap=gap, threads=threads, seed=seed)
    instances = load_targets(targets, blocks, bandwidth, memory, activation_buffer)
    names = None if methods is None else parse_names(methods)
    with workers_at(scheduler, jobs) as workers:
        return make_tables(instances, names, asked, workers, report)
