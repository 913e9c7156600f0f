"""Search for plans in a grid: uniform plans, then those of the program over stages, then small changes of the best.

Of a small question all stages are tried. A larger cluster has all plans of a smaller one, and the fronts of the program
for fewer devices are part of those for more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations, cycle, permutations, product

import numpy as np

from heuristics.limits import Limits
from heuristics.planning.grid.fitting import Fitting
from heuristics.planning.grid.moves import dealt, every_plan, exchanged, moved
from heuristics.planning.grid.no_plan import no_plan
from heuristics.planning.grid.runtimes import expressible
from heuristics.planning.grid.uniform import Sketch, built, uniform_sketches
from instances.deadline import CLOCK, Deadline
from instances.errors import InputError
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
_STARTS, _MOVES, _CHANGED = 4, 1000, 1000
#: Part of the time in which uniform plans are listed; seconds to find a first plan that is not uniform, at least.
_LISTED, _AT_LEAST = 0.3, 10.0
#: Part of the time for plans of fewer servers; up to so many all numbers of them are tried, of more powers of 2, and
#: three times those.
_FEWER, _FEW, _ODD = 0.8, 8, (1, 3)
#: How far above the best time plans of fewer servers may begin: changes make some of them faster.
_NEAR = 1.03
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
    known: float = np.inf  # time that plans must be below, of those of other servers [s]
    tell: Callable[[str, float], None] | None = None
    #: Best plan of each setting, degrees of groups, and number of stages.
    met: dict[tuple[Setting, tuple[int, ...], int], tuple[float, Sketch]] = field(default_factory=dict)
    #: Times of plans that were simulated, with any number of servers.
    times: dict[tuple[object, ...], float] = field(default_factory=dict)
    _fittings: dict[Setting, Fitting] = field(default_factory=dict)
    #: Without a plan the search may go on for the time of bounds, which need one.
    _last: Deadline = field(init=False)

    def __post_init__(self) -> None:
        self._last = replace(self.deadline, end=CLOCK.now() + max(_AT_LEAST, 2 * self.deadline.left))

    @property
    def until(self) -> Deadline:
        """When the search ends: later as long as no plan is known."""
        return self._last if self.ceiling == np.inf else self.deadline

    @property
    def over(self) -> bool:
        """Whether the search has to end."""
        return self.until.passed

    def offer(self, sketch: Sketch) -> float:
        """Check and simulate a plan; its time, infinite if it is none [s]."""
        time = min(map(self._time, expressible(self.question, sketch, self.runtime)), default=np.inf)
        place = (sketch.setting, sketch.tensor, len(sketch.cuts))
        if time < self.met.get(place, (np.inf,))[0]:
            self.met[place] = time, sketch
        return time

    def _time(self, sketch: Sketch) -> float:
        """Time of a plan, infinite if it does not fit [s]; the best one is kept."""
        key = sketch.setting, sketch.cuts, sketch.tensor, sketch.modes
        if self.times.get(key, -np.inf) < self.ceiling:
            plan = min(built(self.question, sketch), key=lambda plan: plan.time, default=None)
            if plan is None:
                return np.inf
            self.times[key] = plan.time
            if plan.time < self.ceiling:
                self.best = plan
        return self.times[key]

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
        """Time that plans must be below; infinite if none is known [s]."""
        return min(self.known, np.inf if self.best is None else self.best.time)

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
    """The best plans of fewer servers, which are plans of all.

    Where links between servers are slow, plans of all servers take far longer than the least values that the program
    has for them, so that its plans are no good ones.
    """
    question, deadline = search.question, search.deadline.share(_FEWER)
    servers = question.servers
    for count in [c for c in range(1, servers.count) if servers.count <= _FEW or c // (c & -c) in _ODD]:
        with suppress(InputError):  # its devices do not divide the batch, or are fewer than degrees that are fixed
            fewer = replace(question, servers=replace(servers, count=count))
            settings = list(_settings(fewer, search.runtime))
            if deadline.passed or all(even_work(fewer, *pair) >= search.ceiling for pair in settings):
                continue
            own = GridSearch(fewer, deadline, runtime=search.runtime, known=_NEAR * search.ceiling, times=search.times)
            _uniform(own, settings)
            _plan_settings(own, settings)
            for time, sketch in _first(own):
                _change(own, time, sketch)
            for _, sketch in _first(own):
                search.offer(sketch)
    search.say("fewer servers")


def _first(search: GridSearch) -> list[tuple[float, Sketch]]:
    """The best plans of different settings, with their times."""
    return sorted(search.met.values(), key=lambda one: one[0])[:_STARTS]


def _plan_settings(search: GridSearch, settings: list[tuple[Setting, GridArrays]]) -> None:
    """Plans of each setting that may be the best, the one with the least even share of the work first."""
    works = [even_work(search.question, *pair) for pair in settings]
    for i in np.argsort(works, kind="stable").tolist():
        if search.over or works[i] >= search.ceiling:
            return
        setting, arrays = settings[i]
        _plan_setting(search, setting, arrays)
        search.say(f"dp {setting.pipelines}")


def _uniform(search: GridSearch, settings: list[tuple[Setting, GridArrays]]) -> None:
    """The best of uniform plans, and then of those in turns that must recompute."""
    question = search.question
    coming = _in_turns([uniform_sketches(question, arrays, setting) for setting, arrays in settings])
    sketches = _listed(coming, search.deadline.share(_LISTED))
    fitting = 0
    for sketch in (one for one in sketches if one.modes):
        if fitting >= _UNIFORM or search.over:
            break
        if search.fitting(sketch.setting).least(sketch.cuts, sketch.tensor, sketch.modes) < search.known:
            search.offer(sketch)
            fitting += search.best is not None
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
    """Move layers between stages, and stages of different degrees, as long as the time falls."""
    stages, setting = (sketch.cuts, sketch.tensor), sketch.setting
    if len(sketch.cuts) > _CHANGED or search.over:
        return
    places = range(len(sketch.cuts) - 1)
    changes = [*product([moved], permutations(places, 2)), *product([exchanged], combinations(places, 2))]
    quiet, left = 0, _MOVES
    time = min(time, search.offer_stages(setting, *stages, time))
    for change, pair in cycle(changes):
        if quiet == len(changes) or not left or search.over:
            return
        other = change(stages, pair)
        found = np.inf if other is None else search.offer_stages(setting, *other, time)
        left -= found < np.inf
        quiet += 1
        if other is not None and found < time:
            time, stages, quiet = found, other, 0
