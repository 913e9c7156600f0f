"""Records as objects of JSON files: the annotated fields are the members, read strictly and written as they are read.

A field is a float, an int, a str, a bool, a `Literal`, one of these or None, a tuple, a mapping from names, a record
itself or one of several that require other members, or an array, ``Annotated[FloatArray, Floats("T", "n")]``: nested
lists, null for infinity, as many items as the first array with the same letter, or the caller, says. Other types state
in a `By` note how they are read and written. A field with a default may be missing, and is not written where it equals
the default. ::

    class Machines(NamedTuple):
        kinds: tuple[str, ...]
        rate: Annotated[FloatArray, Floats("T", "T")]
        memory: Limit = math.inf

    machines = read(read_json("m.json"), Machines, T=2)

Where ``rate`` has a row that is too short, this says ``m.json, rate[1]: there are 1 items for T = 2.``
"""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin

import numpy as np

from instances.errors import InputError
from instances.json_files import Value, finite_or_none

Record = TypeVar("Record")


class By(NamedTuple):
    """How a field is read and written, where its type does not say it."""

    read: Callable[[Value], Any]
    write: Callable[[Any], Any] = lambda item: item


class Named(NamedTuple):
    """Name of the member, where Python cannot have it as the name of a field."""

    name: str


class Floats:
    """An array of numbers, one letter for the size of each axis; infinite ones are null in files."""

    dtype: type = np.float64

    def __init__(self, *axes: str) -> None:
        self.axes = axes


class Ints(Floats):
    """An array of whole numbers, one letter for the size of each axis."""

    dtype = np.int64


#: A number that may be infinite, which files have as null.
Limit = Annotated[float, By(Value.limit, lambda number: finite_or_none(number + 0.0))]


class _Coder(NamedTuple):
    """Reader and writer of items of one type; the reader takes the sizes of axes by letter, and adds new ones."""

    read: Callable[[Value, dict[str, int]], Any]
    write: Callable[[Any], Any]


def read(value: Value, kind: type[Record], **sizes: int) -> Record:
    """The record of a JSON object; checks are those of the types of its fields and of its constructor.

    Parameters
    ----------
    value : Value
    kind : type
        A dataclass, a NamedTuple, or a type of its fields, such as a tuple of records.
    **sizes : int
        Sizes of axes that are known before, by their letters.

    Raises
    ------
    InputError
        If a member is missing, unknown or of the wrong kind, sizes differ, or the record refuses its fields; the
        message names the place.
    """
    result: Record = _coder(kind).read(value, dict(sizes))
    return result


def written(record: Any, kind: type | None = None) -> dict[str, Any]:
    """JSON members of a record, or of its part of type `kind`, from which `read` makes an equal record."""
    members: dict[str, Any] = _coder(kind or type(record)).write(record)
    return members


def _plain(read: Callable[[Value], Any], write: Callable[[Any], Any] = lambda item: item) -> _Coder:
    return _Coder(lambda value, _: read(value), write)


#: Readers and writers by types, to which others are added; lists of plain items, which may be long, are read at once.
_CODERS: dict[Any, _Coder] = {
    float: _plain(Value.number, lambda number: float(number) + 0.0),  # zero has one sign
    int: _plain(Value.whole, int),
    str: _plain(Value.text),
    bool: _plain(Value.truth),
    tuple[float, ...]: _plain(
        lambda value: tuple(value.numbers()), lambda items: [float(item) + 0.0 for item in items]
    ),
    tuple[int, ...]: _plain(lambda value: tuple(value.whole_numbers()), lambda items: [*map(int, items)]),
    tuple[str, ...]: _plain(lambda value: tuple(value.texts()), list),
}


def _coder(kind: Any) -> _Coder:
    """Reader and writer of items of this type, made once for each type."""
    if kind not in _CODERS:
        _CODERS[kind] = _made(kind)
    return _CODERS[kind]


