"""Search for placements of layers on devices with a large flow of requests."""

from __future__ import annotations

import math

import numpy as np

from heuristics.flow.stages import DeviceArrays, anneal_intervals, anneal_stages
from heuristics.local_search.annealing import Cooling
from heuristics.method import Limits
from instances import Result
from instances.deadline import Stopwatch
from instances.flow.answer import FlowAnswer, longest_path
from instances.flow.problem import SOURCE, FlowInstance
from instances.graph.tensors import FloatArray, IntArray

# Search for layers of devices with a large flow: stages in a row, annealed towards goals above the best; now and then
# those of two parts of the devices side by side; and any layers of each device, from there on.


# Goals lie this far above the best, from the least to the most.
_LEAST, _MOST = 0.02, 0.15
# Goals that fall, where no answer is there to rise from.
_FALLS = 12
# Moves of the first walk, by which each is longer than the one before; those of the longest, and of all of them where
# nothing is limited; moves between two looks at the clock.
_FIRST, _LONGEST, _ALL_MOVES, _CHUNK = 60_000, 600_000, 900_000, 5_000
_HOT, _COLD = 0.003, 2e-5
# Numbers of stages of about equal length whose flows are computed.
_EVEN = 4
# Walks in a row, one of which is of two parts; moves of stages that one of any layers takes the time of, by devices.
_TURNS, _MOVES_OF_INTERVALS = 5, 1
# Temperatures of walks with any layers, from the least to the most, and how far each falls.
_COOL, _WARM, _FALL = 0.004, 0.2, 20.0
# Numbers of batches in flight, and ticks and rounds with each, whose layers together are counted, by so many halves.
_NUMBERS, _TICKS, _ROUNDS, _HALVES = 8, 8, 3, 14
# Moves of the first search for a group, and walks of it; how fast a tick is taken from the best, how often near that of
# the best answer, and how many ticks away from it.
_FIRST_OF_TICK, _WALKS, _NEXT, _NEAR_BEST, _AWAY = 60_000, 6, 0.3, 0.5, 2.0
# Of the searches for groups: those of all devices, of one group where there may be two, and of kinds one by one.
_ALL_ANEW, _UNDIVIDED, _BY_KIND = 0.3, 0.5, 0.7
# Part of the starts where each device is a stage by itself, as far as that reaches.
_ALONE = 0.7


def search_flow(
    instance: FlowInstance, rng: np.random.Generator, limits: Limits | None = None, start: FlowAnswer | None = None
) -> Result[FlowInstance, FlowAnswer]:
    """Search for the placement of layers with the largest flow; the answer is None if no request can pass.

    Parameters
    ----------
    limits : Limits, optional
        An evaluation is a move; the target is a time per request, 1 over the flow.
    start : FlowAnswer, optional
        The answer is no worse.
    """
    limits, watch = limits or Limits(), Stopwatch()
    if (reason := instance.unreachable()) is not None:
        return Result("annealing", instance, impossible=reason)
    search = _search_layers if instance.steps is None else _search_groups
    best = search(instance, rng, limits, start)
    spent, interrupted = watch.seconds(search=watch.passed), limits.deadline.interrupted.is_set()
    return Result("annealing", instance, best, seconds=spent, interrupted=interrupted)


