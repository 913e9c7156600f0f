"""Searches that simulate each move: hill climbing and annealing of placements, without and with an order."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from heuristics.local_search.annealing import Cooling, factor_of
from heuristics.method import Limits, Search
from heuristics.placement.ordered import Lane, begin, read_off, sequences, walk
from heuristics.placement.rivals import expert, greedy, heft, m_etf, m_sct, metis, single
from heuristics.placement.simulator import SimulatorArrays, peak_memory, penalised, simulate, workspace
from instances.compiled import compiled
from instances.deadline import CLOCK, Deadline
from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray, compressed_rows
from instances.placement.placement import OrderedPlacement, Placement
from instances.placement.problem import PlacementInstance

# Hill climbing and simulated annealing on placements, with one simulation for each move.


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
        An evaluation is a simulation; the target is a step time. A walk that would take too long cools down faster.
    start : Placement, optional
        By default all nodes on device 0.
    simulations : int
        Largest number of simulations.
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
        target = _destination(v, k, device, neighbour_start, neighbour)
        w = v
        if np.random.random() < _TOGETHER and successor_start[v] < successor_start[v + 1]:
            w = successor[np.random.randint(successor_start[v], successor_start[v + 1])]
        old_v, old_w = device[v], device[w]
        device[v] = device[w] = target
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
    """Another device for node v: a neighbour's device, or a random one."""
    first, last = neighbour_start[v], neighbour_start[v + 1]
    if first < last and np.random.random() >= _ANYWHERE:
        target = device[neighbour[np.random.randint(first, last)]]
        if target != device[v]:
            return target
    return (device[v] + 1 + np.random.randint(k - 1)) % k


# Search for a placement with an order, by moves of single nodes: hill climbing from many starts, then annealing.
#
# Every start is a placement of another placer and the order in which it runs first come, first served, once with all
# tensors eager and once with none (see `heuristics.placement.ordered`). The best eight climb, then the best four and
# the best two of them; the last two are annealed. Memory is hard: bytes of overflow count before time.


#: Is told what is being done, and the best time so far.
Tell = Callable[[str, float], None]

#: How many walks (`Lane`s) climb, and with which part of the search each time.
_CLIMBS = ((8, 0.1), (4, 0.1), (2, 0.1))
#: First temperatures of the annealed walks, and the last one, as parts of the work of the whole graph.
_ORDERED_HOT, _ORDERED_COLD = (0.0006, 0.002), 1e-5
#: Moves a node where nothing else limits a search, and at most where time does.
_MOVES, _TIMED_MOVES = 20_000, 100_000
#: Nodes times moves between two looks at the clock.
_ORDERED_CHUNK = 1_000_000
#: Nodes up to which m-SCT, which solves a linear program, is a start.
_SCT_NODES = 5000
#: Part of the time that a start may take, and seconds that it takes for a node and a device; greedy for a node more.
_START_PART, _HEFT_SECONDS, _ETF_SECONDS, _GREEDY_SECONDS = 0.2, 3e-6, 14e-6, 25e-9
#: Name to placer of each start.
_STARTS: Mapping[str, Search[PlacementInstance, Placement]] = {
    "single": single,
    "expert": expert,
    "heft": heft,
    "metis": metis,
    "m-etf": m_etf,
    "m-sct": m_sct,
    "greedy": greedy,
}
#: Seconds of reading an answer off, for a node and a tensor; the search ends so much before its deadline.
_READ_SECONDS = 8e-6
#: Times this close to the lower bound are the optimum.
_ROUNDING = 1e-8


def search_order(
    instance: PlacementInstance,
    rng: np.random.Generator,
    limits: Limits | None = None,
    *,
    tell: Tell = lambda what, time: None,
) -> OrderedPlacement:
    """Search on single nodes, never worse than any start.

    An evaluation is a move; the target is a step time. Without limits, a search ends after 20 000 moves per node; with
    a limit on time, after 100 000. In large graphs, starts that take long are left out.
    """
    return _Search(instance, rng, limits or Limits(), tell).run()


