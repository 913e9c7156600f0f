"""Planners of pipelined training: upper bounds on the time of an iteration.

- `spp`: RDO, an order of the devices; PRM, cuts and replicas along it; the planner SPP, and `improved`
- `execution`: PE and other orders with a warm-up, event by event, and the annealing of plans, compiled
- `orders`: orders of passes for groups of devices, split, unsplit and interleaved
- `shared_cards`: the search for servers with shared network cards; `rivals`: planners for comparison
- `registry`: all planners by name
- `grid`: plans with degrees of parallelism a stage
"""

from heuristics.planning.registry import PLANNERS

__all__ = ["PLANNERS"]
