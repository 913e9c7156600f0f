"""A method that fails ends itself alone, in all problems: the answer says so, and holds what the others know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import mtpp

import mtpp as api
from instances import ComputationGraph, InputError, Instance, Platform
from instances.errors import MethodError
from instances.graph.graph import save_graph
from instances.random_graphs import regal_style
from mtpp.certifying.certify import certify
from mtpp.certifying.loop import leaving_out
from mtpp_models import SolveOptions

GRAPH = ComputationGraph.from_edges([(0, 2), (1, 3), (0, 4), (4, 5), (2, 5)], [3, 1, 1, 6, 2, 2], [1, 1, 2, 0, 1, 0])
#: Of each problem: where a method is called, its name, and a command without its files.
FAILING = {
    "partition": ("mtpp.certifying.certify.search", "kahn", "certify graph.json -k 2 --bandwidth 1"),
    "kinds": ("mtpp.certifying.certify.search", "portfolio", "certify gpt2 --devices 1xL4,1xT4 --time-limit 5"),
    "place": (
        "mtpp.certifying.methods.bound_placement",
        "colocation",
        "place graph.json -k 2 --bandwidth 1 --time-limit 5",
    ),
    "flow": (
        "mtpp.certifying.methods.bound_ticks",
        "enumeration",
        "flow llama-3-8b --devices 1xA100,2xL4 --dim batch=8 --time-limit 1",
    ),
    "plan": (
        "mtpp.certifying.methods.bounds_of_plan",
        "bounds",
        "plan simulation --cluster 2x2 --microbatches 4 --bandwidth 128Gbps,32Gbps --network shared --effort 0",
    ),
    "train": (
        "mtpp.certifying.methods.grid_bounds",
        "bounds",
        "train gpt2 --cluster 1x2 --global-batch 4 --device A100-40 --bandwidth 300GB/s,400GB/s --time-limit 2",
    ),
}


@pytest.mark.parametrize("problem", FAILING)
def test_bug_a_fault_of_arithmetic_ended_the_question(
    problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A method that divides by zero is one line of the answer, also in its JSON, and its file is read as ever."""
    place, name, command = FAILING[problem]

    def fail(*_: Any, **__: Any) -> Any:
        return 1 // 0

    monkeypatch.chdir(tmp_path)
    save_graph(GRAPH, "graph.json")
    monkeypatch.setattr(place, fail)
    note = f"{name} left out: ZeroDivisionError: integer division or modulo by zero"
    assert mtpp(command) == 0
    assert f"{note}." in capsys.readouterr().out.splitlines()
    assert mtpp(f"{command} --json --out answer.json") == 0
    document = json.loads(capsys.readouterr().out)
    assert note in document["provenance"]["notes"]
    assert api.read("answer.json").cost is not None
    assert mtpp("verify answer.json") in (0, 4)


def test_bug_a_fault_that_is_a_sentence_ends_with_one_full_stop() -> None:
    """Notes are printed with one of their own."""
    notes: list[str] = []
    with leaving_out("mine", notes.append):
        raise MethodError("It returned a list, not a Partition.")
    assert notes == ["mine left out: It returned a list, not a Partition"]


def test_what_is_no_fault_of_a_method_ends_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """Input that is refused, a false certificate and a second Ctrl-C keep their meaning."""
    for error in (InputError("no"), KeyboardInterrupt(), AssertionError("a false certificate")):
        with pytest.raises(type(error)), leaving_out("a method", pytest.fail):
            raise error


def test_a_lack_of_memory_ends_one_of_two_processes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The note travels from the process that proves."""

    def fail(*_: Any, **__: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("mtpp.certifying.certify.solve", fail)
    instance = Instance(regal_style("erdos-renyi", 40, seed=1), Platform(k=10, bandwidth=1.0))
    result = certify(instance, SolveOptions(time_limit=2.0, threads=2))
    assert result.partition is not None
    assert result.bound is None
    assert {"simple left out: MemoryError", "pinned left out: MemoryError"} <= set(result.notes)
    assert "notes       simple left out: MemoryError; " in result.summary()
