"""Pipelined training: what a chain of layers, a cluster, a plan and a schedule are.

- `chain`: `LayerChain`, the layers of a network with their times and bytes
- `cluster`: `Cluster`, the bandwidth between any two devices
- `training`: `TrainingInstance`, one question
- `plan`: `Plan`, where the chain is cut and which devices run which stage; all costs of a plan
- `schedule`: `Schedule`, when each operation starts, and its checks; `Iteration`, pipelines side by side
- `files`: chains, clusters and plans as JSON, clusters as CSV, chains from published profiles
- `collapsing`, `transformers`: chains from computation graphs, and from an analytic model
- `settings`: the clusters, chains and sweeps of the paper's experiments
- `windows`, `zplan`: slowest links of groups of devices, and Z-DP; planners and bounds share them

Source: Luo et al., "Efficient Pipeline Planning for Expedited Distributed DNN Training", INFOCOM 2022 (SPP).
"""

from instances.pipeline.chain import LayerChain
from instances.pipeline.cluster import Cluster
from instances.pipeline.plan import Plan
from instances.pipeline.schedule import Iteration, Operation, Schedule
from instances.pipeline.training import TrainingInstance

__all__ = ["Cluster", "Iteration", "LayerChain", "Operation", "Plan", "Schedule", "TrainingInstance"]
