"""Search for a placement with an order, by moves of single nodes: hill climbing from many starts, then annealing.

Every start is a placement of another placer and the order in which it runs first come, first served, once with all
tensors eager and once with none (see `ordered_pass`). The best eight climb, then the best four and the best two of
them; the last two are annealed. Memory is hard: bytes of overflow count before time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from heuristics.limits import Limits
from heuristics.local_search.cooling import Cooling
from heuristics.method import Search
from heuristics.placement.baechi import m_etf, m_sct
from heuristics.placement.greedy import greedy
from heuristics.placement.heft import heft
from heuristics.placement.ordered_moves import Lane, walk
from heuristics.placement.ordered_simulator import begin, read_off, sequences
from heuristics.placement.partitioners import metis
from heuristics.placement.peak_memory import peak_memory
from heuristics.placement.rivals import expert, single
from heuristics.placement.simulator import SimulatorArrays, simulate, workspace
from instances.deadline import CLOCK, Deadline
from instances.errors import InputError
from instances.placement.ordered import OrderedPlacement
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

__all__ = ["STARTS", "Tell", "search_order"]

#: Is told what is being done, and the best time so far.
Tell = Callable[[str, float], None]

#: How many lanes climb, and with which part of the search each time.
_CLIMBS = ((8, 0.1), (4, 0.1), (2, 0.1))
#: First temperatures of the annealed lanes, and the last one, in work of the whole graph.
_HOT, _COLD = (0.0006, 0.002), 1e-5
#: Moves a node where nothing else limits a search, and at most where time does.
_MOVES, _TIMED_MOVES = 20_000, 100_000
#: Nodes times moves between two looks at the clock.
_CHUNK = 1_000_000
#: Nodes up to which m-SCT, which solves a linear program, is a start.
_SCT_NODES = 5000
#: Part of the time that a start may take, and seconds that it takes for a node and a device; greedy for a node more.
_START_PART, _HEFT_SECONDS, _ETF_SECONDS, _GREEDY_SECONDS = 0.2, 3e-6, 14e-6, 25e-9
#: Name to placer of each start. The learned policy is none: it gains less than 1 % (`mtpp table placeto`).
STARTS: Mapping[str, Search[PlacementInstance, Placement]] = {
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
    starts: Mapping[str, Search[PlacementInstance, Placement]] = STARTS,
) -> OrderedPlacement:
    """Search on single nodes, never worse than any start.

    An evaluation is a move, a target a step time. Without a limit, a search ends after 20 000 moves a node, with one on
    its time after 100 000. Of a large graph, starts that take long are left out.
    """
    return _Search(instance, rng, limits or Limits(), tell).run(starts)


class _Search:
    """The lanes of one search and the best placement so far."""

    def __init__(self, instance: PlacementInstance, rng: np.random.Generator, limits: Limits, tell: Tell) -> None:
        size, deadline = instance.graph.n + len(instance.graph.tensors.bytes), limits.deadline
        self.limits = replace(limits, deadline=replace(deadline, end=deadline.end - size * _READ_SECONDS))
        self.instance, self.rng, self.tell = instance, rng, tell
        self.arrays, self.own = SimulatorArrays.of(instance), sequences(instance)
        shape = (len(self.own.eager), instance.devices)
        self.space = workspace(self.arrays)._replace(
            start=self.own.start,
            end=self.own.end,
            sent=self.own.sent.reshape(shape),
            arrived=self.own.arrived.reshape(shape),
        )
        self.chunk = max(1, _CHUNK // instance.graph.n)
        self.seconds = self.limits.deadline.left
        moves = _MOVES if math.isinf(self.seconds) else _TIMED_MOVES
        self.moves = limits.allow(moves * instance.graph.n) if instance.devices > 1 else 0
        self.lanes: list[Lane] = []

    def run(self, starts: Mapping[str, Search[PlacementInstance, Placement]]) -> OrderedPlacement:
        for name, placer in starts.items():
            if self._affords(name) and not (self.lanes and self._ends()):
                self.tell(f"start {name}", self._best().value[1] if self.lanes else math.inf)
                self._add(placer)
        self.seconds = self.limits.deadline.left
        lanes = self.lanes
        for count, part in _CLIMBS:
            best = sorted(lanes, key=_rank)[:count]
            lanes = [self._improve("climbing", lane, part / len(best)) for lane in best]
        part = (1.0 - sum(part for _, part in _CLIMBS)) / len(_HOT)
        for lane, hot in zip(sorted(lanes, key=_rank), _HOT, strict=False):
            self._improve("annealing", lane, part, hot)
        self._load(self._best())
        return read_off(self.instance, self.own)

    def _affords(self, name: str) -> bool:
        """Whether there is time for a start."""
        n, k, most = self.instance.graph.n, self.instance.devices, _START_PART * self.seconds
        match name:
            case "heft":
                return n * k * _HEFT_SECONDS <= most
            case "m-etf":
                return n * k * _ETF_SECONDS <= most
            case "greedy":
                return n * n * k * _GREEDY_SECONDS <= most
            case "metis":  # which complains on stdout of more parts than nodes
                return k < n
            case "m-sct":
                return n <= _SCT_NODES
        return True

    def _ends(self) -> bool:
        """Whether to stop with what there is."""
        overflow, time = _rank(self._best())
        good = time <= self.instance.lower_bound * (1.0 + _ROUNDING)
        return self.limits.deadline.passed or (overflow == 0.0 and (good or self.limits.reached(time)))

    def _best(self) -> Lane:
        return min(self.lanes, key=_rank)

    def _add(self, placer: Search[PlacementInstance, Placement]) -> None:
        """Add the lanes of a start, unless what it needs is not installed."""
        limits = Limits(Deadline(interrupted=self.limits.deadline.interrupted))
        try:
            device = placer(self.instance, self.rng, limits).device.copy()  # writable, as all that kernels take
        except InputError:
            return
        simulate(self.arrays, device, self.space)
        order = np.lexsort((self.arrays.rank, self.space.ready))
        for eager in (True, False):
            lane = Lane(
                order.astype(np.uint32), device.astype(np.uint32), np.full(len(self.own.eager), eager), np.zeros(2)
            )
            lane.value[:] = self._load(lane)
            self.lanes.append(lane)

    def _load(self, lane: Lane) -> tuple[float, float]:
        """Make a lane the current placement; its bytes of overflow and time."""
        self.own.order[:], self.own.device[:], self.own.eager[:] = lane.order, lane.device, lane.eager
        time, overflow = begin(self.arrays, self.own), 0.0
        if self.arrays.limited:
            peak_memory(self.arrays, self.own.device.astype(np.int64), self.space)
            overflow = float(np.maximum(0.0, self.space.peak - self.arrays.memory).sum())
        return overflow, time

    def _improve(self, what: str, lane: Lane, part: float, hot: float = 0.0) -> Lane:
        """Continue from a lane for a part of the search; return the best lane found."""
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
                hot and self.instance.total_work * hot * (_COLD / hot) ** min(1.0, x) for x in (gone, gone + ahead)
            )
            cooling, seed = Cooling(chunk, hotter, colder), int(self.rng.integers(2**31))
            walk(self.arrays, self.own, self.space, best, value, cooling, seed)
            done += chunk
            before, gone = gone, max(done / moves, (CLOCK.now() - since) / seconds)
            ahead = gone - before
        return best


def _rank(lane: Lane) -> tuple[float, float]:
    """Sort key of a lane: its two objective values; smaller is better."""
    return float(lane.value[0]), float(lane.value[1])
