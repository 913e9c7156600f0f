"""The placer `placeto`: the published network, from a checkpoint or trained for one graph alone.

A checkpoint is a file with weights as plain arrays, and how they were made. Nothing in it is code.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from heuristics.method import Limits
from heuristics.placement.placeto.environment import Environment, Start, play_episodes
from instances.errors import InputError, extra
from instances.json_files import check_readable, check_writable, parse_json
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

SCHEMA = "mtpp-policy/1"
_POLICY = "placeto"
#: Bytes of all arrays of a file.
_LARGEST = 2**26
_BROKEN = (zipfile.BadZipFile, zlib.error, SyntaxError, MemoryError, RecursionError)
_HEAD = "checkpoint"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The published network with its weights."""

    options: Mapping[str, Any]  # its arguments
    weights: Mapping[str, NDArray[np.float32]]  # its parameters by name
    about: Mapping[str, Any] = field(default_factory=dict)  # how it was trained; free text and numbers

    def save(self, path: str | Path) -> None:
        """Write a file that `load` reads on any machine."""
        head = {"schema": SCHEMA, "policy": _POLICY, "options": dict(self.options), "about": dict(self.about)}
        check_writable(path)
        with Path(path).open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **{_HEAD: np.array(json.dumps(head)), **self.weights})

    @classmethod
    def load(cls, path: str | Path) -> Checkpoint:
        """Read a file that `save` wrote.

        Raises
        ------
        InputError
            If there is no such file, it is something else, or it is damaged.
        OSError
            If it cannot be read.
        """
        check_readable(path)
        with Path(path).open("rb") as file:
            return cls._read(file, str(path))

    @classmethod
    def _read(cls, file: IO[bytes], name: str) -> Checkpoint:
        try:
            arrays = _arrays(file)
            head = parse_json(str(arrays.pop(_HEAD)), name).open_members(("schema", "policy", "options", "about"))
        except (KeyError, NotImplementedError, OSError, RuntimeError, TypeError, ValueError, *_BROKEN):
            raise InputError(f"{name} is no checkpoint of a policy, or it is damaged; train one and save it.") from None
        schema, policy = head["schema"].text(), head["policy"].text()
        if schema != SCHEMA:
            raise InputError(f"{name} has schema {schema!r}, not {SCHEMA!r}; use the version that wrote it.")
        if policy != _POLICY:
            raise InputError(f"{name} has policy {policy!r}, not {_POLICY!r}; train one and save it.")
        for key, weight in arrays.items():
            if weight.dtype.kind != "f" or not np.isfinite(weight).all():
                raise InputError(f"{name}: the weights '{key}' are not finite numbers; train a policy and save it.")
        options, about = ({k: v.data for k, v in head[key].open_members(()).items()} for key in ("options", "about"))
        return cls(options, arrays, about)


def _arrays(file: IO[bytes]) -> dict[str, NDArray[Any]]:
    """Read the arrays of an ``.npz`` file; allocate none before its stated size is checked."""
    arrays = {}
    with zipfile.ZipFile(file) as archive:
        if sum(member.file_size for member in archive.infolist()) > _LARGEST:
            raise ValueError("too large")
        for member in archive.infolist():
            data = io.BytesIO(archive.read(member))
            if np.lib.format.read_magic(data) != (1, 0):
                raise ValueError("an array of another version")
            shape, by_columns, dtype = np.lib.format.read_array_header_1_0(data)
            content = data.read()
            if dtype.kind not in "fU" or math.prod(shape) * dtype.itemsize != len(content):
                raise ValueError("not as many numbers as it says")
            array = np.frombuffer(bytearray(content), dtype).reshape(shape, order="F" if by_columns else "C")
            arrays[member.filename.removesuffix(".npy")] = array
    return arrays


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
