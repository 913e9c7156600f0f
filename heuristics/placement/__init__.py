"""Device placement: searches that answer a `PlacementInstance` with a `Placement`.

- `simulator`: step times and peaks of memory of many placements, compiled
- `rivals`: placements by rules: one device, random, list scheduling, Baechi's and partitioners
- `annealing`: hill climbing and annealing with a simulation for each move, and the search for devices and sequences
- `ordered`: times and moves of placements with an order, compiled
- `placeto`: the network of Placeto, which learns
- `registry`: all placers by name, and one run of a placer as a result
"""

from heuristics.placement.registry import PLACERS, PlacementResult, search_placement

__all__ = ["PLACERS", "PlacementResult", "search_placement"]
