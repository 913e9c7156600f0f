"""``mtpp table`` and ``mtpp paper``: tables of studies, and numbers of papers with verdicts."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from instances.errors import InputError, WordError, assumptions, is_given
from instances.json_files import check_folder, missing
from mtpp.cli import options
from mtpp.cli.command import Without, command
from mtpp.cli.printing import Printing
from mtpp.questions.partitioning import KindWords
from mtpp.questions.suites import load_targets
from mtpp.questions.words import ProofWords, RunningWords, TrialWords, budgets_of, seeds_of, solve_options, words_of

if TYPE_CHECKING:
    from experiments.studies.report import Report
    from mtpp.runs.workers import Workers

# The verb ``mtpp table``: make the runs of a study that are missing, then print its tables.


#: Targets that are studies with tables of their own.
_STUDIES = ("training", "train", "placeto", "serving", "unlike", "peers")
_Targets = Annotated[
    list[str],
    options.argument(
        metavar="SUITE|GRAPH|RUNS…",
        help="A suite (mtpp list suites), architectures, files; or training, train, placeto, serving, unlike, peers.",
    ),
]
_Methods = Annotated[
    str | None,
    options.of_search(
        metavar="NAME[,NAME…]",
        help="Heuristics and models; MODEL:lp is its relaxation, exact+all strengthened, exact+each an ablation of "
        "that; heuristics of your own as mine.py:function or package.module:function.  [default: all, and exact+all]",
    ),
]
_Quick = Annotated[
    bool,
    options.of_limits(
        "--quick",
        basic=False,
        help="Of training: one cluster instead of three; of placeto: little training; of peers: four graphs.",
    ),
]


_FromRuns = Annotated[
    bool, options.of_files("--from", help="The arguments are files of runs; make the tables of these, and run nothing.")
]


@dataclass(frozen=True)
class Running:
    """Options for workers that make the runs, and for files and format of the tables."""

    words: RunningWords
    out: Annotated[Path, options.of_files(metavar="FILE", help="Runs, one a line; those done are not repeated.")] = (
        Path("runs.jsonl")
    )
    tables: Annotated[
        Path | None,
        options.of_files(metavar="FOLDER", help="Write tables (.md, .csv, .tex) and figures (.png, .svg) there."),
    ] = None
    style: Annotated[
        str, options.of_output("--format", basic=False, metavar="txt|md|csv|tex", help="Of the printed tables.")
    ] = "txt"

    def workers(self) -> AbstractContextManager[Workers]:
        """The processes of this machine, or the workers of a cluster."""
        from mtpp.runs.workers import workers_at

        return workers_at(self.words["scheduler"], self.words["jobs"])

    def report(self, printing: Printing) -> Report:
        """The file of runs, and the form of tables."""
        from experiments.studies.report import Report

        if self.tables is not None:
            check_folder("tables", self.tables)

        return Report(
            self.out,
            self.tables,
            self.style,
            json=printing.json,
            quiet=printing.quiet,
            accept_old=self.words["accept_old"],
        )


@command
def table(
    *,
    targets: _Targets,
    k: options.Blocks = "2,4,8,16,32,64",
    platform: KindWords,
    methods: _Methods = None,
    trials: TrialWords,
    proof: ProofWords,
    running: Running,
    quick: _Quick = False,
    from_runs: _FromRuns = False,
    printing: Printing,
) -> int:
    """Run methods on a suite and print the tables of ratios; a second call goes on where the first one stopped.

    "training" makes the figures and tables of pipelined training, "placeto" those of learned placement on the networks
    of its paper, in two hours, with PyTorch. "train" holds predicted steps of plans for a global batch against
    published ones. "serving" compares the default rules of runtimes with proved optima, "unlike" rules of thumb for
    devices that are not alike with theirs. "peers" holds the methods of this project against solvers and searches of
    other packages on the same questions, 5 seconds each. Of the options, --quick counts for training, placeto and
    peers alone; --jobs, --out, --tables and --format count for all; --scheduler but for peers; the others for suites
    and graphs.

    With --from the tables are made of files of runs alone; several versions of a method are rows of their own.

    Examples: mtpp table quick -k 2,4,8 --time-limit 10 --jobs 2 --out runs.jsonl --tables results/;
    mtpp table --from runs.jsonl --tables results/
    """
    if from_runs or targets[0] in _STUDIES:
        _check_given("--from" if from_runs else targets[0])
    report = running.report(printing)
    if from_runs:
        from experiments.studies.mtpp import tables_from

        return tables_from(targets, report)
    if targets == ["training"]:
        from experiments.studies.spp.jobs import questions as all_points
        from experiments.studies.spp.tables import make_training_tables

        with running.workers() as workers:
            return make_training_tables(all_points(quick=quick), workers, report)
    if targets == ["train"] and not quick:
        from experiments.studies.training import make_measured_tables

        return make_measured_tables(report)
    if targets == ["serving"] and not quick:
        from experiments.studies.serving.study import make_serving_tables

        with running.workers() as workers:
            return make_serving_tables(workers, report)
    if targets == ["unlike"] and not quick:
        from experiments.studies.unlike import make_unlike_tables

        with running.workers() as workers:
            return make_unlike_tables(workers, report)
    if targets == ["peers"]:
        from experiments.studies.peers import make_peer_tables

        return make_peer_tables(report, running.words["jobs"], quick=quick)
    if targets == ["placeto"]:
        from experiments.studies.placeto import QUICK_NETWORKS, NetworkBudget, make_placeto_tables

        with running.workers() as workers:
            return make_placeto_tables(QUICK_NETWORKS if quick else NetworkBudget(), workers, report)
    if quick:
        raise InputError("--quick: only training, placeto and peers have a quick form; use the suite quick.")
    from experiments.studies.mtpp import make_tables
    from mtpp.api.comparison import methods_of

    settings = solve_options(proof, trials["time_limit"])
    names = None if methods is None else methods_of(methods)
    left_out: list[str] = []
    if studies := [name for name in targets if name in _STUDIES]:
        raise InputError(f"{studies[0]} is a study with tables of its own; name it alone.")
    instances = load_targets(targets, k, platform, left_out, _STUDIES)
    with running.workers() as workers:
        seeds, budgets = seeds_of(trials["seeds"]), budgets_of(trials["budgets"])
        code = make_tables(instances, names, settings, workers, report, seeds=seeds, budgets=budgets)
    if report.style == "txt":
        printing.detail(*(f"{note}." for note in assumptions()))
    if left_out:
        print(f"Graphs that are left out, as told above: {len(left_out)}.", file=sys.stderr)
    return code


def _check_given(study: str) -> None:
    """Refuse options of suites and graphs that a study, or tables of runs alone, would pass over."""
    also = {"--from": ["quick", "scheduler"], "peers": ["scheduler"]}.get(study, [])
    for name in ("k", "methods", *words_of(KindWords), *words_of(TrialWords), *words_of(ProofWords), *also):
        if is_given(name):
            raise WordError(name, None, f"it changes nothing with {study}; leave it out.")


# The verb ``mtpp paper``: the runs behind the numbers of three papers, and a verdict on each number.


_Out = Annotated[
    Path, options.of_files(metavar="FOLDER", help="Runs, tables, figures and verdicts; a rerun goes on there.")
]


@command
def paper(
    *,
    papers: Annotated[str, options.argument(metavar="[mtpp|spp|placeto|all]", help="Whose numbers.")] = "all",
    profile: Annotated[
        str,
        options.of_limits(
            metavar="smoke|quick|laptop|cluster|paper", help="Extent: minutes, 1 hour, 1 day, a cluster."
        ),
    ] = "laptop",
    running: Annotated[Running, Without({"out", "tables", "style", "accept_old"})],
    out: _Out = Path("paper"),
    regal: Annotated[
        Path | None, options.of_files(metavar="FOLDER", help="REGAL's test graphs; without, graphs in their style.")
    ] = None,
    plan: Annotated[
        Path | None, options.of_files(basic=False, metavar="FILE", help="What is run instead (mtpp-paper/1).")
    ] = None,
    dry_run: Annotated[bool, options.of_output("--dry-run", help="Say how many runs and hours this takes.")] = False,
    printing: Printing,
) -> int:
    """Make the runs behind the numbers of MTPP, SPP and Placeto, and say of each number whether it holds here.

    A number holds, fails, is a tie (of methods that are equal on most networks) or undecided (its interval leaves both
    open, or it was not measured), or cannot be compared; the reasons are in FOLDER/verdicts.json and
    FOLDER/tables/claims.md. Exit code 1 if runs failed, not if numbers do.

    Example: mtpp paper mtpp --profile quick --jobs 2 --out results/paper
    """
    from experiments.studies.papers.make import PaperStudy, count_section, make_papers, rows_of
    from experiments.studies.report import Report

    rows = rows_of(papers, profile, plan)
    check_folder("out", out)
    if regal is not None and not regal.is_dir():
        raise missing(regal, "folder")
    study = PaperStudy(rows, None if regal is None else str(regal), profile)
    report = Report(out / "runs", json=printing.json, quiet=printing.quiet)
    for line in study.left_out:
        print(line, file=sys.stderr)
    with running.workers() as workers:
        if dry_run:
            report.publish([study.costs()], dict)
            return 0
        claims, failed = make_papers(papers, profile, study, out, workers, quiet=printing.quiet)
    report.publish([count_section(claims)], dict)
    return report.exit_code(failed)
