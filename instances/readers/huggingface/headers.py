"""Headers of files of weights: names, elements and bytes of their tensors; no weight is read, and no pickle is run.

Formats are safetensors, GGUF, and the archives of ``torch.save``, whose pickle is read as a list of instructions.
"""

from __future__ import annotations

import io
import json
import math
import os
import pickletools
import struct
import zipfile
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
    **{"F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8},
    **{"F6_E2M3": 6, "F6_E3M2": 6, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U64": 64, "U32": 32, "U16": 16, "U8": 8},
    "BOOL": 8,
}
#: Of these, plain numbers; numbers that have scales beside them; the rest may pack several in an element.
_PLAIN, _SCALED = ("F64", "F32", "F16", "BF16"), ("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ")
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
    shared: bool = False  # whether another tensor before it has the same bytes of the file
    vector: bool = False  # whether it has one axis, or none


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
    read = _READ.get(file.suffix.lower(), _torch)
    try:
        with file.open("rb") as stream:
            header = read(stream, file, file.stat().st_size)
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}).") from None
    except _DAMAGES as error:
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
    placed = list(_gguf_tensors(stream, file, tensors))
    alignment = values.get("general.alignment", _ALIGNMENT)
    begin = -(-stream.tell() // alignment) * alignment
    for tensor, offset in placed:
        if begin + offset + tensor.bytes > size:
            raise InputError(f"{file}: tensor {tensor.name} ends after the file; get the file anew.")
    return Header([tensor for tensor, _ in placed], values)


def _gguf_tensors(stream: BinaryIO, file: Path, count: int) -> Iterator[tuple[StoredTensor, int]]:
    """The tensors, each with the offset of its data after the header [bytes]."""
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
    """A number or a text of the metadata; None for a list, which is skipped."""
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


# Archives of torch.save: a pickle that names the tensors, and a file for each storage.


#: Bytes of the longest pickle, items that it may describe, and characters of the path to one.
_MOST_WORDS, _MOST_ITEMS, _MOST_LETTERS = 16 * 2**20, 200_000, 500
#: Bytes of elements of storages, and of types of numbers.
_STORAGES = {
    **{"Double": 8, "Float": 4, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2, "Char": 1, "Byte": 1},
    **{"Bool": 1, "ComplexDouble": 16, "ComplexFloat": 8, "QInt8": 1, "QUInt8": 1, "QInt32": 4, "Untyped": 1},
}
_TYPES = {
    **{"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1},
    **{"uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1, "complex64": 8, "float8_e4m3fn": 1},
    **{"float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1},
}
_PLAIN_STORAGES = ("Double", "Float", "Half", "BFloat16", "float64", "float32", "float16", "bfloat16")
_ANEW = "save its tensors alone, with safetensors.torch.save_file, or move the file elsewhere"
_MARK = object()


class _Name(NamedTuple):
    """Name of a class or function in a pickle, which is neither loaded nor called."""

    module: str
    name: str


class _Storage(NamedTuple):
    key: str  # name of its file
    kind: str  # of its elements
    elements: int


class _View(NamedTuple):
    """A tensor of a pickle: a view of a storage."""

    storage: _Storage
    kind: str
    shape: tuple[int, ...]
    end: int  # elements of the storage up to the last one that it has


class _Bounded(io.FileIO):
    """A file from which no single read returns more than a header may have."""

    def read(self, size: int | None = -1) -> Any:
        length = os.fstat(self.fileno()).st_size - self.tell() if size is None or size < 0 else size
        if length > _MOST_BYTES:
            raise ValueError
        return super().read(max(length, 0))


def _torch(stream: BinaryIO, file: Path, size: int) -> Header:
    if stream.read(4) != b"PK\3\4":
        raise InputError(
            f"{file}: this is no archive, as torch.save writes them since PyTorch 1.6; load it and {_ANEW}."
        )
    with _Bounded(str(file)) as bounded, zipfile.ZipFile(bounded) as archive:
        entries = archive.infolist()
        sizes = {entry.filename: entry.file_size for entry in entries}
        stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
        if len(sizes) < len(entries) or not stored or sum(sizes.values()) > size:
            raise InputError(f"{file}: no torch.save wrote its entries, which are compressed or overlap; get it anew.")
        words = [name for name in sizes if name.count("/") == 1 and name.endswith("/data.pkl")]
        if len(words) != 1 or sizes[words[0]] > _MOST_WORDS:
            raise InputError(f"{file}: it has no list of tensors, or too long a one; {_ANEW}.")
        described = _described(archive.read(words[0]), file)
    folder = words[0].removesuffix(".pkl")
    tensors, seen = [], set()
    for name, view in _views(described):
        storage = view.storage
        entry_size = sizes.get(f"{folder}/{storage.key}")
        if (
            entry_size is None
            or entry_size < storage.elements * _width(storage.kind)
            or view.end * _width(view.kind) > entry_size
        ):
            raise InputError(f"{file}: tensor {name} has more bytes than the file holds of it; get the file anew.")
        elements, plain = math.prod(view.shape), view.kind in _PLAIN_STORAGES
        whole = plain or view.kind.startswith("float8_e4m3") or view.kind.startswith("float8_e5m2")
        place = (storage.key, view.end, elements)
        shared, vector = place in seen, len(view.shape) < 2
        tensors.append(StoredTensor(name, elements, elements * _width(view.kind), plain, whole, shared, vector))
        seen.add(place)
    return Header(tensors)


def _width(kind: str) -> int:
    """Bytes of an element."""
    return _STORAGES[kind] if kind in _STORAGES else _TYPES[kind]


def _views(described: Any) -> Iterator[tuple[str, _View]]:
    """All tensors in nested mappings, with the keys that lead to them."""
    waiting, passed = [("", described)], 0
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, _View):
            yield path, value
        elif isinstance(value, dict | list | tuple) and not isinstance(value, _Name | _Storage):
            passed += len(value)
            if passed > _MOST_ITEMS or len(path) > _MOST_LETTERS:
                raise ValueError
            items = [*(value.items() if isinstance(value, dict) else enumerate(value))]
            waiting += [(f"{path}.{key}" if path else _text_of(key), inner) for key, inner in reversed(items)]


def _described(text: bytes, file: Path) -> Any:
    """Content of a pickle: mappings, lists, plain values and tensors; anything else is refused.

    The instructions of the pickle are interpreted here, not by Python's unpickler, so that nothing is loaded or run.
    """
    stack: list[Any] = []
    memory: dict[Any, Any] = {}
    value: Any

    def above_mark() -> list[Any]:
        at = len(stack) - 1 - next(i for i, item in enumerate(reversed(stack)) if item is _MARK)
        items = stack[at + 1 :]
        del stack[at:]
        return items

    for operation, value, _ in pickletools.genops(text):
        match operation.name:
            case "PROTO" | "FRAME" | "STOP":
                pass
            case "MARK":
                stack.append(_MARK)
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_TUPLE":
                stack.append(())
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                stack.append({"NEWTRUE": True, "NEWFALSE": False}.get(operation.name))
            case "BINUNICODE" | "SHORT_BINUNICODE" | "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT":
                stack.append(value)
            case "GLOBAL":
                stack.append(_Name(*value.split(" ")))
            case "STACK_GLOBAL":
                stack[-2:] = [_Name(*map(_text_of, stack[-2:]))]
            case "BINPUT" | "LONG_BINPUT":
                memory[value] = stack[-1]
            case "MEMOIZE":
                memory[len(memory)] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memory[value])
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                count = int(operation.name[-1])
                stack[-count:] = [tuple(stack[-count:])]
            case "TUPLE":
                stack.append(tuple(above_mark()))
            case "BINPERSID":
                _, kind, key, _, elements = stack.pop()
                stack.append(_Storage(_text_of(key), kind.name.removesuffix("Storage"), _whole(elements)))
            case "REDUCE":
                arguments = stack.pop()
                stack[-1] = _made(stack[-1], arguments, file)
            case "SETITEM":
                key, item = stack[-2:]
                del stack[-2:]
                stack[-1][_text_of(key)] = item
            case "SETITEMS":
                items = above_mark()
                stack[-1].update(zip(map(_text_of, items[::2]), items[1::2], strict=True))
            case "APPEND":
                item = stack.pop()
                stack[-1].append(item)
            case "APPENDS":
                items = above_mark()
                stack[-1].extend(items)
            case "BUILD":  # attributes of a mapping
                stack.pop()
            case other:
                raise InputError(f"{file}: it holds more than tensors (its pickle has {other}); {_ANEW}.")
    (described,) = stack
    return described


def _made(function: Any, arguments: tuple[Any, ...], file: Path) -> Any:
    """The mapping, tensor or parameter that a function named in a pickle would make; any other function is refused."""
    if not isinstance(function, _Name):
        raise ValueError
    if function == ("collections", "OrderedDict"):
        return {}
    if function.module != "torch._utils":
        raise InputError(f"{file}: it holds more than tensors ({'.'.join(map(str, function))}); {_ANEW}.")
    if function.name.startswith("_rebuild_parameter"):
        return arguments[0]
    if function.name not in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3"):
        raise InputError(f"{file}: it holds tensors of a kind that is not known ({function.name}); {_ANEW}.")
    storage, offset, shape, strides = arguments[:4]
    kind = arguments[6].name if function.name.endswith("v3") else storage.kind
    sizes = _sizes([*shape])
    reach = sum((n - 1) * _whole(step) for n, step in zip(sizes, strides, strict=True))
    return _View(storage, kind, tuple(sizes), _whole(offset) + reach + 1 if math.prod(sizes) else 0)


def _text_of(key: Any) -> str:
    """Text of a key in a pickle, which is a text or a number; any other key is refused."""
    if not isinstance(key, str | int) or len(str(key)) > _MOST_LETTERS:
        raise ValueError
    return str(key)


def _whole(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 2**48:
        raise ValueError
    return number


_READ = {".gguf": _gguf, ".safetensors": _safetensors}
_DAMAGES = (
    *(struct.error, ArithmeticError, AttributeError, EOFError, LookupError, RuntimeError, StopIteration, TypeError),
    *(ValueError, zipfile.BadZipFile),
)
