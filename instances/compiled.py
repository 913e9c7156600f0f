"""The decorator of kernels: compiled by numba, and compiled anew when any kernel source changes.

numba stores machine code on disk and looks at the file of the function alone, not at the files whose functions,
constants and tuples went into it. So the code of all kernels lies in a folder named by a hash of all kernel sources.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import numba
from numba.misc.appdirs import AppDirs

__all__ = ["compiled", "kernel_sources"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = ("instances", "heuristics", "mtpp_models")

#: A file with one of them has a kernel, or a tuple that kernels may take.
_MARKS = (b"import compiled", b"NamedTuple")

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
) -> Callable[[_Function], _Function]: ...
def compiled(
    function: Callable[..., Any] | None = None,
    /,
    *,
    inline: Literal["never", "always"] = "never",
    error_model: Literal["python", "numpy"] = "python",
    allocates: bool = True,
) -> Callable[..., Any]:
    """Compile a function at its first call, or load its machine code from disk.

    Parameters
    ----------
    function : callable
        What it uses of this project must be defined in a kernel source, see `kernel_sources`.
    inline, error_model : str
        As in `numba.njit`.
    allocates : bool
        False for kernels that make no arrays: numba then need not count references, which takes half of a move of
        local search.
    """
    options: dict[str, Any] = {"inline": inline, "error_model": error_model}
    if not allocates:
        options["_nrt"] = False

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for folder in _folders():
            try:
                with _cache_in(folder):
                    return numba.njit(cache=True, **options)(function)
            except RuntimeError:  # the folder cannot be written
                continue
        return numba.njit(**options)(function)

    return decorate if function is None else decorate(function)


def kernel_sources() -> list[Path]:
    """Find the files that machine code may depend on."""
    files = sorted(path for package in _PACKAGES for path in (_ROOT / package).rglob("[!.]*.py"))
    return [path for path in files if any(mark in path.read_bytes() for mark in _MARKS)]


@cache
def _first_look() -> tuple[dict[Path, tuple[int, int]], str]:
    """When each kernel source was written, and a hash of them all."""
    written = _written(kernel_sources())
    texts = {path.relative_to(_ROOT).as_posix(): path.read_bytes() for path in written}
    return written, hashlib.sha256(repr(texts).encode()).hexdigest()[:16]


def _written(files: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """Time of the last change and size of each file; nothing if one is gone."""
    try:
        states = {path: path.stat() for path in files}
    except FileNotFoundError:
        return {}
    return {path: (state.st_mtime_ns, state.st_size) for path, state in states.items()}


def _folders() -> list[Path]:
    """Where to store machine code, best place first.

    Nowhere if the sources are out of sight, as in an archive, or changed since the first look: then the code in memory
    may be of two generations.
    """
    written, key = _first_look()
    if not written or _written(written) != written:
        return []
    own, users = _ROOT / "instances" / "__pycache__", AppDirs("numba", False).user_cache_dir
    places = [_settings.CACHE_DIR] if _settings.CACHE_DIR else [own, users]
    return [Path(place) / f"kernels-{key}" for place in places]


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    """Let numba cache what is decorated meanwhile in this folder or nowhere; afterwards its settings are as before."""
    with _settings_lock:
        before = _settings.CACHE_DIR, _settings.CACHE_LOCATOR_CLASSES
        _settings.CACHE_DIR, _settings.CACHE_LOCATOR_CLASSES = str(folder), "UserProvidedCacheLocator"
        try:
            yield
        finally:
            _settings.CACHE_DIR, _settings.CACHE_LOCATOR_CLASSES = before
