"""Plans with equal replicas: cut evenly, legal, and no worse than where they began."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heuristics.planning.orders import execute_orders, portfolio
from heuristics.planning.rivals import _even, equal_replicas
from instances.devices import NetworkCards
from instances.errors import InputError
from instances.planning import Cluster, LayerChain, Plan, TrainingInstance


def question(layers: int, servers: list[int], **options: object) -> TrainingInstance:
    rng = np.random.default_rng(layers)
    forward, between = rng.uniform(1, 3, layers), rng.uniform(0.5, 2, layers - 1)
    chain = LayerChain(forward, 2 * forward, between, between, rng.uniform(1, 2, layers), name="random")
    cluster = Cluster.of_servers(servers, 4.0, 1.0, "servers")
    return TrainingInstance(chain, cluster, 4, network=NetworkCards(rates=(1.0,) * len(servers)), **options)  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7), st.integers(1, 4))
def test_cuts_have_the_least_largest_sum(times: list[int], stages: int) -> None:
    """Compared with all cuts."""
    stages = min(stages, len(times))
    cuts = [(0, *inner, len(times)) for inner in combinations(range(1, len(times)), stages - 1)]
    largest = [max(sum(times[a:b]) for a, b in pairwise(cut)) for cut in cuts]
    found = _even(np.array(times, dtype=float), stages)
    assert len(found) == stages + 1
    assert max(sum(times[a:b]) for a, b in pairwise(found)) == min(largest)


def test_replicas_are_equal_and_cuts_are_moved_to_the_better() -> None:
    """Between the best of all cuts and the even ones, in the order that ends first."""
    instance = question(6, [2, 2])
    found = equal_replicas(instance, lambda plan: plan.n_stages == 4)
    plan = found.plan
    assert plan is not None
    assert set(plan.replicas.tolist()) == {1}
    times = {}
    for inner in combinations(range(1, 6), 3):
        one = Plan(instance, (0, *inner, 6), plan.devices)
        times[inner] = min(execute_orders(one, orders, name).makespan for name, orders in portfolio(one))
    even = _even(instance.chain.forward + instance.chain.backward, 4)
    assert min(times.values()) <= found.time <= times[even[1:-1]]  # type: ignore[index]
    assert found.time == pytest.approx(times[plan.cuts[1:-1]])  # type: ignore[index]


def test_all_divisors_are_tried_and_orders_are_kept() -> None:
    seen = set()

    def legal(plan: Plan) -> bool:
        seen.add((plan.n_stages, *set(plan.replicas.tolist())))
        return True

    found = equal_replicas(question(5, [2, 2]), legal, "1f1b")
    assert seen == {(1, 4), (2, 2), (4, 1)}
    (schedule,) = found.schedules
    assert getattr(schedule, "order_name", "").startswith("1f1b")


def test_no_legal_plan_is_refused() -> None:
    with pytest.raises(InputError):
        equal_replicas(question(5, [2, 2]), lambda plan: False)
