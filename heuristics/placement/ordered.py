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
    """Placement with an order: its times, a log of former times to undo moves, and data of the graph."""

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
    kept: FloatArray
    kept_queued: IntArray  # (s,): how many transfers had joined
    new_kept: FloatArray  # of the trial
    new_kept_queued: IntArray
    now: FloatArray  # (3 k + 1,): such a row in the making; in place of what devices have done, what is left
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
    n, t, m, kept = graph.n, len(graph.tensors.bytes), len(graph.inputs[1]), (graph.n - 1) // STEP + 1
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
        kept=np.zeros((kept, 3 * k + 1)),
        kept_queued=whole(kept),
        new_kept=np.zeros((kept, 3 * k + 1)),
        new_kept_queued=whole(kept),
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
    """(n,) time of the longest way that follows each node, on the fastest device."""
    graph = instance.graph
    work, tail = graph.work / instance.speeds.max(), np.zeros(graph.n)
    start, child = graph.successors
    for v in graph.topological_order[::-1]:
        children = child[start[v] : start[v + 1]]
        tail[v] = (work[children] + tail[children]).max(initial=0.0)
    return tail


@compiled(allocates=False)
def begin(arrays: SimulatorArrays, own: Sequences) -> float:
    """Make `order`, `device` and `eager`, which were written from outside, the current placement; return its time."""
    own.load[:] = 0.0
    own.remote[:] = 0
    for i in range(len(own.order)):
        v = own.order[i]
        own.position[v] = i
        own.load[own.device[v]] += arrays.node_time[v, arrays.speed[own.device[v]]]
        for e in range(own.input_start[v], own.input_start[v + 1]):
            t = own.input_tensor[e]
            own.remote[t] += own.device[own.producer[t]] != own.device[v]
    own.kept[0, :] = 0.0
    own.kept_queued[0] = 0
    time = evaluate(arrays, own, 0, np.inf)
    accept(own)
    return time


@compiled(allocates=False)
def put(arrays: SimulatorArrays, own: Sequences, v: int, there: int) -> None:
    """Move a node to another device."""
    here = own.device[v]
    own.load[here] -= arrays.node_time[v, arrays.speed[here]]
    own.load[there] += arrays.node_time[v, arrays.speed[there]]
    own.device[v] = there
    for e in range(own.input_start[v], own.input_start[v + 1]):
        t = own.input_tensor[e]
        home = own.device[own.producer[t]]
        own.remote[t] += (home != there) - (home != here)
    for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
        for e in range(arrays.reader_start[t], arrays.reader_start[t + 1]):
            place = own.device[arrays.reader[e]]
            own.remote[t] += (place != there) - (place != here)


