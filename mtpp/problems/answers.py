"""Files, pictures and sentences of results of all problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instances.certificates.provenance import older_format
from instances.errors import InputError
from instances.json_files import Value
from instances.results import Result
from mtpp.problems.registry import PROBLEMS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["format_of", "read_result", "result_document", "result_figure"]


def format_of(document: Value) -> str | None:
    """The format that a document names, of two that hold the same the older one; None if it names none."""
    named = document.open_members(()).get("format")
    return older_format(named.data) if named is not None and isinstance(named.data, str) else None


def read_result(document: Value) -> Result[Any, Any] | None:
    """The answer of a file that holds its question; None if the file holds no question.

    Raises
    ------
    InputError
        If the file is refused, or states a bound above the cost of its answer.
    """
    found = PROBLEMS.format(format_of(document))
    return None if found is None else found.read(document)


def result_document(result: Result[Any, Any]) -> dict[str, Any]:
    """The JSON document of a result: a certificate of its answer and of all bounds that it combines.

    The result of a search for a partition without any bound is the document of that.

    Raises
    ------
    InputError
        If there is nothing to write, or a bound comes from a method or a solver that readers do not know.
    """
    document: dict[str, Any] = PROBLEMS.of(result.instance).document(result.parts or (result,))
    return document


def result_figure(result: Result[Any, Any]) -> Figure:
    """The picture of a result.

    Raises
    ------
    InputError
        If it has no answer.
    """
    if result.answer is None:
        raise InputError(f"{result.instance.label}: {result.method} found no answer to draw.")
    figure: Figure = PROBLEMS.of(result.instance).figure(result.answer, result.bound)
    return figure
