"""Annealing of stages in a row, compiled by numba.

A stage is a number of layers and the devices that hold them. The energy for a goal is the sum of the squared parts of
the goal that each stage lacks in capacity, and each pair of neighbours in the most flow between them, source and sink
among them; it is 0 where a flow of the goal may pass. The true flow counts where no term is below the best.
"""

from __future__ import annotations

import math

import numpy as np

from instances.compiled import compiled
from instances.flow.answer import network_of, push_most
from instances.graph.tensors import FloatArray, IntArray

__all__ = ["anneal_stages"]

#: Of the moves: a device to another stage, an exchange of two devices, a layer; the rest changes the row of stages.
_DEVICE, _SWAP, _LAYER = 0.4, 0.35, 0.15


@compiled
def anneal_stages(
    kind: IntArray,
    capacity: FloatArray,
    rates: FloatArray,
    stage: IntArray,
    length: IntArray,
    count: int,
    goal: float,
    best: float,
    moves: int,
    hot: float,
    cold: float,
    seed: int,
) -> tuple[float, IntArray, IntArray]:
    """Try random moves while the temperature falls; the best flow and its intervals, if it is above `best`.

    Parameters
    ----------
    stage : (n,) integers
        Stage of each device, -1 for none; it goes along.
    length : (L,) integers
        Layers of each of the `count` stages, all of them L; it goes along.

    Returns
    -------
    tuple
        The flow, (n, 2) intervals, and how often it was found in one number.
    """
    np.random.seed(seed)
    n, layers = len(kind), len(length)
    found, interval = best, np.zeros((n, 2), dtype=np.int64)
    energy, least = _energy(kind, capacity, rates, stage, length, count, goal)
    new_stage, new_length = stage.copy(), length.copy()
    temperature, cooling = hot, (cold / hot) ** (1.0 / moves)
    hits = np.zeros(1, dtype=np.int64)
    for _ in range(moves):
        temperature *= cooling
        new_stage[:], new_length[:] = stage, length
        new_count = _change(new_stage, new_length, count, layers)
        new_energy, least = _energy(kind, capacity, rates, new_stage, new_length, new_count, goal)
        if new_energy > energy and np.random.random() >= math.exp((energy - new_energy) / temperature):
            continue
        stage[:], length[:], count, energy = new_stage, new_length, new_count, new_energy
        if least > found * (1 + 1e-9):
            table = _intervals(stage, length, count)
            held = np.empty(n)
            for i in range(n):
                held[i] = capacity[kind[i], table[i, 1] - table[i, 0]]
            flow = push_most(network_of(layers, table, held, rates))
            if flow > found:
                found, interval = flow, table
                hits[0] += 1
        if energy <= 0.0:
            break
    return found, interval, hits


@compiled
def _intervals(stage: IntArray, length: IntArray, count: int) -> IntArray:
    begin = np.zeros(count + 1, dtype=np.int64)
    for s in range(count):
        begin[s + 1] = begin[s] + length[s]
    table = np.zeros((len(stage), 2), dtype=np.int64)
    for i in range(len(stage)):
        if stage[i] >= 0:
            table[i, 0], table[i, 1] = begin[stage[i]], begin[stage[i] + 1]
    return table


