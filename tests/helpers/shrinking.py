"""Make a failing question small."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

from placement_cases import PlacementCase
from planning_cases import PipelineCase
from ruled_oracle import RuledCase
from subset_oracle import Case

__all__ = ["minimised"]


def minimised(case: Any, fails: Callable[[Any], bool]) -> Any:
    """Leave out and round what can be, one after the other, while it still fails."""
    shrunk = True
    while shrunk:
        shrunk = False
        for smaller in _smaller(case):
            if fails(smaller):
                case, shrunk = smaller, True
                break
    return case


def _smaller(case: Any) -> Iterator[Any]:
    if isinstance(case, PipelineCase | PlacementCase):
        yield from case.smaller()
        return
    if isinstance(case, RuledCase):
        yield from case.fewer_rules()
    change = lambda **fields: dataclasses.replace(case, **fields)  # noqa: E731
    if case.n > 1:
        yield from (_without(case, v) for v in range(case.n))
    for i, (u, size, readers) in enumerate(case.tensors):
        rest = case.tensors[:i], case.tensors[i + 1 :]
        yield change(tensors=[*rest[0], *rest[1]])
        for v in readers:
            yield change(tensors=[*rest[0], (u, size, [w for w in readers if w != v]), *rest[1]])
        for plain in _plainer(size):
            yield change(tensors=[*rest[0], (u, plain, readers), *rest[1]])
    for i, (size, users) in enumerate(case.shared):
        rest = case.shared[:i], case.shared[i + 1 :]
        yield change(shared=[*rest[0], *rest[1]])
        for plain in _plainer(size):
            yield change(shared=[*rest[0], (plain, users), *rest[1]])
    for name in ("work", "params"):
        values = getattr(case, name)
        for v, value in enumerate(values):
            for plain in _plainer(value):
                yield change(**{name: [*values[:v], plain, *values[v + 1 :]]})
    if case.k > 1:
        yield change(k=case.k - 1)
    if case.memory < math.inf:
        yield change(memory=math.inf, buffer=None)
        yield from (change(memory=plain) for plain in _plainer(case.memory))
    if case.buffer is not None:
        yield change(buffer=None)
        yield from (change(buffer=plain) for plain in _plainer(case.buffer))
    if case.bandwidth != 1:
        yield change(bandwidth=1.0)
        yield from (change(bandwidth=plain) for plain in _plainer(case.bandwidth) if plain > 0)


def _without(case: Case, v: int) -> Case:
    def renamed(nodes: list[int]) -> list[int]:
        return [w - (w > v) for w in nodes if w != v]

    return dataclasses.replace(
        case,
        work=case.work[:v] + case.work[v + 1 :],
        params=case.params[:v] + case.params[v + 1 :],
        tensors=[(u - (u > v), size, renamed(readers)) for u, size, readers in case.tensors if u != v],
        shared=[(size, renamed(users)) for size, users in case.shared],
        **(case.rules_without(v) if isinstance(case, RuledCase) else {}),
    )


def _plainer(value: float) -> Iterator[float]:
    """Numbers with fewer digits, the plainest first."""
    if not math.isfinite(value):
        return
    for digits in (0, 1, 3):
        plain = 0.0 if digits == 0 else float(f"{value:.{digits - 1}e}")
        if len(repr(plain)) < len(repr(value)):
            yield plain
