"""Means over graphs with bootstrap intervals; graphs of one network are one cluster and are drawn together.

With sums s and numbers n of graphs by cluster c the mean is Σ s_c / Σ n_c, of logarithms for a geometric mean. Clusters
are drawn with replacement (Davison and Hinkley, Bootstrap Methods and Their Application, 1997, Section 3.8).
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import bootstrap

__all__ = [
    "LEAST_CLUSTERS",
    "Means",
    "cluster_of",
    "cluster_sums",
    "geometric_mean",
    "geometric_means",
    "interval",
    "means",
]

FloatArray = NDArray[np.float64]
Method = Literal["BCa", "percentile"]

#: Clusters from which on there is an interval, and from which on it is bias-corrected and accelerated.
LEAST_CLUSTERS, _CORRECTED = 8, 20
_RESAMPLES, _SEED = 9999, 0
#: Numbers that are drawn at a time.
_AT_ONCE = 4_000_000
#: Clusters whose means differ by less are all the same.
_SAME = 1e-12
_VARIANTS = ("-training", "-layer")


class Means(NamedTuple):
    """Means of several rows over the same graphs."""

    value: FloatArray  # (rows,); NaN where a value is missing
    low: FloatArray  # (rows,); NaN where there is no interval
    high: FloatArray
    graphs: int
    clusters: int


def cluster_of(name: str) -> str:
    """Network that a graph of a suite is a variant of; the name itself for any other.

    Examples
    --------
    >>> cluster_of("bert-large-layer-training")
    'bert-large'
    """
    for variant in _VARIANTS:
        name = name.removesuffix(variant)
    return name


def geometric_mean(values: Iterable[float]) -> float:
    """Geometric mean of positive numbers; infinite if one is, NaN if one is NaN.

    Examples
    --------
    >>> geometric_mean([1.0, 4.0])
    2.0
    """
    return float(np.exp(np.mean(np.log(list(values)))))


def geometric_means(ratios: ArrayLike, clusters: Sequence[Hashable]) -> Means:
    """Geometric means of positive numbers, with 95 % intervals.

    Parameters
    ----------
    ratios : (rows, graphs) floats
        NaN if missing, which makes the mean of its row missing.
    clusters : sequence of length `graphs`
        Network of each graph.

    Examples
    --------
    >>> geometric_means([[1, 4, 4], [2, 2, 2]], ["a", "b", "b"]).value.round(3).tolist()
    [2.52, 2.0]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithms = means(np.log(np.asarray(ratios, dtype=float)), clusters)
        return logarithms._replace(**{name: np.exp(getattr(logarithms, name)) for name in ("value", "low", "high")})


def means(values: ArrayLike, clusters: Sequence[Hashable]) -> Means:
    """Means over all graphs, with 95 % intervals; as `geometric_means`, of any numbers."""
    rows = np.atleast_2d(np.asarray(values, dtype=float))
    sums, counts = cluster_sums(rows, clusters)
    with np.errstate(invalid="ignore"):
        value = sums.sum(axis=1) / max(1, rows.shape[1]) if rows.shape[1] else np.full(len(rows), np.nan)
    low, high = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    whole = np.isfinite(sums).all(axis=1)
    if len(counts) >= LEAST_CLUSTERS and whole.any():
        low[whole], high[whole] = interval(sums[whole], counts)
    return Means(value, low, high, rows.shape[1], len(counts))


def cluster_sums(values: FloatArray, clusters: Sequence[Hashable]) -> tuple[FloatArray, FloatArray]:
    """Sums of each row by cluster, (rows, clusters), and the numbers of graphs, (clusters,)."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(clusters))}
    at = np.array([numbers[name] for name in clusters], dtype=int)
    sums = np.zeros((len(values), len(numbers)))
    with np.errstate(invalid="ignore"):
        np.add.at(sums.T, at, values.T)
    return sums, np.bincount(at, minlength=len(numbers)).astype(float)


def interval(
    sums: ArrayLike, counts: ArrayLike, level: float = 0.95, method: Method | None = None
) -> tuple[FloatArray, FloatArray]:
    """Bootstrap interval of Σ s / Σ n, with a fixed seed.

    Parameters
    ----------
    sums : (rows, clusters) floats
        Finite.
    counts : (clusters,) floats
    level : float
        Part of intervals that should hold the mean.
    method : str, optional
        BCa from 20 clusters on, percentile below, by default.

    Returns
    -------
    low, high : (rows,) floats
    """
    s, n = np.atleast_2d(np.asarray(sums, dtype=float)), np.asarray(counts, dtype=float)
    chosen: Method = method or ("BCa" if len(n) >= _CORRECTED else "percentile")

    def mean(drawn: NDArray[np.int64], axis: int = -1) -> FloatArray:
        """Mean of each row for the clusters of each draw; all rows share their draws."""
        draws = np.atleast_2d(drawn)
        places = draws + len(n) * np.arange(len(draws))[:, np.newaxis]
        weight = np.bincount(places.ravel(), minlength=len(draws) * len(n)).reshape(len(draws), len(n))
        result = (s @ weight.T) / (n @ weight.T)
        return result if drawn.ndim > 1 else result[:, 0]

    options: dict[str, Any] = {"vectorized": True, "confidence_level": level, "batch": max(1, _AT_ONCE // len(n))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about rows that are the same everywhere, which are given below
        result = bootstrap((np.arange(len(n)),), mean, n_resamples=_RESAMPLES, method=chosen, rng=_SEED, **options)
        low, high = (np.array(end, dtype=float) for end in result.confidence_interval)
        if chosen == "BCa" and np.isnan(low + high).any():
            plain = bootstrap(
                (np.arange(len(n)),), mean, n_resamples=0, bootstrap_result=result, method="percentile", **options
            ).confidence_interval
            low, high = np.where(np.isnan(low + high), (plain.low, plain.high), (low, high))
    same = np.ptp(s / n, axis=1) < _SAME
    value = s.sum(axis=1) / n.sum()
    return np.where(same, value, low), np.where(same, value, high)
