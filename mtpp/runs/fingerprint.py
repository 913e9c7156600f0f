"""Hash of all code that a function, a class or an object stands for: the field `sources` of a run.

Where methods are registered and jobs are defined, functions count one by one, by their byte code and what they name;
all other modules of the project, and those of a caller, count as a whole, see `mtpp.runs.sources`.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import inspect
import pickle
import secrets
import sys
from collections.abc import Iterable
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from mtpp.runs.sources import PROJECT, Homes, Module, hash_of

__all__ = ["code_hash", "module_of", "sources_of"]

#: Name of modules of which functions count one by one.
_REGISTRY = "registry"
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


def sources_of(
    *things: Any,
    glue: Iterable[Any] = (),
    homes: Homes | None = None,
    one_by_one: Iterable[str] = (),
    modules: Iterable[str] = (),
) -> str:
    """Hash of the code that makes an answer.

    Parameters
    ----------
    things : object
        Functions, classes, and objects that hold such.
    glue : iterable
        Functions of this project that call the method, whichever it is: what they import counts but for registries.
    homes : Homes, optional
        Folders whose modules count, those of the project by default; what it has read is not read again.
    one_by_one : iterable of str
        Modules of which functions count one by one.
    modules : iterable of str
        Modules that count as a whole.

    Raises
    ------
    InputError
        If a module cannot be read, or has changed since this process loaded it.
    """
    folders = homes or Homes(PROJECT)
    walks = [_Walk(folders, frozenset(one_by_one), registries=True), _Walk(folders, frozenset(), registries=False)]
    for thing in things:
        walks[0].visit(thing)
    for function in glue:
        walks[1].spell(function)
    closure = folders.closure({*walks[0].modules, *modules}) | walks[1].closure()
    said = [*walks[0].words, *walks[1].words, *(f"{name} {closure[name].digest}" for name in sorted(closure))]
    return hash_of(said)


def code_hash(code: CodeType) -> str:
    """Hash of byte code, wherever it stands: lines and docstrings do not count."""
    words: list[str] = []
    _spell_code(code, words)
    return hash_of(words)


class _Walk:
    """Collects what the hash of a method consists of: words of code that counts function by function, and modules."""

    def __init__(self, homes: Homes, one_by_one: frozenset[str], *, registries: bool) -> None:
        self._homes, self._one_by_one, self._registries = homes, one_by_one, registries
        self._seen: dict[int, Any] = {}  # which keeps them alive, so that no other one takes their place
        self.words: list[str] = []
        self.modules: set[str] = set()

    def closure(self) -> dict[str, Module]:
        """All modules that those visited import, directly or not, without registries and what only these import."""
        kept = {name for name in self.modules if not _is_registry(name)}
        every = self._homes.closure(kept)
        return self._homes.closure(kept, without=[name for name in every if _is_registry(name)])

    def visit(self, value: Any) -> None:
        """Add a value that code names, or that an object contains."""
        if isinstance(value, _PLAIN):
            self.words.append(f"{type(value).__name__} {value!r}")
        elif isinstance(value, np.ndarray | np.generic):
            self.words.append(f"array {value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}")
        elif isinstance(value, ModuleType):
            self._module(value.__name__)
        elif isinstance(value, BuiltinFunctionType | np.ufunc):
            self.words.append(
                f"built in {value!r}" if isinstance(value, np.ufunc) else f"built in {value.__qualname__}"
            )
        elif id(value) in self._seen:
            self.words.append(f"again {type(value).__qualname__}")
        else:
            self._seen[id(value)] = value
            self._thing(value)

    def spell(self, function: FunctionType) -> None:
        """Add the byte code of one function, and everything that it names."""
        _spell_code(function.__code__, self.words)
        self.visit(function.__defaults__)
        self.visit(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            self.visit(_content(cell))
        module = self._homes.read(module_of(function)) if module_of(function) != "__main__" else None
        for name in sorted(_names(function.__code__)):
            bound = None if module is None else module.bindings.get(name)
            if bound is not None:
                self._name(*bound)
            elif name in function.__globals__:
                self.words.append(name)
                self.visit(function.__globals__[name])
        for target, part in _imports(function.__code__):
            self._name(target, part)

    def _thing(self, value: Any) -> None:
        if isinstance(value, tuple | list):
            self.words.append(f"{type(value).__name__} of {len(value)}")
            for item in value:
                self.visit(item)
        elif isinstance(value, set | frozenset):
            self.words.append(f"set {sorted(map(repr, value))}")
        elif isinstance(value, dict):
            self.words.append(f"mapping of {len(value)}")
            for key, item in value.items():
                self.visit(key)
                self.visit(item)
        elif isinstance(value, functools.partial):
            self.visit((value.func, value.args, value.keywords))
        elif isinstance(value, MethodType):
            self.visit((value.__func__, value.__self__))
        elif isinstance(getattr(value, "py_func", None), FunctionType):  # compiled by numba
            self.visit(value.py_func)
        elif isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, type):
            self._class(value)
        else:
            self._object(value)

    def _function(self, function: FunctionType) -> None:
        if self._counts_whole(module_of(function)):
            self.words.append(f"function {module_of(function)} {function.__qualname__}")
            self.modules.add(module_of(function))
            self.visit(function.__defaults__)
            for cell in function.__closure__ or ():
                self.visit(_content(cell))
        elif self._is_foreign(function):
            self.words.append(f"foreign {module_of(function)} {function.__qualname__}")
        else:
            self.spell(function)

    def _class(self, kind: type) -> None:
        self.words.append(f"class {module_of(kind)} {kind.__qualname__}")
        if self._counts_whole(module_of(kind)):
            self.modules.add(module_of(kind))
        elif module_of(kind) == "__main__" or module_of(kind) in self._one_by_one:
            for base in kind.__bases__:
                self.visit(base)
            for name, member in vars(kind).items():
                inner = member.fget if isinstance(member, property) else getattr(member, "func", member)
                inner = inner.__func__ if isinstance(inner, staticmethod | classmethod) else inner
                if (inspect.isfunction(inner) and inner.__code__.co_filename != "<string>") or not name.startswith("_"):
                    self.words.append(name)
                    self.visit(inner)

    def _object(self, value: Any) -> None:
        self.visit(type(value))
        if isinstance(value, Enum):
            self.words.append(value.name)
        elif hasattr(value, "__dict__") and self._homes.read(type(value).__module__) is not None:
            self.visit(dict(vars(value)))
        else:
            try:
                self.words.append(hashlib.sha256(pickle.dumps(value)).hexdigest())
            except Exception:  # so that no old run can answer for it
                self.words.append(secrets.token_hex())

    def _module(self, name: str) -> None:
        self.words.append(f"module {name}")
        if self._homes.read(name) is not None:
            self.modules.add(name)

    def _name(self, target: str, part: str | None) -> None:
        self.words.append(f"from {target} {part}")
        self.modules |= set(self._homes.names(target, part))

    def _counts_whole(self, module: str) -> bool:
        one_by_one = module in self._one_by_one or (self._registries and _is_registry(module))
        return module != "__main__" and not one_by_one and self._homes.read(module) is not None

    def _is_foreign(self, function: FunctionType) -> bool:
        """Whether a function belongs to an installed package that is no part of the question."""
        counts = module_of(function) == "__main__" or module_of(function) in self._one_by_one
        return not counts and self._homes.read(module_of(function)) is None


def module_of(thing: Any) -> str:
    """Module of a function or a class; ``__main__`` if it is of none, as in a notebook."""
    name = getattr(thing, "__module__", None)
    return name if isinstance(name, str) and name in sys.modules else "__main__"


def _is_registry(module: str) -> bool:
    return module.rpartition(".")[2] == _REGISTRY


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is still empty
        return None


def _spell_code(code: CodeType, words: list[str]) -> None:
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    words.append(f"code {code.co_name} {counts} {names} {code.co_code.hex()} {code.co_exceptiontable.hex()}")
    for place, constant in enumerate(code.co_consts):
        if isinstance(constant, CodeType):
            _spell_code(constant, words)
        elif isinstance(constant, frozenset):
            words.append(f"set {sorted(map(repr, constant))}")
        elif place or _loads_first(code):
            words.append(f"{type(constant).__name__} {constant!r}")


def _loads_first(code: CodeType) -> bool:
    """Whether code uses its first constant, which otherwise is a docstring or a placeholder for one."""
    return any(step.opcode in dis.hasconst and step.arg == 0 for step in dis.get_instructions(code))


def _names(code: CodeType) -> set[str]:
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)


def _imports(code: CodeType) -> list[tuple[str, str | None]]:
    """Pairs of a module and a name in it (None for the module itself) that code imports, nested functions included."""
    imports: list[tuple[str, str | None]] = []
    target = ""
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            target = str(step.argval)
            imports.append((target, None))
        elif step.opname == "IMPORT_FROM":
            if imports and imports[-1] == (target, None):
                imports.pop()
            imports.append((target, str(step.argval)))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            imports += _imports(constant)
    return imports
