"""Verbs from functions whose parameters are words, in a `TypedDict` or a dataclass, or options of their own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import wraps
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints, is_typeddict

import typer

from instances.errors import WordError
from mtpp.cli.options import option_of
from mtpp.cli.outputs import check_apart
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
        check_apart(given)
        return _called(verb, given)

    run.__signature__ = inspect.Signature(list(_options(verb)))  # type: ignore[attr-defined]
    return run


def _options(taker: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    for parameter, record, left_out in _parameters(taker):
        if record is None:
            yield _in_text(parameter)
        elif is_typeddict(record):
            yield from (
                _option(name, hint, word)
                for name, (hint, word) in words_of(record).items()
                if name not in left_out and not word.only_python
            )
        else:
            yield from (option for option in _options(record) if option.name not in left_out)


def _called(taker: Callable[..., Any], given: dict[str, Any]) -> Any:
    taken = {}
    for parameter, record, left_out in _parameters(taker):
        if record is None:
            if parameter.name in given:
                taken[parameter.name] = _value(parameter.name, given[parameter.name], _kind_of(parameter))
        elif is_typeddict(record):
            hints = {name: hint for name, (hint, _) in words_of(record).items() if name not in left_out}
            values = {name: _value(name, given[name], hint) for name, hint in hints.items() if name in given}
            taken[parameter.name] = checked(record, values)
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
        metavar=word.metavar or ("N" if types_of(hint) == {int} else None),
        help=word.help,
        rich_help_panel=word.panel,
    )
    optional = kind if word.default is not None else kind | None
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=word.default, annotation=Annotated[optional, option])


def _text_type(hint: Any) -> Any:
    """The type of the option: numbers and quantities come as texts, dimensions as several."""
    kinds = types_of(hint)
    if PathLike in kinds:
        return Path
    if Mapping in kinds:
        return list[str]
    return str if kinds & {str, int, float} else kinds.pop()


def _kind_of(parameter: inspect.Parameter) -> Any:
    """The type of an option, without what typer is told of it."""
    hint = parameter.annotation
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _in_text(parameter: inspect.Parameter) -> inspect.Parameter:
    """An option of a verb itself; a number comes as a text, and is refused in words of ours."""
    kind = _kind_of(parameter)
    if not types_of(kind) & {int, float}:
        return parameter
    text = str | None if parameter.default is None else str
    return parameter.replace(annotation=Annotated[text, *get_args(parameter.annotation)[1:]])


def _value(name: str, given: Any, hint: Any) -> Any:
    """The value of an option that comes as a text."""
    if name == "dims" and given is not None:
        return parse_dims(given) or None
    kind, *others = types_of(hint)
    if not isinstance(given, str) or others or kind not in (int, float):
        return given
    if given == "none" and NoneType in get_args(hint):
        return None
    try:
        return kind(given)
    except ValueError:
        raise WordError(name, given, f"give a {'whole ' if kind is int else ''}number.") from None
