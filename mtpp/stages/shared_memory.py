"""Shared memory of the processes of a pipeline: rings of tensors, and times of all computations.

It has no name, so nothing is left of it when the last process ends, however it ends.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mtpp.stages.records import ELEMENTS, Received, Sent, TensorRecord
from mtpp.stages.stage_process import EVENT_BYTES, Ring, SharedMemory

__all__ = ["Layout", "available_memory", "new_memory"]

# Where tensors begin [bytes].
_ALIGNED = 64


class Layout:
    """Layout of the shared memory of a pipeline.

    Attributes
    ----------
    given : dict of str to Ring
        Inputs of the whole model, a slot for each sample.
    made : dict of (int, str) to Ring
        What a stage gives, by its number and the tensor's name.
    events : list of int
        Where the (requests, 3) floats of each stage begin: when it began and ended with each request, and the
        processor's seconds in between.
    bytes : int
    """

    def __init__(
        self,
        stages: Sequence[tuple[Sequence[Received], Sequence[Sent]]],
        *,
        slots: int,
        samples: int,
        requests: int,
    ) -> None:
        self.bytes = 0
        self.given: dict[str, Ring] = {}
        self.made: dict[tuple[int, str], Ring] = {}
        for number, (inputs, outputs) in enumerate(stages):
            for received in inputs:
                if received.sender is None and received.tensor.name not in self.given:
                    self.given[received.tensor.name] = self._ring(received.tensor, samples)
            for sent in outputs:
                self.made[number, sent.tensor.name] = self._ring(sent.tensor, slots)
        self.events = [self._room(requests * EVENT_BYTES) for _ in stages]

    def source(self, received: Received) -> Ring:
        """Ring that a stage reads an input from."""
        name = received.tensor.name
        return self.given[name] if received.sender is None else self.made[received.sender, name]

    def _ring(self, tensor: TensorRecord, slots: int) -> Ring:
        stride = -(-max(tensor.bytes, 1) // _ALIGNED) * _ALIGNED
        return Ring(
            name=tensor.name,
            element=ELEMENTS[tensor.type][0],
            shape=tensor.shape,
            bytes=tensor.bytes,
            offset=self._room(stride * slots),
            stride=stride,
            slots=slots,
        )

    def _room(self, size: int) -> int:
        offset = self.bytes
        self.bytes += -(-size // _ALIGNED) * _ALIGNED
        return offset


def new_memory(size: int) -> SharedMemory:
    """New memory, all zero; on Linux without any file, elsewhere in a file that is deleted already."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("mtpp")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, max(size, 1))
    return SharedMemory(descriptor, size)


def available_memory() -> int | None:
    """Bytes that processes can still allocate; None if the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
