"""Statistics of runs: intervals of means, pairs of methods, profiles, comparisons."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike, NDArray

from instances import InputError, Instance
from instances.results import exceeds
from mtpp.runs.engine import progress_bar, run_jobs, unfinished
from mtpp.runs.job import Run, RunLog, remarks
from mtpp.runs.method_process import end_processes
from mtpp.runs.partition_job import PartitionJob, jobs_of
from mtpp.runs.sources import writing
from mtpp.runs.workers import this_process, workers_at
from mtpp_models import SolveOptions, SolverNotAvailableError, simple
from mtpp_models.solvers.registry import SOLVERS, find_solver

# Means over graphs with intervals; graphs of one network are one cluster and are drawn together.
#
# With sums s and numbers n of graphs by cluster c the mean is Σ s_c / Σ n_c, of logarithms for a geometric mean.
# Clusters are drawn with replacement and means studentised (Davison and Hinkley, Bootstrap Methods and Their
# Application, 1997, Sections 2.4 and 3.8).


FloatArray = NDArray[np.float64]

#: Clusters from which on there is an interval.
LEAST_CLUSTERS = 8
#: Part of intervals that should hold the mean.
_LEVEL = 0.95
_RESAMPLES, _SEED = 9999, 0
#: Numbers that are drawn at a time.
_AT_ONCE = 4_000_000
#: Part of the standard error that a draw has at least, as clusters that are drawn may be nearly the same.
_LEAST_SPREAD, _TINY = 0.25, 1e-300
_VARIANTS = ("-training", "-layer")


class Means(NamedTuple):
    """Means of several rows of numbers on the same graphs, with confidence intervals."""

    value: FloatArray  # (rows,); NaN where a value is missing
    low: FloatArray  # (rows,); NaN where there is no interval
    high: FloatArray
    graphs: int
    clusters: int
    at: Callable[[float], tuple[FloatArray, FloatArray]]  # low and high at another level than 95 %


def cluster_of(name: str) -> str:
    """Network of which a suite's graph is a variant; the name itself for other graphs.

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
        mean = means(np.log(np.asarray(ratios, dtype=float)), clusters)
        value, low, high = (np.exp(part) for part in mean[:3])

    def ends(level: float) -> tuple[FloatArray, FloatArray]:
        low, high = mean.at(level)
        return np.exp(low), np.exp(high)

    return mean._replace(value=value, low=low, high=high, at=ends)


def means(values: ArrayLike, clusters: Sequence[Hashable]) -> Means:
    """Means over all graphs, with 95 % intervals; as `geometric_means`, of any numbers."""
    rows = np.atleast_2d(np.asarray(values, dtype=float))
    sums, counts = cluster_sums(rows, clusters)
    with np.errstate(invalid="ignore"):
        value = sums.sum(axis=1) / max(1, rows.shape[1]) if rows.shape[1] else np.full(len(rows), np.nan)
    whole = np.isfinite(sums).all(axis=1)
    ends_of_whole = intervals(sums[whole], counts) if len(counts) >= LEAST_CLUSTERS and whole.any() else None

    def ends(level: float) -> tuple[FloatArray, FloatArray]:
        low, high = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
        if ends_of_whole is not None:
            low[whole], high[whole] = ends_of_whole(level)
        return low, high

    return Means(value, *ends(_LEVEL), rows.shape[1], len(counts), ends)


