"""Sections of a page about a flow: layers of the devices, what passes them and their links, and what holds it back."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from instances import Bound
from instances.flow.answer import FlowAnswer
from instances.graph.display import figures
from mtpp.plots.report.drawing import Bar, Line, hue, legend, stacked_bars, timeline
from mtpp.plots.report.markup import paragraph, section, table
from mtpp.text.numbers import Scale

__all__ = ["flow_question", "flow_sections"]

_RATE = "requests/s"
#: A device or a link is full from this part of its capacity on.
_FULL = 1 - 1e-9


def flow_question(answer: FlowAnswer) -> dict[str, str]:
    """The question of a flow, label to text."""
    instance = answer.instance
    found = dict(instance._facts())
    for t, row in enumerate(instance.capacity):
        held = np.flatnonzero(row)
        told = "holds no layer"
        if len(held):
            ends = dict.fromkeys((int(held[0]), int(held[-1])))
            told = ", ".join(f"{figures(row[c], _RATE)} with {c} {'layer' if c == 1 else 'layers'}" for c in ends)
        found[f"kind {t}"] = f"{instance.counts[t]} devices: {told}"
    return found


def flow_sections(answer: FlowAnswer, bound: Bound | None) -> Iterator[str]:
    """All sections, one after the other."""
    most = 1 / bound.value if bound is not None and bound.value > 0 else None
    yield _device_section(answer)
    yield _layer_section(answer, most)
    yield _link_section(answer)


def _device_section(answer: FlowAnswer) -> str:
    instance, interval = answer.instance, answer.interval
    order = np.lexsort((interval[:, 1], interval[:, 0]))
    order = order[interval[order, 1] > interval[order, 0]]
    passes, bars, rows = _passes(answer), list[Bar](), list[list[str]]()
    scale = Scale.of_numbers(answer.capacity, _RATE)
    for row, i in enumerate(order.tolist()):
        (begin, end), own, t = interval[i].tolist(), float(answer.capacity[i]), int(instance.kind[i])
        share = min(1.0, float(passes[i]) / own) if own > 0 else 0.0
        layers = f"{begin}" if end == begin + 1 else f"{begin}–{end - 1}"
        told = f"{instance.devices[i]}, kind {t}: layers {layers}, {share:.1%} of {scale.cell(own)} {_RATE}"
        bars += [Bar(row, begin, end, "spare", told), Bar(row, begin, end, hue(t), told, 1 - share, 1.0)]
        cells = [scale.cell(own), scale.cell(float(passes[i])), f"{share:.1%}"]
        rows.append([instance.devices[i], str(t), layers, str(end - begin), *cells])
    idle = instance.n - len(rows)
    told = "A row is a device, from its first layer to its last, in the colour of its kind; the filled part of its "
    told += "height is what passes, of what it could serve." + (f" {idle} devices hold no layer." if idle else "")
    picture = timeline([cells[0] for cells in rows], bars, Scale("layer", 1.0, 0))
    header = ["device", "kind", "layers", "number", f"could serve [{_RATE}]", "passes", "used"]
    return section("Layers of the devices", paragraph(told, "soft"), picture, table(header, rows))


def _layer_section(answer: FlowAnswer, most: float | None) -> str:
    """The most that could pass each layer; neighbours that lie on the same devices are one row."""
    interval, flow = answer.interval, answer.flow
    cuts = sorted({0, answer.instance.layers, *interval[interval[:, 1] > interval[:, 0]].ravel().tolist()})
    held = [float(answer.capacity[(interval[:, 0] <= a) & (interval[:, 1] >= b)].sum()) for a, b in pairwise(cuts)]
    parts = {"work": [min(flow, rate) for rate in held], "spare": [max(0.0, rate - flow) for rate in held]}
    scale = Scale.of_numbers([*held, flow], _RATE)
    lines = [Line(flow, "limit", f"flow {figures(flow, _RATE)}")]
    if most is not None:
        lines.append(Line(most, "bound", f"no layers let more than {figures(most, _RATE)} pass"))
    labels = [str(a) if b == a + 1 else f"{a}–{b - 1}" for a, b in pairwise(cuts)]
    words = legend({"work": "passes", "spare": "could pass, by the devices alone"})
    return section("Requests through each layer", words, stacked_bars(labels, parts, scale, lines, "layers"))


def _link_section(answer: FlowAnswer) -> str:
    """The links that requests take, the fullest first, and how much of the network is full."""
    n, passing, network = answer.instance.n, answer.passing, answer.network
    names = ["source", "sink", *answer.instance.devices, *answer.instance.devices]
    links = [(u, v) for u, v in np.argwhere(passing > 0).tolist() if v != u + n or u < 2]
    links.sort(key=lambda link: -passing[link] / network[link])
    scale = Scale.of_numbers([passing[link] for link in links], _RATE)
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
    told = f"{len(links)} links are used, {full} of them full; {devices} of {n} devices are full. One way to reach the "
    told += "flow is shown, the fullest links first; there may be others."
    header = ["from", "to", f"passes [{_RATE}]", "could carry", "used"]
    return section("Links", paragraph(told, "soft"), table(header, rows))


def _passes(answer: FlowAnswer) -> np.ndarray:
    """(n,) requests/s through each device."""
    n = answer.instance.n
    return answer.passing[np.arange(2, n + 2), np.arange(n + 2, 2 * n + 2)]
