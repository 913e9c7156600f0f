"""Verbs from functions whose parameters are words, in a `TypedDict` or a dataclass, or options of their own."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints, is_typeddict

import typer

from mtpp.cli.options import option_of
from mtpp.questions.words import Word, checked, types_of, words_of
from mtpp.text.parsing import parse_dims

__all__ = ["Without", "command"]


class Without(frozenset[str]):
    """Words that a verb does not take, as in ``Annotated[ReadingWords, Without({"level"})]``, so that defaults hold."""


def command(verb: Callable[..., int]) -> Callable[..., int]:
    """Let the parameters of a verb be records, each member of which is an option.

    Parameters
    ----------
    verb : callable
        Its parameters are annotated for typer, or are dataclasses with such fields, or words of a question.

    Returns
    -------
    callable
        Takes the options one by one, in the order of the help.
    """

    @wraps(verb)
    def run(**given: Any) -> int:
        return _called(verb, given)

    run.__signature__ = inspect.Signature(list(_options(verb)))  # type: ignore[attr-defined]
    return run


def _options(taker: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    for parameter, record, left_out in _parameters(taker):
        if record is None:
            yield parameter
        elif is_typeddict(record):
            yield from (_option(name, *known) for name, known in words_of(record).items() if name not in left_out)
        else:
            yield from (option for option in _options(record) if option.name not in left_out)


def _called(taker: Callable[..., Any], given: dict[str, Any]) -> Any:
    taken = {}
    for parameter, record, left_out in _parameters(taker):
        if record is None:
            if parameter.name in given:
                taken[parameter.name] = given[parameter.name]
        elif is_typeddict(record):
            names = [name for name in words_of(record) if name in given and name not in left_out]
            taken[parameter.name] = checked(record, {name: _value(name, given[name]) for name in names})
        else:
            taken[parameter.name] = _called(record, {name: given[name] for name in given.keys() - left_out})
    return taker(**taken)


def _parameters(taker: Callable[..., Any]) -> Iterator[tuple[inspect.Parameter, Any, Without]]:
    """Each parameter of a verb or a dataclass; its record, if it is one, else None; and what is left out of that."""
    hints = get_type_hints(taker, include_extras=True)
    for name, parameter in inspect.signature(taker).parameters.items():
        hint = hints[name]
        kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        left_out = next((mark for mark in marks if isinstance(mark, Without)), Without())
        option = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hint)
        yield option, kind if is_typeddict(kind) or is_dataclass(kind) else None, left_out


def _option(name: str, hint: Any, word: Word) -> inspect.Parameter:
    """The option of a word."""
    kind = _text_type(hint)
    flag = option_of(name)
    option = typer.Option(
        f"{flag}/--no-{name}" if kind is bool and word.default else flag,
        metavar=word.metavar,
        help=word.help,
        rich_help_panel=word.panel,
        min=_limit(word.least) if kind is int else None,
        max=_limit(word.most) if kind is int else None,
    )
    optional = kind if word.default is not None else kind | None
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=word.default, annotation=Annotated[optional, option])


def _text_type(hint: Any) -> Any:
    """The type of the option: paths and quantities come as texts, dimensions as several."""
    kinds = types_of(hint)
    if PathLike in kinds:
        return Path
    if Mapping in kinds:
        return list[str]
    return str if str in kinds else kinds.pop()


def _limit(limit: float) -> int | None:
    return None if math.isinf(limit) else int(limit)


def _value(name: str, text: Any) -> Any:
    """The value of a word whose option is a text."""
    return parse_dims(text) or None if name == "dims" and text is not None else text
