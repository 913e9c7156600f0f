"""Searches for training plans with degrees of parallelism (a grid of devices).

- `uniform`: plans with the same degrees, layers and recomputation in all stages
- `search`: those, then plans of the program over stages
"""

from heuristics.planning.grid.search import GridSearch, plan_in_grid

__all__ = ["GridSearch", "plan_in_grid"]
