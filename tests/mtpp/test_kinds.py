"""Partitions over kinds of devices: golden values, brute force, and what is special about the search and the bounds."""

from __future__ import annotations

import math
import random
import warnings
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hunt_kinds import faults_of, instance_of
from kinds_cases import GOLDEN, U1, chain, devices, question
from kinds_oracle import draw_case, optimum_of

import mtpp
from heuristics import Limits, search, slice_order
from instances import Bound, ComputationGraph, InputError, Instance, Platform, Result
from instances.errors import InputWarning
from instances.json_files import json_text, parse_json
from instances.machines import Kind, Machines
from instances.partitioning.partition import Partition
from mtpp.certifying.certify import certify, methods_for
from mtpp.certifying.least_k import find_least
from mtpp.problems.checking import certificate_document, verify
from mtpp_models import SolveOptions, solve


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_values_are_found_and_proved(name: str) -> None:
    """By brute force: the optimum, its proof, and the check of the proof."""
    instance, optimum = GOLDEN[name]
    result = certify(instance, SolveOptions(time_limit=10.0))
    assert result.cost == pytest.approx(optimum, abs=1e-12)
    assert result.proved


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_values_need_neither_reductions_nor_a_start(name: str) -> None:
    """Merging is lossless, and ideals begin with any blocks."""
    instance, optimum = GOLDEN[name]
    result = solve(instance, "ideals", reduce=False)
    assert result.cost == pytest.approx(optimum, abs=1e-12)
    assert result.proved


def test_golden_bounds() -> None:
    """The quick bounds of the graph, as by hand."""
    instance = GOLDEN["graph"][0]
    values = {
        name: solve(instance, name, SolveOptions(time_limit=5.0)).bound for name in ("simple", "pinned", "priced")
    }
    assert values["simple"] is not None
    assert values["pinned"] is not None
    assert values["priced"] is not None
    assert values["simple"].value == pytest.approx(5.5)
    assert values["pinned"].value == pytest.approx(4.5)
    assert values["priced"].value == pytest.approx(8.0, rel=2e-3)


def test_costs_are_those_of_the_kind_of_each_block() -> None:
    """Slow [0], slow [1], fast [2..5]: each moves its bytes over its own bandwidth."""
    instance = GOLDEN["two kinds"][0]
    partition = Partition(instance, [0, 1, 2, 2, 2, 2], kind=[1, 1, 0])
    assert partition.block_costs.tolist() == [6, 5, 6.25]
    assert [list(row) for row in partition.costs] == [[0, 2, 0.25], [4, 2, 6], [0, 0, 0], [2, 1, 0]]


@pytest.mark.parametrize("chained", [True, False])
def test_no_bound_is_above_brute_force(chained: bool) -> None:
    """A short hunt; `python tests/helpers/hunt_kinds.py` is the long one."""
    for i in range(5):
        case = draw_case(random.Random(f"tests {i}"), chain=chained, most=6)
        assert faults_of(case, seconds=0.3) == [], case


def test_one_kind_is_the_question_of_equal_devices() -> None:
    """The same digits, through both doors: instances, keys, answers."""
    for seed in range(20):
        rng = random.Random(seed)
        work, sizes = ([float(rng.randint(1, 9)) for _ in range(n)] for n in (6, 5))
        graph, k, rate = chain(work, sizes), rng.randint(1, 4), rng.choice([0.5, 1.0, 3.0])
        one = question(graph, devices([(1.0, rate, k)]))
        plain = Instance(graph, Platform(k, rate))
        assert type(one) is Instance
        assert one.key == plain.key
        found = [
            search(asked, "portfolio", np.random.default_rng(1), Limits(evaluations=500)) for asked in (one, plain)
        ]
        assert found[0].partition.block.tolist() == found[1].partition.block.tolist()  # type: ignore[union-attr]


def test_a_fixed_order_keeps_devices_in_their_places() -> None:
    """The fast device comes first, whatever that costs; it may idle."""
    own = devices([(2, 4, 1), (1, 1, 2)], order="fixed")
    instance = question(U1, own)
    result = certify(instance, SolveOptions(time_limit=5.0))
    assert result.proved
    used = [t for t in result.partition.kind.tolist() if t >= 0]
    assert used == sorted(used)
    assert result.cost == pytest.approx(solve(instance, "ideals").cost)
    with pytest.raises(InputError, match="leave k out"):
        question(U1, own, k=2)


