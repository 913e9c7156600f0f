"""Placements as JSON files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from instances.errors import InputError
from instances.json_files import PLACEMENT_FORMAT, read_json, write_json
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from instances.placement.stated import QUESTION, SHOWN

__all__ = ["placement_document", "read_placement", "save_placement"]


def placement_document(placement: Placement) -> dict[str, Any]:
    """The placement as the JSON document of its file; infinite bandwidth and memory are null."""
    instance = placement.instance
    nodes: list[list[str]] = [[] for _ in range(instance.devices)]
    for name, d in zip(instance.graph.names, placement.device.tolist(), strict=True):
        nodes[d].append(name)
    limits = {"bandwidth": instance.bandwidth, "memory": instance.memory}
    return {
        "format": PLACEMENT_FORMAT,
        "graph": instance.graph.name,
        "graph_hash": instance.graph.content_hash,
        "devices": instance.devices,
        "device": placement.device.tolist(),
        **{name: value if math.isfinite(value) else None for name, value in limits.items()},
        "step_time": placement.step_time,
        "peak_memory": placement.peak_memory.tolist(),
        "nodes": nodes,
    }


def save_placement(placement: Placement, path: str | Path) -> None:
    """Write a placement file; an `InputError` says why it cannot be written."""
    write_json(path, placement_document(placement))


def read_placement(path: str | Path, instance: PlacementInstance) -> Placement:
    """Read a placement file as an answer to `instance`; what it costs is computed anew.

    Raises
    ------
    InputError
        If the file cannot be read, or was made for another graph or number of devices.
    """
    document = read_json(path)
    fields = document.members(("format", "graph_hash", "devices", "device"), (*SHOWN, *QUESTION))
    document.check_format(PLACEMENT_FORMAT)
    if fields["graph_hash"].text() != instance.graph.content_hash:
        document.fail(f"the placement was made for another graph than '{instance.graph.name}'; use that one.")
    if fields["devices"].whole() != instance.devices:
        document.fail(f"the placement has {fields['devices'].data} devices, not {instance.devices}; use the same k.")
    try:
        return Placement(instance, fields["device"].whole_numbers())
    except InputError as error:
        document.fail(str(error))
