"""Hashes of the code behind an answer."""

from __future__ import annotations

import ast
import dis
import functools
import gc
import hashlib
import inspect
import pickle
import re
import secrets
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from instances import InputError
from instances.import_guard import SIBLINGS

# Modules that a piece of code is made of, and a hash of what they say.
#
# A module counts with all that it imports inside of the project, also in functions; ``from package import x`` means the
# module of x. It counts by its syntax tree, without docstrings, comments and places: nothing that runs depends on them,
# unless it reads its own docstring or line numbers, which no method may. So a changed comment starts nothing anew, and
# all else does, also a changed constant. Data beside a module of the project count by their bytes.


#: An imported name: a module, and what is taken from it, None for itself.
Name = tuple[str, str | None]

_BEGIN = time.time()
_ROOT = Path(__file__).resolve().parents[2]
#: Fields of syntax trees that change nothing.
_IDLE = frozenset(("ctx", "type_comment", "type_ignores", "kind"))
#: Files beside modules that are no data.
_NO_DATA = (".py", ".pyc", ".pyi", ".typed")
_DOTTED = re.compile(rf"(?:{'|'.join(SIBLINGS)})(?:\.\w+)+")
_FILE_NAME = re.compile(r"[\w./ -]{1,200}\.\w{1,10}")


@dataclass(frozen=True)
class Module:
    """A source file, as far as other code depends on it."""

    name: str
    path: Path
    digest: str  # of its syntax tree, and of data
    imports: frozenset[Name]
    bindings: dict[str, Name]  # names that imports give, at the top of the module
    named: tuple[Path, ...]  # files beside it, if they are there, that its texts name

    @property
    def is_package(self) -> bool:
        """Whether it is the beginning of a package."""
        return self.path.name == "__init__.py"


@dataclass(frozen=True)
class Home:
    """Folder with modules: those with one of the first names, or all."""

    folder: Path
    tops: frozenset[str] | None = None
    is_project: bool = False  # whose packages compute nothing while they are imported, and whose data all count

    def find(self, name: str) -> Path | None:
        """The file of a module; None if it is not here."""
        parts = name.split(".")
        if self.tops is not None and parts[0] not in self.tops:
            return None
        base = self.folder.joinpath(*parts)
        for path in (base / "__init__.py", base.with_name(f"{base.name}.py")):
            if path.is_file():
                return path
        return None


#: The packages of this project.
PROJECT = Home(_ROOT, frozenset(SIBLINGS), is_project=True)


