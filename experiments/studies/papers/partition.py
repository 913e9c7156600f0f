"""Numbers of the paper on partitioning (MTPP) beside those measured here."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache, cached_property
from itertools import chain, zip_longest

import numpy as np
import pandas as pd

from experiments.studies.mtpp import Grid, Table, bound_grid, certificate_grid, heuristic_grid, run_frame, table_of
from experiments.studies.papers.numbers import Comparison, Measured, PaperNumber, Part, Row, comparison, numbers
from heuristics import HEURISTICS
from instances import InputError, Instance
from instances.deadline import Deadline
from instances.results import PROOF_TOLERANCE
from instances.suites import SUITES, Entry, find_suite
from mtpp.runs.job import Run
from mtpp.runs.partition_job import PartitionJob, jobs_of
from mtpp.runs.statistics import means, paired_test
from mtpp_models import SolveOptions
from mtpp_models.solvers.interface import Controls, SolverFaultError, SolverNotAvailableError
from mtpp_models.solvers.modeling import pyo
from mtpp_models.solvers.registry import find_solver

# Runs of the partitioning of the plan: which graphs, which jobs, and the runs of each item.


#: Variables that a solver must be able to take; free licences of some take fewer.
_LICENSED = 2100
#: Seconds of an order of 100 nodes, and of searches that do not count them.
_ORDERS, _OTHERS = 1.1e-4, {"mla": 0.3, "local-search": 3.0, "multilevel": 2.0, "portfolio": 4.0}


class PartitionRuns:
    """Jobs for the rows of a plan, and the keys of the runs of each item.

    Parameters
    ----------
    rows : sequence of Row
        Rows of the plan whose study is "partition".
    regal : str, optional
        Folder of REGAL's test graphs; without it graphs in their style stand in.
    profile : str, optional
        Name of the profile of the plan, which the runs keep.

    Attributes
    ----------
    jobs : list of PartitionJob
        Distinct jobs.
    left_out : list of str
        Sentences on what is not run, and why.
    rows : sequence of Row
    fingerprint : set of str
        Keys of the runs of random-1 on all of REGAL's graphs, whatever the profile; empty without the folder.

    Raises
    ------
    InputError
        If a graph or a name is refused.
    """

    def __init__(self, rows: Sequence[Row], regal: str | None, profile: str | None = None) -> None:
        self.rows, self.left_out = rows, list[str]()
        self._regal, self._profile = regal, profile
        self._keys: dict[str, dict[str, None]] = {}
        jobs: dict[str, PartitionJob] = {}
        for row in rows:
            jobs_of_row = list(self._jobs(row))
            jobs |= {job.key: job for job in jobs_of_row}
            keys = {job.key: None for job in jobs_of_row if job.method in (*row.methods, "simple")}
            for item in row.items:
                self._keys.setdefault(item, {}).update(keys)
        fingerprint = list(self._fingerprint(regal)) if regal and any(row.graphs == "regal" for row in rows) else []
        self.fingerprint = {job.key for job in fingerprint}
        jobs |= {job.key: job for job in fingerprint}
        self.jobs = list(jobs.values())

    def keys(self, item: str) -> set[str]:
        """Keys of the runs that a table or figure (`item`) of the paper needs."""
        return set(self._keys.get(item, ()))

    def _jobs(self, row: Row) -> Iterator[PartitionJob]:
        compared = row.graphs != "regal" or self._regal is not None
        ks = row.k if compared else tuple(k for k in row.k if k <= _ALIKE)
        questions = _questions(self._suite(row), row.take, ks)
        yield from jobs_of(questions, ["simple"], profile=self._profile)
        if row.limit is None:
            seeds = range(row.seeds)
            yield from jobs_of(questions, row.methods, seeds=seeds, profile=self._profile)
            return
        solver = next(filter(_is_there, row.solver), None)
        if solver is None:
            self.left_out.append(f"{', '.join(row.methods)}: not run, no solver of {', '.join(row.solver)} is there")
            return
        options = SolveOptions(solver, row.limit, row.gap, row.threads)
        yield from jobs_of(questions, list(dict.fromkeys((*row.starts, *row.methods))), options, profile=self._profile)

    def _fingerprint(self, regal: str) -> Iterator[PartitionJob]:
        ks = tuple(_k(number) for number in _fingerprint_of_paper())
        yield from jobs_of(_questions(f"regal:{regal}", None, ks), [_SHOWN], seeds=range(1), profile=self._profile)

    def _suite(self, row: Row) -> str:
        if row.graphs == "networks":
            return "real" if row.take <= len(SUITES["real"].entries) else "networks"
        return f"regal-style:{row.take}" if self._regal is None else f"regal:{self._regal}"


def seconds_of(job: PartitionJob) -> float:
    """Longest time that a job may run [s]: the time limit of a bound, an estimate for a search."""
    if job.method not in HEURISTICS:
        return job.options.time_limit or 0.0
    _, _, orders = job.method.rpartition("-")
    at_100 = _ORDERS * int(orders) if orders.isdigit() else _OTHERS.get(job.method, _OTHERS["mla"])
    return at_100 * job.instance.graph.n / 100


def taken(entries: Iterable[Entry], count: int | None) -> list[Entry]:
    """The first `count` entries of a fixed shuffle, with equal shares of each family or network."""
    families: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: hashlib.sha256(entry.name.encode()).digest()):
        families.setdefault(_family(entry), []).append(entry)
    return [entry for entry in chain(*zip_longest(*families.values())) if entry is not None][:count]


def _family(entry: Entry) -> str:
    """Kind of random graph, or network."""
    name, _, seed = entry.name.rpartition("-")
    return name.rpartition("-")[0] if seed.isdigit() and name.rpartition("-")[2].isdigit() else entry.family


@cache
def _questions(suite: str, count: int | None, ks: tuple[int, ...]) -> list[Instance]:
    """Questions about the first graphs; an unavailable graph is an `InputWarning`."""
    whole = find_suite(suite)
    chosen = replace(whole, entries=tuple(taken(whole.entries, count)))
    graphs = [(entry, graph) for entry, graph in chosen.graphs() if graph is not None]
    return [entry.question(graph, entry.platform(k)) for entry, graph in graphs for k in ks]


@cache
def _is_there(solver: str) -> bool:
    """Whether a solver is installed with a licence for models of realistic size."""
    model = pyo.ConcreteModel()
    model.x = pyo.Var(range(_LICENSED), bounds=(0, 1))
    model.V = pyo.Objective(expr=sum(model.x.values()) + 1)
    try:
        find_solver(solver).solve(model, Controls(deadline=Deadline.after(60.0)))
    except (SolverNotAvailableError, SolverFaultError):
        return False
    return True


# Measures for the numbers of MTPP: Tables 1 to 6, and sentences on them.


#: Tables of heuristics, bounds, and certificates, on private networks and on REGAL's graphs.
_TABLES = {"Table 1": "Table 4", "Table 2": "Table 5", "Table 3": "Table 6"}
_REGAL = dict(zip(_TABLES.values(), _TABLES, strict=True))
_FOUND = "brkga-10000"  # the partitions of Tables 3 and 6
#: Proves optima, which no bound exceeds; no row of a table.
_PROOFS = "ideals"
#: Blocks up to which graphs in REGAL's style resemble REGAL's.
_ALIKE = 8
#: How near this search must come to the paper's in every column, if a folder of graphs is to be REGAL's.
_SHOWN, _FINGERPRINT = "random-1", 0.01


class PartitionMeasures:
    """Measurements for the numbers of MTPP, from grids of ratios: one for each table or figure (item) of the paper.

    Parameters
    ----------
    study : PartitionRuns
    runs : sequence of Run
        Runs of all its jobs.
    regal : bool
        Whether the graphs of Tables 4 to 6 are read from a folder of REGAL's files.
    """

    def __init__(self, study: PartitionRuns, runs: Sequence[Run], regal: bool) -> None:
        self._study, self._runs, self._regal = study, runs, regal
        self._grids: dict[tuple[str, bool], Grid | None] = {}
        self._frames: dict[str, pd.DataFrame] = {}

    def comparison_of(self, number: PaperNumber) -> Comparison:
        """The comparison that a number allows on the available graphs."""
        stated = self._stated(number)
        if stated.kind == "order" and number.item in (*_TABLES, *_REGAL) and not _pairs(number):
            return replace(stated, comparable="no", why="the largest of its column, which those below are held against")
        return stated

    def _stated(self, number: PaperNumber) -> Comparison:
        stated = comparison(number)
        if number.item not in _REGAL or stated.comparable != "same":
            return stated
        if self._regal and self._is_regal:
            return stated
        if self._regal:
            return replace(stated, comparable="no", why="the graphs of the folder are read in another way than REGAL's")
        if _k(number) > _ALIKE:
            return replace(stated, comparable="no", why="graphs in REGAL's style differ from its own for k ≥ 16")
        return Comparison("shape", "order", Decimal(0), False, "own graphs in REGAL's style: only the order of rows")

    def measured(self, number: PaperNumber) -> Measured | None:
        """Measurement for a number; None if there is none."""
        if number.item == "Abstract":  # its k, lost in our copy, is that of the largest bound of Table 2
            return self._cell("Table 2", "exact", 16)
        if number.item not in (*_TABLES, *_REGAL):
            return None
        grid = self._grid(number.item)
        if grid is None or number.row not in grid.labels or not (grid.questions["k"] == _k(number)).any():
            return Measured(None, note="not run in this profile")
        if number.column.endswith("solved"):
            at = (grid.questions["k"] == _k(number)).to_numpy()
            assert grid.solved is not None
            share = 100 * float(grid.solved[grid.labels.index(number.row), at].mean())
            return Measured(Part(share, np.nan, np.nan), int(at.sum()), len(set(grid.of(number.row, _k(number))[1])))
        parts = self._order(number, grid) if self.comparison_of(number).kind == "order" else None
        return self._cell(number.item, number.row, _k(number), parts)

    def tables(self) -> list[Table]:
        """A table for each item that was run, with the paper's numbers."""
        tables = []
        for item in (*_TABLES, *_REGAL):
            grid = self._grid(item)
            if grid is not None:
                kind = _REGAL.get(item, item)
                best = {"Table 1": -1, "Table 2": 1}.get(kind, 0)
                title = {"Table 1": "bottleneck over simple", "Table 2": "bound over simple (solved to optimality)"}
                text = title.get(kind, f"{_FOUND} over the best bound so far")
                tables.append(table_of(f"mtpp-{item.lower().replace(' ', '-')}", f"MTPP, {item}: {text}", grid, best))
        return tables

    def frame(self, item: str) -> pd.DataFrame:
        """Frame of the runs that a table or figure (`item`) of the paper needs."""
        if item not in self._frames:
            keys = self._study.keys(item)
            runs = (run for run in self._runs if run["key"] in keys and run["method"] != _PROOFS)
            self._frames[item] = run_frame(runs)
        return self._frames[item]

    def _grid(self, item: str, *, later: bool = False) -> Grid | None:
        """Grid of a table or figure; with `later`, from the highest values that unfinished bounds could reach."""
        if (item, later) not in self._grids:
            try:
                frame = self.frame(item)
            except InputError:  # no runs
                self._grids[item, later] = None
                return None
            self._grids[item, later] = _GRIDS[_REGAL.get(item, item)](self._later(item) if later else frame)
        return self._grids[item, later]

    def _later(self, item: str) -> pd.DataFrame:
        """Runs of a table or figure, with each unfinished bound replaced by the highest value that it could reach.

        That is the cost of the best partition, or of a solution of the method's own program.
        """
        gaps = {
            method: row.gap
            for row in self._study.rows
            if item in row.items
            and row.limit is not None
            and row.paper_limit is not None
            and row.limit < row.paper_limit
            for method in row.methods
        }
        frame = self.frame(item)
        # At that gap a solver ends, however long it may work.
        ended = frame["bound"] >= frame["at_most"] * (1 - frame["method"].map(gaps) - PROOF_TOLERANCE)
        could_rise = frame["method"].isin(gaps) & ~frame["optimal"].eq(True) & ~ended
        largest = frame["at_most"].combine(frame["question"].map(self._least), np.fmin)
        reached = frame["bound"].combine(largest, np.fmax)
        return frame.assign(
            bound=frame["bound"].where(~could_rise, reached), error=frame["error"].where(~could_rise, None)
        )

    @cached_property
    def _least(self) -> pd.Series[float]:
        """Best bottleneck of each question; proved optima are included."""
        runs = [(run["question"], run["bottleneck"]) for run in self._runs if run["error"] is None]
        frame = pd.DataFrame(runs, columns=["question", "bottleneck"]).astype({"bottleneck": float})
        return frame.groupby("question")["bottleneck"].min()

    def _cell(self, item: str, row: str, k: int, parts: Sequence[Part] | None = None) -> Measured:
        grid, later = self._grid(item), self._grid(item, later=True)
        if grid is None or later is None or row not in grid.labels or not (grid.questions["k"] == k).any():
            return Measured(None, note="not run in this profile")
        (logs, clusters), (reached, _) = grid.of(row, k), later.of(row, k)
        return Measured(_part((logs, logs, reached), clusters), len(logs), len(set(clusters)), parts)

    def _order(self, number: PaperNumber, grid: Grid) -> list[Part]:
        """For each pair of rows that a number puts in order, the ratio of the smaller to the larger value."""
        k, parts, later = _k(number), [], self._grid(number.item, later=True)
        for smaller, larger in _pairs(number):
            if smaller in grid.labels and larger in grid.labels and later is not None:
                (a, clusters), (b, _) = grid.of(smaller, k), grid.of(larger, k)
                least, greatest = a - later.of(larger, k)[0], later.of(smaller, k)[0] - b
                if _REGAL.get(number.item, number.item) == "Table 3":  # a row has the bounds of those above it
                    least, greatest = np.minimum(least, 0.0), np.minimum(greatest, 0.0)
                parts.append(_part((a - b, least, greatest), clusters, f"{smaller} over {larger}", pair=True))
        return parts

    @cached_property
    def _is_regal(self) -> bool:
        """Whether the graphs of the folder are the paper's: the heuristic random-1 has the paper's means on them."""
        runs = (run for run in self._runs if run["key"] in self._study.fingerprint)
        try:
            return is_regal(heuristic_grid(run_frame(runs)))
        except InputError:  # no runs
            return False