def test_fewer_devices_than_there_are() -> None:
    """With k = 1 the fast one has all, and the others idle."""
    instance = question(U1, devices([(2, 4, 1), (1, 1, 2)]), k=1)
    assert certify(instance, SolveOptions(time_limit=5.0)).cost == 9


def test_the_fewest_devices_are_those_of_brute_force() -> None:
    """For a bottleneck between those of one device and of all; fewer are excluded."""
    tried = 0
    for i in range(12):
        case = replace(draw_case(random.Random(f"auto {i}"), chain=True, most=5), fixed=False)
        case = replace(case, k=sum(case.counts))
        asked, best = instance_of(case), optimum_of(case)
        if asked.is_alike or best is None:
            continue
        enough = float(best) * 1.3
        optima = {k: optimum_of(replace(case, k=k)) for k in range(1, case.k + 1)}
        good = [k for k, cost in optima.items() if cost is not None and cost <= enough]
        least = find_least(asked, enough, SolveOptions(time_limit=3.0))
        assert (least.k, least.open) == (min(good), [])
        tried += 1
    assert tried > 3


def test_too_many_states_are_searched() -> None:
    """Thirty devices that all differ: 2^30 numbers of devices, and an answer all the same."""
    own = devices([(1 + i / 30, 10.0, 1) for i in range(30)])
    result = search(question(chain([1.0] * 40, [0.1] * 39), own), "portfolio", np.random.default_rng(0))
    assert result.partition is not None
    assert result.partition.bottleneck <= 2.2


def test_the_exact_program_has_a_turn_where_it_is_small() -> None:
    """Between searches and prices, and its claim names the solver."""
    instance = GOLDEN["graph"][0]
    assert [method.name for method in methods_for(instance).turns] == ["portfolio", "exact", "priced"]
    large = question(chain([1.0] * 400, [1.0] * 399), devices([(2, 4, 1), (1, 1, 2)]))
    assert [method.name for method in methods_for(large).turns] == ["portfolio", "priced"]
    document = certificate_document([solve(instance, "exact", SolveOptions(time_limit=10.0))])
    checked = verify(parse_json(json_text(document), "exact.json"))
    assert checked.faults == ()
    assert checked.checks[0].how.startswith("trusted from highs")


def test_methods_for_equal_devices_refuse() -> None:
    """Each in one line, and none answers another question."""
    instance = GOLDEN["graph"][0]
    with pytest.raises(InputError, match="kahn is for devices that are all alike"):
        search(instance, "kahn", np.random.default_rng(0))
    with pytest.raises(InputError, match="There is no model for several kinds of devices 'coarse-2'"):
        solve(instance, "coarse-2")
    with pytest.raises(InputError, match="this method is for devices that are all alike"):
        _ = instance.tensor_time


def _on_first_devices(instance: Instance, rng: np.random.Generator, limits: Limits) -> Partition:
    """The heaviest node alone, the kinds as they come."""
    return Partition(instance, [0, 0, 1], kind=instance.machines.sequence[:2])


def test_a_function_of_the_caller_searches_over_kinds() -> None:
    """Its partition counts with its kinds."""
    asked = question(chain([2, 3, 4], [4, 1]), devices([(2, 1, 1), (1, 1, 1)]))
    assert search(asked, _on_first_devices, np.random.default_rng(0)).cost == 5


def test_bug_runs_over_kinds_are_told_apart_and_start_bounds(tmp_path: Path) -> None:
    """Questions with the same graph had the same key, and bounds failed, as runs of searches said no kinds."""
    slow, fast = (question(chain([2, 3, 4], [4, 1]), devices([(speed, 1, 1), (1, 1, 1)])) for speed in (2, 8))
    methods = ["portfolio", "kahn", "ideals", "exact", _on_first_devices]
    for asked, optimum in ((slow, 4.5), (fast, 1.125)):
        frame = mtpp.compare(asked, 2, methods=methods, file=tmp_path / "runs.jsonl").set_index("method")
        assert list(frame["error"].isna()) == [True, False, True, True, True]
        assert frame["error"]["kahn"] == "OneKindError: kahn is for devices that are all alike; use portfolio."
        assert list(frame["bottleneck"][["portfolio", "ideals", "exact"]]) == [optimum] * 3
        assert list(frame["bound"][["ideals", "exact"]]) == pytest.approx([optimum] * 2, rel=1e-5)
        assert frame["bottleneck"]["_on_first_devices"] == 5