def cluster_sums(values: FloatArray, clusters: Sequence[Hashable]) -> tuple[FloatArray, FloatArray]:
    """Sums of each row by cluster, (rows, clusters), and the numbers of graphs, (clusters,)."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(clusters))}
    at = np.array([numbers[name] for name in clusters], dtype=int)
    sums = np.zeros((len(values), len(numbers)))
    with np.errstate(invalid="ignore"):
        np.add.at(sums.T, at, values.T)
    return sums, np.bincount(at, minlength=len(numbers)).astype(float)


def intervals(sums: ArrayLike, counts: ArrayLike) -> Callable[[float], tuple[FloatArray, FloatArray]]:
    """Confidence intervals of Σ s / Σ n: the wider of Student's t and the studentised bootstrap.

    The bootstrap accounts for skewness, which t does not, and t for the uncertainty of few clusters. Each draw has one
    cluster less than there are (Rao and Wu, Resampling Inference with Complex Survey Data, 1988), with a fixed seed;
    its standard error is at least a quarter of that of all clusters, as a draw of equal clusters has none.

    Parameters
    ----------
    sums : (rows, clusters) floats
        Finite; of three clusters at least.
    counts : (clusters,) floats

    Returns
    -------
    function
        From the confidence level, such as 0.95, to the lower and upper ends of the intervals, (rows,) floats each.
    """
    s, n = np.atleast_2d(np.asarray(sums, dtype=float)), np.asarray(counts, dtype=float)
    value, clusters, total = s.sum(axis=1) / n.sum(), len(n), n.sum()
    rest = s - value[:, np.newaxis] * n
    error = np.sqrt((rest**2).sum(axis=1) * clusters / (clusters - 1)) / total
    rng, drawn = np.random.default_rng(_SEED), clusters - 1
    parts = []
    for batch in np.array_split(np.arange(_RESAMPLES), -(-_RESAMPLES * clusters // _AT_ONCE)):
        weights = rng.multinomial(drawn, np.full(clusters, 1 / clusters), size=len(batch)).astype(float)
        of_draw = weights @ n
        shift = rest @ weights.T / of_draw
        squares = rest**2 @ weights.T - 2 * shift * (rest * n @ weights.T) + shift**2 * (weights @ n**2)
        errors = np.sqrt(np.maximum(0.0, squares) * drawn / (drawn - 1)) / of_draw
        parts.append(shift / np.maximum(errors, _LEAST_SPREAD * error[:, np.newaxis] + _TINY))
    ratios = np.sort(np.concatenate(parts, axis=1), axis=1)

    def ends(level: float) -> tuple[FloatArray, FloatArray]:
        tail = (1 - level) / 2
        low = ratios[:, max(1, math.floor(tail * (_RESAMPLES + 1))) - 1]
        high = ratios[:, min(_RESAMPLES, math.ceil((1 - tail) * (_RESAMPLES + 1))) - 1]
        least = scipy.special.stdtrit(clusters - 1, 1 - tail)
        return value - np.maximum(high, least) * error, value - np.minimum(low, -least) * error

    return ends


# Two methods on the same questions: ratio, interval, paired test, and a correction for many pairs.


#: Logarithms of ratios nearer to 0 are ties.
_TIE = 1e-9
#: Clusters up to which the paired test is exact.
_EXACT = 50
#: Differences are told where the corrected p is below this, and 1 outside of the interval.
SIGNIFICANT = 0.05


class Pair(NamedTuple):
    """Comparison of two methods over the questions that both answered."""

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
    def is_significant(self) -> bool:
        """Whether the difference is significant: interval without 1, and small corrected p."""
        return self.holm < SIGNIFICANT and (self.low > 1 or self.high < 1)


def ratio_of(values: ArrayLike, references: ArrayLike) -> FloatArray:
    """Values over references: 1 for 0 over 0, infinite for others over 0, NaN where one is missing.

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
    pairs = [_pair(a, b, columns[a], columns[b], networks) for a, b in combinations(columns, 2)]
    corrected = holm([pair.p for pair in pairs])
    return [pair._replace(holm=float(p)) for pair, p in zip(pairs, corrected, strict=True)]


def _pair(first: str, second: str, a: FloatArray, b: FloatArray, clusters: NDArray[np.object_]) -> Pair:
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(divide="ignore"):
        logs = np.log(ratio_of(a[finite], b[finite]))
    logs[np.abs(logs) < _TIE] = 0.0
    names = clusters[finite].tolist()
    mean = means(logs, names)
    with np.errstate(over="ignore"):
        ratio, low, high = (float(np.exp(part[0])) for part in mean[:3])
    less, ties, more = (int(np.count_nonzero(side)) for side in (logs < 0, logs == 0, logs > 0))
    p = paired_p(*cluster_sums(logs[np.newaxis], names))
    return Pair(first, second, ratio, low, high, p, p, less, ties, more, mean.graphs, mean.clusters)


