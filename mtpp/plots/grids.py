"""Pictures of plans in a grid: passes of a pipeline in time beside those of the uniform plan, and memory."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from instances import Bound
from instances.planning.grid.plan import GridPlan
from mtpp.plots.style import axes_of, colours, legend_beside, plain

__all__ = ["grid_figure", "plot_memory", "plot_passes"]

_HEIGHT = 0.8
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
            Rectangle((start, n % plan.groups - _HEIGHT / 2), durations[n], _HEIGHT)
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
