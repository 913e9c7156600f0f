"""Words of the command line as dataclasses: what typer sees, and what a verb is given."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.main import get_command

from mtpp.cli import options
from mtpp.cli.command import Without, takes_words
from mtpp.cli.main import app


@dataclass(frozen=True)
class Inner:
    level: options.Level = "operator"
    training: options.Training = False


@dataclass(frozen=True, kw_only=True)
class Outer:
    graph: options.Graph
    inner: Inner


@takes_words
def verb(*, seed: options.Seed = 0, outer: Annotated[Outer, Without({"training"})], gap: options.Gap = 0.5) -> int:
    """Do it."""
    assert (seed, gap) == (3, 0.5)
    assert outer == Outer(graph="g", inner=Inner(level="layer"))
    return 7


def test_fields_are_words_in_their_order() -> None:
    """Also those of a dataclass in a dataclass, but for what is left out."""
    parameters = inspect.signature(verb).parameters
    assert list(parameters) == ["seed", "graph", "level", "gap"]
    assert parameters["graph"].default is inspect.Parameter.empty
    assert parameters["level"].default == "operator"
    assert parameters["graph"].annotation == options.Graph
    assert (verb.__name__, verb.__doc__) == ("verb", "Do it.")


def test_words_make_the_dataclasses() -> None:
    assert verb(seed=3, graph="g", level="layer", gap=0.5) == 7


def test_typer_takes_such_a_verb() -> None:
    small = typer.Typer()
    small.command()(verb)
    assert get_command(small)(["g", "--level", "layer", "--seed", "3"], standalone_mode=False) == 7


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("partition", "graph blocks bandwidth memory activation_buffer fit constraints colour_classes runtime dim "
         "level training reader communication input_work time_unit peak_flops memory_bandwidth throughput method seed "
         "time_limit out plot json quiet"),
        ("place", "graph devices bandwidth memory unequal dim training reader input_work time_unit peak_flops "
         "memory_bandwidth groups method policy seed time_limit certify solver threads out plot json quiet"),
        ("plan", "chain cluster microbatches bandwidth memory network nic dtype sequence optimizer_bytes "
         "parameter_copies samples recompute full_duplex dim input_work time_unit peak_flops memory_bandwidth planner "
         "effort orders time_limit seed out plot export json quiet"),
        ("import", "graph out dim level training reader input_work time_unit peak_flops memory_bandwidth cost json "
         "quiet"),
        ("verify", "certificates ideals rerun time_limit graph dim level training peak_flops memory_bandwidth json "
         "quiet"),
        ("export", "file graph runtime dim level training reader communication input_work time_unit peak_flops "
         "memory_bandwidth out json quiet"),
        ("serve", "graph blocks memory bandwidth runtime first dim reader communication input_work time_unit "
         "peak_flops memory_bandwidth out plot json quiet"),
        ("explain", "file graph bandwidth memory activation_buffer fit constraints dim level training reader "
         "communication input_work time_unit peak_flops memory_bandwidth time_limit solver gap threads seed json "
         "quiet"),
    ],
)  # fmt: skip
def test_verbs_have_their_words(name: str, words: str) -> None:
    command = get_command(app).commands[name]
    assert [parameter.name for parameter in command.params] == words.split()
