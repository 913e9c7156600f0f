"""Pictures of plans and flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from instances import Bound
from instances.flow.answer import FlowAnswer
from instances.graph.display import figures
from instances.planning import Iteration, Plan, Timeline
from instances.planning.grid.plan import GridPlan
from mtpp.plots.style import axes_of, colours, legend_beside, plain
from mtpp.stages.trial import Trial
from mtpp.text.numbers import Scale
from mtpp.text.tables import drawn

# Pictures of running stages: when each computed which request, compared with the prediction.


# Requests of the timeline: the last ones, when the pipeline is full.
_SHOWN = 12
_HEIGHT = 0.7
_LABELLED = 40


def trial_figure(trial: Trial) -> Figure:
    """The timeline of the last requests, and below it the times of the stages, measured and predicted."""
    stages = len(trial.manifest.stages)
    figure = Figure(figsize=(11, 0.45 * stages + 0.3 * stages + 4.0), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=[0.45 * stages + 1.2, 0.3 * stages + 1.6])
    plot_work(trial, above)
    plot_stage_times(trial, below)
    period = "–" if trial.period is None else f"{trial.period * 1e3:.4g} ms"
    figure.suptitle(
        f"{drawn(trial.manifest.model)}: period {period}, {trial.manifest.bottleneck * 1e3:.4g} ms predicted"
    )
    return figure


def plot_work(trial: Trial, ax: Axes | None = None) -> Axes:
    """Draw when each stage computed for the last requests; a row is a stage, a colour a request."""
    ax = axes_of(ax, 11, 0.45 * len(trial.events) + 1.5)
    rows = trial.events[:, -_SHOWN:, :2]
    rows = rows - rows.min()
    scale = Scale.of_times([float(rows.max())], "s")
    hues, first = colours(min(10, rows.shape[1])), trial.events.shape[1] - rows.shape[1]
    boxes, fills = [], []
    for stage, row in enumerate(rows / scale.size):
        for i, (start, end) in enumerate(row.tolist()):
            boxes.append(Rectangle((start, stage - _HEIGHT / 2), end - start, _HEIGHT))
            fills.append(hues[(first + i) % len(hues)])
            if end - start > rows.max() / scale.size / _LABELLED:
                ax.text((start + end) / 2, stage, str(first + i), ha="center", va="center", fontsize=7)
    ax.add_collection(PatchCollection(boxes, facecolors=fills, edgecolors="white", linewidths=0.3))
    ax.set_xlim(0, float(rows.max()) / scale.size or 1.0)
    _rows_of_stages(trial, ax)
    ax.set_xlabel(f"time [{scale.unit}], the last {rows.shape[1]} requests")
    return ax


def plot_stage_times(trial: Trial, ax: Axes | None = None) -> Axes:
    """Draw what each stage takes for a request: predicted, as the processor's time, and on the clock."""
    ax = axes_of(ax, 11, 0.3 * len(trial.events) + 1.5)
    columns = {
        "predicted": [stage.time for stage in trial.manifest.stages],
        "processor time, median": trial.processor,
        "computing, median": trial.computing,
    }
    scale = Scale.of_times([time for times in columns.values() for time in times], "s")
    places, hues = np.arange(len(trial.events)), colours(3)
    for i, (name, times) in enumerate(columns.items()):
        ax.barh(places + 0.26 * (i - 1), np.array(times) / scale.size, height=0.24, color=hues[i], label=name)
    if trial.period is not None:
        ax.axvline(trial.period / scale.size, color="black", linewidth=1, linestyle="--", label="measured period")
    _rows_of_stages(trial, ax)
    ax.set_xlabel(f"time a request [{scale.unit}]")
    legend_beside(ax)
    return ax


def _rows_of_stages(trial: Trial, ax: Axes) -> None:
    ax.set_ylim(len(trial.events) - 0.5, -0.5)
    ax.set_yticks(range(len(trial.events)))
    ax.set_ylabel("stage")
    plain(ax)


# Pictures of plans in a grid: passes of a pipeline in time beside those of the uniform plan, and memory.


_HEIGHT_OF_GRID = 0.8
_COLOURS = {"forward": "tab:blue", "backward": "tab:orange"}
_MOST_LABELS = 24
_MOST_EDGES = 150  # white edges of more passes would hide them


