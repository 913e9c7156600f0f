"""Unequal devices: what they change, and files of them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from instances import ComputationGraph, InputError
from instances.devices import DeviceTable, read_devices
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

GRAPH = ComputationGraph.from_edges([(0, 1), (0, 2)], work=[2, 4, 6], output_bytes=[6, 0, 0])
DEVICES = DeviceTable([1, 2, 4], [10, 20, math.inf], [[0, 1, 2], [3, 0, 3], [6, 6, 0]])


def test_works_transfers_and_memories_are_those_of_each_device() -> None:
    instance = PlacementInstance(GRAPH, 3, 1.0, unequal=DEVICES)
    assert instance.bandwidth == 6
    assert instance.total_work == 3
    assert instance.lower_bound == pytest.approx(8 / 4)
    placement = Placement(instance, [0, 1, 2])
    # Node 0 takes 2; its tensor takes 6 to device 1, then 3 to device 2.
    assert placement.timeline.end.tolist() == [2, 10, 12.5]
    together = Placement(PlacementInstance(GRAPH, 3, 1.0, broadcast=True, unequal=DEVICES), [0, 1, 2])
    assert together.timeline.end.tolist() == [2, 10, 9.5]
    assert placement.fits
    tight = DeviceTable([1, 2, 4], [10, 5, math.inf], DEVICES.rates)
    assert not Placement(PlacementInstance(GRAPH, 3, 1.0, unequal=tight), [0, 1, 2]).fits


def test_equal_devices_described_one_by_one_are_the_same() -> None:
    same = DeviceTable([1, 1], [7, 7], [[3, 3], [3, 3]])
    one, other = PlacementInstance(GRAPH, 2, 3.0, 7.0), PlacementInstance(GRAPH, 2, 3.0, unequal=same)
    assert one.lower_bound == other.lower_bound
    for device in ([0, 0, 0], [0, 1, 0], [1, 0, 0]):
        assert Placement(one, device).penalised_time == Placement(other, device).penalised_time


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "missing field 'speeds'"),
        ({"speeds": []}, "There are 0 unequal devices"),
        ({"speeds": [1] * 300}, "There are 300 unequal devices"),
        ({"speeds": [1, 0]}, r"speeds\[1\] is 0.0; it must be positive"),
        ({"speeds": [1, 1], "memories": [1]}, "as many memories"),
        ({"speeds": [1, 1], "memories": [1, 0]}, r"memories\[1\] is 0.0; it must be positive"),
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
        read_devices(path, 1.0, math.inf)
    assert str(refused.value).startswith(str(path))


def test_a_file_of_devices(tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    path.write_text(json.dumps({"format": "mtpp-devices/1", **DEVICES.document()}))
    assert read_devices(path, 1.0, math.inf) == DEVICES
    path.write_text('{"format": "mtpp-devices/1", "speeds": [1, 2]}')
    read = read_devices(path, 5.0, 9.0)
    assert read.memories == (9, 9)
    assert read.rates == ((math.inf, 5), (5, math.inf))


def test_a_description_of_other_devices_is_refused() -> None:
    with pytest.raises(InputError, match="3 devices are described for k = 2"):
        PlacementInstance(GRAPH, 2, 1.0, unequal=DEVICES)
