"""Headers of files of weights, safetensors and GGUF: names, elements and bytes of their tensors; no weight is read."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from instances.errors import InputError
from instances.json_files import check_readable

#: Bytes of the largest header that is read, and tensors of the longest list.
_MOST_BYTES, _MOST_TENSORS = 100 * 2**20, 1_000_000
#: Widths of the types of safetensors in bits.
_BITS = {
    **{"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4, "C64": 64},
    **{"F6_E2M3": 6, "F6_E3M2": 6, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U64": 64, "U32": 32, "U16": 16, "U8": 8},
    "BOOL": 8,
}
#: Of these, plain numbers; numbers that have scales beside them; the rest may pack several in an element.
_PLAIN, _SCALED = ("F64", "F32", "F16", "BF16"), ("F8_E4M3", "F8_E5M2")
#: Elements and bytes of a block of each type of GGUF, by its number (ggml.h, also of types that it had before).
_BLOCKS = {
    **{0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36)},
    **{10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292)},
    **{16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82)},
    **{23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2)},
    **{31: (32, 18), 32: (32, 18), 33: (32, 18), 34: (256, 54), 35: (256, 66), 36: (32, 18), 37: (32, 18)},
    **{38: (32, 18), 39: (32, 17), 40: (64, 36), 41: (128, 18)},
}
_FLOATS = (0, 1, 28, 30)
#: Bytes and code of a value of each type in the metadata of GGUF; 8 is a text, 9 a list.
_VALUES = {
    **{0: (1, "<B"), 1: (1, "<b"), 2: (2, "<H"), 3: (2, "<h"), 4: (4, "<I"), 5: (4, "<i"), 6: (4, "<f")},
    **{7: (1, "<?"), 10: (8, "<Q"), 11: (8, "<q"), 12: (8, "<d")},
}
#: Where the tensors of a GGUF file begin: at a multiple of this, unless it says another one.
_ALIGNMENT = 32


class StoredTensor(NamedTuple):
    """A tensor of a file of weights."""

    name: str
    elements: int
    bytes: int
    plain: bool  # whether its elements are floating-point numbers, one after the other
    whole: bool = True  # whether it has at least an element for each parameter


class Header(NamedTuple):
    """Header of a file of weights."""

    tensors: list[StoredTensor]
    values: Mapping[str, Any] = {}  # numbers and texts of the metadata of GGUF


def read_header(file: Path) -> Header:
    """The header of a file of weights.

    Raises
    ------
    InputError
        If it is damaged or too large, or names a tensor twice.
    """
    check_readable(file)
    read = _gguf if file.suffix == ".gguf" else _safetensors
    try:
        with file.open("rb") as stream:
            header = read(stream, file, file.stat().st_size)
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}).") from None
    except (struct.error, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file}: its header is damaged; get the file anew, or move it elsewhere.") from None
    names = set()
    for tensor in header.tensors:
        if tensor.name in names:
            raise InputError(f"{file}: tensor {tensor.name} is there twice; get the file anew, or move it elsewhere.")
        names.add(tensor.name)
    return header


def _safetensors(stream: BinaryIO, file: Path, size: int) -> Header:
    (length,) = struct.unpack("<Q", stream.read(8))
    if length > min(_MOST_BYTES, size - 8):
        raise InputError(f"{file}: its header would have {length} bytes; get the file anew, or move it elsewhere.")
    text = stream.read(length)
    entries: list[tuple[str, Any]] = json.loads(text, object_pairs_hook=list)
    if not text.lstrip().startswith(b"{"):
        raise ValueError
    tensors = []
    for name, pairs in entries:
        if name == "__metadata__":
            continue
        entry = dict(pairs)
        begin, end = entry["data_offsets"]
        kind, elements = entry["dtype"], math.prod(_sizes(entry["shape"]))
        if kind not in _BITS:
            raise InputError(f"{file}: tensor {name} has the unknown type {kind}; move the file elsewhere.")
        if not 0 <= begin <= end <= size - 8 - length or 8 * (end - begin) != elements * _BITS[kind]:
            raise InputError(f"{file}: tensor {name} has other bytes than its shape; get the file anew.")
        tensors.append(StoredTensor(name, elements, end - begin, kind in _PLAIN, kind in (*_PLAIN, *_SCALED)))
    return Header(tensors)


def _sizes(shape: object) -> list[int]:
    if not isinstance(shape, list) or len(shape) > 8 or not all(type(n) is int and 0 <= n < 2**48 for n in shape):
        raise ValueError
    return shape


def _gguf(stream: BinaryIO, file: Path, size: int) -> Header:
    magic, version, tensors, count = struct.unpack("<4sIQQ", stream.read(24))
    if magic != b"GGUF" or version not in (2, 3) or max(tensors, count) > _MOST_TENSORS:
        raise InputError(f"{file}: this is no GGUF file of version 2 or 3; get the file anew, or move it elsewhere.")
    values = {}
    for _ in range(count):
        name = _text(stream)
        values[name] = _value(stream, _number(stream, "<I"))
    found = list(_gguf_tensors(stream, file, tensors))
    alignment = values.get("general.alignment", _ALIGNMENT)
    begin = -(-stream.tell() // alignment) * alignment
    for tensor, offset in found:
        if begin + offset + tensor.bytes > size:
            raise InputError(f"{file}: tensor {tensor.name} ends after the file; get the file anew.")
    return Header([tensor for tensor, _ in found], values)


def _gguf_tensors(stream: BinaryIO, file: Path, count: int) -> Iterator[tuple[StoredTensor, int]]:
    """The tensors, each with its place behind the header [bytes]."""
    for _ in range(count):
        name, axes = _text(stream), _number(stream, "<I")
        if axes > 8:
            raise ValueError
        elements = math.prod(_sizes([_number(stream, "<Q") for _ in range(axes)]))
        kind, offset = _number(stream, "<I"), _number(stream, "<Q")
        if kind not in _BLOCKS:
            raise InputError(f"{file}: tensor {name} has the unknown type {kind}; move the file elsewhere.")
        block, width = _BLOCKS[kind]
        yield StoredTensor(name, elements, -(-elements // block) * width, kind in _FLOATS), offset


def _number(stream: BinaryIO, form: str) -> Any:
    return struct.unpack(form, stream.read(struct.calcsize(form)))[0]


def _text(stream: BinaryIO) -> str:
    length = _number(stream, "<Q")
    if length > _MOST_BYTES or stream.tell() > _MOST_BYTES:
        raise ValueError
    text = stream.read(length)
    if len(text) < length:
        raise ValueError
    return text.decode()


def _value(stream: BinaryIO, kind: int) -> Any:
    """A number or a text of the metadata; None for a list, which is passed over."""
    if kind == 8:
        return _text(stream)
    if kind != 9:
        return _number(stream, _VALUES[kind][1])
    inner, count = _number(stream, "<I"), _number(stream, "<Q")
    if inner in _VALUES:
        stream.seek(_VALUES[inner][0] * min(count, _MOST_BYTES), 1)
    elif inner == 8:
        for _ in range(min(count, 10 * _MOST_TENSORS)):
            _text(stream)
    else:
        raise ValueError
    return None
