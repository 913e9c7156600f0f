"""The verb ``mtpp place``: a placement, and what is printed of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from mtpp.cli import options
from mtpp.cli.command import command
from mtpp.cli.exit_codes import DONE, IMPOSSIBLE, INTERRUPTED, NO_SOLVER, NOTHING
from mtpp.cli.messages import complain
from mtpp.cli.outputs import Files
from mtpp.cli.printing import Printing, question_line
from mtpp.questions.placement import PlacementWords, PlaceWords, placement_instance
from mtpp.questions.words import pick

if TYPE_CHECKING:
    from heuristics.placement import PlacementResult
    from instances.placement.networks import Grouping

__all__ = ["place", "placement_row"]


@command
def place(
    *,
    graph: Annotated[
        str,
        typer.Argument(
            metavar="GRAPH", help="An architecture, a file, or a graph of a family: nmt-SEED, cifar10-SEED, ptb-SEED."
        ),
    ],
    k: Annotated[
        int | None, options.of_question("-k", metavar="K", help="Number of devices.  [default: as in --devices]")
    ] = None,
    method: Annotated[str, options.of_search(metavar="NAME", help="See mtpp list placers.")] = "ordered",
    words: PlaceWords,
    files: Files,
    printing: Printing,
) -> int:
    """Place the nodes of a step on devices, data going back and forth, so that the step is short.

    Exit code 1 if a device needs more than its memory, 5 if it is proved that every placement does. With --certify a
    solver that fails makes it 3; what only a solver claims is marked in the file, and mtpp verify says so.

    Example: mtpp place inception-v3 --training --dim batch=32 -k 4 --plot placement.png
    """
    files.check()
    instance = placement_instance(graph, k, pick(PlacementWords, words))

    from instances.system.interrupts import catch_interrupt, keeping_answers
    from mtpp import SolverFaultError, SolverNotAvailableError
    from mtpp.api.placement import placed, proved_placement
    from mtpp.problems.answers import result_document

    label = f"{instance.graph.name} on {instance.devices} devices, {method}"
    faults = list[SolverNotAvailableError]()
    with keeping_answers() as stop, catch_interrupt() as interrupted:  # also between search and proof
        with printing.working(label, "step time") as live:
            answer, grouping = placed(instance, method, words, interrupted, live.show)
        if answer.answer is None:
            return complain(f"{instance.label}: {answer.impossible}; no placement fits.", IMPOSSIBLE)
        if words["certify"] and not interrupted.is_set():
            with printing.working(instance.label, "step time") as live:
                answer = proved_placement(answer, words, live.show, faults.append)
        placement = answer.answer
        assert placement is not None
        document = partial(result_document, answer)
        with stop.deferred():
            files.write(document)
            printing.rows([placement_row(answer, grouping)])
            printing.notes(answer)
            printing.detail(question_line(instance))
            printing.document(document)
        if files.plot is not None:
            from mtpp.plots.style import save_figure

            save_figure(answer.plot(), files.plot)
    for line in dict.fromkeys(map(str, faults)):
        complain(line, NO_SOLVER)
    if stop.heard or interrupted.is_set() or answer.interrupted:
        return INTERRUPTED
    if any(isinstance(fault, SolverFaultError) for fault in faults):
        return NO_SOLVER
    return DONE if placement.fits else NOTHING


def placement_row(answer: PlacementResult, grouping: Grouping | None) -> dict[str, str]:
    """Column to text; times are those of single nodes, also where groups were searched."""
    placement, instance, unit = answer.answer, answer.instance, answer.instance.time_unit
    assert placement is not None
    assert answer.bound is not None
    return {
        "instance": instance.graph.name,
        "n": str(instance.graph.n),
        **({} if grouping is None else {"groups": str(grouping.graph.n)}),
        "k": str(instance.devices),
        "method": answer.method,
        f"step time [{unit}]": f"{placement.step_time:.6g}",
        "of one device": f"{placement.relative_time:.4f}",
        f"bound [{unit}]": f"{answer.bound.value:.6g}",
        **({} if answer.bound.method == "simple" else {"by": answer.by}),
        "ratio": f"{answer.ratio:.4f}",
        "peak [GiB]": f"{placement.peak_memory.max() / 2**30:.3g}",
        "fits": "yes" if placement.fits else "no",
    }
