"""The verb ``mtpp explain``: what the answer of a file is, how good it is, and what would have to change."""

from __future__ import annotations

import math
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from instances import Result
from instances.json_files import finite_or_none
from mtpp.cli import options
from mtpp.cli.command import command
from mtpp.cli.exit_codes import DONE, FALSE, INTERRUPTED, NO_SOLVER
from mtpp.cli.messages import complain
from mtpp.cli.printing import Printing, question_line
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
            help='A file that another verb wrote, or by hand {"block": [0, 0, 1]} or {"stages": [["a", "b"], ["c"]]}.',
        ),
    ],
    graph: options.GraphOfFile = None,
    words: ExplainWords,
    printing: Printing,
) -> int:
    """Say what an answer is, how good it is, and what would have to change to do better.

    Of a partition a bound is proved; bandwidth, memory and constraints are those of the file unless they are given
    here. Exit code 1 if the file states a bound that is above the cost of its answer.

    Example: mtpp explain partition.json bert-base --time-limit 20
    """
    from mtpp.api.answers import explainable, explained
    from mtpp.certifying.findings import Findings
    from mtpp.text.tables import left_aligned, terminal_width

    result, false = explainable(str(file), graph, words, f"mtpp explain {file}")
    faults: list[SolverNotAvailableError] = []
    with printing.working(result.instance.label) as live:
        found, interrupted = explained(result, words, live.show, faults.append)
    sentences, width = found.sentences(), terminal_width()
    text = "\n".join(sentences if width is None else (fill(line, width) for line in sentences))
    if isinstance(found, Findings):
        _show_partition(found, text, printing)
    else:
        printing.say(left_aligned([*result._facts().items()]))
        printing.detail(text, question_line(result.instance))
        printing.document(lambda: result_summary(result) | {"sentences": sentences})
    for bound in false:
        complain(f"{file}: the bound {bound.value:.6g} of {bound.method} is above the bottleneck; it is false.", FALSE)
    for fault in dict.fromkeys(map(str, faults)):
        complain(fault, NO_SOLVER)
    if interrupted:
        return INTERRUPTED
    return FALSE if false else NO_SOLVER if faults else DONE


def _show_partition(found: Findings, text: str, printing: Printing) -> None:
    from mtpp.cli.rows import explained_row
    from mtpp.cli.stage_tables import tables
    from mtpp.text.tables import terminal_width

    partition = found.partition
    printing.rows([explained_row(partition, found.bound)])
    printing.detail(*tables(partition, terminal_width()), text, question_line(partition.instance))
    printing.document(lambda: _document(found, found.sentences()))


def result_summary(result: Result[Any, Any]) -> dict[str, Any]:
    """Cost, bound and ratio of a result as members of a JSON object; numbers that are infinite are null."""
    bound = result.bound
    return {
        "instance": result.instance.label,
        "cost": result.cost,
        "bound": None if bound is None else bound.value,
        "method": None if bound is None else bound.witness.get("by", bound.method),
        "ratio": None if result.ratio is None else finite_or_none(result.ratio),
    }


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
