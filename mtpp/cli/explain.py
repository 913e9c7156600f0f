"""The verb ``mtpp explain``: what a partition of a file is, how good it is, and what would have to change."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from instances import Bound, ComputationGraph, InputError, Platform
from instances.partitioning.answer_file import AnswerFile
from instances.partitioning.constraints_file import read_constraints
from mtpp.cli import options
from mtpp.cli.command import Without, takes_words
from mtpp.cli.exit_codes import DONE, FALSE, INTERRUPTED, NO_SOLVER
from mtpp.cli.messages import complain
from mtpp.cli.printing import Printing
from mtpp.questions.partitioning import Reading, Solving, bandwidth_of, memory_limits

if TYPE_CHECKING:
    from mtpp.certifying.findings import Findings
    from mtpp_models import SolverNotAvailableError

__all__ = ["explain"]

_ROUNDING = 1e-9


@takes_words
def explain(
    *,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help='A certificate, a partition, or by hand {"block": [0, 0, 1]} or {"stages": [["a", "b"], ["c"]]}.',
        ),
    ],
    graph: Annotated[
        str | None,
        typer.Argument(metavar="[GRAPH]", help="What the partition is of; a certificate holds its graph."),
    ] = None,
    bandwidth: options.Bandwidth = None,
    memory: options.Memory = None,
    activation_buffer: options.ActivationBuffer = None,
    fit: options.Fit = False,
    constraints: options.ConstraintsFile = None,
    reading: Reading,
    time_limit: Annotated[float, options.of_search(metavar="SECONDS", help="To prove a bound.")] = 10.0,
    solving: Annotated[Solving, Without({"time_limit"})],
    printing: Printing,
) -> int:
    """Say what a partition is, how good it is, and what would have to change to do better.

    Bandwidth, memory and constraints are those of the file unless they are given here. Exit code 1 if the file states a
    bound that is above the bottleneck.

    Example: mtpp explain partition.json bert-base --time-limit 20
    """
    settings = replace(solving, time_limit=time_limit).options()
    answer = AnswerFile.read(file)
    stated: list[Bound] = []
    if answer.holds_graph:
        words = (graph, bandwidth, memory, activation_buffer, constraints)
        if words != (None,) * 5 or fit or reading != Reading():
            raise InputError(
                f"{file}: a certificate holds its graph and platform; leave out all that says another one."
            )
        partition, claims = answer.certified()
        stated = [Bound(claim.value, claim.method) for claim in claims if claim.value >= 0]
    else:
        if graph is None:
            name = answer.graph_name or "GRAPH"
            raise InputError(f"{file}: it does not hold its graph; name that: mtpp explain {file} {name}")
        loaded = reading.load(graph)
        partition = answer.partition(
            loaded,
            partial(_platform, loaded, (bandwidth, memory, activation_buffer), fit, reading.communication == "cost"),
            None if constraints is None else read_constraints(constraints, loaded),
        )

    from mtpp.certifying.explain import explain as find_out
    from mtpp.certifying.findings import sentences
    from mtpp.cli.rows import explained_row
    from mtpp.cli.stage_tables import tables
    from mtpp.text.tables import terminal_width

    most = partition.bottleneck * (1 + _ROUNDING)
    faults: list[SolverNotAvailableError] = []
    with printing.working(partition.instance.label) as live:
        true = [bound for bound in stated if bound.value <= most]
        claimed = [bound for bound in true if bound.proved]
        found, interrupted = find_out(
            partition, settings, stated=claimed, on_progress=live.show, on_fault=faults.append
        )
    said = list(sentences(found))
    printing.rows([explained_row(partition, found.bound)])
    width = terminal_width()
    printing.detail(
        *tables(partition, width), "\n".join(said if width is None else (fill(line, width) for line in said))
    )
    printing.document(lambda: _document(found, said))
    for bound in (bound for bound in stated if bound.value > most):
        complain(f"{file}: the bound {bound.value:.6g} of {bound.method} is above the bottleneck; it is false.", FALSE)
    for fault in dict.fromkeys(map(str, faults)):
        complain(fault, NO_SOLVER)
    if interrupted:
        return INTERRUPTED
    return FALSE if len(true) < len(stated) else NO_SOLVER if faults else DONE


def _platform(
    graph: ComputationGraph,
    words: tuple[str | None, str | None, str | None],
    fit: bool,
    costs_given: bool,
    k: int,
    said: dict[str, float | None],
) -> Platform:
    """The platform of the words, where they are given, or else that which the file states."""
    bandwidth, memory, buffer = words
    rate = said.get("bandwidth")
    if bandwidth is not None or rate is None:
        rate = 1.0 if bandwidth is None and costs_given else bandwidth_of(graph, bandwidth)
    limit, kept = said.get("memory"), said.get("activation_buffer")
    if memory is not None or buffer is not None:
        limit, kept = memory_limits(memory, buffer)
    return Platform(k, rate, float("inf") if limit is None else limit, kept, fit or bool(said.get("fit")))


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
