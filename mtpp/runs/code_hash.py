"""Hash of the code behind an answer: the field `sources` of a run."""

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

from mtpp.runs.sources import PROJECT, Closure, Homes, Name, hash_of

# Functions and classes count by where they are defined, with what they hold by now; code that has no place in a file,
# as a lambda or a cell of a notebook, counts by its byte code and what that names.


_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


def sources_of(*things: Any, **scope: Any) -> str:
    """Hash of the code behind an answer, from `code_words`, whose parameters it has."""
    return hash_of(code_words(*things, **scope))


def code_words(
    *things: Any,
    glue: Iterable[Any] = (),
    homes: Homes | None = None,
    live: Iterable[str] = (),
    modules: Iterable[str] = (),
) -> list[str]:
    """Texts from which the code behind an answer is hashed: values, definitions, package versions.

    Parameters
    ----------
    things : object
        Functions, classes, and objects that contain them: the method.
    glue : iterable
        Functions of this project that call any method: all that they use counts, except registries of methods.
    homes : Homes, optional
        Folders whose modules count, by default those of the project; modules that it has read are not read again.
    live : iterable of str
        Modules whose functions count by byte code and the present values of its names, as for a script.
    modules : iterable of str
        Modules that count as a whole.

    Raises
    ------
    InputError
        If a module cannot be read, or has changed since this process loaded it.
    """
    folders = homes or Homes(PROJECT)
    walk = _Walk(folders, frozenset(live))
    for thing in things:
        walk.visit(thing)
    closure, beside = Closure(folders, registries=True), Closure(folders, registries=False)
    closure.mention(walk.mentioned)
    closure.add([*walk.places, *((module, None) for module in modules)])
    beside.add(folders.origin(module_of(function), function.__qualname__) for function in glue)
    return [*walk.words, *closure.words(), *beside.words()]


def code_hash(code: CodeType) -> str:
    """Hash of byte code, independent of line numbers and docstrings."""
    words: list[str] = []
    _spell_code(code, words)
    return hash_of(words)


class _Walk:
    """Collects everything that the hash of a method depends on."""

    def __init__(self, homes: Homes, live: frozenset[str]) -> None:
        self._homes, self._live = homes, live | {"__main__"}
        self._seen: dict[int, Any] = {}  # which keeps them alive, so that no other one takes their place
        self.words: list[str] = []
        self.places: list[Name] = []
        self.mentioned: set[str] = set()  # by byte code

    def visit(self, value: Any) -> None:
        """Add a value that is named in code or contained in an object."""
        if isinstance(value, _PLAIN):
            self.words.append(f"{type(value).__name__} {value!r}")
        elif isinstance(value, np.ndarray | np.generic):
            self.words.append(f"array {value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}")
        elif isinstance(value, ModuleType):
            self._name(value.__name__, None)
        elif isinstance(value, BuiltinFunctionType | np.ufunc):
            self.words.append(
                f"built in {value!r}" if isinstance(value, np.ufunc) else f"built in {value.__qualname__}"
            )
        elif id(value) in self._seen:
            self.words.append(f"again {type(value).__qualname__}")
        else:
            self._seen[id(value)] = value
            self._thing(value)

    def _spell(self, function: FunctionType) -> None:
        """Add the byte code of a function, and everything that it names."""
        _spell_code(function.__code__, self.words)
        self.visit(function.__kwdefaults__)
        module = self._homes.read(module_of(function)) if module_of(function) != "__main__" else None
        names = _names(function.__code__)
        self.mentioned |= names
        for name in sorted(names):
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
        module, name = module_of(function), function.__qualname__
        if module in self._live or (name.startswith("<") and self._homes.read(module) is not None):
            self._spell(function)
        else:
            self._name(module, name.partition(".<")[0])
        if module in self._live or self._homes.read(module) is not None:
            self.visit(function.__defaults__)
            for cell in function.__closure__ or ():
                self.visit(_content(cell))

    def _class(self, kind: type) -> None:
        for base in kind.__mro__:
            module, name = module_of(base), base.__qualname__.partition(".<")[0]
            source = None if module in self._live else self._homes.read(module)
            if source is not None:
                self.places += [(module, method) for method in source.methods(name)]
            if module not in self._live:
                self._name(module, name)
                continue
            self.words.append(f"class {base.__qualname__}")
            for label, member in vars(base).items():
                inner = member.fget if isinstance(member, property) else getattr(member, "func", member)
                inner = inner.__func__ if isinstance(inner, staticmethod | classmethod) else inner
                if (inspect.isfunction(inner) and inner.__code__.co_filename != "<string>") or label[0] != "_":
                    self.words.append(label)
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

    def _name(self, target: str, part: str | None) -> None:
        self.words.append(f"from {target} {part}")
        self.places.append(self._homes.origin(target, part))


def module_of(thing: Any) -> str:
    """Module of a function or a class; ``__main__`` if it has none, as in a notebook."""
    name = getattr(thing, "__module__", None)
    return name if isinstance(name, str) and name in sys.modules else "__main__"


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
    """Whether code uses its first constant, which otherwise is just a docstring."""
    return any(step.opcode in dis.hasconst and step.arg == 0 for step in dis.get_instructions(code))


def _names(code: CodeType) -> set[str]:
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)


def _imports(code: CodeType) -> list[tuple[str, str | None]]:
    """Pairs (module, name) that code imports; the name is None for a whole module."""
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
