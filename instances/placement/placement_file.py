"""Placements as JSON files: ``mtpp-placement/1``, and with sequences or unequal devices ``mtpp-placement/2``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from instances.errors import InputError
from instances.json_files import PLACEMENT_FORMAT, finite_or_none, read_json, write_json
from instances.placement.ordered import OrderedPlacement
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from instances.placement.stated import ORDERED_FORMAT, QUESTION, SEQUENCES, SHOWN, move_rows, node_rows

__all__ = ["placement_document", "read_placement", "save_placement"]


def placement_document(placement: Placement) -> dict[str, Any]:
    """The placement as the JSON document of its file; infinite bandwidth and memory are null.

    One without an order, first come, first served, has null for its sequences, and in format 1 no such members.
    """
    instance = placement.instance
    nodes: list[list[str]] = [[] for _ in range(instance.devices)]
    for name, d in zip(instance.graph.names, placement.device.tolist(), strict=True):
        nodes[d].append(name)
    limits = {"bandwidth": instance.bandwidth, "memory": instance.memory}
    ordered, sequences = placement if isinstance(placement, OrderedPlacement) else None, {}
    if ordered is not None or instance.unequal is not None:
        sequences = {
            "device_order": ordered and [list(nodes) for nodes in ordered.device_order],
            "bus_order": ordered and [[list(move) for move in bus] for bus in ordered.bus_order],
        }
    return {
        "format": ORDERED_FORMAT if sequences else PLACEMENT_FORMAT,
        "graph": instance.graph.name,
        "graph_hash": instance.graph.content_hash,
        "devices": instance.devices,
        "device": placement.device.tolist(),
        **sequences,
        **{name: finite_or_none(value) for name, value in limits.items()},
        "step_time": placement.step_time,
        "peak_memory": placement.peak_memory.tolist(),
        "nodes": nodes,
    }


def save_placement(placement: Placement, path: str | Path) -> None:
    """Write a placement file; raise `InputError` if it cannot be written."""
    write_json(path, placement_document(placement))


def read_placement(path: str | Path, instance: PlacementInstance) -> Placement:
    """Read a placement file as an answer to `instance`; its cost is computed from the definition.

    Raises
    ------
    InputError
        If the file cannot be read, was made for another graph or number of devices, or has sequences that
        `OrderedPlacement` refuses.
    """
    document = read_json(path)
    ordered = document.check_format(PLACEMENT_FORMAT, ORDERED_FORMAT) == ORDERED_FORMAT
    needed = ("format", "graph_hash", "devices", "device", *(SEQUENCES if ordered else ()))
    fields = document.members(needed, (*SHOWN, *QUESTION))
    if fields["graph_hash"].text() != instance.graph.content_hash:
        document.fail(f"the placement was made for another graph than '{instance.graph.name}'; use that one.")
    if fields["devices"].whole() != instance.devices:
        document.fail(f"the placement has {fields['devices'].data} devices, not {instance.devices}; use the same k.")
    try:
        device = fields["device"].whole_numbers()
        if not ordered or fields["device_order"].data is None:
            return Placement(instance, device)
        return OrderedPlacement(instance, device, node_rows(fields["device_order"]), move_rows(fields["bus_order"]))
    except InputError as error:
        document.fail(str(error))
