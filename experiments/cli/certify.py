"""The verb ``mtpp certify``: a good partition, and how good it is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from experiments.cli import options
from experiments.cli.exit_codes import DONE, INTERRUPTED, NO_SOLVER

if TYPE_CHECKING:
    from instances import Result
    from mtpp_models import SolverNotAvailableError

__all__ = ["certify"]


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

    from experiments.certificates.ladder import gather
    from experiments.cli.rows import certificate_row, print_rows
    from experiments.progress import LiveLine
    from instances import combine
    from mtpp_models import SolveOptions

    told = SolveOptions(solver=solver, time_limit=time_limit, gap=gap, threads=threads, seed=seed)
    results: list[Result] = []
    faults: list[SolverNotAvailableError] = []
    try:
        for instance, begin in zip(instances, starts, strict=True):
            with LiveLine(f"{instance.name}, k = {instance.k}") as live:
                answers = gather(
                    instance, told, start=begin, known=results, on_progress=live.show, on_fault=faults.append
                )
            results.append(combine(*answers))
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
