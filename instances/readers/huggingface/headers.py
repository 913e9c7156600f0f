"""Headers of files of weights, safetensors and GGUF: names, elements and bytes of their tensors, no weight is read."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from instances.errors import InputError
from instances.json_files import check_readable

__all__ = ["StoredTensor", "read_headers"]

#: Bytes of the largest header that is read, and tensors of the longest list.
_MOST_BYTES, _MOST_TENSORS = 100 * 2**20, 1_000_000
#: Widths of elements in bits; types that pack several elements, or scales, are missing.
_BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16}
_PACKED = ("I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F4")
#: Elements and bytes of a block of each type of GGUF, by its number (ggml-common.h).
_BLOCKS = {
    **{0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36)},
    **{10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292)},
    **{16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82)},
    **{23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2)},
    **{34: (256, 54), 35: (256, 66), 39: (32, 17)},
}
#: Bytes of a value of each type in the metadata of GGUF; 8 is a text, 9 a list.
_VALUES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


class StoredTensor(NamedTuple):
    """A tensor of a file of weights."""

    name: str
    elements: int
    bytes: int
    plain: bool  # whether its elements are floating-point numbers, one after the other


def read_headers(file: Path) -> list[StoredTensor]:
    """The tensors of a file of weights.

    Raises
    ------
    InputError
        If its header is damaged or too large.
    """
    check_readable(file)
    read = _gguf if file.suffix == ".gguf" else _safetensors
    try:
        with file.open("rb") as stream:
            return read(stream, file, file.stat().st_size)
    except (struct.error, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file}: its header is damaged; get the file anew, or move it elsewhere.") from None


def _safetensors(stream: BinaryIO, file: Path, size: int) -> list[StoredTensor]:
    (length,) = struct.unpack("<Q", stream.read(8))
    if length > min(_MOST_BYTES, size - 8):
        raise InputError(f"{file}: its header would have {length} bytes; get the file anew, or move it elsewhere.")
    header = json.loads(stream.read(length))
    tensors = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        kind, elements = entry["dtype"], math.prod(_sizes(entry["shape"]))
        if not 0 <= begin <= end <= size - 8 - length or (
            kind in _BITS and 8 * (end - begin) != elements * _BITS[kind]
        ):
            raise InputError(f"{file}: tensor {name} has other bytes than its shape; get the file anew.")
        if kind not in _BITS and kind not in _PACKED:
            raise InputError(f"{file}: tensor {name} has the unknown type {kind}; move the file elsewhere.")
        tensors.append(StoredTensor(name, elements, end - begin, kind in _BITS))
    return tensors


def _sizes(shape: object) -> list[int]:
    if not isinstance(shape, list) or len(shape) > 8 or not all(type(n) is int and 0 <= n < 2**48 for n in shape):
        raise ValueError
    return shape


def _gguf(stream: BinaryIO, file: Path, size: int) -> list[StoredTensor]:
    magic, version, tensors, values = struct.unpack("<4sIQQ", stream.read(24))
    if magic != b"GGUF" or version not in (2, 3) or max(tensors, values) > _MOST_TENSORS:
        raise InputError(f"{file}: this is no GGUF file of version 2 or 3; get the file anew, or move it elsewhere.")
    for _ in range(values):
        _text(stream)
        _skip(stream, _number(stream, "<I"))
    return list(_gguf_tensors(stream, file, tensors, size))


def _gguf_tensors(stream: BinaryIO, file: Path, count: int, size: int) -> Iterator[StoredTensor]:
    for _ in range(count):
        name, axes = _text(stream), _number(stream, "<I")
        if axes > 8:
            raise ValueError
        elements = math.prod(_sizes([_number(stream, "<Q") for _ in range(axes)]))
        kind, offset = _number(stream, "<I"), _number(stream, "<Q")
        if kind not in _BLOCKS:
            raise InputError(f"{file}: tensor {name} has the unknown type {kind}; move the file elsewhere.")
        block, width = _BLOCKS[kind]
        stored_bytes = -(-elements // block) * width
        if offset + stored_bytes > size:
            raise InputError(f"{file}: tensor {name} ends after the file; get the file anew.")
        yield StoredTensor(name, elements, stored_bytes, kind in (0, 1, 28, 30))


def _number(stream: BinaryIO, form: str) -> int:
    return int(struct.unpack(form, stream.read(struct.calcsize(form)))[0])


def _text(stream: BinaryIO) -> str:
    length = _number(stream, "<Q")
    if length > _MOST_BYTES or stream.tell() > _MOST_BYTES:
        raise ValueError
    text = stream.read(length)
    if len(text) < length:
        raise ValueError
    return text.decode()


def _skip(stream: BinaryIO, kind: int) -> None:
    if kind == 8:
        _text(stream)
    elif kind == 9:
        inner, count = _number(stream, "<I"), _number(stream, "<Q")
        if inner in _VALUES:
            stream.seek(_VALUES[inner] * min(count, _MOST_BYTES), 1)
        elif inner == 8:
            for _ in range(min(count, 10 * _MOST_TENSORS)):
                _text(stream)
        else:
            raise ValueError
    else:
        stream.seek(_VALUES[kind], 1)
