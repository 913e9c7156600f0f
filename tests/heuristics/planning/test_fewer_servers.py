"""A larger cluster never gets a slower plan from the same search."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from planning_oracles import random_chain

from heuristics.planning.rivals import improved_on_servers
from heuristics.planning.shared_cards import Effort, improved_on_cards
from instances.devices import NetworkCards
from instances.errors import InputError
from instances.planning import Cluster, TrainingInstance


def question(seed: int, servers: list[int]) -> TrainingInstance:
    """The same layers and links for all servers; slow links, and room for few microbatches in every other question."""
    rng = np.random.default_rng(seed)
    layers = 5
    chain = random_chain(rng, layers, (1, 6), (1, 9), (1, 7), (1, 7), (1, 9))
    most = 4 * chain.param_bytes.sum() + 4 * chain.stored.sum()
    return TrainingInstance(
        chain,
        Cluster.of_servers(servers, 8.0, 0.5),
        4,
        memory=float(0.8 * most) if seed % 2 else math.inf,
        network=NetworkCards(half=bool(seed % 3)),
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("servers", [[2] * 4, [3, 2, 2, 1]])
def test_more_servers_never_make_the_plan_slower(seed: int, servers: list[int]) -> None:
    times = []
    for count in range(1, len(servers) + 1):
        try:
            asked = question(seed, servers[:count])
            times.append(improved_on_servers(asked, np.random.default_rng(0), effort=Effort(level=0)).time)
        except InputError:  # nothing fits on so few
            times.append(math.inf)
    assert times[-1] < math.inf
    assert all(more <= fewer * (1 + 1e-9) for fewer, more in pairwise(times))


def test_a_server_that_nothing_is_worth_the_way_to_stays_idle() -> None:
    """The search on both servers alone takes more time than the one on a single server."""
    asked, one = question(0, [2, 2]), question(0, [2])
    alone = improved_on_cards(one, np.random.default_rng(0), effort=Effort(level=0))
    found = improved_on_servers(asked, np.random.default_rng(0), effort=Effort(level=0))
    assert found.time <= alone.time
    assert found.instance is asked
