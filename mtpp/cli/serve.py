"""The verb ``mtpp serve``: cuts of a decoder by the context that they hold and by how fast they are."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from instances import InputError, Platform
from instances.registry import find
from mtpp.cli import options
from mtpp.cli.command import Without, takes_words
from mtpp.cli.exit_codes import DONE, IMPOSSIBLE
from mtpp.cli.messages import complain
from mtpp.cli.outputs import Files
from mtpp.cli.printing import Printing
from mtpp.questions.partitioning import Reading, bandwidth_of, memory_limits
from mtpp.text.numbers import bytes_in_words
from mtpp.text.parsing import parse_counts
from mtpp.text.tables import fitted, terminal_width

if TYPE_CHECKING:
    from instances.partitioning.serving import ServedPartition, ServingInstance
    from instances.runtimes import Runtime

__all__ = ["serve"]

_FIRST = {"bottleneck": 0, "capacity": -1}


@takes_words
def serve(
    *,
    graph: options.Graph,
    blocks: Annotated[str, options.of_question("-k", metavar="K", help="Number of stages.")],
    memory: Annotated[str, options.of_question(metavar="BYTES", help="Of a device, a hard limit: 24GB, 24GiB.")],
    bandwidth: Annotated[
        str | None, options.of_question(metavar="RATE", help="Between stages.  [default: 64GB/s]")
    ] = None,
    runtime: Annotated[
        str, options.of_question("--for", metavar="NAME", help="Cuts that this runtime can express.")
    ] = "vllm",
    first: Annotated[
        str, options.of_question(metavar="bottleneck|capacity", help="What counts first in the answer.")
    ] = "bottleneck",
    reading: Annotated[Reading, Without({"level", "training"})],
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
    from instances.runtimes import RUNTIMES
    from instances.runtimes.runtime import NodeRuntime
    from mtpp_models.bounds.serving import serving_front

    Files(out=out, plot=plot).check()
    chosen = find(RUNTIMES, runtime, "runtime")
    find(_FIRST, first, "order")
    if isinstance(chosen, NodeRuntime):
        raise InputError(
            f"--for {runtime}: it takes the stage of each operator, and layers are cut here; name a runtime of layers."
        )
    question = _question(graph, blocks, memory, bandwidth, chosen, reading)
    with printing.working(question.instance.label):
        front = serving_front(question)
    if not front.points:
        return complain(f"{question.instance.label}: {_reason(question, front.largest)}", IMPOSSIBLE)
    answer = front.points[_FIRST[first]]
    words = chosen.settings(answer.partition)
    printing.rows([_row(point) for point in front.points])
    printing.detail(_stages(answer), words.removesuffix("\n"))
    printing.document(lambda: _document(question, front.points, answer, runtime, words))
    if out is not None:
        from instances.json_files import write_json

        write_json(out, _document(question, front.points, answer, runtime, words))
    if plot is not None:
        from mtpp.plots.serving import plot_front
        from mtpp.plots.style import save_figure

        save_figure(plot_front(front), plot)
    return DONE


def _question(
    graph: str, blocks: str, memory: str, bandwidth: str | None, runtime: Runtime, reading: Reading
) -> ServingInstance:
    from instances.architectures import ARCHITECTURES
    from instances.runtimes.serving_chain import DEFAULT_LINK, serving_chain

    (k, *more) = parse_counts(blocks)
    if more:
        raise InputError(f"-k {blocks}: give one number of stages.")
    network = ARCHITECTURES.get(graph)
    if network is not None and network.served and not any(d.startswith("phase=") for d in reading.dim or ()):
        reading = replace(reading, dim=[*(reading.dim or ()), "phase=decode"])
    loaded = reading.load(graph)
    limit, _ = memory_limits(memory, None)
    rate = bandwidth_of(loaded, bandwidth, DEFAULT_LINK)
    return serving_chain(loaded, Platform(k, rate, limit, fit=True), runtime)


def _reason(question: ServingInstance, largest: float) -> str:
    if largest < 1:
        return "no cut has room for a single token; give more memory or more stages."
    return (
        f"no cut holds the context of {question.context} tokens whose times count, and {largest:.0f} are the most; "
        "give more memory, more stages or a smaller context."
    )


def _row(point: ServedPartition) -> dict[str, str]:
    question, unit = point.question, point.question.instance.time_unit
    return {
        "layers": _layers(point),
        f"bottleneck [{unit}]": f"{point.bottleneck:.6g}",
        f"throughput [1/{unit}]": f"{question.batch / point.bottleneck:.6g}" if point.bottleneck else "–",
        "context": _tokens(point.capacity),
        "tokens": _tokens(question.batch * point.capacity),
    }


def _layers(point: ServedPartition) -> str:
    """Layers of each stage; what comes before and after them is not counted."""
    from instances.runtimes.layer_cut import LayerCut

    return ",".join(map(str, LayerCut.of(point.partition).counts))


def _tokens(count: float) -> str:
    return "any" if count == math.inf else f"{count:.0f}"


def _stages(point: ServedPartition) -> str:
    """What each stage holds at the capacity, and how much it could."""
    partition = point.partition
    at = min(point.capacity, 1e15)
    rows = [
        [
            str(n),
            f"{cost:.6g}",
            *map(bytes_in_words, (weights, cache, peak, weights + cache + peak)),
            _tokens(capacity),
        ]
        for n, (cost, weights, cache, peak, capacity) in enumerate(
            zip(
                partition.block_costs.tolist(),
                partition.param_bytes.tolist(),
                point.cache_bytes(at).tolist(),
                partition.peaks.tolist(),
                point.stage_capacity,
                strict=True,
            )
        )
    ]
    header = ["stage", f"time [{point.question.instance.time_unit}]", "weights", "KV", "activations", "sum", "context"]
    return fitted(header, rows, terminal_width())


def _document(
    question: ServingInstance, points: tuple[ServedPartition, ...], answer: ServedPartition, runtime: str, words: str
) -> dict[str, Any]:
    from instances.runtimes.serving_file import serving_document

    return serving_document(question, points) | {
        "answer": points.index(answer),
        "runtime": runtime,
        "words": words,
    }