class _Search:
    """State of one search: its walks (`Lane`s) and the best placement so far."""

    def __init__(self, instance: PlacementInstance, rng: np.random.Generator, limits: Limits, tell: Tell) -> None:
        size, deadline = instance.graph.n + len(instance.graph.tensors.bytes), limits.deadline
        self.limits = replace(limits, deadline=replace(deadline, end=deadline.end - size * _READ_SECONDS))
        self.instance, self.rng, self.tell = instance, rng, tell
        self.arrays, self.state = SimulatorArrays.of(instance), sequences(instance)
        shape = (len(self.state.eager), instance.devices)
        self.space = workspace(self.arrays)._replace(
            start=self.state.start,
            end=self.state.end,
            sent=self.state.sent.reshape(shape),
            arrived=self.state.arrived.reshape(shape),
        )
        self.chunk = max(1, _ORDERED_CHUNK // instance.graph.n)
        self.seconds = self.limits.deadline.left
        moves = _MOVES if math.isinf(self.seconds) else _TIMED_MOVES
        self.moves = limits.allow(moves * instance.graph.n) if instance.devices > 1 else 0
        self.lanes: list[Lane] = []

    def run(self) -> OrderedPlacement:
        for name, placer in _STARTS.items():
            if self._affords(name) and not (self.lanes and self._ends()):
                self.tell(f"start {name}", self._best().value[1] if self.lanes else math.inf)
                self._add(placer)
        self.seconds = self.limits.deadline.left
        lanes = self.lanes
        for count, part in _CLIMBS:
            best = sorted(lanes, key=_rank)[:count]
            lanes = [self._improve("climbing", lane, part / len(best)) for lane in best]
        part = (1.0 - sum(part for _, part in _CLIMBS)) / len(_ORDERED_HOT)
        for lane, hot in zip(sorted(lanes, key=_rank), _ORDERED_HOT, strict=False):
            self._improve("annealing", lane, part, hot)
        self._load(self._best())
        return read_off(self.instance, self.state)

    def _affords(self, name: str) -> bool:
        """Whether there is time to compute the starting placement of this name."""
        n, k, limit = self.instance.graph.n, self.instance.devices, _START_PART * self.seconds
        match name:
            case "heft":
                return n * k * _HEFT_SECONDS <= limit
            case "m-etf":
                return n * k * _ETF_SECONDS <= limit
            case "greedy":
                return n * n * k * _GREEDY_SECONDS <= limit
            case "metis":  # which complains on stdout of more parts than nodes
                return k < n
            case "m-sct":
                return n <= _SCT_NODES
        return True

    def _ends(self) -> bool:
        """Whether to stop with the best placement so far."""
        overflow, time = _rank(self._best())
        good = time <= self.instance.lower_bound * (1.0 + _ROUNDING)
        return self.limits.deadline.passed or (overflow == 0.0 and (good or self.limits.reached(time)))

    def _best(self) -> Lane:
        return min(self.lanes, key=_rank)

    def _add(self, placer: Search[PlacementInstance, Placement]) -> None:
        """Add the lanes (placements) that a placer yields, unless a package that it needs is missing."""
        limits = Limits(Deadline(interrupted=self.limits.deadline.interrupted))
        try:
            device = placer(self.instance, self.rng, limits).device.copy()  # writable, as all that kernels take
        except InputError:
            return
        simulate(self.arrays, device, self.space)
        order = np.lexsort((self.arrays.rank, self.space.ready))
        for eager in (True, False):
            lane = Lane(
                order.astype(np.uint32), device.astype(np.uint32), np.full(len(self.state.eager), eager), np.zeros(2)
            )
            lane.value[:] = self._load(lane)
            self.lanes.append(lane)

    def _load(self, lane: Lane) -> tuple[float, float]:
        """Make a lane the current placement; return its bytes of overflow and its time."""
        self.state.order[:], self.state.device[:], self.state.eager[:] = lane.order, lane.device, lane.eager
        time, overflow = begin(self.arrays, self.state), 0.0
        if self.arrays.limited:
            peak_memory(self.arrays, self.state.device.astype(np.int64), self.space)
            overflow = float(np.maximum(0.0, self.space.peak - self.arrays.memory).sum())
        return overflow, time

    def _improve(self, what: str, lane: Lane, part: float, hot: float = 0.0) -> Lane:
        """Anneal from a lane for a fraction `part` of the search; return the best lane found."""
        best, value = (
            Lane(lane.order.copy(), lane.device.copy(), lane.eager.copy(), lane.value.copy()),
            lane.value.copy(),
        )
        self.lanes.append(best)
        self._load(lane)
        moves, seconds, since = int(part * self.moves), max(1e-9, part * self.seconds), CLOCK.now()
        done, gone, ahead = 0, 0.0, self.chunk / max(1, moves)
        while done < moves and gone < 1.0 and not self._ends():
            self.tell(what, self._best().value[1])
            chunk = min(self.chunk, moves - done)
            hotter, colder = (
                hot and self.instance.total_work * hot * (_ORDERED_COLD / hot) ** min(1.0, x)
                for x in (gone, gone + ahead)
            )
            cooling, seed = Cooling(chunk, hotter, colder), int(self.rng.integers(2**31))
            walk(self.arrays, self.state, self.space, best, value, cooling, seed)
            done += chunk
            before, gone = gone, max(done / moves, (CLOCK.now() - since) / seconds)
            ahead = gone - before
        return best


def _rank(lane: Lane) -> tuple[float, float]:
    """Sort key of a lane: its two objective values; smaller is better."""
    return float(lane.value[0]), float(lane.value[1])
