"""Manifest of a folder of stages: its files, their hashes, and what they pass on."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from instances.errors import InputError
from instances.json_files import Value, check_readable, missing, read_json
from instances.records import By, Named, read, written

# Records of ``manifest.json`` in a folder of stages, ``mtpp-stages/2``.


STAGES_FORMAT = "mtpp-stages/2"

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


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST_STAGES = 256
_MOST_SAMPLES = 16
_MOST_BYTES = 2**48
_PIECE = 2**20


def _plain_name(value: Value) -> str:
    """The name of a file that lies in the folder itself."""
    name = value.text()
    if not _NAME.fullmatch(name) or ".." in name:
        value.fail(f"'{name}' is no plain name of a file in this folder.")
    return name


def _element_name(value: Value) -> str:
    """The name of an element type."""
    return value.one_of(ELEMENTS)


@dataclass(frozen=True)
class FileRecord:
    """A file of the folder."""

    file: Annotated[str, By(_plain_name)]
    sha256: str


@dataclass(frozen=True)
class TensorRecord:
    """A tensor between stages, or an input or output of the whole model."""

    name: str
    type: Annotated[str, By(_element_name)]
    shape: tuple[int, ...]
    bytes: int = field(default=-1, kw_only=True)  # that of type and shape, which is computed

    def __post_init__(self) -> None:
        elements = math.prod(self.shape)
        if min(self.shape, default=0) < 0 or elements > _MOST_BYTES:
            raise InputError("this is no size of a tensor.")
        size = elements * ELEMENTS[self.type][1]
        if self.bytes not in (-1, size):
            raise InputError(f"a tensor of this shape has {size} bytes.")
        object.__setattr__(self, "bytes", size)

    def received(self, sender: int | None) -> Received:
        """The tensor as an input of a stage."""
        return Received(self.name, self.type, self.shape, sender)

    def sent(self, readers: tuple[int, ...]) -> Sent:
        """The tensor as an output of a stage."""
        return Sent(self.name, self.type, self.shape, readers)


@dataclass(frozen=True)
class Received(TensorRecord):
    """Input of a stage."""

    sender: Annotated[int | None, Named("from")]  # the stage that it comes from; None for an input of the whole model


@dataclass(frozen=True)
class Sent(TensorRecord):
    """Output of a stage."""

    readers: Annotated[tuple[int, ...], Named("to")]  # the stages that read it


@dataclass(frozen=True)
class StageRecord(FileRecord):
    """One stage: its files, its tensors and its predicted costs."""

    block: int  # of the partition; blocks without nodes are no stages
    weights: FileRecord | None  # beside the model, if it has weights in a file of their own
    nodes: int
    inputs: tuple[Received, ...]
    outputs: tuple[Sent, ...]
    time: float  # predicted cost of the block [s]: receive, work, overflow and send
    work: float  # its work alone [s]
    parameter_bytes: float
    peak_bytes: float
    device: str | None = None  # kind of its device; None where all are alike

    def __post_init__(self) -> None:
        if not self.outputs:
            raise InputError("the stage gives nothing.")
        for name in ("time", "work", "parameter_bytes", "peak_bytes"):
            if getattr(self, name) < 0:
                raise InputError(f"{name}: the number is negative.")


@dataclass(frozen=True)
class Samples(FileRecord):
    """Recorded outputs of the whole model for inputs generated from a seed."""

    count: int
    seed: int

    def __post_init__(self) -> None:
        if not 1 <= self.count <= _MOST_SAMPLES or self.seed < 0:
            raise InputError(f"there are 1 to {_MOST_SAMPLES} samples, and no negative seed.")


@dataclass(frozen=True)
class Manifest:
    """The manifest of a model cut into stages."""

    model: str  # name of the whole model's file, which need not be here
    model_sha256: str
    graph_hash: str
    question_hash: str  # that of the certificate
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
        return {"format": STAGES_FORMAT, **written(self)}

    def files(self) -> Iterator[FileRecord]:
        """All files of the folder except the manifest."""
        yield self.certificate
        if self.samples is not None:
            yield self.samples
        for stage in self.stages:
            yield stage
            if stage.weights is not None:
                yield stage.weights


# Read a folder of stages: ``manifest.json`` and the files that it names.
#
# A folder may be untrusted. Every file that is named lies in it, by a plain name, with the hash that the manifest
# states; every tensor has a size; a stage reads from earlier ones alone.


T = TypeVar("T", bound=TensorRecord)

#: The file of a folder that says what is in it.
MANIFEST = "manifest.json"


def check_new_folder(folder: Path) -> None:
    """Refuse a folder in which stages cannot be written.

    Raises
    ------
    InputError
        If the path exists and is no empty folder.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: it is there and not an empty folder; give another name.")


