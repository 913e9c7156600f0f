"""Cuts of a chain for rivals: by number of layers, by the slowest part, and by PipeDream's levels."""

from __future__ import annotations

import numpy as np

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.planning import LayerChain

__all__ = ["even_counts", "hierarchical_split", "min_max_split"]


def even_counts(total: int, parts: int) -> list[int]:
    """Even whole numbers: they add up to `total` and differ by at most one, the larger ones first."""
    return [total // parts + (part < total % parts) for part in range(parts)]


def min_max_split(times: FloatArray, parts: int) -> list[int]:
    """Cut a list into consecutive parts, none empty, of least largest sum; among ties cut later."""
    n = len(times)
    sums = np.concatenate(([0.0], np.cumsum(times)))
    best = np.concatenate(([0.0], np.full(n, np.inf)))
    choices = []
    for _ in range(parts):
        cost = np.maximum(best[:, None], sums - sums[:, None])
        cost[np.tril_indices(n + 1)] = np.inf
        choices.append(n - np.argmin(cost[::-1], axis=0))
        best = cost.min(axis=0)
    cuts = [n]
    for choice in reversed(choices):
        cuts.append(int(choice[cuts[-1]]))
    return cuts[::-1]


def hierarchical_split(
    chain: LayerChain, microbatches: int, servers: int, size: int, within: float, between: float
) -> list[tuple[int, int, list[tuple[int, int]]]]:
    """PipeDream's dynamic program in two levels, with one AllReduce an iteration.

    At each level, A(i, j, m), the time of the layers from i to before j on m units, is the least of one stage on all
    of them and of ``max(A(i, k, m - q), transfer at k, stage from k on q units)``. A stage on q units takes a q-th of
    the time on one, and its AllReduce. A unit is a device, then a server; a transfer counts once, however many units
    share it. On ties the last stage has the fewest layers, then the fewest units.

    Parameters
    ----------
    servers, size : int
        Number of servers, and devices in each.
    within, between : float
        Bandwidth of all links in a server, and between servers [bytes/s].

    Returns
    -------
    list of (int, int, list of (int, int))
        Of each stage of the upper level the layer after it, its servers, and of each of its inner stages the layer
        after it and its devices in a server.
    """
    sums = np.concatenate(([0.0], np.cumsum(chain.forward + chain.backward)))
    params = np.concatenate(([0.0], np.cumsum(chain.param_bytes)))
    crossing = microbatches * np.concatenate(([0.0], chain.forward_bytes + chain.backward_bytes))
    inner, *inner_choice = _level(microbatches * (sums - sums[:, None]), params, crossing, size, within)
    _, *outer_choice = _level(np.ascontiguousarray(inner[:, :, size]), params, crossing, servers, between)
    stages, start = [], 0
    for end, units in _stages(0, chain.n, servers, *outer_choice):
        stages.append((end, units, _stages(start, end, size, *inner_choice)))
        start = end
    return stages


def _stages(i: int, j: int, units: int, cut: IntArray, last: IntArray) -> list[tuple[int, int]]:
    stages = []
    while j > i:
        stages.append((j, int(last[i, j, units])))
        j, units = int(cut[i, j, units]), units - stages[-1][1]
    return stages[::-1]


@compiled(error_model="numpy")
def _level(
    time: FloatArray, params: FloatArray, crossing: FloatArray, units: int, bandwidth: float
) -> tuple[FloatArray, IntArray, IntArray]:
    """``A(i, j, m)`` with the place of the last cut and the units of the last stage."""
    L = len(time) - 1
    best = np.full((L + 1, L + 1, units + 1), np.inf)
    cut = np.zeros((L + 1, L + 1, units + 1), dtype=np.int64)
    last = np.zeros((L + 1, L + 1, units + 1), dtype=np.int64)
    stage = np.full((L + 1, L + 1, units + 1), np.inf)
    for i in range(L - 1, -1, -1):
        for j in range(i + 1, L + 1):
            stage[i, j, 1] = time[i, j]
            for m in range(2, units + 1):
                stage[i, j, m] = time[i, j] / m + 2 * (m - 1) * (params[j] - params[i]) / (m * bandwidth)
            for m in range(1, units + 1):
                best[i, j, m], cut[i, j, m], last[i, j, m] = stage[i, j, m], i, m
                for k in range(j - 1, i, -1):
                    for q in range(1, m):
                        value = max(best[i, k, m - q], crossing[k] / bandwidth, stage[k, j, q])
                        if value < best[i, j, m]:
                            best[i, j, m], cut[i, j, m], last[i, j, m] = value, k, q
    return best, cut, last
