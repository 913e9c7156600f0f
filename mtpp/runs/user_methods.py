"""Methods of callers: searches and bounds, as objects, ``package.module:NAME`` and ``file.py:NAME``.

A job carries the source of the file; a process of its own loads it and runs it, and is ended when its time is over.
Nothing that it returns is trusted: a partition is made anew from its blocks and its cost computed anew, and a bound
counts as stated, never as proved.
"""

from __future__ import annotations

import ast
import hashlib
import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from inspect import isfunction, unwrap
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from heuristics import HEURISTICS
from heuristics.method import Method
from instances import Bound, InputError, Instance, Partition, Result
from instances.certificates import STATED
from instances.errors import MethodError, WordError, unknown
from instances.json_files import check_readable
from instances.results import LP_SUFFIX, exceeds
from instances.system.files import syntax_tree
from mtpp.certifying.loop import Method as LoopMethod
from mtpp.runs.code_hash import code_hash, module_of, sources_of
from mtpp.runs.method_process import MethodAnswer, ModelKind, Place, Task, ask_here, ask_process, is_model, kind_of
from mtpp.runs.sources import PROJECT, Homes, home_of, parse_module
from mtpp_models import MODELS
from mtpp_models.formulations.formulation import Formulation
from mtpp_models.registry import Model, find_model
from mtpp_models.simple import as_answer, one_block
from mtpp_models.solvers.interface import Controls

#: The method that searches and proves under one time limit.
CERTIFY = "certify"
#: Bytes of a file that a job carries.
_MOST = 2**20
# Of a turn in a certification: its part of the time that is left, if it is the first; the seconds until it is ended.
_TURN, _GRACE_OF_TURNS = 0.1, 2.0
_MAIN = "__main__"
# Forms in which a model is given.
_MODELS = "a Formulation, an Algorithm, a name, package.module:NAME or file.py:NAME"


@dataclass(frozen=True, eq=False)
class UserMethod:
    """A search or a bound written by the caller."""

    name: str  # as runs call it
    function: str  # its name in its module or file
    sources: str  # hash of its code
    module: str | None = None  # by which processes import it
    file: str | None = None  # path of the file, if it is no module of a package
    text: str | None = None  # of that file
    call: Any = field(default=None, repr=False)  # the method itself, of this process alone
    model: ModelKind | None = None  # of a bound

    @property
    def can_travel(self) -> bool:
        """Whether other processes can load the method."""
        return self.module is not None or self.text is not None

    @property
    def place(self) -> Place:
        """Where other processes find the method."""
        return self.module, self.file, self.text, self.function

    def __getstate__(self) -> dict[str, Any]:
        if not self.can_travel:
            raise TypeError(f"the method {self.name} has no file")
        return vars(self) | {"call": None}

    def load(self) -> None:
        """Load the method in a process kept for it.

        Raises
        ------
        InputError
            If the method cannot be loaded.
        """
        try:
            if self.call is None:
                ask_process(self.sources, self.place, None)
        except MethodError as error:
            raise InputError(f"{self.name}: {error}") from None

    def answer(
        self, task: Task, patience: float | None, grace: float | None = None
    ) -> tuple[Partition | None, MethodAnswer]:
        """Run the method in a process; return its partition and the fields of its answer.

        Parameters
        ----------
        task : Task
        patience, grace : float, optional
            Its process is ended `grace` seconds, by default 10, after 1.1 times `patience`, or never.

        Raises
        ------
        InputError, MethodError
            If it fails, does not end, returns something else than a partition of the instance that fits, or a bound
            above the cost of a partition.
        KeyboardInterrupt
            At Ctrl-C.
        """
        if self.call is not None:
            answer = ask_here(self.call, task, patience, grace)
        else:
            answer = MethodAnswer(**ask_process(self.sources, self.place, task, patience, grace))
        partition = None
        if answer.block is not None:
            partition = Partition(task.instance, answer.block, answer.order, answer.kind)
            if not partition.bottleneck < math.inf:
                raise InputError("its partition does not fit, or breaks a constraint.")
        if answer.bound is not None:
            _refuse_above(answer.bound, task.instance, [partition, task.start])
        return partition, answer

    def result(self, task: Task, patience: float | None, grace: float | None = None) -> Result:
        """Outcome of a run as a result with a stated bound; errors are those of `answer`, except Ctrl-C."""
        try:
            partition, answer = self.answer(task, patience, grace)
        except KeyboardInterrupt:
            return Result(self.name, task.instance, interrupted=True)
        result = Result(self.name, task.instance, partition, seconds={"run": answer.seconds})
        return self.stating(result, answer.bound)

    def stating(self, result: Result, value: float | None) -> Result:
        """A result of this method with its bound marked as stated, not proved."""
        if value is None:
            return replace(result, bound=None)
        bound = Bound(value, STATED, optimal=False, witness={"by": self.name, "sources": self.sources})
        unit = result.instance.time_unit
        note = f"{self.name} states the bound {value:.6g} {unit}; nothing here has proved it"
        return replace(result, bound=bound, solver=None, notes=(*result.notes, note))


