"""Weights that a model keeps in other files: a check of their paths, and copies for a model that is written again."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from onnx import GraphProto, ModelProto, TensorProto

from instances.errors import InputError
from instances.json_files import check_readable
from instances.readers.onnx.live_nodes import tensor_type
from instances.readers.onnx.model_file import all_graphs

__all__ = ["check_weights", "copy_weights", "weight_files"]

# Files are mapped into memory by pages [bytes].
_PAGE = 4096
_PIECE = 2**20
_NUMBER = re.compile(r"[0-9]{1,18}")


def weight_files(model: ModelProto) -> set[str]:
    """The files that a model names for its weights, as it names them."""
    return {_entries(tensor).get("location", "") for tensor in _external_tensors(model)}


def check_weights(model: ModelProto, folder: str | Path) -> None:
    """Refuse a model whose weights are not in `folder`, as `copy_weights` does, or exceed their files."""
    taken: Counter[Path] = Counter()
    for path, _, length in {_source(tensor, Path(folder)) for tensor in _external_tensors(model)}:
        taken[path] += length
    for path, length in taken.items():
        if length > path.stat().st_size:  # else copies of a small file would fill the disk
            raise InputError(f"different weights overlap in '{path.name}'; give each a place of its own.")


def copy_weights(model: ModelProto, folder: str | Path, target: Path) -> bool:
    """Copy the weights of a model that lie in other files into one file beside it, in place.

    Parameters
    ----------
    model : ModelProto
        Names `target` for its weights afterwards.
    folder : str or path
        Where the files lie that it names now.
    target : Path
        The file to write; only if there is something to copy.

    Returns
    -------
    bool
        Whether there was.

    Raises
    ------
    InputError
        If a file is not in `folder`, or does not hold the weight.
    """
    tensors = list(_external_tensors(model))
    if not tensors:
        return False
    places: dict[tuple[Path, int, int], int] = {}
    with target.open("xb") as out:
        for tensor in tensors:
            source = _source(tensor, Path(folder))
            if source not in places:
                out.write(bytes(-out.tell() % _PAGE))
                places[source] = out.tell()
                _copy(*source, out, tensor)
            del tensor.external_data[:]
            for key, value in (("location", target.name), ("offset", places[source]), ("length", source[2])):
                tensor.external_data.add(key=key, value=str(value))
    return True


def _source(tensor: TensorProto, folder: Path) -> tuple[Path, int, int]:
    """File, offset and length of a weight."""
    entries, where = _entries(tensor), f"weight '{tensor.name}'"
    location = entries.get("location", "")
    parts = PurePosixPath(location).parts
    if not parts or location.startswith("/") or ".." in parts or any(letter in location for letter in "\\:\0"):
        raise InputError(f"{where} is said to lie in '{location}'; weights must lie beside the model.")
    path = folder / location
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise InputError(f"{where}: '{location}' is a link to outside of the model's folder; copy the file into it.")
    check_readable(path)
    kind = tensor_type(tensor.data_type, tensor.dims)
    numbers = [entries.get("offset", "0"), entries.get("length", "")]
    if kind is None or not _NUMBER.fullmatch(numbers[0]) or not _NUMBER.fullmatch(numbers[1] or "0"):
        raise InputError(f"{where} has no size or place; the model may be damaged.")
    offset, length, size = int(numbers[0]), int(numbers[1] or kind.bytes), path.stat().st_size
    if length != kind.bytes or offset + length > size:
        raise InputError(
            f"{where} of {kind.bytes} bytes is not in '{location}' ({length} bytes from {offset} on, of {size})."
        )
    return path, offset, length


def _copy(path: Path, offset: int, length: int, out: BinaryIO, tensor: TensorProto) -> None:
    with path.open("rb") as file:
        file.seek(offset)
        while length:
            piece = file.read(min(length, _PIECE))
            if not piece:
                raise InputError(f"weight '{tensor.name}': '{path.name}' has become shorter.")
            out.write(piece)
            length -= len(piece)


def _entries(tensor: TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _external_tensors(model: ModelProto) -> Iterator[TensorProto]:
    for graph in all_graphs(model.graph):
        yield from (tensor for tensor in _tensors(graph) if tensor.data_location == TensorProto.EXTERNAL)


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