def home_of(path: Path, package: str | None) -> Home:
    """The folder in which a caller's module counts with its neighbours; of an installed one its package alone."""
    depth = len(package.split(".")) if package else 0
    folder = path.resolve().parents[depth]
    installed = {Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib", "stdlib")}
    top = path.stem if not package else package.split(".")[0]
    return Home(folder, frozenset((top,)) if folder in installed else None)


class Homes:
    """Modules of some folders, the first that has a module counts; each is looked at once.

    Parameters
    ----------
    homes : Home
    as_loaded : bool
        Whether modules of callers count as this process has loaded them, not as their files say now.
    """

    def __init__(self, *homes: Home, as_loaded: bool = True) -> None:
        self._homes, self._as_loaded = homes, as_loaded
        self._known: dict[str, Module | None] = {}

    def read(self, name: str) -> Module | None:
        """A module as it is loaded here, or else as its file says now; None if it is in none of the folders.

        Raises
        ------
        InputError
            If it cannot be read as Python, or has changed since this process loaded it.
        """
        if name not in self._known:
            self._known[name] = self._look(name)
        return self._known[name]

    def _look(self, name: str) -> Module | None:
        for home in self._homes:
            path = home.find(name)
            if path is not None:
                loaded = sys.modules.get(name) if home.is_project or self._as_loaded else None
                if loaded is not None and getattr(loaded, "__file__", None) == str(path):
                    return _with_data(_as_loaded(name, path, loaded, home.is_project), home.is_project)
                return _with_data(_as_written(name, path), home.is_project)
        return None

    def names(self, target: str, part: str | None) -> list[str]:
        """Modules that an imported name comes from; none if it is foreign."""
        module = self.read(target)
        if module is None:
            return []
        if part is None or not module.is_package:
            return [target]
        if (module.bindings.get(part) or (target, part)) != (target, part):
            return self.names(*module.bindings[part])
        return [f"{target}.{part}"] if self.read(f"{target}.{part}") is not None else [target]

    def closure(self, names: Iterable[str], without: Iterable[str] = ()) -> dict[str, Module]:
        """These modules and all that they import, but for those left out and what these alone import."""
        modules: dict[str, Module] = {}
        todo, left_out = list(names), frozenset(without)
        while todo:
            name = todo.pop()
            module = None if name in modules or name in left_out else self.read(name)
            if module is None:
                continue
            modules[name] = module
            if not PROJECT.find(name):  # the beginnings of others' packages may compute
                todo += [name.rsplit(".", dots)[0] for dots in range(1, name.count(".") + 1)]
            todo += [other for imported in module.imports for other in self.names(*imported)]
        return modules


def _as_loaded(name: str, path: Path, loaded: ModuleType, is_project: bool) -> Module:
    """The module as this process loaded it: what its file contained at the first look since then."""
    first = _FIRST_LOOKS.get(name)
    if first is None or first[0] is not loaded.__spec__:
        if first is None and is_project and path.stat().st_mtime > _BEGIN:
            raise InputError(f"{path} has changed since this program started; start it again.")
        first = _FIRST_LOOKS[name] = (loaded.__spec__, _as_written(name, path))
    return first[1]


_FIRST_LOOKS: dict[str, tuple[object, Module]] = {}


def _as_written(name: str, path: Path) -> Module:
    return _parsed(name, path, _state(path))


def _state(path: Path) -> tuple[int, int]:
    """Time of the last change and size of a file, which change with its content."""
    state = path.stat()
    return state.st_mtime_ns, state.st_size


def _with_data(module: Module, is_project: bool) -> Module:
    """A module whose hash counts data: files beside those of the project, and those that others name."""
    files = _beside(module.path.parent) if is_project else [f for f in module.named if f.is_file()]
    if not files:
        return module
    words = [module.digest, *(f"{file.name} {_bytes_hash(file, _state(file))}" for file in files)]
    return replace(module, digest=hash_of(words))


def _beside(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.suffix not in _NO_DATA and f.name[0] != "." and f.is_file())


@lru_cache(1024)
def _bytes_hash(path: Path, state: tuple[int, int]) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@lru_cache(4096)
def _parsed(name: str, path: Path, state: tuple[int, int]) -> Module:
    return parse_module(name, path, path.read_bytes())


def parse_module(name: str, path: Path, text: bytes | str) -> Module:
    """A module whose file holds this text, without its data.

    Raises
    ------
    InputError
        If it is no Python.

    Examples
    --------
    >>> one, two = (parse_module("m", Path("m.py"), text).digest for text in ("x = 1  # one", "x = 1.0"))
    >>> one == parse_module("m", Path("m.py"), "'About x.'; x = 1").digest, one == two
    (True, False)
    """
    try:
        with _no_collection():
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as Python ({error}).") from None
    words: list[str] = []
    _spell(tree, words)
    is_package = path.name == "__init__.py"
    package = name if is_package else name.rpartition(".")[0]
    hidden = frozenset() if is_package else _for_types(tree)  # a package loads those when it is asked for them
    nodes = list(ast.walk(tree))
    imports = frozenset(name for n in nodes if id(n) not in hidden for name in _imported(n, package))
    top = {id(n) for statement in tree.body for n in (statement, *getattr(statement, "body", ()))}
    bindings = {bound: name for n in nodes if id(n) in top for bound, name in _bound(n, package)}
    texts = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    named = {path.parent / text for text in texts if _FILE_NAME.fullmatch(text)}
    return Module(name, path, hash_of(words), imports, bindings, tuple(sorted(named)))


def hash_of(words: list[str]) -> str:
    """Hash of a list of texts, also of such that are no UTF-8."""
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()


def _spell(node: ast.AST, words: list[str]) -> None:
    """Append the syntax tree as words; empty fields are left out, so that all versions of Python give the same."""
    kind = type(node)
    words.append(kind.__name__)
    for field in _fields(kind):
        value = getattr(node, field, None)
        if isinstance(value, ast.AST):
            words.append(field)
            _spell(value, words)
        elif isinstance(value, list):
            if value:
                words.append(field)
            for item in value:
                if not isinstance(item, ast.AST):
                    words.append(repr(item))
                elif not _is_remark(item):
                    _spell(item, words)
        elif value is not None:
            words += (field, repr(value))
    words.append(")")


def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(field for field in kind._fields if field not in _IDLE)
    return _FIELDS[kind]


_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}


def _is_remark(node: ast.AST) -> bool:
    """Whether a statement is nothing but a text, as a docstring is."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _for_types(tree: ast.Module) -> frozenset[int]:
    """Identities of the nodes in branches that only type checkers read."""
    branches = [n for n in tree.body if isinstance(n, ast.If) and getattr(n.test, "id", None) == "TYPE_CHECKING"]
    return frozenset(id(n) for branch in branches for part in branch.body for n in ast.walk(part))


def _imported(node: ast.AST, package: str) -> Iterator[Name]:
    """Names that a node imports; a text that names a module of the project stands for its import."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, None) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from ((_absolute(node, package), None if a.name == "*" else a.name) for a in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
        yield node.value, None


def _bound(node: ast.AST, package: str) -> Iterator[tuple[str, Name]]:
    if isinstance(node, ast.ImportFrom):
        yield from ((a.asname or a.name, (_absolute(node, package), a.name)) for a in node.names if a.name != "*")
    elif isinstance(node, ast.Import):
        yield from ((a.asname or a.name.split(".")[0], (a.name, None)) for a in node.names)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    base = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
    return ".".join(filter(None, (base, node.module)))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Switch garbage collection off meanwhile: it takes most of the time of parsing."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


# Hash of all code that a function, a class or an object stands for: the field `sources` of a run.
#
# Where methods are registered and jobs are defined, functions count one by one, by their byte code and what they name;
# all other modules of the project, and those of a caller, count as a whole, see `mtpp.runs.sources`.


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
    words = [*walks[0].words, *walks[1].words, *(f"{name} {closure[name].digest}" for name in sorted(closure))]
    return hash_of(words)


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
        modules = {name for name in self.modules if not _is_registry(name)}
        every = self._homes.closure(modules)
        return self._homes.closure(modules, without=[name for name in every if _is_registry(name)])

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