def test_bug_a_walk_ends_where_nothing_takes_time() -> None:
    """Each node takes no time on some kind, where the peak of one does not fit; walks divided by the cost of that."""
    graph = ComputationGraph.from_edges([], work=[6, 0], output_bytes=[2, 2], param_bytes=[2, 4])
    own = devices([(1, math.inf, 2), (2, 3, 2), (3, 0.5, 2)], [math.inf, 3, 3])
    instance = Instance(graph, own, works=[[6, 0], [0, 3], [5, 0]], k=5, fit=True)
    found = search(instance, "portfolio", np.random.default_rng(0), Limits(evaluations=2_000))
    assert found.cost == 6


def test_the_search_does_not_depend_on_the_unit() -> None:
    """Three blocks on five devices, so that walks exchange the kind of a block for that of a free device."""
    rng = np.random.default_rng(4)
    work, sizes = rng.uniform(1, 9, 14), rng.uniform(1, 3, 14)
    edges = [(i, j) for j in range(14) for i in range(j) if rng.random() < 0.2]

    def found(unit: float) -> tuple[float, list[int]]:
        graph = ComputationGraph.from_edges(edges, work=(unit * work).tolist(), output_bytes=(unit * sizes).tolist())
        instance = question(graph, devices([(1, 1, 3), (1.5, 1, 1), (2, 0.5, 1)]), k=3)
        result = search(instance, "portfolio", np.random.default_rng(0), Limits(evaluations=20_000))
        assert result.partition is not None
        assert result.cost is not None
        return result.cost / unit, result.partition.block.tolist()

    assert found(2.0**-30) == found(1.0)


def answered(instance: Instance) -> Result:
    """Its answer, or that there is none, which the checker proves again."""
    result = certify(instance, SolveOptions(time_limit=5.0))
    verdict = verify(parse_json(json_text(certificate_document(result.parts)), "drawn.json"))
    assert verdict.faults == ()
    assert not verdict.rests_on_trust
    assert (verdict.no_answer is None) == (result.impossible is None)
    return result


@pytest.mark.parametrize(("memory", "cost"), [(18014398509482036.0, 1.0), (18014398509482032.0, None)])
def test_bug_a_node_that_fits_to_the_last_byte_was_called_impossible(memory: float, cost: float | None) -> None:
    """Of 22 and two outputs beyond 2^52 floats make a sum that is 4 bytes too large."""
    sizes = [[9007199254741006.0, 9007199254741008.0]]
    graph = ComputationGraph.from_edges([], work=[1], output_bytes=sizes, param_bytes=[22])
    kinds = [Kind("x", 1, speed=1, memory=memory), Kind("y", 1, speed=2, memory=10)]
    over_kinds = answered(Instance(graph, Machines(kinds, bandwidth=1.0), fit=True))
    alike = answered(Instance(graph, Platform(2, 1.0, memory, fit=True)))
    assert over_kinds.cost == alike.cost == cost


def test_bug_a_memory_near_zero_ended_the_question() -> None:
    """The time of what does not fit was divided by a bandwidth of 0."""
    graph = ComputationGraph.from_edges([(0, 1)], work=[1, 1], param_bytes=[1, 1])
    kinds = [Kind("x", 1, speed=1, memory=5e-324), Kind("y", 1, speed=2, memory=10)]
    assert answered(Instance(graph, Machines(kinds, bandwidth=1.0), fit=True)).cost == 1.0


@pytest.mark.parametrize("words", [{"fit": True, "activation_buffer": 0.0}, {"k": 1}, {"together": [[0, 2]]}, {}])
def test_nothing_fits_over_kinds_is_proved_again(words: dict[str, Any]) -> None:
    """By the room of two devices for three layers, or as each kind cannot run an end of the row."""
    graph = chain([1, 1, 1], [0, 0], param_bytes=[10, 10, 10])
    kinds = [Kind("x", 1, speed=1, memory=19), Kind("y", 1, speed=2, memory=12)]
    works = [[math.inf, 1, 1], [1, math.inf, math.inf]] if not words.get("fit") else None
    order = "free" if words else "fixed"
    instance = Instance(graph, Machines(kinds, order, bandwidth=1.0), works=works, **words)
    assert answered(instance).impossible is not None


