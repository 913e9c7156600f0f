"""Steps in which each device runs its nodes, and each bus moves its transfers, in a stated sequence.

A node starts when the one before it on its device has ended and rested, and all tensors that it reads are there. A
transfer starts when its tensor is made, and the one before it on its bus has ended and rested.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from instances.errors import printable
from instances.placement.stated import StatedPlacement
from mtpp.verification.clock import Clock
from mtpp.verification.placement.step_time import Run, Step

__all__ = ["faults_of_sequences", "run_in_sequence"]

_Moves = list[tuple[int, float, float]]


def faults_of_sequences(stated: StatedPlacement, step: Step) -> Iterator[str]:
    """Yield all reasons why sequences are not those of the devices; the devices are checked already."""
    k, device = stated.instance.devices, stated.device
    nodes: list[list[int]] = [[] for _ in range(k)]
    moves: list[list[tuple[int, ...]]] = [[] for _ in range(k)]
    for v, d in enumerate(device):
        nodes[d].append(v)
        for t in step.outputs[v]:
            targets = sorted({device[reader] for reader in step.readers[t]} - {d})
            if targets:
                moves[d] += [(t, *targets)] if step.broadcast else [(t, target) for target in targets]
    stated_nodes, stated_moves = stated.device_order or (), stated.bus_order or ()
    if len(stated_nodes) != k or len(stated_moves) != k:
        yield f"there are sequences of {len(stated_nodes)} devices and {len(stated_moves)} buses, not of {k}"
        return
    for d in range(k):
        if sorted(stated_nodes[d]) != nodes[d]:
            yield f"device_order[{d}] does not hold the nodes of the device"
        if sorted((*move[:1], *sorted(move[1:])) for move in stated_moves[d]) != sorted(moves[d]):
            yield f"bus_order[{d}] does not hold the transfers that the devices require"


def run_in_sequence(stated: StatedPlacement, step: Step, clock: Clock) -> Run | str:
    """Start all nodes and transfers as early as the sequences allow; return a message if they deadlock.

    Raises
    ------
    OutOfTimeError
    """
    assert stated.device_order is not None
    assert stated.bus_order is not None
    device, k, n = stated.device, stated.instance.devices, len(step.outputs)
    producer = {t: u for u, tensors in enumerate(step.outputs) for t in tensors}
    missing = [0] * n
    for readers in step.readers:
        for v in readers:
            missing[v] += 1
    ready: list[float] = [0] * n  # whole numbers stay whole
    start, end, done = ready.copy(), ready.copy(), [False] * n
    free: list[float] = [0] * (2 * k)  # of devices, and after them of buses
    moves: list[_Moves] = [[] for _ in step.readers]
    queues: list[list[int]] = [list(reversed(row)) for row in stated.device_order]
    buses = [list(reversed(row)) for row in stated.bus_order]

    def arrive(t: int, places: Sequence[int], at: float) -> list[int]:
        """The devices on which nodes may have become ready."""
        for v in (v for v in step.readers[t] if device[v] in places):
            ready[v] = max(ready[v], at)
            missing[v] -= 1
        return list(places)

    waiting = list(range(k))
    while waiting:
        x = waiting.pop()
        clock.raise_if_late()
        while x < k and queues[x] and missing[queues[x][-1]] == 0:
            u = queues[x].pop()
            start[u], time = max(ready[u], free[x]), step.node_time(u, x)
            end[u], done[u] = start[u] + time, True
            free[x] = end[u] + (step.node_gap if time > 0 else 0)
            for t in step.outputs[u]:
                arrive(t, (x,), end[u])
            waiting.append(k + x)
        while x >= k and buses[x - k] and done[producer[buses[x - k][-1][0]]]:
            t, *targets = buses[x - k].pop()
            begin = max(free[x], end[producer[t]])
            there = begin + max(step.move_time(t, x - k, target) for target in targets)
            free[x] = there + step.transfer_gap
            moves[t] += [(target, begin, there) for target in targets]
            waiting += arrive(t, targets, there)
    for d, queue in enumerate(queues):
        if queue:
            v, names = queue[-1], stated.instance.graph.names
            return f"node {v} ({printable(names[v])}), next on device {d}, waits for ever in the order of the sequences"
    return Run(ready, start, end, step.stays(device, start, end, moves))
