"""Functions of `mtpp`, a question in and an answer out; the command line calls the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instances import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _drawing(result: Result[Any, Any]) -> Figure:
    from mtpp.problems.checking import result_figure

    return result_figure(result)


def _document(result: Result[Any, Any]) -> dict[str, Any]:
    from mtpp.problems.checking import result_document

    return result_document(result)


Result.drawing = _drawing
Result.documenting = _document
