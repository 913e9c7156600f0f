"""Placeto: policies learned on some graphs that place others (Addanki et al., NeurIPS 2019).

- `environment`, `features`: the decision process and what the policy `fast` sees of it
- `rollout`, `zero_shot`: from a trained policy to a placement; `checkpoints`: trained policies as files
- `optimised`: the published network, trained for one graph alone
- `policy`, `embedding`, `training`, `recurrent_planner`, `shipped_training`: networks, REINFORCE, and how the policy
  that comes along was trained. They alone need PyTorch, ask `require_torch` first
"""

from __future__ import annotations

from heuristics.placement.placeto.checkpoints import Checkpoint, shipped
from heuristics.placement.placeto.optimised import optimise
from heuristics.placement.placeto.pytorch import require_torch
from heuristics.placement.placeto.rollout import Episodes, place
from heuristics.placement.placeto.zero_shot import zero_shot

__all__ = ["Checkpoint", "Episodes", "optimise", "place", "require_torch", "shipped", "zero_shot"]