@compiled
def _change(stage: IntArray, length: IntArray, count: int, layers: int) -> int:
    """Change stages in place; return their new number."""
    n = len(stage)
    draw = np.random.random()
    if draw < _DEVICE:
        stage[np.random.randint(n)] = np.random.randint(count + 1) - 1
        return count
    draw -= _DEVICE
    if draw < _SWAP:
        i, j = np.random.randint(n), np.random.randint(n)
        stage[i], stage[j] = stage[j], stage[i]
        return count
    draw -= _SWAP
    a, b = np.random.randint(count), np.random.randint(count)
    if draw < _LAYER:
        if length[a] > 1 and a != b:
            length[a] -= 1
            length[b] += 1
        return count
    which = np.random.randint(4)
    if which == 0:  # one stage to another place
        _place(stage, length, a, b)
    elif which == 1:  # the stages from one to another in reverse
        low, high = min(a, b), max(a, b)
        for i in range(n):
            if low <= stage[i] <= high:
                stage[i] = low + high - stage[i]
        length[low : high + 1] = length[low : high + 1][::-1].copy()
    elif which == 2:  # one stage in two
        if length[a] > 1 and count < layers:
            for i in range(n):
                if stage[i] > a or (stage[i] == a and np.random.random() < 0.5):
                    stage[i] += 1
            for s in range(count, a + 1, -1):
                length[s] = length[s - 1]
            part = 1 + np.random.randint(length[a] - 1)
            length[a + 1] = length[a] - part
            length[a] = part
            return count + 1
    elif a + 1 < count:  # two stages in one
        for i in range(n):
            if stage[i] > a:
                stage[i] -= 1
        length[a] += length[a + 1]
        for s in range(a + 1, count - 1):
            length[s] = length[s + 1]
        length[count - 1] = 0
        return count - 1
    return count


@compiled
def _place(stage: IntArray, length: IntArray, a: int, b: int) -> None:
    """Move stage a to place b; those between move up."""
    moved = length[a]
    step = 1 if b > a else -1
    for s in range(a, b, step):
        length[s] = length[s + step]
    length[b] = moved
    for i in range(len(stage)):
        if stage[i] == a:
            stage[i] = b
        elif (a < stage[i] <= b) or (b <= stage[i] < a):
            stage[i] -= step


@compiled
def _energy(
    kind: IntArray, capacity: FloatArray, rates: FloatArray, stage: IntArray, length: IntArray, count: int, goal: float
) -> tuple[float, float]:
    """Energy for a goal, and the least term."""
    n = len(kind)
    start = np.zeros(count + 2, dtype=np.int64)
    for i in range(n):
        start[stage[i] + 2] += 1
    for s in range(count + 1):
        start[s + 1] += start[s]
    members, fill = np.empty(n, dtype=np.int64), start.copy()
    for i in range(n):
        members[fill[stage[i] + 1]] = i
        fill[stage[i] + 1] += 1
    held = np.zeros(n)
    energy, least = 0.0, np.inf
    for s in range(count):
        total = 0.0
        for x in range(start[s + 1], start[s + 2]):
            i = members[x]
            held[i] = capacity[kind[i], length[s]]
            total += held[i]
        least = min(least, total)
        lack = max(0.0, 1.0 - total / goal)
        energy += lack * lack
    for s in range(count + 1):
        total = 0.0
        if s == 0:  # from the source, the last but one row of rates
            for x in range(start[1], start[2]):
                total += min(held[members[x]], rates[n, members[x]])
        elif s == count:  # into the sink, the last column
            for x in range(start[count], start[count + 1]):
                total += min(held[members[x]], rates[members[x], n + 1])
        else:
            total = _between(members[start[s] : start[s + 1]], members[start[s + 1] : start[s + 2]], held, rates, goal)
        least = min(least, total)
        lack = max(0.0, 1.0 - total / goal)
        energy += lack * lack
    return energy, least


@compiled
def _between(left: IntArray, right: IntArray, held: FloatArray, rates: FloatArray, goal: float) -> float:
    """Most flow from some devices to others; where no link is a limit, the smaller capacity."""
    a, b = 0.0, 0.0
    free = True
    for i in left:
        a += held[i]
        for j in right:
            free &= rates[i, j] >= min(held[i], held[j])
    for j in right:
        b += held[j]
    if free or a <= 0.0 or b <= 0.0:
        return min(a, b)
    if len(left) == 1 or len(right) == 1:
        total = 0.0
        for i in left:
            for j in right:
                total += min(rates[i, j], min(held[i], held[j]))
        return min(total, min(a, b))
    size = len(left) + len(right)
    arcs = np.zeros((size + 2, size + 2))
    for x in range(len(left)):
        arcs[0, 2 + x] = held[left[x]]
        for y in range(len(right)):
            arcs[2 + x, 2 + len(left) + y] = rates[left[x], right[y]]
    for y in range(len(right)):
        arcs[2 + len(left) + y, 1] = held[right[y]]
    return push_most(arcs)