def is_regal(grid: Grid) -> bool:
    """Whether the means of the heuristic random-1 over all graphs are within 0.01 of the paper's in each column."""
    return all(
        (grid.questions["k"] == _k(number)).any()
        and abs(float(np.exp(np.mean(grid.of(_SHOWN, _k(number))[0]))) - float(number.value)) <= _FINGERPRINT
        for number in _fingerprint_of_paper()
    )


def _fingerprint_of_paper() -> list[PaperNumber]:
    return [number for number in numbers() if number.item == "Table 4" and number.row == _SHOWN]


def _certificates(frame: pd.DataFrame) -> Grid:
    """Mean cost of BRKGA over the best of the bounds up to each row."""
    grid = heuristic_grid(frame)
    if _FOUND not in grid.labels:
        return certificate_grid(frame)
    costs = np.exp(grid.logs[grid.labels.index(_FOUND)]) * grid.questions["simple"].to_numpy()
    return certificate_grid(frame, pd.Series(costs, index=grid.questions["question"]))


_GRIDS: Mapping[str, Callable[[pd.DataFrame], Grid]] = {
    "Table 1": heuristic_grid,
    "Table 2": bound_grid,
    "Table 3": _certificates,
}


def _k(number: PaperNumber) -> int:
    return int(number.column.removesuffix(" solved").removeprefix("k="))


