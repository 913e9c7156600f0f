"""Plans with all their times as files of other programs."""

from __future__ import annotations

from heuristics.planning.orders import execute_orders
from instances.devices import NetworkCards
from instances.planning import Cluster, LayerChain, Plan, TrainingInstance
from instances.planning.operations import BACKWARD, FORWARD
from instances.planning.plan_files import perfetto_trace

MIB = 2**20


def test_counters_of_a_trace_show_what_a_device_keeps() -> None:
    """Stage 0 keeps all that it stores; stage 1, on two devices, recomputes and keeps its inputs alone."""
    chain = LayerChain([1, 2], [2, 4], [6 * MIB], [6 * MIB], [0, 0], stored_bytes=[5 * MIB, 40 * MIB])
    cluster = Cluster.of_servers([1, 1, 1], 9e6, 9e6)
    instance = TrainingInstance(chain, cluster, 2, network=NetworkCards(), recomputation=True)
    plan = Plan(instance, (0, 1, 2), ((0,), (1, 2)), recompute=(False, True))
    passes = [(FORWARD, 0), (FORWARD, 1), (BACKWARD, 0), (BACKWARD, 1)]
    timeline = execute_orders(plan, [[(kind, n, m) for kind, m in passes] for n in range(2)], "by hand")
    events = perfetto_trace(timeline)["traceEvents"]
    counters = [event for event in events if event["ph"] == "C" and event["pid"] == 0]
    kept = {
        name: [event["args"]["MiB"] for event in counters if event["name"] == f"activations of group {name} [MiB]"]
        for name in (0, 1)
    }
    assert kept == {0: [5, 10, 5, 0], 1: [3, 6, 3, 0]}
    assert [event["ts"] for event in counters] == [
        float(moment[n, m]) * 1e6
        for n in range(2)
        for moment, m in [
            (timeline.start.forward, 0),
            (timeline.start.forward, 1),
            (timeline.end.backward, 0),
            (timeline.end.backward, 1),
        ]
    ]


def test_ports_of_a_trace_count_the_transfers_that_they_carry() -> None:
    """Each transfer between servers loads a port out and one in, from its start to its end; none is left at the end."""
    chain = LayerChain([1, 1], [1, 1], [6 * MIB], [3 * MIB], [0, 0])
    instance = TrainingInstance(chain, Cluster.of_servers([1, 1], 9e6, 9e6), 2, network=NetworkCards())
    passes = [(FORWARD, 0), (FORWARD, 1), (BACKWARD, 0), (BACKWARD, 1)]
    plan = Plan(instance, (0, 1, 2), ((0,), (1,)))
    timeline = execute_orders(plan, [[(kind, n, m) for kind, m in passes] for n in range(2)], "by hand")
    carried: dict[str, list[tuple[float, int]]] = {}
    for event in perfetto_trace(timeline)["traceEvents"]:
        if event["ph"] == "C" and event["pid"] == 3:
            carried.setdefault(event["name"], []).append((event["ts"], event["args"]["transfers"]))
    assert set(carried) == {f"server {h} {way} [transfers]" for h in (0, 1) for way in ("out", "in")}
    assert all(counts[-1][1] == 0 for counts in carried.values())
    sends = sorted([*timeline.start.send[0], *timeline.end.send[0]])
    assert [ts for ts, _ in carried["server 0 out [transfers]"]] == [moment * 1e6 for moment in sends]
    assert carried["server 0 out [transfers]"] == carried["server 1 in [transfers]"]
