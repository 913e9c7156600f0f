"""Times of all stages of a setting, as tables in which runs of the same layers have one entry."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray
from instances.planning.grid.arrays import GridArrays
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.recomputation import Fronts, least_time
from instances.planning.grid.settings import Setting

__all__ = ["STEPS", "StageCosts", "stage_costs"]

#: Steps of a kernel between two looks at the deadline; numbers that a table of times may hold.
STEPS, _NUMBERS = 4_000_000, 1 << 27
#: Steps to find the least recomputation.
_SEARCH = 16


class StageCosts(NamedTuple):
    """Times of all stages of one setting, R runs of layers; infinite where a stage does not fit."""

    run: NDArray[np.int32]  # (L, L + 1): as `Fronts.run`
    tau: FloatArray  # (H, T, R): both passes with h + 1 microbatches held [s]
    floor: FloatArray  # (T, L): both passes of a layer, without what replicas send meanwhile [s]
    floor_forward: FloatArray  # (T, L): forward passes alone [s]
    forward: FloatArray  # (T, R) [s]
    after: FloatArray  # (T, R) [s]
    transfer: FloatArray  # (T, L): one way after each layer, at the best rate [s]
    rooms: FloatArray  # (T, R): bytes for what microbatches keep
    degrees: IntArray  # (T,)


def stage_costs(
    question: GridInstance, arrays: GridArrays, setting: Setting, held: int, deadline: Deadline
) -> StageCosts | None:
    """Times of all stages at the best rates that their sizes allow.

    None if the deadline comes first, or they take too much memory.
    """
    fronts = arrays.fronts(deadline)
    T, L = arrays.output.shape
    if fronts is None or held * T * len(fronts.first) > _NUMBERS:
        return None
    servers, sizes, zero = question.servers, question.state_bytes, setting.zero
    shards = (setting.pipelines * setting.context, setting.pipelines * setting.context // setting.expert)
    kept = [question.state_bytes.kept(zero, one) for one in shards]
    width = arrays.degrees * setting.context
    near = np.array([servers.rate(inside=bool(w * setting.pipelines <= servers.size)) for w in width])
    beside = np.array([servers.rate(inside=bool(w + width[0] <= servers.size)) for w in width])
    i, j = fronts.first.T
    numbers = np.maximum(arrays.parameters[:, :, j] - arrays.parameters[:, :, i], 0.0)  # (2, T, R)
    numbers[0, :, fronts.run[0, L]] -= arrays.tied
    gathered, reduced = sizes.weights * (zero == 3), sizes.gradients * (zero >= 2)
    after, fixed, flow = (np.zeros((T, len(i))) for _ in range(3))
    for one, (D, bytes_kept) in enumerate(zip(shards, kept, strict=True)):
        part = (D - 1) / D / near[:, None]
        flow += numbers[one] * part
        after += numbers[one] * (sizes.summed(zero) * part + question.update_time / (D if zero else 1))
        fixed += numbers[one] * sum(bytes_kept)
    after += np.outer(arrays.tied * sizes.gradients / beside, (i == 0) != (j == L))
    gathering = sum(D > 1 for D in shards) * (zero == 3)
    fixed += 2 * sizes.weights * _largest(arrays.largest, fronts.run, fronts.first) * gathering
    forward, backward = (table[:, j] - table[:, i] for table in (arrays.forward, arrays.backward))
    rooms = question.memory * (1 + 1e-12) - fixed
    passes = np.array([forward, flow * gathered, backward, flow * (gathered + reduced)])
    tau, some = np.full((held, T, len(i)), np.inf), max(1, STEPS // (_SEARCH * held * T))
    for low in range(0, len(i), some):
        if deadline.passed:
            return None
        _times(passes, rooms, arrays.caps, fronts, tau, low, min(low + some, len(i)))
    return StageCosts(
        fronts.run,
        tau,
        floor=_floor(passes, rooms, arrays.caps, fronts),
        floor_forward=np.diff(arrays.forward, axis=1),
        forward=np.maximum(passes[0], passes[1]),
        after=after,
        transfer=arrays.output / beside[:, None],
        rooms=rooms,
        degrees=arrays.degrees,
    )


@compiled
def _largest(sizes: FloatArray, run: NDArray[np.int32], first: IntArray) -> FloatArray:
    """(T, R) largest layer of each run."""
    found = np.zeros((len(sizes), len(first)))
    for one in range(len(first)):
        i, j = first[one]
        for t in range(len(sizes)):
            found[t, one] = max(sizes[t, j - 1], found[t, run[i, j - 1]] if j > i + 1 else 0.0)
    return found


@compiled
def _times(
    passes: FloatArray, rooms: FloatArray, caps: FloatArray, fronts: Fronts, tau: FloatArray, low: int, high: int
) -> None:
    """Put in times of some runs; those of passes come with what replicas send during them."""
    forward, forward_flow, backward, backward_flow = passes
    held, T, _ = tau.shape
    for t in range(T):
        for one in range(low, high):
            for h in range(held):
                again = least_time(fronts, caps, t, one, h + 1, rooms[t, one])
                if again == np.inf:
                    break
                there = max(forward[t, one], forward_flow[t, one])
                tau[h, t, one] = there + max(backward[t, one] + again, backward_flow[t, one])


@compiled
def _floor(passes: FloatArray, rooms: FloatArray, caps: FloatArray, fronts: Fronts) -> FloatArray:
    """(T, L) time of both passes of a layer by itself, without what replicas send."""
    T, L = rooms.shape[0], len(fronts.run)
    floor = np.full((T, L), np.inf)
    for t in range(T):
        for i in range(L):
            one = fronts.run[i, i + 1]
            floor[t, i] = passes[0, t, one] + passes[2, t, one] + least_time(fronts, caps, t, one, 1, rooms[t, one])
    return floor
