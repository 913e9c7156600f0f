"""The placer `placeto`: the published network, from a checkpoint or trained for one graph alone."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np

from heuristics.method import Limits
from heuristics.placement.placeto.checkpoints import Checkpoint
from heuristics.placement.placeto.environment import Environment, Start, play_episodes
from instances.errors import InputError, extra
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

#: Updates where nothing else ends a training, episodes of each, and width of an embedding in each direction.
_UPDATES, _EPISODES, _WIDTH = 125, 32, 8
#: Start of each episode of a trained network, and which of them draw their devices; several starts at random count for
#: more than draws.
_STARTS: tuple[Start, ...] = ("empty", "empty", "single", "single", "random", "random", "random", "random")
_DRAWN = (False, True, False, True)
_SWEEPS = 2


def require_torch() -> None:
    """Refuse in one line where PyTorch is missing.

    Raises
    ------
    InputError
        If PyTorch is not installed.
    """
    if find_spec("torch") is None:
        raise InputError(f"PyTorch is not installed; install the extra: {extra('learn')}")


class Best:
    """The best placement of all episodes so far, no worse than a single device."""

    def __init__(self, instance: PlacementInstance, limits: Limits) -> None:
        self.instance, self.limits = instance, limits
        self.device = np.zeros(instance.graph.n, dtype=np.int64)
        self.value = Placement(instance, self.device).penalised_time

    def __call__(self, batch: Sequence[Environment]) -> bool:
        """Record the best placement of a batch of episodes; return whether the target is reached."""
        for episodes in batch:
            i = int(episodes.best.argmin())
            if episodes.best[i] < self.value:
                self.device, self.value = episodes.best_place[i].copy(), float(episodes.best[i])
        return self.limits.reached(self.value * self.instance.total_work)


def optimise(instance: PlacementInstance, rng: np.random.Generator, limits: Limits | None = None) -> Placement:
    """Train the published network for this graph alone; return the best placement met in training, or one device.

    An evaluation is a simulation. Without a limit it trains on 4000 episodes, which takes minutes at 100 nodes. This is
    "Placeto optimised" (Addanki et al., NeurIPS 2019).

    Raises
    ------
    InputError
        If PyTorch is missing, or the graph has too many nodes.
    """
    require_torch()
    from heuristics.placement.placeto import network, training

    limits, steps = limits or Limits(), instance.graph.n + 1
    simulations = limits.allow(_UPDATES * _EPISODES * steps)
    episodes = min(_EPISODES, max(1, simulations // steps))
    updates = max(1, simulations // (episodes * steps))
    best, seed = Best(instance, limits), int(rng.integers(2**31))
    if instance.devices > 1:
        policy = network.create(seed, devices=instance.devices, width=_WIDTH)
        how = training.Training(updates, episodes=episodes, seed=seed)
        training.train(policy, [instance], how, watch=best, deadline=limits.deadline)
    return Placement(instance, best.device)


def zero_shot(
    instance: PlacementInstance, rng: np.random.Generator, limits: Limits | None, checkpoint: Checkpoint
) -> Placement:
    """Run a trained network for eight episodes of two sweeps each; return the best placement of all their steps.

    Two episodes start with no node placed, two with all nodes on device 0, and four at random. One of each of the first
    two pairs draws its devices at random by the network's probabilities; all other episodes take the likeliest devices.
    The answer is no worse than one device.

    An evaluation is a simulation; a node takes at most sixteen. Once a limit is reached, the remaining nodes stay where
    they are.

    Raises
    ------
    InputError
        If the checkpoint is damaged or does not fit the question, or PyTorch is missing.
    """
    require_torch()
    from heuristics.placement.placeto import network

    score = network.scorer(network.restore(checkpoint))
    with np.errstate(all="ignore"):  # whatever the weights are: what a network says is simulated
        return play_episodes(instance, score, rng, _STARTS, drawn=_DRAWN, sweeps=_SWEEPS, limits=limits).answer()
