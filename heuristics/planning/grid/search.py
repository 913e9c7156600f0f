"""Search for plans in a grid: uniform plans, then those of the program over stages, setting by setting.

A larger cluster has all plans of a smaller one, and the fronts of the program for fewer devices are part of those for
more, so that more devices do not make the plan slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from heuristics.limits import Limits
from heuristics.planning.grid.runtimes import expressible
from heuristics.planning.grid.uniform import Sketch, built, uniform_sketches
from instances.errors import InputError
from instances.planning.grid.arrays import GridArrays
from instances.planning.grid.configurations import Configuration
from instances.planning.grid.plan import GridPlan
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.program import Found, solve
from instances.planning.grid.recomputation import chosen_modes
from instances.planning.grid.settings import Setting, even_work, settings_of

__all__ = ["GridSearch", "plan_in_grid"]

#: Uniform plans that are simulated; passes that are simulated for a setting; and plans of a setting, at least and most.
_UNIFORM = 50
_PASSES, _FEWEST, _MOST = 2_000_000, 8, 300


@dataclass
class GridSearch:
    """Best plans that a search has found."""

    question: GridInstance
    best: GridPlan | None = None
    uniform: GridPlan | None = None  # the best of the uniform plans
    runtime: str | None = None  # that has to run the plan
    tell: Callable[[str, float], None] | None = None

    def offer(self, sketch: Sketch) -> None:
        """Check and simulate a plan."""
        for one in expressible(self.question, sketch, self.runtime):
            for plan in built(self.question, one):
                if self.best is None or plan.time < self.best.time:
                    self.best = plan

    @property
    def ceiling(self) -> float:
        """Time of the best plan; infinite if there is none [s]."""
        return np.inf if self.best is None else self.best.time

    def say(self, phase: str) -> None:
        """Tell the phase that has ended."""
        if self.tell is not None:
            self.tell(phase, self.ceiling)


def plan_in_grid(
    question: GridInstance,
    limits: Limits,
    runtime: str | None = None,
    tell: Callable[[str, float], None] | None = None,
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
    for sketch in sketches:
        before = search.best
        search.offer(sketch)
        fitting += before is not search.best or bool(before)
        if fitting >= _UNIFORM or (search.best is not None and limits.deadline.passed):
            break
    search.uniform = search.best
    search.say("uniform plans")
    order = sorted(settings, key=lambda pair: even_work(question, *pair))
    for setting, arrays in order:
        if search.best is not None and limits.deadline.passed:
            break
        if even_work(question, setting, arrays) >= search.ceiling:
            break
        found = solve(question, arrays, setting, search.ceiling)
        for sketch in _sketches(question, setting, found, search):
            search.offer(sketch)
            if limits.deadline.passed:
                break
        search.say(f"{setting.pipelines} pipelines")
    if search.best is None:
        raise _no_plan(question, settings)
    return search


def _settings(question: GridInstance, runtime: str | None) -> Iterator[tuple[Setting, GridArrays]]:
    """All settings, for a runtime those of each tensor degree by itself."""
    if runtime is None or question.fixed.tp is not None:
        yield from settings_of(question)
        return
    for t in sorted({tp for chain in question.chains for tp, _, _ in chain.degrees}):
        if question.servers.size % t == 0:
            yield from settings_of(replace(question, fixed=replace(question.fixed, tp=t)))


def _sketches(question: GridInstance, setting: Setting, found: Found, search: GridSearch) -> Iterator[Sketch]:
    """Plans of the program with the least values, as long as they may be better than the best one."""
    M = question.global_batch // (setting.pipelines * setting.micro_batch)
    layers = question.layers
    left, seen = int(np.clip(_PASSES / (M * layers), _FEWEST, _MOST)), set[object]()
    for value, cuts, tensor in found.plans():
        if value >= search.ceiling or not left:
            return
        if (cuts, tensor) in seen:
            continue
        seen.add((cuts, tensor))
        modes = _modes(question, setting, cuts, tensor)
        if modes is not None:
            left -= 1
            yield Sketch(value, setting, cuts, tensor, modes)


def _modes(
    question: GridInstance, setting: Setting, cuts: tuple[int, ...], tensor: tuple[int, ...]
) -> tuple[str, ...] | None:
    """Modes of all layers such that each stage fits; None if one does not."""
    chain, modes = question.chain(setting.micro_batch), list[str]()
    M = question.global_batch // (setting.pipelines * setting.micro_batch)
    for n, ((begin, end), t) in enumerate(zip(pairwise(cuts), tensor, strict=True)):
        degrees = (t, setting.context, setting.expert)
        ways = [
            tuple(way for way in layer.modes(degrees) if way.recompute in question.modes)
            for layer in chain.layers[begin:end]
        ]
        room = question.memory - _kept(question, setting, [menu[0] for menu in ways], whole=len(tensor) == 1)
        found = chosen_modes(ways, min(M, len(tensor) - n), room)
        if found is None:
            return None
        modes += found
    return tuple(modes)


def _kept(question: GridInstance, setting: Setting, layers: list[Configuration], *, whole: bool) -> float:
    """Bytes of parameters, gradients and optimizer of a stage."""
    D = setting.pipelines * setting.context
    return sum(question.kept_bytes(layers, setting.zero, (D, D // setting.expert), whole=whole))


def _no_plan(question: GridInstance, settings: list[tuple[Setting, GridArrays]]) -> InputError:
    """Error that says what the smallest configuration needs."""
    least: dict[str, float] = {}
    for setting, arrays in settings:
        for layer in question.chain(setting.micro_batch).layers:
            for t in arrays.degrees.tolist():
                ways = [w for w in layer.modes((t, setting.context, setting.expert)) if w.recompute in question.modes]
                needed = _kept(question, setting, [ways[0]], whole=False)
                needed += min(way.stored_bytes + way.working_bytes for way in ways)
                least[layer.name] = min(needed, least.get(layer.name, np.inf))
    if not least:
        return InputError(f"{question.label}: no degrees that the question allows fit into a server; allow others.")
    name = max(least, key=lambda name: least[name])
    why = f"layer {name} alone needs {least[name]:.4g} bytes on a device in its smallest configuration"
    if least[name] <= question.memory:
        why = "each layer fits alone, but not all of them on so many devices"
    return InputError(
        f"{question.label}: nothing fits into {question.memory:.4g} bytes a device: {why}; give more memory, devices, "
        "a higher stage of ZeRO or tensor degree, or smaller microbatches."
    )
