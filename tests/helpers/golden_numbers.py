"""Few numbers that change when any of many does, and files of them, a line a case."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["digest", "numbers_in", "same", "write"]


def digest(values: Iterable[float]) -> list[float]:
    """How many are finite, their sum, and a sum in which each has its own weight."""
    array = np.array(list(values), dtype=np.float64).ravel()
    finite = np.where(np.isfinite(array), array, 0.0)
    weights = 1.0 + np.sin(1.0 + np.arange(array.size))
    return [float(np.isfinite(array).sum()), math.fsum(finite), math.fsum(finite * weights)]


def numbers_in(document: Any) -> Iterator[float]:
    """All numbers of a document in the order of its text; words count by their length."""
    if isinstance(document, Mapping):
        for name, value in document.items():
            if name not in ("seconds", "provenance", "hash", "key", "question_hash"):
                yield from numbers_in(value)
    elif isinstance(document, list | tuple):
        for value in document:
            yield from numbers_in(value)
    elif isinstance(document, str):
        yield len(document)
    elif document is not None:
        yield float(document)


def same(numbers: list[float], golden: list[float]) -> bool:
    """Up to rounding: weights are not negative, and neither are most numbers, so that no sum cancels."""
    return len(numbers) == len(golden) and all(map(partial(math.isclose, rel_tol=1e-9), numbers, golden))


def write(file: Path, golden: Mapping[str, list[float]]) -> None:
    """A line a case; values of before stay where they hold up to rounding, so that a difference means something."""
    before = json.loads(file.read_text()) if file.exists() else {}
    kept = {name: before[name] if name in before and same(row, before[name]) else row for name, row in golden.items()}
    lines = (f" {json.dumps(name)}: [{', '.join(f'{x:.12g}' for x in row)}]" for name, row in kept.items())
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")
