"""Pictures of training pipelines: stages on a cluster, and the schedule of an iteration.

What draws one picture takes the axes to draw on, and a new figure by default.
"""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from instances import Bound
from instances.graph.display import figures
from instances.planning import Iteration, Plan, Timeline
from mtpp.plots.style import axes_of, colours, legend_beside, plain
from mtpp.text.tables import drawn

__all__ = ["plan_figure", "plot_schedule", "plot_stages"]

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
