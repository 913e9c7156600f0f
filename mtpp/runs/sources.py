"""Source files, their parts, and the packages behind an answer."""

from __future__ import annotations

import ast
import hashlib
import re
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from instances import InputError
from instances.system.files import syntax_tree
from instances.system.import_guard import SIBLINGS
from mtpp.versions import version_of_import

# Modules that a piece of code is made of, and a hash of what they say.
#
# A definition at the top of a module of the project counts with all that it names, directly or not: definitions of the
# module, and what it imports, also in functions; ``from package import x`` means the module of x. Of a class those
# methods count whose names are mentioned. Statements that do more than to define count with all that is taken from
# their module. Modules of callers count as a whole, installed packages by their versions.
#
# Code counts by its syntax tree, without docstrings, comments and places: nothing that runs depends on them, unless it
# reads its own docstring or line numbers, which no method may. So a changed comment starts nothing anew, and neither
# does a definition that a method does not use. Data beside a module of the project count by their bytes.


#: An imported name: a module, and what is taken from it, None for itself.
Name = tuple[str, str | None]

#: Name of modules that list methods.
_REGISTRY = "registry"
_BEGIN = time.time()
_ROOT = Path(__file__).resolve().parents[2]
#: Fields of syntax trees that change nothing.
_IDLE = frozenset(("ctx", "type_comment", "type_ignores", "kind"))
#: Decorators that do nothing but to return what takes the place of a definition.
_DECORATORS = frozenset(
    ("cache", "compiled", "contextmanager", "dataclass", "lru_cache", "media", "one_thread", "overload")
)
#: Modules whose classes call no methods of theirs but special ones.
_ABSTRACT = frozenset(("abc", "enum", "typing", "typing_extensions"))
#: Files beside modules that are no data.
_NO_DATA = (".py", ".pyc", ".pyi", ".typed")
_DOTTED = re.compile(rf"(?:{'|'.join(SIBLINGS)})(?:\.\w+)+")
_DOTTED_NAMES = re.compile(r"[\w.]{1,200}")
_FILE_NAME = re.compile(r"[\w./ -]{1,200}\.\w{1,10}")


@dataclass(frozen=True)
class Part:
    """A top-level statement, a method, or another part of a class, as a unit of dependency."""

    digest: str  # of its syntax tree, or of data
    names: frozenset[str] = frozenset()  # that it mentions: of definitions, imports and attributes
    imports: frozenset[Name] = frozenset()  # that stand in it
    bases: tuple[str, ...] = ()  # names in the bases of a class


@dataclass(frozen=True)
class Use:
    """A definition with the names that it uses."""

    digest: str  # of its parts, and of what imported names mean there
    names: frozenset[str]  # that it mentions
    places: frozenset[Name]  # where what it uses is defined
    methods: list[str]  # that are parts of a class; each counts if its name is mentioned anywhere


@dataclass(frozen=True)
class Module:
    """A source file as a set of parts."""

    name: str
    path: Path
    bindings: dict[str, Name]  # names that imports give, at the top of the module
    named: tuple[Path, ...]  # paths beside it that its string literals name; files that exist there are its data
    # By the name that is defined, "class.method" for methods; "" holds top-level code with effects, which belongs to
    # every name imported from the module.
    parts: dict[str, tuple[Part, ...]]

    @property
    def is_package(self) -> bool:
        """Whether the file is a package's ``__init__``."""
        return self.path.name == "__init__.py"

    def methods(self, name: str) -> list[str]:
        """Names of the parts ("Class.method") of a class; empty if the name is no class."""
        return [part for part in self.parts if part.startswith(f"{name}.")]


