"""Chains, clusters, plans and schedules: what they cost, and what they refuse."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_oracles import random_instance

from heuristics.planning.execution import execute, pe
from heuristics.planning.spp import plans_by_stages
from instances import ComputationGraph, InputError, SharedParameter
from instances.devices import NetworkCards
from instances.planning import Cluster, LayerChain, Plan, Timeline, TrainingInstance
from instances.planning.bounds import speeds_along
from instances.planning.chains import bert_chain, collapse, simulation
from instances.planning.operations import BACKWARD, FORWARD, Moments, PassLists


def two_stages(**options: object) -> Plan:
    """Stage 0 on devices 0 and 1, stage 1 on device 2; links of 2, 1 and 4 bytes/s."""
    bandwidth = [[0, 2, 1], [2, 0, 4], [1, 4, 0]]
    chain = LayerChain([1, 2, 3], [2, 4, 6], [9, 8], [7, 4], [5, 3, 1])
    instance = TrainingInstance(chain, Cluster(bandwidth), 4, **options)  # type: ignore[arg-type]
    return Plan(instance, (0, 2, 3), ((0, 1), (2,)))


def test_costs_by_hand() -> None:
    """Equation (1), the transfer times and W of a plan with one replicated stage."""
    plan = two_stages()
    assert plan.forward_time.tolist() == [1.5, 3]
    assert plan.backward_time.tolist() == [3, 6]
    assert plan.allreduce_time.tolist() == [2 * 1 * 8 / (2 * 2), 0]
    assert plan.forward_transfer_time.tolist() == [8 / (2 * 1 * 1)]
    assert plan.backward_transfer_time.tolist() == [4 / (2 * 1 * 1)]
    assert plan.workload == max(4 * 4.5 + 4, 4 * 9, 4 * 6)
    # Stage 1 is reached after 1.5 + 4, busy for 36, and 2 + 3 follow; W ignores both.
    assert plan.lower_bound == plan.makespan_bound == 5.5 + 36 + 5
    assert plan.cycle_time == 9


def test_transfers_load_the_cards_of_servers_with_what_crosses_the_cut() -> None:
    """Seconds on the cards out of each server and into each; the activations and gradients of the cut's last layer."""
    chain = LayerChain([1] * 4, [1] * 4, [4, 3, 2], [5, 8, 7], [0, 0, 0, 6])
    cluster = Cluster.of_servers([1, 2], 9.0, 2.0)
    plan = Plan(TrainingInstance(chain, cluster, 2, network=NetworkCards()), (0, 2, 4), ((0,), (1, 2)))
    forward, backward, first, second = plan.loads.tolist()
    assert forward == [1.5, 0, 0, 1.5]
    assert backward == [0, 4, 4, 0]
    assert first == second == [0, 0, 0, 0]
    assert (plan.forward_transfer_time.tolist(), plan.backward_transfer_time.tolist()) == ([1.5], [4])


def test_slow_directions_count() -> None:
    """An AllReduce takes the slower direction of each link, a transfer the direction it goes."""
    chain = LayerChain([1, 1], [1, 1], [12], [12], [6, 6])
    instance = TrainingInstance(chain, Cluster([[0, 3], [2, 0]]), 1)
    assert Plan(instance, (0, 2), ((1, 0),)).allreduce_time.tolist() == [2 * 12 / (2 * 2)]
    plan = Plan(instance, (0, 1, 2), ((0,), (1,)))
    assert (plan.forward_transfer_time.tolist(), plan.backward_transfer_time.tolist()) == ([4], [6])


