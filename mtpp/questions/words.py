"""Keyword arguments ("words") of questions and of solvers: types, ranges, defaults, help texts."""

from __future__ import annotations

import inspect
import math
import numbers
import operator
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, wraps
from os import PathLike, fspath
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    TypeAlias,
    TypedDict,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from instances import ComputationGraph, Instance
from instances.deadline import LONGEST_TIME
from instances.errors import WordError, assume, assuming, assumptions, one_of, unknown
from instances.results import Result
from mtpp.text.numbers import parse_dims, parse_options

if TYPE_CHECKING:
    import networkx as nx

    from mtpp_models import SolveOptions

# Typed words: keywords of Python and options of the command line, declared once.
#
# The words of a question are a `TypedDict`, whose members are annotated with a type and a `Word`: default, help, range.
# From it follow the signature and the checks of a function of `mtpp` (`takes_words`) and the options of a verb
# (`mtpp.cli.command`).


#: An architecture or a file, a graph, or a whole question.
GraphLike: TypeAlias = "str | PathLike[str] | ComputationGraph | nx.DiGraph[Any] | Instance"

#: Panels of the help of a verb, in their order.
PANELS = QUESTION, MACHINES, LIMITS, SEARCH, FILES, OUTPUT = (
    "Question",
    "Machines",
    "Limits",
    "Search and proof",
    "Files",
    "Output",
)

#: Readers of the words that are mappings, as texts give them, one "name=value" each.
PAIRS: dict[str, Callable[[Iterable[str]], Mapping[str, Any]]] = {"dims": parse_dims, "solver_options": parse_options}

W = TypeVar("W", bound=Mapping[str, Any])
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Word:
    """Description of a keyword argument, which is also an option of the command line."""

    help: str
    default: Any = None
    metavar: str | None = None  # its value in the help of the command line
    panel: str = QUESTION  # of that help
    basic: bool = False  # also in the short help
    least: float = -math.inf
    most: float = math.inf
    only_python: bool = False  # no option of the command line, as its values are objects


@cache
def words_of(kind: type[Mapping[str, Any]]) -> dict[str, tuple[Any, Word]]:
    """Type and description of each keyword argument of a `TypedDict`, in order of declaration."""
    words = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if get_origin(hint) is not Annotated:
            raise TypeError(f"{kind.__name__}.{name} has no Word")
        plain, word = get_args(hint)
        words[name] = (plain, word)
    return words


def without_defaults(kind: type[W]) -> type[W]:
    """Decorate a `TypedDict` whose keyword arguments are None unless somebody states them."""
    for name, (hint, word) in words_of(kind).items():
        kind.__annotations__[name] = Annotated[hint | None, replace(word, default=None)]
    words_of.cache_clear()
    return kind


