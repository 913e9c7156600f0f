"""Bounds on shared network cards against every plan on every choice of devices, in many orders."""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from shared_cases import check_bounds
from shared_plans import random_question, tiny_question

from heuristics.planning.orders import execute_orders, portfolio
from instances import InputError
from instances.devices import NetworkCards, Ports
from instances.planning import Cluster, LayerChain, Plan, TrainingInstance
from mtpp_models.planning.bounds import _crossing_part, least_loads
from mtpp_models.planning.solve import CLASSES, bounds_by_coverage

_CLOSE = 1 + 1e-9


def test_no_plan_is_faster_than_its_bounds() -> None:
    rng, count = np.random.default_rng(0), 0
    for _ in range(12):
        with suppress(InputError):  # nothing fits
            count += check_bounds(tiny_question(rng))
    assert count > 500


@pytest.mark.parametrize(("outside", "fixed"), [(1.0, 32.0), (0.25, 38.25)])
def test_layers_stay_in_a_server_or_pay_for_it(outside: float, fixed: float) -> None:
    """Three layers on two servers of two; the best of 1F1B, GPipe and others takes 37.75 and 38.25."""
    chain = LayerChain([2] * 3, [4] * 3, [4] * 2, [4] * 2, [6] * 3)
    instance = TrainingInstance(chain, Cluster.of_servers([2, 2], 8.0, outside), 4, network=NetworkCards())
    assert bounds_by_coverage(instance)["fixed"].value == pytest.approx(fixed)


def test_microbatches_that_have_no_room_wait_for_those_that_have() -> None:
    """With memory for one microbatch a stage, six pass both stages one after the other: 6 (6 + 6)."""
    chain = LayerChain([2] * 2, [4] * 2, [0], [0], [1] * 2, stored_bytes=[3] * 2)
    cluster = Cluster.of_servers([2], 8.0)
    instance = TrainingInstance(chain, cluster, 6, memory=4.0, parameter_copies=1, network=NetworkCards())
    assert bounds_by_coverage(instance)["fixed"].value == pytest.approx(72)
    free = replace(instance, memory=math.inf)
    assert bounds_by_coverage(free)["fixed"].value < 45


def test_least_loads_by_trying_all_choices() -> None:
    """Of q senders and r receivers among the devices of servers of unequal size and cards."""
    for half in (False, True):
        cluster = Cluster.of_servers([3, 2, 1], within=8.0, between=1.0)
        ports = NetworkCards(half=half, rates=(4.0, 2.0, 1.0)).ports(cluster)
        least = least_loads(np.array(cluster.servers), ports)
        for q, r in itertools.product(range(1, 6), repeat=2):
            loads = [
                ports.transfer_load(1.0, senders, receivers).max()
                for senders in itertools.combinations(range(6), q)
                for receivers in itertools.combinations(sorted(set(range(6)) - set(senders)), r)
            ]
            assert least[q, r] == pytest.approx(min((x for x in loads if x > 0), default=math.inf))


@pytest.mark.parametrize("half", [False, True])
def test_no_places_of_two_stages_load_cards_with_less_than_their_part(half: bool) -> None:
    """All numbers of senders and receivers in three servers; spread stages have the first as anchor, or none."""
    g, least = 3, dict[tuple[int, ...], float]()
    splits = [np.array(split) for split in itertools.product(range(g + 1), repeat=3) if sum(split)]
    for x, y in itertools.product(splits, splits):
        q, r = int(x.sum()), int(y.sum())
        packed_senders, packed_receivers = (x > 0).sum() == 1, (y > 0).sum() == 1
        if (x + y).max() > g or (packed_senders and packed_receivers and x @ y > 0):
            continue
        out, home = x * (r - y) / (q * r), y * (q - x) / (q * r)
        load = (out + home).max() if half else np.maximum(out, home).max()
        states = [(2 * g + 1, 2 * g + 1)]  # runs of spread stages without an anchor
        if packed_receivers:
            states = [(g + 1 + x[y.argmax()], r)]
        elif x[0] + y[0] < g:  # a packed stage follows there
            states.append((g + 1 + x[0], g + 1 + y[0]))
        for u, v in states:
            state = q, q if packed_senders else u, r, v
            least[state] = min(load, least.get(state, math.inf))
    parts = np.array([_crossing_part(*state, g, half) for state in least])
    slack = np.array(list(least.values())) - parts
    assert (slack > -1e-12).all()
    assert (slack < 1e-12).sum() > 0.6 * len(slack)


