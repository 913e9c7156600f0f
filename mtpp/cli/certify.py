"""The verb ``mtpp certify``: a good partition, and how good it is."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from instances import InputError, Instance, combine
from mtpp.cli import options
from mtpp.cli.command import takes_words
from mtpp.cli.exit_codes import INTERRUPTED, NO_SOLVER
from mtpp.cli.messages import complain
from mtpp.cli.outputs import Files, file_for, read_starts
from mtpp.cli.printing import Printing
from mtpp.cli.step_table import draw_steps, tell_steps, with_steps
from mtpp.questions.partitioning import AUTO, OpenQuestion, Solving

if TYPE_CHECKING:
    from mtpp.certifying.candidates import Turn
    from mtpp_models import SolverNotAvailableError

__all__ = ["certify"]


@takes_words
def certify(
    *,
    question: OpenQuestion,
    solving: Solving,
    start: options.Start = None,
    explain: Annotated[bool, options.of_printing("--explain", help="Also what each step cost and gained.")] = False,
    plot_progress: Annotated[
        Path | None, options.of_files(metavar="FILE", help="Draw bottleneck and bound over time (.png, .svg or .pdf).")
    ] = None,
    files: Files,
    printing: Printing,
) -> int:
    """Find a good partition and prove how good it is, under one time budget.

    Below the result line are the stages, and the tensors that cross each cut.
    If the solver fails at work, the other methods go on without it, and the exit code is 3.

    Example: mtpp certify bert-base -k 2,4,8 --time-limit 60 --out certificate.json
    """
    files.check()
    Files(plot=plot_progress).check()
    settings = solving.options()
    instances = question.instances()
    starts = read_starts(None if question.blocks == AUTO else start, instances)

    from mtpp.certificates.writing import certificate_document
    from mtpp.certifying.certify import certify_all
    from mtpp.cli.least_k import look, no_k, tell
    from mtpp.cli.rows import certificate_row

    faults: list[SolverNotAvailableError] = []
    told: list[tuple[Instance, list[Turn]]] = []
    least, interrupted = None, False
    try:
        if (enough := question.enough(instances[0])) is not None:
            if start is not None:
                raise InputError(f"--start {start}: with -k auto nothing is known of k; leave it out.")
            least = look(instances[0], enough, settings, printing, on_fault=faults.append)
            if least.k is None:
                return no_k(least, printing)
            instances, starts = [least.known[least.k].instance], [least.known[least.k].partition]
        with printing.answers(certificate_row, instances) as found:
            for instance, begin in zip(instances, starts, strict=True):
                steps: list[Turn] = []
                with printing.working(instance.label) as live:
                    answers = certify_all(
                        instance,
                        settings,
                        start=begin,
                        known=found.results if least is None else list(least.known.values()),
                        on_progress=live.show,
                        on_fault=faults.append,
                        on_step=steps.append,
                    )
                result, document = combine(*answers), partial(certificate_document, answers)
                found.add(result, partial(with_steps, document, steps) if explain else document)
                if explain:
                    told.append((instance, steps))
                if plot_progress is not None:
                    draw_steps(file_for(plot_progress, instance, instances), instance, steps)
                own = files.of(instance, instances)
                if result.impossible is None:
                    own.write(document)
                own.draw(result)
                if interrupted := result.interrupted:
                    break
        tell_steps(told, printing)
        if interrupted:
            return INTERRUPTED
        tell(least, printing)
    finally:
        for fault in dict.fromkeys(map(str, faults)):
            complain(fault, NO_SOLVER)
    return NO_SOLVER if faults else found.exit_code()
