"""The verb ``mtpp certify``: a good partition, and how good it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.cli import options
from experiments.cli.complaints import complain
from experiments.cli.exit_codes import INTERRUPTED, NO_SOLVER
from experiments.cli.inputs import PartitioningQuestion, Solving
from experiments.cli.outputs import Files, read_starts
from experiments.cli.words import takes_words
from instances import combine

if TYPE_CHECKING:
    from mtpp_models import SolverNotAvailableError

__all__ = ["certify"]


@takes_words
def certify(*, question: PartitioningQuestion, solving: Solving, start: options.Start = None, files: Files) -> int:
    """Find a good partition and prove how good it is, under one time budget.

    If the solver fails at work, the other methods go on without it, and the exit code is 3.

    Example: mtpp certify bert-base -k 2,4,8 --time-limit 60 --out certificate.json
    """
    files.check()
    settings = solving.options()
    instances = question.instances()
    starts = read_starts(start, instances)

    from experiments.certificates.ladder import gather
    from experiments.cli.rows import certificate_row, exit_code, printed
    from experiments.progress import LiveLine

    faults: list[SolverNotAvailableError] = []
    try:
        with printed(certificate_row) as results:
            for instance, begin in zip(instances, starts, strict=True):
                with LiveLine(instance.label) as live:
                    answers = gather(
                        instance, settings, start=begin, known=results, on_progress=live.show, on_fault=faults.append
                    )
                results.append(combine(*answers))
                own = files.of(instance, instances)
                if results[-1].impossible is None:
                    own.write_certificate(answers)
                own.draw(results[-1])
                if results[-1].interrupted:
                    return INTERRUPTED
    finally:
        for fault in dict.fromkeys(map(str, faults)):
            complain(fault, NO_SOLVER)
    return NO_SOLVER if faults else exit_code(results)
