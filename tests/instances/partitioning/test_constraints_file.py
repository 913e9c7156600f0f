"""Constraints files: what is written is read again, and everything else is refused in one line."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from command_line import mtpp
from hypothesis import given
from strategies import constrained

from instances import ComputationGraph, InputError
from instances.json_files import parse_json
from instances.partitioning.constraints import Constraints, parse_constraints, read_constraints


def constraints_document(constraints: Constraints) -> dict[str, Any]:
    """The constraints as JSON, in node numbers."""
    kinds = {
        "together": [list(group) for group in constraints.together],
        "windows": [
            {"nodes": [v for v, *_ in windows], "first": first, "last": last}
            for (first, last), windows in groupby(constraints.windows, key=lambda window: window[1:])
        ],
        "uncut": list(constraints.uncut),
        "at_least": [{"count": count, "nodes": list(nodes)} for count, nodes in constraints.at_least],
    }
    return {kind: items for kind, items in kinds.items() if items}


@given(constrained())
def test_what_is_written_is_read_again(case: tuple[ComputationGraph, int, Constraints]) -> None:
    graph, _, constraints = case
    value = parse_json(json.dumps(constraints_document(constraints)), "file")
    assert parse_constraints(value, graph) == constraints


def test_a_file_of_names_and_patterns(tmp_path: Path) -> None:
    graph = ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)], [1] * 4, names=("in", "l.0", "l.1", "out"))
    file = tmp_path / "c.json"
    windows = [{"nodes": ["in"], "first": 0, "last": 0}, {"nodes": ["l.*", 3], "first": 1, "last": 2}]
    least = [{"count": 1, "nodes": ["*"]}]
    kinds = {"together": [["l.*"]], "windows": windows, "uncut": ["in"], "at_least": least}
    file.write_text(json.dumps({"format": "mtpp-constraints/1"} | kinds))
    assert read_constraints(file, graph) == Constraints(
        together=((1, 2),),
        windows=((0, 0, 0), (1, 1, 2), (2, 1, 2), (3, 1, 2)),
        uncut=(0,),
        at_least=((1, (0, 1, 2, 3)),),
    )


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"together": [["x"]]}, ", together[0]: There is no node 'x'"),
        ({"together": ["a"]}, ", together[0]: expected a list"),
        ({"windows": [{"nodes": ["a"], "first": 1}]}, ", windows[0]: missing field 'last'"),
        ({"windows": [{"nodes": ["a"], "first": 1, "last": 0}]}, ", windows[0]: The window of 'a' begins with"),
        ({"windows": [{"nodes": ["a"], "first": 0.5, "last": 1}]}, ", windows[0].first: expected a whole number"),
        ({"at_least": [{"nodes": ["a"], "count": -1}]}, ", at_least[0]: at_least: -1"),
        ({"uncut": [None]}, ", uncut[0]: expected a whole number"),
        ({"uncut": {}}, ", uncut: expected a list"),
        ({"apart": []}, ": unknown field 'apart'"),
        ({"format": "mtpp-graph/1"}, ", format: this is 'mtpp-graph/1'; expected 'mtpp-constraints/1'."),
    ],
)
def test_what_is_no_constraints_file_is_refused(members: dict[str, Any], message: str, tmp_path: Path) -> None:
    graph = ComputationGraph.from_edges([(0, 1)], [1, 1], names=("a", "b"))
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"format": "mtpp-constraints/1"} | members))
    with pytest.raises(InputError) as caught:
        read_constraints(file, graph)
    assert str(caught.value).startswith(f"{file}{message}")


def test_the_command_line_keeps_to_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.json").write_text('{"format": "mtpp-constraints/1", "windows": [{"nodes": [0, 1], "first": 1, "last": 1}]}')
    assert mtpp("partition path.json -k 3 --bandwidth 1 --constraints c.json --out p.json") == 0
    assert json.loads(Path("p.json").read_text())["answer"]["block"][:2] == [1, 1]
    capsys.readouterr()
    assert mtpp("partition path.json -k 1 --bandwidth 1 --constraints c.json") == 2
    assert "has a window up to block 1; blocks run from 0 to 0" in capsys.readouterr().err
