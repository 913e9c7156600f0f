"""Search and bounds in a grid against all plans of small questions."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import islice, product

import numpy as np
import pytest

import mtpp
from heuristics.method import Limits
from heuristics.planning.grid import plan_in_grid
from heuristics.planning.grid.search import dealt, exchanged, moves_of
from heuristics.planning.grid.uniform import _sketch, built, least_step, uniform_sketches
from instances.deadline import Deadline
from instances.errors import InputError
from instances.planning.grid import Configuration, ConfiguredChain, ConfiguredLayer, GridInstance, GridPlan, Servers
from instances.planning.grid.problem import Fixed, StateBytes
from instances.planning.grid.program import settings_of, solve
from instances.planning.grid.recomputation import GridArrays, _shares, chosen_modes, fronts_of
from mtpp.certifying.methods import certify_grid
from mtpp.questions.planning import TrainWords
from mtpp_models.planning.grid import grid_bounds, turns_bound
from tests.helpers.grid_cases import (
    all_plans,
    equal_question,
    of_three_groups,
    plans_in_turns,
    random_question,
    with_ends,
)


@pytest.mark.parametrize(
    ("layers", "batch", "memory", "zero", "best", "bound"),
    [
        (4, 4, math.inf, 0, 30, 30),
        (4, 4, 12, 0, 47, 47),
        (4, 4, 12, 1, 38, 38),
        (4, 4, 8, 0, 58, 58),
        (3, 6, 10, 0, 51, 51),
        (3, 6, 8, 0, 60.5, 60.5),
        (3, 6, 8, 1, 51, 51),
        (3, 6, 6, 0, 78.5, 78.5),
    ],
)
def test_golden_plans(layers: int, batch: int, memory: float, zero: int, best: float, bound: float) -> None:
    question = replace(equal_question(layers, batch, memory, zero), fixed=Fixed(v=1))
    result = certify_grid(question)
    assert (result.cost, result.bound and result.bound.value) == (best, bound)
    assert min(plan.time for plan in all_plans(question)) == best


def test_nothing_fits_in_one_line() -> None:
    with pytest.raises(InputError, match=r"into 6 bytes a device: each .* need 5 bytes a device, and no stages"):
        plan_in_grid(equal_question(4, 4, 6), Limits())
    with pytest.raises(InputError, match=r"layer layer\.0 alone needs 3\.5 bytes on a device in its smallest"):
        plan_in_grid(equal_question(4, 4, 2), Limits())
    question = replace(equal_question(4, 4, 2), state_bytes=StateBytes(2e9, 4e9, 12e9), memory=1.5e9)
    with pytest.raises(InputError, match=r"nothing fits into 1\.5 GB a device: layer .* needs [\d.]+ GB"):
        plan_in_grid(question, Limits())


@pytest.mark.parametrize("seed", range(4))
def test_bounds_are_below_all_plans_and_the_search_finds_the_best(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(10):
        question = replace(random_question(rng), fixed=Fixed(v=1))
        best = min((plan.time for plan in all_plans(question)), default=None)
        if best is None:
            with pytest.raises(InputError, match="nothing fits"):
                plan_in_grid(question, Limits())
            continue
        result = certify_grid(question)
        assert result.cost is not None
        assert result.bound is not None
        assert result.cost == pytest.approx(best, rel=1e-9)
        bounds = [part.bound.value for part in result.parts if part.bound is not None]
        assert bounds
        assert max(bounds) <= best * (1 + 1e-12)


def test_bug_tied_numbers_were_summed_at_the_degree_of_one_end() -> None:
    """The first stage has its degree's part of a tied table; a server has no cards between its own devices."""

    def layer(name: str, slow: float, tied: float) -> ConfiguredLayer:
        rest = {"weight_backward": 0.0, "stored_bytes": 1.0, "output_bytes": 0.0}
        ways = [
            Configuration(tp=t, forward=f, input_backward=f, parameters=1 / t, tied_parameters=tied / t, **rest)
            for t, f in ((1, 1.0), (2, slow))
        ]
        return ConfiguredLayer(name, name, tuple(ways))

    chain = ConfiguredChain((layer("first", 40.0, 0.0), layer("last", 1.0, 1.0)))
    question = GridInstance(
        (chain,), Servers(1, 4, 2.0, 1.0), 2, state_bytes=StateBytes(1, 100, 2), fixed=Fixed(pp=2, dp=1), zero=(0,)
    )
    plans = [GridPlan(question, 1, 1, (0, 1, 2), tensor, ("none",) * 2, zero=0) for tensor in ((1, 2), (2, 2))]
    assert [plan.after_time.tolist() for plan in plans] == [[50, 50], [25, 25]]
    assert grid_bounds(plans[1], Limits().deadline)[0].value <= plans[0].time


