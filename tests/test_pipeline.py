"""Chains, clusters, plans and schedules: what they cost, what they refuse, and their files."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_oracles import random_instance

from heuristics.pipeline.execution import execute, pe
from heuristics.pipeline.planning import plans_by_stages
from instances import ComputationGraph, InputError, SharedParameter, load_graph
from instances.pipeline import Cluster, LayerChain, Plan, Schedule, TrainingInstance
from instances.pipeline.collapsing import collapse
from instances.pipeline.files import (
    load_chain,
    read_chain,
    read_cluster,
    read_plan,
    save_chain,
    save_cluster,
    save_plan,
)
from instances.pipeline.settings import SWEEPS, TESTBEDS, TRAINED_MODELS, random_cluster, simulation
from instances.pipeline.transformers import bert_chain
from instances.pipeline.windows import windows_along


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
    assert schedule.in_flight.tolist() == [4, 1]
    needed = 4 * 8 + 4 * 9 / 2
    assert schedule.memory_needed.tolist() == [needed, 12]
    fits = two_stages(memory=needed)
    assert execute(fits, pe(2, 4)).makespan == schedule.makespan
    with pytest.raises(InputError, match="Stage 0 needs 50 bytes on each device with 4 microbatches"):
        execute(two_stages(memory=needed - 1), pe(2, 4))
    with pytest.raises(InputError, match="Stage 0 needs"):
        two_stages(memory=36)
    assert two_stages(parameter_copies=1.0).memory_needed([0, 0]).tolist() == [8, 1]


def starts(schedule: Schedule) -> dict[str, np.ndarray]:
    return {name: getattr(schedule, name).copy() for name in ("forward", "backward", "send", "receive", "allreduce")}


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
                    Schedule(plan, **changed)


def test_the_checker_knows_both_kinds_of_channels() -> None:
    """Activations of one microbatch while gradients of another come back: possible in full duplex only."""
    half = two_stages()
    plan = Plan(replace(half.instance, microbatches=2), half.cuts, half.devices)
    times = {
        "forward": np.array([[0, 1.5], [5.5, 17]]),
        "backward": np.array([[16.5, 28], [8.5, 20]]),
        "send": np.array([[1.5, 13]]),
        "receive": np.array([[14.5, 26]]),
        "allreduce": np.array([31, 0]),
    }
    with pytest.raises(InputError, match=r"channel 0 overlap at time 14\.5"):
        Schedule(plan, **times)
    duplex = Plan(replace(plan.instance, full_duplex=True), plan.cuts, plan.devices)
    assert Schedule(duplex, **times).makespan == 31 + 4


def test_schedules_of_the_wrong_shape_are_refused() -> None:
    schedule = execute(two_stages(), pe(2, 4))
    for name, values in starts(schedule).items():
        with pytest.raises(InputError, match=f"starts of {name} have the shape"):
            Schedule(schedule.plan, **{**starts(schedule), name: values[..., :-1]})
    broken = starts(schedule)
    broken["send"][0, 0] = np.nan
    with pytest.raises(InputError, match="not a finite number"):
        Schedule(schedule.plan, **broken)


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
    windows = windows_along(cluster, order)
    links = cluster.bandwidth[np.ix_(order, order)]
    for i in range(6):
        for q in range(1, i + 1):
            inside = links[i - q : i, i - q : i][~np.eye(q, dtype=bool)]
            assert windows.within[i, q] == min(inside, default=np.inf)
            for r in range(1, 6 - i):
                assert windows.forth[i, q, r] == links[i - q : i, i : i + r].min()
                assert windows.back[i, q, r] == links[i : i + r, i - q : i].min()


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
        (lambda: windows_along(Cluster.of_servers([2], 1.0), [0, 0]), "each at most once"),
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


def test_files_give_back_what_was_saved(tmp_path: Path) -> None:
    """Bit by bit, for chains, clusters and plans."""
    instance = random_instance(np.random.default_rng(0), 4, 3, 2)
    save_chain(instance.chain, tmp_path / "chain.json")
    save_cluster(instance.cluster, tmp_path / "cluster.json")
    again = TrainingInstance(read_chain(tmp_path / "chain.json"), read_cluster(tmp_path / "cluster.json"), 2)
    assert again.key == instance.key
    assert load_chain(tmp_path / "chain.json").names == instance.chain.names
    plan = Plan(instance, (0, 1, 4), ((2,), (0, 1)))
    save_plan(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json", again).devices == plan.devices
    with pytest.raises(InputError, match="made for another"):
        read_plan(tmp_path / "plan.json", replace(instance, microbatches=3))


def test_clusters_are_read_from_tables_and_from_servers(tmp_path: Path) -> None:
    """A CSV table, a JSON table, and JSON with one bandwidth within and between servers, are the same cluster."""
    cluster = Cluster.of_servers([2, 1], 4.0, 2.0)
    (tmp_path / "table.csv").write_text("0,4,2\n4,0,2\n2,2,0\n")
    assert (read_cluster(tmp_path / "table.csv").bandwidth == cluster.bandwidth).all()
    short = {"format": "mtpp-cluster/1", "servers": [2, 1], "within": [4, 9], "between": 2}
    (tmp_path / "short.json").write_text(json.dumps(short))
    assert read_cluster(tmp_path / "short.json").content_hash == cluster.content_hash


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0,1\n1\n", "line 2: 1 numbers, but 2 before"),
        ("0,fast\n1,0\n", "line 1: expected numbers"),
        ("0,1\n", "shape"),
        ('{"format": "mtpp-cluster/1", "servers": [2]}', "either 'bandwidth', or 'within'"),
        ('{"format": "mtpp-cluster/1", "servers": [2], "within": "fast"}', "within: expected a number"),
        ('{"format": "mtpp-cluster/1", "servers": [2], "within": [1, 2]}', "There are 1 servers"),
        ('{"format": "mtpp-chain/1", "servers": [2]}', "unknown format"),
        ('{"format": "mtpp-cluster/1", "bandwidth": [[0, 1], [1]]}', "not a table"),
    ],
)
def test_broken_clusters_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "cluster"
    path.write_text(text)
    with pytest.raises(InputError, match=complaint) as caught:
        read_cluster(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("layers", "complaint"),
    [
        ("[]", "no layer"),
        ('[{"forward": 1}]', "missing field 'backward'"),
        ('[{"forward": 1, "backward": 1, "speed": 1}]', "unknown field 'speed'"),
        ('[{"forward": 1, "backward": -1}]', "backward is -1"),
        ('[{"forward": 1, "backward": 1, "forward_bytes": 3}]', "no layer after the last"),
    ],
)
def test_broken_chains_are_refused(tmp_path: Path, layers: str, complaint: str) -> None:
    path = tmp_path / "chain.json"
    path.write_text(f'{{"format": "mtpp-chain/1", "layers": {layers}}}')
    with pytest.raises(InputError, match=complaint) as caught:
        load_chain(path)
    assert re.match(re.escape(str(path)), str(caught.value))


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


@pytest.mark.parametrize("name", ["bert-base", "resnet50", "inception-v3", "transformer-base"])
def test_architectures_become_chains(name: str) -> None:
    """Of tens of layers, with the work and parameters of the graph."""
    graph, chain = load_graph(name), load_chain(name)
    assert 20 <= chain.n <= 120
    assert chain.forward.sum() == pytest.approx(graph.work.sum())
    assert chain.param_bytes.sum() >= graph.parameter_total * (1 - 1e-12)
    assert (chain.forward + chain.backward > 0).all()


def test_profiles_become_chains(data: Path) -> None:
    """With the profile's own backward times, which the file gives in ms."""
    path = data / "pipedream" / "vgg16.graph.txt"
    chain = load_chain(path)
    times = re.findall(r"backward_compute_time=([\d.]+)", path.read_text())
    assert chain.backward.sum() == pytest.approx(sum(map(float, times)) / 1000)
    assert chain.forward.sum() == pytest.approx(load_graph(path).work.sum())
    assert chain.n > 30


