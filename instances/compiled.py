"""Decorator of kernels, which numba compiles, and compiles again when any kernel source changes.

numba stores machine code on disk and looks at the file of the function alone, not at the files whose functions,
constants and tuples went into it. So the code of all kernels lies in a folder of ours, named by a hash of all kernel
sources and of what else it was made for: numba, Python and the processor. No name in it depends on where the sources
are, so that it serves wherever it is brought.

numba calls a function by a name and a number, counted in each process from 1. Of two with one name and number, as a
sort and an argsort that two processes have compiled, the one loaded first would serve for both. So each process counts
from a number of its own. Of processes that need the same code, one compiles it and the others wait.

While numba compiles a function, or loads its code, the clock of all time limits stands still. When it first compiles
one of ours, the logger of this module says so (level INFO), and the command line prints it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
import pickle
import re
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import llvmlite
import numba
from numba.core import bytecode, event, types
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

from instances.deadline import CLOCK
from instances.system.files import claim, make_private, private_folder, write_whole

_Function = TypeVar("_Function", bound=Callable[..., Any])

_ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = ("instances", "heuristics", "mtpp_models", "mtpp/verification")

#: A file with the first text has a kernel, and a file with the second a named tuple that kernels may take.
_MARKS = (b"import compiled", b"NamedTuple")
_IMPORT = re.compile(rb"^ *from ([\w.]+) import", re.MULTILINE)

#: How names of files with machine code end.
CODE = ".code"

#: Its presence beside the code says that all of it is there; it holds what the code was made for.
_STAMP = "complete"

#: File beside the code in which a process that compiles claims a kernel and its types.
_CLAIMS = "claims"

#: Processor of code that runs on all of an architecture; ``NUMBA_CPU_NAME`` takes it.
GENERIC = "generic"

#: Name of the temporary folder for those who can write nowhere else.
_PRIVATE = "mtpp"

#: Bits of the random part of a function's number, and of what is counted from there.
_BITS = 32

_LOG = logging.getLogger(__name__)

_kernels: list[Any] = []
_settings: Any = numba.config  # made from the environment, unknown to its types


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
    # No C code calls a kernel.
    options: dict[str, Any] = {"inline": inline, "error_model": error_model, "nogil": nogil, "no_cfunc_wrapper": True}
    if not allocates:
        options["_nrt"] = False

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        kernel: Any = numba.njit(**options)(function)
        if not _settings.DISABLE_JIT and _is_kernel(function):
            kernel._cache = _Store(function)
            kernel.get_call_template = partial(_called_with_types, kernel.get_call_template)
        _kernels.append(kernel)
        return kernel

    return decorate if function is None else decorate(function)


def _called_with_types(template: Callable[..., Any], args: Iterable[Any], kws: Mapping[str, Any]) -> Any:
    """Signature of a call by another kernel, for numba; constants take their general type, not a literal one."""
    return template([types.unliteral(kind) for kind in args], {name: types.unliteral(kws[name]) for name in kws})


class _Store(NullCache):
    """Machine code of one kernel on disk: one file for each combination of argument types."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._claimed: dict[Any, Callable[[], None]] = {}

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Code for these types; None if there is none, and this process has to compile it."""
        rtsys.initialize(target_context)  # all that stored code needs; what compiling needs, numba loads with it
        code = self._stored(sig, target_context)
        if code is None and sig not in self._claimed and (place := place_for(made_for())) is not None:
            with suppress(OSError):  # the system has no claims, or two processes wait for each other
                self._claimed[sig] = claim(place / _CLAIMS, self._file_of(sig))
            code = self._stored(sig, target_context)  # by the process that had the claim before
            if code is not None:
                self.release(sig)
        return code

    def _stored(self, sig: Any, target_context: Any) -> Any:
        for folder in _readable():
            with suppress(FileNotFoundError, PermissionError):
                kinds, code = pickle.loads((folder / self._file_of(sig)).read_bytes())
                if kinds == sig:
                    return CompileResult._rebuild(target_context, *code)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the code for these types, if a folder can be written."""
        place = place_for(made_for())
        if place is not None and not data.library.has_dynamic_globals:
            with suppress(OSError):
                write_whole(place / self._file_of(sig), dumps((sig, data._reduce())))
        self.release(sig)

    def release(self, sig: Any) -> None:
        """Release the claim of this process to compile for these types, if it has one."""
        self._claimed.pop(sig, lambda: None)()

    def _file_of(self, sig: Any) -> str:
        return f"{self._name}-{hashlib.sha256(str(sig).encode()).hexdigest()[:24]}{CODE}"


def _is_kernel(function: Callable[..., Any]) -> bool:
    """Whether a function is defined in a kernel source and has no closure, so that no other file affects its code."""
    file = _ROOT / f"{function.__module__.replace('.', '/')}.py"
    return function.__closure__ is None and file in _first_look()[0]


def kernels() -> list[Any]:
    """All functions that were decorated so far, as numba made them."""
    return list(_kernels)


