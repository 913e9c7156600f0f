"""Prove in integers, by enumerating branches, that no assignment of layers to devices lets a flow pass.

Capacities and rates are parts of the flow, rounded up. A branch assigns layers to some devices, and leaves the others
open. It ends where a cut between source and sink has less capacity than the flow; an open device has all arcs that any
of its layers may use. The cut is checked, however it was computed. A branch also ends where the capacity for a layer,
or for all layers together, is less than the flow needs. Devices of a kind with the same links take their layers in one
order alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.flow.problem import SINK, SOURCE
from mtpp.verification.flow.question import ExactFlow
from mtpp.verification.verdict import Clock

#: The flow, in parts; a sum of those of 256 devices and 4096 layers is below 2^63.
FLOW = 2**40

# Entries of arcs that are filled in between two looks at the clock.
_CHUNK = 20_000_000

_Ints = NDArray[np.int64]


class Question(NamedTuple):
    """Capacities and rates as fractions of the flow to exclude, with devices in the order of branching."""

    capacity: _Ints  # (n, L + 1) of each device, by number of layers
    rate: _Ints  # (n + 2, n + 2) of links; source and sink are the last two
    follows: NDArray[np.bool_]  # (n,) whether a device has the kind and the links of the one before it
    longest: int  # devices that a request may pass


def excludes_all(instance: ExactFlow, flow: Fraction, clock: Clock) -> int | None:
    """Number of branches that prove that the flow cannot pass; None if some assignment of layers may let it pass.

    Raises
    ------
    OutOfTimeError
    """
    question = _question(instance, flow, clock)
    n = len(question.capacity)
    if n == 0:
        return 0
    count, begin = np.full(n, -1), np.zeros(n, dtype=np.int64)
    depth, looked_at, chunk = 0, 0, 1 + _CHUNK // (2 * n + 2) ** 2
    while depth >= 0:
        clock.raise_if_late()
        depth, branches = look_at(question, count, begin, depth, chunk)
        looked_at += branches
        if depth == n:
            return None
    return looked_at


def _question(instance: ExactFlow, flow: Fraction, clock: Clock) -> Question:
    """The question on devices that can hold layers, the largest capacities first, interchangeable devices in a row."""
    n, kind, rates = instance.n, instance.kind, np.array(instance.rates)

    def parts(rows: Sequence[Sequence[float | Fraction]]) -> _Ints:
        return np.array([[int(min(FLOW, -(-Fraction(rate) * FLOW // flow))) for rate in row] for row in rows])

    def are_alike(i: int, j: int) -> bool:
        clock.raise_if_late()
        place = list(range(n + 2))
        place[i], place[j] = j, i
        return kind[i] == kind[j] and bool((rates[place][:, place] == rates).all())

    capacity = parts(instance.capacity)[kind]
    carried = (capacity * np.arange(instance.layers + 1)).max(axis=1).tolist()
    order: list[int] = []
    follows: list[bool] = []
    for first in sorted(range(n), key=lambda i: -carried[i]):
        if first not in order and carried[first] > 0:
            alike = [j for j in range(n) if j != first and j not in order and are_alike(first, j)]
            order += [first, *alike]
            follows += [False, *[True] * len(alike)]
    place = [*order, n + SOURCE, n + SINK]
    longest = n if instance.longest_path is None else instance.longest_path
    return Question(capacity[order], parts(instance.rates)[place][:, place].copy(), np.array(follows), longest)


@compiled
def look_at(question: Question, count: _Ints, begin: _Ints, depth: int, branches: int) -> tuple[int, int]:
    """Explore at most `branches` branches from where the last call ended.

    Parameters
    ----------
    count, begin : (n,) integers
        Number of layers and first layer of each device: those assigned before `depth`, and the last ones tried at
        `depth`, -1 layers before the first. They are updated in place.

    Returns
    -------
    tuple
        The depth: -1 after all branches, n where an assignment to all devices may let the flow pass; and the number of
        branches explored.
    """
    n, layers = len(count), question.capacity.shape[1] - 1
    arcs = np.zeros((2 * n + 2, 2 * n + 2), dtype=np.int64)
    done = 0
    while 0 <= depth < n and done < branches:
        if not _next_layers(question.capacity[depth], count, begin, depth, question.longest < n):
            depth -= 1
            continue
        done += 1
        if question.longest < n and _passes_more(question, count, begin, depth + 1):
            continue
        if _lacks_layers(question.capacity, count, begin, depth + 1):
            continue
        _draw_arcs(question, count, begin, depth + 1, layers, arcs)
        if _has_small_cut(arcs):
            continue
        depth += 1
        if depth < n:
            count[depth], begin[depth] = -1, 0
            if question.follows[depth] and count[depth - 1] > 0:
                count[depth], begin[depth] = count[depth - 1], begin[depth - 1] - 1
    return depth, done


@compiled
def _next_layers(capacity: _Ints, count: _Ints, begin: _Ints, i: int, idle: bool) -> bool:
    """Assign the next layers to device i, fewer layers first, none if it may be idle; False after the last.

    A device that holds layers lets no less pass than an idle one, but makes paths longer.
    """
    layers = len(capacity) - 1
    if count[i] > 0 and begin[i] + count[i] < layers:
        begin[i] += 1
        return True
    for c in range(count[i] + 1, layers + 1):
        if capacity[c] > 0 or (idle and c == 0):
            count[i], begin[i] = c, 0
            return True
    return False


@compiled
def _passes_more(question: Question, count: _Ints, begin: _Ints, given: int) -> bool:
    """Whether some path through devices before `given` is longer than a request may pass."""
    n = len(count)
    passed = np.zeros(given, dtype=np.int64)  # devices on the longest way from the source through each
    for _ in range(given):
        for i in range(given):
            if count[i] <= 0:
                continue
            if begin[i] == 0:
                passed[i] = 1 if question.rate[n, i] > 0 else 0
            for j in range(given):
                if count[j] > 0 and passed[j] > 0 and begin[j] + count[j] == begin[i] and question.rate[j, i] > 0:
                    passed[i] = max(passed[i], passed[j] + 1)
    for i in range(given):
        at_end = count[i] > 0 and begin[i] + count[i] == question.capacity.shape[1] - 1
        if at_end and question.rate[i, n + 1] > 0 and passed[i] > question.longest:
            return True
    return False


@compiled
def _lacks_layers(capacity: _Ints, count: _Ints, begin: _Ints, given: int) -> bool:
    """Whether the capacity for a layer, or for all, is below the flow, whatever the devices from `given` on hold."""
    n, layers = capacity.shape[0], capacity.shape[1] - 1
    apart, together = 0, 0
    for i in range(given, n):
        fastest, carried = 0, 0
        for c in range(1, layers + 1):
            fastest = max(fastest, capacity[i, c])
            carried = max(carried, c * capacity[i, c])
        apart, together = apart + fastest, together + carried
    needed = 0
    for layer in range(layers):
        passed = 0
        for i in range(given):
            if begin[i] <= layer < begin[i] + count[i]:
                passed += capacity[i, count[i]]
        if passed + apart < FLOW:
            return True
        needed += max(0, FLOW - passed)
    return together < needed


@compiled
def _draw_arcs(question: Question, count: _Ints, begin: _Ints, given: int, layers: int, arcs: _Ints) -> None:
    """Set the capacities between source 0, sink 1 and both sides of each device; devices from `given` on are open."""
    n = len(count)
    arcs[:] = 0
    for i in range(n):
        into, out = 2 * i + 2, 2 * i + 3
        if i >= given:
            arcs[into, out] = question.capacity[i].max()
            arcs[0, into], arcs[out, 1] = question.rate[n, i], question.rate[i, n + 1]
        elif count[i] > 0:
            arcs[into, out] = question.capacity[i, count[i]]
            if begin[i] == 0:
                arcs[0, into] = question.rate[n, i]
            if begin[i] + count[i] == layers:
                arcs[out, 1] = question.rate[i, n + 1]
        for j in range(n):
            if i >= given and j >= given:
                joined = True
            elif i >= given:
                joined = begin[j] > 0
            elif j >= given:
                joined = begin[i] + count[i] < layers
            else:
                joined = begin[i] + count[i] == begin[j]
            if joined and i != j:
                arcs[out, 2 * j + 2] = question.rate[i, j]


@compiled
def _has_small_cut(arcs: _Ints) -> bool:
    """Whether a cut between source and sink has less capacity than the flow.

    The cut comes from augmenting paths; its capacity is then summed from the arcs.
    """
    size = len(arcs)
    left, came, reached = arcs.copy(), np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    pushed = 0
    while pushed < FLOW:
        came[:] = -1
        came[0], reached[0], last, next_one = 0, 0, 1, 0
        while next_one < last:
            u = reached[next_one]
            next_one += 1
            for v in range(size):
                if came[v] < 0 and left[u, v] > 0:
                    came[v], reached[last] = u, v
                    last += 1
        if came[1] < 0:
            cut = 0
            for u in range(size):
                for v in range(size):
                    if came[u] >= 0 and came[v] < 0:
                        cut += arcs[u, v]
            return cut < FLOW
        least, v = FLOW, 1
        while v != 0:
            least, v = min(least, left[came[v], v]), came[v]
        v = 1
        while v != 0:
            left[came[v], v] -= least
            left[v, came[v]] += least
            v = came[v]
        pushed += least
    return False
