"""Heuristics of callers: functions, ``package.module:function`` and ``file.py:function``.

A job carries the source of the file; a process of its own loads it and runs it, and is ended when its time is over.
Nothing that it returns is believed: a partition is made anew of its blocks, at the cost that they have.
"""

from __future__ import annotations

import ast
import hashlib
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from inspect import isfunction, unwrap
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from heuristics import HEURISTICS
from heuristics.method import Method
from instances import InputError, Instance, Partition
from instances.errors import WordError
from instances.json_files import check_readable
from instances.registry import unknown
from mtpp.runs.code_hash import code_hash, module_of, sources_of
from mtpp.runs.method_process import MethodAnswer, ask_here, ask_process
from mtpp.runs.sources import PROJECT, Homes, home_of, parse_module

#: Bytes of a file that a job carries.
_MOST = 2**20
_MAIN = "__main__"


@dataclass(frozen=True, eq=False)
class OwnMethod:
    """A heuristic of a caller."""

    name: str  # as runs call it
    function: str  # its name in its module or file
    sources: str  # hash of its code
    module: str | None = None  # by which processes import it
    file: str | None = None  # path of the file, if it is no module of a package
    text: str | None = None  # of that file
    call: Callable[..., Any] | None = field(default=None, repr=False)  # of this process alone

    @property
    def can_travel(self) -> bool:
        """Whether other processes can load it."""
        return self.module is not None or self.text is not None

    def __getstate__(self) -> dict[str, Any]:
        if not self.can_travel:
            raise TypeError(f"the function {self.name} has no file")
        return vars(self) | {"call": None}

    def search(
        self, instance: Instance, seed: int, time_limit: float | None, patience: float | None
    ) -> tuple[Partition, MethodAnswer]:
        """Run it in a process of its own; the partition that it found, and how long that took.

        Parameters
        ----------
        time_limit : float, optional
            Seconds that it is told to take.
        patience : float, optional
            Seconds after which its process is ended, and some more.

        Raises
        ------
        InputError, MethodError
            If it fails, does not end, or returns something else than a partition of the instance that fits.
        KeyboardInterrupt
            At Ctrl-C.
        """
        if self.call is not None:
            answer = ask_here(self.call, instance, seed, time_limit, patience)
        else:
            place = (self.module, self.file, self.text, self.function)
            answer = ask_process(self.sources, place, instance, seed, time_limit, patience)
        partition = Partition(instance, answer.block, answer.order, answer.kind)
        if not partition.bottleneck < math.inf:
            raise InputError("its partition does not fit, or breaks a constraint.")
        return partition, answer


def own_method(candidate: Any) -> OwnMethod | str:
    """A heuristic of a caller; the name of a method if it is none of them, or one that this project has.

    Raises
    ------
    InputError
        If there is no such file, module or function, or it is nothing of all that.
    """
    if isinstance(candidate, str):
        if ":" in candidate:
            return _named(candidate)
        method = HEURISTICS.get(candidate)
        return candidate if method is None or _is_ours(method) else _of_method(method)
    if isinstance(candidate, Method):
        is_ours = HEURISTICS.get(candidate.name) is candidate and _is_ours(candidate)
        return candidate.name if is_ours else _of_method(candidate)
    if not callable(candidate):
        why = "give names, functions, package.module:function or file.py:function."
        raise WordError("methods", candidate, why)
    return _of_callable(candidate, getattr(candidate, "__name__", type(candidate).__name__))


def _is_ours(method: Method[Any, Any]) -> bool:
    return all(PROJECT.find(module_of(function)) is not None for function in _functions(method.run))


def _functions(run: Any) -> Iterator[Any]:
    yield run
    for cell in getattr(run, "__closure__", None) or ():
        if isfunction(cell.cell_contents):
            yield cell.cell_contents


def _of_method(method: Method[Instance, Partition]) -> OwnMethod:
    """The function behind a registered method that is not ours, without what the registry adds."""
    *_, function = _functions(method.run) if PROJECT.find(module_of(method.run)) else (method.run,)
    return _of_callable(function, method.name)


def _of_callable(heuristic: Callable[..., Any], name: str) -> OwnMethod:
    function = unwrap(getattr(heuristic, "py_func", heuristic))
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or not isinstance(function, FunctionType):
        return OwnMethod(name, name, sources_of(heuristic), call=heuristic)
    module = module_of(function)
    main = module == _MAIN
    path = Path(code.co_filename)
    is_top = "<" not in function.__qualname__ and path.is_file()
    package = "" if main else sys.modules[module].__package__ or ""
    if not is_top or (not main and _attribute(sys.modules[module], function.__qualname__) is not heuristic):
        return OwnMethod(name, name, sources_of(heuristic, live=[_MAIN, module]), call=heuristic)
    if package:
        return _of_module(name, module, function.__qualname__)
    method = _of_file(name, path, function.__qualname__)
    written = _codes(compile(method.text or "", "", "exec", dont_inherit=True))
    if code_hash(code) not in {code_hash(candidate) for candidate in written if candidate.co_name == code.co_name}:
        raise InputError(f"{name}: {path} is not what was imported any more; import it again, or start again.")
    if not main:
        return method
    now = sources_of(function, live=[_MAIN])  # values that a script has by now
    return OwnMethod(name, method.function, _both(method.sources, now), None, method.file, method.text, heuristic)


def _attribute(module: Any, qualname: str) -> Any:
    for part in qualname.split("."):
        module = getattr(module, part, None)
    return module


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _named(address: str) -> OwnMethod:
    place, _, function = address.rpartition(":")
    if place.endswith(".py"):
        path = Path(place)
        return _of_file(f"{path.name}:{function}", path, function)
    return _of_module(address, place, function)


def _of_file(name: str, path: Path, function: str) -> OwnMethod:
    check_readable(path, _MOST)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; this is no file of Python.") from None
    _check_name(str(path), text, function)
    homes = Homes(PROJECT, home_of(path, None), as_loaded=False)
    homes.add(parse_module(_MAIN, path.resolve(), text))
    sources = _both(function, sources_of(homes=homes, modules=[_MAIN]))
    return OwnMethod(name, function, sources, None, str(path.resolve()), text)


def _of_module(name: str, module: str, function: str) -> OwnMethod:
    try:
        spec = find_spec(module)
    except Exception as error:  # whatever the package above it does
        raise InputError(f"{name}: {module} cannot be imported ({type(error).__name__}: {error}).") from None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise InputError(
            f"{name}: there is no module {module}; install it, or name its file, as in mine.py:{function}."
        )
    path = Path(spec.origin)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    homes = Homes(PROJECT, home_of(path, package or None), as_loaded=False)
    source = homes.read(module)
    if source is not None and function.split(".")[0] not in source.bindings:
        _check_name(str(path), path.read_text(encoding="utf-8"), function)
    return OwnMethod(name, function, _both(function, sources_of(homes=homes, modules=[module])), module)


def _check_name(file: str, text: str, function: str) -> None:
    """Refuse a function that a source does not name."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise InputError(f"{file}: cannot be read as Python ({error}).") from None
    names = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    stored |= {(a.asname or a.name) for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
    if function.split(".")[0] not in {*names, *stored}:
        raise InputError(f"{file}: {unknown(names or ['none'], function, 'function')}")


def _both(*hashes: str) -> str:
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()
