"""Hill climbing and simulated annealing on placements, with one simulation for each move."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from heuristics.limits import Limits
from heuristics.local_search.cooling import Cooling, factor_of
from heuristics.placement.simulator import SimulatorArrays, penalised, workspace
from instances.compiled import compiled
from instances.deadline import CLOCK
from instances.graph.tensors import FloatArray, IntArray, compressed_rows
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

__all__ = ["anneal_placement", "climb"]

#: The walk cools down from `_HOT` to `_COLD`, in work of the whole graph.
_HOT, _COLD = 0.02, 0.0002
#: Part of the moves that take a node to a device at random, and that take a successor along.
_ANYWHERE, _TOGETHER = 0.1, 0.3
#: Simulations between two looks at the limits.
_CHUNK = 1000


def anneal_placement(
    instance: PlacementInstance,
    rng: np.random.Generator,
    limits: Limits | None = None,
    *,
    start: Placement | None = None,
    simulations: int = 100_000,
    hot: float = _HOT,
    cold: float = _COLD,
) -> Placement:
    """Move nodes, at times with a successor, to devices of their neighbours under simulated annealing.

    Parameters
    ----------
    limits : Limits, optional
        An evaluation is a simulation, a target a step time. A walk that would take too long cools down faster.
    start : Placement, optional
        By default all nodes on device 0.
    simulations : int
        How many at most.
    hot, cold : float
        First and last temperature, in work of the whole graph; at 0 only moves that make nothing worse are kept.

    Returns
    -------
    Placement
        With a penalised time no larger than that of `start`.
    """
    limits = limits or Limits()
    graph, arrays = instance.graph, SimulatorArrays.of(instance)
    ends = np.concatenate((graph.edges, graph.edges[:, ::-1]))
    rows = (*graph.successors, *compressed_rows(ends[:, 0], ends[:, 1], graph.n))
    device = np.zeros(graph.n, dtype=np.int64) if start is None else start.device.copy()
    best = device.copy()
    value = np.full(2, penalised(arrays, device, workspace(arrays)))  # of the walk, and the best one
    moves, done = limits.allow(simulations) - 1 if instance.devices > 1 else 0, 0
    begin = CLOCK.now()
    while done < moves and not limits.reached(float(value[1]) * instance.total_work):
        chunk = min(_CHUNK, moves - done)
        cooling = Cooling(moves, hot, cold).part(done, chunk)
        _walk(arrays, rows, device, best, value, cooling, int(rng.integers(2**31)))
        done += chunk
        if limits.deadline.left < math.inf:
            moves = min(moves, done + int(done / max(1e-9, CLOCK.now() - begin) * limits.deadline.left))
    return Placement(instance, best)


#: As `anneal_placement`, but keep only moves that do not make the placement worse.
climb = partial(anneal_placement, hot=0.0, cold=0.0)


@compiled
def _walk(
    arrays: SimulatorArrays,
    rows: tuple[IntArray, IntArray, IntArray, IntArray],
    device: IntArray,
    best: IntArray,
    value: FloatArray,
    cooling: Cooling,
    seed: int,
) -> None:
    """Try random moves; update `device`, the best placement so far in `best`, and the times of both in `value`."""
    np.random.seed(seed)
    successor_start, successor, neighbour_start, neighbour = rows
    space = workspace(arrays)
    n, k = len(device), arrays.devices
    temperature, factor = cooling.hot, factor_of(cooling)
    for _ in range(cooling.moves):
        temperature *= factor
        v = np.random.randint(n)
        there = _destination(v, k, device, neighbour_start, neighbour)
        w = v
        if np.random.random() < _TOGETHER and successor_start[v] < successor_start[v + 1]:
            w = successor[np.random.randint(successor_start[v], successor_start[v + 1])]
        old_v, old_w = device[v], device[w]
        device[v] = device[w] = there
        after = penalised(arrays, device, space)
        if after <= value[0] + temperature * -np.log(1.0 - np.random.random()):
            value[0] = after
            if after < value[1]:
                value[1] = after
                best[:] = device
        else:
            device[v], device[w] = old_v, old_w


@compiled
def _destination(v: int, k: int, device: IntArray, neighbour_start: IntArray, neighbour: IntArray) -> int:
    """Another device for node v: that of a neighbour, or any one."""
    first, last = neighbour_start[v], neighbour_start[v + 1]
    if first < last and np.random.random() >= _ANYWHERE:
        there = device[neighbour[np.random.randint(first, last)]]
        if there != device[v]:
            return there
    return (device[v] + 1 + np.random.randint(k - 1)) % k
