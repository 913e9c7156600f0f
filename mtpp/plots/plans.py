"""Pictures of plans and flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from instances import Bound
from instances.flow.answer import FlowAnswer
from instances.graph.display import figures
from instances.planning import Iteration, Plan
from instances.planning.grid.plan import GridPlan
from instances.serving.answer import Deployment
from mtpp.plots.report.partitions import device_section, layer_chart
from mtpp.plots.report.plans import (
    degree_section,
    group_memory,
    memory_chart,
    schedule_section,
    step_section,
    time_chart,
)
from mtpp.plots.sections import Bar, Chart, Kind, Mark, Row, Section
from mtpp.plots.style import axes_of, chart_height, colour, draw, figure_of, with_legend
from mtpp.stages.trial import Trial
from mtpp.text.numbers import Scale
from mtpp.text.tables import drawn

# Pictures of running stages: when each computed which request, compared with the prediction.


# Requests of the timeline: the last ones, when the pipeline is full.
_SHOWN = 12


def trial_figure(trial: Trial) -> Figure:
    """Figure of the last requests' timeline, and below it measured and predicted stage times."""
    requests, times = request_section(trial), trial_section(trial)
    figure = figure_of((requests.title, requests.chart), (times.title, times.chart))
    period = "–" if trial.period is None else f"{trial.period * 1e3:.4g} ms"
    figure.suptitle(
        f"{drawn(trial.manifest.model)}: period {period}, {trial.manifest.bottleneck * 1e3:.4g} ms predicted"
    )
    return figure


def request_section(trial: Trial) -> Section:
    """Timeline of the stages over the last requests, with a colour for each request."""
    times = trial.events[:, -_SHOWN:, :2]
    times = times - times.min()
    first = trial.events.shape[1] - times.shape[1]
    rows = [
        Row(
            str(stage),
            [Bar(begin, end, i, "", label=str(i)) for i, (begin, end) in enumerate(row.tolist(), start=first)],
        )
        for stage, row in enumerate(times)
    ]
    chart = Chart(rows, Scale.of_times([float(times.max())], "s"), "stage")
    return Section(f"The last {times.shape[1]} requests", chart=chart)


def trial_section(trial: Trial) -> Section:
    """Times of each stage for a request: predicted, processor time, and clock time."""
    columns = {
        "states": ("predicted", [stage.time for stage in trial.manifest.stages]),
        "receive": ("processor time, median", trial.processor),
        "work": ("computing, median", trial.computing),
    }
    rows = [
        Row(
            str(n),
            [Bar(0, times[n], kind, "", i / 3, (i + 1) / 3) for i, (kind, (_, times)) in enumerate(columns.items())],
        )
        for n in range(len(trial.events))
    ]
    marks = [] if trial.period is None else [Mark(trial.period, "limit", "measured period")]
    scale = Scale.of_times([time for _, times in columns.values() for time in times], "s")
    kinds: dict[Kind, str] = {kind: words for kind, (words, _) in columns.items()}
    return Section("Times of a request", chart=Chart(rows, scale, "stage", kinds=kinds, marks=marks))


# Pictures of plans in a grid: passes of a pipeline in time beside those of the uniform plan, and memory.


def grid_figure(
    plan: GridPlan, bound: Bound | None = None, uniform: GridPlan | None = None, others: Sequence[GridPlan] = ()
) -> Figure:
    """Figure of the plan's passes beside the uniform plan's, its memory, and other plans' times."""
    plans = {"planned": plan} | ({} if uniform is None else {"best uniform plan": uniform})
    charts = [
        (f"{name}: {pictured.time:.4g} s", step_section(pictured, bound, None if pictured is uniform else uniform))
        for name, pictured in plans.items()
    ]
    sections = [group_memory(plan), *([degree_section(plan, others, bound)] if others else [])]
    charts += [(section.title, section) for section in sections]
    return figure_of(*((title, section.chart) for title, section in charts))


# Pictures of training pipelines: stages on a cluster, and the schedule of an iteration.
#
# What draws one picture takes the axes to draw on, and a new figure by default.


#: Which plans a bound covers.
_COVERS = {"z-split": "one stage a device, split or not", "work-any": "any plan"}
_DEVICES_ABREAST = 40


def plot_stages(plan: Plan, ax: Axes | None = None) -> Axes:
    """Draw which stage each device runs, server by server; idle devices are white."""
    cluster = plan.instance.cluster
    ax = axes_of(ax, 11, 1.8)
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
        face = colour(int(stages[v][0])) if v in stages else "white"
        ax.add_patch(Rectangle((x[v] - 0.45, y[v] - 0.45), 0.9, 0.9, facecolor=face, edgecolor="0.4", linewidth=0.5))
        ax.text(
            x[v], y[v], ",".join(stages.get(v, ())), ha="center", va="center", fontsize=8, color="white", weight="bold"
        )
    ax.set_xlim(-0.8, x.max() + 0.8)
    ax.set_ylim(row + 2.0, -0.8)
    ax.set_aspect("equal")
    ax.set_anchor("W")
    ax.set_axis_off()
    ax.text(-0.55, row + 1.7, _between_servers(plan), ha="left", va="top", fontsize=7)
    return ax


def plan_figure(iteration: Iteration, bound: Bound | None = None) -> Figure:
    """Figure of the stages on the cluster above the schedule, for each pipeline."""
    stages = [schedule.plan.n_stages for schedule in iteration.schedules]
    heights = [height for count in stages for height in (1.6, chart_height(count))]
    figure = Figure(figsize=(11, sum(heights) + 0.5), layout="constrained")
    axes = figure.subplots(len(heights), 1, height_ratios=heights)
    for schedule, above, below in zip(iteration.schedules, axes[::2], axes[1::2], strict=True):
        plot_stages(schedule.plan, above)
        draw(schedule_section(schedule), below)
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


def flow_figure(answer: FlowAnswer, bound: Bound | None = None) -> Figure:
    """Figure of each device's layers, above the flow through each layer with the bound."""
    title = f"{answer.instance.name}: {answer.flow:.6g} {answer.instance.rate_unit}"
    return figure_of((title, device_section(answer).chart), ("", layer_chart(answer, bound)))


def plot_flows(names: Sequence[str], flows: Mapping[str, Sequence[float]], ax: Axes | None = None) -> Axes:
    """Plot requests per second, a group of bars for each cluster.

    Parameters
    ----------
    names : sequence of str
        Names of the clusters, from top to bottom.
    flows : mapping of str to sequence of float
        What each bar of a group stands for, with one number for each cluster [requests/s].
    """
    ax = axes_of(ax, 9, 1.2 + 0.6 * len(names))
    height = 0.8 / len(flows)
    for i, (label, values) in enumerate(flows.items()):
        places = [place + (i - (len(flows) - 1) / 2) * height for place in range(len(names))]
        bars = ax.barh(places, values, height, color=colour(i), label=label)
        ax.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize="x-small")
    ax.set_yticks(range(len(names)), [drawn(name) for name in names], fontsize="small")
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel("flow [requests/s]")
    ax.margins(x=0.12)
    return with_legend(ax)


# Pictures of deployments.


def deployment_figure(answer: Deployment, bound: Bound | None = None) -> Figure:
    """Figure of the times of the stages above the memory of their devices."""
    limit = ""
    if bound is not None and answer.instance.objective != "cost":
        limit = f", at most {figures(1 / bound.value, 'tokens/s')}"
    title = f"{answer.instance.label}: {figures(answer.rate, 'tokens/s')}{limit}"
    return figure_of((title, time_chart(answer)), ("", memory_chart(answer)))
