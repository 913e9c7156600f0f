"""What may be wrong with any graph that a file gives: no time, no bytes, too much time, guessed prices."""

from __future__ import annotations

import json
import shlex
import warnings
from pathlib import Path
from typing import Any

import pytest
from command_line import mtpp

from instances import ComputationGraph, InputWarning, load_graph, save_graph
from instances.readers.parsing import with_doubts
from mtpp.cli.main import main


def msr(latency: float, size: float) -> str:
    nodes = [{"id": v, "fpgaLatency": latency, "size": 0} for v in range(2)]
    return json.dumps({"nodes": nodes, "edges": [{"sourceId": 0, "destId": 1, "size": size, "cost": size}]})


def piper(seconds: float) -> str:
    ways = {"1": [{"id": "vanilla", "timePerSample": seconds, "parameterSize": 1.0}]}
    nodes = [{"id": v, "TMPCs": ways} for v in range(2)]
    return json.dumps({"nodes": nodes, "edges": [{"sourceId": 0, "destId": 1, "communicationCost": 8.0}]})


def found(path: Path, **options: Any) -> list[str]:
    """The warnings, which stand in the attributes too."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        graph = load_graph(path, **options)
    assert all(one.category is InputWarning and one.filename == __file__ for one in caught)
    said = [str(one.message) for one in caught]
    assert said == [f"{path}: {text}" for text in graph.attributes.get("warnings", ())]
    return [text.removeprefix(f"{path}: ") for text in said]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (msr(2.0, 8.0), []),
        (msr(0.0, 8.0), ["no node takes any time, so communication alone is counted."]),
        (msr(2.0, 0.0), ["no tensor has any bytes, so communication costs nothing."]),
        (
            msr(1e5, 8.0),
            ["the nodes take 200 s together, long for one pass of a network; check the unit of the file's times."],
        ),
        (piper(49.0), []),
        (
            piper(260.0),
            [
                "the nodes take 520 s together, long for one pass of a network; if the file gives milliseconds, "
                "say time_unit='ms'."
            ],
        ),
        ("digraph { a [weight=3]; b [weight=4]; a -> b [weight=5]; }", []),
        (
            "digraph { a [weight=3]; b; c; a -> b -> c; a -> c [weight=5]; }",
            ["2 of 3 nodes and 2 of 3 edges have no weight, which counts as 1; give each its own."],
        ),
        (
            "node { id: 0 compute_cost: 3 inaccurate: true output_info { size: 4 } } "
            "node { id: 1 compute_cost: 3 inaccurate: false input_info { preceding_node: 0 } }",
            ["TensorFlow marks the costs of 1 of 2 nodes as inaccurate."],
        ),
    ],
)
def test_what_a_file_leaves_in_doubt_is_said(content: str, expected: list[str], tmp_path: Path) -> None:
    path = tmp_path / "net"
    path.write_text(content)
    assert found(path) == expected


def test_a_stated_unit_is_not_in_question(tmp_path: Path) -> None:
    path = tmp_path / "gnmt.json"
    path.write_text(piper(260.0))
    assert found(path, time_unit="s") == found(path, time_unit="ms") == []
    assert load_graph(path, time_unit="ms").work.tolist() == pytest.approx([0.26, 0.26])
    path.write_text("digraph { a [weight=3]; }")
    assert load_graph(path, time_unit="us").work.tolist() == pytest.approx([3e-6])


@pytest.mark.parametrize("unit", ["h", " "])
def test_an_unknown_unit_is_refused(unit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.dot"
    path.write_text("digraph { a [weight=3]; }")
    assert main(["import", str(path), "--time-unit", unit]) == 2
    assert capsys.readouterr().err == f"mtpp: --time-unit {shlex.quote(unit)}: give one of s, ms, us.\n"


def test_guessed_prices_are_named_and_long_lists_cut() -> None:
    operators = {f"my.Op{i}": 1 for i in range(7)}
    graph = ComputationGraph.from_edges([], [1.0], attributes={"unknown_operators": operators})
    assert with_doubts(graph).attributes["warnings"] == [
        "unknown operators, of which only the bytes count: my.Op0, my.Op1, my.Op2, my.Op3, my.Op4 and 2 more."
    ]


def test_a_warning_is_printed_once_and_kept_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The project's own format says what it means, so it is read in silence; `mtpp import` shows what was in doubt."""
    path, out = tmp_path / "net.json", tmp_path / "graph.json"
    path.write_text(msr(0.0, 8.0))
    for _ in range(2):
        assert mtpp(f"import {path} --out {out}") == 0
        assert capsys.readouterr().err == (
            f"mtpp: warning: {path}: no node takes any time, so communication alone is counted.\n"
        )
    assert mtpp(f"import {out}") == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "warnings            no node takes any time" in shown.out


def test_any_graph_of_the_own_format_is_silent(tmp_path: Path) -> None:
    """Random graphs have no unit, whatever they say; a stranger's warnings are not ours to print."""
    path = tmp_path / "graph.json"
    save_graph(ComputationGraph.from_edges([(0, 1)], [500.0, 0.0], attributes={"warnings": 5}), path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_graph(path)


def test_a_warning_sends_no_control_characters_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a\x1b[31mred.json"
    path.write_text(msr(0.0, 8.0))
    assert mtpp(f"import {path}") == 0
    assert r"a\x1b[31mred.json: no node takes any time" in capsys.readouterr().err
