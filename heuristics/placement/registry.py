"""Every placer under the name that the command line and the tables use, and one run of it as a `Result`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heuristics.method import Limits, Method
from heuristics.placement.annealing import Tell, anneal_placement, climb, search_order
from heuristics.placement.placeto import Checkpoint, optimise, zero_shot
from heuristics.placement.rivals import best_random, expert, greedy, heft, m_etf, m_sct, m_topo, metis, scotch, single
from instances import Bound, Result
from instances.deadline import Stopwatch
from instances.errors import InputError, Registry, find
from instances.placement.networks import Grouping
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance, proof_of_no_fit

#: The best of them.
ORDERED = "ordered"

_THIS = "this project, heuristics/placement"
_BAECHI = "Jeon et al., Baechi, SoCC 2020"

_ALL: tuple[Method[PlacementInstance, Placement], ...] = (
    Method("single", "all nodes on one device", "Placeto, Section 4", single),
    Method("random", "the best of 1000 random placements", "Placeto, Section 4", best_random),
    Method("expert", "layer by layer, or branch by branch, as a person would", "Placeto, Section 4", expert),
    Method("metis", "parts of equal work with few bytes between them", "Karypis and Kumar 1998", metis),
    Method("scotch", "the same by Scotch, where its programs are installed", "Pellegrini 2009", scotch),
    Method("heft", "nodes by their distance from the end, each where it ends first", "Topcuoglu et al. 2002", heft),
    Method("greedy", "in HEFT's order, each where the step simulated so far is shortest", _THIS, greedy),
    Method("placeto", "the network of the paper, of a checkpoint or trained for this graph alone", "Placeto", optimise),
    Method("m-topo", "one device after the other in topological order", _BAECHI, m_topo),
    Method("m-etf", "always the node and the device with the earliest start", _BAECHI, m_etf),
    Method("m-sct", "the same, where favourite children follow their parents", _BAECHI, m_sct),
    Method(ORDERED, "devices and order of all nodes, from all starts, memory kept", _THIS, search_order),
    Method("climb", "100 000 moves of nodes, kept if the step gets no longer", _THIS, climb),
    Method("anneal", "simulated annealing with 100 000 moves", _THIS, anneal_placement),
)

#: Name to placer. An evaluation is a simulation, a target a step time.
PLACERS = Registry(_ALL, "mtpp.placers")


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
