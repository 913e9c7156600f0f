"""The verb ``mtpp paper``: the runs behind the numbers of three papers, and a verdict on each number."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from experiments.table import Running
from instances.errors import InputError
from mtpp.cli.command import Without, command
from mtpp.cli.printing import Printing

__all__ = ["paper"]

_Out = Annotated[
    Path, typer.Option(metavar="FOLDER", help="Runs, tables, figures and verdicts; a rerun goes on there.")
]


@command
def paper(
    *,
    papers: Annotated[str, typer.Argument(metavar="[mtpp|spp|placeto|all]", help="Whose numbers.")] = "all",
    profile: Annotated[
        str, typer.Option(metavar="smoke|quick|laptop|cluster|paper", help="Extent: minutes, 1 hour, 1 day, a cluster.")
    ] = "laptop",
    running: Annotated[Running, Without({"out", "tables", "style", "accept_old"})],
    out: _Out = Path("paper"),
    regal: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="REGAL's test graphs; without, graphs in their style.")
    ] = None,
    plan: Annotated[Path | None, typer.Option(metavar="FILE", help="What is run instead (mtpp-paper/1).")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how many runs and hours this takes.")] = False,
    printing: Printing,
) -> int:
    """Make the runs behind the numbers of MTPP, SPP and Placeto, and say of each number whether it holds here.

    A number holds, fails, is undecided (its interval leaves both open, or it was not measured), or cannot be compared;
    the reasons are in FOLDER/verdicts.json and FOLDER/tables/claims.md. Exit code 1 if runs failed, not if numbers do.

    Example: mtpp paper mtpp --profile quick --jobs 2 --out results/paper
    """
    from experiments.studies.papers.make import make_papers, rows_of
    from experiments.studies.papers.output import count_section
    from experiments.studies.papers.study import PaperStudy
    from experiments.studies.report import Report

    rows = rows_of(papers, profile, plan)
    if regal is not None and not regal.is_dir():
        raise InputError(f"--regal {regal}: there is no such folder.")
    study = PaperStudy(rows, None if regal is None else str(regal), profile)
    report = Report(out / "runs", json=printing.json, quiet=printing.quiet)
    for line in study.left_out:
        print(line, file=sys.stderr)
    if dry_run:
        report.publish([study.costs()], dict)
        return 0
    with running.workers() as workers:
        claims, failed = make_papers(papers, profile, study, out, workers, quiet=printing.quiet)
    report.publish([count_section(claims)], dict)
    return report.exit_code(failed)
