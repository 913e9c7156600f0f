"""Pages of plans and placements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from instances import Bound
from instances.graph.display import figures, how_many
from instances.placement.placement import Placement
from instances.planning import Iteration, Plan, Timeline
from instances.planning.grid.estimates import ALIKE
from instances.planning.grid.plan import GridPlan
from instances.planning.operations import Operation, operations
from instances.serving.answer import Deployment
from instances.serving.costs import costs_of
from instances.serving.problem import PICO
from mtpp.plots.sections import (
    LABELLED_NODES,
    Bar,
    Chart,
    GroupedGraph,
    Kind,
    Mark,
    Row,
    Section,
    Table,
    depth_columns,
    memory_section,
    stacked,
)
from mtpp.text.numbers import Scale, bytes_in_words, time_in_words

# Sections of a page about a training plan: stages, schedule, memory.


_KINDS: dict[Kind, str] = {
    "forward": "forward",
    "backward": "backward, with what is recomputed",
    "weights": "gradients of weights",
    "transfer": "transfer to a neighbour, below the sender",
    "allreduce": "after all passes: gradients are added up",
}
_PASSES = ("forward", "backward", "weights")
#: Part of a row's height for each kind of operation; transfers ahead and back have lanes of their own.
_LANES = dict.fromkeys(_PASSES, (0.0, 0.75)) | {
    "send": (0.78, 0.88),
    "return": (0.9, 1.0),
    "allreduce": (0.2, 0.52),
}


def _timeline(
    operations: Iterable[Operation], microbatches: int, rows: Sequence[str], names: str, marks: Mapping[str, float]
) -> Chart:
    """Timeline of operations in rows of stages or groups, with lines at `marks` [s], such as the bound."""
    bars: list[list[Bar]] = [[] for _ in rows]
    for operation in operations:
        if operation.end > operation.start or operation.kind in _PASSES:
            sender = operation.stage + (operation.kind == "return")
            bars[sender % len(rows)].append(_bar(operation, microbatches))
    lines = [
        Mark(time, "bound" if label == "bound" else "limit", f"{label} {time_in_words(time, 's')}")
        for label, time in marks.items()
    ]
    scale = Scale.of_times(marks.values(), "s")
    return Chart([*map(Row, rows, bars)], scale, names, kinds=_KINDS, marks=lines)


def _bar(operation: Operation, microbatches: int) -> Bar:
    kind, n, m, start, end = (getattr(operation, name) for name in ("kind", "stage", "microbatch", "start", "end"))
    title = {"send": f"stage {n} to {n + 1}", "return": f"stage {n + 1} to {n}", "allreduce": f"stage {n}, AllReduce"}
    words = title.get(kind, f"{kind}, stage {n}") + ("" if m is None else f", microbatch {m}")
    words += f": {time_in_words(start, 's')} to {time_in_words(end, 's')}"
    shade = 1.0 if m is None else (m + 1) / microbatches
    category, label = ("transfer" if kind in ("send", "return") else kind), (str(m) if kind in _PASSES else "")
    return Bar(start, end, category, words, *_LANES[kind], label, shade)


def plan_question(iteration: Iteration) -> dict[str, str]:
    """The question of a plan: label to text."""
    instance = iteration.instance
    limit = "unlimited" if math.isinf(instance.memory) else f"{bytes_in_words(instance.memory)} a device"
    return {
        "layers": f"{instance.chain.n} of {instance.chain.name}",
        "cluster": f"{instance.cluster.name}, {instance.cluster.n} devices",
        "microbatches": str(instance.microbatches),
        "network": "links share nothing" if instance.network is None else instance.network.words,
        "numbers": instance.dtype or "as in the chain",
        "memory": limit,
    }


def plan_sections(iteration: Iteration, bound: Bound | None) -> Iterator[Section]:
    """All sections on an iteration, for each of its pipelines."""
    for schedule in iteration.schedules:
        plan = schedule.plan
        yield _stage_section(plan)
        order = f"; the order is {schedule.order_name}." if schedule.order_name else "."
        words = f"Devices compute {iteration.utilisation:.1%} of the iteration{order}"
        yield schedule_section(schedule, words)
        fixed = [schedule.peaks[plan.groups.index(group)].fixed for group in plan.devices]
        rest = [max(0.0, float(size) - part) for size, part in zip(schedule.memory_needed, fixed, strict=True)]
        sizes = {"parameters": fixed, "activations": rest}
        yield memory_section([str(n) for n in range(plan.n_stages)], sizes, plan.instance.memory, "stage")


def schedule_section(schedule: Timeline, *sentences: str) -> Section:
    """Timeline of a pipeline's stages; later microbatches have stronger colours."""
    plan, marks = schedule.plan, {"all done at": schedule.makespan}
    stages = [str(n) for n in range(plan.n_stages)]
    chart = _timeline(schedule.operations(), plan.instance.microbatches, stages, "stage", marks)
    return Section("Timeline", sentences=sentences, chart=chart)


