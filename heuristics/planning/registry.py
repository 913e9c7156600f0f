"""Every planner under the name that the command line and the tables use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from heuristics.method import Limits, Method
from heuristics.planning.rivals import (
    data_parallel,
    gpipe,
    hetpipe,
    improved_on_servers,
    pipedream,
    pipedream_hierarchical,
)
from heuristics.planning.shared_cards import on_cards
from heuristics.planning.spp import improved, spp
from instances.errors import Registry
from instances.planning import Iteration, TrainingInstance

_SPP = "Luo et al., INFOCOM 2022"
_PIPEDREAM = "Narayanan et al., SOSP 2019"
_HETPIPE = "Park et al., USENIX ATC 2020"


def _fixed(
    name: str, summary: str, reference: str, plan: Callable[[TrainingInstance], Iteration]
) -> Method[TrainingInstance, Iteration]:
    """A deterministic planner without limits, for the paper's network."""

    def run(instance: TrainingInstance, _rng: np.random.Generator, _limits: Limits | None = None) -> Iteration:
        return plan(instance) if instance.network is None else on_cards(plan(instance.in_paper), instance)

    return Method(name, summary, reference, run)


def _improved(instance: TrainingInstance, rng: np.random.Generator, limits: Limits | None = None) -> Iteration:
    return (improved if instance.network is None else improved_on_servers)(instance, rng, limits)


_original, _by_stage = partial(pipedream, every_minibatch=True), partial(hetpipe, only_largest_stage=True)

_ALL = (
    _fixed("spp", "least load of a stage or channel along a device order, for the best number of stages", _SPP, spp),
    Method(
        "improved",
        "least makespan bound along several device orders, then annealing of the simulated time; never worse than spp",
        "this project, heuristics/planning/spp.py and shared_cards.py",
        _improved,
    ),
    _fixed("data-parallel", "one stage on all devices", _SPP, data_parallel),
    _fixed("gpipe", "as many layers on each device, all forward passes first", "Huang et al., NeurIPS 2019", gpipe),
    _fixed("pipedream", "least load as if all links were equal, 1F1B, a flush each iteration", _PIPEDREAM, pipedream),
    _fixed("pipedream-hierarchical", "the same in two levels, servers and devices", _PIPEDREAM, pipedream_hierarchical),
    _fixed("pipedream-original", "planned as if gradients were exchanged after each microbatch", _PIPEDREAM, _original),
    _fixed("hetpipe", "a pipeline in each server, gradients exchanged over the slowest link", _HETPIPE, hetpipe),
    _fixed("hetpipe-stage", "the same, the stages of a server exchange their gradients at once", _HETPIPE, _by_stage),
)

#: Name to planner.
PLANNERS = Registry(_ALL, "mtpp.planners")
