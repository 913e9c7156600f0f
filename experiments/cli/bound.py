"""The verb ``mtpp bound``: what a model proves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.cli import options
from experiments.cli.exit_codes import DONE, INTERRUPTED
from experiments.cli.inputs import PartitioningQuestion, Solving
from experiments.cli.outputs import Files, file_for, read_starts
from experiments.cli.words import takes_words

__all__ = ["bound"]


@takes_words
def bound(
    *,
    question: PartitioningQuestion,
    model: Annotated[
        str,
        options.of_search(
            metavar="NAME",
            help="See mtpp list models; exact+all or coarse-4+cuts+joins are strengthened, and need --start.",
        ),
    ] = "exact",
    relaxation: Annotated[bool, options.of_search("--relaxation", help="Solve the linear relaxation.")] = False,
    solving: Solving,
    start: options.Start = None,
    files: Files,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the model (.lp or .mps) instead of solving it.")
    ] = None,
) -> int:
    """Prove a lower bound on the bottleneck of every partition.

    Example: mtpp bound bert-base -k 8 --model guess-the-bottleneck --solver highs --time-limit 60
    """
    files.check(export)
    settings = solving.options()
    instances = question.instances()
    starts = read_starts(start, instances)

    from experiments.cli.rows import bound_row, exit_code, printed
    from experiments.progress import LiveLine
    from mtpp_models import solve, write_model

    if export is not None:
        for instance, begin in zip(instances, starts, strict=True):
            for file in write_model(instance, model, file_for(export, instance, instances), begin):
                print(file)
        return DONE
    with printed(bound_row) as answers:
        for instance, begin in zip(instances, starts, strict=True):
            with LiveLine(instance.label) as live:
                answer = solve(instance, model, settings, start=begin, relaxation=relaxation, on_progress=live.show)
            answers.append(answer)
            own = files.of(instance, instances)
            if answer.impossible is None:
                own.write_certificate([answer])
            own.draw(answer)
            if answer.interrupted:
                return INTERRUPTED
    return exit_code(answers, bound_will_do=True)
