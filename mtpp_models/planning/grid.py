r"""Lower bounds on the time of plans with degrees of parallelism, with one stage for each group of devices or several.

**A bound for plans whose devices run several stages in turns, in Megatron-LM's order.**

For a model of equal layers with one layer before and one after them, as language models have; other models have
`mtpp_models.planning.grid.relaxations`, and a plan must be possible with each. Group g of S holds some of
the equal layers, the first group also what comes before, the last one what comes after. It holds none where the layers
that a relaxation leaves out are enough for its turns: v, or v - 1 of the first and the last group. In this order it
begins with :math:`(v - 1) S + 2 (S - g) - 1` forward passes: S of each turn but the last, of that one :math:`r =
\min(S, 2 (S - g) - 1)`, all kept at once, as S divides M. The backward passes end with S of each turn but the last.
With τ the time of both passes of its layers, W the sum of those of all groups, f and b of the passes of a layer, f' and
b' of those of its last turn, c of a transfer, C of all of a microbatch, at the best degree and link where other groups
run them, and A of what follows the last backward pass of the first layer:

- its passes lie between g forward and g backward passes of other groups, and what follows its own last one takes A':
  :math:`T ≥ g (f + b + 2 c) + M τ + A` and :math:`T ≥ g (f + c) + M τ + A'`;
- the first microbatch passes all stages and comes back to its last turn; between the first and the last backward pass
  of that, it runs all passes but those at the begin and at the end above; and the last microbatch goes on. So if r < S
  or M = S, :math:`T ≥ W + (M - S) τ + (S - r) f' + (S - 1) b' + C + A`;
- if M = S, S - 1 others follow the first one back to any stage, the longest of S v: :math:`T ≥ W + (S - 1) \sum b / (S
  v) + C + A`. C counts 2 (S v - 1) transfers, most of 2 v - 1 pairs of them next to a group of the largest degree;
- τ includes the least recomputation with which r microbatches of its layers fit, and S of those of other turns. With n
  equal layers in its last turn that is as with S of all and the room of S - r of n, and n cannot be large.

Of plans in several servers, as in `instances.planning.grid.program`, some neighbours are in two servers, or each
pipeline lies in one and rings are slow. In the first case two pairs of a cycle of groups are in two servers, one of
them perhaps the last and the first group: 2 v - 1 transfers each way and microbatch have the rate between servers in C,
and v of them share a channel: :math:`T ≥ 2 M v c`, in full duplex half of it.

A time is impossible if, for all degrees and S, groups that stay below it cannot hold all layers. Which are below it
follows from W, and W is at least what a program over devices finds, with a price of each layer, for each largest
degree, which some group must have; so both are found in turns. The bound is the largest such time, by bisection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.deadline import Deadline
from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray
from instances.planning.grid.configurations import NONE, Configuration, ConfiguredChain, ConfiguredLayer, Degrees
from instances.planning.grid.plan import GridPlan
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.program import (
    ACROSS,
    ANYWHERE,
    SPREAD,
    Setting,
    even_work,
    settings_of,
    solve,
    stage_costs,
)
from instances.planning.grid.recomputation import Fronts, GridArrays, least_time
from instances.results import Bound
from mtpp_models.planning.bounds import apart_bound

# Models of equal layers between their ends whose plans take no longer than those of a model of any layers.
#
# Of layers between the first and the last that differ, some count as equal ones with the least of all their numbers,
# and the others take no time and no room. Which ones are best depends on what limits a plan, so there are two such
# models: those whose number times their least parameters is most, and those whose number times their least time is
# most.


def relaxations(question: GridInstance) -> list[GridInstance]:
    """Distinct relaxations of a question in which all layers between the first and the last are equal."""
    chains = question.chains
    choices = dict.fromkeys(tuple(_heaviest(chain, weight) for chain in chains) for weight in (_parameters, _time))
    return [replace(question, chains=tuple(map(_equal_between_ends, chains, layers))) for layers in choices]


def _parameters(layer: ConfiguredLayer) -> float:
    return layer.configurations[0].parameters + layer.configurations[0].expert_parameters


def _time(layer: ConfiguredLayer) -> float:
    return layer.configurations[0].forward + layer.configurations[0].backward


def _heaviest(chain: ConfiguredChain, weight: Callable[[ConfiguredLayer], float]) -> tuple[int, ...]:
    """Indices in the chain of the set of inner layers with the largest (number of layers) x (least weight)."""
    weights = [weight(layer) for layer in chain.layers[1:-1]]
    _, least = max((number * value, value) for number, value in enumerate(sorted(weights, reverse=True), start=1))
    return tuple(place for place, value in enumerate(weights, start=1) if value >= least)


def _equal_between_ends(chain: ConfiguredChain, layers: Sequence[int]) -> ConfiguredChain:
    """The chain with only these inner layers, made equal: each has the least costs of any of them.

    An equal layer may be run in every configuration that one of them has, and sends as few bytes as any inner layer.
    """
    first, *between, last = chain.layers
    if len({layer.kind for layer in between}) == 1:
        return chain
    sent: dict[Degrees, float] = {}
    for layer in between:
        for way in layer.configurations:
            sent[way.degrees] = min(way.output_bytes, sent.get(way.degrees, way.output_bytes))
    ways: dict[tuple[Degrees, str], Configuration] = {}
    for layer in map(chain.layers.__getitem__, layers):
        for way in layer.configurations:
            key = way.degrees, way.recompute
            least = ways.get(key, way)
            numbers = {
                name: min(getattr(least, name), value) for name, value in vars(way).items() if isinstance(value, float)
            }
            ways[key] = replace(way, **numbers | {"output_bytes": sent[way.degrees]})
    alike = [replace(way, forward=ways[way.degrees, NONE].forward) for way in ways.values()]
    equal = ConfiguredLayer("between", "between", tuple(alike))
    return replace(chain, layers=(first, *[equal] * len(layers), last))


_STEPS, _PRICES = 24, 8


def turns_bound(question: GridInstance, high: float, deadline: Deadline) -> float | None:
    """Lower bound on the time of interleaved plans (stages in turns), at most `high` [s], by bisection.

    None for fewer than four layers, or if no time was refuted by the deadline.
    """
    if question.layers < 4:
        return None
    places: tuple[str, ...] = (ANYWHERE,)
    if question.servers.count > 1:
        places = (ACROSS, SPREAD)
        with suppress(InputError):  # no plan of the question lies in one server
            alone = replace(question, servers=replace(question.servers, count=1))
            high = turns_bound(alone, high, deadline) or _share(alone, high)
    whole, relaxed = settings_of(question), relaxations(question)
    works = [even_work(question, *pair) for pair in whole]
    low = least = min([high, *works])
    try:
        rooms = [
            [
                [_Room(other, *settings_of(other)[i], whole[i][1], deadline, place) for other in relaxed]
                for place in places
                if place != SPREAD or whole[i][0].pipelines > 1
            ]
            for i, work in enumerate(works)
            if work < high
        ]
        rooms = [room for room in rooms if _hold(room, high, deadline)]
        if not rooms:
            return high
        for _ in range(_STEPS):
            middle = (low + high) / 2
            holding = [room for room in rooms if _hold(room, middle, deadline)]
            if holding:
                high, rooms = middle, holding
            else:
                low = middle
    except _OutOfTimeError:
        return low if low > least else None
    return low


def _share(question: GridInstance, high: float) -> float:
    """Even share of work of the setting for which it is least, at most `high` [s]."""
    return min([high, *(even_work(question, *pair) for pair in settings_of(question))])


def _hold(places: list[list[_Room]], ceiling: float, deadline: Deadline) -> bool:
    """Whether groups of a setting may hold all layers within `ceiling` [s]: for some place, in each relaxation."""
    return any(all(relaxation.holds(ceiling, deadline) for relaxation in relaxed) for relaxed in places)


class _OutOfTimeError(Exception):
    """Signal that the deadline has passed, or that tables are too large."""


class _Tables(NamedTuple):
    """Times of groups [s] by degree (T of them) and number of equal layers; L counts these and both ends."""

    degrees: IntArray  # (T,)
    run: NDArray[np.int32]  # (L, L + 1): as `Fronts.run`
    tau: FloatArray  # (3, H, T, L - 1): both passes of a first, an inner, a last group that keeps 1 … H microbatches
    plain: FloatArray  # (T, L): both passes of each layer, without recomputation
    forward: FloatArray  # (T, L): forward pass of each layer
    single: FloatArray  # (2, T): least forward and backward pass of any inner layer, including those left out
    after: FloatArray  # (3, T, L - 1): time after the last backward pass of a first, an inner, a last group
    transfer: FloatArray  # (T,): least transfer time between two stages, of degrees up to each
    between: FloatArray  # (2, T): the same behind the first layer: of degrees up to each, and of each degree
    crossing: FloatArray  # (T,): how much longer it is at least between servers, of degrees up to each
    stored: FloatArray  # (2, T): most bytes that an equal layer, and the last one, keep for a microbatch
    rooms: FloatArray  # (T, R): bytes for kept activations in each run of layers
    caps: FloatArray  # (T, W): as `GridArrays.caps`
    fronts: Fronts
    turns: tuple[int, int]  # fewest and most stages of a group
    layers: int  # number of layers of the model
    fewest: IntArray  # (3,): fewest equal layers of a first, an inner, a last group


class _Room:
    """Tests whether groups of one setting can hold all layers of a relaxation, with equal layers, within a time."""

    def __init__(
        self,
        question: GridInstance,
        setting: Setting,
        arrays: GridArrays,
        whole: GridArrays,
        deadline: Deadline,
        place: str,
    ) -> None:
        self.M = question.global_batch // (setting.pipelines * setting.micro_batch)
        self.K = question.servers.devices // (setting.pipelines * setting.context)
        if place == SPREAD:  # a pipeline lies in one server
            self.K = min(self.K, question.servers.size // setting.context)
        L, layers, fixed, v = arrays.output.shape[1], whole.output.shape[1], question.fixed.pp, question.fixed.v
        limit = min(layers // (v or 2), self.K)
        self.groups = [S for S in range(2, limit + 1) if self.M % S == 0 and fixed in (None, S)]
        costs = stage_costs(question, arrays, setting, min(self.M, max(self.groups, default=1)), deadline, place)
        fronts = arrays.fronts(deadline)
        if costs is None or fronts is None:
            raise _OutOfTimeError
        run = costs.run
        counts, between = np.arange(L - 1), costs.transfer[0, :, 1:-1].min(axis=1)
        near, far = costs.transfer[:, :, :-1]
        ways = 1 if question.full_duplex else 2
        self.floor = ways * self.M * (v or 2) * float(far.min()) if place == ACROSS else 0.0

        def by_count(table: FloatArray) -> FloatArray:
            """(3, …) `table` of groups with the first layer, no end, or the last one, by number of equal layers."""
            inner = np.insert(table[..., run[1, 1 + counts[1:]]], 0, 0.0, axis=-1)
            return np.ascontiguousarray([table[..., run[0, 1 + counts]], inner, table[..., run[L - 1 - counts, L]]])

        self.tables = _Tables(
            degrees=costs.degrees,
            run=run,
            tau=by_count(costs.tau),
            plain=np.diff(arrays.forward + arrays.backward, axis=1),
            forward=np.diff(arrays.forward, axis=1),
            single=np.array([np.diff(sums, axis=1)[:, 1:-1].min(axis=1) for sums in (whole.forward, whole.backward)]),
            after=by_count(costs.after),
            transfer=np.minimum.accumulate(costs.transfer[0, :, :-1].min(axis=1)),
            between=np.array([np.minimum.accumulate(between), between]),
            crossing=np.minimum.accumulate((far - near).min(axis=1)) * (place == ACROSS),
            stored=np.array([_most_stored(fronts, 1), _most_stored(fronts, L - 1)]),
            rooms=costs.rooms,
            caps=arrays.caps,
            fronts=fronts,
            turns=(v or 2, v or layers),
            layers=layers,
            fewest=np.array([int(layers - L < others) for others in ((v or 2) - 1, v or 2, (v or 2) - 1)]),
        )

    def holds(self, ceiling: float, deadline: Deadline) -> bool:
        """Whether some number of groups may hold all layers within `ceiling` [s]."""
        for S in self.groups if self.floor < ceiling else ():
            if deadline.passed:
                raise _OutOfTimeError
            if _holds(self.tables, S, self.M, self.K, ceiling):
                return True
        return False


def _most_stored(fronts: Fronts, layer: int) -> FloatArray:
    """(T,) most bytes that a layer keeps for a microbatch, over the Pareto optimal ways to run it."""
    run = fronts.run[layer, layer + 1]
    last = fronts.begin[:, :, run] + fronts.size[:, :, run] - 1
    return fronts.stored[last].max(axis=1)


@compiled
def _holds(tables: _Tables, S: int, M: int, K: int, ceiling: float) -> bool:
    """Whether S groups may hold all layers within `ceiling` [s], for some choice of the largest tensor degree."""
    L = tables.plain.shape[1]
    for top in range(len(tables.degrees)):
        work, least, times = -1.0, 0.0, np.empty((S, top + 1, L - 1))
        while work < least < np.inf:
            work = least
            for g in range(S):
                for t in range(top + 1):
                    _below(tables, S, M, g, t, times[g], ceiling, work)
            least = _least_work(tables, times, K, ceiling)
        if least < np.inf:
            return True
    return False


@compiled
def _least_work(tables: _Tables, times: FloatArray, K: int, ceiling: float) -> float:
    """Lower bound on the sum of both passes over all groups [s]; infinite if they cannot hold all layers.

    It is Lagrangian: for any price of a layer, the least time of the groups minus the price of their layers, plus the
    price of all layers.
    """
    equal = tables.plain.shape[1] - 2
    few_work, few = _priced(tables.degrees, times, K, 0.0)
    if few_work == np.inf or few >= equal:
        return few_work
    many_work, many = _priced(tables.degrees, times, K, len(times) * ceiling)
    if many < equal:
        return np.inf
    least = few_work
    for _ in range(_PRICES):
        price = (many_work - few_work) / (many - few)
        expected = many_work + price * (equal - many)
        work, number = _priced(tables.degrees, times, K, price)
        least = max(least, work + price * (equal - number))
        if least >= expected * (1 - 1e-9):
            break
        if number < equal:
            few_work, few = work, number
        else:
            many_work, many = work, number
    return least


@compiled
def _priced(degrees: IntArray, times: FloatArray, K: int, price: float) -> tuple[float, int]:
    """Time and number of equal layers of the groups that minimise time minus `price` for each layer.

    At least one group has the last degree.
    """
    S, T, N = times.shape
    value, layers = np.full((2, K + 1), np.inf), np.zeros((2, K + 1), dtype=np.int64)
    value[0, 0] = 0.0  # without a group of the last degree, and with one
    for g in range(S):
        more, more_layers = np.full((2, K + 1), np.inf), np.zeros((2, K + 1), dtype=np.int64)
        for t in range(T):
            cost, number, degree = np.inf, 0, degrees[t]
            for count in range(N):
                if times[g, t, count] - price * count < cost:
                    cost, number = times[g, t, count] - price * count, count
            for before in range(2 if cost < np.inf else 0):
                now = 1 if t == T - 1 else before
                for k in range(degree, K + 1):
                    if value[before, k - degree] + cost < more[now, k]:
                        more[now, k] = value[before, k - degree] + cost
                        more_layers[now, k] = layers[before, k - degree] + number
        value, layers = more, more_layers
    k = value[1].argmin()
    return value[1, k] + price * layers[1, k], layers[1, k]


@compiled
def _below(tables: _Tables, S: int, M: int, g: int, t: int, times: FloatArray, ceiling: float, work: float) -> None:
    """Write row t of `times`: both passes of group g with tensor degree t, by number of equal layers [s].

    A time is infinite if the plan would take `ceiling` or longer. It is assumed that the other groups have the degrees
    of rows of `times`, and that both passes of all groups take at least `work`.
    """
    T, c = len(times), tables.transfer[len(times) - 1]
    plain, forward, single = tables.plain[:T], tables.forward, tables.single
    L, kind, r = plain.shape[1], 0 if g == 0 else 2 if g == S - 1 else 1, min(S, 2 * (S - g) - 1)
    around = after = tables.after[0, :T, 0].min()
    before_it = 0.0
    if g > 0:
        around += plain[:, 0].min() + (g - 1) * (single[0] + single[1])[:T].min() + 2 * g * c
        before_it = forward[:T, 0].min() + (g - 1) * single[0, :T].min() + g * c
    step = (S - r) * forward[t, 1] + (S - 1) * (plain[t, 1] - forward[t, 1])
    end, stored = 0.0, 0.0  # of the last layer in the last turn
    if kind == 2:
        end = (S - r) * forward[t, L - 1] + (S - 1) * (plain[t, L - 1] - forward[t, L - 1])
        stored = tables.stored[1, t]
    least_turn = end if kind == 2 else (S - r) * single[0, t] + (S - 1) * single[1, t]
    filled = _filled(tables, S, M, T - 1, least_turn)
    sent = _filled(tables, S, 0, T - 1, end)
    times[t] = np.inf
    beside = tables.fewest[0]  # equal layers that turns beside the last one must hold, one of them without an end
    for count in range(tables.fewest[kind], L - 1):
        tau = least = tables.tau[kind, r - 1, t, count]
        beyond = max(around, before_it + tables.after[kind, t, count])
        if M * tau + beyond >= ceiling:
            break
        last = count - beside
        before = last + 1 if r < S or M == S else last
        while last < before:  # a longer time leaves less room for the last turn, which makes the time longer
            slack = ceiling - work - after - (M - S) * tau
            if slack <= filled:
                tau = np.inf
                break
            before = last
            last = int(min((slack - sent) / step, last)) if step > 0 else last
            if r < S and (count > 0 or kind == 2):
                run = tables.run[1, 1 + count] if kind == 1 else tables.run[L - 1 - count, L]
                room = tables.rooms[t, run] + (S - r) * (stored + last * tables.stored[0, t])
                again = least_time(tables.fronts, tables.caps, t, run, S, room)
                tau = max(least, again + count * plain[t, 1] + (plain[t, L - 1] if kind == 2 else 0.0))
        if M * tau + beyond < ceiling:
            times[t, count] = tau


@compiled
def _filled(tables: _Tables, S: int, M: int, top: int, turn: float) -> float:
    """Least time of a microbatch's transfers through all stages and back, plus `turn` [s].

    If M = S, `turn` is replaced by the time of the other microbatches' backward passes in a stage, if that is longer.
    """
    L = tables.plain.shape[1]
    back = tables.plain[: top + 1] - tables.forward[: top + 1]
    passes = back[:, 0].min() + (L - 2) * back[:, 1].min() + back[:, L - 1].min() if M == S else 0.0
    least = np.inf
    for v in range(tables.turns[0], min(tables.turns[1], tables.layers // S) + 1):
        sent = tables.transfer[top] + (2 * v - 2) * tables.between[1, top] + (S - 2) * v * tables.between[0, top]
        sent = 2 * (sent + (2 * v - 1) * tables.crossing[top])
        least = min(least, max(turn, (S - 1) * passes / (S * v)) + sent)
    return least


# Bounds on training plans in a grid, named by the plans that they cover.
#
# *z-grid* is the least value of `instances.planning.grid.program` over all degrees: it holds for plans whose devices
# run one stage each, in any order of unsplit passes with 1F1B's number of microbatches on their way; *turns-grid*, of
# `mtpp_models.planning.grid`, for several in turns; *apart-grid*, of `mtpp_models.planning.bounds`, for both where
# links between servers are slow. *work-grid* is an even share of the least work.


#: For each bound, a text that names the plans covered; the narrowest class first.
COVERED = {
    "z-grid": "any cuts, allowed degrees and recomputation, one stage a device",
    "turns-grid": "any cuts, allowed degrees and recomputation, stages in turns in Megatron-LM's order",
    "apart-grid": "any plan in the grid, in one server or in several, stages in turns as well",
    "work-grid": "any plan in the grid, stages in turns as well",
}


def grid_bounds(plan: GridPlan, deadline: Deadline) -> tuple[Bound, ...]:
    """Lower bounds that apply to this plan, each valid for a class of plans, the narrowest class first.

    Settings whose dynamic program is left out or broken off at the deadline count with their even share of work.
    """
    question, time = plan.instance, plan.time
    work = Bound(_share(question, time), "work-grid")
    apart = apart_bound(question, time, deadline, _any_bound)
    wide = (work,) if apart is None else (Bound(apart, "apart-grid"), work)
    if plan.turns > 1:
        turns = None if deadline.passed else turns_bound(question, time, deadline)
        return wide if turns is None else (Bound(max(turns, work.value), "turns-grid"), *wide)
    narrow, complete = _stages_bound(question, time, deadline)
    return Bound(narrow, "z-grid", optimal=complete), *wide


def _stages_bound(question: GridInstance, high: float, deadline: Deadline) -> tuple[float, bool]:
    """Lower bound on the time of plans with one stage for each group, at most `high` [s]; whether it is complete.

    It is complete if no setting was left out for lack of time. Plans in one server are bounded first. Then the setting
    with the least bound is bounded more sharply: by its work, for plans anywhere, for plans in several servers.
    """
    complete, rounds = True, list[tuple[str, ...]]([(ANYWHERE,)])
    if question.servers.count > 1:
        rounds.append((ACROSS, SPREAD))
        with suppress(InputError):  # no plan of the question lies in one server
            alone = replace(question, servers=replace(question.servers, count=1))
            high, complete = _stages_bound(alone, high, deadline)
    settings = settings_of(question)
    waiting = [(even_work(question, *pair), 0, i) for i, pair in enumerate(settings)]
    heapify(waiting)
    while waiting and waiting[0][0] < high:
        value, decided, i = heappop(waiting)
        if decided == len(rounds):
            return value, complete
        setting, arrays = settings[i]
        bounds = list[float]()
        for place in rounds[decided]:
            solution = None if deadline.passed else solve(question, arrays, setting, high, deadline, place)
            complete &= solution is not None
            bounds.append(value if solution is None else solution.bound)
        heappush(waiting, (max(value, min(bounds)), decided + 1, i))
    return high, complete


def _any_bound(question: GridInstance, high: float, deadline: Deadline) -> float:
    """Lower bound on the time of all plans, interleaved or not, at most `high` [s]."""
    fixed, least = question.fixed.v, high
    if fixed in (None, 1):
        least, _ = _stages_bound(question, high, deadline)
    if fixed != 1:
        turns = None if deadline.passed else turns_bound(question, least, deadline)
        if turns is None:
            turns = _share(question, least)
        least = min(least, turns)
    return least


def covered(method: str) -> str:
    """A text that names the plans to which a method's bound applies."""
    return COVERED[method]
