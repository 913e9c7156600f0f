"""Plans whose groups run several stages in turns: the search and its bound against all plans of small questions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import mtpp
from heuristics.method import Limits
from heuristics.planning.grid import plan_in_grid
from instances.deadline import Deadline
from instances.planning.grid import ConfiguredChain, Servers
from instances.planning.grid.problem import Fixed
from mtpp.certifying.methods import certify_grid
from mtpp.verification.planning.grid.plan import proved_bound
from mtpp.verification.verdict import Clock
from mtpp_models.planning.grid import turns_bound
from tests.helpers.grid_cases import equal_chain, equal_question, of_three_groups, plans_in_turns, scaled, with_ends


@pytest.mark.parametrize("factors", [(1,), (1, 1.25, 1.5), (0.05, 1, 1)])
def test_no_plan_in_turns_is_below_its_bound_or_faster_than_the_one_found(factors: tuple[float, ...]) -> None:
    rng, above = np.random.default_rng(17), 0
    for _ in range(6):
        question = with_ends(rng, factors=factors)
        plans = list(plans_in_turns(question))
        if not plans:
            continue
        best = min(plans, key=lambda plan: plan.time)
        worst = max(plans, key=lambda plan: plan.time)
        bound = turns_bound(worst.instance, worst.time, Deadline())
        assert bound is not None
        assert bound <= best.time * (1 + 1e-9)
        assert len(factors) > 1 or plan_in_grid(question, Limits()).ceiling <= best.time
        above += bound > 0.8 * best.time
    assert above >= 2


def test_no_plan_of_two_or_three_groups_is_below_its_bound() -> None:
    rng, groups = np.random.default_rng(1), set[int]()
    for _ in range(25):
        plans = list(plans_in_turns(of_three_groups(rng)))
        if plans:
            best, worst = (choose(plans, key=lambda plan: plan.time) for choose in (min, max))
            assert (turns_bound(worst.instance, worst.time, Deadline()) or 0.0) <= best.time * (1 + 1e-9)
            groups.add(best.groups)
    assert groups == {2, 3}


@pytest.mark.parametrize(("groups", "batch", "turns", "time"), [(2, 2, 4, 68), (2, 4, 4, 116), (4, 4, 2, 80)])
def test_bounds_of_stages_of_one_layer_are_reached(groups: int, batch: int, turns: int, time: float) -> None:
    """The pipeline fills and drains one layer at a time, and each microbatch is sent again in each turn."""
    question = replace(equal_question(8, batch), fixed=Fixed(pp=groups, tp=1, dp=1, v=turns))
    result = certify_grid(question)
    assert (result.cost, result.bound and result.bound.value) == (time, pytest.approx(time, rel=1e-6))


def test_bug_only_the_best_number_of_turns_was_changed() -> None:
    for seed in (1, 4, 8):
        fixed = [Fixed(pp=2, tp=1, dp=1, v=v) for v in (None, 1, 2, 3, 4)]
        question = replace(with_ends(np.random.default_rng(seed), 9), memory=math.inf, global_batch=4)
        free, *others = (plan_in_grid(replace(question, fixed=one), Limits()).ceiling for one in fixed)
        assert free == min(others)


def test_bug_nothing_fits_where_there_are_more_stages_than_equal_layers() -> None:
    question = replace(with_ends(np.random.default_rng(4), 9), memory=math.inf, global_batch=4)
    search = plan_in_grid(replace(question, fixed=Fixed(pp=2, tp=1, dp=1, v=5)), Limits())
    assert search.best is not None
    assert search.best.stages == 10


def test_degrees_that_no_group_can_have_do_not_weaken_the_bound() -> None:
    question = replace(with_ends(np.random.default_rng(5)), servers=Servers(1, 2, 4.0, 1.0), memory=math.inf)
    plan = min(plans_in_turns(question), key=lambda plan: plan.time)
    bounds = [turns_bound(replace(question, fixed=Fixed(tp=tp)), plan.time, Deadline()) for tp in (None, 1)]
    assert bounds[0] == bounds[1]


def test_bug_one_light_layer_made_the_bound_of_all_weak() -> None:
    """It counted as all layers between the ends, as if none of them needed time or room."""

    def bound(chain: ConfiguredChain) -> float:
        question = replace(equal_question(8, 4, 24), chains=(chain,), fixed=Fixed(pp=2, tp=1, dp=1, v=2))
        plan = plan_in_grid(question, Limits()).best
        assert plan is not None
        found = turns_bound(plan.instance, plan.time, Deadline())
        assert found is not None
        assert found <= plan.time
        again = proved_bound(question, "turns-grid", found, Clock(60.0))
        assert again == pytest.approx(found, rel=1e-8)
        return found

    equal = equal_chain(8)
    light = replace(equal, layers=(equal.layers[0], scaled(equal.layers[1], 0.01), *equal.layers[2:]))
    assert bound(light) >= 0.95 * bound(equal_chain(7))


def test_plans_in_turns_recompute_no_more_than_they_must() -> None:
    search = plan_in_grid(replace(equal_question(12, 4, 30), fixed=Fixed(v=2)), Limits())
    assert search.best is not None
    assert search.uniform is not None
    assert search.best.modes.count("full") == 2
    assert (search.best.time, search.uniform.time) == (133.5, 150)


def test_bug_plans_in_turns_that_fit_as_they_are_recomputed() -> None:
    question = replace(equal_question(4, 2, 20), fixed=Fixed(pp=2, tp=1, dp=1, v=2))
    *layers, last = question.chains[0].layers
    ways = tuple(replace(way, stored_bytes=2 * way.stored_bytes) for way in last.configurations)
    chain = ConfiguredChain((*layers, replace(last, kind="last", configurations=ways)))
    search = plan_in_grid(replace(question, chains=(chain,)), Limits())
    assert search.best is not None
    assert search.best.memory.total.tolist() == [20, 20]
    assert search.best.modes == ("none",) * 4


def test_bug_plans_that_anyone_would_try_first_were_faster() -> None:
    """Embedding and head in stages of their own, the layers of llama-3-8b in pairs between them."""
    words = {"bandwidth": "450GB/s,400GB/s", "device": "H100-80", "sequence": 8192, "micro_batch": "1"}
    result = mtpp.train("llama-3-8b", "16x8", global_batch=128, fix="pp=2,tp=1,cp=1,dp=64,v=9", **words)
    plan = result.answer
    assert plan is not None
    by_hand = replace(plan, cuts=(0, *range(1, 34, 2), 34), modes=("none",) * 34)
    assert plan.time <= by_hand.time
