"""Suggestions for dimensions without a value, by their names."""

from __future__ import annotations

from collections.abc import Mapping

from instances.errors import said

__all__ = ["no_value"]

#: Parts of names of dimensions, and a usual value; others are 1.
_USUAL = {"seq": 128, "length": 128, "token": 128, "height": 224, "width": 224, "sample": 16000, "frame": 100}
_SHOWN = 20


def no_value(missing: Mapping[str, str]) -> str:
    """Words for all dimensions that have no value, by the input in which each is first, with values for them.

    Examples
    --------
    >>> no_value({"batch": "x"})
    "dimension 'batch' of input 'x' has no value; give for example dims='batch=1'"
    >>> no_value({"batch": "x", "seq_len": "x"})
    "dimensions 'batch', 'seq_len' have no value; give for example dims='batch=1' dims='seq_len=128'"
    """
    names = list(missing)[:_SHOWN]
    given = " ".join(said("dims", f"{name}={_usual(name)}") for name in names)
    if len(missing) == 1:
        return f"dimension '{names[0]}' of input '{missing[names[0]]}' has no value; give for example {given}"
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    listed = ", ".join(f"'{name}'" for name in names) + more
    return f"dimensions {listed} have no value; give for example {given}"


def _usual(name: str) -> int:
    lower = name.lower()
    if "past" in lower or "batch" in lower:
        return 1
    return next((value for part, value in _USUAL.items() if part in lower), 1)
