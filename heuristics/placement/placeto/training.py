"""REINFORCE with a baseline for each time step (Addanki et al., NeurIPS 2019, Section 3.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from heuristics.placement.placeto.environment import (
    Environment,
    Order,
    PlacementArrays,
    Start,
    roll_out,
    start_place,
    traversal,
)
from heuristics.placement.placeto.network import BATCH, Observation, Placeto, observe_and_score, one_thread
from instances.deadline import Deadline
from instances.errors import InputError, check_one_of
from instances.graph.tensors import FloatArray, IntArray
from instances.placement.problem import PlacementInstance

_CLIP = 1.25


@dataclass(frozen=True)
class Training:
    """Parameters of a training: from random devices, as in the paper; rates are this project's."""

    updates: int  # number of gradient steps; the same seed and updates give the same weights
    graphs: int = 1  # instances in each update, drawn without repetition
    episodes: int = 32  # on each instance
    sweeps: int = 1  # visits of each node in an episode
    # "step": how much each step shortens the penalised time; "terminal": only how it ends.
    reward: Literal["step", "terminal"] = "step"
    discount: float = 1.0  # of later rewards, for steps
    start: Sequence[Start] = ("random",)  # to draw from for each instance; all its episodes share it
    # In which nodes are visited; a number for one of so many random orders, which are the same in each update.
    order: Order | int = "topological"
    entropy: float = 0.01  # weight of the entropy bonus at first; it falls linearly to 0.001 over 80 % of the updates
    rate: float = 5e-3  # learning rate of Adam at first; it falls linearly to a tenth
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("updates", "graphs", "episodes", "sweeps"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} of a training is {getattr(self, name)}; it must be at least 1.")
        check_one_of("reward", self.reward, ("step", "terminal"))


class TrainingPoint(NamedTuple):
    """Point of the learning curve; times are penalised times at the end of this update's episodes."""

    update: int
    episodes: int  # so far, those of this update included
    simulations: int  # likewise
    mean: float  # of all episodes
    best: float  # the least seen on each graph, their mean
    entropy: float  # of the policy [nats]


def train(
    network: Placeto,
    instances: Sequence[PlacementInstance],
    training: Training,
    on_progress: Callable[[TrainingPoint], None] = lambda point: None,
    *,
    watch: Callable[[Sequence[Environment]], bool] = lambda batch: False,
    deadline: Deadline | None = None,
) -> list[TrainingPoint]:
    """Train a network in place, on one thread; return the learning curve. `on_progress` gets each update.

    The memory of the instances, where finite, is part of what is minimised.

    Parameters
    ----------
    watch : callable, optional
        Is shown the episodes of each update, and says whether training ends with it.
    deadline : Deadline, optional
        An update that it breaks off is shown to `watch` too, but changes nothing.

    Raises
    ------
    InputError
        If there are no instances.
    """
    if not instances:
        raise InputError("There is no instance to train on; give at least one.")
    rng = np.random.default_rng(training.seed)
    deadline = deadline or Deadline()
    questions = [PlacementArrays(instance) for instance in instances]
    optimiser = torch.optim.Adam(network.parameters(), lr=training.rate)
    curve: list[TrainingPoint] = []
    episodes = simulations = 0
    with one_thread():
        for update in range(1, training.updates + 1):
            done = (update - 1) / training.updates
            for group in optimiser.param_groups:
                group["lr"] = training.rate * (1 - 0.9 * done)
            chosen = rng.choice(len(questions), min(training.graphs, len(questions)), replace=False)
            batch = [_environment(questions[i], training, rng) for i in chosen]
            bonus = 0.001 + (training.entropy - 0.001) * max(0.0, 1 - done / 0.8)
            try:
                records = _record(network, batch, rng, deadline)
                entropy = _improve(network, optimiser, batch, records, training, bonus, deadline)
            except _OutOfTimeError:
                watch(batch)
                break
            episodes += len(batch) * training.episodes
            simulations += sum(environment.simulations for environment in batch)
            last = np.mean([environment.objective.mean() for environment in batch])
            best = np.mean([environment.best.min() for environment in batch])
            curve.append(
                TrainingPoint(
                    update=update,
                    episodes=episodes,
                    simulations=simulations,
                    mean=float(last),
                    best=float(best),
                    entropy=entropy,
                )
            )
            on_progress(curve[-1])
            if watch(batch):
                break
    return curve


