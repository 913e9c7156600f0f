"""Solutions of other programs for a written model: a partition, checked here, and a bound that is not proved here."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from instances import Bound, Instance, Partition, Result
from instances.deadline import Stopwatch
from instances.errors import WordError, word
from instances.results import STATED
from mtpp_models import read_solution, simple
from mtpp_models.exchange.building import builders
from mtpp_models.exchange.reading import stated_time
from mtpp_models.simple import as_answer, one_block

__all__ = ["ReadBack", "read_back"]

# By how much a stated bound may be above a known cost, as other programs print few digits; it then counts as that cost.
_DIGITS = 1e-5


class ReadBack(NamedTuple):
    """Solution that was read, with its faults."""

    answers: list[Result]  # the partition with the bound *simple*; then, if there is one, the stated bound
    source: str  # of the stated bound
    false: str | None = None  # why the stated bound cannot be true


def read_back(
    instance: Instance,
    model: str,
    *,
    start: Partition | None = None,
    solution: Path | None = None,
    stated: float | None = None,
) -> ReadBack:
    """Read what other programs found out about a model that was written.

    Parameters
    ----------
    model : str
        As it was written, and with the same start.
    solution : path, optional
        As for `mtpp_models.read_solution`; the partition is then its own, and not the start.
    stated : float, optional
        A bound on the objective of the model, in place of the one that the file states.

    Raises
    ------
    InputError
        If the number is no bound, and as `mtpp_models.read_solution`.
    """
    if stated is not None and not 0 <= stated < math.inf:
        raise WordError("stated_bound", stated, "it must be finite, 0 or more, as the solver states it.")
    watch, built = Stopwatch(), builders(instance, model, start)[0]()
    partition, source = start, word("stated_bound")
    time = None if stated is None else stated_time(built, stated)
    if solution is not None:
        read = read_solution(built, solution)
        partition = read.partition
        if stated is None:
            time, source = read.stated, f"{solution} ({read.solver})"
    floor = Bound(simple(instance), "simple")
    answers = [Result("solution", instance, partition, floor, watch.seconds(read=watch.passed))]
    if time is None:
        return ReadBack(answers, source)
    known = (partition, as_answer(instance, one_block(instance)))
    least = min((answer.bottleneck for answer in known if answer is not None), default=math.inf)
    if time > least * (1 + _DIGITS):
        unit = instance.time_unit
        false = f"the bound {time:.6g} {unit} of {source} is false: a partition of {least:.6g} {unit} is known."
        return ReadBack(answers, source, false)
    bound = Bound(min(time, least), STATED, optimal=False, witness={"model": built.name, "by": source})
    return ReadBack([*answers, Result(STATED, instance, None, bound)], source)
