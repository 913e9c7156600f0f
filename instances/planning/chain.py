"""Networks as chains of layers, the unit in which training pipelines are cut."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from instances.errors import InputError
from instances.graph.checks import numbers
from instances.graph.display import Displayed, figures
from instances.graph.tensors import FloatArray, freeze

__all__ = ["LARGEST", "LayerChain"]

#: Largest number of a question; products of several stay below the largest float.
LARGEST = 1e70

#: Between the first and the last of what a name stands for.
_TO = " … "
_PER_LAYER = ("forward", "backward", "param_bytes")
_PER_BOUNDARY = ("forward_bytes", "backward_bytes")


@dataclass(frozen=True, eq=False, repr=False)
class LayerChain(Displayed):
    """Layers in the order of the forward pass; all numbers are for one microbatch on one device.

    Parameters
    ----------
    forward, backward : (L,) floats
        Time of each layer in the two passes, p^f and p^b [s].
    forward_bytes, backward_bytes : (L - 1,) floats
        Activations from layer l to l + 1, d^f, and gradients from l + 1 to l, d^b [bytes].
    param_bytes : (L,) floats
        Parameters of each layer, as many bytes as their gradients, alpha [bytes].
    stored_bytes : (L,) floats, optional
        What a layer keeps from its forward to its backward pass [bytes]. By default its input, as far as it
        comes from the layer before.
    names : tuple of str, optional
        One name a layer; by default their indices.
    name, source : str
        What the network is called and where the numbers come from.
    input_backward : (L,) floats, optional
        The part of the backward time that yields the gradient of the input; the rest yields those of the weights, and
        may run later. By default half of it [s].

    Raises
    ------
    InputError
        If there is no layer, the lengths differ, or a number is negative or not finite.

    Examples
    --------
    >>> chain = LayerChain([1, 1], [2, 2], forward_bytes=[8], backward_bytes=[8], param_bytes=[4, 4])
    >>> chain.n, chain.time
    (2, 6.0)
    """

    forward: FloatArray
    backward: FloatArray
    forward_bytes: FloatArray
    backward_bytes: FloatArray
    param_bytes: FloatArray
    stored_bytes: FloatArray | None = None
    names: tuple[str, ...] = ()
    name: str = "chain"
    source: str = ""
    input_backward: FloatArray | None = None

    def __post_init__(self) -> None:
        columns = {label: numbers(getattr(self, label), label) for label in _PER_LAYER + _PER_BOUNDARY}
        if self.stored_bytes is None:
            columns["stored_bytes"] = np.concatenate(([0.0], columns["forward_bytes"]))
        else:
            columns["stored_bytes"] = numbers(self.stored_bytes, "stored_bytes")
        if self.input_backward is not None:
            columns["input_backward"] = numbers(self.input_backward, "input_backward")
        n = len(columns["forward"])
        if n == 0:
            raise InputError("The chain has no layer; give at least one.")
        for label, values in columns.items():
            expected = n - 1 if label in _PER_BOUNDARY else n
            if len(values) != expected:
                raise InputError(f"There are {n} layers but {len(values)} values of {label}; give {expected}.")
            for layer in np.flatnonzero(~((values >= 0) & (values <= LARGEST)))[:1]:
                raise InputError(f"Layer {layer}: {label} is {values[layer]}; it must be from 0 to {LARGEST:g}.")
            freeze(values)
            object.__setattr__(self, label, values)
        if self.input_backward is not None:
            for layer in np.flatnonzero(self.input_backward > self.backward)[:1]:
                raise InputError(f"Layer {layer}: input_backward is more than its backward time; give a part of it.")
        object.__setattr__(self, "names", tuple(self.names) or tuple(map(str, range(n))))
        if len(self.names) != n:
            raise InputError(f"There are {n} layers but {len(self.names)} names; give one a layer.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        freeze(*(value for value in state.values() if isinstance(value, np.ndarray)))  # pickling forgets it

    @property
    def n(self) -> int:
        """Number of layers, L."""
        return len(self.forward)

    @property
    def stored(self) -> FloatArray:
        """(L,) `stored_bytes`, which is never missing once the chain exists."""
        assert self.stored_bytes is not None
        return self.stored_bytes

    @cached_property
    def input_time(self) -> FloatArray:
        """(L,) `input_backward`, half of the backward time where it is missing [s]."""
        return self.backward / 2 if self.input_backward is None else self.input_backward

    @property
    def time(self) -> float:
        """Time of one microbatch through all layers and back on one device [s]."""
        return float(self.forward.sum() + self.backward.sum())

    def merged(self, starts: Sequence[int]) -> LayerChain:
        """Merge layers: each new layer goes from one of `starts`, which begin with 0 and rise, to before the next.

        Examples
        --------
        >>> chain = LayerChain([1, 2, 3], [2, 4, 6], forward_bytes=[8, 9], backward_bytes=[8, 9], param_bytes=[4, 0, 4])
        >>> chain.merged([0, 2]).forward.tolist(), chain.merged([0, 2]).forward_bytes.tolist()
        ([3.0, 3.0], [9.0])
        """
        firsts, between = np.array(starts), np.array(starts[1:], dtype=np.int64) - 1
        columns: dict[str, Any] = {name: np.add.reduceat(getattr(self, name), firsts) for name in _PER_LAYER}
        columns |= {name: getattr(self, name)[between] for name in _PER_BOUNDARY}
        ends = zip(starts, [*between.tolist(), self.n - 1], strict=True)
        return replace(
            self,
            **columns,
            stored_bytes=np.add.reduceat(self.stored, firsts),
            names=tuple(self.names[i] if i == j else _from_to(self.names[i], self.names[j]) for i, j in ends),
            input_backward=None if self.input_backward is None else np.add.reduceat(self.input_backward, firsts),
        )

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of everything that costs depend on; names do not count."""
        digest = hashlib.sha256()
        for label in (*_PER_LAYER, *_PER_BOUNDARY, "stored_bytes"):
            digest.update(np.ascontiguousarray(getattr(self, label)).tobytes() + b"|")
        if self.input_backward is not None:
            digest.update(self.input_backward.tobytes() + b"input")
        return digest.hexdigest()

    def _title(self) -> str:
        return self.name

    def _facts(self) -> dict[str, str]:
        parameters = figures(self.param_bytes.sum(), "bytes")
        return {"layers": str(self.n), "time": figures(self.time, "s"), "parameters": parameters}


def _from_to(first: str, last: str) -> str:
    return f"{first.split(_TO)[0]}{_TO}{last.split(_TO)[-1]}"
