"""Search for plans with degrees of parallelism: moves of cuts, recomputation that fits, and why no plan fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations, cycle, pairwise, permutations, product
from operator import itemgetter

import numpy as np

from heuristics.method import Limits
from heuristics.planning.grid.uniform import Sketch, built, expressible, least_step, regular_cuts, uniform_sketches
from instances.deadline import CLOCK, Deadline
from instances.errors import InputError, NothingFitsError
from instances.graph.display import figures
from instances.planning.grid.configurations import Configuration
from instances.planning.grid.plan import GridPlan
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.program import Setting, even_work, settings_of, solve
from instances.planning.grid.recomputation import GridArrays, chosen_modes

# All plans of small questions, and changes of plans of large ones.
#
# A layer moves from one stage to another, or two stages of different tensor degrees change places.


#: Plans of a setting with one stage a device, up to which all are tried.
_ALL = 1000

#: Cuts of stages, and the tensor degree of each group.
Stages = tuple[tuple[int, ...], tuple[int, ...]]


def every_plan(question: GridInstance, arrays: GridArrays, setting: Setting) -> list[Stages] | None:
    """Cuts and tensor degrees of all plans of a setting, also interleaved ones; None if there are too many."""
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
    """Cuts after one layer moves from a stage to another; None if a stage would be empty."""
    source, target = pair
    if cuts[source + 1] - cuts[source] < 2:
        return None
    step = 1 if source > target else -1
    low, high = min(pair) + 1, max(pair)
    return (*cuts[:low], *(cut + step for cut in cuts[low : high + 1]), *cuts[high + 1 :])


def moved(stages: Stages, pair: tuple[int, int]) -> Stages | None:
    """Stages after one layer moves from one to another, with the same degrees; None if one would be empty."""
    cuts = moves_of(stages[0], pair)
    return None if cuts is None else (cuts, stages[1])


def exchanged(stages: Stages, pair: tuple[int, int]) -> Stages | None:
    """Stages after two exchange places; None if both have the same tensor degree."""
    cuts, tensor = stages
    first, second = pair
    if len(cuts) > len(tensor) + 1 or tensor[first] == tensor[second]:
        return None
    counts, degrees = np.diff(cuts).tolist(), list(tensor)
    for values in (counts, degrees):
        values[first], values[second] = values[second], values[first]
    return (0, *np.cumsum(counts).tolist()), tuple(degrees)


def dealt(cuts: tuple[int, ...], turns: int) -> tuple[int, ...]:
    """Cuts of interleaved stages, `turns` for each group, where each group keeps its number of layers."""
    counts = np.diff(cuts)
    rows = counts // turns + (np.arange(turns)[:, None] < counts % turns)
    return (0, *np.cumsum(rows).tolist())


# Recomputation of the layers of all groups, such that each group fits and little time is spent again.


_Runs = tuple[tuple[int, int], ...]


class Fitting:
    """Chooses modes of recomputation with which plans of one setting fit into memory; results are cached."""

    def __init__(self, question: GridInstance, setting: Setting) -> None:
        self.question, self.setting = question, setting
        self.M = question.global_batch // (setting.pipelines * setting.micro_batch)
        self._menus: dict[int, list[tuple[Configuration, ...]]] = {}
        self._times: dict[tuple[int, int, str], float] = {}
        self._groups: dict[tuple[_Runs, int, float, float], tuple[str, ...] | None] = {}

    def modes(self, cuts: tuple[int, ...], tensor: tuple[int, ...], part: float = 1.0) -> tuple[str, ...] | None:
        """(L,) modes of recomputation with which each group fits into a fraction of memory; None if one does not.

        An interleaved group is assumed to keep as many microbatches of each of its stages, which is an upper bound.
        """
        S, runs = len(tensor), tuple(pairwise(cuts))
        v, modes = len(runs) // S, np.empty(cuts[-1], dtype=object)
        for g, t in enumerate(tensor):
            first = S - g if v == 1 else 2 * (S - g) - 1 + (v - 1) * S
            key = (runs[g::S], t, min(v * self.M, first) / v, part)
            if key not in self._groups:
                self._groups[key] = self._fitting(*key)
            chosen = self._groups[key]
            if chosen is None:
                return None
            modes[_by_depth(key[0])] = chosen
        return tuple(modes.tolist())

    def least(self, cuts: tuple[int, ...], tensor: tuple[int, ...], modes: tuple[str, ...]) -> float:
        """Lower bound on the time of a plan [s]: all passes of a group, and one microbatch in the groups before it."""
        S = len(tensor)
        times = np.array(
            [
                sum(self._pass_time(layer, tensor[n % S], modes[layer]) for layer in range(begin, end))
                for n, (begin, end) in enumerate(pairwise(cuts))
            ]
        )
        groups = self.M * times.reshape(-1, S).sum(axis=0)
        return float((groups + np.cumsum(times[:S]) - times[:S]).max())

    def _pass_time(self, layer: int, t: int, mode: str) -> float:
        """Time of both passes of a layer of tensor degree t [s]."""
        if (layer, t, mode) not in self._times:
            way = next(way for way in self.menus(t)[layer] if way.recompute == mode)
            self._times[layer, t, mode] = way.forward + way.backward
        return self._times[layer, t, mode]

    def menus(self, t: int) -> list[tuple[Configuration, ...]]:
        """Configurations of each layer, first the one without recomputation."""
        if t not in self._menus:
            chain, degrees = (
                self.question.chain(self.setting.micro_batch),
                (t, self.setting.context, self.setting.expert),
            )
            menus = {kind: self.question.ways(layer, degrees) for kind, layer in chain.kinds.items()}
            self._menus[t] = [menus[layer.kind] for layer in chain.layers]
        return self._menus[t]

    def _fitting(self, runs: _Runs, t: int, in_flight: float, part: float) -> tuple[str, ...] | None:
        """Modes of the layers, in the order of `_by_depth`, that fit into a fraction of memory; None if none do."""
        menus = self.menus(t)
        ways = [menus[layer] for layer in _by_depth(runs)]
        plain = [menus[layer][0] for begin, end in runs for layer in range(begin, end)]
        room = part * self.question.memory - self.kept(plain, whole=len(plain) == self.question.layers)
        return chosen_modes(ways, in_flight, room)

    def kept(self, layers: list[Configuration], *, whole: bool) -> float:
        """Bytes of parameters, gradients and optimizer of a group."""
        setting = self.setting
        shards = self.question.shards(setting.pipelines, layers[0].degrees)
        return sum(self.question.kept_bytes(layers, setting.zero, shards, whole=whole))


def _by_depth(runs: _Runs) -> list[int]:
    """Layers of all stages of a group, the first layer of each stage first, then the second ones, and so on."""
    depth = max(end - begin for begin, end in runs)
    return [begin + i for i in range(depth) for begin, end in runs if begin + i < end]


# Why a search for plans in a grid has found none: what the smallest configuration needs.


def no_plan(
    question: GridInstance,
    settings: list[tuple[Setting, GridArrays]],
    fitting_of: Callable[[Setting], Fitting],
    in_time: bool,
) -> InputError:
    """Error that states the memory that the smallest configuration needs, or that time was up."""
    least, share = dict[str, float](), np.inf
    layers = question.chains[0].layers
    counts = Counter(layer.kind for layer in layers)
    places = {layer.kind: place for place, layer in reversed(list(enumerate(layers)))}  # the first of each kind
    for setting, arrays in settings:
        fitting, used = fitting_of(setting), setting.pipelines * setting.context
        even = dict.fromkeys(counts, np.inf)  # bytes of a layer on all its devices
        for t, (kind, place) in product(arrays.degrees.tolist(), places.items()):
            name, ways = layers[place].name, fitting.menus(t)[place]
            states = [fitting.kept([way], whole=False) + way.stored_bytes for way in ways]
            needed = min(state + way.working_bytes for state, way in zip(states, ways, strict=True))
            least[name] = min(needed, least.get(name, np.inf))
            even[kind] = min(even[kind], t * min(states))
        share = min(share, sum(counts[kind] * even[kind] for kind in counts) / (question.servers.devices // used))
    if not least:
        ep = min(way.degrees[2] for way in layers[0].configurations)
        of = "dp times cp" + " times tp" * question.whole_experts
        divides = f"; an expert degree of {ep} or more has to divide {of}" if ep > 1 else ""
        return InputError(
            f"{question.label}: no degrees that the question allows fit into a server{divides}; allow others."
        )
    groups = range(2, question.servers.devices + 1) if question.fixed.pp is None else (question.fixed.pp,)
    if (question.fixed.v or 1) > 1 and all(fitting_of(setting).M % S for setting, _ in settings for S in groups):
        return InputError(
            f"{question.label}: stages in turns need a multiple of pp as microbatches of a pipeline, which this batch "
            "never has; leave v out, or change pp or the batch."
        )
    name = max(least, key=lambda name: least[name])
    proved = least[name] > question.memory * (1 + 1e-9)
    why = f"layer {name} alone needs {figures(least[name], 'bytes')} on a device in its smallest configuration"
    if not proved:
        why = f"each layer fits alone, but all of them, divided evenly, need {figures(share, 'bytes')} a device"
        why += "" if share > question.memory else ", and no stages are that even" if in_time else ""
    if not in_time and not proved:
        return NothingFitsError(f"{question.label}: no plan was found in this time: {why}; give more.", proved=False)
    return NothingFitsError(
        f"{question.label}: nothing fits into {figures(question.memory, 'bytes')} a device: {why}; give more memory, "
        "devices, a higher stage of ZeRO or tensor degree, or smaller microbatches.",
        proved=proved,
    )


# Search for plans in a grid: uniform plans, then those of the program over stages, then small changes of the best.
#
# Of a small question all stages are tried. A larger cluster has all plans of a smaller one, and the fronts of the
# program for fewer devices are part of those for more.


#: Uniform plans that are simulated; passes that are simulated for a setting; and plans of a setting, at least and most.
_UNIFORM = 50
_PASSES, _FEWEST, _MOST = 2_000_000, 8, 300
#: Plans that are changed, changes of each, and cuts of those that are.
_STARTS, _MOVES, _CHANGED = 4, 250, 1000
#: Seconds to find a first plan, at least.
_AT_LEAST = 10.0
#: Part of the time for plans of fewer servers; up to so many all numbers of them are tried, of more powers of 2, and
#: three times those.
_FEWER, _FEW, _ODD = 0.8, 8, (1, 3)
#: How far above the best time plans of fewer servers, and of other cuts, may begin: changes make some of them faster.
_NEAR = 1.03
#: How far above the best time the program looks for groups that may run stages in turns.
_WIDER = 1.15
#: Parts of the memory that plans in turns fill, as what they need is known only once they are built.
_PARTS = (1.3, 1.15, 1.07, 1.03, 1.0, 0.97, 0.94, 0.9, 0.85)


@dataclass
class GridSearch:
    """State of a search for plans: the best plans found."""

    question: GridInstance
    deadline: Deadline
    best: GridPlan | None = None
    uniform: GridPlan | None = None  # the best of the uniform plans
    runtime: str | None = None  # that has to run the plan
    shown: int = 1  # plans of different degrees
    limit: float = np.inf  # time that plans must be below, of those of other servers [s]
    tell: Callable[[str, float], None] | None = None
    #: Best plan of each setting, degrees of groups, and number of stages.
    met: dict[tuple[Setting, tuple[int, ...], int], tuple[float, Sketch]] = field(default_factory=dict)
    #: Times of plans that were simulated, with any number of servers.
    times: dict[tuple[object, ...], float] = field(default_factory=dict)
    #: Where in `_PARTS` the memory of plans of a shape begins to suffice, but for one.
    _parts: dict[tuple[Setting, tuple[int, ...], int], int] = field(default_factory=dict)
    _fittings: dict[Setting, Fitting] = field(default_factory=dict)
    _useful: float = np.inf  # time from which on a plan is neither changed nor shown [s]
    #: Without a plan the search may go on for the time of bounds, which need one.
    _last: Deadline = field(init=False)

    def __post_init__(self) -> None:
        self._last = replace(self.deadline, end=CLOCK.now() + max(_AT_LEAST, 2 * self.deadline.left))

    @property
    def until(self) -> Deadline:
        """Deadline of the search, which is extended while no plan is known."""
        return self._last if self.ceiling == np.inf else self.deadline

    @property
    def over(self) -> bool:
        """Whether the time of the search is up."""
        return self.until.passed

    def offer(self, sketch: Sketch, ceiling: float = 0.0) -> float:
        """Check and simulate a plan; return its time, infinite if it is infeasible [s].

        A plan that cannot improve on `ceiling` or the search is not simulated: its time is then a lower bound.
        """
        ceiling = max(ceiling, self.ceiling, self._useful)
        time = min(
            (self._time(way, ceiling) for way in expressible(self.question, sketch, self.runtime)), default=np.inf
        )
        place = (sketch.setting, sketch.tensor, len(sketch.cuts))
        if time < min(ceiling, self.met.get(place, (np.inf,))[0]):
            self.met[place] = time, sketch
            self._useful = self._least_of_no_use()
        return time

    def _least_of_no_use(self) -> float:
        """Time above which a plan is neither improved further nor shown beside the best plan [s]."""
        of_degrees: dict[tuple[Setting, tuple[int, ...]], float] = {}
        for (setting, tensor, _), (time, _) in self.met.items():
            of_degrees[setting, tensor] = min(time, of_degrees.get((setting, tensor), np.inf))
        ranked = ([time for time, _ in self.met.values()], _STARTS), (of_degrees.values(), self.shown)
        return max(np.inf if len(times) < number else sorted(times)[number - 1] for times, number in ranked)

    def _time(self, sketch: Sketch, ceiling: float) -> float:
        """Time of a plan [s], infinite if it does not fit, a lower bound from `ceiling` on; keeps the best plan."""
        key = sketch.setting, sketch.cuts, sketch.tensor, sketch.modes
        if self.times.get(key, -np.inf) < self.ceiling:
            time, plan = self._plan(sketch, ceiling)
            if plan is None:
                return time
            self.times[key] = time
            if time < self.ceiling:
                self.best = plan
        return self.times[key]

    def _plan(self, sketch: Sketch, ceiling: float = np.inf) -> tuple[float, GridPlan | None]:
        """The plan, placed as is fastest of the `PLACINGS` that the runtime has, and its time [s].

        If the time is `ceiling` or more, None and a lower bound; if the plan does not fit, None and infinity.
        """
        fastest, time = None, np.inf
        plans = [(least_step(plan), plan) for plan in built(self.question, sketch, self.runtime)]
        for least, plan in sorted(plans, key=itemgetter(0)):
            if least >= ceiling and fastest is None:
                return least, None
            if least < time and plan.time < time:
                fastest, time = plan, plan.time
        return time, fastest

    def offer_stages(
        self, setting: Setting, cuts: tuple[int, ...], tensor: tuple[int, ...], ceiling: float | None = None
    ) -> float:
        """As `offer`, with the least recomputation that fits; infinite if the time cannot be below `ceiling`."""
        fitting, before, shape = self.fitting(setting), None, (setting, tensor, len(cuts))
        for part in _PARTS[self._parts.get(shape, 0) :] if len(cuts) > len(tensor) + 1 else (1.0,):
            modes = fitting.modes(cuts, tensor, part)
            if modes is None:
                break
            if modes == before:
                continue
            before = modes
            least = fitting.least(cuts, tensor, modes)
            if least >= (self.ceiling if ceiling is None else ceiling):
                break
            time = self.offer(Sketch(least, setting, cuts, tensor, modes), ceiling or 0.0)
            if time < np.inf:
                self._parts[shape] = max(0, _PARTS.index(part) - 1) if part in _PARTS else 0
                return time
        return np.inf

    def fitting(self, setting: Setting) -> Fitting:
        """The cached `Fitting` of a setting."""
        return self._fittings.setdefault(setting, Fitting(self.question, setting))

    @property
    def ceiling(self) -> float:
        """Time below which new plans must be; infinite before the first plan [s]."""
        return min(self.limit, np.inf if self.best is None else self.best.time)

    def of_other_degrees(self) -> list[GridPlan]:
        """The best plans with other degrees, ZeRO stage or microbatch size than the best plan: `shown` - 1 at most."""
        plans: list[GridPlan] = []
        seen = set[object]() if self.best is None else {_degrees(self.best)}
        for _, sketch in sorted(self.met.values(), key=lambda pair: pair[0]):
            if len(plans) >= self.shown - 1:
                break
            plan = next((self._plan(way)[1] for way in expressible(self.question, sketch, self.runtime)), None)
            if plan is not None and _degrees(plan) not in seen:
                seen.add(_degrees(plan))
                plans.append(plan)
        return plans

    def say(self, phase: str) -> None:
        """Report to the listener that a phase has ended, with the best time so far."""
        if self.tell is not None:
            self.tell(phase, self.ceiling)


def _degrees(plan: GridPlan) -> tuple[object, ...]:
    return plan.groups, plan.tensor, plan.pipelines, plan.context, plan.expert, plan.zero, plan.micro_batch


def plan_in_grid(
    question: GridInstance,
    limits: Limits,
    runtime: str | None = None,
    tell: Callable[[str, float], None] | None = None,
    top: int = 0,
) -> GridSearch:
    """Find a plan that `runtime` can run, and `top` of other degrees; any plan if no runtime is given.

    Raises
    ------
    NothingFitsError
        If no plan was found that fits; the message says what the smallest one needs.
    InputError
        If no degrees are possible.
    """
    search = GridSearch(question, limits.deadline, runtime=runtime, shown=top + 1, tell=tell)
    settings = list(_settings(question, runtime))
    _uniform(search, settings)
    if search.best is not None:
        _on_fewer_servers(search)
    _plan_settings(search, settings)
    if search.best is None:
        if limits.deadline.interrupted.is_set():
            raise KeyboardInterrupt
        raise no_plan(question, settings, search.fitting, not search.over)
    for time, sketch in _first(search):
        _change(search, time, sketch)
    search.say("changes")
    return search


def _on_fewer_servers(search: GridSearch) -> None:
    """The best plans on fewer servers, each also a plan of the whole question.

    Where links between servers are slow, plans on all servers take far longer than the bounds of the dynamic program
    suggest, so that its plans for them are poor.
    """
    question, deadline = search.question, search.deadline.share(_FEWER)
    servers = question.servers
    for count in [c for c in range(1, servers.count) if servers.count <= _FEW or c // (c & -c) in _ODD]:
        with suppress(InputError):  # its devices do not divide the batch, or are fewer than degrees that are fixed
            fewer = replace(question, servers=replace(servers, count=count))
            settings = list(_settings(fewer, search.runtime))
            if deadline.passed or all(even_work(fewer, *pair) >= search.ceiling for pair in settings):
                continue
            limit = _NEAR * search.ceiling
            smaller = GridSearch(fewer, deadline, runtime=search.runtime, limit=limit, times=search.times)
            _uniform(smaller, settings)
            _plan_settings(smaller, settings)
            for time, sketch in _first(smaller):
                _change(smaller, time, sketch)
            for _, sketch in _first(smaller):
                search.offer(sketch)
    search.say("fewer servers")


def _first(search: GridSearch) -> list[tuple[float, Sketch]]:
    """The best plans of different settings with their times, the fastest first [s]."""
    return sorted(search.met.values(), key=lambda pair: pair[0])[:_STARTS]


def _plan_settings(search: GridSearch, settings: list[tuple[Setting, GridArrays]]) -> None:
    """Search each setting that may contain the best plan, in the order of the even share of work."""
    works = [even_work(search.question, *pair) for pair in settings]
    for i in np.argsort(works, kind="stable").tolist():
        if search.over or works[i] >= search.ceiling:
            return
        setting, arrays = settings[i]
        _plan_setting(search, setting, arrays)
        search.say(f"dp {setting.pipelines}")


def _uniform(search: GridSearch, settings: list[tuple[Setting, GridArrays]]) -> None:
    """Try uniform plans, then interleaved ones that need recomputation."""
    question, fitting = search.question, 0
    sketches, uniform, in_turns = uniform_sketches(question, settings), list[Sketch](), list[Sketch]()
    while fitting < _UNIFORM and not search.over and (sketch := next(sketches, None)) is not None:
        (uniform if sketch.modes else in_turns).append(sketch)
        if (
            sketch.modes
            and search.fitting(sketch.setting).least(sketch.cuts, sketch.tensor, sketch.modes) < search.limit
        ):
            search.offer(sketch)
            fitting += search.best is not None
    for sketch in uniform[:_UNIFORM]:
        for cuts in regular_cuts(question.chain(sketch.setting.micro_batch), len(sketch.cuts) - 1):
            least = search.fitting(sketch.setting).least(cuts, sketch.tensor, sketch.modes)
            if least < search.ceiling and cuts != sketch.cuts and not search.over:
                search.offer(replace(sketch, cuts=cuts))
    search.uniform = search.best
    search.say("uniform plans")
    fitting = 0
    for sketch in (sketch for part in (in_turns, sketches) for sketch in part if not sketch.modes):
        if fitting == _UNIFORM or sketch.estimate >= search.ceiling or search.over:
            break
        time = search.offer_stages(sketch.setting, sketch.cuts, sketch.tensor)
        fitting += time < np.inf
        if time < _NEAR * search.ceiling:
            for cuts in regular_cuts(question.chain(sketch.setting.micro_batch), len(sketch.cuts) - 1):
                if cuts != sketch.cuts and not search.over:
                    search.offer_stages(sketch.setting, cuts, sketch.tensor)
    search.say("plans in turns")


def _settings(question: GridInstance, runtime: str | None) -> Iterator[tuple[Setting, GridArrays]]:
    """All settings of the question; for a runtime those with one tensor degree for all stages."""
    if runtime is None or question.fixed.tp is not None:
        yield from settings_of(question)
        return
    fixed, servers = question.fixed, question.servers
    for t in sorted({tp for chain in question.chains for tp, _, _ in chain.degrees}):
        if servers.size % t == 0 and t * (fixed.pp or 1) * (fixed.dp or 1) <= servers.devices:
            yield from settings_of(replace(question, fixed=replace(fixed, tp=t)))


def _plan_setting(search: GridSearch, setting: Setting, arrays: GridArrays) -> None:
    """Try all plans of a small setting; of a large one, the best few plans of the dynamic program."""
    question = search.question
    every = every_plan(question, arrays, setting)
    if every is not None:
        for cuts, tensor in every:
            search.offer_stages(setting, cuts, tensor)
            if search.over:
                return
        return
    M = search.fitting(setting).M
    remaining, seen = int(np.clip(_PASSES / (M * question.layers), _FEWEST, _MOST)), set[object]()
    by_groups: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    solution = solve(question, arrays, setting, _WIDER * search.ceiling, search.until)
    for value, cuts, tensor in () if solution is None else solution.plans():
        if search.over:
            return
        by_groups.setdefault(len(tensor), (cuts, tensor))
        if value < search.ceiling and remaining and (cuts, tensor) not in seen:
            seen.add((cuts, tensor))
            remaining -= search.offer_stages(setting, cuts, tensor) < np.inf
    for cuts, tensor in (stages for S, stages in by_groups.items() if S > 1 and M % S == 0):
        for turns in range(2, int(np.diff(cuts).min()) + 1):
            if search.over:
                return
            search.offer_stages(setting, dealt(cuts, turns), tensor)


def _change(search: GridSearch, time: float, sketch: Sketch) -> None:
    """Improve a plan by moving layers between stages and exchanging stages; the search keeps the best."""
    stages, setting = (sketch.cuts, sketch.tensor), sketch.setting
    if len(sketch.cuts) > _CHANGED or search.over:
        return
    places = range(len(sketch.cuts) - 1)
    changes = [*product([moved], permutations(places, 2)), *product([exchanged], combinations(places, 2))]
    quiet, remaining = 0, _MOVES
    time = min(time, search.offer_stages(setting, *stages, time))
    for change, pair in cycle(changes):
        if quiet == len(changes) or not remaining or search.over:
            return
        other = change(stages, pair)
        other_time = np.inf if other is None else search.offer_stages(setting, *other, time)
        remaining -= other_time < np.inf
        quiet += 1
        if other is not None and other_time < time:
            time, stages, quiet = other_time, other, 0
