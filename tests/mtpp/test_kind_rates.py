"""Rates between kinds of devices: golden values, brute force, files, forgeries, and what refuses them."""

from __future__ import annotations

import functools
import itertools
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import assert_misuse, columns, mtpp
from hunt_kinds import faults_of
from hypothesis import given
from hypothesis import strategies as st
from kinds_cases import U1, chain, question
from kinds_oracle import draw_case
from strategies import instances, orders

from heuristics import Limits, search, slice_order
from heuristics.local_search.kinds import _speeds
from heuristics.orders.kinds import costs_of_kinds
from instances import ComputationGraph, Instance, Platform, load_graph
from instances.deadline import Deadline
from instances.devices import Device
from instances.json_files import json_text, parse_json, write_json
from instances.machines import Kind, Machines, devices_document, read_kinds
from instances.partitioning.constraints import NO_CONSTRAINTS, Constraints
from instances.partitioning.kind_paths import RatedSteps, best_rated_path, layers_in_a_row
from instances.partitioning.partition import Partition
from mtpp.certifying.certify import certify
from mtpp.problems.checking import certificate_document, verify
from mtpp_models import SolveOptions, solve
from mtpp_models.bounds.ideals.kinds import _paths, list_ideals

_ROW = chain([4, 2, 3, 1, 5, 3], [4, 2, 6, 2, 4])


def _devices(rates: list[list[float]], order: str = "free") -> Machines:
    return Machines([Kind("fast", 1, speed=2.0), Kind("slow", 2, speed=1.0)], order, rates)


@pytest.mark.parametrize(("rates", "optimum"), [([[4, 1], [4, 2]], 6.5), ([[4, 4], [1, 2]], 7.0)])
def test_golden_values_are_found_proved_and_verified(rates: list[list[float]], optimum: float) -> None:
    """By brute force; all rates as those of the fast device cost less."""
    result = certify(question(_ROW, _devices(rates)), SolveOptions(time_limit=5.0))
    assert result.cost == optimum
    assert result.proved
    verdict = verify(parse_json(json_text(certificate_document([result])), "golden.json"))
    assert verdict.faults == ()
    assert float(verdict.proved_ratio or 0) == pytest.approx(1.0, abs=1e-9)


def test_a_tensor_takes_the_rate_of_its_two_kinds() -> None:
    """Of one that both others read, the sender waits for the slower one; what overflows takes the bandwidth."""
    graph = chain([1, 1, 1], [6, 0]).__class__.from_edges([(0, 1), (0, 2)], [1, 1, 1], [6, 0, 0], param_bytes=[0, 9, 0])
    kinds = [Kind("a", 1, speed=1.0), Kind("b", 1, speed=1.0, memory=8.0, bandwidth=5.0)]
    own = Machines([*kinds, Kind("c", 1, speed=1.0)], rates=[[1, 9, 2], [1, 1, 1], [1, 1, 1]])
    partition = Partition(question(graph, own, activation_buffer=0.0), [0, 1, 2], kind=[0, 1, 2])  # type: ignore[arg-type]
    assert [list(row) for row in partition.costs] == [[0, 6 / 5, 3], [1, 1, 1], [0, 1 / 5, 0], [3, 0, 0]]
    assert partition.tensor_times.tolist()[0] == 3


@pytest.mark.parametrize("chained", [True, False])
def test_no_bound_is_above_brute_force(chained: bool) -> None:
    """A short hunt, also in a fixed order and with memory."""
    for i in range(4):
        case = draw_case(random.Random(f"rates {i}"), chain=chained, most=5 if chained else 4, rated=True)
        assert faults_of(case, seconds=0.05) == [], case