def returns_of(history: FloatArray, reward: str, discount: float) -> FloatArray:
    """(steps, e) sums of the rewards that follow each step.

    The objective at the start and after each step is `history`, (steps + 1, e); the reward is "step" or "terminal".
    """
    if reward == "terminal":
        return np.tile(-history[-1], (len(history) - 1, 1))
    returns = history[:-1] - history[1:]
    for i in range(len(returns) - 2, -1, -1):
        returns[i] += discount * returns[i + 1]
    return returns


#: Observations of each step of an environment, and the devices chosen.
_Record = tuple[list[Observation], list[IntArray]]


class _OutOfTimeError(Exception):
    """The deadline passed in the middle of an update."""


def _environment(question: PlacementArrays, training: Training, rng: np.random.Generator) -> Environment:
    start = training.start[int(rng.integers(len(training.start)))]
    place = start_place(question, start, training.episodes, rng)
    if isinstance(training.order, str):
        return Environment(question, place, traversal(question, training.order, training.sweeps, rng))
    fixed = np.random.default_rng((training.seed, int(rng.integers(training.order))))
    return Environment(question, place, traversal(question, "random", training.sweeps, fixed))


def _record(
    network: Placeto, batch: Sequence[Environment], rng: np.random.Generator, deadline: Deadline
) -> list[_Record]:
    """Run the episodes of an update, and record their steps."""
    records: dict[Environment, _Record] = {environment: ([], []) for environment in batch}

    def choose(active: Sequence[Environment]) -> list[IntArray]:
        if deadline.passed:
            raise _OutOfTimeError
        observations, logits = observe_and_score(network, contexts, active)
        devices = [(rows + rng.gumbel(size=rows.shape)).argmax(axis=1) for rows in logits]
        for environment, rows, device in zip(active, observations, devices, strict=True):
            records[environment][0].append(rows)
            records[environment][1].append(device)
        return devices

    with torch.no_grad():
        contexts = {environment.question: network.context(environment.question) for environment in batch}
        roll_out(batch, choose)
    return list(records.values())


def _improve(
    network: Placeto,
    optimiser: torch.optim.Optimizer,
    batch: Sequence[Environment],
    records: Sequence[_Record],
    training: Training,
    bonus: float,
    deadline: Deadline,
) -> float:
    """Do one gradient step; return the mean entropy.

    The baseline of a step is the mean return of all episodes of its instance in that step, where the paper averages
    over the last updates: all episodes begin alike, so their mean is known at once.
    """
    advantages = []
    for environment in batch:
        returns = returns_of(np.array(environment.history), training.reward, training.discount)
        advantages.append((returns - returns.mean(axis=1, keepdims=True)).ravel())
    scale = max(float(np.concatenate(advantages).std()), 1e-8)
    steps = sum(len(rows) for rows in advantages)
    optimiser.zero_grad()
    total = 0.0
    for environment, (observations, devices), advantage in zip(batch, records, advantages, strict=True):
        rows = tuple(np.concatenate(column) for column in zip(*observations, strict=True))
        chosen = np.concatenate(devices)
        for first in range(0, len(chosen), BATCH):
            if deadline.passed:
                raise _OutOfTimeError
            chunk = slice(first, first + BATCH)
            logits = network(network.context(environment.question), tuple(column[chunk] for column in rows))
            loss, entropy = _loss(logits, chosen[chunk], advantage[chunk] / scale, bonus)
            (loss / steps).backward()
            total += entropy
    torch.nn.utils.clip_grad_norm_(network.parameters(), _CLIP)
    optimiser.step()
    return total / steps


def _loss(logits: Tensor, device: IntArray, advantage: FloatArray, bonus: float) -> tuple[Tensor, float]:
    """Sum over steps of the policy gradient's loss minus the entropy bonus, and the sum of entropies."""
    logp = torch.log_softmax(logits, dim=1)
    entropy = -(logp.exp() * logp).sum()
    chosen = logp.gather(1, torch.as_tensor(device)[:, None])[:, 0]
    weight = torch.as_tensor(advantage, dtype=logp.dtype)
    return -(chosen * weight).sum() - bonus * entropy, float(entropy.detach())