def _pairs(number: PaperNumber) -> list[tuple[str, str]]:
    """(smaller, larger) rows that the paper puts in order: the number's row and those with the next larger number.

    A bound above 1 in Table 2 is also larger than *simple*.
    """
    column = [entry for entry in numbers() if entry[:2] == number[:2] and entry.column == number.column]
    value = Decimal(number.value)
    larger = [entry for entry in column if Decimal(entry.value) > value]
    least = min((Decimal(entry.value) for entry in larger), default=value)
    pairs = [(number.row, entry.row) for entry in larger if Decimal(entry.value) == least]
    is_bound = _REGAL.get(number.item, number.item) == "Table 2"
    return [*pairs, ("simple", number.row)] if is_bound and value > 1 else pairs


def _part(
    logs: tuple[np.ndarray, np.ndarray, np.ndarray], clusters: list[str], text: str = "", *, pair: bool = False
) -> Part:
    """Geometric mean of ratios with its interval.

    `logs` are the logarithms as measured, and the least and the most that they could be; `pair` adds a paired test.
    """

    def part(logs: np.ndarray, ends: Sequence[Part] = ()) -> Part:
        test = paired_test(logs, clusters) if pair else None
        return Part.of(means(logs, clusters), _exponential, text, test=test, ends=ends)

    measured, least, greatest = logs
    return part(measured, () if np.array_equal(least, greatest, equal_nan=True) else (part(least), part(greatest)))


def _exponential(logarithm: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(logarithm))
