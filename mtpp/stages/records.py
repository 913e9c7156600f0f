"""Records of ``manifest.json`` in a folder of stages, ``mtpp-stages/2``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = [
    "ELEMENTS",
    "OLDER_STAGES_FORMAT",
    "STAGES_FORMAT",
    "FileRecord",
    "Manifest",
    "Received",
    "Samples",
    "Sent",
    "StageRecord",
    "TensorRecord",
]

STAGES_FORMAT, OLDER_STAGES_FORMAT = "mtpp-stages/2", "mtpp-stages/1"

#: Element types of tensors between stages: number in ONNX, bytes, and what numpy calls it, if it knows it.
ELEMENTS: dict[str, tuple[int, int, str | None]] = {
    "float": (1, 4, "float32"),
    "uint8": (2, 1, "uint8"),
    "int8": (3, 1, "int8"),
    "uint16": (4, 2, "uint16"),
    "int16": (5, 2, "int16"),
    "int32": (6, 4, "int32"),
    "int64": (7, 8, "int64"),
    "bool": (9, 1, "bool"),
    "float16": (10, 2, "float16"),
    "double": (11, 8, "float64"),
    "uint32": (12, 4, "uint32"),
    "uint64": (13, 8, "uint64"),
    "bfloat16": (16, 2, None),
}


@dataclass(frozen=True)
class FileRecord:
    """A file of the folder."""

    file: str
    sha256: str

    def document(self) -> dict[str, Any]:
        """Members in the manifest."""
        return {"file": self.file, "sha256": self.sha256}


@dataclass(frozen=True)
class TensorRecord:
    """A tensor between stages, or an input or output of the whole model."""

    name: str
    type: str  # one of `ELEMENTS`
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size [bytes]."""
        return math.prod(self.shape) * ELEMENTS[self.type][1]

    def document(self) -> dict[str, Any]:
        """Members in the manifest."""
        return {"name": self.name, "type": self.type, "shape": list(self.shape), "bytes": self.bytes}


@dataclass(frozen=True)
class Received:
    """Input of a stage."""

    tensor: TensorRecord
    sender: int | None  # the stage that it comes from; None for an input of the whole model

    def document(self) -> dict[str, Any]:
        """Members in the manifest."""
        return {**self.tensor.document(), "from": self.sender}


@dataclass(frozen=True)
class Sent:
    """Output of a stage."""

    tensor: TensorRecord
    readers: tuple[int, ...]  # the stages that read it

    def document(self) -> dict[str, Any]:
        """Members in the manifest."""
        return {**self.tensor.document(), "to": list(self.readers)}


@dataclass(frozen=True)
class StageRecord:
    """One stage: its files, its tensors and its predicted costs."""

    block: int  # of the partition; blocks without nodes are no stages
    file: FileRecord
    weights: FileRecord | None  # beside the model, if it has weights in a file of their own
    nodes: int
    inputs: tuple[Received, ...]
    outputs: tuple[Sent, ...]
    time: float  # predicted cost of the block [s]: receive, work, overflow and send
    work: float  # its work alone [s]
    parameter_bytes: float
    peak_bytes: float
    device: str | None = None  # kind of its device; None where all are alike

    def document(self) -> dict[str, Any]:
        """Members in the manifest."""
        return {
            "block": self.block,
            **self.file.document(),
            "weights": None if self.weights is None else self.weights.document(),
            "nodes": self.nodes,
            "inputs": [item.document() for item in self.inputs],
            "outputs": [item.document() for item in self.outputs],
            "time": self.time,
            "work": self.work,
            "parameter_bytes": self.parameter_bytes,
            "peak_bytes": self.peak_bytes,
            **({} if self.device is None else {"device": self.device}),
        }


@dataclass(frozen=True)
class Samples:
    """Recorded outputs of the whole model for some inputs, which a seed makes."""

    file: FileRecord
    count: int
    seed: int

    def document(self) -> dict[str, Any]:
        """Members in the manifest."""
        return {**self.file.document(), "count": self.count, "seed": self.seed}


@dataclass(frozen=True)
class Manifest:
    """A model in stages."""

    model: str  # name of the whole model's file, which need not be here
    model_sha256: str
    graph_hash: str
    question_hash: str | None  # that of the certificate; None in older folders
    k: int
    bandwidth: float | None  # between stages [bytes/s]; None if it is infinite
    bottleneck: float  # predicted [s]
    certificate: FileRecord
    inputs: tuple[TensorRecord, ...]
    outputs: tuple[TensorRecord, ...]
    samples: Samples | None  # None if the whole model could not be run
    stages: tuple[StageRecord, ...]

    def document(self) -> dict[str, Any]:
        """The JSON document of the file."""
        return {
            "format": STAGES_FORMAT,
            "model": self.model,
            "model_sha256": self.model_sha256,
            "graph_hash": self.graph_hash,
            "question_hash": self.question_hash,
            "k": self.k,
            "bandwidth": self.bandwidth,
            "bottleneck": self.bottleneck,
            "certificate": self.certificate.document(),
            "inputs": [tensor.document() for tensor in self.inputs],
            "outputs": [tensor.document() for tensor in self.outputs],
            "samples": None if self.samples is None else self.samples.document(),
            "stages": [stage.document() for stage in self.stages],
        }

    def files(self) -> Iterator[FileRecord]:
        """All files of the folder but the manifest."""
        yield self.certificate
        if self.samples is not None:
            yield self.samples.file
        for stage in self.stages:
            yield stage.file
            if stage.weights is not None:
                yield stage.weights
