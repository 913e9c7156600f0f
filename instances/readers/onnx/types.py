"""Types of tensors, and nodes with the types of what they read and write."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["TensorType", "TypedNode"]


class TensorType(NamedTuple):
    """Shape of a tensor, and the width of its elements [bits]."""

    shape: tuple[int, ...]
    bits: int

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size [bytes]; elements narrower than a byte are packed."""
        return -(-self.elements * self.bits // 8)


@dataclass(frozen=True)
class TypedNode:
    """A node with the types of what it reads and writes."""

    kind: str  # such as Conv
    domain: str  # the operator set that it belongs to; "" is that of ONNX
    attributes: Mapping[str, Any]
    inputs: tuple[TensorType | None, ...]  # None where an optional tensor is left out
    outputs: tuple[TensorType | None, ...]  # None where nobody reads an output, or it is left out

    def input(self, i: int) -> TensorType:
        """An input that the operator cannot do without."""
        tensor = self.inputs[i] if i < len(self.inputs) else None
        if tensor is None:
            raise ValueError(f"input {i} is missing")
        return tensor

    @property
    def written(self) -> int:
        """Elements of the first output that is read."""
        return next((tensor.elements for tensor in self.outputs if tensor is not None), 0)
