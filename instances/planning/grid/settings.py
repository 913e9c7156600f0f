"""Degrees that all stages of a plan share, and the least work that each device has with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from weakref import WeakKeyDictionary

import numpy as np

from instances.planning.grid.arrays import GridArrays
from instances.planning.grid.problem import GridInstance

__all__ = ["Setting", "even_work", "settings_of"]


@dataclass(frozen=True)
class Setting:
    """Degrees of a plan that all its stages share."""

    micro_batch: int
    pipelines: int
    context: int
    expert: int
    zero: int


#: Settings of questions that are in use.
_KNOWN: WeakKeyDictionary[GridInstance, list[tuple[Setting, GridArrays]]] = WeakKeyDictionary()


def settings_of(question: GridInstance) -> list[tuple[Setting, GridArrays]]:
    """All settings with their arrays; these are made once for each size of microbatches and degree of a question."""
    if question not in _KNOWN:
        _KNOWN[question] = list(_settings(question))
    return _KNOWN[question]


def _settings(question: GridInstance) -> Iterator[tuple[Setting, GridArrays]]:
    for chain in question.chains:
        for context, expert in sorted({(c, e) for _, c, e in chain.degrees}):
            arrays = GridArrays.of(question, chain, context, expert)
            if arrays is None:
                continue
            for d, zero in product(question.pipelines(chain, context), question.zero):
                if d * context % expert == 0 and (zero == min(question.zero) or d * context > 1):
                    yield Setting(chain.micro_batch, d, context, expert, zero), arrays


def even_work(question: GridInstance, setting: Setting, arrays: GridArrays) -> float:
    """Time of a step if all devices shared all work equally, a bound [s]."""
    M = question.global_batch // (setting.pipelines * setting.micro_batch)
    K = question.servers.devices // (setting.pipelines * setting.context)
    layers = np.diff(arrays.forward + arrays.backward, axis=1)
    return float(M * (arrays.degrees[:, None] * layers).min(axis=0).sum() / K)
