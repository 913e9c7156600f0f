"""Words of the command line as dataclasses: a verb takes a question, options and files, not fifteen words."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from functools import wraps
from typing import Annotated, Any, get_args, get_origin, get_type_hints

__all__ = ["Without", "takes_words"]


class Without(frozenset[str]):
    """Fields of a dataclass that are no words of a verb, as in ``Annotated[Reading, Without({"level"})]``."""


def takes_words(verb: Callable[..., int]) -> Callable[..., int]:
    """Let the parameters of a verb be dataclasses, each field of which is a word of the command line.

    Parameters
    ----------
    verb : callable
        Its parameters, and the fields of their dataclasses, are annotated as typer wants it, or are dataclasses.

    Returns
    -------
    callable
        Takes the words one by one, in the order of the fields, which is that of the help.
    """

    @wraps(verb)
    def run(**words: Any) -> int:
        return _called(verb, words)

    run.__signature__ = inspect.Signature(list(_words(verb)))  # type: ignore[attr-defined]
    return run


def _words(taker: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    for parameter, part, left_out in _parameters(taker):
        if part is None:
            yield parameter
        else:
            yield from (word for word in _words(part) if word.name not in left_out)


def _called(taker: Callable[..., Any], words: dict[str, Any]) -> Any:
    given = {}
    for parameter, part, left_out in _parameters(taker):
        if part is not None:
            given[parameter.name] = _called(part, {name: words[name] for name in words.keys() - left_out})
        elif parameter.name in words:
            given[parameter.name] = words[parameter.name]
    return taker(**given)


def _parameters(taker: Callable[..., Any]) -> Iterator[tuple[inspect.Parameter, type | None, Without]]:
    """Each parameter of a verb or a dataclass; if it is a dataclass itself, that and what is left out of it."""
    hints = get_type_hints(taker, include_extras=True)
    for name, parameter in inspect.signature(taker).parameters.items():
        hint = hints[name]
        kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        left_out = next((mark for mark in marks if isinstance(mark, Without)), Without())
        word = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hint)
        yield word, kind if isinstance(kind, type) and is_dataclass(kind) else None, left_out
