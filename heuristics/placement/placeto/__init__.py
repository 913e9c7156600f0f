"""Placeto: a network that learns to place graphs (Addanki et al., NeurIPS 2019).

- `placer`: from a trained network, or one trained for a graph alone, to a placement
- `environment`: the decision process; `checkpoints`: trained networks as files
- `network`, `training`: the published network and its learned rival, and REINFORCE. They alone need PyTorch, ask
  `require_torch` first
"""

from __future__ import annotations

from heuristics.placement.placeto.checkpoints import Checkpoint
from heuristics.placement.placeto.environment import play_episodes
from heuristics.placement.placeto.placer import optimise, require_torch, zero_shot

__all__ = ["Checkpoint", "optimise", "play_episodes", "require_torch", "zero_shot"]
