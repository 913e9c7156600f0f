"""Training plans as runtimes run them: equal pipelines of whole microbatches, with degrees of parallelism a stage.

- `accelerators`: devices by name
- `transformer`, `layer_sizes`: widths and parameters of language models, layer by layer; `names`, `from_decoder`: of
  published ones and of configurations
- `layer_times`, `layer_costs`: time and memory of their layers in each configuration
- `configurations`: `ConfiguredChain`, layers with all ways to run them; `chain_file`: as JSON
- `problem`: `GridInstance`, one question; `plan`: `GridPlan`, one answer; all costs of it
- `placing`: where the devices of a plan lie
- `recomputation`: the least time that it takes to fit a stage into memory
- `program`: the least bound of plans of all numbers of stages; planners and bounds share it

Source of the costs: Korthikanti et al., "Reducing activation recomputation in large transformer models", MLSys 2023.
"""

from instances.planning.grid.configurations import Configuration, ConfiguredChain, ConfiguredLayer
from instances.planning.grid.plan import GridPlan
from instances.planning.grid.problem import GridInstance, Servers

__all__ = ["Configuration", "ConfiguredChain", "ConfiguredLayer", "GridInstance", "GridPlan", "Servers"]
