"""The memory that the processes of a pipeline share: rings of tensors, and when each stage computed what.

It has no name, so nothing is left of it when the last process ends, however it ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.pipelines.records import Received, Sent, TensorRecord

__all__ = ["Layout", "Ring", "SharedMemory", "available_memory"]

# Where tensors begin [bytes].
_ALIGNED = 64
# What a stage notes of a request [bytes].
_EVENT = 24


@dataclass(frozen=True)
class Ring:
    """Room for several values of one tensor; request i has the slot i modulo `slots`."""

    tensor: TensorRecord
    offset: int
    stride: int
    slots: int

    def document(self) -> dict[str, Any]:
        """What a stage is told of it."""
        tensor = self.tensor
        place = {"offset": self.offset, "stride": self.stride, "slots": self.slots}
        return {"name": tensor.name, "type": tensor.type, "shape": tensor.shape, **place}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Ring:
        """What `document` says."""
        told = dict(document)
        tensor = TensorRecord(told.pop("name"), told.pop("type"), tuple(told.pop("shape")))
        return cls(tensor, **told)


class Layout:
    """Where everything lies in the shared memory of a pipeline.

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
        self.events = [self._room(requests * _EVENT) for _ in stages]

    def source(self, received: Received) -> Ring:
        """Where a stage reads from."""
        name = received.tensor.name
        return self.given[name] if received.sender is None else self.made[received.sender, name]

    def _ring(self, tensor: TensorRecord, slots: int) -> Ring:
        stride = -(-max(tensor.bytes, 1) // _ALIGNED) * _ALIGNED
        return Ring(tensor, self._room(stride * slots), stride, slots)

    def _room(self, size: int) -> int:
        offset = self.bytes
        self.bytes += -(-size // _ALIGNED) * _ALIGNED
        return offset


class SharedMemory:
    """A piece of memory that other processes map by its file descriptor."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor, self.size = descriptor, size
        self._bytes = np.frombuffer(mmap.mmap(descriptor, max(size, 1)), np.uint8)

    @classmethod
    def create(cls, size: int) -> SharedMemory:
        """New memory, all zero; on Linux without any file, elsewhere a file that is deleted already."""
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("mtpp")
        else:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        os.ftruncate(descriptor, max(size, 1))
        return cls(descriptor, size)

    def slot(self, ring: Ring, request: int) -> NDArray[np.uint8]:
        """The bytes of the slot of a request."""
        begin = ring.offset + request % ring.slots * ring.stride
        return self._bytes[begin : begin + ring.tensor.bytes]

    def address(self, ring: Ring, request: int) -> int:
        """Where the slot of a request is in the memory of this process."""
        return int(self._bytes.ctypes.data) + ring.offset + request % ring.slots * ring.stride

    def floats(self, offset: int, rows: int) -> NDArray[np.float64]:
        """(rows, 3) floats."""
        return self._bytes[offset : offset + rows * _EVENT].view(np.float64).reshape(rows, 3)

    def close(self) -> None:
        """Close the descriptor; the memory is gone when nothing of it is used."""
        os.close(self.descriptor)


def available_memory() -> int | None:
    """Bytes that processes can still take; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
