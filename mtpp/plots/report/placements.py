"""Sections of a page about a placement: devices, graph, timeline, memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from instances import Bound
from instances.placement.placement import Placement
from mtpp.plots.layout import depth_columns
from mtpp.plots.report.drawing import Bar, Line, hue, timeline
from mtpp.plots.report.graphs import graph_picture
from mtpp.plots.report.markup import paragraph, section, table
from mtpp.plots.report.partitions import memory_section
from mtpp.text.numbers import Scale, bytes_in_words, time_in_words

__all__ = ["placement_question", "placement_sections"]

_NODES, _BUS = 0.68, 0.74  # of a row: nodes until here, the bus from here


def placement_question(placement: Placement) -> dict[str, str]:
    """The question of a placement, label to text."""
    instance = placement.instance
    memory = "unlimited" if math.isinf(instance.memory) else f"{bytes_in_words(instance.memory)} at most"
    return {
        "nodes": str(instance.graph.n),
        "edges": str(instance.graph.m),
        "source": instance.graph.source or "not stated",
        "devices": f"{instance.devices}, {'equal' if instance.unequal is None else 'unequal'}",
        "bandwidth": f"{bytes_in_words(instance.bandwidth)} per {instance.graph.time_unit}",
        "memory": memory,
    }


def placement_sections(placement: Placement, bound: Bound | None) -> Iterator[str]:
    """All sections, one after the other."""
    instance, graph, k = placement.instance, placement.instance.graph, placement.instance.devices
    labels = [str(d) for d in range(k)]
    busy = np.bincount(placement.device, placement.timeline.end - placement.timeline.start, k)
    counts = np.bincount(placement.device, minlength=k).tolist()
    scale = Scale.of_times([placement.step_time], graph.time_unit)
    rows = [
        [labels[d], str(counts[d]), scale.cell(float(busy[d])), f"{busy[d] / placement.step_time:.1%}"]
        for d in range(k)
    ]
    yield section("Devices", table(["device", "nodes", f"busy [{scale.unit}]", "of the step"], rows))
    picture = graph_picture(graph, placement.device, depth_columns(graph), "device")
    yield section("Graph by device", picture)
    told = "A row is a device with its nodes, and below them its bus, in the colour of the device that receives."
    lines = [Line(placement.step_time, "limit", f"the step ends at {scale.cell(placement.step_time)} {scale.unit}")]
    yield section("Timeline", paragraph(told, "soft"), timeline(labels, _bars(placement), scale, lines))
    held = placement.param_bytes, placement.state_bytes
    rest = (placement.peak_memory - held[0] - held[1]).clip(0)
    sizes = dict(zip(("parameters", "states", "activations"), (part.tolist() for part in (*held, rest)), strict=True))
    if any(map(any, sizes.values())):
        limit = instance.memory if instance.unequal is None else math.inf
        yield memory_section(labels, sizes, limit, "device")


def _bars(placement: Placement) -> list[Bar]:
    graph, times = placement.instance.graph, placement.timeline
    bars = []
    for v, d in enumerate(placement.device.tolist()):
        start, end = float(times.start[v]), float(times.end[v])
        if end > start:
            told = f"{graph.names[v]}: {time_in_words(end - start, graph.time_unit)}"
            bars.append(Bar(d, start, end, hue(d), told, 0.0, _NODES))
    for transfer in times.transfers:
        size = bytes_in_words(float(graph.tensors.bytes[transfer.tensor]))
        name = graph.names[graph.tensors.producer[transfer.tensor]]
        told = f"to {', '.join(map(str, transfer.targets))}: {name}, {size}"
        bars.append(Bar(transfer.source, transfer.start, transfer.end, hue(transfer.targets[0]), told, _BUS, 1.0))
    return bars
