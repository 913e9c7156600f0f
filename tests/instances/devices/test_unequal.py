"""Devices that differ: what they change in placements, tables of them, and texts."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from placement_oracle import table

import mtpp
from instances import ComputationGraph, InputError
from instances.machines import Kind, Machines, read_kinds
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

GRAPH = ComputationGraph.from_edges([(0, 1), (0, 2)], work=[2, 4, 6], output_bytes=[6, 0, 0])
RATES = [[0.0, 1.0, 2.0], [3.0, 0.0, 3.0], [6.0, 6.0, 0.0]]
DEVICES = table([1.0, 2.0, 4.0], [10.0, 20.0, math.inf], RATES)


def test_works_transfers_and_memories_are_those_of_each_device() -> None:
    instance = PlacementInstance(GRAPH, DEVICES)
    assert instance.bandwidth == 6
    assert instance.total_work == 3
    assert instance.lower_bound == pytest.approx(8 / 4)
    placement = Placement(instance, [0, 1, 2])
    # Node 0 takes 2; its tensor takes 6 to device 1, then 3 to device 2.
    assert placement.timeline.end.tolist() == [2, 10, 12.5]
    together = Placement(PlacementInstance(GRAPH, DEVICES, broadcast=True), [0, 1, 2])
    assert together.timeline.end.tolist() == [2, 10, 9.5]
    assert placement.fits
    tight = table([1.0, 2.0, 4.0], [10.0, 5.0, math.inf], RATES)
    assert not Placement(PlacementInstance(GRAPH, tight), [0, 1, 2]).fits


def test_a_kind_of_several_devices_is_as_many_devices() -> None:
    """In any order of kinds, by bandwidths or by rates; the slower of two bandwidths counts."""
    one, two = Kind("one", 1, speed=2.0, bandwidth=3.0, memory=9.0), Kind("two", 2, bandwidth=1.0, memory=8.0)
    single = table([2.0, 1.0, 1.0], [9.0, 8.0, 8.0], [[1.0] * 3] * 3)
    rates = [[1.0, 1.0], [1.0, 1.0]]
    for device in np.ndindex(3, 3, 3):
        expected = Placement(PlacementInstance(GRAPH, single), device).penalised_time
        for machines in (Machines([one, two]), Machines([one, two], rates=rates)):
            assert Placement(PlacementInstance(GRAPH, machines), device).penalised_time == expected
        turned = [(d + 2) % 3 for d in device]
        assert Placement(PlacementInstance(GRAPH, Machines([two, one])), turned).penalised_time == expected


def test_equal_devices_described_one_by_one_are_the_same() -> None:
    alike = PlacementInstance(GRAPH, Machines.alike(2, 3.0, 7.0))
    other = PlacementInstance(GRAPH, table([1.0, 1.0], [7.0, 7.0], [[3.0, 3.0], [3.0, 3.0]]))
    assert alike.lower_bound == other.lower_bound
    for device in ([0, 0, 0], [0, 1, 0], [1, 0, 0]):
        assert Placement(alike, device).penalised_time == Placement(other, device).penalised_time


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "missing field 'speeds'"),
        ({"speeds": []}, "There are no devices"),
        ({"speeds": [1] * 300}, "there are 300 devices; 256 are the most"),
        ({"speeds": [1, 0]}, r"device 1: speed is 0.0; it must be positive"),
        ({"speeds": [1, 1], "memories": [1]}, "as many memories"),
        ({"speeds": [1, 1], "memories": [1, -1]}, r"device 1: memory is -1.0; it must be"),
        ({"speeds": [1, 1], "rates": [[0, 1], [-1, 0]]}, r"rates\[1\]\[0\] is -1.0; it must be positive"),
        ({"speeds": [1, 1], "rates": [[0, 1]]}, "as many rows of as many rates"),
        ({"speeds": [1, 1], "rates": [[0, 1], 3]}, r"rates\[1\]: expected a list"),
        ({"speeds": "fast"}, "speeds: expected a list"),
        ({"speeds": [1], "names": ["gpu"]}, "unknown field 'names'"),
    ],
)
def test_files_that_describe_no_devices(tmp_path: Path, members: dict[str, Any], message: str) -> None:
    path = tmp_path / "devices.json"
    path.write_text(json.dumps({"format": "mtpp-devices/1", **members}))
    with pytest.raises(InputError, match=message) as refused:
        read_kinds(path)
    assert str(refused.value).startswith(str(path))


def test_a_table_of_devices(tmp_path: Path) -> None:
    """In their order; where it is free, devices that can be exchanged are of one kind."""
    path = tmp_path / "devices.json"
    members = {"speeds": [1, 2, 4], "memories": [10, 20, None], "rates": RATES}
    path.write_text(json.dumps({"format": "mtpp-devices/1", **members}))
    assert read_kinds(path, order="fixed") == DEVICES
    path.write_text('{"format": "mtpp-devices/1", "speeds": [1, 2, 1]}')
    assert read_kinds(path, 9.0).counts == (2, 1)
    ordered = read_kinds(path, 9.0, "fixed")
    assert [(kind.speed, kind.memory) for kind in ordered.kinds] == [(1, 9), (2, 9), (1, 9)]
    path.write_text('{"format": "mtpp-devices/1", "speeds": [1, 2, 1], "rates": [[0, 1, 5], [2, 0, 2], [5, 1, 0]]}')
    assert read_kinds(path).rates == ((5, 1), (2, math.inf))
    assert read_kinds(path, order="fixed").counts == (1, 1, 1)


def test_placements_on_devices_of_all_descriptions(tmp_path: Path) -> None:
    """A table keeps the numbers of its devices; k, if it is given, is how many there are."""
    path = tmp_path / "devices.json"
    path.write_text('{"format": "mtpp-devices/1", "speeds": [1, 4, 1]}')
    result = mtpp.place(GRAPH, devices=path, bandwidth=1.0, time_limit=1)
    assert result.instance.speeds.tolist() == [1, 4, 1]
    assert result.instance.rates.tolist() == [[1, 1, 1]] * 3
    assert result.answer is not None
    assert result.answer.device.tolist() == [1, 1, 1]
    for given in (path, Machines([Kind("a", 3)]), Machines([Kind("a", 1), Kind("b", 2, speed=2.0)])):
        assert mtpp.place(GRAPH, 3, devices=given, bandwidth=1.0, time_limit=1).instance.devices == 3
        with pytest.raises(InputError, match="k=2: there are 3 devices"):
            mtpp.place(GRAPH, 2, devices=given, bandwidth=1.0)
    with pytest.raises(InputError, match="priced by peak_flops"):
        mtpp.place(GRAPH, devices="1xA100,2xL4")


def test_kinds_that_price_a_graph_have_works_of_their_own(tmp_path: Path) -> None:
    """As the graph has that is priced on each of them; the file says the works, and is proved."""
    result = mtpp.place("gpt2", devices="1xA100,2xL4", time_limit=1)
    instance = result.instance
    kinds = {kind.name: kind.roofline for kind in instance.machines.kinds}
    assert list(kinds) == ["A100", "L4"]
    for t, roofline in enumerate(kinds.values()):
        assert roofline is not None
        rates = {"peak_flops": roofline.peak_flops, "memory_bandwidth": roofline.memory_bandwidth}
        assert instance.times[t].tolist() == mtpp.load("gpt2", **rates).work.tolist()
    alone = Placement(instance, np.zeros(instance.graph.n, dtype=int)).step_time
    assert alone == pytest.approx(instance.times[0].sum())
    verdict = mtpp.verify(result, devices="1xA100,2xL4", graph="gpt2")
    assert verdict.faults == ()
    assert not verdict.rests_on_trust
    (fault, *_) = mtpp.verify(result, devices="1xA100,2xT4").faults
    assert "1xA100,2xL4, you ask for 1xA100,2xT4" in fault
    read = mtpp.read(result.save(tmp_path / "p.json"))
    assert read.instance.question_hash == instance.question_hash
    grouped = mtpp.place("gpt2", devices="1xA100,2xL4", groups=20, time_limit=1)
    assert grouped.cost >= result.instance.lower_bound
    slower = replace(instance, works=2 * instance.times)
    assert slower.lower_bound == pytest.approx(2 * instance.lower_bound)


@pytest.mark.parametrize(
    ("works", "message"),
    [([[1.0, 2.0, 3.0]], "works for"), ([[1.0, 2.0, 3.0], [1.0, 0.0, 3.0]], "0 on all kinds or on none")],
)
def test_works_that_are_no_times_are_refused(works: list[list[float]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        PlacementInstance(GRAPH, Machines([Kind("a", 1), Kind("b", 1, speed=2.0)], bandwidth=1.0), works=works)
