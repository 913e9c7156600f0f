"""Performance profiles (Dolan and Moré, Benchmarking Optimization Software with Performance Profiles, 2002)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mtpp.runs.statistics.pairs import ratio_of

__all__ = ["performance", "performance_ratios"]

FloatArray = NDArray[np.float64]


def performance_ratios(costs: Mapping[str, ArrayLike]) -> dict[str, FloatArray]:
    """Cost of each method over the best of all methods, question by question.

    Parameters
    ----------
    costs : mapping of names to (questions,) floats
        NaN or infinite where a method failed.

    Returns
    -------
    dict of names to (questions,) floats
        At least 1; infinite where a method failed.

    Examples
    --------
    >>> ratios = performance_ratios({"A": [1, 2, 4], "B": [2, 2, float("inf")]})
    >>> [performance(ratios["B"], tau) for tau in (1, 2)]
    [0.3333333333333333, 0.6666666666666666]
    """
    if not costs:
        return {}
    rows = np.array([np.asarray(row, dtype=float) for row in costs.values()])
    rows = np.where(np.isnan(rows), np.inf, rows)
    best = rows.min(axis=0, initial=np.inf)
    ratios = np.where(np.isinf(rows), np.inf, ratio_of(rows, best))
    return dict(zip(costs, ratios, strict=True))


def performance(ratios: ArrayLike, tau: float) -> float:
    """ρ(τ): share of the questions whose cost is at most `tau` times the best; of `performance_ratios`."""
    values = np.asarray(ratios, dtype=float)
    return float(np.count_nonzero(values <= tau) / max(1, len(values)))
