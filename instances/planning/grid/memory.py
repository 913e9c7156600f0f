"""Memory of the devices of a plan, part by part."""

from __future__ import annotations

from typing import NamedTuple

from instances.graph.tensors import FloatArray

__all__ = ["MemoryParts"]


class MemoryParts(NamedTuple):
    """Memory of a device of each group at its peak [bytes]."""

    weights: FloatArray  # (S,), with those that ZeRO 3 gathers
    gradients: FloatArray  # (S,)
    optimizer: FloatArray  # (S,)
    stored: FloatArray  # (S,): activations between the passes of all microbatches on their way
    working: FloatArray  # (S,): held while the largest layer recomputes

    @property
    def total(self) -> FloatArray:
        """(S,) sum of all parts."""
        return self.weights + self.gradients + self.optimizer + self.stored + self.working