def _stage_section(plan: Plan) -> Section:
    names, devices = plan.instance.chain.names, plan.instance.cluster.names
    times = (plan.forward_time.tolist(), plan.backward_time.tolist(), plan.allreduce_time.tolist())
    scale = Scale.of_times([time for column in times for time in column], "s")
    rows = [
        [
            f"{n}, recomputes" if plan.recompute[n] else str(n),
            names[first],
            names[end - 1],
            str(end - first),
            ", ".join(devices[v] for v in plan.devices[n]),
            *(scale.cell(column[n]) for column in times),
        ]
        for n, (first, end) in enumerate(pairwise(plan.cuts))
    ]
    kinds = (f"{kind} [{scale.unit}]" for kind in ("forward", "backward", "AllReduce"))
    header = ["stage", "first layer", "last layer", "layers", "devices", *kinds]
    words = "Times of a microbatch in each stage, and of the sum of gradients over its replicas."
    return Section("Stages", sentences=[words], table=Table(header, rows))


# Sections of a page about a plan with degrees of parallelism: degrees, stages, timeline, memory, devices.


def grid_question(plan: GridPlan) -> dict[str, str]:
    """The question of a plan with degrees of parallelism: label to text."""
    question, chain = plan.instance, plan.chain
    servers, state = question.servers, question.state_bytes
    inner, outer = (figures(rate, "bytes/s") for rate in (servers.inner, servers.outer))
    return {
        "model": f"{chain.name}, {how_many(chain.n, 'layer')}, {chain.parameters:,.0f} parameters",
        "times of layers": chain.source or "measured",
        "numbers": f"{chain.dtype}; {state.weights:g} bytes a parameter, {state.gradients:g} of gradients, "
        f"{state.optimizer:g} of the optimizer",
        "sequence": "not stated" if chain.sequence is None else f"{chain.sequence} tokens",
        "step": how_many(question.global_batch, "sample"),
        "servers": f"{servers.count} of {how_many(servers.size, 'device')}",
        "links": f"a device sends {inner} inside its server, {outer} to others; transfers reach {servers.reached:.0%}",
        "memory": "unlimited" if math.isinf(question.memory) else f"{bytes_in_words(question.memory)} a device",
        "allowed": question.allowed,
    }


def grid_sections(plan: GridPlan, bound: Bound | None) -> Iterator[Section]:
    """All sections on a plan with degrees of parallelism."""
    yield Section("Plan", facts=_degrees(plan))
    yield _section_of_stages(plan)
    yield step_section(plan, bound)
    yield group_memory(plan)
    yield _device_section(plan)


def step_section(plan: GridPlan, bound: Bound | None, uniform: GridPlan | None = None) -> Section:
    """Timeline of the groups of one pipeline, with the bound and the end of the best uniform plan."""
    words = "One of the equal pipelines; a row is a group of devices." if plan.pipelines > 1 else "A row is a group."
    start, end, time = plan.timeline
    marks = {"all done at": time} | ({} if uniform is None else {"best uniform plan done at": uniform.time})
    marks |= {} if bound is None else {"bound": bound.value}
    groups = [str(g) for g in range(plan.groups)]
    chart = _timeline(operations(start, end), plan.microbatches, groups, "group", marks)
    return Section("Timeline", sentences=[words], chart=chart)


