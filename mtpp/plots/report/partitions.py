"""Pages of partitions, serving fronts and flows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from instances import Bound, Partition
from instances.flow.answer import FlowAnswer
from instances.flow.problem import FlowInstance
from instances.graph.display import figures, how_many
from instances.partitioning.partition import crossings, stages
from instances.partitioning.stated import Crossing
from instances.runtimes.layers import layers_in_words
from instances.runtimes.serving_front import Front
from mtpp.plots.sections import (
    Bar,
    Chart,
    GroupedGraph,
    Kind,
    Mark,
    Point,
    Row,
    Scatter,
    Section,
    Table,
    block_columns,
    memory_section,
    shortened,
    stacked,
)
from mtpp.text.numbers import Scale, bytes_in_words, time_in_words, tokens_in_words

# Sections of a page about a partition: stages, graph, transfers, timeline, memory.


_TIMES = ("receive", "work", "overflow", "send")
_RUNS, _MOST_STAGES = 6, 32
_LISTED = 2000


def partition_question(partition: Partition) -> dict[str, str]:
    """The question of a partition: label to text."""
    instance = partition.instance
    facts = dict(instance._facts())
    facts["source"] = instance.graph.source or "not stated"
    if math.isfinite(instance.platform.memory):
        facts["limit of memory"] = "hard" if instance.platform.fit else "soft: what is beyond it takes time"
    rules = instance.constraints
    counts = {
        "groups kept together": len(rules.together),
        "windows": len(rules.windows),
        "least numbers": len(rules.at_least),
    }
    counted = ", ".join(f"{count} {label}" for label, count in counts.items() if count)
    return facts | ({"constraints": counted} if counted else {})


def partition_sections(partition: Partition, bound: Bound | None, *, memory: bool = True) -> Iterator[Section]:
    """All sections on a partition; the one on memory only if it matters."""
    records = stages(partition)
    yield stage_section(partition, bound)
    column, spans = block_columns(partition)
    graph = GroupedGraph(partition.instance.graph, partition.block, column, "stage", spans)
    yield Section("Graph by stage", graph=graph, table=_node_lists(partition))
    yield _crossing_section(crossings(partition))
    if 0 < partition.bottleneck < math.inf:
        yield _timeline_section(partition)
    if memory and any(stage.param_bytes or stage.state_bytes or stage.peak_bytes for stage in records):
        devices = partition.kind_names
        sizes = {
            "parameters": [stage.param_bytes for stage in records],
            "states": [stage.state_bytes for stage in records],
            "activations": [stage.peak_bytes for stage in records],
        }
        labels = [", ".join([str(stage.stage), *devices[stage.stage : stage.stage + 1]]) for stage in records]
        yield memory_section(labels, sizes, partition.instance.machines.common_memory, "stage")


def stage_section(partition: Partition, bound: Bound | None) -> Section:
    """Times of each non-empty stage by part, with the bottleneck and the bound."""
    records, unit, k = stages(partition), partition.instance.time_unit, partition.instance.k
    parts = {kind: [getattr(stage, kind) for stage in records] for kind in _TIMES}
    parts = {kind: times for kind, times in parts.items() if any(times)}
    marks = [Mark(partition.bottleneck, "limit", f"bottleneck {time_in_words(partition.bottleneck, unit)}")]
    if bound is not None:
        marks.append(Mark(bound.value, "bound", f"no cut is below {time_in_words(bound.value, unit)}"))
    scale = Scale.of_times((stage.cost for stage in records), unit)
    chart = stacked([str(stage.stage) for stage in records], parts, scale, "stage", marks=marks)
    devices = partition.kind_names
    rows = [
        [
            str(stage.stage),
            *([devices[stage.stage]] if devices else []),
            stage.first,
            stage.last,
            str(stage.nodes),
            *(scale.cell(times[i]) for times in parts.values()),
            scale.cell(stage.cost),
            f"{stage.share:.1%}",
        ]
        for i, stage in enumerate(records)
    ]
    header = ["stage", *(["device"] if devices else []), "first node", "last node", "nodes"]
    header += [f"{kind} [{scale.unit}]" for kind in [*parts, "cost"]]
    notes = [f"{k - len(records)} of {k} stages are empty."] if len(records) < k else []
    return Section("Stages", sentences=notes, chart=chart, table=Table([*header, "of the bottleneck"], rows))


def _node_lists(partition: Partition) -> Table | None:
    """Names of each stage's operators, for graphs that are not too large."""
    graph = partition.instance.graph
    if graph.n > _LISTED:
        return None
    rows = [
        [str(b), ", ".join(shortened(graph.names[v]) for v in partition.order[partition.block[partition.order] == b])]
        for b in np.unique(partition.block).tolist()
    ]
    return Table(["stage", "operators"], rows, words=True, longest=None, summary="Operators of each stage")


