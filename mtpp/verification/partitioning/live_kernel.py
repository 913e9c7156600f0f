"""Tensors that are live while a node runs that does not touch them, in a block built node by node; compiled.

Let w be a node of a block, a set that with two nodes holds all on paths between them. In each order of the block, what
is before w in the graph runs before it. So a tensor is live while w runs if w is before one of its readers in the block
and behind its producer or, where that is outside, behind another reader in the block. All such w lie in the block. The
peak of the block is at least what w touches and all that is live there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from mtpp.verification.partitioning.ideal_records import LiveTensors, NodeSets

__all__ = ["add_reader", "live_in_rest", "remove_reader", "sets_along_edges"]

_WORD = 64
_ONE = np.uint64(1)

_Ints = NDArray[np.int64]
_Inside = NDArray[np.int8]


@compiled
def sets_along_edges(order: _Ints, behind: tuple[_Ints, _Ints], words: int) -> tuple[NodeSets, NodeSets]:
    """The nodes on all paths to each node, and on all paths from it; both without the node."""
    n = len(order)
    to, fro = np.zeros((n, words), np.uint64), np.zeros((n, words), np.uint64)
    if words == 0:
        return to, fro
    for v in order:
        for e in range(behind[0][v], behind[0][v + 1]):
            to[behind[1][e]] |= to[v]
            to[behind[1][e], v // _WORD] |= _ONE << np.uint64(v % _WORD)
    for v in order[::-1]:
        for e in range(behind[0][v], behind[0][v + 1]):
            u = behind[1][e]
            fro[v] |= fro[u]
            fro[v, u // _WORD] |= _ONE << np.uint64(u % _WORD)
    return to, fro


@compiled
def add_reader(v: int, made: _Ints, need: _Ints, live: LiveTensors) -> int:
    """Note what is live at nodes of the block as v, behind them all, joins; the most at one that has more, or 0.

    Its own tensors are those from `made[v]` to `made[v + 1]`.
    """
    most, words = 0, live.passed.shape[1]
    for e in range(live.read[0][v], live.read[0][v + 1]):
        t = live.read[1][e]
        for w in range(words):
            fresh = live.begun[t, w] & live.before[v, w] & ~live.touch[t, w] & ~live.passed[t, w]
            live.fresh[e, w] = fresh
            live.passed[t, w] |= fresh
            live.earlier[e, w] = live.begun[t, w]
            live.begun[t, w] |= live.behind[v, w]
            if fresh:
                for u in range(_WORD * w, min(_WORD * (w + 1), len(need))):
                    if (fresh >> np.uint64(u % _WORD)) & _ONE:
                        live.bytes[u] += live.size[t]
                        most = max(most, need[u] + live.bytes[u])
    for t in range(made[v], made[v + 1] if words > 0 else made[v]):
        for w in range(words):
            live.begun[t, w] = live.behind[v, w]
    return most


@compiled
def remove_reader(v: int, made: _Ints, live: LiveTensors) -> None:
    """Take back what the node brought that joined last."""
    words = live.passed.shape[1]
    for e in range(live.read[0][v], live.read[0][v + 1]):
        t = live.read[1][e]
        for w in range(words):
            fresh = live.fresh[e, w]
            live.passed[t, w] &= ~fresh
            live.begun[t, w] = live.earlier[e, w]
            if fresh:
                for u in range(_WORD * w, min(_WORD * (w + 1), len(live.bytes))):
                    if (fresh >> np.uint64(u % _WORD)) & _ONE:
                        live.bytes[u] -= live.size[t]
    for t in range(made[v], made[v + 1] if words > 0 else made[v]):
        for w in range(words):
            live.begun[t, w] = 0


@compiled
def live_in_rest(inside: _Inside, need: _Ints, live: LiveTensors) -> int:
    """The most live at a node of the block of all nodes that are not inside yet."""
    total = np.zeros(len(need), np.int64)
    for t in range(len(live.size)):
        for w in range(live.passed.shape[1]):
            begun = ends = np.uint64(0)
            for e in range(live.readers[0][t], live.readers[0][t + 1]):
                if inside[live.readers[1][e]] == 0:
                    begun |= live.behind[live.readers[1][e], w]
                    ends |= live.before[live.readers[1][e], w]
            if inside[live.producer[t]] == 0:
                begun = live.behind[live.producer[t], w]
            passed = begun & ends & ~live.touch[t, w]
            if passed:
                for u in range(_WORD * w, min(_WORD * (w + 1), len(need))):
                    if (passed >> np.uint64(u % _WORD)) & _ONE:
                        total[u] += live.size[t]
    most = 0
    for v in range(len(need)):
        if inside[v] == 0:
            most = max(most, need[v] + total[v])
    return most
