"""The verb ``mtpp split``: a model in stages, as files that run, with the certificate beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtpp.cli import options
from mtpp.cli.command import command
from mtpp.cli.exit_codes import DONE, IMPOSSIBLE, INTERRUPTED, NO_SOLVER, NOTHING
from mtpp.cli.messages import complain
from mtpp.cli.printing import Printing
from mtpp.questions.stages import SplitWords

if TYPE_CHECKING:
    from mtpp_models import SolverNotAvailableError

__all__ = ["split"]


@command
def split(
    *,
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="An ONNX model, with its weights beside it.")],
    k: Annotated[int | None, options.of_question("-k", metavar="K", help="Number of stages.")] = None,
    partition: Annotated[
        Path | None,
        options.of_question(metavar="FILE", help="Split as this says: a certificate or a partition of the model."),
    ] = None,
    words: SplitWords,
    out: Annotated[Path, options.of_files(metavar="FOLDER", help="Where the stages are written; new or empty.")],
    printing: Printing,
) -> int:
    """Cut an ONNX model into stages that run, and write them with a certificate of how good the cut is.

    The folder holds a model a stage, its weights, the certificate and manifest.json (mtpp-stages/1). Nothing outside of
    it is written. With --partition, that partition is kept, and the time is for a bound on it.

    Example: mtpp split model.onnx -k 4 --bandwidth 10GB/s --out stages
    """
    from mtpp.api.stages import Splitting

    splitting = Splitting.of(model, k, out, partition, words)
    label = splitting.instance.label
    faults: list[SolverNotAvailableError] = []
    with printing.working(label) as live:
        best = splitting.certified(on_progress=live.show, on_fault=faults.append)
    if best.partition is None:
        if best.impossible is not None:
            return complain(f"{label}: {best.impossible}", IMPOSSIBLE)
        return complain(f"{label}: none found", NOTHING)

    from mtpp.cli.rows import certificate_row

    manifest = splitting.write(best)
    printing.rows([certificate_row(best)])
    printing.say(f"{len(manifest.stages)} stages in {out}; run them: mtpp run {out}")
    printing.document(manifest.document)
    for fault in dict.fromkeys(map(str, faults)):
        complain(fault, NO_SOLVER)
    return INTERRUPTED if best.interrupted else NO_SOLVER if faults else DONE
