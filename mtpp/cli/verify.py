"""``mtpp verify`` and ``mtpp explain``."""

from __future__ import annotations

import math
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

from instances import Result
from instances.errors import InputError, assumptions
from instances.json_files import finite_or_none
from mtpp.cli import options
from mtpp.cli.command import Without, command, complain
from mtpp.cli.exit_codes import DONE, FALSE, INTERRUPTED, NO_SOLVER, TRUSTED, UNCHECKED, WRONG
from mtpp.cli.printing import Printing, question_line
from mtpp.questions.partitioning import ExplainWords
from mtpp.questions.verifying import OwnGraph, VerifyWords

if TYPE_CHECKING:
    from mtpp.certifying.findings import Findings
    from mtpp.verification.verdict import Verdict
    from mtpp_models import SolverNotAvailableError

# The verb ``mtpp explain``: what the answer of a file is, how good it is, and what would have to change.


@command
def explain(
    *,
    file: Annotated[
        Path,
        options.argument(
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
    result = result.noted(*assumptions())
    faults: list[SolverNotAvailableError] = []
    with printing.working(result.instance.label) as live:
        findings, interrupted = explained(result, words, live.show, faults.append)
    sentences, width = findings.sentences(), terminal_width()
    text = "\n".join(sentences if width is None else (fill(line, width) for line in sentences))
    if isinstance(findings, Findings):
        _show_partition(findings, text, result, printing)
    else:
        printing.say(left_aligned([*result._facts().items()]))
        printing.notes(result)
        printing.detail(text, question_line(result.instance))
        printing.document(lambda: result_summary(result) | {"sentences": sentences, "notes": list(result.notes)})
    for bound in false:
        complain(f"{file}: the bound {bound.value:.6g} of {bound.method} is above the bottleneck; it is false.", FALSE)
    for fault in dict.fromkeys(map(str, faults)):
        complain(fault, NO_SOLVER)
    if interrupted:
        return INTERRUPTED
    return FALSE if false else NO_SOLVER if faults else DONE


def _show_partition(findings: Findings, text: str, result: Result[Any, Any], printing: Printing) -> None:
    from mtpp.cli.printing import tables
    from mtpp.cli.rows import explained_row
    from mtpp.text.tables import terminal_width

    partition = findings.partition
    printing.rows([explained_row(partition, findings.bound)])
    printing.notes(result)
    printing.detail(*tables(partition, terminal_width()), text, question_line(partition.instance))
    printing.document(lambda: _document(findings, findings.sentences()) | {"notes": list(result.notes)})


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


def _document(findings: Findings, sentences: list[str]) -> dict[str, Any]:
    from instances.partitioning.partition_file import partition_document

    bound, cost = findings.bound, findings.partition.bottleneck
    return {
        "instance": findings.partition.instance.name,
        "partition": partition_document(findings.partition),
        "cost": finite_or_none(cost),
        "bound": None if bound is None else bound.value,
        "method": None if bound is None else bound.method,
        "stated": findings.stated,
        "ratio": None if bound is None or bound.value <= 0 or cost == math.inf else max(1.0, cost / bound.value),
        "better": None if findings.better is None else partition_document(findings.better),
        "sentences": sentences,
    }


# The verb ``mtpp verify``: check certificates without the programs that made them.


#: From good to bad; the exit code of several files is the worst.
_SEVERITY = (DONE, TRUSTED, UNCHECKED, WRONG, FALSE)


@command
def verify(
    *,
    certificates: options.Answers,
    graph: Annotated[
        str | None, options.of_question(metavar="GRAPH", help="The graph that you asked about; another one is a fault.")
    ] = None,
    words: Annotated[VerifyWords, Without({"reader", "communication", "input_work", "time_unit"})],
    printing: Printing,
) -> int:
    """Check certificates without the programs that made them.

    First the question is printed that the file answers: is it yours? State what you asked for, as -k 8 --bandwidth
    25GB/s --graph bert-base, and a difference is a fault, exit code 1.

    Costs and combinatorial bounds are computed anew in code of their own, in exact numbers: the bottleneck of a
    partition, the time of a plan in the order of operations that its file states, the step time, memory and bound of a
    placement. What only a solver can say, and the bound of a plan, is listed as trusted. Exit codes: 0 the ratio is
    proved again, or confirmed by --rerun; 4 it rests on trusted bounds; 1 a number is false, or the question another
    one; 2 the file is no certificate, or lacks its question; 6 not checked within the limits.

    Example: mtpp verify certificate.json -k 4 --bandwidth 25GB/s --graph model.onnx
    """
    from instances.system.processes import NotBoundedError
    from mtpp.api.verification import verified
    from mtpp.text.tables import left_aligned

    own = None if graph is None else OwnGraph(graph, words)
    code, documents = DONE, []
    for number, file in enumerate(certificates):
        try:
            with printing.working(str(file)):
                verdict = verified(file, own, words)
        except InputError as error:
            found = complain(str(error), WRONG)
        except NotBoundedError as error:
            found = complain(f"{file}: not checked: {error}; give more --time-limit, or do not trust it.", UNCHECKED)
        else:
            printing.say("\n" * (bool(number) and not printing.quiet) + left_aligned(_headlines(verdict, printing)))
            printing.detail(left_aligned(verdict.table()))
            documents.append(verdict.document())
            found = UNCHECKED if verdict.ran_out else TRUSTED if verdict.rests_on_trust else DONE
            for fault in verdict.faults:
                found = complain(f"{file}: {fault}", FALSE)
        code = max(code, found, key=_SEVERITY.index)
    if documents:
        printing.document(lambda: documents if len(certificates) > 1 else documents[0])
    return code


def _headlines(verdict: Verdict, printing: Printing) -> list[tuple[str, str]]:
    """Labels and texts of a verdict; of a quiet one its name and the last word."""
    lines = verdict.headlines()
    return [(verdict.certificate.file, " ".join(lines[-2]).strip())] if printing.quiet else lines
