"""Verbs of the command line from records: what typer sees, and what a verb is given."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated, TypedDict

import pytest
import typer
from typer.main import get_command

from mtpp.cli.command import Without, command
from mtpp.cli.options import Out, Plot
from mtpp.questions.words import Word


class Inner(TypedDict, total=False):
    level: Annotated[str, Word("What a node is.", "operator")]
    training: Annotated[bool, Word("Also backwards.", False)]
    args: Annotated[list[int] | None, Word("Of Python alone.", only_python=True)]


@dataclass(frozen=True, kw_only=True)
class Outer:
    out: Out = None
    plot: Plot = None


@command
def verb(
    *,
    graph: Annotated[str, typer.Argument()],
    seed: Annotated[int, typer.Option()] = 0,
    words: Annotated[Inner, Without({"training"})],
    files: Annotated[Outer, Without({"plot"})],
) -> int:
    """Do it."""
    assert (graph, seed) == ("g", 3)
    assert words == {"level": "layer", "training": False, "args": None}
    assert files == Outer()
    return 7


def test_members_are_options_in_their_order() -> None:
    """But for what is left out, and what only Python says."""
    parameters = inspect.signature(verb).parameters
    expected = ["context", "graph", "seed", "level", "out", "help", "help_all"]  # the first one is typer's own
    assert list(parameters) == expected
    assert parameters["graph"].default is inspect.Parameter.empty
    assert parameters["level"].default == "operator"
    assert (verb.__name__, verb.__doc__) == ("verb", "Do it.")


def test_options_make_the_records() -> None:
    assert verb(graph="g", seed=3, level="layer", out=None) == 7


def test_typer_takes_such_a_verb() -> None:
    small = typer.Typer()
    small.command()(verb)
    words = ["g", "--level", "layer", "--seed", "3"]
    assert get_command(small)(words, standalone_mode=False) == 7


def test_what_is_left_out_is_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    small = typer.Typer()
    small.command()(verb)
    with pytest.raises(SystemExit):
        get_command(small)(["--training"])
    assert "--training" in capsys.readouterr().err