def _crossing_section(moved: tuple[Crossing, ...]) -> Section:
    if not moved:
        return Section("Between stages", sentences=["No tensor leaves its stage."])
    rows = [
        [tensor.producer, str(tensor.source), ", ".join(map(str, tensor.readers)), bytes_in_words(tensor.bytes)]
        for tensor in sorted(moved, key=lambda tensor: -tensor.bytes)
    ]
    total = sum(tensor.bytes * len(tensor.readers) for tensor in moved)
    words = f"{how_many(len(moved), 'tensor')}, {bytes_in_words(total)} in all for one run, the largest first."
    table = Table(["tensor of", "from stage", "to stages", "size"], rows)
    return Section("Between stages", sentences=[words], table=table)


def _timeline_section(partition: Partition) -> Section:
    """The first batches through the pipeline, in which all stages advance in lockstep."""
    period, unit = partition.bottleneck, partition.instance.time_unit
    costs = partition.block_costs.tolist()[:_MOST_STAGES]
    rows = []
    for b, cost in enumerate(costs):
        title, starts = f"stage {b}: {time_in_words(cost, unit)}", [(i + b) * period for i in range(_RUNS)]
        bars = [Bar(start, start + cost, i, f"run {i}, {title}") for i, start in enumerate(starts) if cost > 0]
        rows.append(Row(str(b), bars))
    scale = Scale.of_times([(_RUNS + len(costs)) * period], unit)
    every, rate = time_in_words(period, unit), figures(partition.throughput, f"per {unit}")
    words = f"The first {_RUNS} runs, a colour each: a result every {every} ({rate}), each "
    words += f"{time_in_words(partition.latency, unit)} after its input. All stages advance together, as costs have it."
    return Section("Timeline", sentences=[words], chart=Chart(rows, scale, "stage"))


# Sections of a page about a serving front: all cuts that no other beats, and the memory of the answer.


def front_question(front: Front) -> dict[str, str]:
    """The question of a front: label to text."""
    question = front.instance
    return partition_question(front.partition) | {
        "batch": how_many(question.batch, "sequence"),
        **({} if question.in_flight is None else {"in flight": how_many(question.in_flight, "batch")}),
        "context": f"{question.context} tokens of each at least",
    }


def front_sections(front: Front, bound: Bound | None) -> Iterator[Section]:
    """The front as a picture and a table, and the memory of the chosen cut's stages."""
    points, answer, question = front.points, front.chosen, front.instance
    unit = question.instance.time_unit
    rows = [
        [
            layers_in_words(point.partition) + (" (the answer)" if point is answer else ""),
            time_in_words(point.cost, unit),
            tokens_in_words(point.usable_context),
            tokens_in_words(point.capacity * question.batch * (question.in_flight or 1)),
        ]
        for point in points
    ]
    words = f"No cut beats one of these in both: the time a batch at a context of {question.context} tokens, and the "
    words += "room for context of each sequence "
    if question.in_flight is None:
        words += f"of one batch in all stages. The speed needs the caches of up to {question.instance.k} batches."
    else:
        words += f"in all stages with {how_many(question.in_flight, 'batch')} in flight."
    table = Table(["layers of the stages", "time a batch", "context", "tokens in all"], rows)
    yield Section("Cuts that no other beats", sentences=[words], scatter=_scatter(front), table=table)
    context = min(answer.usable_context, 1e15)
    partition = answer.partition
    sizes = {
        "parameters": partition.param_bytes.tolist(),
        "states": answer.cache_bytes(context).tolist(),
        "activations": partition.peaks.tolist(),
    }
    devices, limit = partition.kind_names, partition.instance.machines.common_memory
    labels = [", ".join([str(n), *devices[n : n + 1]]) for n in range(partition.instance.k)]
    words = f"The states are keys and values at a context of {tokens_in_words(answer.usable_context)} tokens."
    yield memory_section(labels, sizes, limit, "stage", words)
    yield from partition_sections(partition, bound, memory=False)


def _scatter(front: Front) -> Scatter | None:
    """Usable context over time per batch, if at least two cuts have a limit."""
    unit, points = front.chosen.question.instance.time_unit, []
    for point in front.points:
        if point.usable_context < math.inf:
            words = time_in_words(point.cost, unit), tokens_in_words(point.usable_context)
            title = f"{', '.join(words)} tokens"
            points.append(Point(point.cost, point.usable_context, words, title, point is front.chosen))
    return Scatter(points, "time a batch", "context") if len(points) > 1 else None


# Sections of a page about a flow: layers of the devices, what passes them and their links, and what holds it back.


#: A device or a link is full from this part of its capacity on.
_FULL = 1 - 1e-9


def flow_question(answer: FlowAnswer) -> dict[str, str]:
    """The question of a flow: label to text."""
    instance = answer.instance
    facts = dict(instance._facts()) | {"terms": instance.terms}
    for t, row in enumerate(instance.capacity):
        supported = np.flatnonzero(row)
        capacity = "holds no layer"
        if len(supported):
            ends = dict.fromkeys((int(supported[0]), int(supported[-1])))
            capacity = ", ".join(f"{figures(row[c], instance.rate_unit)} with {how_many(c, 'layer')}" for c in ends)
        prefix = "" if instance.steps is None else "at most "
        facts[_kind_name(instance, t)] = f"{how_many(int(instance.counts[t]), 'device')}: {prefix}{capacity}"
    return facts