@pytest.mark.parametrize("order", ["free", "fixed"])
def test_bounds_know_the_kinds_before_and_behind_a_block(order: str) -> None:
    """The one device of the other kind receives at the slow rate, whatever lies between; at the fast one it costs 7."""
    graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2)], [3, 3, 3], [6, 6, 0])
    kinds = [Kind("a", 1, speed=1.0), Kind("b", 1, speed=1.0)]
    result = solve(question(graph, Machines(kinds, order, [[6, 1], [1, 6]])), "ideals")  # type: ignore[arg-type]
    assert result.bound is not None
    assert result.bound.value == pytest.approx(9.0)
    claims = certificate_document([result])
    assert verify(parse_json(json_text(claims), "golden.json")).faults == ()
    claims["bounds"][0]["value"] = 9.001
    assert verify(parse_json(json_text(claims), "golden.json")).faults != ()


def _least(instance: Instance, rates: list[list[float]]) -> float:
    """The least bottleneck with each block at the fastest rates of kinds before and behind it; slow and plain."""
    graph, counts, sequence = instance.graph, instance.machines.counts, instance.machines.sequence
    start, consumers = graph.tensors.start.tolist(), graph.tensors.consumers.tolist()
    readers = [set(consumers[a:b]) for a, b in itertools.pairwise(start)]
    tensors = list(zip(graph.tensors.producer.tolist(), graph.tensors.bytes.tolist(), readers, strict=True))
    ideals = [
        ideal
        for size in range(graph.n + 1)
        for ideal in map(frozenset, itertools.combinations(range(graph.n), size))
        if all(u in ideal or v not in ideal for u, v in graph.edges.tolist())
    ]

    def cost(block: frozenset[int], t: int, before: set[int], behind: set[int]) -> float:
        received = sum(size for v, size, read in tensors if v not in block and read & block)
        sent = sum(size for v, size, read in tensors if v in block and read - block)
        into = received / max(rates[p][t] for p in before) if received else 0.0
        out = math.inf if sent and not behind else sent / max(rates[t][r] for r in behind) if sent else 0.0
        return float(instance.work[t, sorted(block)].sum()) + into + out

    @functools.cache
    def least(ideal: frozenset[int], used: tuple[int, ...]) -> float:
        if len(ideal) == graph.n:
            return 0.0
        steps = []
        for d in range(sum(used), len(sequence)) if instance.machines.is_fixed else [None]:
            kinds = [t for t, count in enumerate(counts) if used[t] < count] if d is None else [sequence[d]]
            for t in kinds:
                passed = used if d is None else tuple(sequence[:d].count(s) for s in range(len(counts)))
                after = tuple(number + (s == t) for s, number in enumerate(passed))
                before = {s for s, number in enumerate(passed) if number}
                behind = {s for s, number in enumerate(after) if number < counts[s]}
                steps += [(larger, t, before, behind, after) for larger in ideals if ideal < larger]
        return min(
            (max(cost(larger - ideal, *step), least(larger, after)) for larger, *step, after in steps),
            default=math.inf,
        )

    return least(frozenset(), (0,) * len(counts))


@pytest.mark.parametrize("order", ["free", "fixed"])
def test_bounds_at_rates_are_those_of_a_slow_program(order: str) -> None:
    """Several devices of some kinds, some of which idle; the fastest rate of each kind says less."""
    higher = 0
    for seed in range(6):
        rng = random.Random(seed)
        edges = [(u, v) for u in range(5) for v in range(u + 1, 5) if v == u + 1 or rng.random() < 0.4]
        sizes = [float(rng.randint(1, 9)) for _ in range(5)]
        graph = ComputationGraph.from_edges(edges, [float(rng.randint(1, 9)) for _ in range(5)], sizes)
        kinds = [Kind(f"{t}", t + 1, speed=float(rng.randint(1, 3))) for t in range(3)]
        rates = [[8.0 if s == t else float(rng.randint(1, 4)) for t in range(3)] for s in range(3)]
        instance = question(graph, Machines(kinds, order, rates))  # type: ignore[arg-type]
        listed = list_ideals(instance, 1000, Deadline())
        assert listed is not None
        _, path = _paths(instance, listed)
        assert path is not None
        assert path.bottleneck == pytest.approx(_least(instance, rates), rel=1e-9)
        higher += path.bottleneck > _least(instance, [[8.0] * 3] * 3) * 1.01
    assert higher >= 2


