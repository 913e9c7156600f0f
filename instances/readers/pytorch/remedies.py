"""Errors of torch.export in a line, with what to do."""

from __future__ import annotations

from textwrap import shorten

__all__ = ["first_line", "with_remedy"]

_UNSCRIPTED = "give the module as it was before it was scripted or quantised"

#: Words in messages of torch.export, and what to do.
_REMEDIES = {
    "uninitialized parameter": "run the module once on the example before, which makes its parameters",
    "__torch__": _UNSCRIPTED,
    "functorch": "leave torch.func out of forward",
    "not a known type": "return tensors in lists and dictionaries; for transformers kwargs={'use_cache': False}",
    "data-dependent": "write branches on values of tensors with torch.where or torch.cond, and loops with fixed bounds",
    "dynamic control flow": "write branches on values of tensors with torch.where or torch.cond",
    "takes": "give args and kwargs as forward takes them",
    "missing a required argument": "give args and kwargs as forward takes them",
    "state_dict": "let forward change no parameters; export the module in eval mode",
    "meta": "give the module itself, with its weights, instead of a function that builds it",
    ".numpy()": "leave numpy out of forward",
    ".item()": "leave .item() and int() of tensors out of forward",
}


def with_remedy(error: Exception, scripted: bool) -> str:
    """Kind of an error, the first line of its message, and what to do."""
    line, whole = shorten(first_line(error), 200, placeholder=" …"), str(error)
    remedy = next((remedy for part, remedy in _REMEDIES.items() if part in whole), "try it in eval mode")
    return f"{line.rstrip('.;')}; {_UNSCRIPTED if scripted else remedy}."


def first_line(error: Exception) -> str:
    """Kind of an error, and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
