"""The command line ``mtpp``: stdout is data, stderr is progress.

Exit codes: 0 done; 1 nothing found within the limits, or runs of a table failed; 2 wrong use or bad input, one
line on stderr; 3 solver not available; 130 stopped by Ctrl-C, after printing what is known.

What a verb needs is imported when it runs, so that help is there at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments import options
from instances.errors import InputError

if TYPE_CHECKING:
    from instances import Result

__all__ = ["app", "main"]

DONE, NOTHING, WRONG, NO_SOLVER, INTERRUPTED = 0, 1, 2, 3, 130

app = typer.Typer(
    name="mtpp",
    help="Cut computation graphs into k pipeline blocks, and prove how good the cut is.",
    epilog="Start with: mtpp certify bert-base -k 4   Exit codes: 0 done, 1 nothing found within the limits, "
    "2 wrong use or bad input, 3 solver not available, 130 stopped by Ctrl-C.",
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
        return app(args=None if argv is None else list(argv), prog_name="mtpp", standalone_mode=False) or DONE
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it flushes
        return NOTHING
    except InputError as error:
        return _complain(str(error), WRONG)
    except OSError as error:
        return _complain(f"{error.filename or 'system'}: {error.strerror or error}.", WRONG)
    except Exception as error:
        if hasattr(error, "format_message"):  # usage errors of typer; their class has moved between its versions
            message = error.format_message()
            return _complain(f"{message} Try: mtpp --help", WRONG) if message else WRONG
        from mtpp_models import SolverNotAvailableError

        if isinstance(error, SolverNotAvailableError):
            return _complain(str(error), NO_SOLVER)
        raise


@app.command("list")
def list_names(
    what: Annotated[str, typer.Argument(metavar="heuristics|models|solvers|suites|architectures|readers")],
) -> None:
    """List what there is to choose from, with one line about each."""
    from experiments.listing import LISTINGS
    from experiments.rendering import left_aligned

    if what not in LISTINGS:
        raise InputError(f"There is no list of {what!r}; choose one of {', '.join(LISTINGS)}.")
    print(left_aligned(LISTINGS[what]()))


@app.command()
def partition(
    graph: options.Graph,
    blocks: options.Blocks,
    bandwidth: options.Bandwidth = None,
    memory: options.Memory = None,
    activation_buffer: options.ActivationBuffer = None,
    dim: options.Dim = None,
    reader: options.Reader = None,
    communication: options.Communication = "size",
    method: Annotated[
        str, typer.Option(metavar="NAME", help="See mtpp list heuristics.", rich_help_panel=options.SEARCH)
    ] = "brkga-10000",
    seed: options.Seed = 0,
    time_limit: options.OptionalTimeLimit = None,
    out: options.Out = None,
    plot: options.Plot = None,
) -> int:
    """Search for a partition with a small bottleneck.

    Example: mtpp partition bert-base -k 8 --bandwidth 25GB/s --dim batch=8 --out partition.json --plot partition.svg
    """
    from experiments.files import check_files, draw, for_k
    from experiments.questions import load_instances

    check_files(out, plot)
    instances = load_instances(
        graph, blocks, bandwidth=bandwidth, memory=memory, activation_buffer=activation_buffer,
        dims=dim or (), reader=reader, communication=communication,
    )  # fmt: skip

    import numpy as np

    from experiments.certifying import search
    from experiments.progress import LiveLine
    from experiments.reports import partition_row, print_rows
    from instances.interrupts import catch_interrupt
    from instances.serialization import save_partition

    rows = []
    with catch_interrupt() as interrupted:
        for instance in instances:
            with LiveLine(f"{instance.name}, k = {instance.k}, {method}"):
                answer = search(instance, method, np.random.default_rng(seed), interrupted, time_limit)
            rows.append(partition_row(answer))
            assert answer.partition is not None
            if out is not None:
                save_partition(answer.partition, for_k(out, instance, instances))
            draw(answer, plot, instances)
            if interrupted.is_set():
                break
    print_rows(rows)
    return INTERRUPTED if interrupted.is_set() else DONE


@app.command()
def bound(
    graph: options.Graph,
    blocks: options.Blocks,
    bandwidth: options.Bandwidth = None,
    memory: options.Memory = None,
    activation_buffer: options.ActivationBuffer = None,
    dim: options.Dim = None,
    reader: options.Reader = None,
    communication: options.Communication = "size",
    model: Annotated[
        str, typer.Option(metavar="NAME", help="See mtpp list models.", rich_help_panel=options.SEARCH)
    ] = "exact",
    relaxation: Annotated[
        bool, typer.Option("--relaxation", help="Solve the linear relaxation.", rich_help_panel=options.SEARCH)
    ] = False,
    solver: options.Solver = "highs",
    time_limit: options.TimeLimit = 60.0,
    gap: options.Gap = 0.0,
    threads: options.Threads = 1,
    seed: options.Seed = 0,
    start: options.Start = None,
    out: options.Out = None,
    plot: options.Plot = None,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the model (.lp or .mps) instead of solving it.")
    ] = None,
) -> int:
    """Prove a lower bound on the bottleneck of every partition.

    Example: mtpp bound bert-base -k 8 --model guess-the-bottleneck --solver highs --time-limit 60
    """
    from experiments.files import check_files, draw, for_k, read_starts, write_certificate
    from experiments.questions import load_instances

    check_files(out, plot, export)
    instances = load_instances(
        graph, blocks, bandwidth=bandwidth, memory=memory, activation_buffer=activation_buffer,
        dims=dim or (), reader=reader, communication=communication,
    )  # fmt: skip
    starts = read_starts(start, instances)

    from experiments.progress import LiveLine
    from experiments.reports import bound_row, print_rows
    from mtpp_models import solve, write_model

    if export is not None:
        for instance, begin in zip(instances, starts, strict=True):
            for file in write_model(instance, model, for_k(export, instance, instances), begin):
                print(file)
        return DONE
    answers: list[Result] = []
    for instance, begin in zip(instances, starts, strict=True):
        with LiveLine(f"{instance.name}, k = {instance.k}") as live:
            answer = solve(
                instance, model, solver=solver, time_limit=time_limit, gap=gap, threads=threads, seed=seed,
                start=begin, relaxation=relaxation, on_progress=live.show,
            )  # fmt: skip
        answers.append(answer)
        write_certificate([answer], out, instances)
        draw(answer, plot, instances)
        if answer.interrupted:
            break
    print_rows([bound_row(answer) for answer in answers])
    if answers[-1].interrupted:
        return INTERRUPTED
    return NOTHING if any(answer.bound is None for answer in answers) else DONE


@app.command()
def certify(
    graph: options.Graph,
    blocks: options.Blocks,
    bandwidth: options.Bandwidth = None,
    memory: options.Memory = None,
    activation_buffer: options.ActivationBuffer = None,
    dim: options.Dim = None,
    reader: options.Reader = None,
    communication: options.Communication = "size",
    solver: options.Solver = "highs",
    time_limit: options.TimeLimit = 60.0,
    gap: options.Gap = 0.0,
    threads: options.Threads = 1,
    seed: options.Seed = 0,
    start: options.Start = None,
    out: options.Out = None,
    plot: options.Plot = None,
) -> int:
    """Find a good partition and prove how good it is, under one time budget.

    Example: mtpp certify bert-base -k 2,4,8 --time-limit 60 --out certificate.json
    """
    from experiments.files import check_files, draw, read_starts, write_certificate
    from experiments.questions import load_instances

    check_files(out, plot)
    instances = load_instances(
        graph, blocks, bandwidth=bandwidth, memory=memory, activation_buffer=activation_buffer,
        dims=dim or (), reader=reader, communication=communication,
    )  # fmt: skip
    starts = read_starts(start, instances)

    from experiments.certifying import combine, gather
    from experiments.progress import LiveLine
    from experiments.reports import certificate_row, print_rows

    results: list[Result] = []
    for instance, begin in zip(instances, starts, strict=True):
        with LiveLine(f"{instance.name}, k = {instance.k}") as live:
            answers = gather(
                instance, time_limit=time_limit, solver=solver, gap=gap, threads=threads, seed=seed,
                start=begin, on_progress=live.show,
            )  # fmt: skip
        results.append(combine(answers))
        write_certificate(answers, out, instances)
        draw(results[-1], plot, instances)
        if results[-1].interrupted:
            break
    print_rows([certificate_row(result) for result in results])
    return INTERRUPTED if results[-1].interrupted else DONE


@app.command()
def table(
    targets: Annotated[
        list[str], typer.Argument(metavar="SUITE|GRAPH…", help="A suite (mtpp list suites), architectures or files.")
    ],
    blocks: options.Blocks = "2,4,8,16,32,64",
    methods: Annotated[
        str | None,
        typer.Option(metavar="NAME[,NAME…]", help="Heuristics and models; MODEL-lp is its relaxation.  [default: all]"),
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
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Scheduler of a dask.distributed cluster to use instead.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Runs, one a line; those done are not repeated.")] = Path(
        "runs.jsonl"
    ),
    tables: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write tables (.md, .csv, .tex) and figures (.png, .svg) there."),
    ] = None,
    style: Annotated[str, typer.Option("--format", metavar="txt|md|csv|tex", help="Of the printed tables.")] = "txt",
) -> int:
    """Run methods on a suite and print the tables of ratios; a second call goes on where the first one stopped.

    Example: mtpp table quick -k 2,4,8 --time-limit 10 --jobs 2 --out runs.jsonl --tables results/
    """
    from experiments.tabulating import make_tables

    return make_tables(
        targets, blocks, methods=methods, bandwidth=bandwidth, memory=memory, activation_buffer=activation_buffer,
        solver=solver, time_limit=time_limit, gap=gap, threads=threads, seed=seed, jobs=jobs, cluster=cluster,
        out=out, folder=tables, style=style,
    )  # fmt: skip


@app.command()
def versions() -> None:
    """Print the versions of everything that can change an answer."""
    from experiments.versions import show_versions

    print(show_versions())


def _complain(message: str, code: int) -> int:
    print(f"mtpp: {' '.join(message.split())}", file=sys.stderr)
    return code