def group_memory(plan: GridPlan) -> Section:
    """Memory of a device of each group, by part."""
    words = "Of each device of a group at its peak: stored activations wait between passes, working ones are held "
    words += "while the largest layer recomputes."
    sizes = {name: part.tolist() for name, part in zip(plan.memory._fields, plan.memory, strict=True)}
    return memory_section([str(g) for g in range(plan.groups)], sizes, plan.instance.memory, "group", words)


def degree_section(plan: GridPlan, others: Sequence[GridPlan], bound: Bound | None) -> Section:
    """Times of the plan and of those with other degrees, with the range of predictions."""
    rows = []
    for each in (plan, *others):
        names = {"pp": each.groups, "tp": max(each.tensor), "cp": each.context, "ep": each.expert, "z": each.zero}
        label = " ".join(f"{name}{size}" for name, size in names.items() if size > 1 or name in ("pp", "tp"))
        label, passes = f"{label} μ{each.micro_batch}", each.time * (1 - each.bubble)
        words = f"{label}, dp {each.pipelines}, v {each.turns}: {each.time:.4g} s"
        bars = [Bar(0.0, passes, "work", words), Bar(passes, each.time, "spare", words)]
        rows.append(Row(label, bars))
    marks = [Mark((1 + ALIKE) * plan.time, "limit", f"predictions do not tell apart: {ALIKE:.0%} above the plan")]
    marks += [] if bound is None else [Mark(bound.value, "bound", f"bound: {bound.value:.4g} s")]
    kinds: dict[Kind, str] = {"work": "devices run passes", "spare": "they run none"}
    scale = Scale.of_times([each.time for each in (plan, *others)], "s")
    return Section("Plans of other degrees", chart=Chart(rows, scale, "degrees", kinds=kinds, marks=marks))


def _degrees(plan: GridPlan) -> dict[str, str]:
    tensor, chain, V = ", ".join(map(str, sorted(set(plan.tensor)))), plan.chain, plan.instance.servers.devices
    stages, groups = how_many(plan.stages, "stage"), how_many(plan.groups, "group")
    facts = {
        "pipeline": f"pp {plan.groups}: {stages} on {groups} of devices, v {plan.turns}",
        "layers shared by": f"tp {tensor}, cp {plan.context}, ep {plan.expert}",
        "replicas": f"dp {how_many(plan.pipelines, 'equal pipeline')}, ZeRO {plan.zero}",
        "microbatches": f"{plan.microbatches} of {how_many(plan.micro_batch, 'sample')} in each pipeline",
        "devices": f"{plan.devices} of {V} work; {plan.bubble:.1%} of the step they run no pass",
    }
    if chain.sequence is not None:
        rate = plan.instance.global_batch * chain.sequence / plan.time
        facts["speed"] = f"{rate:,.0f} tokens/s, {rate / V:,.0f} a device"
    return facts


def _section_of_stages(plan: GridPlan) -> Section:
    names = [layer.name for layer in plan.chain.layers]
    parts = {"forward": plan.forward_time.tolist(), "backward": plan.backward_time.tolist()}
    times = [*parts.values(), [*plan.transfer_time.tolist(), 0.0], plan.after_time.tolist()]
    scale = Scale.of_times(map(sum, zip(*parts.values(), strict=True)), "s")
    rows = []
    for n, (begin, end) in enumerate(pairwise(plan.cuts)):
        modes = [mode for mode in plan.modes[begin:end] if mode != "none"]
        recomputed = ", ".join(f"{modes.count(mode)} {mode}" for mode in dict.fromkeys(modes)) or "–"
        group = n % plan.groups
        cells = [names[begin], names[end - 1], str(end - begin), str(group), str(plan.tensor[group])]
        rows.append([str(n), *cells, *(scale.cell(column[n]) for column in times), recomputed])
    header = ["stage", "first layer", "last layer", "layers", "group", "tp"]
    header += [f"{kind} [{scale.unit}]" for kind in ("forward", "backward", "to the next", "after")]
    words = "Times of a microbatch in each stage; after all of them gradients are added up and parameters updated."
    chart = stacked([str(n) for n in range(plan.stages)], parts, scale, "stage", kinds=_KINDS)
    return Section("Stages", sentences=[words], chart=chart, table=Table([*header, "recompute"], rows))


