"""Search for plans in a grid: uniform plans, then those of the program over stages, then small changes of the best.

Of a small question all stages are tried. A larger cluster has all plans of a smaller one, and the fronts of the program
for fewer devices are part of those for more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import cycle, permutations

import numpy as np

from heuristics.limits import Limits
from heuristics.planning.grid.fitting import Fitting
from heuristics.planning.grid.moves import dealt, every_plan, moves_of
from heuristics.planning.grid.runtimes import expressible
from heuristics.planning.grid.uniform import Sketch, built, uniform_sketches
from instances.deadline import Deadline
from instances.errors import InputError
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
#: Plans that are changed, and changes of each.
_STARTS, _MOVES = 4, 300
#: How far above the best time the program looks for groups that may run stages in turns.
_WIDER = 1.15
#: Parts of the memory that plans in turns fill, as what they need is known only once they are built.
_PARTS = (1.3, 1.15, 1.07, 1.03, 1.0, 0.97, 0.94, 0.9, 0.85)


@dataclass
class GridSearch:
    """Best plans that a search has found."""

    question: GridInstance
    best: GridPlan | None = None
    uniform: GridPlan | None = None  # the best of the uniform plans
    runtime: str | None = None  # that has to run the plan
    tell: Callable[[str, float], None] | None = None
    #: Best plan of each setting, degrees of groups, and number of stages.
    met: dict[tuple[Setting, tuple[int, ...], int], tuple[float, Sketch]] = field(default_factory=dict)
    _fittings: dict[Setting, Fitting] = field(default_factory=dict)

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
    InputError
        If nothing fits; the message says what the smallest plan needs.
    """
    search, settings = GridSearch(question, runtime=runtime, tell=tell), list(_settings(question, runtime))
    sketches = sorted(
        (sketch for setting, arrays in settings for sketch in uniform_sketches(question, arrays, setting)),
        key=lambda sketch: sketch.estimate,
    )
    fitting = 0
    for sketch in (one for one in sketches if one.modes):
        search.offer(sketch)
        fitting += search.best is not None
        if fitting >= _UNIFORM or (search.best is not None and limits.deadline.passed):
            break
    search.uniform = search.best
    search.say("uniform plans")
    fitting = 0
    for sketch in (one for one in sketches if not one.modes):
        if fitting == _UNIFORM or sketch.estimate >= search.ceiling or limits.deadline.passed:
            break
        fitting += search.offer_stages(sketch.setting, sketch.cuts, sketch.tensor) < np.inf
    search.say("plans in turns")
    for setting, arrays in sorted(settings, key=lambda pair: even_work(question, *pair)):
        if search.best is not None and limits.deadline.passed:
            break
        if even_work(question, setting, arrays) >= search.ceiling:
            break
        _plan_setting(search, setting, arrays, limits.deadline)
        search.say(f"dp {setting.pipelines}")
    if search.best is None:
        raise _no_plan(search, settings)
    for time, sketch in sorted(search.met.values(), key=lambda one: one[0])[:_STARTS]:
        _change(search, time, sketch, limits.deadline)
    search.say("changes")
    return search


def _settings(question: GridInstance, runtime: str | None) -> Iterator[tuple[Setting, GridArrays]]:
    """All settings, for a runtime those of each tensor degree by itself."""
    if runtime is None or question.fixed.tp is not None:
        yield from settings_of(question)
        return
    fixed, servers = question.fixed, question.servers
    for t in sorted({tp for chain in question.chains for tp, _, _ in chain.degrees}):
        if servers.size % t == 0 and t * (fixed.pp or 1) * (fixed.dp or 1) <= servers.devices:
            yield from settings_of(replace(question, fixed=replace(fixed, tp=t)))


def _plan_setting(search: GridSearch, setting: Setting, arrays: GridArrays, deadline: Deadline) -> None:
    """All plans of a small question; those of the program with the least values, while they may be the best."""
    question = search.question
    every = every_plan(question, arrays, setting)
    if every is not None:
        for cuts, tensor in every:
            search.offer_stages(setting, cuts, tensor)
            if search.best is not None and deadline.passed:
                return
        return
    M = search.fitting(setting).M
    left, seen = int(np.clip(_PASSES / (M * question.layers), _FEWEST, _MOST)), set[object]()
    by_groups: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    found = solve(question, arrays, setting, _WIDER * search.ceiling, deadline)
    for value, cuts, tensor in () if found is None else found.plans():
        if search.best is not None and deadline.passed:
            return
        by_groups.setdefault(len(tensor), (cuts, tensor))
        if value < search.ceiling and left and (cuts, tensor) not in seen:
            seen.add((cuts, tensor))
            left -= search.offer_stages(setting, cuts, tensor) < np.inf
    for cuts, tensor in (one for S, one in by_groups.items() if S > 1 and M % S == 0):
        for turns in range(2, int(np.diff(cuts).min()) + 1):
            search.offer_stages(setting, dealt(cuts, turns), tensor)


def _change(search: GridSearch, time: float, sketch: Sketch, deadline: Deadline) -> None:
    """Move layers between stages as long as the time falls."""
    pairs, quiet, left = list(permutations(range(len(sketch.cuts) - 1), 2)), 0, _MOVES
    cuts = sketch.cuts
    time = min(time, search.offer_stages(sketch.setting, cuts, sketch.tensor, time))
    for pair in cycle(pairs):
        if quiet == len(pairs) or not left or deadline.passed:
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
    for setting, arrays in settings:
        fitting, used = search.fitting(setting), setting.pipelines * setting.context
        even = np.full(question.layers, np.inf)  # bytes of each layer on all its devices
        for t in arrays.degrees.tolist():
            for place, ways in enumerate(fitting.menus(t)):
                name, state = question.chains[0].layers[place].name, fitting.kept([ways[0]], whole=False)
                needed = state + min(way.stored_bytes + way.working_bytes for way in ways)
                least[name] = min(needed, least.get(name, np.inf))
                even[place] = min(even[place], t * (state + min(way.stored_bytes for way in ways)))
        share = min(share, even.sum() / (question.servers.devices // used))
    if not least:
        return InputError(f"{question.label}: no degrees that the question allows fit into a server; allow others.")
    groups = range(2, question.servers.devices + 1) if question.fixed.pp is None else (question.fixed.pp,)
    if (question.fixed.v or 1) > 1 and all(search.fitting(one).M % S for one, _ in settings for S in groups):
        return InputError(
            f"{question.label}: stages in turns need a multiple of pp as microbatches of a pipeline, which this batch "
            "never has; leave v out, or change pp or the batch."
        )
    name = max(least, key=lambda name: least[name])
    why = f"layer {name} alone needs {figures(least[name], 'bytes')} on a device in its smallest configuration"
    if least[name] <= question.memory:
        why = f"each layer fits alone, but all of them, divided evenly, need {figures(share, 'bytes')} a device"
        why += ", and no stages are that even" if share <= question.memory else ""
    return InputError(
        f"{question.label}: nothing fits into {figures(question.memory, 'bytes')} a device: {why}; give more memory, "
        "devices, a higher stage of ZeRO or tensor degree, or smaller microbatches."
    )
