"""Why a search for plans in a grid has found none: what the smallest configuration needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product

import numpy as np

from heuristics.planning.grid.fitting import Fitting
from instances.errors import InputError, NothingFitsError
from instances.graph.display import figures
from instances.planning.grid.arrays import GridArrays
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.settings import Setting

__all__ = ["no_plan"]


def no_plan(
    question: GridInstance,
    settings: list[tuple[Setting, GridArrays]],
    fitting_of: Callable[[Setting], Fitting],
    in_time: bool,
) -> InputError:
    """Error that says what the smallest configuration needs, for a search that came to its end in time or not."""
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
        return InputError(f"{question.label}: no degrees that the question allows fit into a server; allow others.")
    groups = range(2, question.servers.devices + 1) if question.fixed.pp is None else (question.fixed.pp,)
    if (question.fixed.v or 1) > 1 and all(fitting_of(one).M % S for one, _ in settings for S in groups):
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