def test_uniform_plans_come_by_their_estimates_and_none_is_left_out() -> None:
    rng = np.random.default_rng(3)
    for draw in (random_question, with_ends, of_three_groups):
        for question in (draw(rng) for _ in range(8)):
            settings = settings_of(question)
            sketches = list(uniform_sketches(question, settings))
            estimates = [sketch.estimate for sketch in sketches]
            assert estimates == sorted(estimates)
            L, modes = question.layers, range(len(question.modes))
            every = [
                _sketch(question, setting, v, t, S, mode)
                for setting, arrays in settings
                for v, t, S, mode in product(range(1, L + 1), arrays.degrees.tolist(), range(1, L + 1), modes)
                if S * v <= L and setting.pipelines * t * S <= question.servers.devices
                if v == 1 or (S > 1 and question.global_batch // setting.pipelines % S == 0)
            ]
            assert Counter(sketches) == Counter(filter(None, every))


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_of_a_plan_is_no_more_than_its_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    question = random_question(rng)
    for plans in (all_plans(question), plans_in_turns(with_ends(rng)), plans_in_turns(of_three_groups(rng))):
        for plan in islice(plans, 0, 4000, 10):
            assert least_step(plan) <= plan.time * (1 + 1e-12)


def test_the_plan_is_no_slower_than_any_uniform_plan() -> None:
    rng = np.random.default_rng(7)
    for _ in range(25):
        question = random_question(rng)
        sketches = list(uniform_sketches(question, settings_of(question)))
        times = [plan.time for sketch in sketches for plan in built(question, sketch)]
        if times:
            assert plan_in_grid(question, Limits()).ceiling <= min(times)


@pytest.mark.parametrize(
    ("cluster", "batch", "others", "regular"),
    [
        ("4x2", 12, {"zero": "0"}, 0.019388),  # 26 layers in 15 stages, those with two last: 3 % faster
        ("2x2", 32, {"memory": "2GB"}, 0.048816),  # recomputes, with one more layer in the first stages: 2 %
    ],
)
def test_bug_simple_cuts_were_faster_than_the_plan(
    cluster: str, batch: int, others: TrainWords, regular: float
) -> None:
    words: TrainWords = {"bandwidth": "100GB/s,100GB/s", "sequence": 128, "device": "A100-40GB", **others}
    answer = mtpp.train("bert-large", cluster, global_batch=batch, **words).answer
    assert answer is not None
    assert answer.time <= regular


def test_more_servers_never_make_the_plan_slower() -> None:
    rng = np.random.default_rng(11)
    for _ in range(15):
        size = int(rng.choice([1, 2]))
        question = random_question(rng, Servers(3, size, 4, 1))
        before = math.inf
        for count in range(1, 4):
            smaller = _on(question, count)
            try:
                time = math.inf if smaller is None else plan_in_grid(smaller, Limits()).ceiling
            except InputError:
                time = math.inf
            assert time <= before
            before = time


def _on(question: GridInstance, count: int) -> GridInstance | None:
    return replace(question, servers=replace(question.servers, count=count))


def test_fixed_degrees_are_kept() -> None:
    question = replace(equal_question(4, 4), fixed=Fixed(pp=2, tp=1, dp=2, v=1))
    plan = plan_in_grid(question, Limits()).best
    assert plan is not None
    assert (plan.groups, plan.tensor, plan.pipelines, plan.turns) == (2, (1, 1), 2, 1)


def test_bug_whole_experts_are_divided_among_all_devices_of_a_stage() -> None:
    """With more parts than replicas the search counted no device for a part, and ended in an internal error."""
    words = {"bandwidth": "300GB/s", "memory": "1TB", "sequence": 512, "micro_batch": "1", "etp": "1"}
    plan = mtpp.train("mixtral-8x7b", "1x8", global_batch=32, fix="tp=2,pp=2,v=1,dp=2,ep=4", **words).answer
    assert isinstance(plan, GridPlan)
    assert (plan.expert, plan.shards(0)) == (4, (2, 1))


def test_runtimes_get_plans_that_they_can_run() -> None:
    question = replace(equal_question(4, 4, 8), zero=(1,))
    for runtime in ("megatron", "torchtitan"):
        plan = plan_in_grid(question, Limits(), runtime).best
        assert plan is not None
        assert len(set(plan.tensor)) == 1


def test_bug_degrees_too_large_beside_fixed_ones_are_left_out_for_a_runtime() -> None:
    chain = replace(with_ends(np.random.default_rng(5)), servers=Servers(1, 4, 4.0, 1.0), memory=math.inf)
    search = plan_in_grid(replace(chain, fixed=Fixed(pp=4)), Limits(), "megatron")
    assert search.best is not None
    assert search.best.tensor == (1,) * 4


def test_a_limit_of_no_time_still_gives_a_plan() -> None:
    search = plan_in_grid(equal_question(4, 4), Limits(Deadline.after(0.0)))
    assert search.best is not None


def test_after_the_deadline_bounds_are_even_shares_of_work() -> None:
    """What the deadline broke off is no bound; an interrupt counts as a deadline."""
    interrupted = Deadline()
    interrupted.interrupted.set()
    question = replace(equal_question(4, 4, 12), fixed=Fixed(v=1))
    setting, arrays = settings_of(question)[0]
    for deadline in (Deadline.after(0.0), interrupted):
        plan = plan_in_grid(question, Limits()).best
        assert plan is not None
        narrow, work = grid_bounds(plan, deadline)
        assert not narrow.optimal
        assert narrow.value == work.value < 47
        assert (
            solve(
                question,
                GridArrays.of(question, question.chains[0], question.chains[0].degrees),
                setting,
                np.inf,
                deadline,
            )
            is None
        )
        assert turns_bound(plan.instance, plan.time, deadline) is None
        assert fronts_of(arrays.menus, deadline) is None
    with pytest.raises(KeyboardInterrupt):
        plan_in_grid(equal_question(4, 4, 6), Limits(interrupted))


def test_bug_equal_layers_took_tables_of_all_pairs() -> None:
    question = equal_question(60, 4)
    found = settings_of(question)[0][1].fronts(Deadline())
    assert found is not None
    assert found.run.shape == (60, 61)
    assert len(found.first) < 4 * 60
    assert found.size.shape[2] == len(found.first)


def test_bug_shares_of_very_many_layers_were_all_tried() -> None:
    assert sum(1 for _ in _shares(4, 20)) == math.comb(23, 3)
    assert set(map(sum, _shares(3, 6))) == {6}
    assert sum(1 for _ in _shares(4, 1000)) == 6 * 1001
    ways = equal_question(4, 4).chains[0].layers[0].modes((1, 1, 1))
    modes = chosen_modes([ways] * 1000, 2, 5002)  # 2 (3 a + b) + 2 are all bytes if a + b = 1000 and some recompute
    assert modes is not None
    assert 750 - 1000 // 256 <= modes.count("none") <= 750  # of 1,001 points 256 are kept


def test_caps_of_many_kinds_are_no_more_than_what_layers_need() -> None:
    """Rounded down, so that bounds hold."""
    rng = np.random.default_rng(2)
    ways = equal_question(1, 1).chains[0].layers[0].configurations
    layers = []
    for i in range(50):
        other = [replace(one, working_bytes=one.working_bytes * float(rng.uniform(1, 9))) for one in ways]
        layers.append(ConfiguredLayer(str(i), str(i), tuple(other)))
    question = replace(equal_question(1, 1), chains=(ConfiguredChain(tuple(layers)),))
    menus = settings_of(question)[0][1].menus
    exact = np.array([[[way.working_bytes for way in one.modes((t, 1, 1))] for one in layers] for t in (1, 2)])
    assert menus.caps.shape[1] == 16
    assert (menus.working <= exact).all()
    assert all(np.isin(row, caps).all() for row, caps in zip(menus.working, menus.caps, strict=True))


def test_layers_move_past_the_stages_between() -> None:
    assert moves_of((0, 3, 5, 9), (0, 2)) == (0, 2, 4, 9)
    assert moves_of((0, 3, 5, 9), (2, 1)) == (0, 3, 6, 9)
    assert moves_of((0, 1, 5, 9), (0, 2)) is None
    assert dealt((0, 5, 9), 2) == (0, 3, 5, 7, 9)


def test_stages_of_different_degrees_change_places() -> None:
    assert exchanged(((0, 3, 5, 9), (2, 4, 1)), (0, 2)) == ((0, 4, 6, 9), (1, 4, 2))
    assert exchanged(((0, 3, 5, 9), (2, 2, 1)), (0, 1)) is None
    assert exchanged(((0, 3, 5, 7, 9), (2, 1)), (0, 1)) is None  # groups that run two stages each
