"""Search for layers of devices with a large flow: stages in a row, annealed towards goals above the best."""

from __future__ import annotations

import math

import numpy as np

from heuristics.flow.kernels import DeviceArrays, anneal_stages
from heuristics.limits import Limits
from heuristics.local_search.cooling import Cooling
from instances import Result
from instances.deadline import Stopwatch
from instances.flow.answer import FlowAnswer
from instances.flow.problem import SOURCE, FlowInstance
from instances.graph.tensors import IntArray

__all__ = ["search_flow"]

# Goals lie this far above the best, from the least to the most.
_LEAST, _MOST = 0.02, 0.15
# Moves of the first walk, by which each is longer than the one before; those of the longest, and of all of them where
# nothing is limited; moves between two looks at the clock.
_FIRST, _LONGEST, _ALL_MOVES, _CHUNK = 60_000, 600_000, 900_000, 5_000
_HOT, _COLD = 0.003, 2e-5
# Numbers of stages of about equal length whose flows are computed.
_EVEN = 4
# Part of the starts where each device is a stage by itself, as far as that reaches.
_ALONE = 0.7


def search_flow(
    instance: FlowInstance, rng: np.random.Generator, limits: Limits | None = None, start: FlowAnswer | None = None
) -> Result[FlowInstance, FlowAnswer]:
    """Best answer that is found; None where no request can pass.

    Parameters
    ----------
    limits : Limits, optional
        An evaluation is a move; a target is a time for a request.
    start : FlowAnswer, optional
        The answer is no worse.
    """
    limits, watch = limits or Limits(), Stopwatch()
    if (reason := instance.unreachable()) is not None:
        return Result("annealing", instance, impossible=reason)
    best = max((start, _even_stages(instance)), key=lambda one: one.flow if one is not None else 0.0)
    best = best if best is not None and best.flow > 0 else None
    unlimited = limits.evaluations is None and limits.deadline.left == math.inf
    left = _ALL_MOVES if unlimited else math.inf if limits.evaluations is None else limits.evaluations
    guess = float(
        (instance.capacity * np.arange(instance.layers + 1)).max(axis=1)[instance.kind].sum() / instance.layers
    )
    tries = 0
    while left > 0 and not limits.reached(math.inf if best is None else best.cost):
        # The first goals fall; before anything is found, again and again.
        raised = 1 + math.exp(float(rng.uniform(math.log(_LEAST), math.log(_MOST))))
        fallen = guess * 0.8 ** (1 + (tries % 12 if best is None else tries))
        goal = fallen if best is None else max(fallen, best.flow * raised)
        tries += 1
        moves = int(min(_FIRST * tries, _LONGEST, left))
        found = _walk(instance, goal, 0.0 if best is None else best.flow, moves, rng, limits)
        left -= moves
        if found is not None and (best is None or found.flow > best.flow):
            best = found
    spent, interrupted = watch.seconds(search=watch.passed), limits.deadline.interrupted.is_set()
    return Result("annealing", instance, best, seconds=spent, interrupted=interrupted)


def _even_stages(instance: FlowInstance) -> FlowAnswer:
    """Stages with nearly as many layers each, to the weakest of which each device goes, the fastest first.

    Of the numbers of stages whose weakest one is strongest, the one with the largest flow.
    """
    n, layers, tried = instance.n, instance.layers, list[tuple[float, IntArray]]()
    for count in range(1, min(n, layers) + 1):
        ends = np.arange(count + 1) * layers // count
        served = instance.capacity[instance.kind][:, np.diff(ends)]  # of each device in each stage
        held, interval = np.zeros(count), np.zeros((n, 2), dtype=np.int64)
        for i in np.argsort(-served.max(axis=1), kind="stable").tolist():
            s = int(np.argmin(np.where(served[i] > 0, held, np.inf)))
            if served[i, s] > 0:
                held[s] += served[i, s]
                interval[i] = ends[s], ends[s + 1]
        tried.append((float(held.min()), interval))
    tried.sort(key=lambda one: -one[0])
    return max((FlowAnswer(instance, interval) for _, interval in tried[:_EVEN]), key=lambda one: one.flow)


def _walk(
    instance: FlowInstance, goal: float, best: float, moves: int, rng: np.random.Generator, limits: Limits
) -> FlowAnswer | None:
    """An answer above the best flow from one walk towards a goal, if it finds one."""
    stage, length, count = _start(instance, goal, rng)
    devices = DeviceArrays(instance.kind.copy(), instance.capacity.copy(), instance.rates.copy())
    done, found = 0, None
    while done < moves and not limits.deadline.passed:
        chunk = min(_CHUNK, moves - done)
        cooling, seed = Cooling(moves, _HOT, _COLD).part(done, chunk), int(rng.integers(2**31))
        flow, interval, hits = anneal_stages(devices, stage, length, count, goal, best, cooling, seed)
        count = int((length > 0).sum())
        if hits[0]:
            found, best = FlowAnswer(instance, interval), flow
        if best >= goal:
            break
        done += chunk
    return found


def _start(instance: FlowInstance, goal: float, rng: np.random.Generator) -> tuple[IntArray, IntArray, int]:
    """Stages in a row: of single devices with as many layers as reach the goal, along links; or at random."""
    n, layers = instance.n, instance.layers
    reach = [int(np.flatnonzero(row >= goal).max(initial=0)) for row in instance.capacity]
    stage, length, count = np.full(n, -1), np.zeros(layers, dtype=np.int64), 0
    if rng.random() < _ALONE:
        for i in _along_links(instance, goal, rng):
            size = min(reach[instance.kind[i]], layers - int(length.sum()))
            if size > 0:
                stage[i], length[count] = count, size
                count += 1
    if count == 0:
        count = int(rng.integers(1, min(n, layers) + 1))
        length[:count] = 1
    while (missing := layers - int(length.sum())) > 0:
        length[rng.integers(count)] += min(missing, 1 + missing // (4 * count))
    idle = np.flatnonzero(stage < 0)
    stage[idle] = rng.integers(count, size=len(idle))
    return stage, length, count


def _along_links(instance: FlowInstance, goal: float, rng: np.random.Generator) -> list[int]:
    """All devices, each linked to the one before it by the goal or more, as far as a random walk gets; so are sites."""
    n = instance.n
    enough = instance.rates >= min(goal, float(instance.rates[:n, :n].max(initial=0.0)))
    order, left, near = list[int](), np.ones(n, dtype=np.bool_), enough[n + SOURCE, :n]
    while len(order) < n:
        to = np.flatnonzero(left & near) if (left & near).any() else np.flatnonzero(left)
        order.append(int(rng.choice(to)))
        left[order[-1]] = False
        near = enough[order[-1], :n]
    return order
