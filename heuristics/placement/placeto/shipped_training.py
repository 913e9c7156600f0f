"""Training of the policy that the package contains; needs PyTorch. To repeat it: ``retrain().save(path)``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import numpy as np

from heuristics.placement.placeto.checkpoints import Checkpoint
from heuristics.placement.placeto.policy import capture, create
from heuristics.placement.placeto.training import Training, TrainingPoint, train
from instances.placement.networks import BANDWIDTH, PLACEMENT_FAMILIES
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

#: The most entropy is for cifar10, where at first nearly every move is a bad one.
TRAINING = Training(updates=400, start=("empty", "single", "random"), entropy=0.4)

_DEVICES = (4, 2, 8, 4)
#: Memory of a device as a part of what one device alone would need, where memory is limited.
_MEMORY = 0.6


def mixture() -> list[PlacementInstance]:
    """The training graphs of all families, on 2, 4 and 8 devices, every other one with too little memory for one."""
    instances = []
    for family in PLACEMENT_FAMILIES.values():
        for i, graph in enumerate(family.split("train")):
            memory = np.inf
            if i % 2:
                alone = Placement(PlacementInstance(graph, 1, BANDWIDTH), np.zeros(graph.n, dtype=np.int64))
                memory = _MEMORY * float(alone.peak_memory.max())
            instances.append(PlacementInstance(graph, _DEVICES[i % len(_DEVICES)], BANDWIDTH, memory=memory))
    return instances


def retrain(
    training: Training = TRAINING, on_progress: Callable[[TrainingPoint], None] = lambda point: None
) -> Checkpoint:
    """Train the policy `fast` from scratch on `mixture`; about two minutes.

    The same versions of PyTorch and numpy on the same kind of processor repeat the weights exactly.
    """
    policy = create("fast", training.seed)
    train(policy, mixture(), training, on_progress)
    return capture(policy, families=list(PLACEMENT_FAMILIES), **asdict(training))
