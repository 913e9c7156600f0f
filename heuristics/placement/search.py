"""One run of a placer as a `Result`: the twin of `heuristics.search`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heuristics.method import Limits
from heuristics.placement.annealing import Tell, search_order
from heuristics.placement.placeto import Checkpoint, zero_shot
from heuristics.placement.registry import ORDERED, PLACERS
from instances import Bound, Result
from instances.deadline import Stopwatch
from instances.errors import InputError, find
from instances.placement.networks import Grouping
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance, proof_of_no_fit

#: Outcome of a placer.
PlacementResult = Result[PlacementInstance, Placement]


def search_placement(
    instance: PlacementInstance,
    method: str,
    rng: np.random.Generator,
    limits: Limits | None = None,
    grouping: Grouping | None = None,
    tell: Tell = lambda what, time: None,
    policy: Checkpoint | None = None,
) -> PlacementResult:
    """Search for a placement of nodes or of groups; its step time is always that of the single nodes.

    Parameters
    ----------
    method : str
        A name of `PLACERS`.
    grouping : Grouping, optional
        Groups of nodes that stay together; by default none.
    tell : callable, optional
        Called with the phase of the method *ordered*, and its best time so far.
    policy : Checkpoint, optional
        For the method *placeto*; by default it trains for this graph alone.

    Returns
    -------
    Result
        With the bound *simple*: a longest path, and an even share of all work. Where it is proved that no placement
        fits into the memory, without answer and bound.

    Raises
    ------
    InputError
        If the placer is unknown, or the policy does not fit it or the question.
    """
    limits, watch = limits or Limits(), Stopwatch()
    placer = find(PLACERS, method, "placer")
    if policy is not None and method != "placeto":
        raise InputError(f"A policy is given, which the method {method} does not use; take the method placeto.")
    impossible = proof_of_no_fit(instance)
    if impossible is not None:
        return PlacementResult(method=method, instance=instance, impossible=impossible)
    question = instance if grouping is None else _grouped(instance, grouping)
    if policy is not None:
        placement = zero_shot(question, rng, limits, policy)
    elif method == ORDERED:
        placement = search_order(question, rng, limits, tell=tell)
    else:
        placement = placer.run(question, rng, limits)
    if grouping is not None:
        placement = Placement(instance, placement.device[grouping.group])
    return PlacementResult(
        method=method,
        instance=instance,
        answer=placement,
        bound=Bound(instance.lower_bound, "simple", optimal=False),
        seconds=watch.seconds(search=watch.passed),
        interrupted=limits.deadline.interrupted.is_set(),
    )


def _grouped(instance: PlacementInstance, grouping: Grouping) -> PlacementInstance:
    """The question whose nodes are the groups; their times are sums over their nodes."""
    rows = instance.works
    works = None if rows is None else np.array([np.bincount(grouping.group, row) for row in rows])
    return replace(instance, graph=grouping.graph, works=works)
