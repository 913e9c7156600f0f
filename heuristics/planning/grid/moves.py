"""All plans of small questions, and changes of plans of large ones.

A layer moves from one stage to another, or two stages of different tensor degrees change places.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np

from instances.planning.grid.arrays import GridArrays
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.settings import Setting

__all__ = ["Stages", "dealt", "every_plan", "exchanged", "moved", "moves_of"]

#: Plans of a setting with one stage a device, up to which all are tried.
_ALL = 1000

#: Cuts of stages, and the tensor degree of each group.
Stages = tuple[tuple[int, ...], tuple[int, ...]]


def every_plan(question: GridInstance, arrays: GridArrays, setting: Setting) -> list[Stages] | None:
    """Cuts and tensor degrees of all plans of a setting, in turns as well; None if they are many."""
    L, T = question.layers, len(arrays.degrees)
    M = question.global_batch // (setting.pipelines * setting.micro_batch)
    K = question.servers.devices // (setting.pipelines * setting.context)
    if T * (1 + T) ** (L - 1) > _ALL:
        return None
    shapes = [(C, S) for C in range(1, L + 1) for S in range(1, C + 1) if C == S or (S > 1 and C % S == 0 == M % S)]
    return [
        ((0, *inner, L), tensor)
        for C, S in shapes
        for tensor in product(arrays.degrees.tolist(), repeat=S)
        if sum(tensor) <= K
        for inner in combinations(range(1, L), C - 1)
    ]


def moves_of(cuts: tuple[int, ...], pair: tuple[int, int]) -> tuple[int, ...] | None:
    """Cuts after a layer has gone from one stage to another, past those between; None if the stage would be empty."""
    source, target = pair
    if cuts[source + 1] - cuts[source] < 2:
        return None
    step = 1 if source > target else -1
    low, high = min(pair) + 1, max(pair)
    return (*cuts[:low], *(cut + step for cut in cuts[low : high + 1]), *cuts[high + 1 :])


def moved(stages: Stages, pair: tuple[int, int]) -> Stages | None:
    """The same with degrees, which stay as they are."""
    cuts = moves_of(stages[0], pair)
    return None if cuts is None else (cuts, stages[1])


def exchanged(stages: Stages, pair: tuple[int, int]) -> Stages | None:
    """Stages after two have changed places, each with its number of layers; None if that changes no tensor degree."""
    cuts, tensor = stages
    one, other = pair
    if len(cuts) > len(tensor) + 1 or tensor[one] == tensor[other]:
        return None
    counts, degrees = np.diff(cuts).tolist(), list(tensor)
    for values in (counts, degrees):
        values[one], values[other] = values[other], values[one]
    return (0, *np.cumsum(counts).tolist()), tuple(degrees)


def dealt(cuts: tuple[int, ...], turns: int) -> tuple[int, ...]:
    """Cuts of stages in turns, each group with as many layers as before."""
    counts = np.diff(cuts)
    rows = counts // turns + (np.arange(turns)[:, None] < counts % turns)
    return (0, *np.cumsum(rows).tolist())
