"""``mtpp place``, ``mtpp flow`` and ``mtpp serve``."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from instances.errors import assumptions
from instances.system.processes import keeping_answers
from mtpp.cli import options
from mtpp.cli.command import Files, command, complain
from mtpp.cli.exit_codes import DONE, IMPOSSIBLE, INTERRUPTED, NO_SOLVER, NOTHING
from mtpp.cli.printing import Printing, question_line
from mtpp.questions.placement import (
    FlowWords,
    PlacementWords,
    PlaceWords,
    ServingWords,
    flow_instance,
    placement_instance,
)
from mtpp.questions.words import pick
from mtpp.text.numbers import bytes_in_words
from mtpp.text.tables import fitted, terminal_width

if TYPE_CHECKING:
    from heuristics.placement import PlacementResult
    from instances.partitioning.serving import ServedPartition
    from instances.placement.networks import Grouping
    from mtpp.certifying.methods import FlowResult

# The verb ``mtpp place``: a placement, and what is printed of it.


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

    from instances.system.processes import catch_interrupt, keeping_answers
    from mtpp import SolverFaultError, SolverNotAvailableError
    from mtpp.api.planning import placed, proved_placement
    from mtpp.problems.checking import result_document

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
        answer = answer.noted(*assumptions())
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
        "ratio": "–" if answer.ratio is None else f"{answer.ratio:.4f}",
        "peak [GiB]": f"{placement.peak_memory.max() / 2**30:.3g}",
        "fits": "yes" if placement.fits else "no",
    }


# The verb ``mtpp flow``: layers of a decoder on the devices of a cluster.


@command
def flow(
    *,
    question: Annotated[
        str,
        typer.Argument(
            metavar="QUESTION",
            help="A file of layers, devices and links (mtpp-flow-question/1, helix-instance), or with --devices a "
            "decoder (mtpp list architectures, config.json).",
        ),
    ],
    words: FlowWords,
    out: Annotated[Path | None, options.of_files(metavar="FILE", help="Write answer and bounds as JSON.")] = None,
    plot: Annotated[Path | None, options.of_files(metavar="FILE", help="Draw the layers (.png, .svg or .pdf).")] = None,
    printing: Printing,
) -> int:
    """Choose the layers of a decoder that each device holds, so that as many requests per second as possible pass.

    Devices that hold the same layers share the requests. With --certify it is proved how many could pass at the most.
    Of a decoder the flow counts sequences: tokens in decoding, which is the default, prompts in prefill.

    Example: mtpp flow llama-3-70b --devices 4xA100,8xL4,12xT4 --dim batch=32 --dim element_bytes=2 --certify
    """
    files = Files(out=out, plot=plot)
    files.check()
    instance = flow_instance(question, words)

    from mtpp.api.planning import flowed
    from mtpp.problems.checking import result_document

    with printing.working(instance.label, "time a request") as live:
        result = flowed(instance, words, live.show).noted(*assumptions())
    if result.impossible is not None:
        return complain(f"{instance.label}: {result.impossible}", IMPOSSIBLE)
    if result.answer is None:
        return complain(f"{instance.label}: none found", INTERRUPTED if result.interrupted else NOTHING)
    printing.rows([_flow_row(result)])
    printing.notes(result)
    printing.table(*result.answer._rows())
    printing.document(partial(result_document, result))
    files.write(partial(result_document, result))
    if plot is not None:
        from mtpp.plots.style import save_figure

        save_figure(result.plot(), plot)
    return INTERRUPTED if result.interrupted else DONE


def _flow_row(result: FlowResult) -> dict[str, str]:
    assert result.answer is not None
    bound = result.bound
    return {
        "instance": result.instance.name,
        "devices": str(result.instance.n),
        "layers": str(result.instance.layers),
        "flow [1/s]": f"{result.answer.flow:.7g}",
        "at most [1/s]": "–" if bound is None or bound.value == 0 else f"{1 / bound.value:.7g}",
        "by": result.by,
        "ratio": "–" if result.ratio is None else f"{result.ratio:.6f}",
        "status": result.status.value,
        "seconds": f"{result.spent:.2f}",
    }


# The verb ``mtpp serve``: cuts of a decoder by the context that they hold and by how fast they are.


@command
def serve(
    *,
    graph: options.Graph,
    k: Annotated[
        str | None, options.of_question("-k", metavar="K", help="Number of stages.  [default: all of --devices]")
    ] = None,
    memory: Annotated[
        str | None, options.of_question(metavar="BYTES", help="Of a device, a hard limit: 24GB, 24GiB.")
    ] = None,
    words: ServingWords,
    out: Annotated[
        Path | None, options.of_files(metavar="FILE", help="Write question, front and answer as JSON.")
    ] = None,
    plot: Annotated[Path | None, options.of_files(metavar="FILE", help="Draw the front (.png, .svg or .pdf).")] = None,
    printing: Printing,
) -> int:
    """Cut a decoder for serving: the largest context that fits, the least bottleneck, and all that lies between.

    Each row is a cut that no other beats in both; that is proved. The context is that of each sequence. Times hold at
    the context of --dim, which all cuts hold; without a phase it is decoding. The throughput counts sequences: tokens
    in decoding, prompts in prefill.

    Example: mtpp serve llama-3-8b -k 4 --memory 24GB --dim batch=32 --dim element_bytes=2
    """
    from mtpp.api.planning import served
    from mtpp.problems.checking import result_document

    Files(out=out, plot=plot).check()
    with keeping_answers() as stop:
        with printing.working(f"{graph}, {words['devices'] or f'k = {k}'}"):
            found = served(graph, k, memory, words)
        found = found.noted(*assumptions())
        front = found.answer
        if front is None:
            return complain(f"{found.instance.label}: {found.impossible}", IMPOSSIBLE)
        with stop.deferred():
            if out is not None:
                found.save(out)
            printing.rows([_front_row(point) for point in front.points])
            printing.notes(found)
            settings = (front.settings or front.unsettled).removesuffix("\n")
            printing.detail(_stages(front.chosen), settings, question_line(found.instance))
            printing.document(partial(result_document, found))
        if plot is not None:
            from mtpp.plots.style import save_figure

            save_figure(found.plot(), plot)
    return INTERRUPTED if stop.heard else DONE


def _front_row(point: ServedPartition) -> dict[str, str]:
    from instances.runtimes.layers import layers_in_words

    question, unit = point.question, point.question.instance.time_unit
    return {
        "layers": layers_in_words(point.partition),
        f"bottleneck [{unit}]": f"{point.bottleneck:.6g}",
        f"throughput [1/{unit}]": f"{question.batch / point.bottleneck:.6g}" if point.bottleneck else "–",
        "context": _tokens(point.capacity),
        "tokens": _tokens(question.batch * point.capacity),
    }


def _tokens(count: float) -> str:
    return "any" if count == math.inf else f"{count:.0f}"


def _stages(point: ServedPartition) -> str:
    """Memory of each stage at the capacity, and the largest context of each."""
    partition = point.partition
    at = min(point.capacity, 1e15)
    kinds = [""] * partition.instance.k if partition.instance.is_alike else partition.kinds_by_name
    rows = [
        [
            str(n),
            *([kind] if kind else []),
            f"{cost:.6g}",
            *map(bytes_in_words, (weights, cache, peak, weights + cache + peak)),
            _tokens(capacity),
        ]
        for n, (kind, cost, weights, cache, peak, capacity) in enumerate(
            zip(
                kinds,
                partition.block_costs.tolist(),
                partition.param_bytes.tolist(),
                point.cache_bytes(at).tolist(),
                partition.peaks.tolist(),
                point.stage_capacity,
                strict=True,
            )
        )
        if kind is not None
    ]
    device = ["device"] if any(kinds) else []
    header = [
        "stage",
        *device,
        f"time [{point.question.instance.time_unit}]",
        "weights",
        "KV",
        "activations",
        "sum",
        "context",
    ]
    return fitted(header, rows, terminal_width())
