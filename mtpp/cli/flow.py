"""The verb ``mtpp flow``: layers of a decoder on the devices of a cluster."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtpp.cli import options
from mtpp.cli.command import command
from mtpp.cli.exit_codes import DONE, IMPOSSIBLE, INTERRUPTED, NOTHING
from mtpp.cli.messages import complain
from mtpp.cli.outputs import Files
from mtpp.cli.printing import Printing
from mtpp.questions.flow import FlowWords, flow_instance

if TYPE_CHECKING:
    from mtpp.certifying.flow import FlowResult

__all__ = ["flow"]


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

    from mtpp.api.flow import flowed
    from mtpp.problems.answers import result_document

    with printing.working(instance.label, "time a request") as live:
        result = flowed(instance, words, live.show)
    if result.impossible is not None:
        return complain(f"{instance.label}: {result.impossible}", IMPOSSIBLE)
    if result.answer is None:
        return complain(f"{instance.label}: none found", INTERRUPTED if result.interrupted else NOTHING)
    printing.rows([_row(result)])
    printing.notes(result)
    printing.table(*result.answer._rows())
    printing.document(partial(result_document, result))
    files.write(partial(result_document, result))
    if plot is not None:
        from mtpp.plots.style import save_figure

        save_figure(result.plot(), plot)
    return INTERRUPTED if result.interrupted else DONE


def _row(result: FlowResult) -> dict[str, str]:
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
