"""One run of a heuristic, with the time that it took."""

from __future__ import annotations

import time
from threading import Event

import numpy as np

from heuristics.limits import Limits
from heuristics.registry import HEURISTICS
from instances import Instance, Result
from instances.lookup import find

__all__ = ["search"]


def search(
    instance: Instance,
    method: str,
    rng: np.random.Generator,
    interrupted: Event,
    seconds: float | None = None,
    target: float | None = None,
) -> Result:
    """One run of a heuristic, which stops soon after `interrupted` is set with the best it has found.

    Parameters
    ----------
    instance : Instance
    method : str
        A name of `HEURISTICS`.
    rng : numpy.random.Generator
    interrupted : threading.Event
    seconds : float, optional
        Wall time.
    target : float, optional
        A bottleneck that is good enough.

    Returns
    -------
    Result
        Always with a partition.

    Raises
    ------
    InputError
        If the heuristic is unknown, or a limit is out of its range.
    """
    heuristic = find(HEURISTICS, method, "heuristic")
    begin = time.monotonic()
    partition = heuristic.run(instance, rng, Limits(seconds=seconds, target=target, interrupted=interrupted))
    spent = {"search": time.monotonic() - begin}
    return Result(method, instance, partition, seconds=spent, interrupted=interrupted.is_set())
