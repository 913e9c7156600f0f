"""Moves of `ordered_pass`, and walks that keep them or take them back, compiled by numba.

A move takes a node, at times with a chain of neighbours, to the device of a neighbour, to another position between its
last parent and its first child, or both; or it makes a tensor late or eager. Half of the nodes are drawn from the
critical chain, whose nodes and transfers follow each other without a pause up to the end of the step.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heuristics.local_search.cooling import Cooling, factor_of
from heuristics.placement.arrays import SimulatorArrays, Workspace
from heuristics.placement.ordered_simulator import Index, Sequences, accept, evaluate, forget, put
from heuristics.placement.peak_memory import peak_memory
from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray

__all__ = ["Lane", "walk"]

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
    """A placement with an order, as `ordered_pass` writes it."""

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
