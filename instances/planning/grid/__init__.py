"""Training plans as runtimes run them: equal pipelines of whole microbatches, tensor degrees for each stage.

- `accelerators`: devices by name, and the constants of their times
- `transformer`: language models by name or configuration, with the sizes of their layers
- `layers`: time and memory of these layers in each configuration
- `estimates`: what these times rest on, and how measured steps calibrate them
- `configurations`: `ConfiguredChain`, layers with all ways to run them; as records and as JSON
- `problem`: `GridInstance`, one question; `plan`: `GridPlan`, one answer; all costs of it, and where its devices lie
- `recomputation`: the least recomputation time with which a stage fits into memory
- `program`: dynamic program for a lower bound on the step time of all plans; planners and models share it

Source of the costs: Korthikanti et al., "Reducing activation recomputation in large transformer models", MLSys 2023.
"""

from instances.planning.grid.configurations import Configuration, ConfiguredChain, ConfiguredLayer
from instances.planning.grid.plan import GridPlan
from instances.planning.grid.problem import GridInstance, Servers

__all__ = ["Configuration", "ConfiguredChain", "ConfiguredLayer", "GridInstance", "GridPlan", "Servers"]
