"""Pictures of the manual: drawn by ``python docs/site/pictures.py``, and put into pages of the site as they are.

The files have colours for light and dark, as the reader's system asks; in the site they follow the switch of the page.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from docutils import nodes
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from sphinx.application import Sphinx

FOLDER = Path(__file__).parent / "pictures"
#: Name of a colour: light, dark.
COLOURS = {
    "ink": ("#1f2328", "#e6edf3"),
    "paper": ("#fefefe", "#131416"),
    "muted": ("#656d76", "#9198a1"),
    "line": ("#b1bac4", "#4b535d"),
    "blue": ("#bddcff", "#123d6b"),
    "green": ("#bdebc8", "#14532d"),
    "orange": ("#ffdcb3", "#6b3a0a"),
    "violet": ("#e2d2ff", "#452a75"),
    "red": ("#cf222e", "#ff7b72"),
}
INK, PAPER, MUTED, LINE, BLUE, GREEN, ORANGE, VIOLET, RED = (light for light, _ in COLOURS.values())
STAGES = (BLUE, GREEN, ORANGE, VIOLET)


class Sheet:
    """A drawing in units of a tenth of an inch, with the origin at the lower left."""

    def __init__(self, width: float, height: float) -> None:
        self.figure = Figure(figsize=(width / 10, height / 10), facecolor=PAPER)
        self.axes: Axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, width), ylim=(0, height))
        self.axes.axis("off")

    def box(self, x: float, y: float, width: float, height: float, text: str = "", colour: str = PAPER) -> None:
        """Draw a box with a text in its middle."""
        style = "round,pad=0,rounding_size=0.5"
        self.axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=colour, edgecolor=LINE))
        self.text(x + width / 2, y + height / 2, text)

    def text(self, x: float, y: float, text: str, colour: str = INK, at: str = "center", size: float = 9) -> None:
        """Write a text at a point; `at` is the side of it that lies there."""
        self.axes.text(x, y, text, color=colour, ha=at, va="center", fontsize=size)

    def arrow(self, x: float, y: float, to_x: float, to_y: float, colour: str = MUTED) -> None:
        """Draw an arrow from a point to another."""
        style = {"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0}
        self.axes.annotate("", (to_x, to_y), (x, y), arrowprops=style)

    def line(self, x: float, y: float, to_x: float, to_y: float, colour: str = MUTED, style: str = "-") -> None:
        """Draw a line between two points."""
        self.axes.plot([x, to_x], [y, to_y], color=colour, linestyle=style, linewidth=1.2)


def cut() -> Sheet:
    """Draw a cut into three stages, and these stages in time."""
    sheet = Sheet(66, 30)
    sheet.text(1, 28, "a cut", MUTED, "left")
    stage_of = (0, 0, 0, 1, 1, 2, 2, 2)
    for i, stage in enumerate(stage_of):
        sheet.box(2 + 8 * i, 22, 5, 4, f"{'abcdefgh'[i]}", STAGES[stage])
        if i:
            sheet.arrow(8 * i - 1, 24, 2 + 8 * i, 24)
    for place in (24.5, 40.5):
        sheet.line(place, 20.5, place, 27.5, RED, "--")
    sheet.text(1, 17.5, "its stages in time", MUTED, "left")
    times, slowest = (10, 13, 8), 13
    for stage, time in enumerate(times):
        y = 12.5 - 4.5 * stage
        sheet.text(1, y + 1.5, f"stage {stage}", at="left")
        for batch in range(3):
            start = 10 + slowest * (batch + stage)
            if start + time < 66:
                sheet.box(start, y, time, 3, f"batch {batch}", STAGES[stage])
    sheet.arrow(23, 6.8, 36, 6.8, RED)
    sheet.arrow(36, 6.8, 23, 6.8, RED)
    sheet.text(12, 6.8, "bottleneck", RED)
    return sheet


def bound() -> Sheet:
    """Draw what searches and bounds leave between them."""
    sheet = Sheet(66, 20)
    sheet.line(3, 8, 63, 8, INK)
    sheet.text(63, 5.5, "cost of the slowest stage", MUTED, "right")
    for x in (8, 16, 23, 28, 31):
        sheet.axes.plot([x], [8], marker="|", markersize=12, color=MUTED)
    for x in (59, 52, 46, 42, 39):
        sheet.axes.plot([x], [8], marker="o", markersize=5, color=MUTED)
    sheet.axes.plot([36], [8], marker="*", markersize=11, color=RED)
    sheet.text(36, 10.8, "optimum", RED)
    sheet.text(16, 14.5, "bounds: no cut is below")
    sheet.arrow(8, 12.3, 28, 12.3)
    sheet.text(52, 14.5, "cuts that are found")
    sheet.arrow(59, 12.3, 43, 12.3)
    sheet.line(31, 2, 31, 7, MUTED, "--")
    sheet.line(39, 2, 39, 7, MUTED, "--")
    sheet.text(35, 3.2, "the gap", size=8)
    sheet.text(1, 18, "ratio = best cut / best bound", MUTED, "left")
    return sheet


def certificate() -> Sheet:
    """Draw what a certificate binds, and what it does not."""
    sheet = Sheet(66, 34)
    sheet.box(2, 3, 40, 29)
    sheet.text(4, 29.7, "certificate", MUTED, "left")
    sheet.box(4, 20, 36, 7.5, "question: graph, k, devices,\nmemory, constraints", BLUE)
    sheet.box(4, 12.5, 17, 6, "answer: a block\nfor each node", GREEN)
    sheet.box(23, 12.5, 17, 6, "bounds, each\nwith a witness", GREEN)
    sheet.box(4, 5, 36, 5.5, "provenance: versions, seconds, notes")
    for y, text in (
        (23.7, "bound by its hash:\ncompare it with yours"),
        (15.5, "computed and\nproved again"),
        (7.7, "not checked, and\nnothing rests on it"),
    ):
        sheet.arrow(46, y, 41, y)
        sheet.text(47, y, text, at="left")
    return sheet


def ideals() -> Sheet:
    """Draw a poset and the ideals that a dynamic program walks through."""
    sheet = Sheet(66, 26)
    sheet.text(1, 24, "a graph", MUTED, "left")
    at = {"a": (3, 11), "b": (12, 16), "c": (12, 6), "d": (21, 11)}
    for one, other in ("ab", "ac", "bd", "cd"):
        (x, y), (to_x, to_y) = at[one], at[other]
        sheet.arrow(x + 4, y + 1.5, to_x, to_y + 1.5)
    for name, (x, y) in at.items():
        sheet.box(x, y, 4, 3, name, BLUE)
    sheet.text(31, 24, "its ideals: sets with all predecessors", MUTED, "left")
    sets = {"∅": (31, 11), "a": (38, 11), "a b": (46, 16), "a c": (46, 6), "a b c": (54, 11), "all": (62, 11)}
    for one, other in (("∅", "a"), ("a", "a b"), ("a", "a c"), ("a b", "a b c"), ("a c", "a b c"), ("a b c", "all")):
        (x, y), (to_x, to_y) = sets[one], sets[other]
        sheet.arrow(x + len(one) / 2 + 1.2, y + 1.5, to_x - len(other) / 2 - 1, to_y + 1.5)
    for name, (x, y) in sets.items():
        sheet.text(x, y + 1.5, name)
    sheet.text(31, 2, "a cut into blocks is a way from ∅ to all", MUTED, "left")
    return sheet


def prices() -> Sheet:
    """Draw column generation: prices, and blocks that are too cheap for them."""
    sheet = Sheet(66, 22)
    sheet.box(3, 8, 22, 7, "linear program:\nprices of the nodes", BLUE)
    sheet.box(41, 8, 22, 7, "search: a block worth 1\nthat is too cheap", GREEN)
    sheet.arrow(26, 13.2, 40, 13.2)
    sheet.text(33, 15, "prices")
    sheet.arrow(40, 9.5, 26, 9.5)
    sheet.text(33, 7.5, "a block")
    sheet.arrow(52, 7.5, 52, 4)
    sheet.text(52, 2.3, "none: a tree proves the bound", RED)
    sheet.text(1, 20, "column generation", MUTED, "left")
    return sheet


def memory() -> Sheet:
    """Draw what the devices of a decoder hold, by the context."""
    sheet = Sheet(66, 28)
    parts = ((9.9, 12.6, "stage 0"), (7, 11.2, "stage 1"), (7, 11.2, "stage 2"), (8.2, 9.8, "stage 3"))
    for stage, (weights, caches, name) in enumerate(parts):
        x = 4 + 11 * stage
        sheet.box(x, 3, 7, weights * 0.8, "weights", BLUE)
        sheet.box(x, 3 + weights * 0.8, 7, caches * 0.8, "caches", ORANGE)
        sheet.text(x + 3.5, 1.3, name, MUTED)
    sheet.line(2, 21, 46, 21, RED, "--")
    sheet.text(47, 21, "memory of a device", RED, "left")
    sheet.text(48, 13, "caches grow with\ncontext, batch and\nbatches in flight", at="left")
    sheet.text(1, 26, "the fullest stage says how much context has room", MUTED, "left")
    return sheet


def parallel() -> Sheet:
    """Draw a model on two devices: as a pipeline, by tensor parallelism, as copies."""
    sheet = Sheet(66, 30)
    for x, title in ((3, "pipeline"), (26, "tensor parallel"), (49, "copies")):
        sheet.text(x + 7, 28, title, MUTED)
    for layer in range(4):
        y = 20 - 5 * layer
        sheet.box(3, y, 14, 4, f"layer {layer}", STAGES[layer // 2])
        for half in range(2):
            sheet.box(26 + 7.5 * half, y, 6.5, 4, "½", STAGES[half])
            sheet.box(49 + 7.5 * half, y, 6.5, 4, f"{layer}", STAGES[half])
    sheet.line(2, 14.5, 18, 14.5, RED, "--")
    for x, text in (
        (10, "sends once:\nmore requests"),
        (33, "sends in each layer:\nquicker requests"),
        (56, "sends nothing:\nneeds the room"),
    ):
        sheet.text(x, 2.2, text, size=8)
    return sheet


def kinds() -> Sheet:
    """Draw equal and unequal stages on devices that differ."""
    sheet = Sheet(66, 26)
    for y, title, layers in (
        (16, "the same number of layers on each device", (8, 8, 8)),
        (4, "as their speeds are", (16, 5, 3)),
    ):
        sheet.text(1, y + 7.5, title, MUTED, "left")
        for i, (name, speed) in enumerate((("A100", 4.0), ("L4", 1.3), ("T4", 0.8))):
            row = y + 4 - 2.7 * i
            sheet.text(1, row + 1, name, at="left", size=8)
            sheet.box(8, row, 5.2 * layers[i] / speed, 2, f"{layers[i]} layers", STAGES[i])
        slowest = 8 + 5.2 * max(count / speed for count, speed in zip(layers, (4.0, 1.3, 0.8), strict=True))
        sheet.line(slowest, y - 2, slowest, y + 6.5, RED, "--")
    return sheet


def front() -> Sheet:
    """Draw cuts of a decoder by context and speed, and those that none beats."""
    sheet = Sheet(66, 30)
    sheet.arrow(8, 5, 62, 5, INK)
    sheet.arrow(8, 5, 8, 28, INK)
    sheet.text(62, 2.5, "context that has room", MUTED, "right")
    sheet.text(9, 28.5, "tokens a second", MUTED, "left")
    best = ((16, 24), (27, 22.5), (39, 18.5), (52, 10))
    sheet.axes.step(*zip(*best, strict=True), where="pre", color=RED, linewidth=1.2)
    rng = np.random.default_rng(3)
    for x, y in zip(rng.uniform(11, 48, 40), rng.uniform(6, 22, 40), strict=True):
        if any(x < bx - 1 and y < by - 1 for bx, by in best):
            sheet.axes.plot([x], [y], marker="o", markersize=4, color=LINE)
    for x, y in best:
        sheet.axes.plot([x], [y], marker="o", markersize=7, color=RED)
    sheet.text(54, 22, "the front: no cut\nbeats one of these\nin both", RED)
    return sheet


def schedule() -> Sheet:
    """Draw microbatches of training in a pipeline of three stages, one forward and one backward in turn."""
    sheet = Sheet(66, 20)
    forward = ((0, 1, 2, 9), (1, 2, 7, 10), (2, 5, 8, 11))
    backward = ((7, 10, 13, 16), (5, 8, 11, 14), (3, 6, 9, 12))
    for starts, length, colour in ((forward, 1, BLUE), (backward, 2, GREEN)):
        for stage, moments in enumerate(starts):
            for batch, start in enumerate(moments):
                sheet.box(9 + 3 * start, 12 - 4.5 * stage, 3 * length, 3.5, str(batch), colour)
    for stage in range(3):
        sheet.text(1, 13.7 - 4.5 * stage, f"stage {stage}", at="left")
    sheet.text(1, 18.5, "forward (blue) and backward (green) passes of four microbatches", MUTED, "left")
    return sheet


PICTURES: tuple[Callable[[], Sheet], ...] = (
    cut, bound, certificate, ideals, prices, memory, parallel, kinds, front, schedule
)  # fmt: skip


def svg(sheet: Sheet, name: str) -> str:
    """Return the text of a picture, whose colours are variables."""
    file = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif"}):
        sheet.figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = re.sub(r"^.*?(?=<svg)|<metadata>.*?</metadata>\s*|<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r' id="(?:figure|axes|patch|line2d|text)_\d+"|<!--.*?-->\s*', "", text)
    for colour, (light, _) in COLOURS.items():
        text = text.replace(light, f"var(--picture-{colour})")
    variables = [";".join(f"--picture-{name}:{pair[i]}" for name, pair in COLOURS.items()) for i in range(2)]
    style = f"<style>:root{{{variables[0]}}}@media(prefers-color-scheme:dark){{:root{{{variables[1]}}}}}</style>"
    return re.sub(r"(<svg[^>]*>)", rf"\1\n {style}", text, count=1)


def inline(app: Sphinx, document: nodes.document) -> None:
    """Put the pictures of this folder into the page itself, so that they follow its switch of light and dark."""
    for image in document.findall(nodes.image):
        path = Path(app.srcdir, image["uri"])
        if path.parent == FOLDER:
            text = re.sub(r"<style>.*?</style>", "", path.read_text(encoding="utf-8"))
            label = image.get("alt", "").replace('"', "'")
            text = text.replace("<svg ", f'<svg class="picture" role="img" aria-label="{label}" ', 1)
            image.replace_self(nodes.raw("", text, format="html"))


def colours(app: Sphinx, config: Any) -> None:
    """Give the theme the colours of the pictures, for light and dark pages."""
    for i, mode in enumerate(("light", "dark")):
        config.html_theme_options[f"{mode}_css_variables"] |= {
            f"picture-{name}": pair[i] for name, pair in COLOURS.items()
        }


def setup(app: Sphinx) -> dict[str, Any]:
    """Offer the pictures to Sphinx."""
    app.connect("config-inited", colours)
    app.connect("doctree-read", inline)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for draw in PICTURES:
        (FOLDER / f"{draw.__name__}.svg").write_text(svg(draw(), draw.__name__), encoding="utf-8")