@compiled(allocates=False)
def evaluate(arrays: SimulatorArrays, own: Sequences, first: int, threshold: float) -> float:
    """Time of a trial that changes nothing before position `first`; infinite if it exceeds the threshold.

    `order`, `position`, `device`, `eager`, `load` and `remote` are those of the trial already. Then `accept` or
    `forget` it.
    """
    n, k, row = len(own.order), arrays.devices, first // STEP
    low, limit, now, left = row * STEP, threshold * (1.0 + _ROUNDING), own.now, 2 * k
    for x in range(3 * k + 1):
        now[x] = own.kept[row, x] if x < left or x == 3 * k else own.load[x - left] - own.kept[row, x]
    own.trial[_LOW] = own.trial[_HIGH] = low
    own.trial[_JOINED] = own.trial[_QUEUED] = own.kept_queued[row]
    for d in range(k):
        if now[d] + now[left + d] - arrays.node_gap > limit:
            return np.inf
    queued, latest = own.trial[_QUEUED], now[3 * k]
    for i in range(low, n):
        if i % STEP == 0:
            _keep(own, i // STEP, queued, latest, k)
        v = own.order[i]
        d = own.device[v]
        start = now[d]
        for e in range(own.input_start[v], own.input_start[v + 1]):
            t = own.input_tensor[e]
            u = own.producer[t]
            if own.device[u] == d:
                at = own.end[u]
            else:
                j = t * k + d
                if own.slot[j] >= queued or own.queue[own.slot[j]] != j:
                    queued = _send(arrays, own, t, own.device[u], d, own.end[u], queued)
                at = own.arrived[j]
            if at > start:
                start = at
        time = arrays.node_time[v, arrays.speed[d]]
        end = start + time
        if end + own.tail[v] > limit or start + now[left + d] > limit:
            own.trial[_HIGH], own.trial[_QUEUED] = i, queued
            return np.inf
        own.old_start[i], own.old_end[i] = own.start[v], own.end[v]
        own.start[v], own.end[v] = start, end
        now[left + d] -= time
        now[d] = end + arrays.node_gap if time > 0.0 else end
        if end > latest:
            latest = end
        for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
            if own.eager[t] and own.remote[t] > 0:
                for e in range(arrays.reader_start[t], arrays.reader_start[t + 1]):
                    there = own.device[arrays.reader[e]]
                    j = t * k + there
                    if there != d and (own.slot[j] >= queued or own.queue[own.slot[j]] != j):
                        queued = _send(arrays, own, t, d, there, end, queued)
    own.trial[_HIGH], own.trial[_QUEUED] = n, queued
    return latest


@compiled(inline="always", allocates=False)
def _keep(own: Sequences, row: int, queued: int, latest: float, k: int) -> None:
    for x in range(2 * k):
        own.new_kept[row, x] = own.now[x]
    for d in range(k):
        own.new_kept[row, 2 * k + d] = own.load[d] - own.now[2 * k + d]
    own.new_kept[row, 3 * k] = latest
    own.new_kept_queued[row] = queued


@compiled(allocates=False)
def _send(arrays: SimulatorArrays, own: Sequences, t: int, home: int, there: int, end: float, queued: int) -> int:
    """Let a tensor, complete at `end`, join the bus to a device; return how many transfers have joined."""
    k = arrays.devices
    free = own.now[k + home]
    begin = free if free > end else end
    if arrays.broadcast:
        at = begin
        for e in range(arrays.reader_start[t], arrays.reader_start[t + 1]):
            place = own.device[arrays.reader[e]]
            if place != home:
                at = max(at, begin + arrays.move_time[t, arrays.rate[home, place]])
        for e in range(arrays.reader_start[t], arrays.reader_start[t + 1]):
            j = t * k + own.device[arrays.reader[e]]
            if own.device[arrays.reader[e]] != home and (own.slot[j] >= queued or own.queue[own.slot[j]] != j):
                _join(own, j, begin, at, queued)
                queued += 1
    else:
        at = begin + arrays.move_time[t, arrays.rate[home, there]]
        _join(own, t * k + there, begin, at, queued)
        queued += 1
    own.now[k + home] = at + arrays.transfer_gap
    return queued


@compiled(inline="always", allocates=False)
def _join(own: Sequences, j: int, begin: float, at: float, place: int) -> None:
    own.old_queue[place], own.old_slot[place] = own.queue[place], own.slot[j]
    own.old_sent[place], own.old_arrived[place] = own.sent[j], own.arrived[j]
    own.queue[place], own.slot[j] = j, place
    own.sent[j], own.arrived[j] = begin, at


@compiled(allocates=False)
def accept(own: Sequences) -> None:
    """Let a trial that `evaluate` has finished be the current placement."""
    width = own.kept.shape[1]
    for i in range(own.trial[_LOW] // STEP, len(own.kept)):
        for x in range(width):
            own.kept[i, x] = own.new_kept[i, x]
        own.kept_queued[i] = own.new_kept_queued[i]


@compiled(allocates=False)
def forget(own: Sequences) -> None:
    """Bring back the times of before a trial; `order` is still that of the trial."""
    for i in range(own.trial[_LOW], own.trial[_HIGH]):
        v = own.order[i]
        own.start[v], own.end[v] = own.old_start[i], own.old_end[i]
    for place in range(own.trial[_QUEUED] - 1, own.trial[_JOINED] - 1, -1):
        j = own.queue[place]
        own.queue[place], own.slot[j] = own.old_queue[place], own.old_slot[place]
        own.sent[j], own.arrived[j] = own.old_sent[place], own.old_arrived[place]


def read_off(instance: PlacementInstance, own: Sequences) -> OrderedPlacement:
    """The current placement, just after `begin`, with the sequences of its devices and buses."""
    k, device = instance.devices, own.device.tolist()
    nodes: list[list[int]] = [[] for _ in range(k)]
    for v in own.order.tolist():
        nodes[device[v]].append(v)
    buses: list[dict[tuple[int, ...], list[int]]] = [{} for _ in range(k)]  # targets of each transfer
    for j in own.queue[: own.trial[_QUEUED]].tolist():
        t, target = divmod(j, k)
        move = (t,) if instance.broadcast else (t, target)
        buses[device[own.producer[t]]].setdefault(move, []).append(target)
    moves = [[(move[0], *targets) for move, targets in bus.items()] for bus in buses]
    return OrderedPlacement(instance, own.device.copy(), nodes, moves)


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
    """A placement with an order, as the top of this file writes it."""

    order: Index
    device: Index
    eager: NDArray[np.bool_]
    value: FloatArray  # bytes of overflow, and time


class _Moves(NamedTuple):
    """The last move, to take it back, and the critical chain."""

    last: IntArray  # nodes that changed the device; the node that changed its position, which one; the tensor
    node: IntArray
    device_before: IntArray
    chain: IntArray  # (n,)
    length: IntArray  # (1,) of the chain


@compiled
def walk(
    arrays: SimulatorArrays,
    own: Sequences,
    space: Workspace,
    best: Lane,
    value: FloatArray,
    cooling: Cooling,
    seed: int,
) -> None:
    """Try random moves from the placement in `own`, whose overflow and time are `value`.

    Temperatures are times. A threshold is drawn before a move is tried: the current time and what the temperature
    allows. While devices overflow, time counts for nothing against fewer bytes of overflow.
    """
    np.random.seed(seed)
    n = len(own.order)
    made = _Moves(
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
            _trace(arrays, own, made)
            stale = 0
        first = _propose(arrays, own, made)
        if first == n:
            continue
        limit = value[1] + temperature * -math.log(1.0 - np.random.random())
        time = evaluate(arrays, own, first, limit if value[0] == 0.0 else np.inf)
        over = value[0]
        if arrays.limited and time < np.inf:
            peak_memory(arrays, own.device.astype(np.int64), space)
            over = np.maximum(0.0, space.peak - arrays.memory).sum()
        if time < np.inf and (over < value[0] or (over == value[0] and time <= limit)):
            accept(own)
            value[0], value[1] = over, time
            stale += 1
            if over < best.value[0] or (over == best.value[0] and time < best.value[1]):
                best.order[:], best.device[:], best.eager[:] = own.order, own.device, own.eager
                best.value[:] = value
                stale = _TRACE
        else:
            forget(own)
            _take_back(arrays, own, made)


@compiled(allocates=False)
def _propose(arrays: SimulatorArrays, own: Sequences, made: _Moves) -> int:
    """Make a random move; the first position that it changes, n if it changes nothing."""
    n, k = len(own.order), arrays.devices
    made.last[_COUNT], made.last[_SHIFTED], made.last[_FLIPPED] = 0, -1, -1
    v = np.random.randint(n)
    if np.random.random() < _CRITICAL:
        v = made.chain[np.random.randint(made.length[0])]
    kind = np.random.random()
    if kind < _FLIP or k == 1:
        return _flip(own, made, v) if k > 1 else n
    first = n
    if kind >= _FLIP + _POSITION:
        first = _change_device(arrays, own, made, v)
    if kind < _FLIP + _POSITION + _BOTH:
        first = min(first, _shift(arrays, own, made, v))
    return first


@compiled(allocates=False)
def _flip(own: Sequences, made: _Moves, v: int) -> int:
    """Make a tensor that node `v` reads late or eager."""
    first, last = own.input_start[v], own.input_start[v + 1]
    if first == last:
        return len(own.order)
    t = own.input_tensor[np.random.randint(first, last)]
    u = own.producer[t]
    if own.device[u] == own.device[v]:
        return len(own.order)
    own.eager[t] = not own.eager[t]
    made.last[_FLIPPED] = t
    return own.position[u]


@compiled(allocates=False)
def _change_device(arrays: SimulatorArrays, own: Sequences, made: _Moves, v: int) -> int:
    """Take node `v`, at times with others of its device near it, elsewhere."""
    here, k = own.device[v], arrays.devices
    first, last = own.neighbour_start[v], own.neighbour_start[v + 1]
    there = here
    if first < last and np.random.random() >= _ANYWHERE:
        there = own.device[own.neighbour[np.random.randint(first, last)]]
    if there == here:
        there = (here + 1 + np.random.randint(k - 1)) % k
    changed = _take(arrays, own, made, v, there)
    if np.random.random() < _TOGETHER:
        u = v
        for _ in range(1 + np.random.randint(_LONGEST_CHAIN)):
            first, last = own.neighbour_start[u], own.neighbour_start[u + 1]
            if first == last:
                break
            u = own.neighbour[np.random.randint(first, last)]
            if own.device[u] == here:
                changed = min(changed, _take(arrays, own, made, u, there))
    return changed


@compiled(allocates=False)
def _take(arrays: SimulatorArrays, own: Sequences, made: _Moves, v: int, there: int) -> int:
    """Take one node to a device; the first position that this changes."""
    i = made.last[_COUNT]
    made.last[_COUNT] = i + 1
    made.node[i], made.device_before[i] = v, own.device[v]
    put(arrays, own, v, there)
    first = own.position[v]
    for e in range(own.input_start[v], own.input_start[v + 1]):
        t = own.input_tensor[e]
        if own.eager[t] or arrays.broadcast:
            first = min(first, own.position[own.producer[t]])
    return first


@compiled(allocates=False)
def _shift(arrays: SimulatorArrays, own: Sequences, made: _Moves, v: int) -> int:
    """Take node `v` to another position between its last parent and its first child."""
    n, at = len(own.order), own.position[v]
    low, high = 0, n - 1
    for e in range(own.input_start[v], own.input_start[v + 1]):
        low = max(low, own.position[own.producer[own.input_tensor[e]]] + 1)
    first, last = arrays.output_start[v], arrays.output_start[v + 1]
    for e in range(arrays.reader_start[first], arrays.reader_start[last]):
        high = min(high, own.position[arrays.reader[e]] - 1)
    if np.random.random() >= _FAR:
        low, high = max(low, at - _NEAR), min(high, at + _NEAR)
    there = low + np.random.randint(high - low + 1)
    if there == at:
        return n
    made.last[_SHIFTED], made.last[_POSITION_BEFORE] = v, at
    _insert(own, v, there)
    return min(at, there)


@compiled(allocates=False)
def _insert(own: Sequences, v: int, there: int) -> None:
    at = own.position[v]
    step = 1 if there > at else -1
    for i in range(at, there, step):
        own.order[i] = own.order[i + step]
        own.position[own.order[i]] = i
    own.order[there], own.position[v] = v, there


@compiled(allocates=False)
def _take_back(arrays: SimulatorArrays, own: Sequences, made: _Moves) -> None:
    if made.last[_SHIFTED] >= 0:
        _insert(own, made.last[_SHIFTED], made.last[_POSITION_BEFORE])
    for i in range(made.last[_COUNT] - 1, -1, -1):
        put(arrays, own, made.node[i], made.device_before[i])
    t = made.last[_FLIPPED]
    if t >= 0:
        own.eager[t] = not own.eager[t]


@compiled(allocates=False)
def _trace(arrays: SimulatorArrays, own: Sequences, made: _Moves) -> None:
    """Walk back from a node that ends last, each time to what its start has waited for."""
    n, k = len(own.order), arrays.devices
    v, length = own.order[0], 0
    for u in range(n):
        if own.end[u] > own.end[v]:
            v = u
    while length < n:
        made.chain[length] = v
        length += 1
        before = _waited_for(own, v, k)
        if before < 0:
            break
        v = before
    made.length[0] = length


@compiled(allocates=False)
def _waited_for(own: Sequences, v: int, k: int) -> int:
    """Node after which, or after whose transfer, node `v` starts at once; -1 if it starts at 0."""
    start, d = own.start[v], own.device[v]
    if start == 0.0:
        return -1
    for e in range(own.input_start[v], own.input_start[v + 1]):
        t = own.input_tensor[e]
        u = own.producer[t]
        if own.device[u] == d:
            if own.end[u] == start:
                return u
        elif own.arrived[t * k + d] == start:
            if own.sent[t * k + d] > own.end[u]:  # the bus was busy
                for i in range(own.slot[t * k + d] - 1, -1, -1):
                    other = own.producer[own.queue[i] // k]
                    if own.device[other] == own.device[u]:
                        return other
            return u
    for i in range(own.position[v] - 1, -1, -1):
        if own.device[own.order[i]] == d:
            return own.order[i]
    return -1
