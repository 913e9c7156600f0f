"""Times of placements with an order, one move at a time, and the moves, compiled by numba."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heuristics.local_search.annealing import Cooling, factor_of
from heuristics.placement.simulator import SimulatorArrays, Workspace, peak_memory
from instances.compiled import compiled
from instances.errors import InputError, word
from instances.graph.tensors import FloatArray, IntArray, compressed_rows
from instances.placement.placement import OrderedPlacement
from instances.placement.problem import PlacementInstance

# Times of placements with an order, one move at a time, compiled by numba.
#
# An order is written as one topological order of all nodes and a bit per tensor. One pass along the order gives all
# times: a node runs after the nodes of its device that come before it. A tensor that is *eager* joins the bus to all
# devices that read it when its producer comes up; one that is not joins it to a device when its first reader there
# comes up. A bus moves transfers in the order in which they join. These are the times of the `OrderedPlacement` with
# the sequences that the pass goes through.
#
# A move changes nothing before its first position. What devices and buses have done by then is kept at every `STEP`-th
# position; a trial goes on from the last of them, and ends as soon as it must take longer than a threshold. It writes
# over the times of before, which `forget` brings back from a log, and `accept` lets go.


#: Numbers without a sign: numba need not ask whether they count from the end, which takes a tenth of a move.
Index = NDArray[np.uint32]

#: Positions between two that are kept.
STEP = 16
#: Tensors times devices.
_MOST = 10**7
#: A threshold is exceeded by more than rounding.
_ROUNDING = 1e-12
#: Places of `Sequences.trial`: its first position and the one after its last, and the same of its transfers.
_LOW, _HIGH, _JOINED, _QUEUED = range(4)


class Sequences(NamedTuple):
    """Current placement with an order of nodes: its times, a log of old times to undo moves, and data of the graph."""

    order: Index  # (n,)
    position: Index  # (n,): its inverse
    device: Index  # (n,)
    eager: NDArray[np.bool_]  # (t,)
    load: FloatArray  # (k,): time of the nodes on each device
    remote: IntArray  # (t,): readers on other devices
    start: FloatArray  # (n,)
    end: FloatArray  # (n,)
    # (t * k,) of tensor t to device d, at ``t * k + d``: when it starts and ends, and its place in `queue`.
    sent: FloatArray
    arrived: FloatArray
    slot: Index
    queue: Index  # (m,): transfers in the order in which they joined a bus, as ``t * k + d``
    # (s, 3 k + 1) at every `STEP`-th position: when devices and buses are free, what devices have done, the latest end.
    checkpoint: FloatArray
    checkpoint_queued: IntArray  # (s,): how many transfers had joined
    new_checkpoint: FloatArray  # of the trial
    new_checkpoint_queued: IntArray
    now: FloatArray  # (3 k + 1,): current row; in place of the work that devices have done, the work left
    trial: IntArray  # (4,)
    old_start: FloatArray  # (n,) by position
    old_end: FloatArray
    old_queue: Index  # (m,) by place in the queue
    old_slot: Index
    old_sent: FloatArray
    old_arrived: FloatArray
    input_start: IntArray  # (n + 1,): tensors that each node reads, in compressed rows
    input_tensor: Index
    producer: Index  # (t,)
    tail: FloatArray  # (n,): least time from the end of a node to the end of the step
    neighbour_start: IntArray  # (n + 1,): nodes that each node reads from or is read by, in compressed rows
    neighbour: IntArray


def sequences(instance: PlacementInstance) -> Sequences:
    """Room for the placements of one instance.

    Raises
    ------
    InputError
        If there are too many tensors and devices for the memory of this computer.
    """
    graph, k = instance.graph, instance.devices
    if len(graph.tensors.bytes) * k > _MOST:
        raise InputError(
            f"{len(graph.tensors.bytes)} tensors on {k} devices are too many for a search on single nodes; search on "
            f"groups of nodes ({word('groups')})."
        )
    n, t, m, checkpoints = graph.n, len(graph.tensors.bytes), len(graph.inputs[1]), (graph.n - 1) // STEP + 1
    ends = np.concatenate((graph.edges, graph.edges[:, ::-1]))
    neighbour_start, neighbour = compressed_rows(ends[:, 0], ends[:, 1], n)

    def whole(size: int) -> IntArray:
        return np.zeros(size, dtype=np.int64)

    def index(size: int) -> Index:
        return np.zeros(size, dtype=np.uint32)

    return Sequences(
        order=index(n),
        position=index(n),
        device=index(n),
        eager=np.zeros(t, dtype=np.bool_),
        load=np.zeros(k),
        remote=whole(t),
        start=np.zeros(n),
        end=np.zeros(n),
        sent=np.zeros(t * k),
        arrived=np.zeros(t * k),
        slot=index(t * k),
        queue=index(m),
        checkpoint=np.zeros((checkpoints, 3 * k + 1)),
        checkpoint_queued=whole(checkpoints),
        new_checkpoint=np.zeros((checkpoints, 3 * k + 1)),
        new_checkpoint_queued=whole(checkpoints),
        now=np.zeros(3 * k + 1),
        trial=whole(4),
        old_start=np.zeros(n),
        old_end=np.zeros(n),
        old_queue=index(m),
        old_slot=index(m),
        old_sent=np.zeros(m),
        old_arrived=np.zeros(m),
        input_start=graph.inputs[0],
        input_tensor=graph.inputs[1].astype(np.uint32),
        producer=graph.tensors.producer.astype(np.uint32),
        tail=_tails(instance),
        neighbour_start=neighbour_start,
        neighbour=neighbour,
    )


def _tails(instance: PlacementInstance) -> FloatArray:
    """(n,) length of the longest path behind each node on the fastest device, in the time unit of the work."""
    graph = instance.graph
    work, tail = instance.work / instance.speeds.max(), np.zeros(graph.n)
    start, child = graph.successors
    for v in graph.topological_order[::-1]:
        children = child[start[v] : start[v + 1]]
        tail[v] = (work[children] + tail[children]).max(initial=0.0)
    return tail


@compiled(allocates=False)
def begin(arrays: SimulatorArrays, state: Sequences) -> float:
    """Compute the times of the placement that was written to `order`, `device` and `eager`; return its step time."""
    state.load[:] = 0.0
    state.remote[:] = 0
    for i in range(len(state.order)):
        v = state.order[i]
        state.position[v] = i
        state.load[state.device[v]] += arrays.node_time[v, arrays.kind[state.device[v]]]
        for e in range(state.input_start[v], state.input_start[v + 1]):
            t = state.input_tensor[e]
            state.remote[t] += state.device[state.producer[t]] != state.device[v]
    state.checkpoint[0, :] = 0.0
    state.checkpoint_queued[0] = 0
    time = evaluate(arrays, state, 0, np.inf)
    accept(state)
    return time


@compiled(allocates=False)
def put(arrays: SimulatorArrays, state: Sequences, v: int, target: int) -> None:
    """Move node v to the device `target`; its times are computed by `evaluate`."""
    source = state.device[v]
    state.load[source] -= arrays.node_time[v, arrays.kind[source]]
    state.load[target] += arrays.node_time[v, arrays.kind[target]]
    state.device[v] = target
    for e in range(state.input_start[v], state.input_start[v + 1]):
        t = state.input_tensor[e]
        home = state.device[state.producer[t]]
        state.remote[t] += (home != target) - (home != source)
    for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
        for e in range(arrays.reader_start[t], arrays.reader_start[t + 1]):
            place = state.device[arrays.reader[e]]
            state.remote[t] += (place != target) - (place != source)


@compiled(allocates=False)
def evaluate(arrays: SimulatorArrays, state: Sequences, first: int, threshold: float) -> float:
    """Step time of a trial that changes nothing before position `first`; infinite if it exceeds the threshold.

    The caller has written the trial to `order`, `position`, `device`, `eager`, `load` and `remote`, and calls `accept`
    or `forget` afterwards.
    """
    n, k, row = len(state.order), arrays.devices, first // STEP
    low, limit, now, remaining = row * STEP, threshold * (1.0 + _ROUNDING), state.now, 2 * k
    for x in range(3 * k + 1):
        now[x] = (
            state.checkpoint[row, x]
            if x < remaining or x == 3 * k
            else state.load[x - remaining] - state.checkpoint[row, x]
        )
    state.trial[_LOW] = state.trial[_HIGH] = low
    state.trial[_JOINED] = state.trial[_QUEUED] = state.checkpoint_queued[row]
    for d in range(k):
        if now[d] + now[remaining + d] - arrays.node_gap > limit:
            return np.inf
    queued, latest = state.trial[_QUEUED], now[3 * k]
    for i in range(low, n):
        if i % STEP == 0:
            _checkpoint(state, i // STEP, queued, latest, k)
        v = state.order[i]
        d = state.device[v]
        start = now[d]
        for e in range(state.input_start[v], state.input_start[v + 1]):
            t = state.input_tensor[e]
            u = state.producer[t]
            if state.device[u] == d:
                at = state.end[u]
            else:
                j = t * k + d
                if state.slot[j] >= queued or state.queue[state.slot[j]] != j:
                    queued = _send(arrays, state, t, state.device[u], d, state.end[u], queued)
                at = state.arrived[j]
            if at > start:
                start = at
        time = arrays.node_time[v, arrays.kind[d]]
        end = start + time
        if end + state.tail[v] > limit or start + now[remaining + d] > limit:
            state.trial[_HIGH], state.trial[_QUEUED] = i, queued
            return np.inf
        state.old_start[i], state.old_end[i] = state.start[v], state.end[v]
        state.start[v], state.end[v] = start, end
        now[remaining + d] -= time
        now[d] = end + arrays.node_gap if time > 0.0 else end
        if end > latest:
            latest = end
        for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
            if state.eager[t] and state.remote[t] > 0:
                for e in range(arrays.reader_start[t], arrays.reader_start[t + 1]):
                    target = state.device[arrays.reader[e]]
                    j = t * k + target
                    if target != d and (state.slot[j] >= queued or state.queue[state.slot[j]] != j):
                        queued = _send(arrays, state, t, d, target, end, queued)
    state.trial[_HIGH], state.trial[_QUEUED] = n, queued
    return latest


@compiled(inline="always", allocates=False)
def _checkpoint(state: Sequences, row: int, queued: int, latest: float, k: int) -> None:
    for x in range(2 * k):
        state.new_checkpoint[row, x] = state.now[x]
    for d in range(k):
        state.new_checkpoint[row, 2 * k + d] = state.load[d] - state.now[2 * k + d]
    state.new_checkpoint[row, 3 * k] = latest
    state.new_checkpoint_queued[row] = queued


@compiled(allocates=False)
def _send(arrays: SimulatorArrays, state: Sequences, t: int, home: int, target: int, end: float, queued: int) -> int:
    """Queue the transfer of a tensor, complete at `end`, to a device; return the number of transfers queued so far."""
    k = arrays.devices
    free = state.now[k + home]
    begin = free if free > end else end
    if arrays.broadcast:
        at = begin
        for e in range(arrays.reader_start[t], arrays.reader_start[t + 1]):
            place = state.device[arrays.reader[e]]
            if place != home:
                at = max(at, begin + arrays.move_time[t, arrays.rate[home, place]])
        for e in range(arrays.reader_start[t], arrays.reader_start[t + 1]):
            j = t * k + state.device[arrays.reader[e]]
            if state.device[arrays.reader[e]] != home and (state.slot[j] >= queued or state.queue[state.slot[j]] != j):
                _join(state, j, begin, at, queued)
                queued += 1
    else:
        at = begin + arrays.move_time[t, arrays.rate[home, target]]
        _join(state, t * k + target, begin, at, queued)
        queued += 1
    state.now[k + home] = at + arrays.transfer_gap
    return queued


@compiled(inline="always", allocates=False)
def _join(state: Sequences, j: int, begin: float, at: float, place: int) -> None:
    state.old_queue[place], state.old_slot[place] = state.queue[place], state.slot[j]
    state.old_sent[place], state.old_arrived[place] = state.sent[j], state.arrived[j]
    state.queue[place], state.slot[j] = j, place
    state.sent[j], state.arrived[j] = begin, at


@compiled(allocates=False)
def accept(state: Sequences) -> None:
    """Make a trial that `evaluate` has finished the current placement."""
    width = state.checkpoint.shape[1]
    for i in range(state.trial[_LOW] // STEP, len(state.checkpoint)):
        for x in range(width):
            state.checkpoint[i, x] = state.new_checkpoint[i, x]
        state.checkpoint_queued[i] = state.new_checkpoint_queued[i]


@compiled(allocates=False)
def forget(state: Sequences) -> None:
    """Restore the times from before a trial; it expects the order of the trial."""
    for i in range(state.trial[_LOW], state.trial[_HIGH]):
        v = state.order[i]
        state.start[v], state.end[v] = state.old_start[i], state.old_end[i]
    for place in range(state.trial[_QUEUED] - 1, state.trial[_JOINED] - 1, -1):
        j = state.queue[place]
        state.queue[place], state.slot[j] = state.old_queue[place], state.old_slot[place]
        state.sent[j], state.arrived[j] = state.old_sent[place], state.old_arrived[place]


def read_off(instance: PlacementInstance, state: Sequences) -> OrderedPlacement:
    """The current placement, just after `begin`, with the sequences of its devices and buses."""
    k, device = instance.devices, state.device.tolist()
    nodes: list[list[int]] = [[] for _ in range(k)]
    for v in state.order.tolist():
        nodes[device[v]].append(v)
    buses: list[dict[tuple[int, ...], list[int]]] = [{} for _ in range(k)]  # targets of each transfer
    for j in state.queue[: state.trial[_QUEUED]].tolist():
        t, target = divmod(j, k)
        move = (t,) if instance.broadcast else (t, target)
        buses[device[state.producer[t]]].setdefault(move, []).append(target)
    moves = [[(move[0], *targets) for move, targets in bus.items()] for bus in buses]
    return OrderedPlacement(instance, state.device.copy(), nodes, moves)


# Moves of orders, and walks that keep them or take them back, compiled by numba.
#
# A move takes a node, at times with a chain of neighbours, to the device of a neighbour, to another position between
# its last parent and its first child, or both; or it makes a tensor late or eager. Half of the nodes are drawn from the
# critical chain, whose nodes and transfers follow each other without a pause up to the end of the step.


#: Parts of the moves that make a tensor late or eager, that change the position alone, and both position and device.
_FLIP, _POSITION, _BOTH = 0.1, 0.3, 0.25
#: Parts of the nodes from the critical chain, of the devices at random, and of the nodes that take neighbours along.
_CRITICAL, _ANYWHERE, _TOGETHER = 0.5, 0.1, 0.3
_LONGEST_CHAIN = 8
#: Most of the time a node moves by so many positions at most.
_NEAR, _FAR = 40, 0.1
#: _Moves after which the critical chain is traced again if it may have changed.
_TRACE = 20
#: Places of `_Moves.last`.
_COUNT, _SHIFTED, _POSITION_BEFORE, _FLIPPED = range(4)


class Lane(NamedTuple):
    """A placement with an order: topological order, device of each node, and whether each tensor is sent eagerly."""

    order: Index
    device: Index
    eager: NDArray[np.bool_]
    value: FloatArray  # bytes of overflow, and time


class _Moves(NamedTuple):
    """Log of the last move, to undo it, and nodes of the critical chain."""

    last: IntArray  # nodes that changed the device; the node that changed its position, which one; the tensor
    node: IntArray
    device_before: IntArray
    chain: IntArray  # (n,)
    length: IntArray  # (1,) of the chain


@compiled
def walk(
    arrays: SimulatorArrays,
    state: Sequences,
    space: Workspace,
    best: Lane,
    value: FloatArray,
    cooling: Cooling,
    seed: int,
) -> None:
    """Run simulated annealing from the placement in `state`; `value` holds its bytes of overflow and its time.

    Temperatures are times. A threshold is drawn before each move: the current time plus an exponential random number
    whose mean is the temperature. Fewer bytes of overflow always come before less time.
    """
    np.random.seed(seed)
    n = len(state.order)
    move = _Moves(
        last=np.zeros(4, dtype=np.int64),
        node=np.zeros(_LONGEST_CHAIN + 1, dtype=np.int64),
        device_before=np.zeros(_LONGEST_CHAIN + 1, dtype=np.int64),
        chain=np.zeros(n, dtype=np.int64),
        length=np.zeros(1, dtype=np.int64),
    )
    temperature, factor = cooling.hot, factor_of(cooling)
    stale = _TRACE
    for _ in range(cooling.moves):
        temperature *= factor
        if stale >= _TRACE:
            _trace(arrays, state, move)
            stale = 0
        first = _propose(arrays, state, move)
        if first == n:
            continue
        limit = value[1] + temperature * -math.log(1.0 - np.random.random())
        time = evaluate(arrays, state, first, limit if value[0] == 0.0 else np.inf)
        over = value[0]
        if arrays.limited and time < np.inf:
            peak_memory(arrays, state.device.astype(np.int64), space)
            over = np.maximum(0.0, space.peak - arrays.memory).sum()
        if time < np.inf and (over < value[0] or (over == value[0] and time <= limit)):
            accept(state)
            value[0], value[1] = over, time
            stale += 1
            if over < best.value[0] or (over == best.value[0] and time < best.value[1]):
                best.order[:], best.device[:], best.eager[:] = state.order, state.device, state.eager
                best.value[:] = value
                stale = _TRACE
        else:
            forget(state)
            _take_back(arrays, state, move)


@compiled(allocates=False)
def _propose(arrays: SimulatorArrays, state: Sequences, move: _Moves) -> int:
    """Make a random move; return the first position of the order that changes, n if none changes."""
    n, k = len(state.order), arrays.devices
    move.last[_COUNT], move.last[_SHIFTED], move.last[_FLIPPED] = 0, -1, -1
    v = np.random.randint(n)
    if np.random.random() < _CRITICAL:
        v = move.chain[np.random.randint(move.length[0])]
    kind = np.random.random()
    if kind < _FLIP or k == 1:
        return _flip(state, move, v) if k > 1 else n
    first = n
    if kind >= _FLIP + _POSITION:
        first = _change_device(arrays, state, move, v)
    if kind < _FLIP + _POSITION + _BOTH:
        first = min(first, _shift(arrays, state, move, v))
    return first


@compiled(allocates=False)
def _flip(state: Sequences, move: _Moves, v: int) -> int:
    """Toggle eager sending of a random input of node `v`.

    Returns the first position in the order that changes, or the number of nodes if nothing changes.
    """
    first, last = state.input_start[v], state.input_start[v + 1]
    if first == last:
        return len(state.order)
    t = state.input_tensor[np.random.randint(first, last)]
    u = state.producer[t]
    if state.device[u] == state.device[v]:
        return len(state.order)
    state.eager[t] = not state.eager[t]
    move.last[_FLIPPED] = t
    return state.position[u]


@compiled(allocates=False)
def _change_device(arrays: SimulatorArrays, state: Sequences, move: _Moves, v: int) -> int:
    """Move node `v`, at times with neighbours on its device, to another device; return the first changed position."""
    source, k = state.device[v], arrays.devices
    first, last = state.neighbour_start[v], state.neighbour_start[v + 1]
    target = source
    if first < last and np.random.random() >= _ANYWHERE:
        target = state.device[state.neighbour[np.random.randint(first, last)]]
    if target == source:
        target = (source + 1 + np.random.randint(k - 1)) % k
    changed = _take(arrays, state, move, v, target)
    if np.random.random() < _TOGETHER:
        u = v
        for _ in range(1 + np.random.randint(_LONGEST_CHAIN)):
            first, last = state.neighbour_start[u], state.neighbour_start[u + 1]
            if first == last:
                break
            u = state.neighbour[np.random.randint(first, last)]
            if state.device[u] == source:
                changed = min(changed, _take(arrays, state, move, u, target))
    return changed


@compiled(allocates=False)
def _take(arrays: SimulatorArrays, state: Sequences, move: _Moves, v: int, target: int) -> int:
    """Move one node to a device and log the move; return the first changed position."""
    i = move.last[_COUNT]
    move.last[_COUNT] = i + 1
    move.node[i], move.device_before[i] = v, state.device[v]
    put(arrays, state, v, target)
    first = state.position[v]
    for e in range(state.input_start[v], state.input_start[v + 1]):
        t = state.input_tensor[e]
        if state.eager[t] or arrays.broadcast:
            first = min(first, state.position[state.producer[t]])
    return first


@compiled(allocates=False)
def _shift(arrays: SimulatorArrays, state: Sequences, move: _Moves, v: int) -> int:
    """Move node `v` in the order, between its last parent and its first child; return the first changed position."""
    n, at = len(state.order), state.position[v]
    low, high = 0, n - 1
    for e in range(state.input_start[v], state.input_start[v + 1]):
        low = max(low, state.position[state.producer[state.input_tensor[e]]] + 1)
    first, last = arrays.output_start[v], arrays.output_start[v + 1]
    for e in range(arrays.reader_start[first], arrays.reader_start[last]):
        high = min(high, state.position[arrays.reader[e]] - 1)
    if np.random.random() >= _FAR:
        low, high = max(low, at - _NEAR), min(high, at + _NEAR)
    target = low + np.random.randint(high - low + 1)
    if target == at:
        return n
    move.last[_SHIFTED], move.last[_POSITION_BEFORE] = v, at
    _insert(state, v, target)
    return min(at, target)


@compiled(allocates=False)
def _insert(state: Sequences, v: int, target: int) -> None:
    at = state.position[v]
    step = 1 if target > at else -1
    for i in range(at, target, step):
        state.order[i] = state.order[i + step]
        state.position[state.order[i]] = i
    state.order[target], state.position[v] = v, target


@compiled(allocates=False)
def _take_back(arrays: SimulatorArrays, state: Sequences, move: _Moves) -> None:
    if move.last[_SHIFTED] >= 0:
        _insert(state, move.last[_SHIFTED], move.last[_POSITION_BEFORE])
    for i in range(move.last[_COUNT] - 1, -1, -1):
        put(arrays, state, move.node[i], move.device_before[i])
    t = move.last[_FLIPPED]
    if t >= 0:
        state.eager[t] = not state.eager[t]


@compiled(allocates=False)
def _trace(arrays: SimulatorArrays, state: Sequences, move: _Moves) -> None:
    """Write the critical chain: from the last node to end back to one that starts at 0, each waiting for the next."""
    n, k = len(state.order), arrays.devices
    v, length = state.order[0], 0
    for u in range(n):
        if state.end[u] > state.end[v]:
            v = u
    while length < n:
        move.chain[length] = v
        length += 1
        before = _waited_for(state, v, k)
        if before < 0:
            break
        v = before
    move.length[0] = length


@compiled(allocates=False)
def _waited_for(state: Sequences, v: int, k: int) -> int:
    """The node whose end, or whose transfer, lets node `v` start; -1 if `v` starts at 0."""
    start, d = state.start[v], state.device[v]
    if start == 0.0:
        return -1
    for e in range(state.input_start[v], state.input_start[v + 1]):
        t = state.input_tensor[e]
        u = state.producer[t]
        if state.device[u] == d:
            if state.end[u] == start:
                return u
        elif state.arrived[t * k + d] == start:
            if state.sent[t * k + d] > state.end[u]:  # the bus was busy
                for i in range(state.slot[t * k + d] - 1, -1, -1):
                    other = state.producer[state.queue[i] // k]
                    if state.device[other] == state.device[u]:
                        return other
            return u
    for i in range(state.position[v] - 1, -1, -1):
        if state.device[state.order[i]] == d:
            return state.order[i]
    return -1
