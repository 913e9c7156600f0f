"""The verb ``mtpp bound``: what a model proves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli import options
from experiments.cli.exit_codes import DONE, INTERRUPTED, NOTHING

if TYPE_CHECKING:
    from instances import Result

__all__ = ["bound"]


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
    from mtpp_models import SolveOptions, solve, write_model

    if export is not None:
        for instance, begin in zip(instances, starts, strict=True):
            for file in write_model(instance, model, for_k(export, instance, instances), begin):
                print(file)
        return DONE
    told = SolveOptions(solver=solver, time_limit=time_limit, gap=gap, threads=threads, seed=seed)
    answers: list[Result] = []
    try:
        for instance, begin in zip(instances, starts, strict=True):
            with LiveLine(f"{instance.name}, k = {instance.k}") as live:
                answer = solve(instance, model, told, start=begin, relaxation=relaxation, on_progress=live.show)
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
