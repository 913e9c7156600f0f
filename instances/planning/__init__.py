"""Pipelined training: chains of layers, clusters, plans and schedules.

- `chain`: `LayerChain`, the layers of a network with their times and bytes
- `cluster`: `Cluster`, the bandwidth between any two devices
- `problem`: `TrainingInstance`, one question
- `plan`: `Plan`, where the chain is cut and which devices run which stage; all costs of a plan
- `operations`: orders of passes, their times, and when each runs, in exact numbers; `simulator`: the same, compiled
- `timeline`: `Timeline`, start and end of each operation in any order of passes, its checks and the memory that takes;
  `Iteration`, pipelines side by side
- `plan_files`: chains, clusters and plans as JSON, clusters as CSV, chains from published profiles
- `from_graph`, `bert`: chains from computation graphs, and from an analytic model
- `paper_settings`: the clusters, chains and sweeps of the paper's experiments
- `link_speeds`, `makespan_bound`: slowest links of groups of devices, and Z-DP; planners and bounds share them

Source: Luo et al., "Efficient Pipeline Planning for Expedited Distributed DNN Training", INFOCOM 2022 (SPP).
"""

from instances.devices.cluster import Cluster
from instances.planning.chain import LayerChain
from instances.planning.operations import Operation
from instances.planning.plan import Plan
from instances.planning.problem import TrainingInstance
from instances.planning.timeline import Iteration, Timeline

__all__ = ["Cluster", "Iteration", "LayerChain", "Operation", "Plan", "Timeline", "TrainingInstance"]
