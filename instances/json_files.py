"""Strict JSON files: every error names the file and the place, and a file is written as a whole or not at all."""

from __future__ import annotations

import json
import math
import os
import secrets
import stat
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NoReturn

from instances.errors import InputError, WordError, nearest, one_of

ANSWER_FORMAT = "mtpp-answer/1"
CHAIN_FORMAT = "mtpp-chain/1"
CLUSTER_FORMAT = "mtpp-cluster/1"
CONSTRAINTS_FORMAT = "mtpp-constraints/1"
GRAPH_FORMAT = "mtpp-graph/1"

#: Bytes of the largest text that is read; what is made of it takes many times as much.
LARGEST_TEXT = 2**28

#: How pointers of Git LFS begin, and bytes that they have at most.
_POINTER, _LARGEST_POINTER = b"version https://git-lfs", 1024

_SHOWN = 40
# Files whose names are compared with that of one that is missing.
_MOST_BESIDE = 1000
_ENCODER = json.JSONEncoder(ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Value:
    """JSON value with the name of its file and its place there, such as ``nodes[3].work``."""

    data: Any
    file: str
    path: str = ""

    def fail(self, problem: str, error: type[InputError] = InputError) -> NoReturn:
        """Raise an `InputError`, or the subclass `error`, that names file and place."""
        raise error(f"{self.file}{', ' if self.path else ''}{self.path}: {problem}")

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Context that adds file and place to an `InputError` that does not name the file."""
        try:
            yield
        except InputError as error:
            if str(error).startswith(f"{self.file}"):
                raise
            self.fail(str(error))

    def members(self, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Value]:
        """Members of an object; refused unless all `required` are present, and all others are `optional`."""
        values = self.open_members(required)
        fields = (*required, *optional)
        for name in values:
            if name not in fields:
                listed = f"known fields are {', '.join(fields)}"
                self.fail(f"unknown field '{name}'{nearest(fields, name, listed)}")
        return values

    def open_members(self, required: Sequence[str]) -> dict[str, Value]:
        """Members of an object that may hold more than the `required` ones."""
        if not isinstance(self.data, dict):
            self.expected("an object {…}")
        for name in required:
            if name not in self.data:
                self.fail(f"missing field '{name}'.")
        prefix = f"{self.path}." if self.path else ""
        return {name: Value(data, self.file, prefix + name) for name, data in self.data.items()}

    def check_format(self, *expected: str) -> str:
        """The member `format` of an object; refused if it is none of the expected ones."""
        stated, formats = self.open_members(()).get("format"), " or ".join(map(repr, expected))
        if stated is None:
            self.fail(f"missing field 'format'; expected {formats}.")
        if stated.text() in expected:
            return stated.text()
        answer = ", which verify, explain, report and export take" if stated.data == ANSWER_FORMAT else ""
        stated.fail(f"this is {stated.data!r}{answer}; expected {formats}.")

    def content(self, *formats: str) -> Value:
        """The object of a file without its member `format`, which is refused if it is none of these."""
        self.check_format(*formats)
        return Value({name: data for name, data in self.data.items() if name != "format"}, self.file)

    def items(self) -> list[Value]:
        """The items of the value, a list; an `InputError` if it is none."""
        if not isinstance(self.data, list):
            self.expected("a list […]")
        return [Value(item, self.file, f"{self.path}[{i}]") for i, item in enumerate(self.data)]

    def number(self) -> float:
        """The value as a finite number; an `InputError` if it is none."""
        if isinstance(self.data, bool) or not isinstance(self.data, int | float):
            self.expected("a number")
        try:
            number = float(self.data)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self.fail("the number is too large; it must be finite.")
        return number

    def optional_number(self) -> float | None:
        """The value as a finite number, or None if it is null; an `InputError` if it is neither."""
        return None if self.data is None else self.number()

    def limit(self) -> float:
        """The value as a finite number, or infinity if it is null; an `InputError` if it is neither."""
        return math.inf if self.data is None else self.number()

    def whole(self) -> int:
        """The value as a whole number; an `InputError` if it is none."""
        if isinstance(self.data, bool) or not isinstance(self.data, int):
            self.expected("a whole number")
        if abs(self.data) >= 2**63:
            self.fail("the whole number is too large.")
        return int(self.data)

    def whole_numbers(self) -> list[int]:
        """The value as a list of whole numbers; an `InputError` if it is none."""
        if isinstance(self.data, list) and all(type(item) is int and abs(item) < 2**63 for item in self.data):
            return self.data
        return [item.whole() for item in self.items()]  # finds what is wrong

    def numbers(self) -> list[float]:
        """The value as a list of finite numbers; an `InputError` if it is none."""
        if isinstance(self.data, list) and all(type(item) is float and math.isfinite(item) for item in self.data):
            return self.data
        return [item.number() for item in self.items()]  # whole numbers become floats, and what is wrong is found

    def text(self) -> str:
        """The value as a string; an `InputError` if it is none."""
        if not isinstance(self.data, str):
            self.expected("a string")
        return str(self.data)

    def one_of(self, choices: Collection[str]) -> str:
        """The value as a string; an `InputError` unless it is one of the choices."""
        if self.text() not in choices:
            self.fail(f"this is {self.data!r}{one_of(choices, self.data)}")
        return self.text()

    def truth(self) -> bool:
        """The value as a bool; an `InputError` if it is neither true nor false."""
        if not isinstance(self.data, bool):
            self.fail("expected true or false.")
        return self.data

    def texts(self) -> list[str]:
        """The value as a list of strings; an `InputError` if it is none."""
        return [item.text() for item in self.items()]

    def expected(self, what: str) -> NoReturn:
        """Raise an `InputError` that says which kind of value is expected here, and shows the actual one."""
        text = "".join(islice(_ENCODER.iterencode(self.data), _SHOWN))  # which may be large and deep
        if len(text) > _SHOWN:
            text = text[:_SHOWN] + "…"
        self.fail(f"expected {what}, found {text}.")


def check_readable(path: str | Path, limit: float = math.inf) -> None:
    """Refuse a path that is not a regular file of at most `limit` bytes: reading a pipe may never end.

    Raises
    ------
    InputError
        If there is no such file, or it is another thing or larger.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise missing(path) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({_reason(error)}).") from None
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"{path}: this is a folder; name a file in it.")
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path}: this is not a regular file; save what it gives, and name that file.")
    if status.st_size > limit:
        raise InputError(f"{path}: the file has {status.st_size} bytes; {limit} are the most that is read.")
    if status.st_size < _LARGEST_POINTER and _begins_as_pointer(path):
        raise InputError(
            f"{path}: this is a pointer of Git LFS, not the file itself; get that with git lfs pull, or move the "
            "pointer elsewhere."
        )