def types_of(hint: Any) -> set[Any]:
    """Types of a union except None; generic types by their classes."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return {get_origin(part) or part for part in parts} - {NoneType}


def pick(kind: type[W], words: Mapping[str, Any]) -> W:
    """The keyword arguments that the `TypedDict` `kind` has, from a larger set."""
    return cast(W, {name: words[name] for name in words_of(kind) if name in words})


def chosen(kind: type[Mapping[str, Any]], words: Mapping[str, Any]) -> list[str]:
    """Names of the keyword arguments of a `TypedDict` whose values are not the defaults."""
    return [name for name, (_, word) in words_of(kind).items() if name in words and words[name] != word.default]


def checked(kind: type[W], keywords: Mapping[str, Any], others: tuple[str, ...] = ()) -> W:
    """All keyword arguments of a `TypedDict`, checked and completed by defaults.

    Parameters
    ----------
    kind : type
        A `TypedDict` whose members have a `Word`.
    keywords : mapping
    others : tuple of str
        Further names to propose where one is misspelled.

    Raises
    ------
    TypeError
        If a name is unknown.
    WordError
        If a value has a wrong type, is not a number, or is out of its range.
    """
    words = words_of(kind)
    for name in keywords:
        if name not in words:
            raise TypeError(unknown((*others, *words), name, "word"))
    defaults = {name: word.default for name, (_, word) in words.items()}
    return cast(W, defaults | {name: _checked(name, value, *words[name]) for name, value in keywords.items()})


def _checked(name: str, value: Any, hint: Any, word: Word) -> Any:
    if value is None:
        if NoneType in get_args(hint):
            return None
        raise WordError(name, None, "it needs a value, not None.")
    kinds = types_of(hint)
    if kinds == {Mapping} and not isinstance(value, Mapping):
        texts = value.replace(",", " ").split() if isinstance(value, str) else value
        if name in PAIRS and isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts):
            return PAIRS[name](texts)
        raise WordError(name, value, "give a mapping of names to values.")
    if kinds - {bool, int, float, str}:  # a record, a mapping or a file: whoever reads it knows more
        return value
    if isinstance(value, str) and str in kinds:
        choices = _choices(word)
        if choices and kinds == {str} and value not in choices:
            raise WordError(name, value, one_of(choices, value).removeprefix("; "))
        return value
    if kinds == {int, str}:  # a number, or several in a text
        return str(_checked(name, value, int, word))
    if kinds == {bool}:
        if not isinstance(value, bool | np.bool_):
            raise WordError(name, value, "give True or False.")
        return bool(value)
    if kinds == {str}:
        raise WordError(name, value, "give a text.")
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or value != value:
        texts = ", or a text with a unit" if str in kinds else ""
        raise WordError(name, value, f"give a number{texts}.")
    if kinds == {int}:
        try:
            value = operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            raise WordError(name, value, "give a whole number.") from None
    if isinstance(value, int) and abs(value) >= 2**1024:
        raise WordError(name, "a number of many digits", "it is too large.")
    if not word.least <= value <= word.most:
        limit = "" if word.most == math.inf else f" and at most {word.most:.10g}"
        raise WordError(name, value, f"it must be at least {word.least:g}{limit}.")
    return value


def _choices(word: Word) -> list[str]:
    """The values of a keyword argument that has few, as its metavar lists them; else empty."""
    return word.metavar.split("|") if word.metavar and re.fullmatch(r"[a-z0-9-]+(\|[a-z0-9-]+)+", word.metavar) else []


def path_of(name: str, value: Any) -> Path:
    """The value of a keyword argument or parameter as a path.

    Raises
    ------
    WordError
        If the value is no path, or an empty text, which would be the folder of here.
    """
    if not isinstance(value, str | PathLike):
        raise WordError(name, value, f"give a path, no {type(value).__name__}.")
    if not fspath(value):
        raise WordError(name, value, "give a path.")
    return Path(value)


def takes_words(kind: type[Mapping[str, Any]]) -> Callable[[F], F]:
    """Decorate a function with keyword arguments ``**words: Unpack[kind]``.

    The function receives all keyword arguments of `kind`, completed by defaults, and shows them in its signature. Those
    that its docstring does not document are added to it, with the help texts of the command line.
    Results say in a note which defaults their questions rest on.
    """

    def decorate(function: F) -> F:
        parameters = [
            parameter
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        names = tuple(parameter.name for parameter in parameters)

        @wraps(function)
        def run(*values: Any, **keywords: Any) -> Any:
            named = {name: keywords.pop(name) for name in names if name in keywords}
            words = checked(kind, keywords, names)
            with assuming(
                {name for name in (*names[len(values) :], *words) if (named | keywords).get(name) is None}
            ) as taken:
                answer = function(*values, **named, **words)
                if isinstance(answer, list):
                    return [item.noted(*assumptions()) if isinstance(item, Result) else item for item in answer]
                if isinstance(answer, Result):
                    return answer.noted(*assumptions())
            for name, text in taken.items():  # who calls it may have a place for them
                assume(name, text)
            return answer

        words = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=word.default, annotation=hint)
            for name, (hint, word) in words_of(kind).items()
        ]
        run.__signature__ = inspect.Signature([*parameters, *words])  # type: ignore[attr-defined]
        run.__doc__ = _with_words(function.__doc__, words_of(kind)) if function.__doc__ else None
        return cast(F, run)

    return decorate


def _with_words(text: str, words: Mapping[str, tuple[Any, Word]]) -> str:
    """The docstring with an entry added to its parameters for each keyword argument that it does not document."""
    before, heading, rest = inspect.cleandoc(text).partition("\nParameters\n----------\n")
    section, returns, after = rest.partition("\n\nReturns\n")
    lines = re.findall(r"^([\w, ]+?)(?: :.*)?$", section, flags=re.MULTILINE)
    documented = {name.strip() for line in lines for name in line.split(",")}
    entries = [_entry(name, *words[name]) for name in words if name not in documented]
    return before + heading + "\n".join([section, *entries]) + returns + after if heading else text


def _entry(name: str, hint: Any, word: Word) -> str:
    """Numpydoc entry of a keyword argument: the option's help in Python's terms."""
    kinds = [getattr(kind, "__name__", str(kind)) for kind in get_args(hint) or (hint,) if kind is not NoneType]
    if choices := _choices(word):
        kinds = ["{" + ", ".join(f'"{choice}"' for choice in choices) + "}"]
    says = re.sub(r"\s*\[default: (.*)\]$", r" By default \1.", word.help)
    says = re.sub(r"--([a-z][a-z-]*)", lambda match: match[1].replace("-", "_"), says)
    if word.default not in (None, False) and "By default" not in says:
        says += f" By default {word.default}."
    lines = textwrap.wrap(says, 112, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join([f"{name} : {' or '.join(dict.fromkeys(kinds))}, optional", *lines])


# How a question is solved: solver, time, seed.


class SeedWords(TypedDict, total=False):
    """Keyword arguments: seed of random numbers."""

    seed: Annotated[
        int, Word("Same seed, same answer, without a time limit.", 0, panel=SEARCH, least=0, most=2**31 - 1)
    ]


class SolverOptionWords(TypedDict, total=False):
    """Keyword arguments: options of a solver, by the solver's names."""

    solver_options: Annotated[
        Mapping[str, str | float] | None,
        Word("Option of the solver by its own name, passed on unread; several times.", None, "NAME=VALUE", SEARCH),
    ]


