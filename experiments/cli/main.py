"""The command line ``mtpp``: stdout is data, stderr is progress.

Exit codes: 0 done; 1 nothing found within the limits, or a number is false; 2 wrong use or bad input; 3 solver not
available or faulty; 4 rests on trusted bounds only; 5 proved impossible; 130 stopped. What is known is printed first; a
fault is one line on stderr. `experiments.cli.exit_codes` says more of them.

What a verb needs is imported when it runs, so that help is there at once.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.cli import options
from experiments.cli.bound import bound
from experiments.cli.certify import certify
from experiments.cli.complaints import complain
from experiments.cli.exit_codes import DONE, INTERRUPTED, MEANINGS, NO_SOLVER, NOTHING, WRONG
from experiments.cli.import_graph import import_graph
from experiments.cli.partition import partition
from experiments.cli.place import place
from experiments.cli.plan import plan
from experiments.cli.verify import verify
from instances.errors import InputError, InputWarning
from instances.interrupts import terminate_as_interrupt

__all__ = ["app", "main"]

app = typer.Typer(
    name="mtpp",
    help="Cut computation graphs into k pipeline blocks, and prove how good the cut is.",
    epilog="Start with: mtpp certify bert-base -k 4   Exit codes: "
    + "; ".join(f"{code} {meaning}" for code, meaning in MEANINGS.items())
    + ".",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        By default the words after the program's name.

    Returns
    -------
    int
        Exit code.
    """
    try:
        with terminate_as_interrupt(), _warnings_in_one_line():
            code = app(args=None if argv is None else list(argv), prog_name="mtpp", standalone_mode=False) or DONE
            sys.stdout.flush()  # a full disk or a closed pipe shows here
            return int(code)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it flushes
        return NOTHING
    except InputError as error:
        return complain(str(error), WRONG)
    except OSError as error:
        return complain(f"{error.filename or 'system'}: {error.strerror or error}.", WRONG)
    except MemoryError:
        return complain("This needs more memory than there is; ask for less, or give a smaller graph.", WRONG)
    except Exception as error:
        if hasattr(error, "format_message"):  # usage errors of typer; their class has moved between its versions
            message = error.format_message()
            return complain(f"{message} Try: mtpp --help", WRONG) if message else WRONG
        from mtpp_models import SolverNotAvailableError

        if isinstance(error, SolverNotAvailableError):
            return complain(str(error), NO_SOLVER)
        if os.environ.get("MTPP_DEBUG"):
            raise
        fault = f"{type(error).__name__}: {error}"
        return complain(f"internal fault ({fault}); please report it. MTPP_DEBUG=1 shows where.", NOTHING)


@app.command("list")
def list_names(
    what: Annotated[
        str, typer.Argument(metavar="heuristics|models|solvers|suites|architectures|readers|planners|placers")
    ],
) -> None:
    """List what there is to choose from, with one line about each."""
    from experiments.cli.lists import LISTINGS
    from experiments.text_tables import left_aligned
    from instances.lookup import find

    print(left_aligned(find(LISTINGS, what, "list")()))


for verb in (partition, bound, certify, plan, place, verify):
    app.command()(verb)
app.command("import")(import_graph)


@app.command()
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
    jobs: Annotated[int, typer.Option(metavar="N", help="Processes on this machine.")] = 1,
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

    "training" makes the figures and tables of pipelined training; of the options, --quick, --jobs, --out, --tables and
    --format count there. "placement" makes those of learned placement, which needs PyTorch; --quick, --out, --tables
    and --format count there.

    Example: mtpp table quick -k 2,4,8 --time-limit 10 --jobs 2 --out runs.jsonl --tables results/
    """
    if targets == ["training"]:
        from experiments.studies.spp.runs import questions
        from experiments.studies.spp.tables import make_training_tables

        return make_training_tables(questions(quick=quick), out=out, folder=tables, style=style, jobs=jobs)
    if targets == ["placement"]:
        from experiments.studies.placeto.jobs import QUICK, Budget
        from experiments.studies.placeto.tables import make_placement_tables

        return make_placement_tables(QUICK if quick else Budget(), out=out, folder=tables, style=style)
    if quick:
        raise InputError("--quick: only the tables of training and placement have a quick form; use the suite quick.")
    if cluster is not None:  # the word means servers everywhere else
        complain("warning: --cluster of table is called --scheduler now; it is taken as that.", DONE)
        scheduler = scheduler or cluster
    from experiments.studies.mtpp.make import make_tables
    from mtpp_models import SolveOptions

    return make_tables(
        targets, blocks, methods=methods, bandwidth=bandwidth, memory=memory, activation_buffer=activation_buffer,
        options=SolveOptions(solver, time_limit, gap, threads, seed), jobs=jobs, scheduler=scheduler, out=out,
        folder=tables, style=style,
    )  # fmt: skip


@app.command()
def versions() -> None:
    """Print the versions of everything that can change an answer."""
    from experiments.versions import show_versions

    print(show_versions())


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Print each `InputWarning` once, on stderr."""
    told: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, InputWarning):
            others(message, category, *place, **more)
        elif str(message) not in told:
            told.add(str(message))
            complain(f"warning: {message}", DONE)

    with warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)
        others, warnings.showwarning = warnings.showwarning, show
        yield
