"""Pictures of flows: which layers each device holds, what passes each layer, and how much passes a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from instances import Bound
from instances.flow.answer import FlowAnswer
from mtpp.plots.style import axes_of, colours, legend_beside, plain
from mtpp.text.tables import drawn

__all__ = ["flow_figure", "plot_flows"]

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
