"""One run of a placer as a `Result`: the twin of `heuristics.search`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heuristics.limits import Limits
from heuristics.placement.registry import PLACERS
from instances import Bound, Result
from instances.deadline import Stopwatch
from instances.lookup import find
from instances.placement.grouping import Grouping, group_nodes
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

__all__ = ["PlacementResult", "search_placement"]

#: Outcome of a placer.
PlacementResult = Result[PlacementInstance, Placement]


def search_placement(
    instance: PlacementInstance,
    method: str,
    rng: np.random.Generator,
    limits: Limits | None = None,
    grouping: Grouping | None = None,
) -> PlacementResult:
    """Search for a placement of groups of nodes; its times are those of the single nodes.

    Parameters
    ----------
    instance : PlacementInstance
    method : str
        A name of `PLACERS`.
    rng : numpy.random.Generator
    limits : Limits, optional
    grouping : Grouping, optional
        Groups of nodes that stay together; by default at most 150.

    Returns
    -------
    Result
        With the bound *simple*: a longest path, and an even share of all work.

    Raises
    ------
    InputError
        If the placer is unknown.
    """
    limits, watch = limits or Limits(), Stopwatch()
    placer = find(PLACERS, method, "placer")
    grouping = grouping or group_nodes(instance.graph)
    found = placer.run(replace(instance, graph=grouping.graph), rng, limits)
    placement = Placement(instance, found.device[grouping.group])
    return PlacementResult(
        method=method,
        instance=instance,
        answer=placement,
        bound=Bound(instance.lower_bound, "simple", optimal=False),
        seconds=watch.seconds(search=watch.passed),
        interrupted=limits.deadline.interrupted.is_set(),
    )
