"""Every placer under the name that the command line and the tables use."""

from __future__ import annotations

from heuristics.method import Method
from heuristics.placement.annealing import anneal_placement, climb, search_order
from heuristics.placement.placeto import optimise
from heuristics.placement.rivals import best_random, expert, greedy, heft, m_etf, m_sct, m_topo, metis, scotch, single
from instances.errors import Registry
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

#: The best of them.
ORDERED = "ordered"

_THIS = "this project, heuristics/placement"
_BAECHI = "Jeon et al., Baechi, SoCC 2020"

_ALL: tuple[Method[PlacementInstance, Placement], ...] = (
    Method("single", "all nodes on one device", "Placeto, Section 4", single),
    Method("random", "the best of 1000 random placements", "Placeto, Section 4", best_random),
    Method("expert", "layer by layer, or branch by branch, as a person would", "Placeto, Section 4", expert),
    Method("metis", "parts of equal work with few bytes between them", "Karypis and Kumar 1998", metis),
    Method("scotch", "the same by Scotch, where its programs are installed", "Pellegrini 2009", scotch),
    Method("heft", "nodes by their distance from the end, each where it ends first", "Topcuoglu et al. 2002", heft),
    Method("greedy", "in HEFT's order, each where the step simulated so far is shortest", _THIS, greedy),
    Method("placeto", "the network of the paper, of a checkpoint or trained for this graph alone", "Placeto", optimise),
    Method("m-topo", "one device after the other in topological order", _BAECHI, m_topo),
    Method("m-etf", "always the node and the device with the earliest start", _BAECHI, m_etf),
    Method("m-sct", "the same, where favourite children follow their parents", _BAECHI, m_sct),
    Method(ORDERED, "devices and order of all nodes, from all starts, memory kept", _THIS, search_order),
    Method("climb", "100 000 moves of nodes, kept if the step gets no longer", _THIS, climb),
    Method("anneal", "simulated annealing with 100 000 moves", _THIS, anneal_placement),
)

#: Name to placer. An evaluation is a simulation, a target a step time.
PLACERS = Registry(_ALL, "mtpp.placers")
