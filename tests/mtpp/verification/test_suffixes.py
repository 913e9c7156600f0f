"""Bounds on plans on shared network cards, proved again: all that hold and are stated, and none above a plan."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from shared_cases import every_plan
from shared_plans import random_question, tiny_question

from heuristics.planning.orders import execute_orders, portfolio
from instances import InputError
from instances.certificates import Claim
from instances.devices import NetworkCards
from instances.planning import Cluster, LayerChain, Plan, Timeline, TrainingInstance
from instances.planning.operations import PassLists
from mtpp.verification.planning.suffixes import _rates, check_suffixes, least_part
from mtpp.verification.verdict import Check
from mtpp_models.planning.solve import bounds_by_coverage


def checked(instance: TrainingInstance, method: str, value: float) -> Check:
    return check_suffixes(instance, cast("Claim", SimpleNamespace(method=method, value=value)))


@pytest.mark.parametrize("seed", range(3))
def test_bounds_are_proved_and_higher_ones_are_not(seed: int) -> None:
    rng, proved, higher = np.random.default_rng(seed), 0, 0
    for _ in range(15):
        question = random_question(rng, ties=bool(rng.integers(2)))
        question = replace(question, recomputation=bool(rng.integers(2)))
        for bound in list(bounds_by_coverage(question).values())[:2]:
            check = checked(question, bound.method, bound.value)
            assert check.proved == pytest.approx(bound.value), check
            proved += 1
            higher += checked(question, bound.method, 1.001 * bound.value).proved is None
    assert higher > 0.7 * proved


def test_no_time_that_a_plan_beats_is_proved() -> None:
    rng, seen = np.random.default_rng(5), 0
    for _ in range(4):
        question = tiny_question(rng)
        timelines = [
            timeline
            for plan in every_plan(question)
            for _, orders in portfolio(plan)
            if (timeline := _executed(plan, orders)) is not None
        ]
        for method, split in (("z-fixed", False), ("z-split", True)):
            least = min((one.makespan for one in timelines if split or not one.split), default=math.inf)
            if least < math.inf:
                assert checked(question, method, least * (1 + 1e-6)).fault
                seen += 1
    assert seen > 4


def _executed(plan: Plan, orders: PassLists) -> Timeline | None:
    try:
        return execute_orders(plan, orders)
    except InputError:
        return None


def test_the_stage_at_an_anchor_has_a_device_there() -> None:
    """Two senders, or one, and two of three receivers in a server of four devices."""
    assert least_part((2, 2), (3, 4 + 1 + 2), 4, half=False) == pytest.approx(2 / 3)
    assert least_part((1, 1), (3, 4 + 1 + 2), 4, half=False) == pytest.approx(1 / 3)


@pytest.mark.parametrize(("outside", "fixed"), [(1.0, 32.0), (0.25, 38.25)])
def test_layers_stay_in_a_server_or_pay_for_it(outside: float, fixed: float) -> None:
    chain = LayerChain([2] * 3, [4] * 3, [4] * 2, [4] * 2, [6] * 3)
    instance = TrainingInstance(chain, Cluster.of_servers([2, 2], 8.0, outside), 4, network=NetworkCards())
    assert checked(instance, "z-fixed", fixed).proved == fixed
    assert checked(instance, "z-fixed", fixed + 1e-6).fault


def test_what_is_too_large_is_trusted() -> None:
    chain = LayerChain([1.0], [1.0], [], [], [1.0])
    large = TrainingInstance(chain, Cluster(np.ones((65, 65))), 1, network=NetworkCards())
    assert checked(large, "z-fixed", 1.0).how.startswith("trusted: the program over stages is too large")


def test_least_loads_and_rates_by_trying_all_choices() -> None:
    rng = np.random.default_rng(1)
    for half in (False, True):
        links = rng.integers(1, 9, (6, 6)).astype(float)
        cluster = Cluster(links, (3, 2, 1))
        network = NetworkCards(half=half, rates=(4.0, 2.0, 1.0))
        instance = TrainingInstance(LayerChain([1.0], [1.0], [], [], [1.0]), cluster, 1, network=network)
        rates, ports = _rates(instance), network.ports(cluster)
        for q, r in itertools.product(range(1, 6), repeat=2):
            loads = [
                ports.transfer_load(1.0, senders, receivers).max()
                for senders in itertools.combinations(range(6), q)
                for receivers in itertools.combinations(sorted(set(range(6)) - set(senders)), r)
                if len({cluster.server[v] for v in senders + receivers}) > 1
            ]
            assert rates.loads[q, r] == pytest.approx(min(loads, default=-1.0))
        for size in range(2, 7):
            for group in itertools.combinations(range(6), size):
                slowest = min(links[v, w] for v, w in itertools.permutations(group, 2))
                if len({int(cluster.server[v]) for v in group}) == 1:
                    assert rates.packed[size] >= slowest
                else:
                    assert rates.spread[size] >= min(slowest, rates.card / (1 + half))


def test_bug_products_of_large_numbers_overflow() -> None:
    large = LayerChain([1e70] * 2, [1e70] * 2, [1e70], [1e70], [1e70] * 2)
    instance = TrainingInstance(large, Cluster.of_servers([2], 1.0), 2, parameter_copies=1e70, network=NetworkCards())
    with np.errstate(over="raise"):
        assert checked(instance, "z-fixed", 1e72).fault
    with pytest.raises(InputError, match=r"param_bytes is 1e\+71; it must be from 0 to 1e\+70"):
        LayerChain([1.0], [1.0], [], [], [1e71])
    with pytest.raises(InputError, match=r"parameter_copies is 1e\+71; it must be from 0 to 1e\+70"):
        replace(instance, parameter_copies=1e71)