def is_warm() -> Path | None:
    """Folder with the machine code of all kernels; None if some must be compiled, as `mark_warm` was not called."""
    return next((folder for folder in _readable() if (folder / _STAMP).is_file()), None)


def mark_warm(conditions: Mapping[str, str]) -> Path | None:
    """Record that all machine code for `conditions` is on disk; return its folder, or None if none can be written."""
    place = place_for(conditions)
    if place is not None:
        write_whole(place / _STAMP, json.dumps(conditions).encode())
    return place


def stored_code(folder: Path) -> tuple[dict[str, str], dict[str, bytes]]:
    """Conditions under which the machine code of a folder of `is_warm` is valid, and its files by name."""
    code = {path.name: path.read_bytes() for path in sorted(folder.glob(f"*{CODE}"))}
    return json.loads((folder / _STAMP).read_bytes()), code


@cache
def made_for() -> dict[str, str]:
    """Conditions under which the machine code that this process makes is valid, by name."""
    return {
        "numba": f"{numba.__version__} with llvmlite {llvmlite.__version__}",
        "python": f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}",
        "processor": " ".join(cpu_target.target_context.codegen().magic_tuple()),
        "kernel sources": _first_look()[1],
    }


def made_for_all() -> dict[str, str]:
    """Conditions under which machine code is valid on all processors of this architecture, this one included."""
    architecture = made_for()["processor"].split()[0]
    return made_for() | {"processor": f"{architecture} {GENERIC} "}


def kernel_sources() -> list[Path]:
    """Files that machine code may depend on: those with kernels, and those with named tuples that these import."""
    files = (path for package in _PACKAGES for path in (_ROOT / package).rglob("[!.]*.py"))
    texts = {path: text for path in files if any(mark in (text := path.read_bytes()) for mark in _MARKS)}
    modules = {".".join(path.relative_to(_ROOT).with_suffix("").parts).encode(): path for path in texts}
    sources = {path: None for path, text in texts.items() if _MARKS[0] in text}
    for path in (waiting := [*sources]):
        read = [modules[name] for name in _IMPORT.findall(texts[path]) if name in modules]
        waiting += (new := {other: None for other in read if other not in sources})
        sources |= new
    return sorted(sources)


@cache
def _first_look() -> tuple[dict[Path, tuple[int, int]], str]:
    """Time of the last change and size of each kernel source, and a hash of all their contents; read once."""
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


def _readable() -> Iterator[Path]:
    """Yield the folders whose machine code serves this process, its own first, then those for any processor."""
    if not _is_current():
        return
    for folder in dict.fromkeys((*_folders(made_for()), *_folders(made_for_all()))):
        if folder.is_dir() and (folder.parent != private_folder(_PRIVATE) or _is_writable(folder)):
            yield folder


def place_for(conditions: Mapping[str, str]) -> Path | None:
    """Writable folder for machine code of these conditions, created if missing; None if there is none."""
    return next(filter(_is_writable, _folders(conditions)), None) if _is_current() else None


def _is_current() -> bool:
    """Whether machine code may be stored and loaded.

    It may not if numba is off, if the sources cannot be read, as in an archive, or if they changed since the first
    look: then the code in memory may be of two generations.
    """
    written, _ = _first_look()
    return not _settings.DISABLE_JIT and bool(written) and _written(written) == written


def _folders(conditions: Mapping[str, str]) -> list[Path]:
    """Folders for machine code of these conditions, best first: beside the sources, in the user's cache, temporary."""
    key = hashlib.sha256(repr(sorted(conditions.items())).encode()).hexdigest()[:16]
    source_cache, users = _ROOT / "instances" / "__pycache__", user_cache("numba")
    places = [_settings.CACHE_DIR] if _settings.CACHE_DIR else [source_cache, users, private_folder(_PRIVATE)]
    return [Path(place) / f"kernels-{key}" for place in places if place is not None]


@cache
def _is_writable(folder: Path) -> bool:
    try:
        if folder.parent == private_folder(_PRIVATE):
            make_private(folder.parent)
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        (folder / _CLAIMS).touch()
    except OSError:
        return False
    return True


def user_cache(package: str) -> Path:
    """Cache folder of a package for this user; its files can be made again."""
    return Path(AppDirs(package, False).user_cache_dir)


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
            if place_for(made_for()) is None:
                _LOG.warning("compiling at each call, as no folder can be written; set NUMBA_CACHE_DIR to one that can")
                return
            _LOG.info("compiling, once after each update (a minute or two); mtpp warm-up does it ahead")

    def on_end(self, event: event.Event) -> None:
        """Release the claim to a failed compilation; `event.is_failed` says the opposite in some versions of numba."""
        if sys.exc_info()[0] is not None and isinstance(cache := event.data["dispatcher"]._cache, _Store):
            cache.release(event.data["args"])


def _count_apart() -> None:
    """Let numba number this process's functions from a random number on, unlike those of other processes."""
    identity: Any = bytecode.FunctionIdentity
    identity._unique_ids = itertools.count(secrets.randbits(_BITS) << _BITS)


_count_apart()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_apart)
event.register("numba:compiler_lock", _Halt())
event.register("numba:compile", _Tell())
