"""Search for plans in a grid: uniform plans, then those of the program over stages, then small changes of the best.

Of a small question all stages are tried. A larger cluster has all plans of a smaller one, and the fronts of the program
for fewer devices are part of those for more.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import cycle, permutations, product

import numpy as np

from heuristics.limits import Limits
from heuristics.planning.grid.fitting import Fitting
from heuristics.planning.grid.moves import dealt, every_plan, moves_of
from heuristics.planning.grid.runtimes import expressible
from heuristics.planning.grid.uniform import Sketch, built, uniform_sketches
from instances.deadline import CLOCK, Deadline
from instances.errors import InputError, NothingFitsError
from instances.graph.display import figures
from instances.planning.grid.arrays import GridArrays
from instances.planning.grid.plan import GridPlan
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.program import solve
from instances.planning.grid.settings import Setting, even_work, settings_of

__all__ = ["GridSearch", "plan_in_grid"]

#: Uniform plans that are simulated; passes that are simulated for a setting; and plans of a setting, at least and most.
_UNIFORM = 50
_PASSES, _FEWEST, _MOST = 2_000_000, 8, 300
#: Plans that are changed, changes of each, and cuts of those that are.
_STARTS, _MOVES, _CHANGED = 4, 300, 1000
#: Part of the time in which uniform plans are listed; seconds to find a first plan that is not uniform, at least.
_LISTED, _AT_LEAST = 0.3, 10.0
#: How far above the best time the program looks for groups that may run stages in turns.
_WIDER = 1.15
#: Parts of the memory that plans in turns fill, as what they need is known only once they are built.
_PARTS = (1.3, 1.15, 1.07, 1.03, 1.0, 0.97, 0.94, 0.9, 0.85)


@dataclass
class GridSearch:
    """Best plans that a search has found."""

    question: GridInstance
    deadline: Deadline
    best: GridPlan | None = None
    uniform: GridPlan | None = None  # the best of the uniform plans
    runtime: str | None = None  # that has to run the plan
    tell: Callable[[str, float], None] | None = None
    #: Best plan of each setting, degrees of groups, and number of stages.
    met: dict[tuple[Setting, tuple[int, ...], int], tuple[float, Sketch]] = field(default_factory=dict)
    _fittings: dict[Setting, Fitting] = field(default_factory=dict)
    #: Without a plan the search may go on for the time of bounds, which need one.
    _last: Deadline = field(init=False)

    def __post_init__(self) -> None:
        self._last = replace(self.deadline, end=CLOCK.now() + max(_AT_LEAST, 2 * self.deadline.left))

    @property
    def until(self) -> Deadline:
        """When the search ends: later as long as there is no plan."""
        return self._last if self.best is None else self.deadline

    @property
    def over(self) -> bool:
        """Whether the search has to end."""
        return self.until.passed

    def offer(self, sketch: Sketch) -> float:
        """Check and simulate a plan; its time, infinite if it is none [s]."""
        time = np.inf
        for one in expressible(self.question, sketch, self.runtime):
            for plan in built(self.question, one):
                time = min(time, plan.time)
                if plan.time < self.ceiling:
                    self.best = plan
        key = (sketch.setting, sketch.tensor, len(sketch.cuts))
        if time < self.met.get(key, (np.inf,))[0]:
            self.met[key] = time, sketch
        return time

    def offer_stages(
        self, setting: Setting, cuts: tuple[int, ...], tensor: tuple[int, ...], ceiling: float | None = None
    ) -> float:
        """The same with the least recomputation; infinite if it cannot be below `ceiling`, the best time by default."""
        fitting, before = self.fitting(setting), None
        for part in _PARTS if len(cuts) > len(tensor) + 1 else (1.0,):
            modes = fitting.modes(cuts, tensor, part)
            if modes is None:
                break
            if modes == before:
                continue
            before = modes
            least = fitting.least(cuts, tensor, modes)
            if least >= (self.ceiling if ceiling is None else ceiling):
                break
            time = self.offer(Sketch(least, setting, cuts, tensor, modes))
            if time < np.inf:
                return time
        return np.inf

    def fitting(self, setting: Setting) -> Fitting:
        """Recomputation for plans of a setting."""
        return self._fittings.setdefault(setting, Fitting(self.question, setting))

    @property
    def ceiling(self) -> float:
        """Time of the best plan; infinite if there is none [s]."""
        return np.inf if self.best is None else self.best.time

    def say(self, phase: str) -> None:
        """Tell the phase that has ended."""
        if self.tell is not None:
            self.tell(phase, self.ceiling)


def plan_in_grid(
    question: GridInstance, limits: Limits, runtime: str | None = None, tell: Callable[[str, float], None] | None = None
) -> GridSearch:
    """Find a plan that `runtime` can run, any plan if there is none.

    Raises
    ------
    NothingFitsError
        If no plan was found that fits; the message says what the smallest one needs.
    InputError
        If no degrees are possible.
    """
    search = GridSearch(question, limits.deadline, runtime=runtime, tell=tell)
    settings = list(_settings(question, runtime))
    coming = _in_turns([uniform_sketches(question, arrays, setting) for setting, arrays in settings])
    _uniform(search, coming)
    for setting, arrays in sorted(settings, key=lambda pair: even_work(question, *pair)):
        if search.over or even_work(question, setting, arrays) >= search.ceiling:
            break
        _plan_setting(search, setting, arrays)
        search.say(f"dp {setting.pipelines}")
    if search.best is None:
        if limits.deadline.interrupted.is_set():
            raise KeyboardInterrupt
        raise _no_plan(search, settings)
    for time, sketch in sorted(search.met.values(), key=lambda one: one[0])[:_STARTS]:
        _change(search, time, sketch)
    search.say("changes")
    return search


def _uniform(search: GridSearch, coming: Iterator[Sketch]) -> None:
    """The best of uniform plans, and then of those in turns that must recompute."""
    sketches = _listed(coming, search.deadline.share(_LISTED))
    fitting = 0
    for sketch in (one for one in sketches if one.modes):
        search.offer(sketch)
        fitting += search.best is not None
        if fitting >= _UNIFORM or search.over:
            break
    for sketch in coming:  # those that were not listed in time
        if search.best is not None or search.over:
            break
        if sketch.modes:
            search.offer(sketch)
        else:
            search.offer_stages(sketch.setting, sketch.cuts, sketch.tensor)
    search.uniform = search.best
    search.say("uniform plans")
    fitting = 0
    for sketch in (one for one in sketches if not one.modes):
        if fitting == _UNIFORM or sketch.estimate >= search.ceiling or search.over:
            break
        fitting += search.offer_stages(sketch.setting, sketch.cuts, sketch.tensor) < np.inf
    search.say("plans in turns")


def _listed(coming: Iterator[Sketch], deadline: Deadline) -> list[Sketch]:
    """Sketches that come until the deadline, at least one, by their estimates."""
    found = []
    for sketch in coming:
        found.append(sketch)
        if deadline.passed:
            break
    return sorted(found, key=lambda sketch: sketch.estimate)


def _in_turns(many: list[Iterator[Sketch]]) -> Iterator[Sketch]:
    """The first of each, then the second ones, and so on."""
    waiting = deque(many)
    while waiting:
        one = waiting.popleft()
        sketch = next(one, None)
        if sketch is not None:
            waiting.append(one)
            yield sketch


def _settings(question: GridInstance, runtime: str | None) -> Iterator[tuple[Setting, GridArrays]]:
    """All settings, for a runtime those of each tensor degree by itself."""
    if runtime is None or question.fixed.tp is not None:
        yield from settings_of(question)
        return
    fixed, servers = question.fixed, question.servers
    for t in sorted({tp for chain in question.chains for tp, _, _ in chain.degrees}):
        if servers.size % t == 0 and t * (fixed.pp or 1) * (fixed.dp or 1) <= servers.devices:
            yield from settings_of(replace(question, fixed=replace(fixed, tp=t)))


def _plan_setting(search: GridSearch, setting: Setting, arrays: GridArrays) -> None:
    """All plans of a small question; those of the program with the least values, while they may be the best."""
    question = search.question
    every = every_plan(question, arrays, setting)
    if every is not None:
        for cuts, tensor in every:
            search.offer_stages(setting, cuts, tensor)
            if search.over:
                return
        return
    M = search.fitting(setting).M
    left, seen = int(np.clip(_PASSES / (M * question.layers), _FEWEST, _MOST)), set[object]()
    by_groups: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    found = solve(question, arrays, setting, _WIDER * search.ceiling, search.until)
    for value, cuts, tensor in () if found is None else found.plans():
        if search.over:
            return
        by_groups.setdefault(len(tensor), (cuts, tensor))
        if value < search.ceiling and left and (cuts, tensor) not in seen:
            seen.add((cuts, tensor))
            left -= search.offer_stages(setting, cuts, tensor) < np.inf
    for cuts, tensor in (one for S, one in by_groups.items() if S > 1 and M % S == 0):
        for turns in range(2, int(np.diff(cuts).min()) + 1):
            if search.over:
                return
            search.offer_stages(setting, dealt(cuts, turns), tensor)


def _change(search: GridSearch, time: float, sketch: Sketch) -> None:
    """Move layers between stages as long as the time falls."""
    cuts = sketch.cuts
    if len(cuts) > _CHANGED or search.over:
        return
    pairs, quiet, left = list(permutations(range(len(cuts) - 1), 2)), 0, _MOVES
    time = min(time, search.offer_stages(sketch.setting, cuts, sketch.tensor, time))
    for pair in cycle(pairs):
        if quiet == len(pairs) or not left or search.over:
            return
        other = moves_of(cuts, pair)
        found = np.inf if other is None else search.offer_stages(sketch.setting, other, sketch.tensor, time)
        left -= found < np.inf
        quiet += 1
        if other is not None and found < time:
            time, cuts, quiet = found, other, 0


def _no_plan(search: GridSearch, settings: list[tuple[Setting, GridArrays]]) -> InputError:
    """Error that says what the smallest configuration needs."""
    question, least, share = search.question, dict[str, float](), np.inf
    layers = question.chains[0].layers
    counts = Counter(layer.kind for layer in layers)
    places = {layer.kind: place for place, layer in reversed(list(enumerate(layers)))}  # the first of each kind
    for setting, arrays in settings:
        fitting, used = search.fitting(setting), setting.pipelines * setting.context
        even = dict.fromkeys(counts, np.inf)  # bytes of a layer on all its devices
        for t, (kind, place) in product(arrays.degrees.tolist(), places.items()):
            name, ways = layers[place].name, fitting.menus(t)[place]
            states = [fitting.kept([way], whole=False) + way.stored_bytes for way in ways]
            needed = min(state + way.working_bytes for state, way in zip(states, ways, strict=True))
            least[name] = min(needed, least.get(name, np.inf))
            even[kind] = min(even[kind], t * min(states))
        share = min(share, sum(counts[kind] * even[kind] for kind in counts) / (question.servers.devices // used))
    if not least:
        return InputError(f"{question.label}: no degrees that the question allows fit into a server; allow others.")
    groups = range(2, question.servers.devices + 1) if question.fixed.pp is None else (question.fixed.pp,)
    if (question.fixed.v or 1) > 1 and all(search.fitting(one).M % S for one, _ in settings for S in groups):
        return InputError(
            f"{question.label}: stages in turns need a multiple of pp as microbatches of a pipeline, which this batch "
            "never has; leave v out, or change pp or the batch."
        )
    name = max(least, key=lambda name: least[name])
    proved, in_time = least[name] > question.memory * (1 + 1e-9), not search.over
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
