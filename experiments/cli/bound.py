"""The verb ``mtpp bound``: what a model proves."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from experiments.cli import options
from experiments.cli.exit_codes import DONE, INTERRUPTED
from experiments.cli.inputs import PartitioningQuestion, Solving
from experiments.cli.outputs import Files, file_for, read_starts
from experiments.cli.printing import Printing
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
    printing: Printing,
) -> int:
    """Prove a lower bound on the bottleneck of every partition.

    Example: mtpp bound bert-base -k 8 --model guess-the-bottleneck --solver highs --time-limit 60
    """
    files.check(export)
    settings = solving.options()
    instances = question.instances()
    starts = read_starts(start, instances)

    from experiments.certificates.writing import certificate_document
    from experiments.cli.rows import bound_row
    from mtpp_models import solve, write_model

    if export is not None:
        written = [
            str(file)
            for instance, begin in zip(instances, starts, strict=True)
            for file in write_model(instance, model, file_for(export, instance, instances), begin)
        ]
        printing.say("\n".join(written))
        printing.document(lambda: written)
        return DONE
    with printing.answers(bound_row, instances, tables=False) as answers:
        for instance, begin in zip(instances, starts, strict=True):
            with printing.working(instance.label) as live:
                answer = solve(instance, model, settings, start=begin, relaxation=relaxation, on_progress=live.show)
            document = partial(certificate_document, [answer])
            answers.add(answer, document)
            own = files.of(instance, instances)
            if answer.impossible is None:
                own.write(document)
            own.draw(answer)
            if answer.interrupted:
                return INTERRUPTED
    return answers.exit_code(bound_will_do=True)
