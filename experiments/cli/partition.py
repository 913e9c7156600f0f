"""The verb ``mtpp partition``: the best cut that a search finds."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from experiments.cli import options
from experiments.cli.exit_codes import INTERRUPTED
from experiments.cli.inputs import PartitioningQuestion
from experiments.cli.outputs import Files
from experiments.cli.printing import Printing
from experiments.cli.words import takes_words
from instances import Result
from instances.deadline import Deadline
from instances.interrupts import catch_interrupt

__all__ = ["partition"]


@takes_words
def partition(
    *,
    question: PartitioningQuestion,
    method: Annotated[str, options.of_search(metavar="NAME", help="See mtpp list heuristics.")] = "portfolio",
    seed: options.Seed = 0,
    time_limit: options.OptionalTimeLimit = None,
    files: Files,
    printing: Printing,
) -> int:
    """Search for a partition with a small bottleneck.

    Below the result line are the stages, and the tensors that cross each cut.

    Example: mtpp partition bert-base -k 8 --bandwidth 25GB/s --dim batch=8 --out partition.json --plot partition.svg
    """
    files.check()
    instances = question.instances()

    import numpy as np

    from experiments.certificates.writing import partition_answer
    from experiments.cli.rows import partition_row
    from heuristics import Limits, search
    from mtpp_models.memory import fits_nowhere

    with catch_interrupt() as interrupted, printing.answers(partition_row, instances) as answers:
        for instance in instances:
            with printing.working(f"{instance.label}, {method}"):
                limits = Limits(Deadline.after(time_limit, interrupted))
                reason = fits_nowhere(instance)
                if reason is None:
                    answer = search(instance, method, np.random.default_rng(seed), limits)
                else:
                    answer = Result(method, instance, impossible=reason)
            document = partial(partition_answer, answer)
            answers.add(answer, document)
            own = files.of(instance, instances)
            if answer.partition is not None:
                own.write(document)
            own.draw(answer)
            if interrupted.is_set():
                return INTERRUPTED
    return answers.exit_code()
