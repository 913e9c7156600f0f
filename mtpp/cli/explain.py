"""The verb ``mtpp explain``: what a partition of a file is, how good it is, and what would have to change."""

from __future__ import annotations

import math
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from instances import Bound
from instances.partitioning.answer_file import AnswerFile
from instances.results import exceeds
from mtpp.cli import options
from mtpp.cli.command import command
from mtpp.cli.exit_codes import DONE, FALSE, INTERRUPTED, NO_SOLVER
from mtpp.cli.messages import complain
from mtpp.cli.printing import Printing, question_line
from mtpp.questions.answers import partition_of_file
from mtpp.questions.partitioning import ExplainWords

if TYPE_CHECKING:
    from mtpp.certifying.findings import Findings
    from mtpp_models import SolverNotAvailableError

__all__ = ["explain"]


@command
def explain(
    *,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help='A certificate, a partition, or by hand {"block": [0, 0, 1]} or {"stages": [["a", "b"], ["c"]]}.',
        ),
    ],
    graph: options.GraphOfFile = None,
    words: ExplainWords,
    printing: Printing,
) -> int:
    """Say what a partition is, how good it is, and what would have to change to do better.

    Bandwidth, memory and constraints are those of the file unless they are given here. Exit code 1 if the file states a
    bound that is above the bottleneck.

    Example: mtpp explain partition.json bert-base --time-limit 20
    """
    answer = AnswerFile.read(file)
    again = f"mtpp explain {file} {answer.graph_name or 'GRAPH'}"
    partition, claims = partition_of_file(str(file), answer, graph, words, again)
    stated = [Bound(claim.value, claim.method) for claim in claims if claim.value >= 0]

    from mtpp.api.answers import explained
    from mtpp.cli.rows import explained_row
    from mtpp.cli.stage_tables import tables
    from mtpp.text.tables import terminal_width

    false = [bound for bound in stated if exceeds(bound.value, partition.bottleneck)]
    faults: list[SolverNotAvailableError] = []
    with printing.working(partition.instance.label) as live:
        claimed = [bound for bound in stated if bound.proved and bound not in false]
        found, interrupted = explained(partition, claimed, words, live.show, faults.append)
    sentences = found.sentences()
    printing.rows([explained_row(partition, found.bound)])
    width = terminal_width()
    printing.detail(
        *tables(partition, width),
        "\n".join(sentences if width is None else (fill(line, width) for line in sentences)),
        question_line(partition.instance),
    )
    printing.document(lambda: _document(found, sentences))
    for bound in false:
        complain(f"{file}: the bound {bound.value:.6g} of {bound.method} is above the bottleneck; it is false.", FALSE)
    for fault in dict.fromkeys(map(str, faults)):
        complain(fault, NO_SOLVER)
    if interrupted:
        return INTERRUPTED
    return FALSE if false else NO_SOLVER if faults else DONE


def _document(found: Findings, said: list[str]) -> dict[str, Any]:
    from instances.partitioning.partition_file import partition_document

    bound, cost = found.bound, found.partition.bottleneck
    return {
        "instance": found.partition.instance.name,
        "partition": partition_document(found.partition),
        "bound": None if bound is None else bound.value,
        "method": None if bound is None else bound.method,
        "stated": found.stated,
        "ratio": None if bound is None or bound.value <= 0 or cost == math.inf else max(1.0, cost / bound.value),
        "better": None if found.better is None else partition_document(found.better),
        "sentences": said,
    }
