"""Placements as JSON files: ``mtpp-placement/1``, and with sequences or unequal devices ``mtpp-placement/2``."""

from __future__ import annotations

from typing import Any

from instances.json_files import PLACEMENT_FORMAT, finite_or_none
from instances.placement.placement import OrderedPlacement, Placement
from instances.placement.stated import ORDERED_FORMAT

__all__ = ["placement_document"]


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