class PairedTest(NamedTuple):
    """Wilcoxon's signed-rank test of two methods on clusters."""

    p: float
    differ: int  # clusters on whose means they are not equal
    clusters: int

    @property
    def can_reject(self) -> bool:
        """Whether the test could reject for some signs of the differences."""
        return bool(2.0 ** (1 - self.differ) < SIGNIFICANT)

    @property
    def is_tie(self) -> bool:
        """Whether the methods are equal on most clusters."""
        return 2 * self.differ < self.clusters


def paired_test(logs: FloatArray, clusters: Sequence[Hashable]) -> PairedTest:
    """Paired test of (graphs,) logarithms of ratios."""
    sums, counts = cluster_sums(logs[np.newaxis], clusters)
    differ = int(np.count_nonzero(np.abs(sums / counts) >= _TIE))
    return PairedTest(paired_p(sums, counts), differ, len(counts))


def paired_p(sums: FloatArray, counts: FloatArray) -> float:
    """P value of Wilcoxon's signed-rank test on cluster means, zeros kept in the ranks (Pratt).

    Up to 50 clusters it is exact, over all signs of the means that are not 0. It is 1 where all means are 0, NaN where
    one is missing.
    """
    differences = (sums / counts).ravel()
    differences[np.abs(differences) < _TIE] = 0.0
    if np.isnan(differences).any() or not len(differences):
        return float("nan")
    if not differences.any():
        return 1.0
    if len(differences) > _EXACT:
        return float(scipy.stats.wilcoxon(differences, zero_method="pratt").pvalue)
    doubled = np.rint(2 * scipy.stats.rankdata(np.abs(differences))).astype(int)  # mean ranks of equal sizes are halves
    chances = np.ones(1)  # of each sum of the doubled ranks with a plus
    for rank in doubled[differences != 0]:
        chances = (np.pad(chances, (0, rank)) + np.pad(chances, (rank, 0))) / 2
    reached = int(doubled[differences > 0].sum())
    return float(min(1.0, 2 * min(chances[: reached + 1].sum(), chances[reached:].sum())))


def holm(p: Sequence[float]) -> FloatArray:
    """P values corrected for their number (Holm 1979).

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


# Performance profiles (Dolan and Moré, Benchmarking Optimization Software with Performance Profiles, 2002).


def performance_ratios(costs: Mapping[str, ArrayLike]) -> dict[str, FloatArray]:
    """Cost of each method over the best of all methods, for each question.

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
    """ρ(τ): fraction of the questions whose cost is at most `tau` times the best."""
    values = np.asarray(ratios, dtype=float)
    return float(np.count_nonzero(values <= tau) / max(1, len(values)))


# Any methods on any graphs as one frame, a row for each run.


#: Columns of a row.
COLUMNS = (
    *("graph", "cluster", "n", "m", "k", "method", "solver", "seed", "budget", "bottleneck", "bound", "ratio"),
    *("simple", "seconds", "cpu_seconds", "primal_integral", "gap_integral", "remark", "error"),
)
_NUMBERS = (
    *("budget", "bottleneck", "bound", "ratio", "simple", "seconds", "cpu_seconds"),
    *("primal_integral", "gap_integral"),
)


