"""Placements in files, ``mtpp-placement/1`` and ``/2``, as raw records: statements that are not checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from instances.certificates.claims import PLACEMENT, Envelope, check_question, envelope
from instances.certificates.provenance import check_written, opened
from instances.devices.unequal import devices_from_members
from instances.errors import InputError
from instances.graph.graph_file import graph_document, graph_from_document
from instances.json_files import PLACEMENT_FORMAT, Value, finite_or_none
from instances.placement.problem import PlacementInstance

__all__ = [
    "ORDERED_FORMAT",
    "QUESTION",
    "SHOWN",
    "StatedPlacement",
    "placement_from_document",
    "question_document",
]

#: Of placements with sequences, and of those on unequal devices.
ORDERED_FORMAT = "mtpp-placement/2"

#: Members of every placement file that are there for people.
SHOWN = ("graph", "bandwidth", "memory", "step_time", "peak_memory", "nodes")
# Members that the format 2 has beside those of 1; both null where devices and buses serve first come, first served.
_SEQUENCES = ("device_order", "bus_order")
#: Members that make a certificate of a placement file.
QUESTION = ("instance", "sequence", "bound", "ratio", "bounds")

_INSTANCE = ("graph", "devices", "bandwidth", "memory", "node_gap", "transfer_gap", "broadcast")


@dataclass(frozen=True, kw_only=True)
class StatedPlacement(Envelope):
    """Placement as its file states it: a question, devices, and claims that are not checked yet."""

    instance: PlacementInstance
    device: tuple[int, ...]
    sequence: tuple[int, ...]  # nodes in the order in which they start
    # Nodes of each device and transfers of each bus in sequence; None where the first that is ready is served first.
    device_order: tuple[tuple[int, ...], ...] | None
    bus_order: tuple[tuple[tuple[int, ...], ...], ...] | None
    peak_memory: tuple[float, ...]
    nodes: tuple[tuple[str, ...], ...]  # names of the nodes on each device
    copies: dict[str, object]  # values of its question that the file repeats

    answer_name: ClassVar[str] = "placement"
    cost_name: ClassVar[str] = "step time"


def question_document(instance: PlacementInstance) -> dict[str, Any]:
    """The question as a member of a placement file; infinite bandwidth and memory are null."""
    unequal = {} if instance.unequal is None else {"unequal": instance.unequal.document()}
    return {
        "graph": graph_document(instance.graph),
        "devices": instance.devices,
        "bandwidth": finite_or_none(instance.bandwidth),
        "memory": finite_or_none(instance.memory),
        "node_gap": instance.node_gap,
        "transfer_gap": instance.transfer_gap,
        "broadcast": instance.broadcast,
        **unequal,
    }


def placement_from_document(document: Value) -> StatedPlacement:
    """The placement of a file with its question.

    Raises
    ------
    InputError
        If this is no placement, it does not hold its question, or it names a field or a method that this project does
        not have; the message names the place.
    """
    document, stated_hash = opened(document, PLACEMENT_FORMAT, ORDERED_FORMAT)
    ordered = document.check_format(PLACEMENT_FORMAT, ORDERED_FORMAT) == ORDERED_FORMAT
    check_question(document, QUESTION, "place")
    more = _SEQUENCES if ordered else ()
    fields = document.members(("format", "graph_hash", "devices", "device", *more, *SHOWN, *QUESTION))
    if ordered and fields["device_order"].data is None:
        ordered = False
    instance = _question(fields["instance"])
    if stated_hash is not None:
        check_written(fields["instance"], question_document(instance))
        if not ordered and more and fields["bus_order"].data is not None:
            fields["bus_order"].fail("there is no device_order; both are null, or neither.")
    return StatedPlacement(
        **envelope(fields, "step_time", PLACEMENT, stated_hash),
        instance=instance,
        device=tuple(fields["device"].whole_numbers()),
        sequence=tuple(fields["sequence"].whole_numbers()),
        device_order=_node_rows(fields["device_order"]) if ordered else None,
        bus_order=_move_rows(fields["bus_order"]) if ordered else None,
        peak_memory=tuple(fields["peak_memory"].numbers()),
        nodes=tuple(tuple(names.texts()) for names in fields["nodes"].items()),
        copies={
            "graph": fields["graph"].text() if stated_hash is None else instance.graph.name,
            "graph_hash": fields["graph_hash"].text(),
            "devices": fields["devices"].whole(),
            "bandwidth": fields["bandwidth"].optional_number(),
            "memory": fields["memory"].optional_number(),
        },
    )


def _node_rows(value: Value) -> tuple[tuple[int, ...], ...]:
    """The member `device_order`."""
    return tuple(tuple(row.whole_numbers()) for row in value.items())


def _move_rows(value: Value) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """The member `bus_order`."""
    return tuple(_node_rows(bus) for bus in value.items())


def _question(document: Value) -> PlacementInstance:
    fields = document.members(_INSTANCE, ("unequal",))
    bandwidth, memory = (fields[name].optional_number() for name in ("bandwidth", "memory"))
    values: dict[str, Any] = {
        "devices": fields["devices"].whole(),
        "bandwidth": math.inf if bandwidth is None else bandwidth,
        "memory": math.inf if memory is None else memory,
        "node_gap": fields["node_gap"].number(),
        "transfer_gap": fields["transfer_gap"].number(),
        "broadcast": fields["broadcast"].truth(),
        "unequal": devices_from_members(fields["unequal"]) if "unequal" in fields else None,
    }
    graph = graph_from_document(fields["graph"])
    try:
        return PlacementInstance(graph, **values)
    except InputError as error:
        document.fail(str(error))