def check_folder(name: str, folder: str | PathLike[str]) -> None:
    """Refuse a folder to write into, the value of the word `name`, where a file is: a `WordError`."""
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise WordError(name, str(folder), "this is a file; name a folder.")


def missing(path: str | PathLike[str], what: str = "file", rest: str = "", names: Iterable[str] = ()) -> InputError:
    """An error that a file or folder does not exist; it proposes the nearest of `names` and of the files beside it."""
    if os.path.islink(path):
        return InputError(f"{path}: this link leads to no file; get the file anew, or remove the link.")
    folder = os.path.dirname(path) if what == "folder" else None
    near = [*names, *(name for name in beside(path) if folder is None or os.path.isdir(os.path.join(folder, name)))]
    return InputError(
        f"{fspath(path) or repr('')}: there is no such {what}{nearest(near, os.path.basename(path), rest)}"
    )


def beside(path: str | PathLike[str]) -> list[str]:
    """Names of the first other files in the folder of a path, which need not exist; none if it cannot be read."""
    folder, name = os.path.split(path)
    try:
        with os.scandir(folder or ".") as entries:
            return [entry.name for entry in islice(entries, _MOST_BESIDE) if entry.name != name]
    except (OSError, ValueError):
        return []


def _begins_as_pointer(path: str | Path) -> bool:
    """Whether a file is a pointer of Git LFS, which stands in place of a large file."""
    try:
        with open(path, "rb") as stream:
            return stream.read(len(_POINTER)) == _POINTER
    except OSError:  # whoever reads it says why
        return False


