"""Table of ``mtpp certify --explain``: the cost of each step, and the best results after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instances import Instance, Result
from mtpp.cli.printing import Printing
from mtpp.text.tables import fitted, terminal_width

if TYPE_CHECKING:
    from mtpp.certifying.loop import Turn


def with_steps(document: Callable[[], dict[str, Any]], steps: Sequence[Turn]) -> dict[str, Any]:
    """The JSON document of an answer, and its steps where nothing needs a check."""
    members = document()
    return {**members, "provenance": {**members["provenance"], "steps": [asdict(step) for step in steps]}}


def tell_steps(traces: Sequence[tuple[Instance, Sequence[Turn]]], printing: Printing) -> None:
    """Print a table of steps for each question."""
    for instance, steps in traces:
        unit = instance.graph.time_unit
        header = ["step", "seconds", "at its end", f"bottleneck [{unit}]", f"bound [{unit}]", "by", "ratio"]
        rows = [_row(step) for step in steps]
        printing.say(f"\nSteps, k = {instance.k}:")
        printing.say(fitted(header, rows, terminal_width()))


def draw_trace(path: Path, result: Result) -> None:
    """Draw bottleneck and bound over time, unless there was no turn."""
    from mtpp.plots.profiles import plot_trace
    from mtpp.plots.style import save_figure

    if result.moments:
        save_figure(plot_trace(result), path)


def _row(step: Turn) -> list[str]:
    ratio = f"{step.bottleneck / step.bound:.4f}" if step.bottleneck is not None and step.bound else "–"
    times = [f"{step.seconds:.2f}", f"{step.end:.2f}"]
    return [step.method, *times, _number(step.bottleneck), _number(step.bound), step.by or "–", ratio]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.6g}"
