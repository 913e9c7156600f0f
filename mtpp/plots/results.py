"""Pictures of results of all problems, for `Result.plot`."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from instances import InputError, Partition, Result
from instances.placement.placement import Placement
from instances.planning import Iteration
from mtpp.plots.partitions import partition_figure
from mtpp.plots.placements import placement_figure
from mtpp.plots.plans import plan_figure

__all__ = ["result_figure"]


def result_figure(result: Result[Any, Any]) -> Figure:
    """Draw a partition or an iteration with its bound, or a placement.

    Raises
    ------
    InputError
        If the result has none of them.
    """
    answer = result.answer
    if isinstance(answer, Partition):
        return partition_figure(answer, result.bound)
    if isinstance(answer, Iteration):
        return plan_figure(answer, result.bound)
    if isinstance(answer, Placement):
        return placement_figure(answer)
    raise InputError(f"{result.instance.label}: there is no picture of {answer!r}.")
