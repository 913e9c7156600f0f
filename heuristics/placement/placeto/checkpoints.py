"""Trained policies as files: weights as plain arrays, and how they were made. Nothing in them is code."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from heuristics.placement.placeto.rollout import FastScorer
from instances.errors import InputError

__all__ = ["Checkpoint", "shipped"]

SCHEMA = "mtpp-policy/1"
_SHIPPED = "fast.npz"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A policy with its weights.

    Parameters
    ----------
    policy : str
        Name in `policy.POLICIES`, or in `heuristics.learned.policies.PROPOSERS`.
    options : mapping
        Its arguments.
    weights : mapping of str to array
        Its parameters by name.
    about : mapping
        How it was trained; free text and numbers.
    """

    policy: str
    options: Mapping[str, Any]
    weights: Mapping[str, NDArray[np.float32]]
    about: Mapping[str, Any] = field(default_factory=dict)

    def save(self, path: str | Path) -> None:
        """Write a file that `load` reads on any machine."""
        head = {"schema": SCHEMA, "policy": self.policy, "options": dict(self.options), "about": dict(self.about)}
        with Path(path).open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **{_HEAD: np.array(json.dumps(head)), **self.weights})

    @classmethod
    def load(cls, path: str | Path) -> Checkpoint:
        """Read a file that `save` wrote.

        Raises
        ------
        InputError
            If it is something else, or damaged.
        OSError
            If it cannot be read.
        """
        with Path(path).open("rb") as file:
            return cls._read(file, str(path))

    @classmethod
    def _read(cls, file: IO[bytes], name: str) -> Checkpoint:
        try:
            with np.load(file, allow_pickle=False) as archive:
                arrays = {key: archive[key] for key in archive}
            head = json.loads(str(arrays.pop(_HEAD)))
            schema, checkpoint = head["schema"], cls(head["policy"], head["options"], arrays, head["about"])
        except (AttributeError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile):
            raise InputError(f"{name} is no checkpoint of a policy, or it is damaged; train one and save it.") from None
        if schema != SCHEMA:
            raise InputError(f"{name} has schema {schema!r}, not {SCHEMA!r}; use the version that wrote it.")
        return checkpoint

    def scorer(self) -> FastScorer:
        """A policy `fast`, ready to place graphs without PyTorch; for others, see `policy.restore`.

        Raises
        ------
        InputError
            If it is another policy.
        """
        if self.policy != "fast":
            raise InputError(
                f"The policy {self.policy!r} needs PyTorch; use policy.scorer(policy.restore(checkpoint))."
            )
        return FastScorer(self.weights)


def shipped() -> Checkpoint:
    """The policy `fast` that comes with the package."""
    with files(__package__).joinpath(_SHIPPED).open("rb") as file:
        return Checkpoint._read(file, _SHIPPED)


_HEAD = "checkpoint"
