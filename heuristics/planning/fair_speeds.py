"""Max-min fair speeds of what shares ports, compiled."""

from __future__ import annotations

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray

__all__ = ["INSTANT", "fair_speeds"]

#: Relative tolerance: times, and loads of ports, that differ by less are equal.
INSTANT = 1e-12


@compiled(allocates=False)
def fair_speeds(
    active: IntArray, count: int, row: IntArray, load: FloatArray, speeds: FloatArray, room: FloatArray
) -> None:
    """Fill in max-min fair speeds of the first `count` machines in `active`; `room` is one number a port."""
    for p in range(len(room)):
        room[p] = 1.0
    for j in range(count):
        speeds[j] = -1.0
    level, left = 0.0, count
    while left > 0:
        step = 1.0 - level
        for p in range(len(room)):
            share = _share(p, active, count, row, load, speeds)
            if share > 0.0 and share * step > room[p]:
                step = max(room[p], 0.0) / share
        level += step
        if level >= 1.0 - INSTANT:
            level = 1.0
        for p in range(len(room)):
            room[p] -= step * _share(p, active, count, row, load, speeds)
        for j in range(count):
            if speeds[j] < 0.0:
                full = level == 1.0
                for p in range(len(room)):
                    full = full or (load[row[active[j]], p] > 0.0 and room[p] <= INSTANT)
                if full:
                    speeds[j] = level
                    left -= 1


@compiled(allocates=False)
def _share(p: int, active: IntArray, count: int, row: IntArray, load: FloatArray, speeds: FloatArray) -> float:
    """Part of a port that is used for each unit of speed by what has no speed yet."""
    share = 0.0
    for j in range(count):
        if speeds[j] < 0.0:
            share += load[row[active[j]], p]
    return share
