"""Manifest of a folder of stages: its files, their hashes, and what they pass on."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from instances.errors import InputError
from instances.json_files import Value, check_readable, missing, read_json

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


class _Members:
    """Base of the records of the manifest: fields are members; those of a `file` are inlined."""

    def document(self) -> dict[str, Any]:
        """Members of the record in the manifest."""
        members: dict[str, Any] = {}
        for name, value in vars(self).items():
            document = _document(value)
            members |= document if name == "file" and isinstance(document, dict) else {name: document}
        return members


def _document(value: Any) -> Any:
    """The value of a field as JSON."""
    if isinstance(value, tuple):
        return [_document(item) for item in value]
    return value.document() if isinstance(value, _Members) else value


@dataclass(frozen=True)
class FileRecord(_Members):
    """A file of the folder."""

    file: str
    sha256: str


@dataclass(frozen=True)
class TensorRecord(_Members):
    """A tensor between stages, or an input or output of the whole model."""

    name: str
    type: str  # one of `ELEMENTS`
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size [bytes]."""
        return math.prod(self.shape) * ELEMENTS[self.type][1]

    def document(self) -> dict[str, Any]:
        """Members of the record in the manifest."""
        return {**super().document(), "bytes": self.bytes}


@dataclass(frozen=True)
class Received(_Members):
    """Input of a stage."""

    tensor: TensorRecord
    sender: int | None  # the stage that it comes from; None for an input of the whole model

    def document(self) -> dict[str, Any]:
        """Members of the record in the manifest."""
        return {**self.tensor.document(), "from": self.sender}


@dataclass(frozen=True)
class Sent(_Members):
    """Output of a stage."""

    tensor: TensorRecord
    readers: tuple[int, ...]  # the stages that read it

    def document(self) -> dict[str, Any]:
        """Members of the record in the manifest."""
        return {**self.tensor.document(), "to": list(self.readers)}


@dataclass(frozen=True)
class StageRecord(_Members):
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
        """Members of the record in the manifest."""
        members = super().document()
        if self.device is None:
            del members["device"]
        return members


@dataclass(frozen=True)
class Samples(_Members):
    """Recorded outputs of the whole model for inputs generated from a seed."""

    file: FileRecord
    count: int
    seed: int


@dataclass(frozen=True)
class Manifest(_Members):
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
        return {"format": STAGES_FORMAT, **super().document()}

    def files(self) -> Iterator[FileRecord]:
        """All files of the folder except the manifest."""
        yield self.certificate
        if self.samples is not None:
            yield self.samples.file
        for stage in self.stages:
            yield stage.file
            if stage.weights is not None:
                yield stage.weights


# Read a folder of stages: ``manifest.json`` and the files that it names.
#
# A folder may be untrusted. Every file that is named lies in it, by a plain name, with the hash that the manifest
# states; every tensor has a size; a stage reads from earlier ones alone.


#: The file of a folder that says what is in it.
MANIFEST = "manifest.json"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST_STAGES = 256
_MOST_SAMPLES = 16
_MOST_BYTES = 2**48
_PIECE = 2**20
_FILE = ("file", "sha256")

T = TypeVar("T", TensorRecord, Received, Sent)


def check_new_folder(folder: Path) -> None:
    """Refuse a folder in which stages cannot be written.

    Raises
    ------
    InputError
        If it is there and holds something, or is no folder.
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
    if not folder.is_dir():
        raise missing(folder, "folder", "it is made by mtpp split")
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
        If it is missing or no regular file.
    """
    check_readable(path)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return FileRecord(path.name, digest.hexdigest())


def _manifest(document: Value) -> Manifest:
    document.check_format(STAGES_FORMAT)
    hashes = ("model_sha256", "graph_hash", "question_hash")
    names = ("model", "k", "bandwidth", "bottleneck", "certificate", "samples", "inputs", "outputs", "stages")
    fields = document.members(("format", *hashes, *names))
    inputs = _by_name(map(_tensor, fields["inputs"].items()), fields["inputs"])
    items = fields["stages"].items()
    if not 1 <= len(items) <= _MOST_STAGES:
        fields["stages"].fail(f"there are {len(items)} stages; a folder has 1 to {_MOST_STAGES}.")
    stages: list[StageRecord] = []
    senders: list[dict[str, TensorRecord]] = []  # by each stage so far
    for item in items:
        stages.append(_stage(item, senders, inputs))
        senders.append({sent.tensor.name: sent.tensor for sent in stages[-1].outputs})
    produced = {name: tensor for tensors in (*senders, inputs) for name, tensor in tensors.items()}
    outputs = _by_name(map(_tensor, fields["outputs"].items()), fields["outputs"])
    for name, tensor in outputs.items():
        if produced.get(name) != tensor:
            fields["outputs"].fail(f"no stage gives '{name}' with this type and shape.")
    _check_readers(stages, fields["stages"])
    manifest = Manifest(
        model=fields["model"].text(),
        model_sha256=fields["model_sha256"].text(),
        graph_hash=fields["graph_hash"].text(),
        question_hash=fields["question_hash"].text(),
        k=fields["k"].whole(),
        bandwidth=fields["bandwidth"].optional_number(),
        bottleneck=fields["bottleneck"].number(),
        certificate=_file(fields["certificate"], _FILE),
        inputs=tuple(inputs.values()),
        outputs=tuple(outputs.values()),
        samples=None if fields["samples"].data is None else _samples(fields["samples"]),
        stages=tuple(stages),
    )
    files = [MANIFEST, *(record.file for record in manifest.files())]
    if len(set(files)) < len(files):
        document.fail("two things are in one file; split again.")
    return manifest