def test_bounds_of_wider_classes_are_weaker() -> None:
    """With large layers a bound for unsplit passes is above what split ones reach."""
    rng = np.random.default_rng(3)
    for _ in range(30):
        instance = random_question(rng, ties=False)
        bounds = [bound.value for bound in bounds_by_coverage(instance).values()]
        assert bounds == sorted(bounds, reverse=True)
        capped = bounds_by_coverage(instance, ceiling=bounds[0] * 0.9)
        assert all(capped[name].value <= value for name, value in zip(CLASSES, bounds, strict=True))


def test_zero_bubble_beats_the_bound_that_does_not_cover_it() -> None:
    """Why bounds are named: split passes end before any unsplit plan could."""
    chain = LayerChain([2] * 3, [4] * 3, [1] * 2, [1] * 2, [1000] * 3)
    instance = TrainingInstance(chain, Cluster.of_servers([1] * 3, 1.0, 100.0), 8, network=NetworkCards())
    plan = Plan(instance, (0, 1, 2, 3), ((0,), (1,), (2,)))
    least = min((execute_orders(plan, orders) for _, orders in portfolio(plan)), key=lambda one: one.makespan)
    bounds = bounds_by_coverage(instance)
    assert least.split
    assert bounds["split"].value <= least.makespan < bounds["fixed"].value


def test_memory_that_nothing_fits_is_refused() -> None:
    chain = LayerChain([1], [1], [], [], [10])
    instance = TrainingInstance(chain, Cluster.of_servers([1, 1], 1.0, 1.0), 2, memory=39.0, network=NetworkCards())
    with pytest.raises(InputError, match="nothing fits into"):
        bounds_by_coverage(instance)


def test_a_port_is_loaded_by_what_passes_it() -> None:
    """Two senders in one server, two receivers in another: all bytes leave through one card and come in at one."""
    ports = NetworkCards().ports(Cluster.of_servers([2, 2], within=8.0, between=2.0))
    assert isinstance(ports, Ports)
    assert ports.transfer_load(6.0, (0, 1), (2, 3)).tolist() == [3, 0, 0, 3]
    assert ports.transfer_load(6.0, (0, 2), (1, 3)).tolist() == [0.75] * 4
    assert ports.allreduce_load(6.0, (0, 1)).tolist() == [0] * 4
    assert ports.allreduce_load(6.0, (0, 1, 2)).tolist() == [4] * 4
    half = NetworkCards(half=True).ports(Cluster.of_servers([2, 2], within=8.0, between=2.0))
    assert half.allreduce_load(6.0, (0, 1, 2)).tolist() == [8] * 2


def test_whole_samples_change_shares_only() -> None:
    """Five samples on two replicas take three fifths of the time; all samples at once are rounded once."""
    chain = LayerChain([4, 4], [8, 8], [1], [1], [0, 0])
    instance = TrainingInstance(chain, Cluster.of_servers([2], 1.0), 3, network=NetworkCards(), samples=5)
    assert Plan(instance, (0, 1, 2), ((0,), (1,))).forward_time.tolist() == [4, 4]
    at_once = Plan(instance, (0, 2), ((0, 1),))
    assert at_once.forward_time[0] == pytest.approx(8 * 8 / 15)
    three = replace(instance, cluster=Cluster.of_servers([3], 1.0))
    assert Plan(three, (0, 2), ((0, 1),)).forward_time[0] == pytest.approx(8 * 3 / 5)
