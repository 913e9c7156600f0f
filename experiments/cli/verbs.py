"""The verbs that answer a question: ``mtpp partition``, ``bound`` and ``certify``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli import options
from experiments.cli.exit_codes import DONE, INTERRUPTED, NO_SOLVER, NOTHING

if TYPE_CHECKING:
    from instances import Result
    from mtpp_models import SolverNotAvailableError

__all__ = ["bound", "certify", "partition"]


def partition(
    graph: options.Graph,
    blocks: options.Blocks,
    bandwidth: options.Bandwidth = None,
    memory: options.Memory = None,
    activation_buffer: options.ActivationBuffer = None,
    dim: options.Dim = None,
    level: options.Level = "operator",
    training: options.Training = False,
    reader: options.Reader = None,
    communication: options.Communication = "size",
    input_work: options.InputWork = None,
    time_unit: options.TimeUnit = None,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="See mtpp list heuristics.", rich_help_panel=options.SEARCH)
    ] = "portfolio",
    seed: options.Seed = 0,
    time_limit: options.OptionalTimeLimit = None,
    out: options.Out = None,
    plot: options.Plot = None,
) -> int:
    """Search for a partition with a small bottleneck.

    Example: mtpp partition bert-base -k 8 --bandwidth 25GB/s --dim batch=8 --out partition.json --plot partition.svg
    """
    from experiments.cli.inputs import load_instances
    from experiments.cli.outputs import check_files, draw, for_k

    check_files(out, plot)
    instances = load_instances(
        graph, blocks, bandwidth=bandwidth, memory=memory, activation_buffer=activation_buffer,
        dims=dim or (), level=level, training=training, reader=reader, communication=communication,
        input_work=input_work, time_unit=time_unit,
    )  # fmt: skip

    import numpy as np

    from experiments.certificates.ladder import search
    from experiments.cli.rows import partition_row, print_rows
    from experiments.progress import LiveLine
    from instances.interrupts import catch_interrupt
    from instances.partitioning.partition_file import save_partition

    rows = []
    with catch_interrupt() as interrupted:
        try:
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
        finally:
            print_rows(rows)
    return INTERRUPTED if interrupted.is_set() else DONE


def bound(
    graph: options.Graph,
    blocks: options.Blocks,
    bandwidth: options.Bandwidth = None,
    memory: options.Memory = None,
    activation_buffer: options.ActivationBuffer = None,
    dim: options.Dim = None,
    level: options.Level = "operator",
    training: options.Training = False,
    reader: options.Reader = None,
    communication: options.Communication = "size",
    input_work: options.InputWork = None,
    time_unit: options.TimeUnit = None,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="See mtpp list models; exact+all or coarse-4+cuts+joins are strengthened, and need --start.",
            rich_help_panel=options.SEARCH,
        ),
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
    from experiments.cli.inputs import load_instances
    from experiments.cli.outputs import check_files, draw, for_k, read_starts, write_certificate

    check_files(out, plot, export)
    instances = load_instances(
        graph, blocks, bandwidth=bandwidth, memory=memory, activation_buffer=activation_buffer,
        dims=dim or (), level=level, training=training, reader=reader, communication=communication,
        input_work=input_work, time_unit=time_unit,
    )  # fmt: skip
    starts = read_starts(start, instances)

    from experiments.cli.rows import bound_row, print_rows
    from experiments.progress import LiveLine
    from mtpp_models import solve, write_model

    if export is not None:
        for instance, begin in zip(instances, starts, strict=True):
            for file in write_model(instance, model, for_k(export, instance, instances), begin):
                print(file)
        return DONE
    answers: list[Result] = []
    try:
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
    finally:
        print_rows([bound_row(answer) for answer in answers])
    if answers[-1].interrupted:
        return INTERRUPTED
    return NOTHING if any(answer.bound is None for answer in answers) else DONE


def certify(
    graph: options.Graph,
    blocks: options.Blocks,
    bandwidth: options.Bandwidth = None,
    memory: options.Memory = None,
    activation_buffer: options.ActivationBuffer = None,
    dim: options.Dim = None,
    level: options.Level = "operator",
    training: options.Training = False,
    reader: options.Reader = None,
    communication: options.Communication = "size",
    input_work: options.InputWork = None,
    time_unit: options.TimeUnit = None,
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

    If the solver fails at work, the other methods go on without it, and the exit code is 3.

    Example: mtpp certify bert-base -k 2,4,8 --time-limit 60 --out certificate.json
    """
    from experiments.cli.inputs import load_instances
    from experiments.cli.outputs import check_files, draw, read_starts, write_certificate

    check_files(out, plot)
    instances = load_instances(
        graph, blocks, bandwidth=bandwidth, memory=memory, activation_buffer=activation_buffer,
        dims=dim or (), level=level, training=training, reader=reader, communication=communication,
        input_work=input_work, time_unit=time_unit,
    )  # fmt: skip
    starts = read_starts(start, instances)

    from experiments.certificates.ladder import combine, gather
    from experiments.cli.rows import certificate_row, print_rows
    from experiments.progress import LiveLine

    results: list[Result] = []
    faults: list[SolverNotAvailableError] = []
    try:
        for instance, begin in zip(instances, starts, strict=True):
            with LiveLine(f"{instance.name}, k = {instance.k}") as live:
                answers = gather(
                    instance, time_limit=time_limit, solver=solver, gap=gap, threads=threads, seed=seed,
                    start=begin, known=results, on_progress=live.show, on_fault=faults.append,
                )  # fmt: skip
            results.append(combine(answers))
            write_certificate(answers, out, instances)
            draw(results[-1], plot, instances)
            if results[-1].interrupted:
                break
    finally:
        print_rows([certificate_row(result) for result in results])
        for fault in dict.fromkeys(map(str, faults)):
            print(f"mtpp: {fault}", file=sys.stderr)
    if results[-1].interrupted:
        return INTERRUPTED
    return NO_SOLVER if faults else DONE