def read_manifest(folder: str | Path) -> Manifest:
    """Read the manifest of a folder, and check all its files.

    Raises
    ------
    InputError
        If there is none, it contradicts itself, or a file is missing or not the one that it names.
    """
    folder = Path(folder)
    if not folder.exists():
        raise missing(folder, "folder", "it is made by mtpp split")
    if not (folder / MANIFEST).exists():
        raise InputError(f"{folder}: this is no folder that mtpp split has written; there is no {MANIFEST} in it.")
    manifest = _manifest(read_json(folder / MANIFEST))
    for record in manifest.files():
        path = folder / record.file
        if path.is_symlink():
            raise InputError(f"{path}: this is a link; a folder of stages holds its files itself.")
        if file_record(path).sha256 != record.sha256:
            raise InputError(f"{path}: the file was altered (its hash is not that of {MANIFEST}); split again.")
    return manifest


def file_record(path: Path) -> FileRecord:
    """Name and hash of a file.

    Raises
    ------
    InputError
        If the file is missing or not regular.
    """
    check_readable(path)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return FileRecord(path.name, digest.hexdigest())


def _manifest(document: Value) -> Manifest:
    content = document.content(STAGES_FORMAT)
    stages = content.data.get("stages")
    if isinstance(stages, list) and not 1 <= len(stages) <= _MOST_STAGES:
        document.fail(f"there are {len(stages)} stages; a folder has 1 to {_MOST_STAGES}.")
    manifest = read(content, Manifest)
    with document.refusing():
        _check_tensors(manifest)
    files = [MANIFEST, *(record.file for record in manifest.files())]
    if len(set(files)) < len(files):
        document.fail("two things are in one file; split again.")
    return manifest


def _check_tensors(manifest: Manifest) -> None:
    """Refuse a manifest in which senders and receivers of tensors contradict each other."""
    sources: dict[int | None, dict[str, TensorRecord]] = {None: _by_name(manifest.inputs)}
    readers: dict[tuple[int | None, str], list[int]] = {}
    for number, stage in enumerate(manifest.stages):
        for name, received in _by_name(stage.inputs).items():
            sender = received.sender
            if sender not in sources:
                reads = f"stage {number} reads from stage {sender}"
                raise InputError(f"{reads}, which is not before it; that is a cycle.")
            if not _is_same(sources[sender].get(name), received):
                who = "the model has no input" if sender is None else f"stage {sender} gives no"
                raise InputError(f"{who} '{name}' with this type and shape.")
            readers.setdefault((sender, name), []).append(number)
        sources[number] = _by_name(stage.outputs)
    for name, tensor in _by_name(manifest.outputs).items():
        if not any(_is_same(made.get(name), tensor) for made in sources.values()):
            raise InputError(f"no stage gives '{name}' with this type and shape.")
    for number, stage in enumerate(manifest.stages):
        for sent in stage.outputs:
            if readers.get((number, sent.name), []) != list(sent.readers):
                raise InputError(f"stage {number} does not send '{sent.name}' to those that read it; split again.")


def _is_same(tensor: TensorRecord | None, other: TensorRecord) -> bool:
    return tensor is not None and (tensor.type, tensor.shape) == (other.type, other.shape)


def _by_name(tensors: Iterable[T]) -> dict[str, T]:
    """Tensors by name; refused if two have the same."""
    by_name: dict[str, T] = {}
    for tensor in tensors:
        if tensor.name in by_name:
            raise InputError(f"two tensors are called '{tensor.name}'.")
        by_name[tensor.name] = tensor
    return by_name
