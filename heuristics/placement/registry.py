"""Every placer under the name that the command line and the tables use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from heuristics.limits import Limits
from heuristics.placement.annealing import anneal, climb
from heuristics.placement.greedy import greedy
from heuristics.placement.heft import heft
from heuristics.placement.partitioners import metis, scotch
from heuristics.placement.placeto import zero_shot
from heuristics.placement.rivals import best_random, expert, single
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

__all__ = ["PLACERS", "Placer", "PlacerSpec"]

Placer = Callable[[PlacementInstance, np.random.Generator, Limits], Placement]


@dataclass(frozen=True)
class PlacerSpec:
    """A placer with its parameters fixed.

    Parameters
    ----------
    name : str
        Unique name.
    summary : str
        What it does, in one line.
    reference : str
        Where it comes from.
    run : callable
        Maps an instance, a generator and limits to a placement; an evaluation is a simulation, a target a step time.
        It raises `InputError` if it needs something that is not installed.
    """

    name: str
    summary: str
    reference: str
    run: Placer


_THIS = "this project, heuristics/placement"

_ALL = (
    PlacerSpec("single", "all nodes on one device", "Placeto, Section 4", single),
    PlacerSpec("random", "the best of 1000 random placements", "Placeto, Section 4", best_random),
    PlacerSpec("expert", "layer by layer, or branch by branch, as a person would", "Placeto, Section 4", expert),
    PlacerSpec("metis", "parts of equal work with few bytes between them", "Karypis and Kumar 1998", metis),
    PlacerSpec("scotch", "the same by Scotch, where its programs are installed", "Pellegrini 2009", scotch),
    PlacerSpec("heft", "nodes by their distance from the end, each where it ends first", "Topcuoglu et al. 2002", heft),
    PlacerSpec("greedy", "in HEFT's order, each where the step simulated so far is shortest", _THIS, greedy),
    PlacerSpec("placeto", "the policy that comes with the package, without further training", "Placeto", zero_shot),
    PlacerSpec("climb", "100 000 moves of nodes, kept if the step gets no longer", _THIS, climb),
    PlacerSpec("anneal", "simulated annealing with 100 000 moves", _THIS, anneal),
)

#: Name to placer.
PLACERS = {spec.name: spec for spec in _ALL}