def _refuse_above(bound: float, instance: Instance, partitions: Iterable[Partition | None]) -> None:
    """Refuse a bound above the cost of one of these partitions, or of all nodes in one block."""
    for partition in (*partitions, as_answer(instance, one_block(instance))):
        if partition is not None and exceeds(bound, partition.bottleneck):
            raise MethodError(
                f"its bound {bound:.6g} is above the bottleneck {partition.bottleneck:.6g} of a partition"
            )


def turns_of(methods: Iterable[Any]) -> list[LoopMethod[Instance, Partition]]:
    """Methods of a caller, in the form that takes turns in `certify`.

    Raises
    ------
    InputError
        As `as_user_method`, and of names of this project, whose methods take part anyway.
    """
    turns = []
    for method in map(as_user_method, methods):
        if isinstance(method, str):
            raise WordError("methods", method, "name those of your own; all of this project take part by themselves.")
        refuse_taken_name(method)
        with suppress(InputError):  # its first turn says so; a file that is loaded then takes time of all others
            method.load()
        turns.append(_turn_of(method))
    return turns


def _turn_of(method: UserMethod) -> LoopMethod[Instance, Partition]:
    def run(best: Result, controls: Controls) -> Result:
        remaining = controls.deadline.time_limit
        try:
            return method.result(Task(best.instance, controls.options, best.partition), remaining, _GRACE_OF_TURNS)
        except InputError as error:
            raise MethodError(str(error)) from None

    by_solver = method.model is not None and method.model.by_solver
    return LoopMethod(method.name, run, _TURN, solver=by_solver, stated=method.model is not None)


def as_user_method(candidate: Any) -> UserMethod | str:
    """The caller's method; or the name, if it is one of this project's.

    Raises
    ------
    InputError
        If there is no such file, module or name, or it is no method.
    """
    if isinstance(candidate, str):
        if is_address(candidate):
            return _named(candidate if ":" in candidate else f"{candidate}:")  # which says what there is to name
        registered = HEURISTICS.get(candidate) or MODELS.get(candidate)
        return candidate if registered is None else as_user_method(registered)
    if isinstance(candidate, Method):
        is_ours = candidate.name in HEURISTICS.shipped and HEURISTICS[candidate.name] is candidate
        return candidate.name if is_ours else _of_method(candidate)
    if is_model(candidate):
        if not isinstance(candidate.name, str) or not candidate.name.strip():
            raise InputError(f"A model is called {candidate.name!r}; give it a text as its name.")
        return candidate.name if _is_shipped(candidate) else _of_model(candidate)
    if not callable(candidate):
        raise WordError("methods", candidate, f"give functions, {_MODELS}.")
    return _of_object(candidate, candidate, getattr(candidate, "__name__", type(candidate).__name__))


def is_address(method: str) -> bool:
    """Whether a text is the address of a method, such as mine.py:NAME (but not exact:lp)."""
    relaxed = method.endswith(LP_SUFFIX) and base_name(method) in MODELS
    return method.endswith(".py") or (":" in method and not relaxed)


def refuse_taken_name(method: UserMethod) -> None:
    """Refuse a method whose name this project uses."""
    if method.name in HEURISTICS.shipped or base_name(method.name) in {CERTIFY, *MODELS.shipped}:
        raise InputError(f"methods: {method.name} is a method of this project; give yours another name.")


def base_name(method: str) -> str:
    """Name of a model without suffixes for added or removed parts.

    Examples
    --------
    >>> base_name("exact+all-joins:lp")
    'exact'
    """
    return method.removesuffix(LP_SUFFIX).partition("+")[0]


def as_user_model(candidate: Any) -> UserMethod | None:
    """The caller's bound, from a model or an address such as mine.py:NAME; None for models of this project.

    Raises
    ------
    InputError
        As `as_user_method`, and if the candidate is a search.
    """
    if not isinstance(candidate, str) and not is_model(candidate):
        raise WordError("model", candidate, f"give {_MODELS}.")
    method = as_user_method(candidate)
    if isinstance(method, str):
        return None
    refuse_taken_name(method)
    if method.model is None:
        method.load()  # which says why nobody knows what it is, if it cannot be loaded
        raise InputError(f"{method.name} is a function, which searches; a bound is a Formulation or an Algorithm.")
    return method


def _is_shipped(model: Model) -> bool:
    """Whether a model belongs to this project, perhaps strengthened."""
    return model.name.partition("+")[0] in MODELS.shipped and find_model(model.name) == model


def _functions(run: Any) -> Iterator[Any]:
    yield run
    for cell in getattr(run, "__closure__", None) or ():
        if isfunction(cell.cell_contents):
            yield cell.cell_contents


def _of_method(method: Method[Instance, Partition]) -> UserMethod:
    """The function behind a registered method of another package."""
    *_, function = _functions(method.run) if PROJECT.find(module_of(method.run)) else (method.run,)
    return _of_object(function, function, method.name)


