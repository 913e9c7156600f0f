"""Pipelined training: chains of layers, clusters, plans and their timelines.

- `problem`: `LayerChain`, the layers of a network with their times and bytes; `TrainingInstance`, one question
- `plan`: `Plan`, where the chain is cut and which devices run which stage; all costs of a plan
- `operations`: orders of passes, their times, and when each runs, in exact numbers; `simulator`: the same, compiled
- `timeline`: `Timeline`, start and end of each operation in any order of passes, its checks and the memory that takes;
  `Iteration`, pipelines side by side
- `bounds`: slowest links of groups of devices, and Z-DP; planners and models share them
- `chains`: chains from computation graphs, of BERT and of Piper; clusters, chains and sweeps of the paper's experiments
- `stated`, `plan_files`: questions and plans in files
- `grid`: equal pipelines, with degrees of parallelism for each stage

Source: Luo et al., "Efficient Pipeline Planning for Expedited Distributed DNN Training", INFOCOM 2022 (SPP).
"""

from instances.devices import Cluster
from instances.planning.operations import Operation
from instances.planning.plan import Plan
from instances.planning.problem import LayerChain, TrainingInstance
from instances.planning.timeline import Iteration, Timeline

__all__ = ["Cluster", "Iteration", "LayerChain", "Operation", "Plan", "Timeline", "TrainingInstance"]