@pytest.mark.parametrize("order", ["free", "fixed"])
def test_bounds_know_the_kind_of_the_block_before(order: str) -> None:
    """What passes is made by the last node of all before it, though either kind is used before and left behind."""
    edges = [*itertools.pairwise(range(7)), (0, 2), (3, 5)]
    graph = ComputationGraph.from_edges(edges, [2, 1, 6, 4, 3, 2, 2], [8, 8, 3, 8, 5, 8, 5])
    kinds = [Kind("a", 2, speed=1.0), Kind("b", 2, speed=1.0)]
    instance = question(graph, Machines(kinds, order, [[9, 1], [1, 9]]))  # type: ignore[arg-type]
    listed = list_ideals(instance, 1000, Deadline())
    assert listed is not None
    paired, by_state = (path.bottleneck if path else math.inf for path in _paths(instance, listed))
    result = solve(instance, "ideals")
    assert result.proved
    assert result.cost == pytest.approx(paired)
    assert paired > by_state * 1.01
    claims = certificate_document([result])
    assert verify(parse_json(json_text(claims), "golden.json")).faults == ()
    claims["bounds"][0]["value"] *= 1.001
    assert verify(parse_json(json_text(claims), "golden.json")).faults != ()


def test_bug_many_numbers_of_devices_took_all_memory() -> None:
    """Truths of all states were written down before they were counted."""
    kinds = [Kind(f"{t}", 700, speed=1.0 + t) for t in range(3)]
    graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2)], [3, 3, 3], [6, 6, 0])
    instance = question(graph, Machines(kinds, "free", [[6, 1, 2], [1, 6, 2], [2, 2, 6]]))
    claims = certificate_document([solve(instance, "simple")])
    claims["bounds"][0] |= {"method": "ideals", "value": 2.0, "parameters": {}, "recheck": "ideals"}
    verdict = verify(parse_json(json_text(claims), "forged.json"))
    assert [check.how for check in verdict.checks] == [
        "not re-checked: there are 344472101 numbers of devices for 4 ideals"
    ]


def test_one_kind_and_equal_rates() -> None:
    """One kind is the question of devices that are alike; without rates nothing changes."""
    one = question(_ROW, Machines([Kind("a", 3, speed=1.0)], rates=[[2.0]]))
    assert type(one) is Instance
    assert one.key == Instance(_ROW, Platform(3, 2.0)).key
    same = [question(U1, Machines(_devices([[3, 3], [3, 3]]).kinds, rates=r)) for r in (None, [[3, 3], [3, 3]])]
    assert same[0].key != same[1].key
    costs = [certify(asked, SolveOptions(time_limit=2.0)).cost for asked in (same[1], question(U1, _bandwidth(3.0)))]
    assert costs[0] == costs[1]


def _bandwidth(rate: float) -> Machines:
    return Machines([Kind("fast", 1, speed=2.0, bandwidth=rate), Kind("slow", 2, speed=1.0, bandwidth=rate)])