def _of_model(model: Model) -> UserMethod:
    """The caller's formulation or algorithm, which other processes load by its name in its module."""
    function = model.cases if isinstance(model, Formulation) else getattr(model, "run", model.prove)
    return replace(_of_object(model, function, model.name), model=kind_of(model))


def _of_object(method: Any, function: Any, name: str) -> UserMethod:
    """The method of an object of this process, with its place if other processes can load it."""
    function = unwrap(getattr(function, "py_func", function))
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or not isinstance(function, FunctionType):
        return UserMethod(name, name, sources_of(method), call=method)
    module = module_of(function)
    main, path, qualname = module == _MAIN, Path(code.co_filename), function.__qualname__
    if is_model(method):
        qualname = next((key for key, value in vars(sys.modules[module]).items() if value is method), "<none>")
    package = "" if main else sys.modules[module].__package__ or ""
    is_top = "<" not in qualname and path.is_file()
    if not is_top or (not main and _attribute(sys.modules[module], qualname) is not method):
        return UserMethod(name, name, sources_of(method, live=[_MAIN, module]), call=method)
    if package:
        return _of_module(name, module, qualname)
    read = _of_file(name, path, qualname)
    written = _codes(compile(read.text or "", "", "exec", dont_inherit=True))
    if code_hash(code) not in {code_hash(candidate) for candidate in written if candidate.co_name == code.co_name}:
        raise InputError(f"{name}: {path} is not what was imported any more; import it again, or start again.")
    if not main:
        return read
    now = sources_of(method, live=[_MAIN])  # values that a script has by now
    return UserMethod(name, read.function, _both(read.sources, now), None, read.file, read.text, method)


def _attribute(module: Any, qualname: str) -> Any:
    for part in qualname.split("."):
        module = getattr(module, part, None)
    return module


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _named(address: str) -> UserMethod:
    """The method at an address; it is loaded if its source does not tell its kind.

    One that cannot be loaded counts as a search, and fails when it is run.
    """
    place, _, name = address.rpartition(":")
    if place.endswith(".py"):
        method = _of_file(f"{Path(place).name}:{name}", Path(place), name)
    else:
        method = _of_module(address, place, name)
    if name in _functions_of(method):
        return method
    try:
        kind = ask_process(method.sources, method.place, None)["model"]
    except MethodError:
        return method
    return replace(method, model=None if kind is None else ModelKind(*kind))


def _functions_of(method: UserMethod) -> list[str]:
    """Names of top-level functions in the source of a method."""
    text = method.text
    if text is None:
        spec = find_spec(str(method.module))
        text = "" if spec is None else Path(str(spec.origin)).read_text(encoding="utf-8")
    return [node.name for node in syntax_tree(text).body if isinstance(node, ast.FunctionDef)]


def _of_file(name: str, path: Path, function: str) -> UserMethod:
    check_readable(path, _MOST)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; this is no file of Python.") from None
    _check_name(str(path), text, function)
    homes = Homes(PROJECT, home_of(path, None), as_loaded=False)
    homes.add(parse_module(_MAIN, path.resolve(), text))
    sources = _both(function, sources_of(homes=homes, modules=[_MAIN]))
    return UserMethod(name, function, sources, None, str(path.resolve()), text)


def _of_module(name: str, module: str, function: str) -> UserMethod:
    try:
        spec = find_spec(module)
    except Exception as error:  # whatever the package above it does
        if not isinstance(error, ModuleNotFoundError) or not f"{module}.".startswith(f"{error.name}."):
            raise InputError(f"{name}: {module} cannot be imported ({type(error).__name__}: {error}).") from None
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        remedy = f"install it, set PYTHONPATH to the folder that it is in, or name its file, as in mine.py:{function}."
        raise InputError(f"{name}: there is no module {module}; {remedy}")
    path = Path(spec.origin)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    homes = Homes(PROJECT, home_of(path, package or None), as_loaded=False)
    source = homes.read(module)
    if source is not None and function.split(".")[0] not in source.bindings:
        _check_name(str(path), path.read_text(encoding="utf-8"), function)
    return UserMethod(name, function, _both(function, sources_of(homes=homes, modules=[module])), module)


def _check_name(file: str, text: str, name: str) -> None:
    """Refuse a name that the source does not define."""
    try:
        tree = syntax_tree(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise InputError(f"{file}: cannot be read as Python ({error}).") from None
    names = [n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    if any(isinstance(n, ast.AsyncFunctionDef) and n.name == name for n in tree.body):
        raise InputError(f"{file}: {name} is asynchronous; define it with def, and run what it awaits by asyncio.run.")
    names += [n.targets[0].id for n in tree.body if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    stored |= {(a.asname or a.name) for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
    if not name:
        raise InputError(f"{file}: name a method in it, as in {Path(file).name}:NAME; there are {', '.join(names)}.")
    if name.split(".")[0] not in {*names, *stored}:
        raise InputError(f"{file}: {unknown(names or ['none'], name, 'method')}")


def _both(*hashes: str) -> str:
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()
