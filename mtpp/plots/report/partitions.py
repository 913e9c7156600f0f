"""Pages of partitions, serving fronts and flows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from instances import Bound, Partition
from instances.flow.answer import FlowAnswer
from instances.graph.display import figures
from instances.partitioning.serving import ServedPartition
from instances.partitioning.stages import crossings, stages
from instances.partitioning.stated import Crossing, Stage
from instances.runtimes.layers import layers_in_words
from instances.runtimes.serving_front import Front
from mtpp.plots.partitions import block_columns
from mtpp.plots.report.drawing import (
    Bar,
    Line,
    details,
    graph_picture,
    hue,
    legend,
    paragraph,
    section,
    stacked_bars,
    svg,
    table,
    text,
    timeline,
)
from mtpp.text.numbers import Scale, bytes_in_words, time_in_words

# Sections of a page about a partition: stages, graph, transfers, timeline, memory.


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


# Sections of a page about a serving front: all cuts that no other beats, and the memory of the answer.


_WIDTH, _HEIGHT, _LEFT = 640.0, 260.0, 90.0


def front_question(front: Front) -> dict[str, str]:
    """The question of a front, label to text."""
    question = front.instance
    return partition_question(front.partition) | {
        "batch": f"{question.batch} sequences",
        "context": f"{question.context} tokens of each at least",
    }


def front_sections(front: Front, bound: Bound | None) -> Iterator[str]:
    """The front as a picture and a table, and the chosen cut with what its stages hold."""
    points, answer = front.points, front.chosen
    unit = answer.question.instance.time_unit
    rows = [
        [
            layers_in_words(point.partition) + (" (the answer)" if point is answer else ""),
            time_in_words(point.bottleneck, unit),
            _tokens(point.capacity),
            _tokens(point.capacity * answer.question.batch),
        ]
        for point in points
    ]
    told = "No cut beats one of these in both: the time of the slowest stage, and the context that all stages hold."
    numbers = table(["layers of the stages", "bottleneck", "context", "tokens in all"], rows)
    yield section("Cuts that no other beats", paragraph(told, "soft"), _picture(points, answer), numbers)
    context = min(answer.capacity, 1e15)
    partition = answer.partition
    sizes = {
        "parameters": partition.param_bytes.tolist(),
        "states": answer.cache_bytes(context).tolist(),
        "activations": partition.peaks.tolist(),
    }
    labels = [str(n) for n in range(partition.instance.k)]
    if not partition.instance.is_alike:
        labels = [f"{label} ({name})" for label, name in zip(labels, partition.kind_names, strict=True)]
    alike = partition.instance.is_alike
    yield memory_section(labels, sizes, partition.instance.platform.memory if alike else math.inf, "stage")
    yield paragraph(f"The states are keys and values at a context of {_tokens(answer.capacity)} tokens.", "soft")
    yield from partition_sections(partition, bound, memory=False)


def _picture(points: Sequence[ServedPartition], answer: ServedPartition) -> str:
    """Context over bottleneck; the answer is filled."""
    shown = [point for point in points if point.capacity < math.inf]
    if len(shown) < 2:
        return ""
    times, contexts = [point.bottleneck for point in shown], [point.capacity for point in shown]
    unit = answer.question.instance.time_unit

    def place(point: ServedPartition) -> tuple[float, float]:
        across = (point.bottleneck - times[0]) / (times[-1] - times[0] or 1)
        up = (point.capacity - contexts[0]) / (contexts[-1] - contexts[0] or 1)
        return _LEFT + 20 + across * (_WIDTH - 60), _HEIGHT - 30 - up * (_HEIGHT - 60)

    marks = []
    for point in shown:
        (x, y), fill = place(point), "var(--Work)" if point is answer else "var(--Card)"
        told = text(f"{time_in_words(point.bottleneck, unit)}, {_tokens(point.capacity)} tokens")
        look = f'r="6" stroke="var(--Work)" stroke-width="2" fill="{fill}"'
        marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" {look}><title>{told}</title></circle>')
    words = [
        (_LEFT + 20, _HEIGHT - 4, "start", time_in_words(times[0], unit)),
        (_LEFT + _WIDTH - 40, _HEIGHT - 4, "end", f"bottleneck {time_in_words(times[-1], unit)}"),
        (_LEFT, _HEIGHT - 26, "end", _tokens(contexts[0])),
        (_LEFT, 34.0, "end", _tokens(contexts[-1])),
        (_LEFT, 16.0, "end", "context"),
    ]
    axes = f'<path class="grid" d="M{_LEFT + 6:.0f} 20V{_HEIGHT - 18:.0f}H{_LEFT + _WIDTH:.0f}"/>'
    ends = [
        f'<text class="soft" x="{x:.0f}" y="{y:.0f}" text-anchor="{side}">{text(told)}</text>'
        for x, y, side, told in words
    ]
    return svg(_LEFT + _WIDTH + 20, _HEIGHT, "".join([axes, *ends, *marks]))


def _tokens(count: float) -> str:
    return "any" if count == math.inf else f"{count:.0f}"


# Sections of a page about a flow: layers of the devices, what passes them and their links, and what holds it back.


_RATE = "requests/s"
#: A device or a link is full from this part of its capacity on.
_FULL = 1 - 1e-9


def flow_question(answer: FlowAnswer) -> dict[str, str]:
    """The question of a flow, label to text."""
    instance = answer.instance
    found = dict(instance._facts())
    for t, row in enumerate(instance.capacity):
        held = np.flatnonzero(row)
        told = "holds no layer"
        if len(held):
            ends = dict.fromkeys((int(held[0]), int(held[-1])))
            told = ", ".join(f"{figures(row[c], _RATE)} with {c} {'layer' if c == 1 else 'layers'}" for c in ends)
        found[f"kind {t}"] = f"{instance.counts[t]} devices: {told}"
    return found


def flow_sections(answer: FlowAnswer, bound: Bound | None) -> Iterator[str]:
    """All sections, one after the other."""
    most = 1 / bound.value if bound is not None and bound.value > 0 else None
    yield _device_section(answer)
    yield _layer_section(answer, most)
    yield _link_section(answer)


def _device_section(answer: FlowAnswer) -> str:
    instance, interval = answer.instance, answer.interval
    order = np.lexsort((interval[:, 1], interval[:, 0]))
    order = order[interval[order, 1] > interval[order, 0]]
    passes, bars, rows = _passes(answer), list[Bar](), list[list[str]]()
    scale = Scale.of_numbers(answer.capacity, _RATE)
    for row, i in enumerate(order.tolist()):
        (begin, end), own, t = interval[i].tolist(), float(answer.capacity[i]), int(instance.kind[i])
        share = min(1.0, float(passes[i]) / own) if own > 0 else 0.0
        layers = f"{begin}" if end == begin + 1 else f"{begin}–{end - 1}"
        told = f"{instance.devices[i]}, kind {t}: layers {layers}, {share:.1%} of {scale.cell(own)} {_RATE}"
        bars += [Bar(row, begin, end, "spare", told), Bar(row, begin, end, hue(t), told, 1 - share, 1.0)]
        cells = [scale.cell(own), scale.cell(float(passes[i])), f"{share:.1%}"]
        rows.append([instance.devices[i], str(t), layers, str(end - begin), *cells])
    idle = instance.n - len(rows)
    told = "A row is a device, from its first layer to its last, in the colour of its kind; the filled part of its "
    told += "height is what passes, of what it could serve." + (f" {idle} devices hold no layer." if idle else "")
    picture = timeline([cells[0] for cells in rows], bars, Scale("layer", 1.0, 0))
    header = ["device", "kind", "layers", "number", f"could serve [{_RATE}]", "passes", "used"]
    return section("Layers of the devices", paragraph(told, "soft"), picture, table(header, rows))


def _layer_section(answer: FlowAnswer, most: float | None) -> str:
    """The most that could pass each layer; neighbours that lie on the same devices are one row."""
    interval, flow = answer.interval, answer.flow
    cuts = sorted({0, answer.instance.layers, *interval[interval[:, 1] > interval[:, 0]].ravel().tolist()})
    held = [float(answer.capacity[(interval[:, 0] <= a) & (interval[:, 1] >= b)].sum()) for a, b in pairwise(cuts)]
    parts = {"work": [min(flow, rate) for rate in held], "spare": [max(0.0, rate - flow) for rate in held]}
    scale = Scale.of_numbers([*held, flow], _RATE)
    lines = [Line(flow, "limit", f"flow {figures(flow, _RATE)}")]
    if most is not None:
        lines.append(Line(most, "bound", f"no layers let more than {figures(most, _RATE)} pass"))
    labels = [str(a) if b == a + 1 else f"{a}–{b - 1}" for a, b in pairwise(cuts)]
    words = legend({"work": "passes", "spare": "could pass, by the devices alone"})
    return section("Requests through each layer", words, stacked_bars(labels, parts, scale, lines, "layers"))


def _link_section(answer: FlowAnswer) -> str:
    """The links that requests take, the fullest first, and how much of the network is full."""
    n, passing, network = answer.instance.n, answer.passing, answer.network
    names = ["source", "sink", *answer.instance.devices, *answer.instance.devices]
    links = [(u, v) for u, v in np.argwhere(passing > 0).tolist() if v != u + n or u < 2]
    links.sort(key=lambda link: -passing[link] / network[link])
    scale = Scale.of_numbers([passing[link] for link in links], _RATE)
    rows = [
        [
            names[u],
            names[v],
            scale.cell(passing[u, v]),
            scale.cell(network[u, v]),
            f"{passing[u, v] / network[u, v]:.1%}",
        ]
        for u, v in links
    ]
    full = sum(bool(passing[link] >= network[link] * _FULL) for link in links)
    devices = int((_passes(answer) >= answer.capacity * _FULL)[answer.capacity > 0].sum())
    told = f"{len(links)} links are used, {full} of them full; {devices} of {n} devices are full. One way to reach the "
    told += "flow is shown, the fullest links first; there may be others."
    header = ["from", "to", f"passes [{_RATE}]", "could carry", "used"]
    return section("Links", paragraph(told, "soft"), table(header, rows))


def _passes(answer: FlowAnswer) -> np.ndarray:
    """(n,) requests/s through each device."""
    n = answer.instance.n
    return answer.passing[np.arange(2, n + 2), np.arange(n + 2, 2 * n + 2)]