@dataclass(frozen=True)
class Home:
    """A folder with modules; either all count, or those with certain first names."""

    folder: Path
    tops: frozenset[str] | None = None
    is_project: bool = False  # whose packages compute nothing while they are imported, and whose data all count

    def find(self, name: str) -> Path | None:
        """The file of a module; None if the folder does not have it."""
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
    """The folder whose modules count as the caller's; for an installed package, the package alone."""
    depth = len(package.split(".")) if package else 0
    folder = path.resolve().parents[depth]
    installed = {Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib", "stdlib")}
    top = path.stem if not package else package.split(".")[0]
    return Home(folder, frozenset((top,)) if folder in installed else None)


class Homes:
    """Modules of several folders, in order of precedence, each parsed once.

    Parameters
    ----------
    homes : Home
    as_loaded : bool
        Whether modules of callers count as this process has loaded them, not as their files say now.
    """

    def __init__(self, *homes: Home, as_loaded: bool = True) -> None:
        self._homes, self._as_loaded = homes, as_loaded
        self._modules: dict[str, Module | None] = {}
        self._used: dict[Name, Use] = {}

    def read(self, name: str) -> Module | None:
        """A module as loaded, else as its file is now; None if no folder has it.

        Raises
        ------
        InputError
            If it cannot be read as Python, or has changed since this process loaded it.
        """
        if name not in self._modules:
            self._modules[name] = self._look(name)
        return self._modules[name]

    def add(self, module: Module) -> None:
        """Add a caller's module that lies in no folder, with the data files that it names."""
        self._modules[module.name] = _with_data(module, is_project=False)

    def _look(self, name: str) -> Module | None:
        for home in self._homes:
            path = home.find(name)
            if path is not None:
                loaded = sys.modules.get(name) if home.is_project or self._as_loaded else None
                if loaded is not None and getattr(loaded, "__file__", None) == str(path):
                    return _with_data(_as_loaded(name, path, loaded, home.is_project), home.is_project)
                return _with_data(_as_written(name, path, home.is_project), home.is_project)
        return None

    def origin(self, target: str, part: str | None) -> Name:
        """Where an imported name is defined: a part of a module, or a whole module."""
        module = self.read(target)
        if module is None or part is None:
            return target, None
        if (module.bindings.get(part) or (target, part)) != (target, part):
            return self.origin(*module.bindings[part])
        if module.is_package and self.read(f"{target}.{part}") is not None:
            return f"{target}.{part}", None
        return target, part if part in module.parts else None

    def use(self, module: Module, name: str) -> Use:
        """The `Use` of a definition of a module: its hash, and the names that it uses."""
        if (module.name, name) not in self._used:
            parts = module.parts[name]
            names = frozenset[str]().union(*(part.names for part in parts))
            bound = {word: module.bindings[word] for word in sorted(names & module.bindings.keys())}
            taken = [*bound.values(), *(imported for part in parts for imported in part.imports)]
            places: set[Name] = {(module.name, word) for word in ("", *(names & module.parts.keys()))}
            places |= {self.origin(*imported) for imported in taken}
            methods = module.methods(name)
            if self._is_called_back(module, name):
                places |= {(module.name, method) for method in methods}
            digest = hash_of([*(part.digest for part in parts), *(f"{word} {bound[word]}" for word in bound)])
            self._used[module.name, name] = Use(digest, names, frozenset(places), methods)
        return self._used[module.name, name]

    def _is_called_back(self, module: Module, name: str) -> bool:
        """Whether a class has a foreign base class, which may call any of its methods."""
        for base in (base for part in module.parts.get(name, ()) for base in part.bases):
            target, part = self.origin(*module.bindings[base]) if base in module.bindings else (module.name, base)
            source = self.read(target)
            if target not in _ABSTRACT if source is None else self._is_called_back(source, part or ""):
                return True
        return False


def _is_registry(module: str) -> bool:
    return module.rpartition(".")[2] == _REGISTRY


class Closure:
    """All parts that code uses, directly or not, and the packages that they import.

    Parameters
    ----------
    homes : Homes
    registries : bool
        Whether registries of methods count as used code.
    """

    def __init__(self, homes: Homes, *, registries: bool) -> None:
        self._homes, self._registries = homes, registries
        self._digests: dict[Name, str] = {}
        self._packages: set[str] = set()
        self._mentioned: set[str] = set()
        self._waiting: dict[str, list[Name]] = {}  # methods that nothing has mentioned

    def add(self, names: Iterable[Name]) -> None:
        """Add definitions, with everything that they use."""
        todo = list(names)
        while todo:
            target, name = todo.pop()
            module = self._homes.read(target)
            if module is None:
                self._packages.add(target.partition(".")[0])
            elif name is None:
                todo += [(target, part) for part in module.parts if "." not in part]
            elif (target, name) not in self._digests and (self._registries or not _is_registry(target)):
                use = self._homes.use(module, name)
                self._digests[target, name] = use.digest
                self._mentioned |= use.names
                todo += use.places
                for method in use.methods:
                    word = method.removeprefix(f"{name}.")
                    if word in self._mentioned:
                        todo.append((target, method))
                    else:
                        self._waiting.setdefault(word, []).append((target, method))
                for word in use.names:
                    todo += self._waiting.pop(word, ())

    def mention(self, names: Iterable[str]) -> None:
        """Add attribute names that other code mentions; methods with these names count as used."""
        self._mentioned |= set(names)

    def words(self) -> list[str]:
        """Texts to hash: each definition with its hash, and each package with its version."""
        packages = sorted(self._packages - sys.stdlib_module_names - set(SIBLINGS))
        definitions = [f"{module} {name} {digest}" for (module, name), digest in sorted(self._digests.items())]
        return [*definitions, *(f"{name} {version_of_import(name)}" for name in packages)]


def _as_loaded(name: str, path: Path, loaded: ModuleType, is_project: bool) -> Module:
    """The module as its file was when this process first looked at it after loading it."""
    first = _FIRST_LOOKS.get(name)
    if first is None or first[0] is not loaded.__spec__:
        if first is None and is_project and path.stat().st_mtime > _BEGIN:
            raise InputError(f"{path} has changed since this program started; start it again.")
        first = _FIRST_LOOKS[name] = (loaded.__spec__, _as_written(name, path, is_project))
    return first[1]


_FIRST_LOOKS: dict[str, tuple[object, Module]] = {}


def _as_written(name: str, path: Path, is_project: bool) -> Module:
    return _parsed(name, path, _state(path), is_project)


def _state(path: Path) -> tuple[int, int]:
    """Modification time and size of a file."""
    state = path.stat()
    return state.st_mtime_ns, state.st_size


def _with_data(module: Module, is_project: bool) -> Module:
    """A module with its data files: those beside it in the project, or those that it names."""
    named = (f for f in module.named if f.is_file() and f.resolve() != _WRITTEN.get())
    files = _beside(module.path.parent) if is_project else [*named]
    data = tuple(Part(f"{file.name} {_bytes_hash(file, _state(file))}") for file in files)
    return replace(module, parts={**module.parts, "": (*module.parts[""], *data)})


@contextmanager
def writing(file: str | Path | None) -> Iterator[None]:
    """Do not count a file that is being written, such as a file of runs, as data of a method inside the context."""
    token = _WRITTEN.set(None if file is None else Path(file).resolve())
    try:
        yield
    finally:
        _WRITTEN.reset(token)


_WRITTEN: ContextVar[Path | None] = ContextVar("_WRITTEN", default=None)


def _beside(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.suffix not in _NO_DATA and f.name[0] != "." and f.is_file())


@lru_cache(1024)
def _bytes_hash(path: Path, state: tuple[int, int]) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@lru_cache(4096)
def _parsed(name: str, path: Path, state: tuple[int, int], is_project: bool) -> Module:
    return parse_module(name, path, path.read_bytes(), in_parts=is_project)


def parse_module(name: str, path: Path, text: bytes | str, *, in_parts: bool = False) -> Module:
    """A module from its text, without data, as one part or as several.

    Raises
    ------
    InputError
        If it is no Python.

    Examples
    --------
    >>> one, two = (parse_module("m", Path("m.py"), text) for text in ("x = 1  # one", "x = 1.0"))
    >>> one == parse_module("m", Path("m.py"), "'About x.'; x = 1"), one == two
    (True, False)
    """
    try:
        tree = syntax_tree(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as Python ({error}).") from None
    is_package = path.name == "__init__.py"
    package = name if is_package else name.rpartition(".")[0]
    # A package loads what only type checkers read when it is asked for it.
    shown = [[n] if is_package or not _is_for_types(n) else getattr(n, "orelse", []) for n in tree.body]
    statements = [n for part in shown for n in part]
    top = [*statements, *(inner for n in statements for inner in getattr(n, "body", ()))]
    bindings = {bound: name for n in top for bound, name in _bound(n, package)}
    if in_parts:
        parts = _parts([n for n in tree.body if not _is_for_types(n)], package)
        mentioned = frozenset[str]().union(*(part.names for same in parts.values() for part in same))
        unused = frozenset() if is_package else bindings.keys() - mentioned  # imports that may do something
        parts[""] = (*parts[""], Part("", imports=frozenset(bindings[bound] for bound in unused)))
        return Module(name, path, bindings, (), parts)
    nodes = [n for statement in statements for n in ast.walk(statement)]
    imports = frozenset(name for n in nodes for name in _imported(n, package))
    texts = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    named = {path.parent / text for text in texts if _FILE_NAME.fullmatch(text)}
    # The beginnings of others' packages may compute.
    beginnings = {(name.rsplit(".", dots)[0], None) for dots in range(1, name.count(".") + 1)}
    whole = replace(_part([tree], package), imports=imports | beginnings)
    return Module(name, path, bindings, tuple(sorted(named)), {"": (whole,)})


def _parts(statements: list[ast.stmt], package: str) -> dict[str, tuple[Part, ...]]:
    """Parts of a module by the names that they define."""
    parts: dict[str, tuple[Part, ...]] = {"": ()}
    for statement in statements:
        for name, nodes in _definitions(statement):
            parts[name] = (*parts.get(name, ()), _part(nodes, package))
    return parts


def _definitions(statement: ast.stmt) -> Iterator[tuple[str, Sequence[ast.AST]]]:
    """Names that a statement defines, with their syntax; an empty name if it may have effects."""
    decorators = [n.func if isinstance(n, ast.Call) else n for n in getattr(statement, "decorator_list", ())]
    if any(getattr(n, "id", getattr(n, "attr", None)) not in _DECORATORS for n in decorators):
        yield "", [statement]
    elif isinstance(statement, ast.ClassDef):
        methods = [n for n in statement.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("__")]
        rest = [n for n in statement.body if n not in methods]
        head = ast.ClassDef(statement.name, statement.bases, statement.keywords, [], statement.decorator_list)
        yield statement.name, [head, *rest]
        yield from ((f"{statement.name}.{method.name}", [method]) for method in methods)
    elif isinstance(statement, ast.FunctionDef):
        yield statement.name, [statement]
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        flat = [item for target in targets for item in getattr(target, "elts", [target])]
        names = {item.id if isinstance(item, ast.Name) else "" for item in flat}
        yield from ((name, [statement]) for name in ([""] if "" in names else names))
    elif not isinstance(statement, ast.Import | ast.ImportFrom) or any(a.name == "*" for a in statement.names):
        yield "", [statement]


def _part(nodes: Sequence[ast.AST], package: str) -> Part:
    words: list[str] = []
    inner: list[ast.AST] = []
    for node in nodes:
        if not _is_remark(node):
            _spell(node, words, inner)
    names = frozenset(name for n in inner for name in _mentioned(n))
    imports = frozenset(name for n in inner for name in _imported(n, package))
    bases = [n.id for base in getattr(nodes[0], "bases", ()) for n in ast.walk(base) if isinstance(n, ast.Name)]
    return Part(hash_of(words), names, imports, tuple(bases))


def _mentioned(node: ast.AST) -> Iterable[str]:
    """Names in a node, and names in texts, as in ``getattr(x, "name")``."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.MatchClass):
        return node.kwd_attrs
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    return text.split(".") if _DOTTED_NAMES.fullmatch(text) else ()


def hash_of(words: list[str]) -> str:
    """Hash of a list of texts, even those that are not valid UTF-8."""
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()


def _spell(node: ast.AST, words: list[str], naming: list[ast.AST]) -> None:
    """Append the syntax tree to `words`, the same in all versions of Python, and what names something to `naming`."""
    kind = type(node)
    words.append(kind.__name__)
    if kind in _NAMING:
        naming.append(node)
    for field in _fields(kind):
        value = getattr(node, field, None)
        if isinstance(value, ast.AST):
            words.append(field)
            _spell(value, words, naming)
        elif isinstance(value, list):
            if value:
                words.append(field)
            for item in value:
                if not isinstance(item, ast.AST):
                    words.append(repr(item))
                elif not _is_remark(item):
                    _spell(item, words, naming)
        elif value is not None:
            words += (field, repr(value))
    words.append(")")


#: Syntax in which `_mentioned` or `_imported` sees a name.
_NAMING = frozenset((ast.Attribute, ast.Constant, ast.Import, ast.ImportFrom, ast.MatchClass, ast.Name))


def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(field for field in kind._fields if field not in _IDLE)
    return _FIELDS[kind]


_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}


def _is_remark(node: ast.AST) -> bool:
    """Whether a statement is a bare text, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_for_types(node: ast.AST) -> bool:
    """Whether a statement is a branch that only type checkers read."""
    return isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING"


def _imported(node: ast.AST, package: str) -> Iterator[Name]:
    """Names that a node imports, or that a text names as a module of the project."""
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
