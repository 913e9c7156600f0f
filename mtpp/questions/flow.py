"""The question of flow: a file, or an instance."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Annotated

from instances.errors import InputError
from instances.flow.file import read_flow_question
from instances.flow.problem import FlowInstance
from mtpp.questions.solving import SEARCH, SeedWords
from mtpp.questions.words import Word

__all__ = ["FlowLike", "FlowWords", "flow_instance"]

#: A question of flow, or its file.
FlowLike = FlowInstance | str | PathLike[str]


class FlowWords(SeedWords, total=False):
    """Words of `mtpp.flow`."""

    certify: Annotated[bool, Word("Prove how good the flow is.", False, panel=SEARCH)]
    time_limit: Annotated[float, Word("For search and proof together.", 20.0, "SECONDS", SEARCH)]


def flow_instance(question: FlowLike) -> FlowInstance:
    """The question of a file or an instance.

    Raises
    ------
    InputError
        If it is none.
    """
    if isinstance(question, FlowInstance):
        return question
    if not isinstance(question, str | PathLike):
        raise InputError(f"A question of flow or its file is needed here, no {type(question).__name__}.")
    return read_flow_question(fspath(question))
