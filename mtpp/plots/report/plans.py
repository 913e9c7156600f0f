"""Pages of plans and placements."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from instances import Bound
from instances.graph.display import figures
from instances.placement.placement import Placement
from instances.planning import Iteration, Plan, Timeline
from instances.planning.grid.plan import GridPlan
from instances.planning.operations import operations
from mtpp.plots.partitions import depth_columns
from mtpp.plots.report.drawing import (
    Bar,
    Line,
    facts,
    graph_picture,
    hue,
    legend,
    paragraph,
    section,
    stacked_bars,
    table,
    timeline,
)
from mtpp.plots.report.partitions import memory_section
from mtpp.text.numbers import Scale, bytes_in_words, how_many, time_in_words

# Sections of a page about a training plan: stages, schedule, memory.


#: Kind of operation to the class of its bar, and the part of its row.
_BARS = {
    "forward": ("forward", 0.0, 0.75),
    "backward": ("backward", 0.0, 0.75),
    "weights": ("weights", 0.0, 0.75),
    "send": ("transfer", 0.78, 0.88),
    "return": ("transfer", 0.9, 1.0),
    "allreduce": ("allreduce", 0.0, 0.75),
}
_LEGEND = {"forward": "forward", "backward": "backward", "weights": "gradients of weights"}
_LEGEND |= {"transfer": "transfer to a neighbour, below the stage", "allreduce": "AllReduce"}


def plan_question(iteration: Iteration) -> dict[str, str]:
    """The question of a plan, label to text."""
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


def plan_sections(iteration: Iteration, bound: Bound | None) -> Iterator[str]:
    """All sections, for each pipeline of the iteration."""
    for schedule in iteration.schedules:
        plan = schedule.plan
        yield _stage_section(plan)
        yield _schedule_section(schedule, iteration)
        total = [float(size) for size in schedule.memory_needed]
        labels = [str(n) for n in range(plan.n_stages)]
        fixed = [schedule.peaks[plan.groups.index(group)].fixed for group in plan.devices]
        rest = [max(0.0, whole - own) for whole, own in zip(total, fixed, strict=True)]
        sizes = {"parameters": fixed, "activations": rest}
        yield memory_section(labels, sizes, plan.instance.memory, "stage")


def _stage_section(plan: Plan) -> str:
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
    told = paragraph("Times of a microbatch in each stage, and of the sum of gradients over its replicas.", "soft")
    return section("Stages", told, table(header, rows))


def _schedule_section(schedule: Timeline, iteration: Iteration) -> str:
    operations = list(schedule.operations())
    bars = [
        Bar(
            operation.stage,
            operation.start,
            operation.end,
            _BARS[operation.kind][0],
            f"{operation.kind}, stage {operation.stage}"
            + ("" if operation.microbatch is None else f", microbatch {operation.microbatch}")
            + f": {time_in_words(operation.start, 's')} to {time_in_words(operation.end, 's')}",
            *_BARS[operation.kind][1:],
        )
        for operation in operations
    ]
    held = {_BARS[operation.kind][0] for operation in operations}
    scale = Scale.of_times([schedule.makespan], "s")
    lines = [Line(schedule.makespan, "limit", f"all done at {time_in_words(schedule.makespan, 's')}")]
    order = schedule.order_name
    told = f"Devices compute {iteration.utilisation:.1%} of the iteration" + (
        f"; the order is {order}." if order else "."
    )
    picture = timeline([str(n) for n in range(schedule.plan.n_stages)], bars, scale, lines)
    return section(
        "Timeline", paragraph(told), legend({kind: words for kind, words in _LEGEND.items() if kind in held}), picture
    )


# Sections of a page about a plan in a grid: degrees, stages, timeline, memory, devices.


_LEGEND_OF_GRID = {
    "forward": "forward",
    "backward": "backward, with what is recomputed",
    "transfer": "transfer to a neighbour, below the group that sends",
    "allreduce": "gradients are added up, and parameters updated",
}
_PASSES, _SENT = 0.72, (0.76, 0.86, 0.9, 1.0)  # of a row: passes until here; transfers ahead, and back


def grid_question(plan: GridPlan) -> dict[str, str]:
    """The question of a plan in a grid, label to text."""
    question, chain = plan.instance, plan.chain
    servers, state = question.servers, question.state_bytes
    inner, outer = (figures(rate, "bytes/s") for rate in (servers.inner, servers.outer))
    fixed = {name: getattr(question.fixed, name) for name in ("pp", "tp", "dp", "v")}
    found = {
        "model": f"{chain.name}, {how_many(chain.n, 'layer')}, {chain.parameters:,.0f} parameters",
        "times of layers": chain.source or "measured",
        "numbers": f"{chain.dtype}; {state.weights:g} bytes a parameter, {state.gradients:g} of gradients, "
        f"{state.optimizer:g} of the optimizer",
        "sequence": "not stated" if chain.sequence is None else f"{chain.sequence} tokens",
        "step": how_many(question.global_batch, "sample"),
        "servers": f"{servers.count} of {how_many(servers.size, 'device')}",
        "links": f"a device sends {inner} inside its server, {outer} to others; transfers reach {servers.reached:.0%}",
        "memory": "unlimited" if math.isinf(question.memory) else f"{bytes_in_words(question.memory)} a device",
        "ZeRO may be": ", ".join(map(str, question.zero)),
        "layers may recompute": ", ".join(question.modes),
    }
    told = ", ".join(f"{name} {value}" for name, value in fixed.items() if value is not None)
    return found | ({"fixed": told} if told else {})


def grid_sections(plan: GridPlan, bound: Bound | None) -> Iterator[str]:
    """All sections, one after the other."""
    yield section("Plan", facts(_degrees(plan)))
    yield _section_of_stages(plan)
    yield _time_section(plan, bound)
    labels, limit = [str(g) for g in range(plan.groups)], plan.instance.memory
    sizes = {name: part.tolist() for name, part in zip(plan.memory._fields, plan.memory, strict=True)}
    yield memory_section(labels, sizes, limit, "group")
    told = "Of each device of a group at its peak: stored activations wait between passes, working ones are held while "
    yield paragraph(f"{told}the largest layer recomputes.", "soft")
    yield _device_section(plan)


def _degrees(plan: GridPlan) -> dict[str, str]:
    tensor, chain, V = ", ".join(map(str, sorted(set(plan.tensor)))), plan.chain, plan.instance.servers.devices
    stages, groups = how_many(plan.stages, "stage"), how_many(plan.groups, "group")
    found = {
        "pipeline": f"pp {plan.groups}: {stages} on {groups} of devices, v {plan.turns}",
        "layers shared by": f"tp {tensor}, cp {plan.context}, ep {plan.expert}",
        "replicas": f"dp {how_many(plan.pipelines, 'equal pipeline')}, ZeRO {plan.zero}",
        "microbatches": f"{plan.microbatches} of {how_many(plan.micro_batch, 'sample')} in each pipeline",
        "devices": f"{plan.devices} of {V} work; {plan.bubble:.1%} of the step they run no pass",
    }
    if chain.sequence is not None:
        rate = plan.instance.global_batch * chain.sequence / plan.time
        found["speed"] = f"{rate:,.0f} tokens/s, {rate / V:,.0f} a device"
    return found


def _section_of_stages(plan: GridPlan) -> str:
    names = [layer.name for layer in plan.chain.layers]
    parts = {"forward": plan.forward_time.tolist(), "backward": plan.backward_time.tolist()}
    sent = [*plan.transfer_time.tolist(), 0.0]
    after = plan.after_time.tolist()
    scale = Scale.of_times(map(sum, zip(*parts.values(), strict=True)), "s")
    rows = []
    for n, (begin, end) in enumerate(pairwise(plan.cuts)):
        again = [mode for mode in plan.modes[begin:end] if mode != "none"]
        told = ", ".join(f"{again.count(mode)} {mode}" for mode in dict.fromkeys(again)) or "–"
        own = (*(part[n] for part in parts.values()), sent[n], after[n])
        group = n % plan.groups
        cells = [names[begin], names[end - 1], str(end - begin), str(group), str(plan.tensor[group])]
        rows.append([str(n), *cells, *map(scale.cell, own), told])
    header = ["stage", "first layer", "last layer", "layers", "group", "tp"]
    header += [f"{kind} [{scale.unit}]" for kind in ("forward", "backward", "to the next", "after")]
    told = "Times of a microbatch in each stage; after all of them gradients are added up and parameters updated."
    bars = stacked_bars([str(n) for n in range(plan.stages)], parts, scale)
    words = legend({kind: _LEGEND_OF_GRID[kind] for kind in parts})
    return section("Stages", paragraph(told, "soft"), words, bars, table([*header, "recompute"], rows))


def _time_section(plan: GridPlan, bound: Bound | None) -> str:
    start, end, time = plan.timeline
    S, bars = plan.groups, list[Bar]()
    for operation in operations(start, end):
        n, m, kind, took = operation.stage, operation.microbatch, operation.kind, operation.end - operation.start
        row, low, high = n, 0.0, _PASSES
        if kind in ("send", "return"):
            back = int(kind == "return")
            row, low, high = n + back, *_SENT[2 * back : 2 * back + 2]
            told, kind = f"stage {n + back} to {n + 1 - back}, microbatch {m}", "transfer"
        elif m is None:
            told, low, high = f"stage {n}, after its passes", 0.2, _PASSES - 0.2
        else:
            told = f"{kind}, stage {n}, microbatch {m}"
        if took > 0 or kind in ("forward", "backward"):
            told += f": {time_in_words(took, 's')}"
            bars.append(Bar(row % S, operation.start, operation.end, kind, told, low, high))
    scale = Scale.of_times([time], "s")
    lines = [Line(time, "limit", f"the step ends at {time_in_words(time, 's')}")]
    if bound is not None:
        lines.append(Line(bound.value, "bound", f"bound {time_in_words(bound.value, 's')}"))
    seen = {bar.kind for bar in bars}
    words = legend({kind: told for kind, told in _LEGEND_OF_GRID.items() if kind in seen})
    told = "One of the equal pipelines; a row is a group of devices." if plan.pipelines > 1 else "A row is a group."
    picture = timeline([str(g) for g in range(S)], bars, scale, lines)
    return section("Timeline", paragraph(told, "soft"), words, picture)


def _device_section(plan: GridPlan) -> str:
    """Where the devices of each group lie, of the first pipelines."""
    assert plan.first_device is not None
    size, shown = plan.instance.servers.size, min(plan.pipelines, 8)
    rows = []
    for g in range(plan.groups):
        width, cells = plan.context * plan.tensor[g], list[str]()
        for first in plan.first_device[g, :shown].tolist():
            server, own = divmod(first, size)
            cells.append(f"{server}: {own}" + (f"–{own + width - 1}" if width > 1 else ""))
        rows.append([str(g), *cells])
    left = f" The first {shown} of {plan.pipelines} pipelines are shown." if shown < plan.pipelines else ""
    header = ["group", *(f"pipeline {d}" for d in range(shown))]
    told = paragraph(f"Server, and devices there, of each group.{left}", "soft")
    return section("Devices", told, table(header, rows))


# Sections of a page about a placement: devices, graph, timeline, memory.


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
