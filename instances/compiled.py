"""Decorator of kernels, which numba compiles, and compiles again when any kernel source changes.

numba stores machine code on disk and looks at the file of the function alone, not at the files whose functions,
constants and tuples went into it. So the code of all kernels lies in a folder named by a hash of all kernel sources.

numba calls a function by a name and a number, counted in each process from 1. Of two with one name and number, as a
sort and an argsort that two processes have compiled, the one loaded first would serve for both. So each process counts
from a number of its own.

While numba compiles a function, or loads its code, the clock of all time limits stands still. When it first compiles
one of ours, the logger of this module says so (level INFO), and the command line prints it.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import llvmlite.binding
import numba
from numba.core import bytecode, event
from numba.core.caching import UserProvidedCacheLocator
from numba.misc.appdirs import AppDirs

from instances.deadline import CLOCK
from instances.system.files import file_lock, make_private, private_folder

_Function = TypeVar("_Function", bound=Callable[..., Any])

_ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = ("instances", "heuristics", "mtpp_models", "mtpp/verification")

#: A file with one of them has a kernel, or a tuple that kernels may take.
_MARKS = (b"import compiled", b"NamedTuple")

#: Its presence beside the code says that all of it is there; holds what the code was made for, and by whom.
_STAMP = "complete"
_ALONE, _SHARED = "by warm-up alone", "by others too"

#: Whoever stores code holds this file beside it.
_LOCK = "lock"

#: Name of the temporary folder for those who can write nowhere else.
_PRIVATE = "mtpp"

#: Bits of the random part of a function's number, and of what is counted from there.
_BITS = 32

_LOG = logging.getLogger(__name__)

_kernels: list[Any] = []
_settings: Any = numba.config  # made from the environment, unknown to its types
_settings_lock = threading.Lock()


@overload
def compiled(function: _Function, /) -> _Function: ...
@overload
def compiled(
    *,
    inline: Literal["never", "always"] = ...,
    error_model: Literal["python", "numpy"] = ...,
    allocates: bool = ...,
    nogil: bool = ...,
) -> Callable[[_Function], _Function]: ...
def compiled(
    function: Callable[..., Any] | None = None,
    /,
    *,
    inline: Literal["never", "always"] = "never",
    error_model: Literal["python", "numpy"] = "python",
    allocates: bool = True,
    nogil: bool = False,
) -> Callable[..., Any]:
    """Compile a function at its first call, or load its machine code from disk.

    Parameters
    ----------
    function : callable
        What it uses of this project must be defined in a kernel source, see `kernel_sources`.
    inline, error_model, nogil
        As in `numba.njit`.
    allocates : bool
        False for kernels that make no arrays: numba then need not count references, which takes half of a move of
        local search.
    """
    options: dict[str, Any] = {"inline": inline, "error_model": error_model, "nogil": nogil}
    if not allocates:
        options["_nrt"] = False

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        kernel = _decorated(function, options)
        _kernels.append(kernel)
        return kernel

    return decorate if function is None else decorate(function)


def _decorated(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    for folder in _folders():
        try:
            if folder.parent == private_folder(_PRIVATE):
                make_private(folder.parent)
            with _cache_in(folder):
                kernel = numba.njit(cache=True, **options)(function)
                _store_one_by_one(kernel, folder)
                return kernel
        except (RuntimeError, OSError):  # the folder can neither be written nor has all code
            continue
    return numba.njit(**options)(function)


_Locator: Any = UserProvidedCacheLocator  # its methods have no types


class ReadingLocator(UserProvidedCacheLocator):
    """The folder of `_cache_in`, where machine code can be read; numba's own asks for one that can be written."""

    def ensure_cache_path(self: Any) -> None:
        """Make the folder, unless it has the code of all kernels."""
        folder = Path(self.get_cache_path())
        if not (_is_complete(folder.parent) and folder.is_dir()):
            _Locator.ensure_cache_path(self)


def _store_one_by_one(kernel: Any, folder: Path) -> None:
    """Let processes that store machine code at the same time wait for each other.

    numba reads the index of a function, adds to it and writes it. Two processes that do so for other types would take
    the same name for their code.
    """
    save = kernel._cache.save_overload

    def save_alone(*code: Any) -> None:
        with suppress(PermissionError), file_lock(folder / _LOCK, wait=True):
            save(*code)

    kernel._cache.save_overload = save_alone


def kernels() -> list[Any]:
    """All functions that were decorated so far, as numba made them."""
    return list(_kernels)


def is_warm() -> Path | None:
    """Folder with the machine code of all kernels; None if some must be compiled, as `mark_warm` was not called."""
    return next(filter(_is_complete, _folders()), None)


def warmed_alone() -> bool:
    """Whether the code of all kernels is there, and there was none before warm-up began."""
    folder = is_warm()
    return folder is not None and _stamp_of(folder)[1:] == [_ALONE]