def _search_groups(
    instance: FlowInstance, rng: np.random.Generator, limits: Limits, start: FlowAnswer | None
) -> FlowAnswer | None:
    """Search for groups of devices that step together, starting from several divisions and redrawing them."""
    unlimited = limits.evaluations is None and limits.deadline.left == math.inf
    remaining = _ALL_MOVES if unlimited else math.inf if limits.evaluations is None else limits.evaluations
    everything, best, moves = np.arange(instance.n), start, _FIRST_OF_TICK
    while best is None or (remaining > 0 and not limits.reached(best.cost)):  # there is an answer, however late it is
        allowed = int(min(moves, remaining))
        free, kept = everything, best
        if best is None or rng.random() < _ALL_ANEW:
            kept = None
        else:  # those of one or two groups, and what idles
            numbers = rng.permutation(np.unique(best.group))[: 1 + rng.integers(2)]
            free = everything[np.isin(best.group, numbers) | (best.interval[:, 0] == best.interval[:, 1])]
        cut = 0 if best is None or rng.random() < _UNDIVIDED else int(rng.integers(len(free)))
        order = rng.permutation(instance.kind.max() + 1)[instance.kind[free]]  # kind by kind, or mixed
        free = free[np.argsort(order, kind="stable")] if rng.random() < _BY_KIND else rng.permutation(free)
        parts = [part for part in np.split(free, [cut]) if len(part)]
        answer = _anew(instance, kept, parts, rng, Limits(limits.deadline, max(1, allowed // (len(parts) + 1))))
        best = _better(answer, best)
        remaining -= allowed
        moves = min(moves + _FIRST_OF_TICK, _LONGEST)
    return best if best is not None and best.flow > 0 else None


def _anew(
    instance: FlowInstance, kept: FlowAnswer | None, parts: list[IntArray], rng: np.random.Generator, limits: Limits
) -> FlowAnswer:
    """Answer with a new group for each part, and one more for devices left idle; other devices stay as in `kept`."""
    interval, group = np.zeros((instance.n, 2), dtype=np.int64), np.zeros(instance.n, dtype=np.int64)
    if kept is not None:
        interval[:], group[:] = kept.interval, kept.group
    free = np.concatenate(parts)
    interval[free] = 0
    while parts:
        part = parts.pop()
        answer = _search_ticks(instance.of_devices(part), rng, limits)
        group[part] = group.max() + 1
        if answer is not None:
            interval[part] = answer.interval
            idle = free[interval[free, 0] == interval[free, 1]]
            if not parts and len(idle):
                parts.append(idle)
    return FlowAnswer(instance, interval, group)


def _search_ticks(instance: FlowInstance, rng: np.random.Generator, limits: Limits) -> FlowAnswer | None:
    """Search the layers of one group, for each number of batches in flight and each tick length."""
    assert instance.steps is not None
    assert limits.evaluations is not None
    if instance.unreachable() is not None:
        return None
    best, ticks = None, {m: instance.steps.ticks(m) for m in instance.numbers_in_flight}
    tried = _promising(instance, ticks, limits)
    for _ in range(_WALKS):
        if not tried or (best is not None and limits.deadline.passed):
            break
        of_number = tried[min(int(rng.geometric(_NEXT)) - 1, len(tried) - 1)]
        _, m, tick = of_number[min(int(rng.geometric(_NEXT)) - 1, len(of_number) - 1)]
        turns = best.turns[0] if best is not None and best.flow > 0 else None
        if turns is not None and turns.in_flight in ticks and rng.random() < _NEAR_BEST:
            m, place = turns.in_flight, int(np.searchsorted(ticks[turns.in_flight], turns.tick))
            tick = float(ticks[m][np.clip(place + round(rng.laplace(0.0, _AWAY)), 0, len(ticks[m]) - 1)])
        inside = instance.at(m, tick, tick)
        walk_limits = Limits(limits.deadline, max(1, limits.evaluations // _WALKS))
        answer = None if inside.unreachable() else _search_layers(inside, rng, walk_limits, None)
        if answer is not None:
            best = _better(FlowAnswer(instance, answer.interval), best)
    return best if best is not None and best.flow > 0 else None


def _promising(
    instance: FlowInstance, ticks: dict[int, FloatArray], limits: Limits
) -> list[list[tuple[float, int, float]]]:
    """Promising ticks: a list of (estimated flow, batches in flight, tick) for each number of batches, best first.

    For each number of batches the ticks are sampled, and sampled more densely around the best of them.
    """
    tried, numbers = list[list[tuple[float, int, float]]](), [m for m in ticks if len(ticks[m])]
    for m in (numbers[i] for i in np.unique(np.linspace(0, len(numbers) - 1, _NUMBERS).astype(np.int64)).tolist()):
        low, high, of_number = 0, len(ticks[m]) - 1, list[tuple[float, int, float]]()
        for _ in range(_ROUNDS):
            if of_number and limits.deadline.passed:
                break
            places = np.unique(np.linspace(low, high, _TICKS).astype(np.int64))
            times = ticks[m][places].tolist()
            carried = [_shared(instance.at(m, tick, tick)) for tick in times]
            of_number += [(flow, m, tick) for flow, tick in zip(carried, times, strict=True)]
            best = int(np.argmax(carried))
            low, high = int(places[max(0, best - 1)]), int(places[min(len(places) - 1, best + 1)])
        tried.append(sorted(of_number, reverse=True))
    return sorted(tried, reverse=True)


def _shared(instance: FlowInstance) -> float:
    """Upper bound on the flow, from the sum of layers times capacity over all devices [requests/s]."""
    layers, counts = np.arange(instance.layers + 1), instance.counts
    low, high = 0.0, float((instance.capacity * layers).max(axis=1) @ counts / instance.layers)
    for _ in range(_HALVES):
        middle = (low + high) / 2
        carried = float((np.minimum(instance.capacity, middle) * layers).max(axis=1) @ counts)
        low, high = (middle, high) if carried >= instance.layers * middle else (low, middle)
    return high


def _search_layers(
    instance: FlowInstance, rng: np.random.Generator, limits: Limits, start: FlowAnswer | None
) -> FlowAnswer | None:
    """Best answer of annealing walks over the layers of devices with given capacities; None if no flow is positive."""
    best = max((start, _even_stages(instance)), key=lambda answer: answer.flow if answer is not None else 0.0)
    best = best if best is not None and best.flow > 0 else None
    unlimited = limits.evaluations is None and limits.deadline.left == math.inf
    remaining = _ALL_MOVES if unlimited else math.inf if limits.evaluations is None else limits.evaluations
    guess = float(
        (instance.capacity * np.arange(instance.layers + 1)).max(axis=1)[instance.kind].sum() / instance.layers
    )
    if best is None:
        best = _filled_stages(instance, guess, rng)
    tries = 0
    while remaining > 0 and not limits.reached(math.inf if best is None else best.cost):
        # The first goals fall; before anything is found, again and again.
        raised = 1 + math.exp(float(rng.uniform(math.log(_LEAST), math.log(_MOST))))
        fallen = guess * 0.8 ** (1 + (tries % _FALLS if best is None else tries))
        goal = fallen if best is None else max(fallen, best.flow * raised)
        tries += 1
        moves = int(min(_FIRST * tries, _LONGEST, remaining))
        in_rows, freely = moves - moves // 4, moves // 4
        if tries % _TURNS == 0:
            candidate = _side_by_side(instance, goal, in_rows, rng, limits)
        else:
            candidate = _walk(instance, goal, 0.0 if best is None else best.flow, in_rows, rng, limits)
        best = _better(candidate, best)
        best = _better(_walk_freely(instance, candidate or best, best, freely, rng, limits), best)
        remaining -= moves
    return best


def _better(candidate: FlowAnswer | None, best: FlowAnswer | None) -> FlowAnswer | None:
    return candidate if candidate is not None and (best is None or candidate.flow > best.flow) else best


def _even_stages(instance: FlowInstance) -> FlowAnswer:
    """Stages with nearly equal numbers of layers; each device, fastest first, joins the weakest stage.

    All numbers of stages are tried: of those whose weakest stage is strongest, the answer with the largest flow.
    """
    n, layers, tried = instance.n, instance.layers, list[tuple[float, IntArray]]()
    for count in range(1, min(n, layers, instance.longest) + 1):
        ends = np.arange(count + 1) * layers // count
        served = instance.capacity[instance.kind][:, np.diff(ends)]  # of each device in each stage
        strength, interval = np.zeros(count), np.zeros((n, 2), dtype=np.int64)
        for i in np.argsort(-served.max(axis=1), kind="stable").tolist():
            s = int(np.argmin(np.where(served[i] > 0, strength, np.inf)))
            if served[i, s] > 0:
                strength[s] += served[i, s]
                interval[i] = ends[s], ends[s + 1]
        tried.append((float(strength.min()), interval))
    tried.sort(key=lambda pair: -pair[0])
    return max((FlowAnswer(instance, interval) for _, interval in tried[:_EVEN]), key=lambda answer: answer.flow)


def _filled_stages(instance: FlowInstance, guess: float, rng: np.random.Generator) -> FlowAnswer | None:
    """The first random start with a positive flow, as the goal [requests/s] falls from `guess`; None if none has."""
    for fallen in range(_FALLS):
        stage, length, count = _start(instance, guess * 0.8**fallen, rng)
        ends = np.concatenate(([0], np.cumsum(length[:count])))
        answer = FlowAnswer(instance, np.stack((ends[stage], ends[stage + 1]), axis=1))
        if answer.flow > 0:
            return answer
    return None


def _walk(
    instance: FlowInstance, goal: float, best: float, moves: int, rng: np.random.Generator, limits: Limits
) -> FlowAnswer | None:
    """Answer of one annealing walk towards a flow `goal` [requests/s]; None if its flow is not above `best`."""
    stage, length, count = _start(instance, goal, rng)
    devices, done, answer = _arrays(instance), 0, None
    while done < moves and not limits.deadline.passed:
        chunk = min(_CHUNK, moves - done)
        cooling, seed = Cooling(moves, _HOT, _COLD).part(done, chunk), int(rng.integers(2**31))
        layer_limit = min(instance.layers, instance.longest)
        flow, interval, hits = anneal_stages(devices, stage, length, count, layer_limit, goal, best, cooling, seed)
        count = int((length > 0).sum())
        if hits[0]:
            answer, best = FlowAnswer(instance, interval), flow
        if best >= goal:
            break
        done += chunk
    return answer


def _walk_freely(
    instance: FlowInstance,
    start: FlowAnswer | None,
    best: FlowAnswer | None,
    moves: int,
    rng: np.random.Generator,
    limits: Limits,
) -> FlowAnswer | None:
    """Answer of one annealing walk over arbitrary intervals of layers; None if it is no better than `best`."""
    devices = _arrays(instance)
    interval = np.zeros((instance.n, 2), dtype=np.int64) if start is None else start.interval.copy()
    hot = math.exp(float(rng.uniform(math.log(_COOL), math.log(_WARM))))
    whole = min(moves, 1 + moves * _MOVES_OF_INTERVALS * 4 // instance.n)
    flow, done, answer = 0.0 if best is None else best.flow, 0, None
    while done < whole and not limits.reached(1 / flow if flow > 0 else math.inf):
        chunk = min(_CHUNK, whole - done)
        cooling, seed = Cooling(whole, hot, hot / _FALL).part(done, chunk), int(rng.integers(2**31))
        better, layers, _ = anneal_intervals(devices, interval, instance.longest, flow, cooling, seed)
        if better > flow:
            answer, flow = FlowAnswer(instance, layers), better
        done += chunk
    return answer


def _side_by_side(
    instance: FlowInstance, goal: float, moves: int, rng: np.random.Generator, limits: Limits
) -> FlowAnswer | None:
    """Search two parts of the devices separately and join their answers; None if no request passes."""
    order, interval = np.array(_along_links(instance, goal, rng)), np.zeros((instance.n, 2), dtype=np.int64)
    for part in np.split(order, [int(rng.integers(instance.n + 1))]):
        if len(part) > 0:
            alone = instance.of_devices(part)
            answer = search_flow(alone, rng, Limits(limits.deadline, max(1, moves // 2))).answer
            interval[part] = 0 if answer is None else answer.interval
    if longest_path(instance.layers, interval, np.asarray(instance.rates)) > instance.longest:
        return None
    answer = FlowAnswer(instance, interval)
    return answer if answer.flow > 0 else None


def _arrays(instance: FlowInstance) -> DeviceArrays:
    return DeviceArrays(instance.kind.copy(), instance.capacity.copy(), instance.rates.copy())


def _start(instance: FlowInstance, goal: float, rng: np.random.Generator) -> tuple[IntArray, IntArray, int]:
    """Random start of a walk: the stage of each device (-1 for none), layers by stage, and their number.

    In some starts each stage is one device with as many layers as it can hold at the goal, along fast links; in the
    others all is random.
    """
    n, layers = instance.n, instance.layers
    reach = [int(np.flatnonzero(row >= goal).max(initial=0)) for row in instance.capacity]
    stage, length, count = np.full(n, -1), np.zeros(layers, dtype=np.int64), 0
    if rng.random() < _ALONE:
        for i in _along_links(instance, goal, rng):
            size = min(reach[instance.kind[i]], layers - int(length.sum()))
            if size > 0 and count < instance.longest:
                stage[i], length[count] = count, size
                count += 1
    if count == 0:
        count = int(rng.integers(1, min(n, layers, instance.longest) + 1))
        length[:count] = 1
    while (missing := layers - int(length.sum())) > 0:
        length[rng.integers(count)] += min(missing, 1 + missing // (4 * count))
    idle = np.flatnonzero(stage < 0)
    stage[idle] = rng.integers(count, size=len(idle))
    return stage, length, count


def _along_links(instance: FlowInstance, goal: float, rng: np.random.Generator) -> list[int]:
    """All devices in a random order in which links carry the goal where possible."""
    n = instance.n
    enough = instance.rates >= min(goal, float(instance.rates[:n, :n].max(initial=0.0)))
    order, unplaced, near = list[int](), np.ones(n, dtype=np.bool_), enough[n + SOURCE, :n]
    while len(order) < n:
        to = np.flatnonzero(unplaced & near) if (unplaced & near).any() else np.flatnonzero(unplaced)
        order.append(int(rng.choice(to)))
        unplaced[order[-1]] = False
        near = enough[order[-1], :n]
    return order
