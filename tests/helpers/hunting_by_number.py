"""Hunts that count their questions: so many of a seed, each drawn from both numbers."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

__all__ = ["hunt_by_number"]

_Case = TypeVar("_Case")


def hunt_by_number(
    draw: Callable[[random.Random, int], _Case], faults_of: Callable[[_Case, Counter[str]], list[str]]
) -> int:
    """Try as many questions, of that seed, as the command line says; the exit code, 1 if there was a fault.

    Parameters
    ----------
    draw : callable
        Makes the question of a number.
    faults_of : callable
        Lists what is wrong, and counts what it tries.
    """
    questions, seed = ([int(text) for text in sys.argv[1:]] + [10_000, 0][len(sys.argv) - 1 :])[:2]
    counts: Counter[str] = Counter()
    code = 0
    for i in range(questions):
        case = draw(random.Random(f"{seed} {i}"), i)
        for fault in faults_of(case, counts):
            print(f"question {i} of seed {seed}: {fault}\n  {case}", flush=True)
            code = 1
        if i % 500 == 499:
            print(f"{i + 1} questions, {dict(counts)}", flush=True)
    return code
