"""Syntax trees of Python, for several threads."""

from __future__ import annotations

import ast
import gc
from threading import Lock

_LOCK = Lock()


def syntax_tree(text: str | bytes) -> ast.Module:
    """The syntax tree of a source, made by one thread at a time and without collections of garbage.

    Python 3.11 counts the depth of trees for all threads together: where a collection in the midst of one tree lets
    another thread make its own, both fail with a SystemError. Collections take most of the time of making it, too.

    Parameters
    ----------
    text : str or bytes

    Raises
    ------
    SyntaxError, ValueError, RecursionError
        If it is no Python, or nested too deeply.
    """
    with _LOCK:
        was = gc.isenabled()
        gc.disable()
        try:
            return ast.parse(text)
        finally:
            if was:
                gc.enable()
