"""Sections of a page about a serving front: all cuts that no other beats, and the memory of the answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from instances import Bound
from instances.partitioning.serving import ServedPartition
from instances.runtimes.layer_cut import layers_in_words
from instances.runtimes.serving_front import Front
from mtpp.plots.report.drawing import svg
from mtpp.plots.report.markup import paragraph, section, table, text
from mtpp.plots.report.partitions import memory_section, partition_question, partition_sections
from mtpp.text.numbers import time_in_words

__all__ = ["front_question", "front_sections"]

_WIDTH, _HEIGHT, _LEFT = 640.0, 260.0, 90.0


def front_question(front: Front) -> dict[str, str]:
    """The question of a front, label to text."""
    question = front.instance
    return partition_question(front.partition) | {
        "batch": f"{question.batch} sequences",
        "context": f"{question.context} tokens of each at least",
    }


def front_sections(front: Front, bound: Bound | None) -> Iterator[str]:
    """The front as a picture and a table, and the chosen cut with what its stages hold."""
    points, answer = front.points, front.chosen
    unit = answer.question.instance.time_unit
    rows = [
        [
            layers_in_words(point.partition) + (" (the answer)" if point is answer else ""),
            time_in_words(point.bottleneck, unit),
            _tokens(point.capacity),
            _tokens(point.capacity * answer.question.batch),
        ]
        for point in points
    ]
    told = "No cut beats one of these in both: the time of the slowest stage, and the context that all stages hold."
    numbers = table(["layers of the stages", "bottleneck", "context", "tokens in all"], rows)
    yield section("Cuts that no other beats", paragraph(told, "soft"), _picture(points, answer), numbers)
    context = min(answer.capacity, 1e15)
    partition = answer.partition
    sizes = {
        "parameters": partition.param_bytes.tolist(),
        "states": answer.cache_bytes(context).tolist(),
        "activations": partition.peaks.tolist(),
    }
    labels = [str(n) for n in range(partition.instance.k)]
    if not partition.instance.is_alike:
        labels = [f"{label} ({name})" for label, name in zip(labels, partition.kind_names, strict=True)]
    alike = partition.instance.is_alike
    yield memory_section(labels, sizes, partition.instance.platform.memory if alike else math.inf, "stage")
    yield paragraph(f"The states are keys and values at a context of {_tokens(answer.capacity)} tokens.", "soft")
    yield from partition_sections(partition, bound, memory=False)


def _picture(points: Sequence[ServedPartition], answer: ServedPartition) -> str:
    """Context over bottleneck; the answer is filled."""
    shown = [point for point in points if point.capacity < math.inf]
    if len(shown) < 2:
        return ""
    times, contexts = [point.bottleneck for point in shown], [point.capacity for point in shown]
    unit = answer.question.instance.time_unit

    def place(point: ServedPartition) -> tuple[float, float]:
        across = (point.bottleneck - times[0]) / (times[-1] - times[0] or 1)
        up = (point.capacity - contexts[0]) / (contexts[-1] - contexts[0] or 1)
        return _LEFT + 20 + across * (_WIDTH - 60), _HEIGHT - 30 - up * (_HEIGHT - 60)

    marks = []
    for point in shown:
        (x, y), fill = place(point), "var(--Work)" if point is answer else "var(--Card)"
        told = text(f"{time_in_words(point.bottleneck, unit)}, {_tokens(point.capacity)} tokens")
        look = f'r="6" stroke="var(--Work)" stroke-width="2" fill="{fill}"'
        marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" {look}><title>{told}</title></circle>')
    words = [
        (_LEFT + 20, _HEIGHT - 4, "start", time_in_words(times[0], unit)),
        (_LEFT + _WIDTH - 40, _HEIGHT - 4, "end", f"bottleneck {time_in_words(times[-1], unit)}"),
        (_LEFT, _HEIGHT - 26, "end", _tokens(contexts[0])),
        (_LEFT, 34.0, "end", _tokens(contexts[-1])),
        (_LEFT, 16.0, "end", "context"),
    ]
    axes = f'<path class="grid" d="M{_LEFT + 6:.0f} 20V{_HEIGHT - 18:.0f}H{_LEFT + _WIDTH:.0f}"/>'
    ends = [
        f'<text class="soft" x="{x:.0f}" y="{y:.0f}" text-anchor="{side}">{text(told)}</text>'
        for x, y, side, told in words
    ]
    return svg(_LEFT + _WIDTH + 20, _HEIGHT, "".join([axes, *ends, *marks]))


def _tokens(count: float) -> str:
    return "any" if count == math.inf else f"{count:.0f}"
