"""Archives of files that travel between machines: one file, whose every byte is part of a hash.

Its first line is a word, the hash of all that follows, and a line feed; then a stream of gzip. That holds a line of
JSON, with the conditions under which the content is valid and names and sizes of the files, and the files one behind
the other. Nothing of a stranger's archive is unpacked but into files with plain names in one folder.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import zlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from instances.errors import InputError
from instances.system.files import write_whole

# Bytes of the archive, of its list of files, and of all files, at the most.
_MOST, _LONGEST_LIST, _MOST_UNPACKED = 2**27, 2**22, 2**28
_PLAIN = re.compile(r"(?=.{1,200}\Z)[A-Za-z]\w*(?:[.-]\w+)*", re.ASCII)
_HASH, _CHUNK, _SHOWN = 64, 2**20, 100


def write_archive(path: Path, word: str, conditions: Mapping[str, str], files: Mapping[str, bytes]) -> None:
    """Write an archive.

    Parameters
    ----------
    word : str
        What it is, as ``mtpp-kernels/1``.
    conditions : mapping
        Under which its content is valid, by name.
    files : mapping
        Name to content; names are words with dots and dashes between.
    """
    listed = {"conditions": dict(conditions), "files": {name: len(content) for name, content in files.items()}}
    packed = gzip.compress(b"".join((json.dumps(listed).encode(), b"\n", *files.values())), mtime=0)
    write_whole(path, f"{word} {hashlib.sha256(packed).hexdigest()}\n".encode() + packed)


def read_archive(
    path: str | Path, word: str, allowed: Mapping[str, Collection[str]]
) -> tuple[dict[str, str], dict[str, bytes]]:
    """Conditions of an archive, and its files by name.

    Parameters
    ----------
    allowed : mapping
        Of each condition, those that are met here.

    Raises
    ------
    InputError
        If it is no archive of that kind, is cut or has a changed byte, was made under other conditions, or holds what
        `write_archive` does not write.
    OSError
        If it cannot be read.
    """
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size > _MOST:
            raise InputError(f"{path}: it has more than {_MOST >> 20} MiB, which no archive of {word} has.")
        begins = f"{word} ".encode()
        first = file.read(len(begins) + _HASH + 1)
        if not first.startswith(begins):
            raise InputError(f"{path}: this is no archive of {word}.")
        begin, hashed = file.tell(), hashlib.sha256()
        while chunk := file.read(_CHUNK):
            hashed.update(chunk)
        if first[len(begins) :] != f"{hashed.hexdigest()}\n".encode():
            raise InputError(f"{path}: it is cut, or bytes of it have changed; copy it again.")
        file.seek(begin)
        try:
            with gzip.GzipFile(fileobj=file) as packed:
                return _unpacked(packed, path, allowed)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{path}: it cannot be unpacked ({error}).") from None


def _unpacked(
    packed: gzip.GzipFile, path: str | Path, allowed: Mapping[str, Collection[str]]
) -> tuple[dict[str, str], dict[str, bytes]]:
    conditions, sizes = _listed(packed.readline(_LONGEST_LIST))
    for name, values in allowed.items():
        if conditions.get(name) not in tuple(values):  # a stranger's may have no hash
            other = str(conditions.get(name))[:_SHOWN]
            raise InputError(f"{path}: it is for another {name}, {other}; here it is {' or '.join(sorted(values))}.")
    files = {name: packed.read(size) for name, size in sizes.items()}
    if {name: len(content) for name, content in files.items()} != sizes or packed.read(1):
        raise InputError(f"{path}: its files are longer or shorter than it says.")
    return {name: conditions[name] for name in allowed}, files


def _listed(line: bytes) -> tuple[dict[str, Any], dict[str, int]]:
    """Conditions, and the size of each file; both empty if they are not as `write_archive` writes them."""
    with suppress(ValueError, RecursionError):
        match json.loads(line):
            case {"conditions": dict(conditions), "files": dict(sizes)}:
                plain = all(_PLAIN.fullmatch(name) for name in sizes)
                whole = all(type(size) is int and size >= 0 for size in sizes.values())
                if plain and whole and sum(sizes.values()) <= _MOST_UNPACKED:
                    return conditions, sizes
    return {}, {}
