"""Two methods on the same questions: ratio, interval, paired test, and a correction for many pairs."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import wilcoxon

from mtpp.runs.statistics.intervals import cluster_sums, means

__all__ = ["SIGNIFICANT", "Pair", "compare_pairs", "holm", "paired_p", "ratio_of"]

FloatArray = NDArray[np.float64]

#: Logarithms of ratios nearer to 0 are ties.
_TIE = 1e-9
#: Differences are told where the corrected p is below this, and 1 outside of the interval.
SIGNIFICANT = 0.05


class Pair(NamedTuple):
    """How the values of two methods compare, over the questions that both have an answer to."""

    first: str
    second: str
    ratio: float  # geometric mean of first over second
    low: float  # of a 95 % interval; NaN with too few clusters
    high: float
    p: float  # of Wilcoxon's signed-rank test on the means of the clusters
    holm: float  # the same, corrected for all pairs
    less: int  # questions where the first has the smaller value
    ties: int
    more: int
    questions: int
    clusters: int

    @property
    def told_apart(self) -> bool:
        """Whether 1 is outside of the interval and the corrected p small enough; False without an interval."""
        return self.holm < SIGNIFICANT and (self.low > 1 or self.high < 1)


def ratio_of(values: ArrayLike, references: ArrayLike) -> FloatArray:
    """Values over references; 1 for 0 over 0, infinite for something over 0, NaN where one is missing.

    Examples
    --------
    >>> ratio_of([3.0, 0.0, 1.0], [2.0, 0.0, 0.0]).tolist()
    [1.5, 1.0, inf]
    """
    over, under = np.asarray(values, dtype=float), np.asarray(references, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((over == under) & np.isfinite(over), 1.0, over / under)


def compare_pairs(values: Mapping[str, ArrayLike], clusters: Sequence[Hashable]) -> list[Pair]:
    """Compare every two methods.

    Parameters
    ----------
    values : mapping of names to (questions,) floats
        NaN or infinite where there is no answer.
    clusters : sequence of length `questions`
        Network of each question.
    """
    columns = {name: np.asarray(column, dtype=float) for name, column in values.items()}
    networks = np.empty(len(clusters), dtype=object)
    networks[:] = list(clusters)
    made = [_pair(a, b, columns[a], columns[b], networks) for a, b in combinations(columns, 2)]
    corrected = holm([pair.p for pair in made])
    return [pair._replace(holm=float(p)) for pair, p in zip(made, corrected, strict=True)]


def _pair(first: str, second: str, a: FloatArray, b: FloatArray, clusters: NDArray[np.object_]) -> Pair:
    both = np.isfinite(a) & np.isfinite(b)
    with np.errstate(divide="ignore"):
        logs = np.log(ratio_of(a[both], b[both]))
    logs[np.abs(logs) < _TIE] = 0.0
    names = clusters[both].tolist()
    mean = means(logs, names)
    with np.errstate(over="ignore"):
        ratio, low, high = (float(np.exp(part[0])) for part in mean[:3])
    less, ties, more = (int(np.count_nonzero(side)) for side in (logs < 0, logs == 0, logs > 0))
    p = paired_p(*cluster_sums(logs[np.newaxis], names))
    return Pair(first, second, ratio, low, high, p, p, less, ties, more, mean.graphs, mean.clusters)


def paired_p(sums: FloatArray, counts: FloatArray) -> float:
    """P value of Wilcoxon's signed-rank test on the means of clusters, zeros kept in the ranks (Pratt).

    1 where all means are 0, NaN where one is not known.
    """
    differences = (sums / counts).ravel()
    differences[np.abs(differences) < _TIE] = 0.0
    if np.isnan(differences).any() or not len(differences):
        return float("nan")
    if not differences.any():
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about few clusters, whose p is large anyway
        return float(wilcoxon(differences, zero_method="pratt").pvalue)


def holm(p: Sequence[float]) -> FloatArray:
    """P values corrected for their number (Holm, A Simple Sequentially Rejective Multiple Test Procedure, 1979).

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=float)
    order = np.argsort(values, kind="stable")  # NaN, which is no test, comes last
    factors = np.maximum(1, np.count_nonzero(~np.isnan(values)) - np.arange(len(values)))
    result = np.empty(len(values))
    result[order] = np.minimum(1.0, np.maximum.accumulate(values[order] * factors))
    return result