def test_bug_a_true_bound_was_called_false_by_its_rounding() -> None:
    """A sum of floats is above 167/6."""
    instance = question(chain([27.5], [], param_bytes=[1]), devices([(1, 3, 1), (0.5, 3, 1)], [0, 0]))
    optimum, value = Fraction(167, 6), 27.833333333333336
    assert value > optimum
    result = Result("ideals", instance, bound=Bound(value, "ideals"))
    verdict = verify(parse_json(json_text(certificate_document([result])), "drawn.json"))
    assert verdict.faults == ()
    assert verdict.proved_bound == pytest.approx(optimum)


@pytest.mark.parametrize("words", [{}, {"fit": True}])
def test_bug_one_kind_with_a_rate_below_its_bandwidth_is_read_again(words: dict[str, Any]) -> None:
    """Nothing overflows, so that the bandwidth has no say; the file stated the rate for it, and was refused."""
    kinds = [Kind("x", 2, speed=1, bandwidth=3.0, memory=9 if words else math.inf)]
    instance = Instance(chain([5, 4], [2]), Machines(kinds, rates=[[1.0]]), **words)
    assert answered(instance).cost == 7.0


def test_bug_a_true_cut_was_called_false_where_bytes_are_large_beside_times() -> None:
    """Its overflow has too few digits beside the goal; what the node holds alone is enough."""
    graph = ComputationGraph.from_edges([(0, 1)], [1, 5], [9007199254740992.0, 4.5e16], [1.8e16, 9e15])
    kinds = [Kind("x", 1, speed=1, bandwidth=1), Kind("y", 2, speed=2, memory=3.6e16, bandwidth=0.5)]
    instance = Instance(graph, Machines(kinds), k=3)
    start = Partition(instance, [0, 0], kind=[0, -1, -1])
    result = solve(instance, "pinned", SolveOptions(time_limit=5.0), start=start)
    assert result.bound is not None
    assert result.bound.value == pytest.approx(6.0)
    verdict = verify(parse_json(json_text(certificate_document([result])), "drawn.json"))
    assert verdict.faults == ()
    assert not verdict.rests_on_trust


def test_bug_small_memories_beside_long_times_ended_searches() -> None:
    """What does not fit took its bytes over a bandwidth that was rounded to 0."""
    graph = ComputationGraph.from_edges([(0, 1)], [1, 1], [4e-150, 5e-150], [4e-150, 0])
    kinds = [Kind("x", 2, speed=1, memory=1.3e-149), Kind("y", 1, speed=2, memory=6e-150)]
    works = [[2e254, 2e254], [1e254, 3e254]]
    assert answered(Instance(graph, Machines(kinds, bandwidth=1e300), works=works, fit=True)).cost is not None


@pytest.mark.parametrize("kind", [[-1, -1, -1], [0, -1, 1], [2, 0, 1]])
def test_bug_a_block_with_nodes_and_no_kind_was_on_the_last_one(kind: list[int]) -> None:
    """However many there are of that."""
    with pytest.raises(InputError, match="on a kind that there is not"):
        Partition(GOLDEN["two kinds"][0], [0, 0, 1, 1, 2, 2], kind=kind)


def test_a_bandwidth_is_warned_of_where_all_kinds_have_their_own() -> None:
    """Other rates were asked for, and the answer was that of the rates of the kinds, in silence."""
    with pytest.warns(InputWarning, match="^bandwidth changes nothing: T4 has its own"):
        result = mtpp.partition("gpt2", devices="2xT4", bandwidth="1GB/s", time_limit=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mtpp.partition("gpt2", devices="2xT4", time_limit=0.1).instance.platform == result.instance.platform
        own = Machines([Kind("T4", 1, bandwidth=1e9), Kind("L4", 1)])
        mtpp.partition("gpt2", devices=own, bandwidth="1GB/s", time_limit=0.1)


def test_methods_are_compared_over_kinds_by_a_word() -> None:
    """As the instances themselves."""
    asked, optimum = GOLDEN["two kinds"]
    methods = ["portfolio", "simple", "kahn", slices]
    frame = mtpp.compare(asked.graph, 3, methods, devices=asked.machines)
    same = mtpp.compare([asked], 3, methods)
    assert frame["bottleneck"].tolist()[::3] == same["bottleneck"].tolist()[::3] == [optimum, optimum]
    assert frame["bound"].tolist()[1] == same["bound"].tolist()[1] > 0
    assert "alike" in frame["error"][2]


def slices(asked: Instance, rng: np.random.Generator, limits: Limits) -> Partition:
    return slice_order(asked, asked.graph.topological_order)
