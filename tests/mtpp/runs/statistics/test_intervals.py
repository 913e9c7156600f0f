"""Means over clusters, intervals, paired tests and profiles, against numbers worked out by hand and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import PermutationMethod, ttest_1samp, wilcoxon

import mtpp
from instances import InputError
from mtpp.runs.statistics import (
    LEAST_CLUSTERS,
    cluster_of,
    compare_pairs,
    geometric_means,
    holm,
    intervals,
    means,
    paired_p,
    performance,
    performance_ratios,
    ratio_of,
)


def test_intervals_are_no_narrower_than_those_of_student() -> None:
    """One graph a cluster; of means far from skewed they are hardly wider, and rows say what each says alone."""
    values = np.random.default_rng(1).normal(size=(3, 40))
    found = means(values, range(40))
    for row, value, low, high in zip(values, *found[:3], strict=True):
        other = ttest_1samp(row, 0.0).confidence_interval(0.95)
        assert (low, high) == pytest.approx((other.low, other.high), rel=0.15)
        assert low <= other.low + 1e-9
        assert high >= other.high - 1e-9
        alone = means(row, range(40))
        assert (value, low, high) == pytest.approx([float(part[0]) for part in alone[:3]])


def test_a_long_tail_makes_its_side_wide() -> None:
    """The mean of what is rarely large may be far above the one that few clusters show."""
    low, high = (float(end[0]) for end in intervals([[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 4.0]], np.ones(8))(0.95))
    assert high - 0.7625 > 1.5 * (0.7625 - low)


@given(st.lists(st.floats(-1, 1), min_size=8, max_size=16), st.floats(0.5, 0.999))
def test_a_higher_level_is_a_wider_interval(values: list[float], level: float) -> None:
    at = intervals([values], np.ones(len(values)))
    (low,), (high,) = at(level)
    (lower,), (higher,) = at((1 + level) / 2)
    assert lower <= low <= np.mean(values) + 1e-12
    assert np.mean(values) - 1e-12 <= high <= higher


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("clusters", [8, 12, 20])
def test_intervals_cover_the_mean(clusters: int, skewed: bool) -> None:
    """In 0.93 of the draws at least, of clusters of one to three graphs."""
    rng, covered = np.random.default_rng(clusters), 0
    for _ in range(20):
        counts = rng.integers(1, 4, size=clusters)
        values = rng.exponential(size=(40, clusters)) - 1 if skewed else rng.normal(size=(40, clusters))
        low, high = intervals(values * counts, counts)(0.95)
        covered += np.count_nonzero((low <= 0) & (high >= 0))
    assert covered >= 0.93 * 20 * 40


def test_few_clusters_have_no_interval() -> None:
    """However many graphs they have."""
    many = means(np.ones((1, 70)), [i % (LEAST_CLUSTERS - 1) for i in range(70)])
    assert (many.graphs, many.clusters, many.value[0]) == (70, 7, 1.0)
    assert np.isnan([many.low[0], many.high[0]]).all()


def test_what_is_the_same_everywhere_has_no_width() -> None:
    found = geometric_means(np.full((1, 30), 1.25), range(30))
    assert np.ravel(found[:3]) == pytest.approx([1.25] * 3)


def test_missing_and_infinite_values_leave_other_rows_alone() -> None:
    rows = np.full((3, 10), 2.0)
    rows[0, 3], rows[1, 3] = np.nan, np.inf
    found = geometric_means(rows, range(10))
    assert np.isnan(found.value[0])
    assert np.isinf(found.value[1])
    assert found.value[2] == pytest.approx(2)
    assert np.isnan(found.low[:2]).all()
    assert found.low[2] == pytest.approx(2)


@given(st.lists(st.tuples(st.floats(0.1, 10), st.integers(0, 12)), min_size=1, max_size=40))
def test_the_mean_is_inside_of_its_interval(graphs: list[tuple[float, int]]) -> None:
    """Which is the plain geometric one of all graphs."""
    ratios, clusters = zip(*graphs, strict=True)
    found = geometric_means([ratios], clusters)
    assert found.value[0] == pytest.approx(np.exp(np.mean(np.log(ratios))))
    assert found.clusters == len(set(clusters))
    if found.clusters >= LEAST_CLUSTERS:
        assert found.low[0] <= found.value[0] * (1 + 1e-9)
        assert found.high[0] >= found.value[0] * (1 - 1e-9)


@pytest.mark.parametrize("name", ["resnet50", "resnet50-training", "resnet50-layer", "resnet50-layer-training"])
def test_variants_of_a_network_are_one_cluster(name: str) -> None:
    assert cluster_of(name) == "resnet50"
    assert cluster_of("erdos-renyi-50-1") == "erdos-renyi-50-1"


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert holm([0.02, math.nan])[0] == pytest.approx(0.02)


def test_profiles() -> None:
    """An infinite cost, or none, is never within a factor of the best."""
    ratios = performance_ratios({"A": [1, 2, 4], "B": [2, 2, math.inf]})
    assert performance(ratios["A"], 1) == 1
    assert [performance(ratios["B"], tau) for tau in (1, 2, 1e9)] == pytest.approx([1 / 3, 2 / 3, 2 / 3])
    assert performance_ratios({"A": [0.0, math.nan], "B": [0.0, 3.0]})["A"].tolist() == [1.0, math.inf]


def test_ratios_of_nothing() -> None:
    assert ratio_of([0.0, 0.0], [0.0, 2.0]).tolist() == [1.0, 0.0]
    assert np.isnan(ratio_of([np.nan, np.inf], [1.0, np.inf])).all()


def test_wins_ties_and_losses() -> None:
    """Over questions that both answered; a third one failed."""
    (pair,) = compare_pairs({"A": [1, 2, 3, 5], "B": [2, 2, 1, np.nan]}, list("abcd"))
    assert (pair.less, pair.ties, pair.more, pair.questions, pair.clusters) == (1, 1, 1, 3, 3)
    assert pair.ratio == pytest.approx((1 / 2 * 3) ** (1 / 3))
    assert not pair.is_significant


@settings(max_examples=25)
@given(st.lists(st.integers(-3, 3), min_size=2, max_size=8))
def test_the_paired_test_is_exact(whole: list[int]) -> None:
    """As scipy tries all signs, with differences of 0 and of the same size."""
    differences = np.array(whole, dtype=float)
    every = PermutationMethod(n_resamples=np.inf)
    expected = wilcoxon(differences, zero_method="pratt", method=every).pvalue if differences.any() else 1.0
    assert paired_p(differences[np.newaxis], np.ones(len(differences))) == pytest.approx(expected)


@given(st.permutations(range(1, 31)), st.lists(st.booleans(), min_size=30, max_size=30))
def test_the_paired_test_of_many_clusters_is_that_of_scipy(sizes: list[int], signs: list[bool]) -> None:
    differences = np.where(signs, 1.0, -1.0) * sizes
    assert paired_p(differences[np.newaxis], np.ones(30)) == pytest.approx(wilcoxon(differences).pvalue)


def test_ties_leave_the_paired_test_few_signs() -> None:
    """Two of twelve clusters differ, in the same direction: a quarter of all signs each."""
    assert paired_p(np.array([[0.0] * 10 + [0.1, 0.2]]), np.ones(12)) == pytest.approx(0.5)


def frame_of(rng: np.random.Generator, effect: float, clusters: int = 24) -> pd.DataFrame:
    """Two methods on networks of one to six variants, which resemble one another."""
    rows = []
    for network in range(clusters):
        shared = rng.normal(0, 0.03)
        for variant in range(rng.integers(1, 7)):
            cost, gain = rng.uniform(1, 9), np.exp(shared + rng.normal(0, 0.01) + effect)
            name = (f"net{network}-{variant}", 4)
            rows += [(*name, "mine", None, cost * gain, network), (*name, "theirs", None, cost, network)]
    return pd.DataFrame(rows, columns=["graph", "k", "method", "solver", "bottleneck", "cluster"])


def told_apart(effect: float, trials: int, seed: int) -> int:
    rng = np.random.default_rng(seed)
    return sum(mtpp.significance(frame_of(rng, effect))["better"].notna().sum() for _ in range(trials))


def test_a_difference_of_nothing_is_not_called_one() -> None:
    """In at most one of twenty trials; variants of a network count once, else most trials would."""
    assert told_apart(0.0, 60, seed=5) <= 3


def test_a_difference_is_called_one() -> None:
    assert told_apart(-0.05, 10, seed=6) == 10
    found = mtpp.significance(frame_of(np.random.default_rng(7), -0.05)).iloc[0]
    assert (found["first"], found["second"], found["better"]) == ("mine", "theirs", "mine")
    assert found["high"] < 1
    assert found["wins"] > found["losses"]


def test_of_bounds_more_is_better() -> None:
    rows = [(f"g{i}", 2, m, None, 1.0 + i + (m == "high") / 9) for i in range(12) for m in ("low", "high")]
    frame = pd.DataFrame(rows, columns=["graph", "k", "method", "solver", "bound"])
    found = mtpp.significance(frame, "bound").iloc[0]
    assert (found["better"], found["wins"], found["losses"]) == ("high", 0, 12)


def test_of_few_graphs_nothing_is_told() -> None:
    """Six graphs, always 1 % better."""
    rows = [(f"g{i}", 2, m, None, c) for i in range(6) for m, c in (("a", 1.0), ("b", 1.01))]
    frame = pd.DataFrame(rows, columns=["graph", "k", "method", "solver", "bottleneck"])
    found = mtpp.significance(frame).iloc[0]
    assert found["better"] is None
    assert np.isnan(found["low"])


def test_seeds_are_averaged_and_solvers_told_apart() -> None:
    rows = [(f"g{i}", 2, "a", s, c) for i in range(3) for s, c in (("highs", 1.0), ("highs", 4.0), ("scip", 2.0))]
    found = mtpp.significance(pd.DataFrame(rows, columns=["graph", "k", "method", "solver", "bottleneck"])).iloc[0]
    assert (found["first"], found["second"], found["ties"]) == ("a highs", "a scip", 3)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"value": "speed"}, "value is 'speed'; give one of bottleneck"),
        ({"value": "bound"}, "no column 'bound'"),
        ({"cluster": "family"}, "no column 'family'"),
    ],
)
def test_wrong_words_are_refused(words: dict[str, str], said: str) -> None:
    frame = frame_of(np.random.default_rng(0), 0.0, 2)
    with pytest.raises(InputError, match=said):
        mtpp.significance(frame, **words)
    with pytest.raises(InputError, match="two methods"):
        mtpp.significance(frame[frame["method"] == "mine"])
