"""The verb ``mtpp table``: make the runs of a study that are missing, then print its tables."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli import options
from experiments.cli.inputs import Solving, load_targets
from experiments.cli.printing import Printing
from experiments.cli.units import parse_names
from experiments.cli.words import Without, takes_words
from instances.errors import InputError

if TYPE_CHECKING:
    from experiments.runs.workers import Workers
    from experiments.studies.report import Report
    from instances import Instance

__all__ = ["table"]

_Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="SUITE|GRAPH…",
        help="A suite (mtpp list suites), architectures, files; or training, placement, placeto or serving, alone.",
    ),
]
_Methods = Annotated[
    str | None,
    typer.Option(
        metavar="NAME[,NAME…]",
        help="Heuristics and models; MODEL-lp is its relaxation, exact+all strengthened, exact+each an ablation of "
        "that.  [default: all, and exact+all]",
    ),
]
_Quick = Annotated[
    bool,
    typer.Option(
        "--quick", help="Of training: one cluster instead of three; of placement and placeto: little training."
    ),
]


@dataclass(frozen=True)
class _Questions:
    """What methods are run on; the fields are the words of the command line."""

    targets: _Targets
    blocks: options.Blocks = "2,4,8,16,32,64"
    bandwidth: options.Bandwidth = None
    memory: options.Memory = None
    activation_buffer: options.ActivationBuffer = None

    def instances(self) -> list[Instance]:
        """One instance per k of each graph."""
        return load_targets(self.targets, self.blocks, self.bandwidth, self.memory, self.activation_buffer)


@dataclass(frozen=True)
class _Running:
    """Where runs are made and what becomes of them; the fields are the words of the command line."""

    jobs: Annotated[
        int, typer.Option(metavar="N", help="Processes on this machine; the answers do not depend on it.")
    ] = 1
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of dask.distributed, whose workers are used instead.")
    ] = None
    out: Annotated[Path, typer.Option(metavar="FILE", help="Runs, one a line; those done are not repeated.")] = Path(
        "runs.jsonl"
    )
    tables: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write tables (.md, .csv, .tex) and figures (.png, .svg) there."),
    ] = None
    style: Annotated[str, typer.Option("--format", metavar="txt|md|csv|tex", help="Of the printed tables.")] = "txt"

    def workers(self) -> AbstractContextManager[Workers]:
        """Processes of this machine, or the workers of a cluster."""
        from experiments.runs.workers import workers_at

        return workers_at(self.scheduler, self.jobs)

    def report(self, printing: Printing) -> Report:
        """The file of runs, and how tables are shown."""
        from experiments.studies.report import Report

        return Report(self.out, self.tables, self.style, json=printing.json, quiet=printing.quiet)


@takes_words
def table(
    *,
    questions: _Questions,
    methods: _Methods = None,
    time_limit: Annotated[float, typer.Option(metavar="SECONDS", help="For each bound.")] = 60.0,
    solving: Annotated[Solving, Without({"time_limit"})],
    running: _Running,
    quick: _Quick = False,
    printing: Printing,
) -> int:
    """Run methods on a suite and print the tables of ratios; a second call goes on where the first one stopped.

    "training" makes the figures and tables of pipelined training, "placement" those of learned placement on families of
    graphs, "placeto" those of the paper's network on the paper's networks, in two hours; both need PyTorch. "serving"
    compares the default rules of runtimes with proved optima. Of the options, --quick counts for the first three alone;
    --jobs, --scheduler, --out, --tables and --format count for all; the others for suites and graphs.

    Example: mtpp table quick -k 2,4,8 --time-limit 10 --jobs 2 --out runs.jsonl --tables results/
    """
    report = running.report(printing)
    if questions.targets == ["training"]:
        from experiments.studies.spp.jobs import questions as all_points
        from experiments.studies.spp.tables import make_training_tables

        with running.workers() as workers:
            return make_training_tables(all_points(quick=quick), workers, report)
    if questions.targets == ["placement"]:
        from experiments.studies.placeto.budget import QUICK, Budget
        from experiments.studies.placeto.tables import make_placement_tables

        with running.workers() as workers:
            return make_placement_tables(QUICK if quick else Budget(), workers, report)
    if questions.targets == ["serving"] and not quick:
        from experiments.studies.serving.tables import make_serving_tables

        with running.workers() as workers:
            return make_serving_tables(workers, report)
    if questions.targets == ["placeto"]:
        from experiments.studies.placeto.network_tables import make_network_tables
        from experiments.studies.placeto.published import QUICK_NETWORKS, NetworkBudget

        with running.workers() as workers:
            return make_network_tables(QUICK_NETWORKS if quick else NetworkBudget(), workers, report)
    if quick:
        raise InputError("--quick: only training, placement and placeto have a quick form; use the suite quick.")
    from experiments.studies.mtpp.make import make_tables

    settings = replace(solving, time_limit=time_limit).options()
    names = None if methods is None else parse_names(methods)
    instances = questions.instances()
    with running.workers() as workers:
        return make_tables(instances, names, settings, workers, report)
