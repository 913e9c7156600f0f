"""The verb ``mtpp partition``: the best cut that a search finds."""

from __future__ import annotations

from typing import Annotated

import typer

from experiments.cli import options
from experiments.cli.exit_codes import DONE, INTERRUPTED

__all__ = ["partition"]


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

    from experiments.cli.rows import partition_row, print_rows
    from experiments.progress import LiveLine
    from heuristics import Limits, search
    from instances.deadline import Deadline
    from instances.interrupts import catch_interrupt
    from instances.partitioning.partition_file import save_partition

    rows = []
    with catch_interrupt() as interrupted:
        try:
            for instance in instances:
                with LiveLine(f"{instance.name}, k = {instance.k}, {method}"):
                    limits = Limits(Deadline.after(time_limit, interrupted))
                    answer = search(instance, method, np.random.default_rng(seed), limits)
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
