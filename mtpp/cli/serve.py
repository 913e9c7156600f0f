"""The verb ``mtpp serve``: cuts of a decoder by the context that they hold and by how fast they are."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from instances.system.interrupts import keeping_answers
from mtpp.cli import options
from mtpp.cli.command import command
from mtpp.cli.exit_codes import DONE, IMPOSSIBLE, INTERRUPTED
from mtpp.cli.messages import complain
from mtpp.cli.outputs import Files
from mtpp.cli.printing import Printing, question_line
from mtpp.questions.serving import ServingWords
from mtpp.text.numbers import bytes_in_words
from mtpp.text.tables import fitted, terminal_width

if TYPE_CHECKING:
    from instances.partitioning.serving import ServedPartition

__all__ = ["serve"]


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
    from mtpp.api.serving import served
    from mtpp.problems.answers import result_document

    Files(out=out, plot=plot).check()
    with keeping_answers() as stop:
        with printing.working(f"{graph}, {words['devices'] or f'k = {k}'}"):
            found = served(graph, k, memory, words)
        front = found.answer
        if front is None:
            return complain(f"{found.instance.label}: {found.impossible}", IMPOSSIBLE)
        with stop.deferred():
            if out is not None:
                found.save(out)
            printing.rows([_row(point) for point in front.points])
            settings = (front.settings or front.unsettled).removesuffix("\n")
            printing.detail(_stages(front.chosen), settings, question_line(found.instance))
            printing.document(partial(result_document, found))
        if plot is not None:
            from mtpp.plots.style import save_figure

            save_figure(found.plot(), plot)
    return INTERRUPTED if stop.heard else DONE


def _row(point: ServedPartition) -> dict[str, str]:
    from instances.runtimes.layer_cut import layers_in_words

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