def grid_figure(plan: GridPlan, bound: Bound | None = None, uniform: GridPlan | None = None) -> Figure:
    """Passes of the plan with the bound, of the uniform plan with the same scale of time, and memory of the plan."""
    shown = [("planned", plan)] + ([] if uniform is None else [("best uniform plan", uniform)])
    heights = [0.18 * one.groups + 1.0 for _, one in shown] + [2.5]
    figure = Figure(figsize=(11, sum(heights) + 0.8), layout="constrained")
    axes = np.atleast_1d(figure.subplots(len(heights), height_ratios=heights))
    end = max(one.time for _, one in shown)
    for (name, one), ax in zip(shown, axes, strict=False):
        plot_passes(one, ax).set_xlim(0, end)
        if bound is not None:
            ax.axvline(bound.value, color="black", linewidth=1.2, linestyle="--")
        proved = "" if bound is None else f", bound {bound.value:.4g} s (dashed)"
        ax.set_title(f"{name}: {one.time:.4g} s{proved}", loc="left", fontsize="medium")
    plot_memory(plan, axes[-1])
    return figure


def plot_passes(plan: GridPlan, ax: Axes | None = None) -> Axes:
    """Draw when the groups of a pipeline compute; what follows the last backward pass is grey."""
    ax = axes_of(ax, 11, 0.3 * plan.groups + 1.5)
    starts = plan.timeline[0]
    edge = 0.2 if plan.turns * plan.microbatches <= _MOST_EDGES else 0.0
    for row, name in enumerate(_COLOURS):
        durations = (plan.forward_time, plan.backward_time)[row]
        boxes = [
            Rectangle((start, n % plan.groups - _HEIGHT_OF_GRID / 2), durations[n], _HEIGHT_OF_GRID)
            for n in range(plan.stages)
            for start in starts[row][n].tolist()
        ]
        ax.add_collection(PatchCollection(boxes, facecolors=_COLOURS[name], edgecolors="white", linewidths=edge))
    after = zip(starts.allreduce.tolist(), plan.after_time.tolist(), strict=True)
    rests = [Rectangle((start, n % plan.groups - 0.2), time, 0.4) for n, (start, time) in enumerate(after)]
    ax.add_collection(PatchCollection(rests, facecolors="0.6"))
    ax.set_xlim(0, plan.time)
    ax.set_ylim(plan.groups - 0.4, -0.6)
    ax.set_yticks(range(0, plan.groups, -(-plan.groups // _MOST_LABELS)))
    ax.set_xlabel("time [s]")
    ax.set_ylabel("group")
    plain(ax)
    kinds = [*_COLOURS.items(), ("gradients, optimizer", "0.6")]
    legend_beside(ax, handles=[Rectangle((0, 0), 1, 1, color=c) for _, c in kinds], labels=[name for name, _ in kinds])
    return ax


def plot_memory(plan: GridPlan, ax: Axes | None = None) -> Axes:
    """Draw the memory of a device of each group, part by part, and the limit."""
    ax = axes_of(ax, 11, 3)
    bottom, memory = np.zeros(plan.groups), plan.memory
    for name, part, colour in zip(memory._fields, memory, colours(len(memory)), strict=True):
        ax.bar(np.arange(plan.groups), part / 2**30, bottom=bottom, color=matplotlib.colors.to_hex(colour), label=name)
        bottom += part / 2**30
    if np.isfinite(plan.instance.memory):
        ax.axhline(plan.instance.memory / 2**30, color="black", linestyle="--", linewidth=1, label="limit")
    ax.set_xticks(range(0, plan.groups, -(-plan.groups // _MOST_LABELS)))
    ax.set_xlabel("group")
    ax.set_ylabel("memory [GiB]")
    plain(ax)
    legend_beside(ax)
    return ax


# Pictures of training pipelines: stages on a cluster, and the schedule of an iteration.
#
# What draws one picture takes the axes to draw on, and a new figure by default.


_FORWARD, _BACKWARD, _WEIGHTS = "Blues", "Oranges", "Greens"
_ALLREDUCE = (0.6, 0.6, 0.6, 1.0)
#: Which plans a bound covers.
_COVERS = {"z-split": "one stage a device, split or not", "work-any": "any plan"}
#: Height of a stage and of the channel below it; a row of a stage is one high.
_STAGE, _CHANNEL = 0.62, 0.2
_LABELLED_MICROBATCHES = 40  # on a picture's width, a number needs about that part of it
_LABELLED_STAGES = 24
_DEVICES_ABREAST = 40


def plot_schedule(schedule: Timeline, ax: Axes | None = None) -> Axes:
    """Draw when each stage and channel works on which microbatch.

    A row is a stage, first stage on top, with the channel to the next one below it. Forward passes are blue, backward
    passes orange, the gradients of weights green where they come apart, all the darker the later the microbatch;
    AllReduces are grey.
    """
    plan = schedule.plan
    ax = axes_of(ax, 11, 0.45 * plan.n_stages + 1.5)
    factor, unit = (1.0, "s") if schedule.makespan >= 1 or schedule.makespan == 0 else (1e3, "ms")
    microbatches = plan.instance.microbatches
    boxes, fills, edges = [], [], []
    for operation in schedule.operations():
        forward = operation.kind in ("forward", "send")
        channel = operation.kind in ("send", "return")
        bottom = operation.stage + (_STAGE / 2 if channel else -_STAGE / 2)
        start, width = operation.start * factor, (operation.end - operation.start) * factor
        height = _CHANNEL if channel else _STAGE
        if channel and plan.instance.full_duplex:  # activations in the upper half
            height /= 2
            bottom += 0 if forward else height
        boxes.append(Rectangle((start, bottom), width, height))
        if operation.microbatch is None:
            colour = _ALLREDUCE
        else:
            shade = 0.3 + 0.5 * operation.microbatch / microbatches
            hue = _FORWARD if forward else _WEIGHTS if operation.kind == "weights" else _BACKWARD
            colour = matplotlib.colormaps[hue](shade)
        fills.append(colour)
        edges.append(colour if channel else "white")  # so that a short transfer can be seen
        if (
            operation.microbatch is not None
            and not channel
            and width > schedule.makespan * factor / _LABELLED_MICROBATCHES
        ):
            ax.text(start + width / 2, operation.stage, str(operation.microbatch), ha="center", va="center", fontsize=7)
    ax.add_collection(PatchCollection(boxes, facecolors=fills, edgecolors=edges, linewidths=0.3))
    ax.set_xlim(0, schedule.makespan * factor or 1.0)
    ax.set_ylim(plan.n_stages - 0.3, -0.5)
    step = -(-plan.n_stages // _LABELLED_STAGES)
    ax.set_yticks(range(0, plan.n_stages, step))
    ax.set_xlabel(f"time [{unit}]")
    ax.set_ylabel("stage")
    plain(ax)
    kinds = {
        "forward": matplotlib.colormaps[_FORWARD](0.6),
        "backward": matplotlib.colormaps[_BACKWARD](0.6),
    }
    if schedule.split:
        kinds["gradients of weights"] = matplotlib.colormaps[_WEIGHTS](0.6)
    if (plan.replicas > 1).any():
        kinds["AllReduce"] = _ALLREDUCE
    handles = [Rectangle((0, 0), 1, 1, color=colour) for colour in kinds.values()]
    legend_beside(ax, handles=handles, labels=list(kinds))
    return ax


def plot_stages(plan: Plan, ax: Axes | None = None) -> Axes:
    """Draw which stage each device runs, server by server; idle devices are white."""
    cluster = plan.instance.cluster
    ax = axes_of(ax, 11, 1.8)
    hues = colours(plan.n_stages)
    stages: dict[int, list[str]] = {}
    for n, group in enumerate(plan.devices):
        for device in group:
            stages.setdefault(device, []).append(str(n))
    x, y = np.empty(cluster.n), np.empty(cluster.n)
    left, row = 0.0, 0.0
    for server, size in enumerate(cluster.servers):
        devices = np.flatnonzero(cluster.server == server)
        if left > 0 and left + size > _DEVICES_ABREAST:
            left, row = 0.0, row + 2.4
        x[devices], y[devices] = left + np.arange(size), row
        ax.add_patch(Rectangle((left - 0.55, row - 0.6), size + 0.1, 1.2, facecolor="0.93", edgecolor="none"))
        ax.text(left + size / 2 - 0.5, row + 0.66, _server_label(plan, server), ha="center", va="top", fontsize=6)
        left += size + 0.5
    for v in range(cluster.n):
        colour = hues[int(stages[v][0])] if v in stages else "white"
        ax.add_patch(Rectangle((x[v] - 0.45, y[v] - 0.45), 0.9, 0.9, facecolor=colour, edgecolor="0.4", linewidth=0.5))
        ax.text(
            x[v], y[v], ",".join(stages.get(v, ())), ha="center", va="center", fontsize=8, color="white", weight="bold"
        )
    ax.set_xlim(-0.8, x.max() + 0.8)
    ax.set_ylim(row + 1.6, -0.8)
    ax.set_aspect("equal")
    ax.set_anchor("W")
    ax.set_axis_off()
    ax.text(-0.55, row + 1.35, _between_servers(plan), ha="left", va="top", fontsize=7)
    return ax


def plan_figure(iteration: Iteration, bound: Bound | None = None) -> Figure:
    """The stages on the cluster above the schedule, for each pipeline of an iteration."""
    stages = [schedule.plan.n_stages for schedule in iteration.schedules]
    heights = [height for count in stages for height in (1.6, 0.32 * count + 1.3)]
    figure = Figure(figsize=(11, sum(heights) + 0.5), layout="constrained")
    axes = figure.subplots(len(heights), 1, height_ratios=heights)
    for schedule, above, below in zip(iteration.schedules, axes[::2], axes[1::2], strict=True):
        plot_stages(schedule.plan, above)
        plot_schedule(schedule, below)
    instance = iteration.instance
    title = f"{drawn(instance.chain.name)} on {drawn(instance.cluster.name)}, {instance.microbatches} microbatches: "
    title += f"{iteration.time:.4g} s" + (
        "" if bound is None else f", {_COVERS.get(bound.method, 'one stage a device')} {bound.value:.4g} s or more"
    )
    if iteration.synchronisation > 0:
        title += f", of these {iteration.synchronisation:.4g} s of AllReduce between the pipelines"
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def _server_label(plan: Plan, server: int) -> str:
    """First and last device, and the slowest link within the server."""
    cluster = plan.instance.cluster
    devices = np.flatnonzero(cluster.server == server)
    if len(devices) == 1:
        return drawn(cluster.names[devices[0]])
    slowest = cluster.subset(devices).links.min()
    rate = figures(float(slowest), "bytes/s")
    return f"{drawn(cluster.names[devices[0]])} … {drawn(cluster.names[devices[-1]])}\n{rate}"


def _between_servers(plan: Plan) -> str:
    """The slowest link between servers; empty for a single server."""
    cluster = plan.instance.cluster
    rates = cluster.bandwidth[cluster.server[:, None] != cluster.server[None, :]]
    return f"between servers {figures(float(rates.min()), 'bytes/s')}" if len(rates) else ""


# Pictures of flows: which layers each device holds, what passes each layer, and how much passes a cluster.


# Of more devices the names would touch.
_NAMED = 48


def flow_figure(answer: FlowAnswer, bound: Bound | None = None) -> Figure:
    """Bars for the layers of each device, by their first one, above the capacity of each layer and the bound."""
    most = 1 / bound.value if bound is not None and bound.value > 0 else None
    instance, interval = answer.instance, answer.interval
    order = np.lexsort((interval[:, 1], interval[:, 0]))
    order = order[interval[order, 1] > interval[order, 0]]
    figure = Figure(figsize=(9, 3.5 + 0.16 * min(len(order), _NAMED)), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    fills, seen = colours(len(instance.capacity)), set[int]()
    for y, i in enumerate(order.tolist()):
        t, (begin, end) = int(instance.kind[i]), interval[i].tolist()
        label = f"kind {t}" if t not in seen else None
        above.barh(y, end - begin, left=begin, color=fills[t], height=0.8, label=label)
        seen.add(t)
    above.set_ylabel("device")
    if len(order) <= _NAMED:
        above.set_yticks(range(len(order)), [drawn(instance.devices[i]) for i in order.tolist()], fontsize=6)
    above.set_title(f"{drawn(instance.name)}: {answer.flow:.6g} requests/s", loc="left")
    held = np.zeros(instance.layers)
    for i in order.tolist():
        held[interval[i, 0] : interval[i, 1]] += answer.capacity[i]
    below.step(np.arange(instance.layers + 1), np.append(held, held[-1]), where="post", color="0.35", label="capacity")
    below.axhline(answer.flow, color="black", linewidth=1, linestyle=":", label=f"flow {answer.flow:.6g}")
    if most is not None:
        below.axhline(most, color="black", linewidth=1.2, linestyle="--", label=f"at most {most:.6g}")
    below.set_xlabel("layer")
    below.set_ylabel("requests/s")
    below.set_ylim(0, max(held.max(), most or 0.0) * 1.08)
    for ax in (above, below):
        plain(ax)
        legend_beside(ax)
    return figure


def plot_flows(names: Sequence[str], flows: Mapping[str, Sequence[float]], ax: Axes | None = None) -> Axes:
    """Bars for the requests per second of each cluster, a group a cluster.

    Parameters
    ----------
    names : sequence of str
        Of the clusters, from above.
    flows : mapping of str to sequence of float
        What each bar of a group stands for, with a number a cluster [requests/s].
    """
    ax = axes_of(ax, 9, 1.2 + 0.6 * len(names))
    height = 0.8 / len(flows)
    for i, ((label, values), fill) in enumerate(zip(flows.items(), colours(len(flows)), strict=True)):
        places = [place + (i - (len(flows) - 1) / 2) * height for place in range(len(names))]
        bars = ax.barh(places, values, height, color=fill, label=label)
        ax.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize="x-small")
    ax.set_yticks(range(len(names)), [drawn(name) for name in names], fontsize="small")
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel("flow [requests/s]")
    ax.margins(x=0.12)
    plain(ax)
    legend_beside(ax)
    return ax
