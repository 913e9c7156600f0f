"""Budget of ``mtpp table placement``: updates of training, simulations of annealing, and the graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = [
    "ABLATED",
    "ABLATED_DEVICES",
    "ABLATIONS",
    "ALONE",
    "DEVICES",
    "ORDERS",
    "OTHER_DEVICES",
    "QUICK",
    "SAMPLES",
    "Budget",
]

#: Devices of the main questions, and of those that a policy is carried over to.
DEVICES, OTHER_DEVICES = 4, (2, 8)
#: The family of the ablations, and their devices.
ABLATED, ABLATED_DEVICES = "ptb", 2
#: Random traversal orders, and sampled episodes.
ORDERS, SAMPLES = 16, 16
#: Episodes of each update when a policy or a planner is trained for one graph alone.
ALONE = 32
#: The policy, its arguments and the training of each ablation.
ABLATIONS: dict[str, dict[str, Any]] = {
    "placeto": {"policy": "placeto", "rounds": 2, "outer": True},
    "placeto, terminal reward": {"policy": "placeto", "rounds": 2, "outer": True, "reward": "terminal"},
    "placeto, partitioner": {"policy": "placeto", "rounds": 0, "outer": True},
    "placeto, aggregator": {"policy": "placeto", "rounds": 0, "outer": True, "pooled": False},
    "device pool": {"policy": "device-pool", "rounds": 8},
    "device pool, no messages": {"policy": "device-pool", "rounds": 0},
    "fast": {"policy": "fast"},
    "fast, terminal reward": {"policy": "fast", "reward": "terminal"},
    "fast, discount 1": {"policy": "fast", "discount": 1.0},
}


@dataclass(frozen=True)
class Budget:
    """Lengths of training and annealing, in updates and simulations, so that runs repeat exactly."""

    updates: int = 200  # of a policy for a family, 64 episodes each
    alone: int = 120  # of a policy for one graph, 32 episodes each; a planner has twice as many, 16 placements each
    ablation: int = 50  # of each ablation
    annealing: int = 100_000  # simulations of the long annealing of each graph
    graphs: int = 4  # test graphs that are optimised one by one
    seeds: int = 3  # the table shows the median


#: A first look.
QUICK = Budget(updates=40, alone=20, ablation=10, graphs=2, seeds=1)
