"""Sections of a page about a partition: stages, graph, transfers, timeline, memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from instances import Bound, Partition
from instances.graph.display import figures
from instances.partitioning.stage_records import Crossing, Stage
from instances.partitioning.stages import crossings, stages
from mtpp.plots.layout import block_columns
from mtpp.plots.report.drawing import Bar, Line, hue, legend, stacked_bars, timeline
from mtpp.plots.report.graphs import graph_picture
from mtpp.plots.report.markup import details, paragraph, section, table
from mtpp.text.numbers import Scale, bytes_in_words, time_in_words

__all__ = ["memory_section", "partition_question", "partition_sections"]

_TIMES = ("receive", "work", "overflow", "send")
_RUNS, _MOST_STAGES = 6, 32
_LISTED = 2000


def partition_question(partition: Partition) -> dict[str, str]:
    """The question of a partition, label to text."""
    instance = partition.instance
    found = dict(instance._facts())
    found["source"] = instance.graph.source or "not stated"
    if math.isfinite(instance.platform.memory):
        found["beyond the memory"] = "nothing fits" if instance.platform.fit else "takes time"
    rules = instance.constraints
    counts = {
        "groups kept together": len(rules.together),
        "windows": len(rules.windows),
        "least numbers": len(rules.at_least),
    }
    told = ", ".join(f"{count} {label}" for label, count in counts.items() if count)
    return found | ({"constraints": told} if told else {})


def partition_sections(partition: Partition, bound: Bound | None, *, memory: bool = True) -> Iterator[str]:
    """All sections, one after the other; that of the memory may be left out."""
    found = stages(partition)
    yield _stage_section(partition, found, bound)
    column, spans = block_columns(partition)
    picture = graph_picture(partition.instance.graph, partition.block, column, "stage", spans)
    yield section("Graph by stage", picture, _node_lists(partition))
    yield _crossing_section(crossings(partition))
    yield _timeline_section(partition)
    if memory and any(stage.param_bytes or stage.state_bytes or stage.peak_bytes for stage in found):
        sizes = {
            "parameters": [stage.param_bytes for stage in found],
            "states": [stage.state_bytes for stage in found],
            "activations": [stage.peak_bytes for stage in found],
        }
        labels, limit = [str(stage.stage) for stage in found], partition.instance.platform.memory
        if not partition.instance.is_alike:  # each kind has its own limit
            limit = math.inf
            labels = [f"{label}, {partition.kind_names[int(label)]}" for label in labels]
        yield memory_section(labels, sizes, limit, "stage")


def memory_section(labels: list[str], sizes: dict[str, list[float]], limit: float, names: str) -> str:
    """Bytes that each stage or device holds, beside its memory."""
    parts = {kind: values for kind, values in sizes.items() if any(values)}
    totals = [sum(row) for row in zip(*parts.values(), strict=True)]
    scale = Scale.of_bytes([*totals, limit])
    lines = [Line(limit, "limit", f"memory {bytes_in_words(limit)}")] if math.isfinite(limit) else []
    rows = [
        [label, *map(bytes_in_words, row), bytes_in_words(sum(row))]
        for label, *row in zip(labels, *parts.values(), strict=True)
    ]
    numbers = table([names, *parts, "sum"], rows)
    return section(
        "Memory",
        legend(dict(zip(parts, parts, strict=True))),
        stacked_bars(labels, parts, scale, lines, names),
        details("As a table", numbers),
    )


def _stage_section(partition: Partition, found: tuple[Stage, ...], bound: Bound | None) -> str:
    unit = partition.instance.time_unit
    kinds = [kind for kind in _TIMES if any(getattr(stage, kind) for stage in found)]
    scale = Scale.of_times((stage.cost for stage in found), unit)
    lines = [Line(partition.bottleneck, "limit", f"bottleneck {time_in_words(partition.bottleneck, unit)}")]
    if bound is not None:
        lines.append(Line(bound.value, "bound", f"no cut is below {time_in_words(bound.value, unit)}"))
    parts = {kind: [getattr(stage, kind) for stage in found] for kind in kinds}
    bars = stacked_bars([str(stage.stage) for stage in found], parts, scale, lines)
    devices = partition.kind_names or None
    rows = [
        [
            str(stage.stage),
            *([] if devices is None else [devices[stage.stage]]),
            stage.first,
            stage.last,
            str(stage.nodes),
            *(scale.cell(getattr(stage, kind)) for kind in kinds),
            scale.cell(stage.cost),
            f"{stage.share:.1%}",
        ]
        for stage in found
    ]
    header = ["stage", *([] if devices is None else ["device"]), "first node", "last node", "nodes"]
    header += [f"{kind} [{scale.unit}]" for kind in kinds]
    numbers = table([*header, f"cost [{scale.unit}]", "of the bottleneck"], rows)
    empty = partition.instance.k - len(found)
    note = [paragraph(f"{empty} of {partition.instance.k} stages are empty.", "soft")] if empty else []
    return section("Stages", legend({kind: kind for kind in kinds}), bars, numbers, *note)


def _node_lists(partition: Partition) -> str:
    """The operators of each stage by name, of a graph that is not too large."""
    graph = partition.instance.graph
    if graph.n > _LISTED:
        return ""
    rows = [
        [str(b), ", ".join(_short(graph.names[v]) for v in partition.order[partition.block[partition.order] == b])]
        for b in np.unique(partition.block).tolist()
    ]
    return details("Operators of each stage", table(["stage", "operators"], rows, words=True, longest=None))


def _short(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:30]}…{name[-29:]}"


def _crossing_section(moved: tuple[Crossing, ...]) -> str:
    if not moved:
        return section("Between stages", paragraph("No tensor leaves its stage."))
    largest = sorted(moved, key=lambda tensor: -tensor.bytes)
    rows = [
        [tensor.producer, str(tensor.source), ", ".join(map(str, tensor.readers)), bytes_in_words(tensor.bytes)]
        for tensor in largest
    ]
    total = sum(tensor.bytes * len(tensor.readers) for tensor in moved)
    told = paragraph(f"{len(moved)} tensors, {bytes_in_words(total)} in all for one run, the largest first.")
    return section("Between stages", told, table(["tensor of", "from stage", "to stages", "size"], rows))


def _timeline_section(partition: Partition) -> str:
    """The first runs through the pipeline, where all stages advance together."""
    period, unit = partition.bottleneck, partition.instance.time_unit
    if not 0 < period < math.inf:
        return ""
    costs = partition.block_costs.tolist()[:_MOST_STAGES]
    bars = [
        Bar(b, (i + b) * period, (i + b) * period + cost, hue(i), f"run {i}, stage {b}: {time_in_words(cost, unit)}")
        for b, cost in enumerate(costs)
        for i in range(_RUNS)
        if cost > 0
    ]
    scale = Scale.of_times([(_RUNS + len(costs)) * period], unit)
    every, rate = time_in_words(period, unit), figures(partition.throughput, f"per {unit}")
    told = f"The first {_RUNS} runs, a colour each: a result every {every} ({rate}), each "
    told += f"{time_in_words(partition.latency, unit)} after its input. All stages advance together, as costs have it."
    return section("Timeline", paragraph(told, "soft"), timeline([str(b) for b in range(len(costs))], bars, scale))
