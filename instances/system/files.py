"""Files that processes share: locks, claims, files written in one step, archives, and folders of a single user."""

from __future__ import annotations

import ast
import gc
import gzip
import hashlib
import json
import os
import re
import secrets
import stat
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from instances.errors import InputError

# Locks of files among processes.


try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


# Windows deletes such a file when its process ends, however it ends.
_TEMPORARY: int = getattr(os, "O_TEMPORARY", 0)
# Windows denies a file that is about to be deleted.
_TAKEN = (FileExistsError, PermissionError) if sys.platform == "win32" else FileExistsError
# Seconds between two tries.
_LOOK = 0.02


@contextmanager
def file_lock(path: str | Path, *, wait: bool) -> Iterator[None]:
    """Hold a lock file until the end of the context; it is made if missing.

    The lock ends with its process. Where the system has no `fcntl`, as on Windows, a file beside it, ``PATH.lock``,
    stands for the lock.

    Parameters
    ----------
    path : str or Path
        In a folder that can be written.
    wait : bool
        Wait while another process holds the file, instead of failing.

    Raises
    ------
    BlockingIOError
        If another process holds the file and `wait` is False.
    OSError
        If the file cannot be opened or made.
    """
    descriptor = _exclusive(f"{path}.lock", wait) if fcntl is None else os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        if fcntl is None and not _TEMPORARY:
            os.unlink(f"{path}.lock")
        os.close(descriptor)


def _exclusive(lock: str, wait: bool) -> int:
    """Create a lock file and return its descriptor; wait while another process has one, or raise."""
    while True:
        try:
            return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL | _TEMPORARY, 0o666)
        except _TAKEN:
            if not wait:
                raise BlockingIOError(f"{lock} is there") from None
            time.sleep(_LOOK)


def claim(path: Path, name: str) -> Callable[[], None]:
    """Wait until no other process has a claim to a name; the claim lasts until the returned function is called.

    A claim ends with its process. All threads of a process share its claims, and so do all that it does with the file
    through this function; nothing else opens the file.

    Parameters
    ----------
    path : Path
        An existing file; a claim locks the byte of it whose offset is a hash of the name.

    Raises
    ------
    OSError
        If the system has no claims, or two processes would wait for each other.
    """
    if fcntl is None:
        raise OSError("this system has no locks of parts of files")
    file, byte = _opened(path, os.getpid()), int.from_bytes(hashlib.sha256(name.encode()).digest()[:7])
    fcntl.lockf(file, fcntl.LOCK_EX, 1, byte)
    return lambda: fcntl.lockf(file, fcntl.LOCK_UN, 1, byte)


@cache
def _opened(path: Path, process: int) -> int:
    """An open descriptor of the file, kept open: closing any descriptor of a file ends all claims of the process."""
    return os.open(path, os.O_RDWR)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one step, so that others see all of it or none.

    Raises
    ------
    OSError
        If the file cannot be written; no part of it remains.
    """
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


# A folder of this user alone among temporary ones, for code that no other user may have put there.


def private_folder(name: str) -> Path | None:
    """The folder of this user, which need not exist; None if the system has no owners, or another user took it.

    It is in ``$XDG_RUNTIME_DIR`` if that is the user's, else among temporary files.
    """
    if not hasattr(os, "getuid"):  # Windows
        return None
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.path.isabs(runtime) and _is_private(Path(runtime)) and os.access(runtime, os.W_OK):
        return Path(runtime, name)
    folder = Path(tempfile.gettempdir(), f"{name}-{os.getuid()}")
    return folder if _is_private(folder) or not os.path.lexists(folder) else None


def make_private(folder: Path) -> None:
    """Make the folder, for this user alone.

    Raises
    ------
    OSError
        If the folder cannot be made, or belongs to another user.
    """
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    if not _is_private(folder):
        raise PermissionError(f"{folder} is not a folder of this user alone")


def _is_private(folder: Path) -> bool:
    """Whether the path is a folder (no link) that this user owns and nobody else may enter."""
    try:
        state = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o077


# Archives of files that travel between machines: one file, whose every byte is part of a hash.
#
# Its first line is a word, the hash of all that follows, and a line feed; then a stream of gzip. That holds a line of
# JSON, with the conditions under which the content is valid and names and sizes of the files, and the files one
# behind the other. Nothing of a stranger's archive is unpacked but into files with plain names in one folder.


# Bytes of the archive, of its list of files, and of all files, at the most.
_MOST, _LONGEST_LIST, _MOST_UNPACKED = 2**27, 2**22, 2**28
_PLAIN = re.compile(r"(?=.{1,200}\Z)[A-Za-z]\w*(?:[.-]\w+)*", re.ASCII)
_HASH, _CHUNK, _SHOWN = 64, 2**20, 100


def write_archive(path: Path, word: str, conditions: Mapping[str, str], files: Mapping[str, bytes]) -> None:
    """Write an archive.

    Parameters
    ----------
    word : str
        Format and version, such as ``mtpp-kernels/1``.
    conditions : mapping
        Name to value: the conditions under which the content is valid.
    files : mapping
        Name to content; names are words with dots and dashes between.
    """
    listed = {"conditions": dict(conditions), "files": {name: len(content) for name, content in files.items()}}
    packed = gzip.compress(b"".join((json.dumps(listed).encode(), b"\n", *files.values())), mtime=0)
    write_whole(path, f"{word} {hashlib.sha256(packed).hexdigest()}\n".encode() + packed)


def read_archive(
    path: str | Path, word: str, allowed: Mapping[str, Collection[str]]
) -> tuple[dict[str, str], dict[str, bytes]]:
    """Read an archive: its conditions, and its files by name.

    Parameters
    ----------
    allowed : mapping
        Name of each condition to the values that are valid here.

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
    """Conditions and file sizes of an archive; both empty unless `write_archive` wrote the line."""
    with suppress(ValueError, RecursionError):
        match json.loads(line):
            case {"conditions": dict(conditions), "files": dict(sizes)}:
                plain = all(_PLAIN.fullmatch(name) for name in sizes)
                whole = all(type(size) is int and size >= 0 for size in sizes.values())
                if plain and whole and sum(sizes.values()) <= _MOST_UNPACKED:
                    return conditions, sizes
    return {}, {}


# Syntax trees of Python, for several threads.


_LOCK = Lock()


def syntax_tree(text: str | bytes) -> ast.Module:
    """The syntax tree of a source text, made in one thread at a time, without garbage collection.

    Python 3.11 counts the depth of trees for all threads together: where a collection in the midst of one tree lets
    another thread make its own, both fail with a SystemError. Collections take most of the time of making it, too.

    Parameters
    ----------
    text : str or bytes

    Raises
    ------
    SyntaxError, ValueError, RecursionError
        If the text is no Python, or nested too deeply.
    """
    with _LOCK:
        was = gc.isenabled()
        gc.disable()
        try:
            return ast.parse(text)
        finally:
            if was:
                gc.enable()
