"""Steps of a decoder on kinds of devices: how long they take, and of how many sequences they may be.

All devices step together, once a tick, and m batches of sequences are in flight. A device steps at one of them in each
tick, and holds the caches of all. No request passes more than m devices, so that a sequence is back for its next token
m ticks later. So a device with c layers and caches of s sequences has batches of b sequences, at most s / m, whose step
takes no longer than a tick, and serves b sequences a tick. The next token of a sequence, and what passes between
devices, take no time of a tick; links limit the sequences a second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray
from instances.records import Floats, Ints

_LEAST, _LARGEST = 1e-30, 1e30
#: Of a step, or of a device.
MOST_SEQUENCES = 10**9


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of the devices of each kind, T of them, with up to L layers.

    Parameters
    ----------
    dims : mapping of str to str
        Dimensions that times hold for, such as context and element_bytes.
    sizes : (B,) integers
        Sequences that a step may be of, ascending.
    slots : (T, L + 1) integers
        Sequences whose caches a device holds beside so many layers.
    seconds : (T, L + 1, B) floats
        Time of a step; infinite where there is none.
    port : (T,) floats
        Sequences per second that enter a device, or leave it.
    in_flight : int, optional
        Batches in flight; by default any number.

    Raises
    ------
    InputError
        If sizes or numbers are out of their ranges.
    """

    dims: Mapping[str, str]
    sizes: Annotated[IntArray, Ints("B")]
    slots: Annotated[IntArray, Ints("T", "C")]
    seconds: Annotated[FloatArray, Floats("T", "C", "B")]
    port: Annotated[FloatArray, Floats("T")]
    in_flight: int | None = None

    def __post_init__(self) -> None:
        shape = (len(self.port), self.slots.shape[1] if self.slots.ndim == 2 else 0, len(self.sizes))
        if self.seconds.shape != shape or self.slots.shape != shape[:2] or 0 in shape:
            raise InputError("Slots and seconds do not fit kinds, layers and sizes of steps; give one for each.")
        sizes = self.sizes.tolist()
        if sizes != sorted(set(sizes)) or not 1 <= sizes[0] <= sizes[-1] <= MOST_SEQUENCES:
            raise InputError(f"Sizes of steps do not ascend from 1 to {MOST_SEQUENCES}; give such numbers.")
        if self.slots.min() < 0 or self.slots.max() > MOST_SEQUENCES:
            raise InputError(f"Slots are not from 0 to {MOST_SEQUENCES}; give such numbers.")
        for numbers in (self.seconds[self.seconds < math.inf], self.port):
            if not ((numbers >= _LEAST) & (numbers <= _LARGEST)).all():
                raise InputError(f"Seconds or sequences a second are not from {_LEAST:g} to {_LARGEST:g}.")
        if self.in_flight is not None and not 1 <= self.in_flight <= MOST_SEQUENCES:
            raise InputError(f"in_flight is {self.in_flight}; give 1 or more batches.")

    def least_in_flight(self, devices: int) -> int | None:
        """Fewest batches in flight with which so many devices on a path may hold all layers; None without any."""
        numbers = range(1, devices + 1) if self.in_flight is None else (self.in_flight,)
        layers = np.arange(self.slots.shape[1])
        for m in numbers:
            reach = int((layers * (self.capacity(m) > 0).any(axis=0)).max())
            if min(m, devices) * reach >= layers[-1]:
                return m
        return None

    def capacity(self, in_flight: int, low: float = 0.0, high: float = math.inf) -> FloatArray:
        """(T, L + 1) most sequences per second with so many batches in flight and a tick from `low` to `high`."""
        fits = (self.sizes <= (self.slots // in_flight)[:, :, None]) & (self.seconds <= min(high, _LARGEST))
        rates = np.where(fits, self.sizes / np.maximum(self.seconds, low), 0.0).max(axis=2)
        rates[:, 0] = 0.0
        capacity: FloatArray = np.minimum(rates, self.port[:, None])
        return capacity

    def batch(self, in_flight: int, tick: float) -> IntArray:
        """(T, L + 1) sequences of a step, as many as a tick has time for."""
        fits = (self.sizes <= (self.slots // in_flight)[:, :, None]) & (self.seconds <= tick)
        largest: IntArray = np.where(fits, self.sizes, 0).max(axis=2)
        largest[:, 0] = 0
        return largest

    def ticks(self, in_flight: int) -> FloatArray:
        """Ticks for which a step ends just in time, ascending; any other one is no better than the next shorter one."""
        fits = (self.sizes <= (self.slots // in_flight)[:, :, None]) & (self.seconds < math.inf)
        return np.unique(self.seconds[:, 1:][fits[:, 1:]])
