"""Device placement: searches that answer a `PlacementInstance` with a `Placement`.

- `simulator`, with `arrays` and `peak_memory`: step times and peaks of many placements, compiled
- `rivals`, `partitioners`, `heft`: placements made without looking at step times, and random ones
- `greedy`, `annealing`: list scheduling, hill climbing and annealing, a simulation for each device or move
- `baechi`: list scheduling that counts memory
- `ordered_search`, with `ordered_pass` and `ordered_walk`: devices and order of all nodes, from all starts
- `placeto`: the learned policy
- `registry`: all placers by name
- `search`: one run of a placer as a result
"""

from heuristics.placement.registry import PLACERS
from heuristics.placement.search import PlacementResult, search_placement

__all__ = ["PLACERS", "PlacementResult", "search_placement"]