def _device_section(plan: GridPlan) -> Section:
    """Devices of each group in the first pipelines."""
    assert plan.first_device is not None
    size, count = plan.instance.servers.size, min(plan.pipelines, 8)
    rows = []
    for g in range(plan.groups):
        width, cells = plan.context * plan.tensor[g], list[str]()
        for first in plan.first_device[g, :count].tolist():
            server, place = divmod(first, size)
            cells.append(f"{server}: {place}" + (f"–{place + width - 1}" if width > 1 else ""))
        rows.append([str(g), *cells])
    rest = f" The first {count} of {plan.pipelines} pipelines are shown." if count < plan.pipelines else ""
    header = ["group", *(f"pipeline {d}" for d in range(count))]
    words = f"Server, and devices there, of each group.{rest}"
    return Section("Devices", sentences=[words], table=Table(header, rows))


# Sections of a page about a placement: devices, graph, timeline, memory.


_NODES, _BUS = 0.68, 0.74  # of a row: nodes until here, the bus from here


def placement_question(placement: Placement) -> dict[str, str]:
    """The question of a placement: label to text."""
    instance = placement.instance
    memory = "unlimited" if math.isinf(instance.memory) else f"{bytes_in_words(instance.memory)} at most"
    return {
        "nodes": str(instance.graph.n),
        "edges": str(instance.graph.m),
        "source": instance.graph.source or "not stated",
        "devices": f"{instance.devices}, {'equal' if instance.is_symmetric else 'unequal'}",
        "bandwidth": f"{bytes_in_words(instance.bandwidth)} per {instance.graph.time_unit}",
        "memory": memory,
    }


def placement_sections(placement: Placement, bound: Bound | None) -> Iterator[Section]:
    """All sections on a placement."""
    instance, graph, k = placement.instance, placement.instance.graph, placement.instance.devices
    labels = [str(d) for d in range(k)]
    busy = np.bincount(placement.device, placement.timeline.end - placement.timeline.start, k)
    counts = np.bincount(placement.device, minlength=k).tolist()
    scale = Scale.of_times([placement.step_time], graph.time_unit)
    rows = [
        [labels[d], str(counts[d]), scale.cell(float(busy[d])), f"{busy[d] / placement.step_time:.1%}"]
        for d in range(k)
    ]
    yield Section("Devices", table=Table(["device", "nodes", f"busy [{scale.unit}]", "of the step"], rows))
    picture = GroupedGraph(graph, placement.device, depth_columns(graph), "device")
    yield Section("Graph by device", graph=picture)
    yield step_of_placement(placement, bound)
    fixed = placement.param_bytes, placement.state_bytes
    rest = (placement.peak_memory - fixed[0] - fixed[1]).clip(0)
    sizes = dict(zip(("parameters", "states", "activations"), (part.tolist() for part in (*fixed, rest)), strict=True))
    if any(map(any, sizes.values())):
        yield memory_section(labels, sizes, instance.machines.common_memory, "device")