class SolverWords(SolverOptionWords, total=False):
    """Keyword arguments: options and output of a solver."""

    log: Annotated[
        str | PathLike[str] | None,
        Word("Folder for what the solver prints, a file for each case of a model.", None, "DIR", FILES),
    ]


class GapWords(TypedDict, total=False):
    """Keyword arguments: when and on how many threads models are solved well enough."""

    gap: Annotated[float, Word("Relative gap that is good enough.", 0.0, "X", LIMITS)]
    threads: Annotated[
        int,
        Word("Threads of solver and price trees; certify lets one of several search beside proofs.", 1, "N", LIMITS),
    ]


class TrialWords(TypedDict, total=False):
    """Keyword arguments: time limits and repetitions of methods that are compared."""

    time_limit: Annotated[
        float | None,
        Word("For each bound; ends your own heuristics without a budget, too.", 60.0, "SECONDS", LIMITS),
    ]
    seeds: Annotated[int | str | Iterable[int] | None, Word("Of heuristics, in place of seed.", None, "N[,N…]", SEARCH)]
    budgets: Annotated[
        float | str | Iterable[float] | None,
        Word("For heuristics.  [default: their own number of evaluations]", None, "SECONDS[,…]", LIMITS),
    ]


class RunningWords(TypedDict, total=False):
    """Keyword arguments: the processes that make runs, and which runs of earlier versions are accepted."""

    jobs: Annotated[
        int, Word("Processes on this machine; the answers do not depend on it.", 1, "N", LIMITS, basic=True)
    ]
    scheduler: Annotated[
        str | None, Word("Of dask.distributed, whose workers are used instead.", None, "ADDRESS", LIMITS)
    ]
    accept_old: Annotated[
        bool, Word("Take answers from runs that do not know the code that made them, too.", False, panel=FILES)
    ]


class ProofWords(SeedWords, SolverWords, GapWords, total=False):
    """Keyword arguments: settings for solving models, without the time limit."""

    solver: Annotated[str, Word("See mtpp list solvers.", "highs", "NAME", SEARCH)]


class SolvingWords(ProofWords, total=False):
    """Keyword arguments: settings for solving models."""

    time_limit: Annotated[float | None, Word("For each k, or none.", 60.0, "SECONDS", LIMITS, basic=True)]


def solve_options(words: Mapping[str, Any], time_limit: float | None) -> SolveOptions:
    """Keyword arguments as the record `SolveOptions`, with its defaults for those that a function does not take.

    Raises
    ------
    InputError
        If a value is out of its range.
    """
    from mtpp_models import SolveOptions

    stated = {name: words[name] for name in words_of(ProofWords) if words.get(name) is not None}
    return SolveOptions(time_limit=time_limit, **stated)


def seeds_of(value: Any) -> list[int]:
    """Seeds from a number, several, or a text such as "0,1,2"; empty if not given.

    Raises
    ------
    WordError
        If a seed is no whole number, or out of its range.
    """
    (_, word) = words_of(SeedWords)["seed"]
    return [int(seed) for seed in _numbers("seeds", value, operator.index, word.least, word.most)]


def budgets_of(value: Any) -> list[float | None]:
    """Seconds for heuristics, from a number, several, or a text such as "1,10,60"; empty if not given.

    Raises
    ------
    WordError
        If a budget is no number above 0.
    """
    return list(_numbers("budgets", value, float, math.ulp(0.0), LONGEST_TIME)) or [None]


def _numbers(name: str, value: Any, kind: Callable[[Any], float], lowest: float, highest: float) -> list[float]:
    if value is None:
        return []
    several = value.split(",") if isinstance(value, str) else value if isinstance(value, Iterable) else [value]
    numbers = []
    for item in several:
        try:
            number = kind(item) if not isinstance(item, str) else int(item) if kind is operator.index else float(item)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if isinstance(item, bool) or not lowest <= number <= highest:
            seconds = f"numbers of seconds above 0, at most {highest:,.0f}"
            raise WordError(name, value, f"give {'whole numbers from 0 on' if kind is operator.index else seconds}.")
        numbers.append(number)
    return list(dict.fromkeys(numbers))
