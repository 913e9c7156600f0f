"""Placements in files: with their question and without."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import mtpp
from instances import Bound, ComputationGraph, InputError, Result
from instances.json_files import read_json, write_json
from instances.machines import Kind, Machines
from instances.placement.placement import OrderedPlacement, Placement, placement_document
from instances.placement.problem import PlacementInstance, placement_from_document
from mtpp.problems.checking import certificate_document


def diamond(device: list[int], work: Any = (1, 2, 2, 1)) -> Placement:
    graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)], work, [3, 3, 3, 0])
    return Placement(PlacementInstance(graph, Machines.alike(max(device) + 1, 3.0)), device)


def save(placement: Placement, path: Path) -> None:
    write_json(path, certificate_document([Result("by hand", placement.instance, placement)]))


def test_files_hold_placements(tmp_path: Path) -> None:
    """What is read costs what was written; broken ones are refused."""
    placement, path = diamond([0, 0, 1, 0]), tmp_path / "placement.json"
    save(placement, path)
    again = mtpp.read(path).answer
    assert again.device.tolist() == placement.device.tolist()
    assert placement_document(again) == placement_document(placement)
    text = path.read_text()
    for old, new in (('"mtpp-answer/1"', '"mtpp-graph/1"'), ("[0, 0, 1, 0]", "[0, 0, 1]"), ("[0, 0, 1, 0]", "[9]")):
        path.write_text(text.replace(old, new))
        with pytest.raises(InputError, match=r"placement\.json"):
            mtpp.read(path)


def test_a_certificate_holds_a_placement(tmp_path: Path) -> None:
    """With its question it still reads as an answer, and as a record that says what was known."""
    placement, path = diamond([0, 0, 1, 0]), tmp_path / "placement.json"
    bound = Bound(placement.instance.lower_bound, "simple")
    write_json(path, certificate_document([Result("by hand", placement.instance, placement, bound)]))
    assert mtpp.read(path).cost == 6.0
    stated = placement_from_document(read_json(path))
    assert stated.instance.key == placement.instance.key
    assert (stated.cost, stated.bound, stated.ratio) == (6.0, bound.value, 6.0 / bound.value)
    assert stated.sequence == placement.timeline.sequence
    with pytest.raises(InputError, match="there is no answer to write"):
        certificate_document([Result("by hand", placement.instance, bound=bound)])


def test_files_hold_sequences(tmp_path: Path) -> None:
    """Null where devices and buses serve first come, first served."""
    placement, path = OrderedPlacement.of(diamond([0, 0, 1, 0])), tmp_path / "placement.json"
    save(placement, path)
    again = mtpp.read(path).answer
    assert isinstance(again, OrderedPlacement)
    assert placement_document(again) == placement_document(placement)
    text = path.read_text()
    for old, new, words in (
        (
            "[[0, 1, 3], [2]]",
            "[[0, 3, 1], [2]]",
            r"placement\.json: deadlock: node 3 \(3\), next on device 0, waits for",
        ),
        ("[[0, 1, 3], [2]]", "[[0, 1], [2]]", "node 3 .* is missing"),
        ("[[0, 1, 3], [2]]", "[[0, 1, 3], 2]", r"answer\.device_order\[1\]: expected a list"),
        ("[[[0, 1]], [[2, 0]]]", "[[[0, 1]], [[2]]]", "not a transfer"),
        ("[[[0, 1]], [[2, 0]]]", "7", "answer.bus_order: expected a list"),
    ):
        assert old in text
        path.write_text(text.replace(old, new))
        with pytest.raises(InputError, match=words):
            mtpp.read(path)


def test_files_hold_unequal_devices(tmp_path: Path) -> None:
    """In their question; infinite rates and memories are null."""
    machines = Machines([Kind("a", 1, memory=9.0), Kind("b", 2, speed=2.0)], "fixed", [[2.0, math.inf], [3.0, 1.0]])
    first = diamond([0, 0, 1, 0])
    placement = Placement(PlacementInstance(first.instance.graph, machines), first.device)
    path = tmp_path / "placement.json"
    write_json(path, certificate_document([Result("by hand", placement.instance, placement)]))
    stated = placement_from_document(read_json(path))
    assert stated.instance.machines == machines
    assert stated.instance.key == placement.instance.key
    assert stated.device_order is None
    assert mtpp.read(path).cost == placement.step_time