def compare_methods(
    instances: Iterable[Instance],
    methods: Iterable[Any],
    solvers: Sequence[str],
    options: SolveOptions,
    file: Path | None = None,
    jobs: int = 1,
    *,
    scheduler: str | None = None,
    seeds: Sequence[int] = (),
    budgets: Sequence[float | None] = (None,),
    accept_old: bool = False,
) -> pd.DataFrame:
    """Run every method on every instance; those that need a solver with each solver.

    Parameters
    ----------
    instances : iterable of Instance
    methods : iterable
        Heuristics, models and "certify", as for ``mtpp table``, and methods of the caller, see `jobs_of`; bounds start
        from the best partition of the heuristics.
    solvers : sequence of str
    options : SolveOptions
        Its solver does not count; the time limit is for each bound.
    file : Path, optional
        File of runs; those that are done are not repeated.
    jobs : int
        Processes; 1 is this one.
    scheduler : str, optional
        Address of a scheduler of dask.distributed, whose workers are used instead.
    seeds, budgets : sequence
        Seeds and budgets of heuristics, see `jobs_of`.
    accept_old : bool
        Whether runs of the version before, which do not know the code that made them, are answers.

    Returns
    -------
    DataFrame
        The columns are `COLUMNS`. `ratio` is the bottleneck over the best bound that is known for the graph and k,
        *simple* among them, but for what methods of the caller state; what is not known is missing. Integrals are those
        of `primal_integral` and `gap_integral` up to the end of the longest run on the graph and k. `remark` says
        "late" of a heuristic that took more than 1.1 of its budget, "not repeatable" of one that gave another answer
        when it was asked again, and "below simple" of a bound of the caller. `error` is the text of a failure.

    Raises
    ------
    InputError, OSError
        Before any run is made.
    WorkersLostError
        If the scheduler is lost.
    """
    with writing(file):
        by_solver = {
            solver: jobs_of(instances, methods, replace(options, solver=solver), seeds=seeds, budgets=budgets)
            for solver in _checked(solvers)
        }
    rows_of_jobs = zip(*by_solver.values(), strict=True)
    wanted = [job for row in rows_of_jobs for job in (row if row[0].by.needs_solver else row[:1])]
    if not wanted:
        raise InputError("There is nothing to compare; give a graph, a k, a method and a solver at least.")
    if any(not job.by.can_travel for job in wanted) and (jobs > 1 or scheduler is not None):
        names = sorted({job.method for job in wanted if not job.by.can_travel})
        raise InputError(
            f"methods: {names[0]} has no file that other processes could load; write it to a file and give "
            f"mine.py:{names[0]}, or use this process alone."
        )
    folder: AbstractContextManager[str] = nullcontext("") if file is not None else tempfile.TemporaryDirectory()
    pool = this_process() if jobs == 1 and scheduler is None else workers_at(scheduler, jobs)
    with (
        folder as place,
        RunLog(file or Path(place) / "runs.jsonl", accept_old=accept_old) as log,
        pool as workers,
        progress_bar(len(unfinished(wanted, log))) as bar,
        ExitStack() as after,
    ):
        after.callback(end_processes)
        runs = {run["key"]: run for run in run_jobs(wanted, log, workers, bar.advance)}
    answered = [(job, runs[job.key]) for job in wanted]
    best = {job.instance.key: simple(job.instance) for job in wanted}
    least, longest = dict.fromkeys(best, math.inf), dict.fromkeys(best, 0.0)
    for job, run in answered:
        longest[job.instance.key] = max(longest[job.instance.key], run["seconds"] or 0.0)
        if job.by.user_method is None:  # what others state is no reference
            best[job.instance.key] = max(best[job.instance.key], run["bound"] or 0.0)
        if run["bottleneck"] is not None:
            least[job.instance.key] = min(least[job.instance.key], run["bottleneck"])
    shaky = {job.method for job, run in answered if run["repeatable"] is False}
    checked = [(job, _without_false_bound(job, run, least[job.instance.key])) for job, run in answered]
    rows = [
        _row(job, run, best[key], job.method in shaky) | _integrals(job, run, least[key], longest[key])
        for job, run in checked
        for key in [job.instance.key]
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(dict.fromkeys(_NUMBERS, float))


def _checked(solvers: Sequence[str]) -> Sequence[str]:
    """The solvers; an unknown one is refused, and one that is not installed makes its runs fail later."""
    for name in solvers:
        try:
            find_solver(name)
        except SolverNotAvailableError as error:
            if name not in SOLVERS:
                raise InputError(str(error)) from None
    return solvers


def _without_false_bound(job: PartitionJob, run: Run, least: float) -> Run:
    """The run; a caller's bound above the cost of any known partition becomes an error."""
    bound = run["bound"]
    if job.by.user_method is None or bound is None or not exceeds(bound, least):
        return run
    return {**run, "bound": None, "error": f"its bound {bound:.6g} is above the bottleneck {least:.6g} of a partition"}


def _row(job: PartitionJob, run: Run, best: float, shaky: bool) -> dict[str, Any]:
    bottleneck, bound = run["bottleneck"] if job.by.finds_partitions else None, run["bound"]
    is_low = job.by.user_method is not None and bound is not None and exceeds(run["simple"], bound)
    doubts = [*remarks(run), *["not repeatable"] * shaky, *["below simple"] * is_low]
    return {
        "graph": job.instance.name,
        "n": job.instance.graph.n,
        "m": job.instance.graph.m,
        "k": job.instance.k,
        "method": job.method,
        "solver": job.options.solver if job.by.needs_solver else None,
        "seed": job.options.seed,
        "budget": job.budget,
        "ratio": None if bottleneck is None else _ratio(bottleneck, best),
        "bottleneck": bottleneck,
        "remark": ", ".join(dict.fromkeys(doubts)) or None,
        **{name: run[name] for name in ("cluster", "simple", "bound", "seconds", "error")},
        "cpu_seconds": run.get("cpu_seconds"),
    }


def _integrals(job: PartitionJob, run: Run, least: float, end: float) -> dict[str, float | None]:
    """Columns of the integrals; None for runs without partition or bound."""
    points = points_of(run)
    finds, proves = job.by.finds_partitions and run["bottleneck"] is not None, run["bound"] is not None
    return {
        "primal_integral": primal_integral(points, least, end) if finds else None,
        "gap_integral": gap_integral(points, end) if proves and run["bottleneck"] is not None else None,
    }


#: Seconds since the begin of a run, the least cost by then, and the best bound, None while there is none.
Points = Sequence[Sequence[float | None]]


def points_of(run: Run) -> Points:
    """The history of a run; only its end if it has no trace."""
    return run.get("trace") or [(run["seconds"] or 0.0, run["bottleneck"], run["bound"])]


def primal_integral(points: Points, best: float, end: float) -> float:
    """Integral of the primal gap over time up to `end` [s]; smaller is better.

    The primal gap is the difference between the cost and the best known cost, over the larger of both; it is 1 while
    there is no cost, and constant after the last point. Berthold: Measuring the impact of primal heuristics. Operations
    Research Letters 41 (2013).

    Examples
    --------
    >>> primal_integral([(1.0, 8.0, None), (3.0, 4.0, None)], 4.0, 10.0)  # 1 s without a cost, 2 s at half
    2.0
    """
    gaps = [1.0 if cost is None else abs(cost - best) / (max(cost, best) or 1.0) for _, cost, _ in points]
    return _integral([float(point[0] or 0.0) for point in points], gaps, end)


def gap_integral(points: Points, end: float) -> float:
    """Integral over time of the gap between best cost and bound, up to `end` [s].

    The gap is cost less bound, over the cost, and 1 while either is missing: Berthold's integral with the current bound
    in place of the best cost.

    Examples
    --------
    >>> gap_integral([(1.0, 8.0, None), (3.0, 8.0, 4.0)], 10.0)
    6.5
    """
    gaps = [
        1.0 if cost is None or bound is None else max(0.0, cost - bound) / (cost or 1.0) for _, cost, bound in points
    ]
    return _integral([float(point[0] or 0.0) for point in points], gaps, end)


def _integral(times: Sequence[float], gaps: Sequence[float], end: float) -> float:
    """Integral of a step function that is 1 before its first step."""
    steps = [min(time, end) for time in times]
    return steps[0] + math.fsum((b - a) * gap for a, b, gap in zip(steps, [*steps[1:], end], gaps, strict=True))


def _ratio(bottleneck: float, bound: float) -> float:
    if bound > 0:
        return max(1.0, bottleneck / bound)
    return 1.0 if bottleneck == 0 else math.inf
