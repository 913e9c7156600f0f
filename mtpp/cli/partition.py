"""The verb ``mtpp partition``: the best cut that a search finds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

from instances import combine
from instances.deadline import Deadline
from instances.system.interrupts import catch_interrupt
from mtpp.cli import options
from mtpp.cli.command import takes_words
from mtpp.cli.exit_codes import INTERRUPTED
from mtpp.cli.outputs import Files
from mtpp.cli.printing import Printing
from mtpp.questions.partitioning import OpenQuestion

__all__ = ["partition"]


@takes_words
def partition(
    *,
    question: OpenQuestion,
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

    from heuristics import Limits, search
    from mtpp.certificates.writing import partition_answer
    from mtpp.cli.rows import partition_row

    least = None
    if (enough := question.enough(instances[0])) is not None:
        from mtpp.cli.least_k import look, no_k, tell
        from mtpp_models import SolveOptions

        least = look(instances[0], enough, SolveOptions(time_limit=time_limit, seed=seed), printing, method=method)
        if least.k is None:
            return no_k(least, printing)
        instances = [least.known[least.k].instance]
    with catch_interrupt() as interrupted, printing.answers(partition_row, instances) as answers:
        for instance in instances:
            with printing.working(f"{instance.label}, {method}"):
                limits = Limits(Deadline.after(time_limit, interrupted))
                answer = search(instance, method, np.random.default_rng(seed), limits)
            if least is not None:
                answer = replace(combine(answer, least.known[instance.k]), method=method)
            document = partial(partition_answer, answer)
            answers.add(answer, document)
            own = files.of(instance, instances)
            if answer.partition is not None:
                own.write(document)
            own.draw(answer)
            if interrupted.is_set():
                return INTERRUPTED
    if least is not None:
        tell(least, printing)
    return answers.exit_code()