def _stage(
    item: Value, senders: Sequence[Mapping[str, TensorRecord]], inputs: Mapping[str, TensorRecord]
) -> StageRecord:
    names = (*_FILE, "block", "weights", "nodes", "inputs", "outputs", "time", "work", "parameter_bytes", "peak_bytes")
    fields = item.members(names, ("device",))
    received = _by_name((_received(field, senders, inputs) for field in fields["inputs"].items()), fields["inputs"])
    sent = _by_name(map(_sent, fields["outputs"].items()), fields["outputs"])
    if not sent:
        fields["outputs"].fail("the stage gives nothing.")
    numbers = {name: fields[name].number() for name in names[-4:]}
    for name, number in numbers.items():
        if number < 0:
            fields[name].fail("the number is negative.")
    return StageRecord(
        block=fields["block"].whole(),
        file=_file(item, names, ("device",)),
        weights=None if fields["weights"].data is None else _file(fields["weights"], _FILE),
        nodes=fields["nodes"].whole(),
        inputs=tuple(received.values()),
        outputs=tuple(sent.values()),
        device=fields["device"].text() if "device" in fields else None,
        **numbers,
    )


def _received(
    field: Value, senders: Sequence[Mapping[str, TensorRecord]], inputs: Mapping[str, TensorRecord]
) -> Received:
    tensor, sender = _tensor(field, "from"), field.open_members(("from",))["from"]
    number = None if sender.data is None else sender.whole()
    if number is not None and not 0 <= number < len(senders):
        sender.fail(f"stage {len(senders)} reads from stage {number}, which is not before it; that is a cycle.")
    source = inputs if number is None else senders[number]
    if source.get(tensor.name) != tensor:
        who = "the model has no input" if number is None else f"stage {number} gives no"
        field.fail(f"{who} '{tensor.name}' with this type and shape.")
    return Received(tensor, number)


def _sent(field: Value) -> Sent:
    return Sent(_tensor(field, "to"), tuple(field.open_members(("to",))["to"].whole_numbers()))


def _check_readers(stages: Sequence[StageRecord], place: Value) -> None:
    """Refuse a manifest in which senders and receivers contradict each other."""
    readers: dict[tuple[int | None, str], list[int]] = {}
    for number, stage in enumerate(stages):
        for received in stage.inputs:
            readers.setdefault((received.sender, received.tensor.name), []).append(number)
    for number, stage in enumerate(stages):
        for sent in stage.outputs:
            if readers.get((number, sent.tensor.name), []) != list(sent.readers):
                place.fail(f"stage {number} does not send '{sent.tensor.name}' to those that read it; split again.")


def _tensor(item: Value, *also: str) -> TensorRecord:
    fields = item.members(("name", "type", "shape", "bytes", *also))
    kind, shape = fields["type"].one_of(ELEMENTS), fields["shape"].whole_numbers()
    if min(shape, default=0) < 0 or math.prod(shape) > _MOST_BYTES:
        fields["shape"].fail("this is no size of a tensor.")
    tensor = TensorRecord(fields["name"].text(), kind, tuple(shape))
    if fields["bytes"].whole() != tensor.bytes:
        fields["bytes"].fail(f"a tensor of this shape has {tensor.bytes} bytes.")
    return tensor


def _samples(item: Value) -> Samples:
    fields = item.members((*_FILE, "count", "seed"))
    count, seed = fields["count"].whole(), fields["seed"].whole()
    if not 1 <= count <= _MOST_SAMPLES or seed < 0:
        item.fail(f"there are 1 to {_MOST_SAMPLES} samples, and no negative seed.")
    return Samples(_file(item, (*_FILE, "count", "seed")), count, seed)


def _file(item: Value, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> FileRecord:
    fields = item.members(required, optional)
    name = fields["file"].text()
    if not _NAME.fullmatch(name) or ".." in name:
        fields["file"].fail(f"'{name}' is no plain name of a file in this folder.")
    return FileRecord(name, fields["sha256"].text())


def _by_name(records: Iterable[T], place: Value) -> dict[str, T]:
    """Records by the name of their tensor; refused if two have the same."""
    by_name: dict[str, T] = {}
    for record in records:
        name = record.name if isinstance(record, TensorRecord) else record.tensor.name
        if name in by_name:
            place.fail(f"two tensors are called '{name}'.")
        by_name[name] = record
    return by_name
