"""Roll-out of a policy's logits to a placement. Needs numpy alone, so a trained policy runs without PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heuristics.placement.placeto.environment import (
    Environment,
    Order,
    PlacementArrays,
    Start,
    roll_out,
    start_place,
    traversal,
)
from instances.graph.tensors import FloatArray, IntArray
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

#: Maps environments of e episodes to (e, k) logits each.
Scorer = Callable[[Sequence[Environment]], Sequence[FloatArray]]


class FastScorer:
    """The policy `fast` in numpy, with the parameters of `policy.Fast` by their names."""

    def __init__(self, weights: Mapping[str, NDArray[Any]]) -> None:
        values = [np.asarray(value, dtype=np.float32) for value in weights.values()]
        self._layers = list(zip(values[::2], values[1::2], strict=True))

    def __call__(self, environments: Sequence[Environment]) -> list[FloatArray]:
        """Logits of all devices in each environment."""
        return [self._score(environment.features().astype(np.float32)) for environment in environments]

    def _score(self, features: NDArray[np.float32]) -> NDArray[Any]:
        x = np.concatenate((features, features - features.mean(axis=1, keepdims=True)), axis=2)
        for weight, bias in self._layers[:-1]:
            x = np.maximum(x @ weight.T + bias, 0.0)
        weight, bias = self._layers[-1]
        return (x @ weight.T + bias)[..., 0]


@dataclass(frozen=True)
class Episodes:
    """The best placements of the episodes on one instance."""

    best: Placement  # the best placement that any step of any episode saw
    last: Placement  # the best of those that the episodes ended with
    simulations: int  # calls of the simulator


def sampled(logits: Sequence[FloatArray], rng: np.random.Generator | None) -> list[IntArray]:
    """Draw a device for each row of logits, or take the likeliest where there is no generator."""
    if rng is None:
        return [rows.argmax(axis=1) for rows in logits]
    return [(rows + rng.gumbel(size=rows.shape)).argmax(axis=1) for rows in logits]


def place(
    instance: PlacementInstance,
    scorer: Scorer,
    rng: np.random.Generator,
    *,
    samples: int = 0,
    sweeps: int = 2,
    start: Start | Sequence[Start] = ("empty", "random"),
    order: Order = "topological",
) -> Episodes:
    """Place a graph with a trained policy, without training.

    Parameters
    ----------
    scorer : callable
        The policy.
    rng : numpy.random.Generator
        For random starts and orders, and for samples.
    samples : int
        Number of sampled episodes, which take turns with the starts; 0 for one from each start with the likeliest
        device in each step.
    sweeps : int
        How often each node is visited.
    start : str or sequence of str
    order : str
        See `environment`.
    """
    question = PlacementArrays(instance)
    starts: Sequence[Start] = (start,) if isinstance(start, str) else start
    count = samples or len(starts)
    places = np.concatenate([start_place(question, starts[i % len(starts)], 1, rng) for i in range(count)])
    environment = Environment(question, places, traversal(question, order, sweeps, rng))
    roll_out([environment], lambda active: sampled(scorer(active), rng if samples else None))
    last = Placement(instance, environment.place[environment.objective.argmin()])
    return Episodes(environment.answer(), last, environment.simulations)
