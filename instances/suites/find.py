"""Suites by the words that ask for them."""

from __future__ import annotations

import os

from instances.architectures import ARCHITECTURES
from instances.suites.folder import folder_suite, regal_suite
from instances.suites.named import SUITES
from instances.suites.random_suites import regal_style_suite
from instances.suites.suite import Suite

__all__ = ["find_suite", "is_suite"]

_FAMILIES = {"regal-style": regal_style_suite, "regal": regal_suite}


def is_suite(word: str) -> bool:
    """Whether a word asks for a suite, and not for one graph. Names of suites and architectures win over folders."""
    return word in SUITES or word.partition(":")[0] in _FAMILIES or (word not in ARCHITECTURES and os.path.isdir(word))


def find_suite(word: str) -> Suite:
    """The suite of a word: a name of `SUITES`, ``regal-style:N``, ``regal:FOLDER`` or a folder of graph files.

    Parameters
    ----------
    word : str
        One that `is_suite`.

    Raises
    ------
    InputError
        If N or the folder is refused.

    Examples
    --------
    >>> len(find_suite("regal-style:1000").entries)
    1000
    """
    if word in SUITES:
        return SUITES[word]
    family, _, what = word.partition(":")
    return _FAMILIES[family](what) if family in _FAMILIES else folder_suite(word)
