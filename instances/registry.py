"""Look-up by name, with a suggestion if the name is misspelled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from instances.errors import InputError

__all__ = ["find", "unknown"]

T = TypeVar("T")


def find(registry: Mapping[str, T], name: str, what: str) -> T:
    """The entry of a registry, or an `InputError` that calls it a `what`, such as "heuristic".

    Examples
    --------
    >>> find({"kahn": 1, "brkga-100": 2}, "khan", "heuristic")
    Traceback (most recent call last):
        ...
    instances.errors.InputError: There is no heuristic 'khan'; did you mean kahn? There are kahn, brkga-100.
    """
    if name not in registry:
        raise InputError(unknown(registry, name, what))
    return registry[name]


def unknown(names: Iterable[str], name: str, what: str) -> str:
    """Message about a name that is not among `names`, with the nearest of them or all."""
    known = list(names)
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}? There are" if near else "there are"
    return f"There is no {what} {name!r}; {hint} {', '.join(known)}."