def has_code() -> bool:
    """Whether machine code of any kernel is on disk, valid or not."""
    return any(path for folder in _folders() for path in folder.rglob("*.nbc"))


def mark_warm(alone: bool = False) -> Path | None:
    """Note that the machine code of all kernels is on disk; return its folder, None if there is no place for it.

    `alone` says that there was none before warm-up began.
    """
    for folder in _folders():
        try:
            (folder / _STAMP).write_text(f"{_made_for()}\n{_ALONE if alone else _SHARED}\n")
            return folder
        except OSError:  # as where kernels found no place
            continue
    return None


def _is_complete(folder: Path) -> bool:
    return _stamp_of(folder)[:1] == [_made_for()]


def _stamp_of(folder: Path) -> list[str]:
    """Lines of the stamp of a folder, which say what its machine code was compiled for; empty if it is incomplete."""
    try:
        return (folder / _STAMP).read_text().splitlines()
    except OSError:
        return []


@cache
def _made_for() -> str:
    """Conditions under which stored machine code is valid: versions of numba, the processor, times of the sources."""
    written, _ = _first_look()
    processor = llvmlite.binding.get_host_cpu_name(), llvmlite.binding.get_host_cpu_features().flatten()
    return repr((numba.__version__, processor, sorted(written.values())))


def kernel_sources() -> list[Path]:
    """Find the files that machine code may depend on."""
    files = sorted(path for package in _PACKAGES for path in (_ROOT / package).rglob("[!.]*.py"))
    return [path for path in files if any(mark in path.read_bytes() for mark in _MARKS)]


@cache
def _first_look() -> tuple[dict[Path, tuple[int, int]], str]:
    """Times of the last change of all kernel sources, and a hash of their content; read once."""
    written = _written(kernel_sources())
    texts = {path.relative_to(_ROOT).as_posix(): path.read_bytes() for path in written}
    return written, hashlib.sha256(repr(texts).encode()).hexdigest()[:16]


def _written(files: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """Time of the last change and size of each file; empty if one no longer exists."""
    try:
        states = {path: path.stat() for path in files}
    except FileNotFoundError:
        return {}
    return {path: (state.st_mtime_ns, state.st_size) for path, state in states.items()}


def _folders() -> list[Path]:
    """Folders for machine code, best one first: those with all of it, then the sources', the user's, a temporary one.

    Empty if numba is switched off, or the sources are out of sight, as in an archive, or changed since the first
    look: then the code in memory may be of two generations.
    """
    written, key = _first_look()
    if _settings.DISABLE_JIT or not written or _written(written) != written:
        return []
    source_cache, users = _ROOT / "instances" / "__pycache__", user_cache("numba")
    places = [_settings.CACHE_DIR] if _settings.CACHE_DIR else [source_cache, users, private_folder(_PRIVATE)]
    folders = [Path(place) / f"kernels-{key}" for place in places if place is not None]
    return sorted(folders, key=lambda folder: not _is_complete(folder))


def user_cache(package: str) -> Path:
    """Folder in which a package keeps what it can make again for this user."""
    return Path(AppDirs(package, False).user_cache_dir)


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    """Let numba cache what is decorated meanwhile in this folder or nowhere; afterwards its settings are as before."""
    with _settings_lock:
        before = _settings.CACHE_DIR, _settings.CACHE_LOCATOR_CLASSES
        _settings.CACHE_DIR, _settings.CACHE_LOCATOR_CLASSES = str(folder), f"{__name__}.ReadingLocator"
        try:
            yield
        finally:
            _settings.CACHE_DIR, _settings.CACHE_LOCATOR_CLASSES = before


def _is_ours(function: Callable[..., Any]) -> bool:
    return function.__module__.replace(".", "/").startswith(_PACKAGES)


class _Halt(event.Listener):
    """Listener that halts `CLOCK` while numba compiles or loads."""

    def on_start(self, event: event.Event) -> None:
        CLOCK.halt()

    def on_end(self, event: event.Event) -> None:
        CLOCK.resume()


class _Tell(event.Listener):
    """Listener that logs, once in a process, that kernels are compiled."""

    announced = False

    def on_start(self, event: event.Event) -> None:
        if not self.announced and _is_ours(event.data["dispatcher"].py_func):
            self.announced = True
            if getattr(event.data["dispatcher"], "_cache", None).__class__.__name__ == "NullCache":
                _LOG.warning("compiling at each call, as no folder can be written; set NUMBA_CACHE_DIR to one that can")
                return
            _LOG.info("compiling, once after each update (about half a minute); mtpp warm-up does it ahead")

    def on_end(self, event: event.Event) -> None:
        pass


def _count_apart() -> None:
    """Let numba number the functions of this process from a random number on."""
    identity: Any = bytecode.FunctionIdentity
    identity._unique_ids = itertools.count(secrets.randbits(_BITS) << _BITS)


_count_apart()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_apart)
event.register("numba:compiler_lock", _Halt())
event.register("numba:compile", _Tell())