def test_graphs_are_searched_at_their_rates() -> None:
    """Two sites with a slow link between: a layout of branches that stays inside is found."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 2), (2, 4)]
    graph = chain([1], []).__class__.from_edges(edges, [4, 4, 1, 4, 4], [3, 3, 0.01, 3, 0])
    kinds = [Kind("here", 2, speed=1.0), Kind("there", 2, speed=1.0)]
    instance = question(graph, Machines(kinds, rates=[[10, 0.01], [0.01, 10]]))
    found = search(instance, "portfolio", np.random.default_rng(0), Limits(evaluations=4000)).partition
    assert found is not None
    assert found.bottleneck < 9
    assert solve(instance, "ideals", SolveOptions(time_limit=2.0), start=found).bound is not None


def test_bug_kinds_far_away_are_left_out_where_they_slow_all() -> None:
    """Walks at the fastest rates missed the cut over the near devices."""
    limits = Limits(evaluations=20_000)
    apart, alone = (
        search(instance, "portfolio", np.random.default_rng(0), limits).cost for instance in _near_and_far("gpt2", 1e9)
    )
    assert apart <= 1.02 * alone


def _near_and_far(graph: str, rate: float, constraints: Constraints = NO_CONSTRAINTS) -> list[Instance]:
    """Four devices of each of two kinds, with a rate between these, and the near ones alone."""
    roofs = {"near": Device(312e12, 2e12), "far": Device(121e12, 3e11)}
    graphs = [load_graph(graph, device=roof) for roof in roofs.values()]
    near, far = (Kind(name, 4, roofline=roof, bandwidth=25e9) for name, roof in roofs.items())
    rates = [[math.inf, rate], [rate, math.inf]]
    works = [each.work for each in graphs]
    return [
        Instance(graphs[0], Machines([near, far], "free", rates), constraints=constraints, works=works),
        Instance(graphs[0], Platform(4, 25e9), constraints=constraints),
    ]


def test_windows_do_not_keep_kinds_that_slow_all() -> None:
    """Slices within windows are priced at the fastest rates, also of each kind alone."""
    windows = Constraints(windows=((0, 0, 1),))
    limits = Limits(evaluations=20_000)
    apart, alone = (
        search(instance, "portfolio", np.random.default_rng(0), limits).cost
        for instance in _near_and_far("gpt2", 1e9, windows)
    )
    assert apart <= 1.02 * alone


def test_bug_orders_were_not_cut_at_the_rates_of_pairs() -> None:
    """Eight devices with half the rate between unlike ones were no better than the four fast ones."""
    graph, limits = load_graph("bert-base"), Limits(evaluations=20_000)
    kinds = [Kind("fast", 4, speed=1.0), Kind("slow", 4, speed=0.5)]
    costs = [
        search(question(graph, Machines(kinds, rates=rates)), "portfolio", np.random.default_rng(0), limits).cost
        for rates in ([[12e9, 6e9], [6e9, 12e9]], [[12e9, 12e9], [12e9, 12e9]])
    ]
    assert costs[0] <= 1.06 * costs[1]


@given(st.data())
def test_equal_rates_cut_an_order_as_one_bandwidth_does(data: st.DataObject) -> None:
    graph = data.draw(instances(max_nodes=7)).graph
    order, kinds = data.draw(orders(graph)), [Kind("a", 2, speed=2.0), Kind("b", 1, speed=1.0)]
    rated = question(graph, Machines(kinds, rates=[[3.0, 3.0], [3.0, 3.0]]))
    expected = slice_order(question(graph, Machines(kinds, bandwidth=3.0)), order)
    assert slice_order(rated, order).bottleneck == pytest.approx(expected.bottleneck, rel=1e-9)


@pytest.mark.parametrize("counts", [(2, 2), (3,) * 5, (6,) * 7])
def test_an_order_is_cut_no_worse_than_at_the_fastest_rates(counts: tuple[int, ...]) -> None:
    """Also of kinds for which the program with rates for pairs looks at some places, or has too many states."""
    rng, n = np.random.default_rng(0), 300 if len(counts) < 7 else 60
    skips = {(i, i + int(rng.integers(2, 20))) for i in range(0, n - 20, 3)}
    edges = sorted({(i, i + 1) for i in range(n - 1)} | skips)
    graph = ComputationGraph.from_edges(edges, rng.random(n) + 0.5, rng.integers(1, 50, n).astype(float))
    kinds = [Kind(f"k{t}", count, speed=1.0 + t / 8) for t, count in enumerate(counts)]
    rates = [[50.0 if s == t else 45.0 for t in range(len(kinds))] for s in range(len(kinds))]
    rated = question(graph, Machines(kinds, rates=rates))
    order = graph.topological_order
    fastest = slice_order(question(graph, Machines(kinds, bandwidth=50.0)), order)
    assert slice_order(rated, order).bottleneck <= fastest.under(rated).bottleneck


def test_long_rows_of_layers_are_cut_at_their_best() -> None:
    """All nodes are places to cut at, as long as the states of the program can be looked at."""
    rng = np.random.default_rng(0)
    row = chain(rng.integers(1, 9, 1000).tolist(), rng.integers(1, 50, 999).tolist())
    devices, sizes = _devices([[4, 1], [4, 2]]), layers_in_a_row(row)
    rated = question(row, devices)
    assert sizes is not None
    assert rated.rates is not None
    steps = RatedSteps.of_row(costs_of_kinds(rated, row.topological_order, still=True), sizes, rated.rates)
    path = best_rated_path(steps, devices, 3)
    assert path is not None
    assert slice_order(rated, row.topological_order).bottleneck == pytest.approx(path.bottleneck)


@pytest.mark.parametrize("fastest", [math.inf, 4.0])
def test_walks_price_transfers_at_the_rates_of_pairs(fastest: float) -> None:
    """With speeds from a partition the transfers of its blocks take what they cost."""
    graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)], [1, 2, 3, 4], [6, 5, 4, 0])
    devices = Machines([Kind("a", 2), Kind("b", 2)], rates=[[fastest, 2.0], [1.0, 4.0]])
    partition = Partition(question(graph, devices), [0, 1, 1, 2], kind=[0, 0, 1, 1])
    rates = partition.instance.rates
    assert rates is not None
    moved = np.array([6.0, 6 + 5 + 4, 5 + 4, 0])
    speeds = _speeds(partition, rates, moved, np.array([fastest, 4.0]))
    time = partition.costs.receive + partition.costs.send
    assert (moved / speeds[partition.kind, np.arange(4)]).tolist() == pytest.approx(time.tolist())


def test_forgeries_are_found() -> None:
    """Of rates, of the bound and of the bottleneck."""
    result = certify(question(_ROW, _devices([[4, 1], [4, 2]])), SolveOptions(time_limit=5.0))
    for path, value in (
        (["question", "rates", 1, 1], 1.0),
        (["cost"], 6.4),
        (["bounds", -1, "value"], 6.51),
        (["answer", "kind"], ["slow", "slow", "fast"]),
    ):
        document: Any = json.loads(json_text(certificate_document([result])))
        place = document
        for step in path[:-1]:
            place = place[step]
        assert place[path[-1]] != value
        place[path[-1]] = value
        assert verify(parse_json(json.dumps(document), "forged.json")).faults, path


def test_files_and_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds with rates, tables of devices, and a rate behind a text."""
    monkeypatch.chdir(tmp_path)
    own = _devices([[4, math.inf], [4, 2]])
    write_json(tmp_path / "own.json", {"format": "mtpp-devices/2", **devices_document(own)})
    assert read_kinds("own.json") == own
    write_json(
        tmp_path / "table.json",
        {"format": "mtpp-devices/1", "speeds": [1, 1, 2], "rates": [[None, 8, 3], [8, None, 3], [3, 3, None]]},
    )
    read = read_kinds("table.json")
    assert (read.counts, read.rates) == ((2, 1), ((8.0, 3.0), (3.0, math.inf)))
    words = "--level layer --dim phase=prefill --time-limit 5 --json --no-log"
    costs = []
    for devices in ("1xA100,2xL4@100MB/s", "1xA100,2xL4"):
        assert mtpp(f"certify llama-3-8b --devices {devices} {words.replace(' --json --no-log', '')} --out c.json") == 0
        assert columns(capsys.readouterr().out)["status"] == "optimal"
        costs.append(json.loads((tmp_path / "c.json").read_text())["cost"])
    assert costs[0] > costs[1]
    write_json(tmp_path / "bad.json", {"format": "mtpp-devices/2", **devices_document(own), "rates": [[1, 0], [1, 1]]})
    assert_misuse(
        capsys,
        {
            "partition bert-base --devices bad.json": "rates[0][1] is 0.0; it must be positive",
            "partition bert-base --devices 1xA100,2xL4@fast": "--devices",
        },
    )
