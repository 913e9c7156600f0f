"""Pictures of running stages: when each computed which request, compared with the prediction."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mtpp.plots.style import axes_of, colours, legend_beside, plain
from mtpp.stages.trial import Trial
from mtpp.text.numbers import Scale
from mtpp.text.tables import drawn

__all__ = ["plot_stage_times", "plot_work", "trial_figure"]

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
