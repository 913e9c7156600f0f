"""Placeto: learn on some graphs how to place others (Addanki et al., NeurIPS 2019).

- `environment`, `features`: the decision process and what the policy `fast` sees of it
- `rollout`: from a trained policy to a placement; `checkpoints`: trained policies as files
- `policy`, `training`, `planner`: networks and REINFORCE; `mixture`: how the policy that comes along was trained. They
  alone need PyTorch, ask `require_torch` first
"""

from __future__ import annotations

from importlib.util import find_spec

from heuristics.placement.placeto.checkpoints import Checkpoint, shipped
from heuristics.placement.placeto.rollout import Episodes, place
from heuristics.placement.placeto.zero_shot import zero_shot
from instances.errors import InputError

__all__ = ["Checkpoint", "Episodes", "place", "require_torch", "shipped", "zero_shot"]


def require_torch() -> None:
    """Refuse in one line where PyTorch is missing.

    Raises
    ------
    InputError
        If it is not installed.
    """
    if find_spec("torch") is None:
        raise InputError("PyTorch is not installed; install the extra: pip install 'mtpp[learn]'.")