def test_the_settings_of_the_paper() -> None:
    """27 layers, 340 million parameters, 32 devices with bandwidths in their ranges; sweeps and testbeds exist."""
    instance = simulation(5)
    assert (instance.chain.n, instance.cluster.n, instance.microbatches) == (27, 32, 32)
    assert 330e6 < instance.chain.param_bytes.sum() / 4 < 345e6
    same = instance.cluster.server[:, None] == instance.cluster.server
    gbps = instance.cluster.bandwidth / 1.25e8
    assert 32 <= gbps[~same].min() <= gbps[~same].max() <= 40
    within = np.array([gbps[4 * h, 4 * h + 1] for h in range(8)])
    assert ((within[:3] >= 96) & (within[:3] <= 128)).all()
    assert ((within[3:] >= 160) & (within[3:] <= 200)).all()
    assert (gbps == gbps.T).all()
    for parameter, values in SWEEPS.values():
        for value in values:
            assert simulation(0, **{parameter: value}).cluster.n == 32  # type: ignore[arg-type]
    assert {name: build().n for name, build in TESTBEDS.items()} == {"1080ti-8": 8, "v100-4": 4}
    assert random_cluster(np.random.default_rng(1)).content_hash != instance.cluster.content_hash


def test_the_models_of_table_ii() -> None:
    """Seven models; a microbatch of BERT-48 is half as large on the second testbed."""
    assert len(TRAINED_MODELS) == 7
    vgg = TRAINED_MODELS["vgg19"].instance("v100-4")
    assert vgg.microbatches == 8
    assert vgg.chain.param_bytes.sum() / 4 == pytest.approx(144e6, rel=0.01)
    deep = TRAINED_MODELS["bert-48"].samples
    assert deep["1080ti-8"] == 2 * deep["v100-4"]
    with pytest.raises(InputError, match="testbeds are"):
        TRAINED_MODELS["vgg19"].instance("a100")
