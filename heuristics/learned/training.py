"""Learn weights that propose good orders, by REINFORCE on the weights themselves.

One decision makes a whole order: the weights, drawn from a normal distribution whose means and deviations are learned.
The gradient of the logarithm of its density needs no network, hence no PyTorch (parameter-exploring policy gradients:
Sehnke et al., Neural Networks 23, 2010). What counts is the best of many orders, so the reward is 1 for the best few of
those drawn for an instance and 0 for the others; baseline and scale are its mean and deviation over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from heuristics.learned.policies import PROPOSERS, Proposer, Weights
from heuristics.orders.kahn import kahn
from heuristics.orders.slicing import slice_order
from heuristics.placement.placeto.checkpoints import Checkpoint
from instances import InputError, Instance, Platform
from instances.graph.tensors import FloatArray
from instances.partitioning.kernel_arrays import KernelArrays
from instances.partitioning.reductions import reduce_instance
from instances.random_graphs import GRAPH_MODELS, regal_style

__all__ = [
    "OrderTraining",
    "OrderTrainingPoint",
    "regal_instances",
    "score_gradient",
    "train_intervals",
    "train_orders",
]

#: Deviation of each weight at first, and the least.
_DEVIATION, _LEAST = 0.5, 0.1
#: What Adam keeps of its means of gradients and of their squares in each update.
_KEPT = (0.9, 0.99)


@dataclass(frozen=True)
class OrderTraining:
    """How to train.

    Raises
    ------
    InputError
        If a number is less than 1, or all orders would be rewarded.
    """

    updates: int  # number of gradient steps; the same seed and updates give the same weights
    graphs: int = 16  # instances in each update, drawn without repetition
    orders: int = 32  # drawn for each instance
    good: int = 3  # how many of the orders of an instance are rewarded
    rate: float = 0.05  # learning rate of Adam at first; it falls linearly to a tenth
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("updates", "graphs", "orders", "good"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} of a training is {getattr(self, name)}; it must be at least 1.")
        if self.good >= self.orders:
            raise InputError(f"{self.good} of {self.orders} orders are good; reward fewer.")


class OrderTrainingPoint(NamedTuple):
    """A point of the learning curve; bottlenecks are over that of the Kahn order of equal priorities."""

    update: int
    orders: int  # so far, those of this update included
    mean: float  # of all orders of this update
    best: float  # the least of each instance of this update, their mean
    deviation: float  # of the weights, their mean


def train_orders(
    instances: Sequence[Instance],
    training: OrderTraining,
    on_progress: Callable[[OrderTrainingPoint], None] = lambda point: None,
    **about: Any,
) -> tuple[Checkpoint, list[OrderTrainingPoint]]:
    """Learn in what order to fill blocks.

    Parameters
    ----------
    instances : sequence of Instance
        Their lossless reductions are trained on, as the heuristics see them.
    training : OrderTraining
    on_progress : callable, optional
        Called after each update.
    **about
        What the checkpoint shall tell of the instances.

    Returns
    -------
    Checkpoint and list of OrderTrainingPoint
        The policy, for `Weights.of`, and the learning curve.

    Raises
    ------
    InputError
        If there are no instances.

    Examples
    --------
    >>> instances = regal_instances(range(500, 504))
    >>> checkpoint, curve = train_orders(instances, OrderTraining(updates=2), family="regal-style")
    >>> checkpoint.about["family"], curve[-1].orders
    ('regal-style', 256)
    """
    return _train(PROPOSERS["orders"], instances, training, on_progress, about)


def train_intervals(
    instances: Sequence[Instance],
    training: OrderTraining,
    on_progress: Callable[[OrderTrainingPoint], None] = lambda point: None,
    **about: Any,
) -> tuple[Checkpoint, list[OrderTrainingPoint]]:
    """Learn which nodes to move to which blocks; as `train_orders` otherwise."""
    return _train(PROPOSERS["intervals"], instances, training, on_progress, about)


def regal_instances(seeds: Iterable[int]) -> list[Instance]:
    """A REGAL-style instance for each seed: 50 to 200 nodes, in turn of each family, for 4, 8 or 16 blocks.

    The suite `regal-style` has seeds 1 to 6; train on others.
    """
    found = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        family = tuple(GRAPH_MODELS)[seed % len(GRAPH_MODELS)]
        n, k = int(rng.integers(50, 201)), int(rng.choice((4, 8, 16)))
        found.append(Instance(regal_style(family, n, seed), Platform(k, bandwidth=1)))
    return found


def _train(
    proposer: Proposer,
    instances: Sequence[Instance],
    training: OrderTraining,
    on_progress: Callable[[OrderTrainingPoint], None],
    about: dict[str, Any],
) -> tuple[Checkpoint, list[OrderTrainingPoint]]:
    if not instances:
        raise InputError("There is no instance to train on; give at least one.")
    rng = np.random.default_rng(training.seed)
    exercises = [_Exercise(reduce_instance(instance).instance) for instance in instances]
    size = len(proposer.features) + 1
    mean, log_deviation = np.zeros(size), np.full(size, np.log(_DEVIATION))
    adam = _Adam(2 * size)
    curve: list[OrderTrainingPoint] = []
    for update in range(1, training.updates + 1):
        chosen = rng.choice(len(exercises), min(training.graphs, len(exercises)), replace=False)
        weights = Weights(proposer, mean, np.exp(log_deviation))
        gradient, relative = np.zeros(2 * size), []
        for i in chosen:
            drawn, values = exercises[i].play(weights, training.orders, rng)
            relative.append(values / exercises[i].unit)
            gradient += score_gradient(weights, drawn, values, training.good) / len(chosen)
        step = training.rate * (1 - 0.9 * (update - 1) / training.updates) * adam.direction(gradient)
        mean = mean + step[:size]
        log_deviation = np.maximum(log_deviation + step[size:], np.log(_LEAST))
        least = np.mean([values.min() for values in relative])
        orders = update * len(chosen) * training.orders
        point = OrderTrainingPoint(
            update=update,
            orders=orders,
            mean=float(np.mean(relative)),
            best=float(least),
            deviation=float(weights.deviation.mean()),
        )
        curve.append(point)
        on_progress(point)
    arrays = {"mean": mean.astype(np.float32), "deviation": np.exp(log_deviation).astype(np.float32)}
    told = {**about, **asdict(training), "features": list(proposer.features)}
    return Checkpoint(proposer.name, {}, arrays, told), curve


def score_gradient(weights: Weights, drawn: FloatArray, values: FloatArray, good: int) -> FloatArray:
    """REINFORCE's estimate, (2 f,), of how means and logarithms of deviations change the chance of a reward.

    Parameters
    ----------
    weights : Weights
    drawn : (p, f) floats
        Weights that were drawn from them.
    values : (p,) floats
        Bottlenecks; the `good` lowest, and those that tie with them, are rewarded with 1.
    good : int

    """
    reward = (values <= np.sort(values)[good - 1]).astype(np.float64)
    advantage = (reward - reward.mean()) / max(float(reward.std()), 1e-12)
    noise = (drawn - weights.mean) / weights.deviation
    return np.concatenate((advantage @ (noise / weights.deviation), advantage @ (noise**2 - 1))) / len(values)


class _Exercise:
    """An instance, and the lowest bottleneck of the last orders that were drawn for it."""

    def __init__(self, instance: Instance) -> None:
        self.instance, self.arrays = instance, KernelArrays.of(instance)
        first = slice_order(instance, kahn(instance.graph, np.zeros(instance.graph.n))).bottleneck
        self.unit = self.last = max(first, np.finfo(np.float64).tiny)

    def play(self, weights: Weights, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Weights, and the bottlenecks that the orders they make have."""
        drawn, noise = weights.draw(count, rng), rng.standard_normal((count, self.instance.graph.n))
        _, values = weights.proposer.propose(self.instance, self.arrays, drawn, noise, self.last)
        self.last = max(float(values.min()), np.finfo(np.float64).tiny)
        return drawn, values


class _Adam:
    """Directions of steps uphill (Kingma and Ba, ICLR 2015)."""

    def __init__(self, size: int) -> None:
        self.first, self.second, self.steps = np.zeros(size), np.zeros(size), 0

    def direction(self, gradient: FloatArray) -> FloatArray:
        self.steps += 1
        self.first = _KEPT[0] * self.first + (1 - _KEPT[0]) * gradient
        self.second = _KEPT[1] * self.second + (1 - _KEPT[1]) * gradient**2
        first, second = (m / (1 - kept**self.steps) for m, kept in zip((self.first, self.second), _KEPT, strict=True))
        return first / (np.sqrt(second) + 1e-8)