def step_of_placement(placement: Placement, bound: Bound | None = None) -> Section:
    """Timeline of each device's nodes and, below, of the tensors on its bus."""
    graph, times, unit = placement.instance.graph, placement.timeline, placement.instance.graph.time_unit
    bars: list[list[Bar]] = [[] for _ in range(placement.instance.devices)]
    for v, d in enumerate(placement.device.tolist()):
        start, end, name = float(times.start[v]), float(times.end[v]), graph.names[v]
        if end > start:
            title = f"{name}: {time_in_words(end - start, unit)}"
            bars[d].append(Bar(start, end, d, title, 0.0, _NODES, name if graph.n <= LABELLED_NODES else ""))
    for transfer in times.transfers:
        size = bytes_in_words(float(graph.tensors.bytes[transfer.tensor]))
        name = graph.names[graph.tensors.producer[transfer.tensor]]
        title = f"to {', '.join(map(str, transfer.targets))}: {name}, {size}"
        lanes = np.linspace(_BUS, 1.0, len(transfer.targets) + 1).tolist()
        bars[transfer.source] += [
            Bar(transfer.start, transfer.end, target, title, *lane)
            for target, lane in zip(transfer.targets, pairwise(lanes), strict=True)
        ]
    scale = Scale.of_times([placement.step_time], unit)
    marks = [Mark(placement.step_time, "limit", f"the step ends at {time_in_words(placement.step_time, unit)}")]
    if bound is not None and bound.value > 0:
        marks.append(Mark(bound.value, "bound", f"bound {time_in_words(bound.value, unit)}"))
    words = "A row is a device with its nodes, and below them its bus, in the colour of the device that receives."
    chart = Chart([Row(str(d), row) for d, row in enumerate(bars)], scale, "device", marks=marks)
    return Section("Timeline", sentences=[words], chart=chart)


# Pages of deployments: chains, their stages, and what fills the devices.


_NAMES = "chain and layers"


def deployment_question(answer: Deployment) -> dict[str, str]:
    """The question of a deployment: label to text."""
    facts = answer.instance.question_facts
    return facts | {"model": f"{answer.instance.model.name}, {facts['model']}"}


def deployment_sections(answer: Deployment, bound: Bound | None) -> Iterator[Section]:
    """All sections on a deployment."""
    yield Section("Time of each stage in a step", chart=time_chart(answer))
    yield Section("Memory of a device of each stage", chart=memory_chart(answer))
    words = [f"{name}: {value}" for name, value in answer.measures.items()]
    if bound is not None and answer.instance.objective != "cost":
        words.append(f"no deployment of chains gives more than {figures(1 / bound.value, 'tokens/s')}.")
    yield Section("Chains", sentences=words, table=Table(*answer._rows()))


def _labels(answer: Deployment) -> list[str]:
    """Label of each stage: the number of its chain, and its layers."""
    return [
        f"{c}: {stage.first}–{stage.end - 1}"
        for c, (_, chain, _) in enumerate(answer.pools, 1)
        for stage in chain.chain.stages
    ]


def time_chart(answer: Deployment) -> Chart:
    """Times of the stages of each distinct chain."""
    times = [time / PICO for _, chain, _ in answer.pools for time in chain.stage_times]
    scale = Scale.of_numbers(times, "s")
    return stacked(
        _labels(answer), {"work": times}, scale, "chain and layers", axis="time of a step", kinds={"work": "step"}
    )


def memory_chart(answer: Deployment) -> Chart:
    """Memory of a device of each stage: weights, caches and free [GB]."""
    room = costs_of(answer.instance).room
    rows = [
        (weights / 1e9, caches / 1e9, float(room[stage.servers] - weights - caches) / 1e9)
        for _, chain, _ in answer.pools
        for stage, weights, caches in zip(chain.chain.stages, chain.weight_bytes, chain.cache_bytes, strict=True)
    ]
    parts = {"weights": [r[0] for r in rows], "send": [r[1] for r in rows], "spare": [r[2] for r in rows]}
    scale = Scale.of_numbers([sum(row) for row in rows], "GB")
    kinds: dict[Kind, str] = {"weights": "weights", "send": "caches", "spare": "free"}
    return stacked(_labels(answer), parts, scale, _NAMES, axis="memory of a device", kinds=kinds)