def test_missing_links_matter_only_where_something_is_sent() -> None:
    """No bytes, no link needed; else the plan is refused and the planner avoids it."""
    cluster = Cluster([[0, 0], [0, 0]])
    silent = TrainingInstance(LayerChain([1, 1], [1, 1], [0], [0], [0, 0]), cluster, 2)
    assert Plan(silent, (0, 1, 2), ((0,), (1,))).workload == 4
    loud = TrainingInstance(LayerChain([1, 1], [1, 1], [1], [0], [0, 3]), cluster, 2)
    with pytest.raises(InputError, match="no link where stage 0 has to send"):
        Plan(loud, (0, 1, 2), ((0,), (1,)))
    with pytest.raises(InputError, match="no link where the devices of stage 0"):
        Plan(loud, (0, 2), ((0, 1),))
    assert plans_by_stages(loud, range(2), pe) == [None, None]


@pytest.mark.parametrize(
    ("cuts", "devices", "complaint"),
    [
        ((0, 2), ((0,),), "must rise from 0 to 3"),
        ((0, 2, 2, 3), ((0,), (1,), (2,)), "must rise from 0 to 3"),
        ((0, 1, 3), ((0,),), "2 stages"),
        ((0, 1, 3), ((0,), ()), "2 stages"),
        ((0, 1, 3), ((0,), (3,)), "Device 3 does not exist"),
        ((0, 1, 3), ((0, 1), (1,)), "Device 1 is used twice"),
        ((0, 1.5, 3), ((0,), (1,)), "whole numbers"),
    ],
)
def test_impossible_plans_are_refused(
    cuts: tuple[int, ...], devices: tuple[tuple[int, ...], ...], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        Plan(two_stages().instance, cuts, devices)


def test_memory_by_hand() -> None:
    """Stage 0 holds 4 copies of 8 bytes and, of each microbatch, the 9 bytes that layer 1 receives, in two halves."""
    plan = two_stages()
    assert plan.memory_needed([3, 1]).tolist() == [4 * 8 + 3 * 9 / 2, 4 * 1 + 8]
    schedule = execute(plan, pe(2, 4))
    assert [peak.in_flight for peak in schedule.peaks] == [4, 1]
    needed = 4 * 8 + 4 * 9 / 2
    assert schedule.memory_needed.tolist() == [needed, 12]
    fits = two_stages(memory=needed)
    assert execute(fits, pe(2, 4)).makespan == schedule.makespan
    with pytest.raises(InputError, match="Stage 0 needs 50 bytes on each device with 4 microbatches"):
        execute(two_stages(memory=needed - 1), pe(2, 4))
    with pytest.raises(InputError, match="Stage 0 needs"):
        two_stages(memory=36)
    assert two_stages(parameter_copies=1.0).memory_needed([0, 0]).tolist() == [8, 1]


def starts(schedule: Timeline) -> dict[str, np.ndarray]:
    return {name: values.copy() for name, values in schedule.start._asdict().items() if name != "weights"}


def timeline(plan: Plan, orders: PassLists, times: dict[str, np.ndarray]) -> Timeline:
    """Operations that start at these times and take as long as the plan says."""
    durations = {
        "forward": plan.forward_time[:, None],
        "backward": plan.backward_time[:, None],
        "send": plan.forward_transfer_time[:, None],
        "receive": plan.backward_transfer_time[:, None],
        "allreduce": plan.allreduce_time,
    }
    none = np.full((plan.n_stages, plan.instance.microbatches), np.nan)
    ends = {name: values + durations[name] for name, values in times.items()}
    return Timeline(plan, orders, Moments(weights=none, **times), Moments(weights=none, **ends))


@pytest.mark.parametrize("full_duplex", [False, True])
def test_the_checker_notices_whatever_starts_too_early(full_duplex: bool) -> None:
    """In a schedule in which everything starts as early as possible, each single start is needed."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        instance = random_instance(rng, 4, 4, 4, full_duplex=full_duplex)
        plan = Plan(instance, (0, 1, 2, 4), ((0,), (1,), (2, 3)))
        schedule = execute(plan, pe(3, 4))
        for name, values in starts(schedule).items():
            for index in np.ndindex(values.shape):
                late = values[index]
                if late < 1e-6 or (name == "allreduce" and plan.replicas[index[0]] == 1):
                    continue
                changed = starts(schedule)
                changed[name][index] = late - 1e-3 * min(late, 1.0)
                with pytest.raises(InputError, match=r"start it later|overlap"):
                    timeline(plan, schedule.orders, changed)


def test_the_checker_knows_both_kinds_of_channels() -> None:
    """Activations of one microbatch while gradients of another come back: possible in full duplex only."""
    half = two_stages()
    plan = Plan(replace(half.instance, microbatches=2), half.cuts, half.devices)
    times = {
        "forward": np.array([[0, 1.5], [5.5, 17]]),
        "backward": np.array([[16.5, 28], [8.5, 20]]),
        "send": np.array([[1.5, 13]]),
        "receive": np.array([[14.5, 26]]),
        "allreduce": np.array([31.0, 26.0]),
    }
    kinds = ((FORWARD, FORWARD, BACKWARD, BACKWARD), (FORWARD, BACKWARD, FORWARD, BACKWARD))
    orders = tuple(tuple((kind, n, row[:i].count(kind)) for i, kind in enumerate(row)) for n, row in enumerate(kinds))
    with pytest.raises(InputError, match=r"channel 0 overlap at time 14\.5"):
        timeline(plan, orders, times)
    duplex = Plan(replace(plan.instance, full_duplex=True), plan.cuts, plan.devices)
    assert timeline(duplex, orders, times).makespan == 31 + 4


def test_schedules_of_the_wrong_shape_are_refused() -> None:
    schedule = execute(two_stages(), pe(2, 4))
    for name, values in starts(schedule).items():
        changed = schedule.start._replace(**{name: values[..., :-1]})
        with pytest.raises(InputError, match=f"times of {name} have the shape"):
            Timeline(schedule.plan, schedule.orders, changed, schedule.end)
    broken = starts(schedule)
    broken["send"][0, 0] = np.nan
    with pytest.raises(InputError, match="not a finite number"):
        timeline(schedule.plan, schedule.orders, broken)


def test_operations_and_utilisation() -> None:
    """Each pass and transfer once, an AllReduce where there are replicas; busy time over all devices."""
    schedule = execute(two_stages(), pe(2, 4))
    operations = list(schedule.operations())
    kinds = [operation.kind for operation in operations]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "forward": 8, "backward": 8, "send": 4, "return": 4, "allreduce": 1,
    }  # fmt: skip
    assert max(operation.end for operation in operations) == schedule.makespan
    assert schedule.utilisation == pytest.approx(4 * (2 * 4.5 + 9) / (3 * schedule.makespan))


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_windows_are_the_slowest_links(seed: int) -> None:
    """Of every group of neighbours and of every two groups next to each other."""
    cluster = random_instance(np.random.default_rng(seed), 1, 5, 1, symmetric=False).cluster
    order = np.random.default_rng(seed).permutation(5)
    speeds = speeds_along(cluster, order)
    links = cluster.bandwidth[np.ix_(order, order)]
    for i in range(6):
        for q in range(1, i + 1):
            inside = links[i - q : i, i - q : i][~np.eye(q, dtype=bool)]
            assert speeds.within[i, q] == min(inside, default=np.inf)
            for r in range(1, 6 - i):
                assert speeds.forth[i, q, r] == links[i - q : i, i : i + r].min()
                assert speeds.back[i, q, r] == links[i : i + r, i - q : i].min()


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: LayerChain([], [], [], [], []), "no layer"),
        (lambda: LayerChain([1, 2], [1], [1], [1], [1, 1]), "2 layers but 1 values of backward"),
        (lambda: LayerChain([1, 2], [1, 1], [1, 1], [1], [1, 1]), "2 values of forward_bytes; give 1"),
        (lambda: LayerChain([1, -2], [1, 1], [1], [1], [1, 1]), "Layer 1: forward is -2"),
        (lambda: LayerChain([1], [1], [], [], ["a"]), "not a number"),
        (lambda: LayerChain([1], [1], [], [], [1], names=("a", "b")), "2 names"),
        (lambda: Cluster([[0, 1]]), "shape"),
        (lambda: Cluster([[0, -1], [1, 0]]), "from device 0 to 1 is -1"),
        (lambda: Cluster([[0, 1], [1, 0]], servers=(1,)), "add up to 2"),
        (lambda: Cluster([[0, 1], [1, 0]], names=("a",)), "1 names"),
        (lambda: Cluster.of_servers([2, 2], [1, 2, 3]), "There are 2 servers"),
        (lambda: TrainingInstance(bert_chain(1), Cluster([[0]]), 0), "microbatches is 0"),
        (lambda: TrainingInstance(bert_chain(1), Cluster([[0]]), 1.5), "microbatches is 1.5"),  # type: ignore[arg-type]
        (lambda: TrainingInstance(bert_chain(1), Cluster([[0]]), 1, memory=-1), "memory is -1"),
        (lambda: TrainingInstance(bert_chain(1), Cluster([[0]]), 1, parameter_copies=-1), "parameter_copies is -1"),
        (lambda: TrainingInstance(bert_chain(1), Cluster([[0]]), 1, replica_share=np.ones(2)), r"give \(1,\) or"),
        (lambda: TrainingInstance(bert_chain(1), Cluster([[0]]), 1, replica_share=np.zeros(1)), "not positive"),
        (lambda: bert_chain(0), "layers is 0"),
        (lambda: speeds_along(Cluster.of_servers([2], 1.0), [0, 0]), "each at most once"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        make()


def test_keys_tell_questions_apart() -> None:
    """Equal questions have equal keys, after pickling too; every setting counts."""
    instance = simulation(0)
    assert simulation(0).key == instance.key == pickle.loads(pickle.dumps(instance)).key
    share = 1 / np.arange(1.0, 33.0)
    changes = ({"microbatches": 3}, {"full_duplex": True}, {"memory": 1e9}, {"parameter_copies": 2.0})
    others = [simulation(1), *(replace(instance, **change) for change in (*changes, {"replica_share": share}))]
    assert len({instance.key, *(other.key for other in others)}) == 7


def test_collapsing_keeps_what_counts() -> None:
    """Two branches become one layer; bytes that cross, shared parameters and times add up."""
    graph = ComputationGraph.from_edges(
        [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)],
        work=[1, 2, 3, 4, 5],
        output_bytes=[10, 20, 30, 40, 50],
        param_bytes=[1, 1, 1, 1, 1],
        parameters=(SharedParameter("table", 100, (0, 4)),),
    )
    # A twentieth of five nodes is none: where two tensors cross, the place competes with itself alone.
    chain = collapse(graph)
    assert chain.time == 3 * 15
    assert chain.param_bytes.sum() == 205
    assert chain.stored.sum() == 150
    assert chain.forward_bytes[-1] == chain.backward_bytes[-1] == 40
    long = ComputationGraph.from_edges(
        [(v, v + 1) for v in range(59) if v != 30] + [(29, 31), (30, 32)], [1] * 60, [1] * 60
    )
    names = collapse(long).names
    assert "29" in names
    assert "30 … 32" in names
    assert len(names) == 58
    assert collapse(graph, backward=[0] * 5).backward.sum() == 0
    with pytest.raises(InputError, match="5 nodes but 2"):
        collapse(graph, backward=[1, 2])


def test_merged_layers_are_called_after_their_ends() -> None:
    chain = LayerChain([1, 1, 1, 1], [2, 2, 2, 2], [0] * 3, [0] * 3, [0] * 4, names=("a", "b", "c", "d"))
    assert chain.merged([0, 1, 2]).names == ("a", "b", "c … d")
    assert chain.merged([0, 1, 2]).merged([0, 1]).names == ("a", "b … d")