def _kind_name(instance: FlowInstance, t: int) -> str:
    """Name of a kind: the common beginning of its devices' names, if there is one."""
    stems = {name.rpartition("-")[0] for name, kind in zip(instance.devices, instance.kind, strict=True) if kind == t}
    return next(iter(stems)) if len(stems) == 1 and "" not in stems else f"kind {t}"


def flow_sections(answer: FlowAnswer, bound: Bound | None) -> Iterator[Section]:
    """All sections on a flow."""
    yield device_section(answer)
    yield Section(f"{answer.instance.counted.capitalize()}s through each layer", chart=layer_chart(answer, bound))
    yield _link_section(answer)


def device_section(answer: FlowAnswer) -> Section:
    """The layers of each device in use, with bars filled by its load."""
    instance, interval, capacity, passes = answer.instance, answer.interval, answer.capacity, _passes(answer)
    order = np.lexsort((interval[:, 1], interval[:, 0]))
    unit = instance.rate_unit
    scale, rows, cells = Scale.of_numbers(capacity, unit), [], []
    for i in order[interval[order, 1] > interval[order, 0]].tolist():
        (begin, end), name, t = interval[i].tolist(), instance.devices[i], int(instance.kind[i])
        share = min(1.0, float(passes[i] / capacity[i])) if capacity[i] > 0 else 0.0
        layers, rate = _layers(begin, end), scale.cell(float(capacity[i]))
        title = f"{name}, {_kind_name(instance, t)}: layers {layers}, {share:.1%} of {rate} {unit}"
        rows.append(Row(name, [Bar(begin, end, "spare", title), Bar(begin, end, t, title, 1 - share, 1.0)]))
        cells.append(
            [
                name,
                _kind_name(instance, t),
                layers,
                str(end - begin),
                rate,
                scale.cell(float(passes[i])),
                f"{share:.1%}",
            ]
        )
    idle = instance.n - len(cells)
    words = "A row is a device, from its first layer to its last, in the colour of its kind; the filled part of its "
    words += "height is what passes, of what it could serve." + (f" {idle} devices hold no layer." if idle else "")
    header = ["device", "kind", "layers", "number", f"could serve [{unit}]", "passes", "used"]
    kinds: dict[Kind, str] = {t: _kind_name(instance, t) for t in range(len(instance.capacity))}
    chart = Chart(rows, Scale("layer", 1.0, 0), "device", "layer", kinds | {"spare": "could serve more"})
    return Section("Layers of the devices", sentences=[words], chart=chart, table=Table(header, cells))


def _layers(begin: int, end: int) -> str:
    return str(begin) if end == begin + 1 else f"{begin}–{end - 1}"


def layer_chart(answer: FlowAnswer, bound: Bound | None = None) -> Chart:
    """Capacity of each layer; neighbouring layers on the same devices share a row."""
    interval, flow, unit = answer.interval, answer.flow, answer.instance.rate_unit
    cuts = sorted({0, answer.instance.layers, *interval[interval[:, 1] > interval[:, 0]].ravel().tolist()})
    rates = [float(answer.capacity[(interval[:, 0] <= a) & (interval[:, 1] >= b)].sum()) for a, b in pairwise(cuts)]
    parts = {"work": [min(flow, rate) for rate in rates], "spare": [max(0.0, rate - flow) for rate in rates]}
    marks = [Mark(flow, "limit", f"flow {figures(flow, unit)}")]
    if bound is not None and bound.value > 0:
        marks.append(Mark(1 / bound.value, "bound", f"no layers let more than {figures(1 / bound.value, unit)} pass"))
    labels = [_layers(a, b) for a, b in pairwise(cuts)]
    kinds: dict[Kind, str] = {"work": "passes", "spare": "could pass, by the devices alone"}
    scale = Scale.of_numbers([*rates, flow], unit)
    return stacked(labels, parts, scale, "layers", axis=f"{answer.instance.counted}s", kinds=kinds, marks=marks)


def _link_section(answer: FlowAnswer) -> Section:
    """The links that carry requests, the fullest first."""
    n, passing, network = answer.instance.n, answer.passing, answer.network
    names = ["source", "sink", *answer.instance.devices, *answer.instance.devices]
    links = [(u, v) for u, v in np.argwhere(passing > 0).tolist() if v != u + n or u < 2]
    links.sort(key=lambda link: -passing[link] / network[link])
    scale = Scale.of_numbers([passing[link] for link in links], answer.instance.rate_unit)
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
    words = f"{len(links)} links are used, {full} of them full; {devices} of {n} devices are full. One way to reach "
    words += "the flow is shown, the fullest links first; there may be others."
    header = ["from", "to", f"passes [{answer.instance.rate_unit}]", "could carry", "used"]
    return Section("Links", sentences=[words], table=Table(header, rows))


def _passes(answer: FlowAnswer) -> np.ndarray:
    """(n,) flow through each device [tokens/s or requests/s]."""
    n = answer.instance.n
    return answer.passing[np.arange(2, n + 2), np.arange(n + 2, 2 * n + 2)]
