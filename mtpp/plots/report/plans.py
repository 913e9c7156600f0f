"""Sections of a page about a training plan: stages, schedule, memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from instances import Bound
from instances.planning import Iteration, Plan, Timeline
from mtpp.plots.report.drawing import Bar, Line, legend, timeline
from mtpp.plots.report.markup import paragraph, section, table
from mtpp.plots.report.partitions import memory_section
from mtpp.text.numbers import Scale, bytes_in_words, time_in_words

__all__ = ["plan_question", "plan_sections"]

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
