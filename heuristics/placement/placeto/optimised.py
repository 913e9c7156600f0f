"""The published network, trained for one graph alone: "Placeto optimised" (Addanki et al., NeurIPS 2019)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heuristics.method import Limits
from heuristics.placement.placeto.environment import Environment
from heuristics.placement.placeto.pytorch import require_torch
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

#: Of the training: from random devices, as in the paper; rates and width are this project's.
PUBLISHED = {
    "graphs": 1,
    "sweeps": 1,
    "discount": 1.0,
    "start": ("random",),
    "order": "topological",
    "entropy": 0.01,
    "rate": 5e-3,
}
#: Updates where nothing else ends a training, and episodes of each.
_UPDATES, _EPISODES = 125, 32


class Best:
    """The best placement of all episodes that it is shown, no worse than one device."""

    def __init__(self, instance: PlacementInstance, limits: Limits) -> None:
        self.instance, self.limits = instance, limits
        self.device = np.zeros(instance.graph.n, dtype=np.int64)
        self.value = Placement(instance, self.device).penalised_time

    def __call__(self, batch: Sequence[Environment]) -> bool:
        """Note the best placement of a batch of episodes; return whether the target is reached."""
        for episodes in batch:
            i = int(episodes.best.argmin())
            if episodes.best[i] < self.value:
                self.device, self.value = episodes.best_place[i].copy(), float(episodes.best[i])
        return self.limits.reached(self.value * self.instance.total_work)


def optimise(instance: PlacementInstance, rng: np.random.Generator, limits: Limits | None = None) -> Placement:
    """Train the published network for this graph alone; return the best placement met in training, or one device.

    An evaluation is a simulation. Without a limit it trains on 4000 episodes, which takes minutes at 100 nodes.

    Raises
    ------
    InputError
        If PyTorch is missing, or the graph has too many nodes.
    """
    require_torch()
    from heuristics.placement.placeto import policy, training

    limits, steps = limits or Limits(), instance.graph.n + 1
    simulations = limits.allow(_UPDATES * _EPISODES * steps)
    episodes = min(_EPISODES, max(1, simulations // steps))
    updates = max(1, simulations // (episodes * steps))
    best, seed = Best(instance, limits), int(rng.integers(2**31))
    if instance.devices > 1:
        network = policy.create("placeto", seed, devices=instance.devices, width=8)
        how = training.Training(updates=updates, episodes=episodes, seed=seed, **PUBLISHED)  # type: ignore[arg-type]
        training.train(network, [instance], how, watch=best, deadline=limits.deadline)
    return Placement(instance, best.device)