def check_writable(path: str | Path) -> None:
    """Refuse to write over something that is not a regular file; symbolic links to files are followed.

    Raises
    ------
    InputError
        If there is a folder, a device, a pipe or the like.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # there is nothing yet, or writing will say what is wrong
    except ValueError as error:
        raise InputError(f"{path}: cannot be written ({error}).") from None
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise InputError(
            f"{path}: cannot be written, as this is {kind}, which is left as it is; give a file another name."
        )


def read_text(path: str | Path) -> str:
    """Text of a file.

    Raises
    ------
    InputError
        If there is no such file, it is empty, too large, or not UTF-8 text.
    """
    check_readable(path, LARGEST_TEXT)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; save it as UTF-8, if it is a text.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({_reason(error)}).") from None
    if not text.strip():
        raise InputError(f"{path}: the file is empty.")
    return text


def read_json(path: str | Path) -> Value:
    """Content of a JSON file; raise `InputError` as `read_text` and `parse_json` do."""
    return parse_json(read_text(path), str(path))


def parse_json(text: str, file: str) -> Value:
    """Value of the JSON text of `file`.

    Raises
    ------
    InputError
        If the text is not JSON (RFC 8259 has no NaN and no Infinity) or gives a field twice.
    """

    def refuse_constant(constant: str) -> NoReturn:
        raise InputError(f"{file}: {constant} is not a JSON number; all numbers must be finite.")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            twice = next(name for name, count in counts.items() if count > 1)
            raise InputError(f"{file}: field '{twice}' is given twice in one object; keep one.")
        return result

    try:
        data = json.loads(text, parse_constant=refuse_constant, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        why = "the file may be cut short"
        if error.msg == "Extra data":
            why = "it holds more than one document, as files of runs do, which are for mtpp table"
        raise InputError(
            f"{file}: not valid JSON at line {error.lineno}, column {error.colno} ({error.msg}); {why}."
        ) from None
    except InputError:
        raise
    except (RecursionError, ValueError) as error:
        raise InputError(f"{file}: cannot be read as JSON ({_reason(error)}).") from None
    return Value(data, file)


def write_json(path: str | Path, document: Mapping[str, Any]) -> None:
    """Write a JSON file in one step, so that an existing file is replaced completely or not at all.

    Raises
    ------
    InputError
        If the document has something that JSON cannot hold, or the file cannot be written.
    """
    check_writable(path)
    try:
        content = json_text(document).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be written as JSON ({_reason(error)}).") from None
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with draft.open("xb") as file:  # whoever has put a link there decides about no other file
            try:
                file.write(content)
                file.flush()
                os.replace(draft, target)
            except BaseException:
                draft.unlink()
                raise
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({_reason(error)}).") from None


def json_text(document: Mapping[str, Any] | Sequence[Any], *, ascii_only: bool = False) -> str:
    """The text of a JSON file: a line for each member, and for each item of a list in a member."""
    one_line = partial(json.dumps, allow_nan=False, ensure_ascii=ascii_only)

    def lines(value: Any) -> str:
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n" + ",\n".join(f"  {one_line(item)}" for item in value) + "\n ]"
        return one_line(value)

    if isinstance(document, Mapping):
        return "{\n" + ",\n".join(f" {json.dumps(name)}: {lines(item)}" for name, item in document.items()) + "\n}\n"
    return "[\n" + ",\n".join(f" {one_line(item)}" for item in document) + "\n]\n"


def nested_numbers(value: Value) -> Any:
    """The value as a number, or as nested lists of numbers."""
    return [nested_numbers(item) for item in value.items()] if isinstance(value.data, list) else value.number()


def finite_or_none(number: float) -> float | None:
    """The number for a file: None, written as null, if it is infinite (`Value.optional_number` reads it)."""
    return number if math.isfinite(number) else None


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
