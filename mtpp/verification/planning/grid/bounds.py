r"""Bounds on plans with degrees of parallelism, proved again.

**Bounds on all plans with degrees of parallelism, proved a second time.**

*work-grid*: on K devices of each of d pipelines, M microbatches take at least :math:`M \sum_l \min_t t (f + b) / K`.

*z-grid*: of plans whose devices run one stage each, by all suffixes of stages, backwards. Stage n with c one way to the
next, :math:`τ = f + b`, D from its first pass to its last one and A after that needs :math:`Z_1 = \max(D, τ + 2 M c,
τ + 2 c + Z_1')` and :math:`Z_2 = \max(D + A, τ + 2 M c + A, f + c + Z_2')`, in full duplex M c for 2 M c. A microbatch
is away for :math:`R = 2 c + ρ'` or more between its passes, and so in the stage for :math:`ρ = τ + R`, ρ' the least of
all suffixes below the claim. The first of s stages holds h = min(M, s) of them. Then D is no less than

- M τ, and if M > h the times between passes that nothing fills: no forward pass but h - 1 ends between the first of
  them and the first backward pass, which lie R apart, and no backward pass but h - 1 runs between the last forward pass
  and that of its microbatch; in between lies a backward pass before a forward one, so that both times add up;
- ρ and M - 1 of the longer passes: either all others start before the last one does, or all others end after the first;
- N stays one after the other, N = ⌈M / h⌉, since microbatch i + h comes in when i have gone, and M - 1 - h (N - 1) of
  the longer passes before the first or behind the last of them.

It recomputes no more than it must. Links are those within a server where groups of the size can lie in one. A plan
below the claim would leave a suffix below it at every layer; there is none. Sums are floats, and the claim is taken a
part of 5e-10 lower than stated, far more than they are off.

Where that is not enough, plans are told apart by their servers. All devices of some lie in one. In others a pipeline
has neighbours in two servers, so that one transfer at least has the rate between them: suffixes with and without one
are kept apart. In all others each pipeline lies in one server, and there are several of them. Then no ring has more
than half of its devices in one server, or it belongs to the only stage, in whole servers.

**The bound *turns-grid*, proved a second time: no groups below a time hold all layers.**

With v ≥ 2 turns on each of S groups, group g begins with :math:`(v - 1) S + 2 (S - g) - 1` forward passes in
Megatron-LM's order, or with all. S divides M, so that just before its first backward pass it keeps S microbatches of
all its layers but those of its last turn, and h = min(S, 2 (S - g) - 1) of these.

- It runs M times both passes of its layers, of time τ. Before them the first microbatch passes g groups, after them
  the last one does, on its way back, and then what follows the last backward pass of the first layer takes its time.
  Likewise what follows its own last backward pass takes its time, with all its layers.
- If h < S, or M = S, it has run S forward passes of all its layers before the first backward one, but only h of the
  last turn. That one needs all forward passes of the first microbatch, and the backward passes of the stages after it.
  When the last microbatch is back from that turn, the backward passes of all other turns are left, S of each, and those
  of the stages before it. So all stages of one microbatch, :math:`(M - S) τ`, S - h forward and S - 1 backward passes
  of the last turn follow one another, and all transfers of a microbatch.
- If M = S, a microbatch comes back to any stage, S - 1 others do after it, and the last goes on: all stages of one
  microbatch, and S - 1 backward passes of the longest stage, which is no shorter than all by their number.

Of plans in several servers some have neighbours in two of them. In these a microbatch, on its way around the groups,
changes servers twice a turn, once at least in the last one, and so does its gradient: 2 v - 1 of its transfers each way
take the time between servers, v of them over one channel. In all others each pipeline lies in one server, as above.

Layers between the first and the last that differ count as `equalised`: a plan keeps its orders and takes no longer.
Other groups have a layer or more in each turn, group 0 what comes before the equal layers in the first turn, the last
group what comes after them in the last turn. Of equal layers they have one or more, unless the layers that are left out
are enough for all turns. The second fact says how many layers the last turn can have at most: what
it keeps less than S microbatches of them is room for recomputing less. For each S, each largest degree and each degree
the times of groups below the time are listed. The least that all groups take together, one of them with the largest
degree, is found for all numbers of layers and devices, and lists again those that are below the time beside it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from itertools import product

import numpy as np

from instances.planning.grid.configurations import NONE, Configuration, ConfiguredChain, ConfiguredLayer
from instances.planning.grid.problem import GridInstance
from mtpp.verification.planning.grid.costs import (
    after_time,
    copies_of,
    kept_bytes,
    meanwhile,
    ring_rates,
    transfer_time,
)
from mtpp.verification.verdict import Clock

MARGIN = 5e-10
_MOST_POINTS = 200_000

Point = tuple[float, float]


class TooManyWaysError(Exception):
    """A stage has too many combinations of recomputation to enumerate."""


def settings_of(question: GridInstance) -> Iterator[Setting]:
    """All settings: degrees shared by the stages of a plan."""
    servers, wanted = question.servers, question.fixed
    for chain in question.chains:
        triples = {(way.tp, way.cp, way.ep) for layer in chain.layers for way in layer.configurations}
        for cp, ep in sorted({(cp, ep) for _, cp, ep in triples}):
            possible = sorted(t for t, c, e in triples if (c, e) == (cp, ep) and _has_room(question, t, cp))
            samples = question.global_batch
            for d in range(1, servers.devices // cp + 1):
                tensor = [t for t in possible if wanted.tp in (None, t) and copies_of(question, (t, cp, ep), d)[1]]
                if not tensor or samples % (d * chain.micro_batch) or wanted.dp not in (None, d):
                    continue
                for zero in question.zero:
                    yield Setting(question, chain, tensor, cp, ep, d, zero)


def _has_room(question: GridInstance, t: int, cp: int) -> bool:
    """Whether each tensor group lies in one server, and each stage lies in one server or fills whole ones."""
    size = question.servers.size
    return size % t == 0 and (t * cp <= size or (t * cp) % size == 0)


@dataclass
class Setting:
    """Degrees shared by all stages of a plan."""

    question: GridInstance
    chain: ConfiguredChain
    tensor: list[int]  # degrees of tensor parallelism that stages may have
    cp: int  # degree of context parallelism
    ep: int  # degree of expert parallelism
    d: int  # pipelines
    zero: int  # stage of ZeRO
    spread: bool = False  # whether each pipeline lies in one server, and not all of them in the same
    across: bool = False  # whether groups in turns have neighbours in two servers
    _fronts: dict[tuple[int, float, tuple[tuple[int, int], ...]], list[Point]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.M = self.question.global_batch // (self.d * self.chain.micro_batch)
        self.K = self.question.servers.devices // (self.d * self.cp)
        if self.spread:
            wide = [t for t in self.tensor if t * self.cp > self.question.servers.size]
            self.K = min(self.K, max([self.question.servers.size // self.cp, *wide]))
        allowed = self.question.modes
        alike = {layer.kind: layer for layer in self.chain.layers}  # layers of one kind have the same configurations
        self.ways = {}
        for t in self.tensor:
            ways = {}
            for kind, layer in alike.items():
                every = [way for way in layer.configurations if (way.tp, way.cp, way.ep) == (t, self.cp, self.ep)]
                every.sort(key=lambda way: way.recompute != "none")
                ways[kind] = [way for way in every if way.recompute in allowed] or every[:1]
            self.ways[t] = [ways[layer.kind] for layer in self.chain.layers]
        kinds: dict[tuple[Configuration, ...], int] = {}
        numbers = {kind: kinds.setdefault(layer.configurations, len(kinds)) for kind, layer in alike.items()}
        self.kind = [numbers[layer.kind] for layer in self.chain.layers]

    @property
    def work(self) -> float:
        """Least work of all layers, divided evenly among the devices [s]."""
        layers = range(self.chain.n)
        least = [min(t * _both(self.ways[t][layer][0]) for t in self.tensor) for layer in layers]
        return float(self.M * sum(least) / self.K)

    def least_below(self, ceiling: float, clock: Clock, across: bool = False) -> float:
        """Lower bound [s] on the time of plans below the ceiling: least of max(Z1, Z2), defined in the module's text.

        With `across`, over plans in which some neighbouring stages are in two servers.
        """
        L, best, fixed = self.chain.n, math.inf, self.question.fixed.pp
        before, before_forward, need = self._prefixes()
        # of suffixes by their devices, and whether neighbours in two servers are among them
        later: list[dict[tuple[int, bool], list[Point]]] = [{} for _ in range(L + 1)]
        later[L] = {(0, False): [(0.0, 0.0)]}
        stays = [{(0, False): 0.0} for _ in range(L + 1)]  # least times until a microbatch is back
        duplex = 1 if self.question.full_duplex else 2
        for s in range(1, min(L, self.K) + 1):
            suffixes: list[dict[tuple[int, bool], list[Point]]] = [{} for _ in range(L + 1)]
            back: list[dict[tuple[int, bool], float]] = [{} for _ in range(L + 1)]
            for i in range(L - s, -1, -1):
                clock.raise_if_late()
                for t in self.tensor:
                    for j in range(i + 1, L + 1):
                        if not later[j]:
                            continue
                        stage = self._stage(t, i, j, min(self.M, s))
                        if stage is None or self.M * stage[0] + before[i] >= ceiling:
                            break
                        tau, forward, after, near = stage
                        far = self.between_servers(t, j - 1)
                        for ((k, apart), points), here in product(later[j].items(), (False, True)):
                            if k + t > self.K - self.M * need[i] / ceiling * (1 - MARGIN):
                                continue
                            if here and (apart or not across or s == 1):
                                continue
                            c = 0.0 if s == 1 else far if here else near
                            busy = tau + duplex * self.M * c if s > 1 else 0.0
                            away = 2 * c + stays[j][k, apart]
                            low = max(busy, self._from_first_to_last(s, forward, tau - forward, away))
                            longer = [
                                (
                                    max(low, tau + 2 * c + p) if s > 1 else low,
                                    max(low + after, forward + c + q) if s > 1 else low + after,
                                )
                                for p, q in points
                            ]
                            keep = [
                                (p, q) for p, q in longer if p + before[i] < ceiling and q + before_forward[i] < ceiling
                            ]
                            if keep:
                                key = k + t, apart or here
                                suffixes[i].setdefault(key, []).extend(keep)
                                back[i][key] = min(tau + away, back[i].get(key, math.inf))
                suffixes[i] = {key: _lowest(points) for key, points in suffixes[i].items()}
            if fixed in (None, s):
                whole = [points for (_, apart), points in suffixes[0].items() if apart or not across]
                best = min([best, *(max(point) for points in whole for point in points)])
            later, stays = suffixes, back
        return best

    def least_in_several(self, ceiling: float, clock: Clock) -> float:
        """Lower bound [s] on the time of plans below the ceiling that use several servers: least of max(Z1, Z2)."""
        least = self.least_below(ceiling, clock, across=True)
        wide = any(t * self.cp > self.question.servers.size for t in self.tensor)
        if self.d > 1 or wide:
            least = min(least, replace(self, spread=True, _fronts={}, _numbers={}).least_below(ceiling, clock))
        return least

    def in_several(self) -> list[Setting]:
        """The cases of interleaved plans on several servers: neighbours in two servers, or each pipeline in one."""
        kinds = (False, True) if self.d > 1 else (False,)
        return [replace(self, spread=spread, across=not spread, _fronts={}, _numbers={}) for spread in kinds]

    def between_servers(self, t: int, layer: int) -> float:
        """Time to send the output of a layer to another server [s]."""
        return float(transfer_time(self.question, Fraction(self.ways[t][layer][0].output_bytes), near=False))

    def _from_first_to_last(self, stages: int, forward: float, backward: float, away: float) -> float:
        """Least time of all passes of the first stage, if microbatches return after `away` [s].

        It keeps at most as many microbatches as there are stages behind it and itself.
        """
        resident, stay = min(self.M, stages), forward + backward + away
        in_turn = -(-self.M // resident)
        more = (self.M - 1, 1), (self.M - 1 - resident * (in_turn - 1), in_turn)
        least = max(stays * stay + passes * max(forward, backward) for passes, stays in more)
        busy = self.M * (forward + backward)
        if resident < self.M:
            busy += sum(max(0.0, away - (resident - 1) * time) for time in (forward, backward))
        return max(least, busy)

    def layer(self, t: int, layer: int) -> tuple[float, float]:
        """Forward and backward time of a layer without recomputation [s]."""
        way = self.ways[t][layer][0]
        return way.forward, way.input_backward + way.weight_backward

    def sent(self, t: int, layer: int) -> float:
        """Time to send the output of a layer to the next stage [s]."""
        return self._plain(t, layer, layer + 1)[4]

    def after(self, t: int, i: int, j: int) -> float:
        """Time of the work after the last backward pass of a stage with layers i … j - 1 [s]."""
        return self._plain(t, i, j)[2]

    def passes(self, t: int, i: int, j: int, resident: int, more: float = 0.0) -> float | None:
        """Time of both passes of layers i … j - 1 [s]; None if they need more than the memory and `more` bytes."""
        stage = self._stage(t, i, j, resident, more)
        return None if stage is None else stage[0]

    def most_stored(self, t: int, layer: int) -> float:
        """Largest number of bytes that a layer may keep of a microbatch."""
        ways = self.ways[t][layer]
        fastest = (
            min((_both(way), way.stored_bytes) for way in ways if way.working_bytes <= cap.working_bytes)
            for cap in ways
        )
        return max(stored for _, stored in fastest)

    def _prefixes(self) -> tuple[list[float], list[float], list[float]]:
        """Prefix sums over layers: least times of both passes, of the forward pass, and device seconds of both [s]."""
        rows: tuple[list[float], list[float], list[float]] = ([0.0], [0.0], [0.0])
        for layer in range(self.chain.n):
            plain = [(t, self.ways[t][layer][0]) for t in self.tensor]
            values = (
                min(_both(way) for _, way in plain),
                min(way.forward for _, way in plain),
                min(t * _both(way) for t, way in plain),
            )
            for row, value in zip(rows, values, strict=True):
                row.append(row[-1] + value)
        return rows

    def _stage(
        self, t: int, i: int, j: int, resident: int, more: float = 0.0
    ) -> tuple[float, float, float, float] | None:
        """Times of a stage with layers i … j - 1 [s]; None if it does not fit into memory.

        They are those of both passes, of the forward pass, of the work after the last backward pass, and of the
        transfer to the next stage.
        """
        (forward, flow), backward, after, room, c = self._plain(t, i, j)
        again = self._again(t, i, j, resident, room + more)
        if again is None:
            return None
        exposed = self.question.exposed
        forward = max(forward + exposed * flow[0], flow[0])
        return forward + max(backward + again + exposed * flow[1], flow[1]), forward, after, c

    def _plain(self, t: int, i: int, j: int) -> tuple[tuple[float, tuple[float, float]], float, float, float, float]:
        key = (t, i, j)
        if key in self._numbers:
            return self._numbers[key]
        question, servers = self.question, self.question.servers
        layers, whole = [menu[0] for menu in self.ways[t][i:j]], j - i == self.chain.n
        degrees, width, L = (t, self.cp, self.ep), t * self.cp, self.chain.n
        shards = copies_of(question, degrees, self.d)
        rates = ring_rates(question, self._most_in_ring(t), degrees)
        near = width + self.tensor[0] * self.cp <= servers.size
        after = after_time(question, layers, self.zero, shards, rates, whole)
        tied = Fraction(self.ways[t][-1][0].tied_parameters)
        if not whole and (i == 0 or j == L):
            after += transfer_time(question, tied * Fraction(question.state_bytes.gradients), near)
        flow = meanwhile(question, layers, self.zero, shards, rates, whole)
        state_bytes = sum(kept_bytes(question, layers, self.zero, shards, whole))
        numbers = (
            (math.fsum(way.forward for way in layers), (float(flow[0]), float(flow[1]))),
            math.fsum(way.input_backward + way.weight_backward for way in layers),
            float(after),
            question.memory * (1 + 2 * MARGIN) - float(state_bytes),
            float(transfer_time(question, Fraction(layers[-1].output_bytes), near)),
        )
        self._numbers[key] = numbers
        return numbers

    _numbers: dict[tuple[int, int, int], tuple[tuple[float, tuple[float, float]], float, float, float, float]] = field(
        default_factory=dict
    )

    def _most_in_ring(self, t: int) -> int | None:
        """Largest number of devices of a tensor rank in a server; None if one server may hold all."""
        size, width = self.question.servers.size, t * self.cp
        if width > size:
            return size // t
        servers = max(-(-self.d // (size // width)), 2 if self.spread and self.d > 1 else 1)  # that replicas need
        return None if servers == 1 else self.d // servers * self.cp

    def _again(self, t: int, i: int, j: int, resident: int, room: float) -> float | None:
        """Least time of recomputation [s] with which `resident` microbatches fit into memory; None if none does."""
        counts: dict[int, int] = {}
        menus: dict[int, list[Configuration]] = {}
        for layer in range(i, j):
            counts[self.kind[layer]] = counts.get(self.kind[layer], 0) + 1
            menus[self.kind[layer]] = self.ways[t][layer]
        best = None
        for cap in sorted({way.working_bytes for menu in menus.values() for way in menu}):
            front = self._front(t, cap, tuple(sorted(counts.items())), menus)
            place = bisect_right(front, ((room - cap) / resident, math.inf))
            if place and (best is None or front[place - 1][1] < best):
                best = front[place - 1][1]
        return best

    def _front(
        self, t: int, cap: float, counts: tuple[tuple[int, int], ...], menus: dict[int, list[Configuration]]
    ) -> list[Point]:
        """Pareto front of (bytes stored, time to recompute [s]) for numbers of layers of each kind."""
        key = (t, cap, counts)
        if key not in self._fronts:
            points: list[Point] = [(0.0, 0.0)]
            for kind, count in counts:
                more = _ways_of(menus[kind], count, cap)
                if len(points) * len(more) > _MOST_POINTS:
                    raise TooManyWaysError
                points = _lowest([(s + p, x + y) for (s, x), (p, y) in product(points, more)])
            self._fronts[key] = points
        return self._fronts[key]


def _ways_of(menu: list[Configuration], count: int, cap: float) -> list[Point]:
    """Pareto front over divisions of `count` equal layers among configurations with buffers up to `cap`.

    Points are (bytes stored, time to recompute [s]).
    """
    plain = _both(menu[0])
    menu = [way for way in menu if way.working_bytes <= cap]
    if not menu:
        return []
    if (count + 1) ** (len(menu) - 1) > _MOST_POINTS:
        raise TooManyWaysError
    others = np.indices((count + 1,) * (len(menu) - 1)).reshape(len(menu) - 1, (count + 1) ** (len(menu) - 1))
    numbers = np.vstack((count - others.sum(axis=0), others))
    numbers = numbers[:, numbers[0] >= 0]
    stored = np.array([way.stored_bytes for way in menu]) @ numbers
    again = np.array([_both(way) - plain for way in menu]) @ numbers
    return _lowest(list(zip(stored.tolist(), again.tolist(), strict=True)))


def _lowest(points: list[Point]) -> list[Point]:
    """Pareto-optimal points, sorted by the first value."""
    front: list[Point] = []
    for point in sorted(set(points)):
        if not front or point[1] < front[-1][1]:
            front.append(point)
    return front


def _both(way: Configuration) -> float:
    return way.forward + way.input_backward + way.weight_backward


_NUMBERS = [member.name for member in fields(Configuration) if member.name not in ("tp", "cp", "ep", "recompute")]


def equalised(chain: ConfiguredChain) -> list[ConfiguredChain]:
    """Relaxed chains with one kind of layer between the ends, for which no plan takes longer.

    There are two, which weigh layers by parameters and by time. Each keeps the m heaviest layers between the ends, with
    m such that m times the least weight among them is largest, and leaves the others out; all layers kept get the least
    values among them for each configuration.
    """
    groups = []
    for names in (("parameters", "expert_parameters"), ("forward", "input_backward", "weight_backward")):
        weights = [sum(getattr(layer.configurations[0], name) for name in names) for layer in chain.layers[1:-1]]
        falling = sorted(weights, reverse=True)
        _, limit = max((weight * number, weight) for number, weight in enumerate(falling, 1))
        groups.append([layer for layer, weight in zip(chain.layers[1:-1], weights, strict=True) if weight >= limit])
    return [_of_one_kind(chain, layers) for layers in groups]


def _of_one_kind(chain: ConfiguredChain, layers: Sequence[ConfiguredLayer]) -> ConfiguredChain:
    """Chain whose inner layers all have the least numbers of `layers`."""
    alike: dict[tuple[object, str], list[Configuration]] = {}
    for layer in layers:
        for way in layer.configurations:
            alike.setdefault((way.degrees, way.recompute), []).append(way)
    ways = []
    for (degrees, _), same in alike.items():
        numbers = {name: min(getattr(way, name) for way in same) for name in _NUMBERS}
        numbers["forward"] = min(way.forward for way in alike[degrees, NONE])
        numbers["output_bytes"] = min(
            way.output_bytes for layer in chain.layers[1:-1] for way in layer.configurations if way.degrees == degrees
        )
        ways.append(replace(same[0], **numbers))
    middle = replace(layers[0], kind="equal", configurations=tuple(ways))
    return replace(chain, layers=(chain.layers[0], *[middle] * len(layers), chain.layers[-1]))


def may_hold(setting: Setting, whole: Setting, ceiling: float, clock: Clock) -> bool:
    """Whether groups of devices could hold all layers of an equalised chain below the time `ceiling` [s]."""
    fixed, v, K, M = setting.question.fixed.pp, setting.question.fixed.v or 2, setting.K, setting.M
    if setting.across:
        far = min(setting.between_servers(t, i) for t in setting.tensor for i in range(setting.chain.n - 1))
        if (1 if setting.question.full_duplex else 2) * v * M * far >= ceiling:
            return False
    for number in range(len(setting.tensor)):
        others = _Others.of(setting, whole, setting.tensor[: number + 1])
        for S in range(2, min(others.layers // v, K) + 1):
            if M % S == 0 and fixed in (None, S) and _groups_hold(setting, others, S, ceiling, clock):
                return True
    return False


@dataclass(frozen=True)
class _Others:
    """Least times of the layers outside a group, by tensor degree [s]."""

    tensor: Sequence[int]  # tensor degrees that these layers may have
    layers: int  # layers of the model
    omitted: int  # layers of the model that are left out
    between: dict[int, list[tuple[float, float]]]  # by degree: passes of each layer of the model between its ends
    backward: tuple[float, float, float]  # backward passes of the first layer, an equal one, the last one
    both: tuple[float, float]  # both passes of the first layer, and of any layer between the ends
    there: tuple[float, float]  # forward passes of the same
    sent: tuple[float, float, float]  # to the next stage: after any layer, others than the first, at the last degree
    longer: float  # at least, of a transfer between servers
    after: float

    @classmethod
    def of(cls, setting: Setting, whole: Setting, tensor: Sequence[int]) -> _Others:
        n, layers = setting.chain.n, whole.chain.n
        first, equal, last = (min(setting.layer(t, i)[1] for t in tensor) for i in (0, 1, n - 1))
        between = {t: sorted({whole.layer(t, i) for i in range(1, layers - 1)}) for t in tensor}
        both = min(sum(setting.layer(t, 0)) for t in tensor), min(sum(passes) for t in tensor for passes in between[t])
        there = min(setting.layer(t, 0)[0] for t in tensor), min(passes[0] for t in tensor for passes in between[t])
        at_last = min(setting.sent(tensor[-1], i) for i in range(1, n - 1))
        inner = min(setting.sent(t, i) for t in tensor for i in range(1, n - 1))
        sent = min(inner, *(setting.sent(t, 0) for t in tensor)), inner, at_last
        after = min(setting.after(t, 0, 1) for t in tensor)
        longer = [setting.between_servers(t, i) - setting.sent(t, i) for t in tensor for i in range(n - 1)]
        more = min(longer) if setting.across else 0.0
        return cls(tensor, layers, layers - n, between, (first, equal, last), both, there, sent, more, after)

    def transfers(self, S: int, v: int) -> float:
        """Lower bound on the time of all transfers of a microbatch with S groups and v turns on each [s]."""
        first, inner, at_last = self.sent
        return 2 * (first + (2 * v - 2) * at_last + (S - 2) * v * inner + (2 * v - 1) * self.longer)


def _groups_hold(setting: Setting, others: _Others, S: int, ceiling: float, clock: Clock) -> bool:
    """Whether S groups of devices could hold all layers below the time `ceiling` [s]."""
    work, least = -math.inf, 0.0
    while work < least < math.inf:
        work, value = least, np.full((2, setting.K + 1, setting.chain.n - 1), math.inf)
        value[0, 0, 0] = 0.0  # least time without and with a group of the last degree, by devices and layers
        for g in range(S):
            clock.raise_if_late()
            more = np.full_like(value, math.inf)
            for t in others.tensor:
                for count, time in _times(setting, others, t, g, S, ceiling, work).items() if t <= setting.K else ():
                    longer = value[:, : setting.K + 1 - t, : -count or None] + time
                    if t == others.tensor[-1]:
                        longer = np.stack((np.full_like(longer[0], math.inf), longer.min(axis=0)))
                    more[:, t:, count:] = np.minimum(more[:, t:, count:], longer)
            value = more
        least = float(value[1, :, -1].min())
    return least < math.inf


def _times(setting: Setting, others: _Others, t: int, g: int, S: int, ceiling: float, work: float) -> dict[int, float]:
    """Least time of both passes of group g [s], by number of equal layers that it can hold in steps below `ceiling`."""
    L, M, h, end = setting.chain.n, setting.M, min(S, 2 * (S - g) - 1), g == S - 1
    first, inner = others.both
    ways = others.after + (first + (g - 1) * inner + 2 * g * others.sent[0] if g else 0.0)
    there = others.there[0] + (g - 1) * others.there[1] + g * others.sent[0] if g else 0.0
    turn = _LastTurn.of(setting, others, t, S, h, end, ceiling - work)
    times, v = {}, setting.question.fixed.v or 2
    beside = int(others.omitted < v - 1)  # equal layers that turns beside the last one must hold
    for count in range(others.omitted < v - (g == 0 or end), L - 1):
        span = (0, count + 1) if g == 0 else (L - 1 - count, L) if end else (1, count + 1)
        least = setting.passes(t, *span, h) if span != (1, 1) else 0.0
        beyond = max(ways, there + (setting.after(t, *span) if span != (1, 1) else 0.0))
        if least is None or M * least + beyond >= ceiling:
            break
        time, limit, before = least, count - beside, math.inf if h < S or M == S else -math.inf
        while limit < before and time < math.inf:
            before, limit = limit, min(limit, turn.limit(time))
            more = (S - h) * (limit * turn.stored[0] + turn.stored[1])
            again = setting.passes(t, *span, S, more) if h < S and limit >= 0 and span != (1, 1) else least
            time = math.inf if again is None or limit < 0 else max(least, again)
        if M * time + beyond < ceiling:
            times[count] = time
    return times


@dataclass(frozen=True)
class _LastTurn:
    """Limits on the layers of a group's last stage, for steps below a time."""

    room: float  # for passes of the last turn, transfers, and those that others need [s]
    least: float  # of these
    fixed: float  # without the passes of equal layers
    layer: float  # of an equal layer
    others: int  # M - S
    stored: tuple[float, float]  # most bytes that an equal layer, and the last one if it is there, keep

    @classmethod
    def of(cls, setting: Setting, others: _Others, t: int, S: int, h: int, end: bool, room: float) -> _LastTurn:
        n = setting.chain.n

        def turn(forward: float, backward: float) -> float:
            return (S - h) * forward + (S - 1) * backward

        last, layer = turn(*setting.layer(t, n - 1)) if end else 0.0, turn(*setting.layer(t, 1))
        alone = last if end else min(turn(*times) for times in others.between[t])
        first, inner, final = others.backward
        passes = first + (n - 2) * inner + final if setting.M == S else 0.0
        fixed = setting.question.fixed.v
        turns = range(2, others.layers // S + 1) if fixed is None else [fixed]
        least = min(max(alone, (S - 1) * passes / (S * v)) + others.transfers(S, v) for v in turns)
        stored = setting.most_stored(t, 1), setting.most_stored(t, n - 1) if end else 0.0
        return cls(room - others.after, least, last + others.transfers(S, turns[0]), layer, setting.M - S, stored)

    def limit(self, time: float) -> int:
        """Largest number of equal layers in the last stage of a group with this pass time; -1 if none."""
        rest = self.room - self.others * time
        if rest <= self.least:
            return -1
        return math.floor((rest - self.fixed) / self.layer) if self.layer > 0 else 10**9
