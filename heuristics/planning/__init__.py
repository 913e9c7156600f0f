"""Planners of pipelined training: upper bounds on the time of an iteration.

- `device_order`: RDO, an order of the devices
- `prm`: PRM, cuts and replicas along an order for every number of stages
- `execution`: PE and other orders of the microbatches, event by event
- `spp`: the planner of the paper; `improved`: the one beyond it; `rivals`: those it is compared with
- `splitting`: how rivals cut a chain; `arrays`, `kernels`: the simulator and the annealing, compiled
- `registry`: all planners by name
"""

from heuristics.planning.registry import PLANNERS

__all__ = ["PLANNERS"]