def _made(kind: Any) -> _Coder:
    """Reader and writer of items of a type, from those of its parts."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated(parts[0], kind.__metadata__)
    if origin is Literal:
        return _plain(lambda value: _choice(value, parts))
    if origin in (UnionType, typing.Union):
        kinds = [part for part in parts if part is not NoneType]
        inner = _coder(kinds[0]) if len(kinds) == 1 else _one_of(kinds)
        return _Coder(
            lambda value, sizes: None if value.data is None else inner.read(value, sizes),
            lambda item: None if item is None else inner.write(item),
        )
    if origin is tuple:
        return _sequence(_coder(parts[0])) if parts[-1] is Ellipsis else _row([_coder(part) for part in parts])
    if origin is not None and issubclass(origin, Mapping):
        inner = _coder(parts[1])
        return _Coder(
            lambda value, sizes: {name: inner.read(item, sizes) for name, item in value.open_members(()).items()},
            lambda items: {name: inner.write(item) for name, item in items.items()},
        )
    return _record(kind)


def _annotated(kind: Any, metadata: tuple[Any, ...]) -> _Coder:
    """Reader and writer of a type with metadata, such as a note on the axes of an array."""
    for note in metadata:
        if isinstance(note, By):
            return _plain(note.read, note.write)
        if isinstance(note, Floats):
            return _array(note)
    return _coder(kind)


def _array(note: Floats) -> _Coder:
    """Reader and writer of an array with one axis for each letter, even where an axis is empty."""

    def array_of(value: Value, sizes: dict[str, int]) -> Any:
        items = _nested(value, note.axes, sizes, note.dtype)
        return np.array(items, note.dtype).reshape([sizes.get(axis, 0) for axis in note.axes])

    return _Coder(array_of, lambda array: _finite((array + note.dtype(0)).tolist()))


def _sequence(inner: _Coder) -> _Coder:
    """Reader and writer of a tuple of any length, whose items have one type."""
    return _Coder(
        lambda value, sizes: tuple([inner.read(item, sizes) for item in value.items()]),
        lambda items: [inner.write(item) for item in items],
    )


def _row(inner: list[_Coder]) -> _Coder:
    """Reader and writer of a tuple of fixed length, whose items have types of their own."""

    def items_of(value: Value, sizes: dict[str, int]) -> tuple[Any, ...]:
        items = value.items()
        if len(items) != len(inner):
            value.fail(f"there are {len(items)} items; give {len(inner)}.")
        return tuple([coder.read(item, sizes) for coder, item in zip(inner, items, strict=True)])

    return _Coder(items_of, lambda items: [coder.write(item) for coder, item in zip(inner, items, strict=True)])


def _record(kind: Any) -> _Coder:
    """Reader and writer of a dataclass or a NamedTuple."""
    hints = typing.get_type_hints(kind, include_extras=True)
    names, defaults = _fields_of(kind)
    members = {name: _member(name, hints[name]) for name in names}
    coders = {name: _coder(hints[name]) for name in names}
    required = tuple(members[name] for name in names if name not in defaults)
    optional = tuple(members[name] for name in names if name in defaults)

    def record_of(value: Value, sizes: dict[str, int]) -> Any:
        stated = value.members(required, optional)
        items = {name: coders[name].read(stated[member], sizes) for name, member in members.items() if member in stated}
        try:
            return kind(**items)
        except InputError as error:
            value.fail(str(error))

    def members_of(record: Any) -> dict[str, Any]:
        items = {name: getattr(record, name) for name in names}
        return {
            members[name]: coders[name].write(item)
            for name, item in items.items()
            if name not in defaults or isinstance(item, np.ndarray) or item != defaults[name]
        }

    return _Coder(record_of, members_of)


def _fields_of(kind: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Names of the fields of a record, and the defaults of those that have some."""
    if is_dataclass(kind):
        defaults = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
        return tuple(field.name for field in fields(kind) if field.init), defaults
    return kind._fields, kind._field_defaults


def _one_of(kinds: list[Any]) -> _Coder:
    """Reader and writer of one of several records: the first whose fields without defaults are all present."""
    fields_of = {kind: _fields_of(kind) for kind in kinds}
    required = {kind: {*names} - {*defaults} for kind, (names, defaults) in fields_of.items()}

    def record_of(value: Value, sizes: dict[str, int]) -> Any:
        stated = value.open_members(()).keys()
        kind = next((kind for kind in kinds if required[kind] <= stated), kinds[0])  # the first says what is missing
        return _coder(kind).read(value, sizes)

    return _Coder(record_of, lambda record: _coder(type(record)).write(record))


def _member(name: str, hint: Any) -> str:
    """Name of the JSON member of a record field: that of its `Named` note, else the field's own name."""
    return next((note.name for note in getattr(hint, "__metadata__", ()) if isinstance(note, Named)), name)


def _choice(value: Value, choices: tuple[Any, ...]) -> Any:
    if not any(value.data == choice and type(value.data) is type(choice) for choice in choices):
        value.expected(f"one of {', '.join(map(repr, choices))}")
    return value.data


def _nested(value: Value, axes: tuple[str, ...], sizes: dict[str, int], dtype: type) -> list[Any]:
    """The numbers of an array as lists, of one size along each axis."""
    axis, *inner = axes
    if not isinstance(value.data, list):
        value.expected("a list […]")
    if len(value.data) != sizes.setdefault(axis, len(value.data)):
        value.fail(f"there are {len(value.data)} items for {axis} = {sizes[axis]}.")
    if inner:
        return [_nested(item, tuple(inner), sizes, dtype) for item in value.items()]
    if dtype is np.int64:
        return value.whole_numbers()
    return [item.limit() for item in value.items()] if None in value.data else value.numbers()


def _finite(item: Any) -> Any:
    """Nested lists of numbers with null in place of infinity."""
    return [*map(_finite, item)] if isinstance(item, list) else None if item == math.inf else item
