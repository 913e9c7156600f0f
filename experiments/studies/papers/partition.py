"""The paper on partitions: its numbers beside ours."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache, cached_property
from itertools import chain, zip_longest

import numpy as np
import pandas as pd
import pyomo.environ as pyo

from experiments.studies.mtpp.tables import (
    Grid,
    Table,
    bound_grid,
    certificate_grid,
    heuristic_grid,
    run_frame,
    table_of,
)
from experiments.studies.papers.plan import Row
from experiments.studies.papers.verdicts import (
    Comparison,
    Measured,
    Open,
    PaperNumber,
    Part,
    comparison,
    numbers,
    percent_above,
)
from heuristics import HEURISTICS
from instances import InputError, Instance
from instances.deadline import Deadline
from instances.suites import SUITES, Entry, find_suite
from mtpp.runs.log import Run
from mtpp.runs.partition_job import PartitionJob, jobs_of
from mtpp.runs.statistics import means
from mtpp_models import SolveOptions
from mtpp_models.solvers.interface import Controls, SolverFaultError, SolverNotAvailableError
from mtpp_models.solvers.registry import find_solver

# Runs of the partitioning of the plan: which graphs, which jobs, and the runs of each item.


#: Variables that a solver must be able to take; free licences of some take fewer.
_LICENSED = 2100
#: Seconds of an order of 100 nodes, and of searches that do not count them.
_ORDERS, _OTHERS = 1.1e-4, {"mla": 0.3, "local-search": 3.0, "multilevel": 2.0, "portfolio": 4.0}


class PartitionRuns:
    """Jobs of rows, and the keys of each item's.

    Parameters
    ----------
    rows : sequence of Row
        Those of partition.
    regal : str, optional
        Folder of REGAL's test graphs; without it graphs in their style stand in.
    profile : str, optional
        Name of the profile of the plan, which the runs keep.

    Attributes
    ----------
    jobs : list of PartitionJob
        All different ones.
    left_out : list of str
        What is not run, and why.
    rows : sequence of Row

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
        self.jobs = list(jobs.values())

    def keys(self, item: str) -> set[str]:
        """Keys of the runs that an item rests on."""
        return set(self._keys.get(item, ()))

    def _jobs(self, row: Row) -> Iterator[PartitionJob]:
        questions = _questions(self._suite(row), row.take, row.k)
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

    def _suite(self, row: Row) -> str:
        if row.graphs == "networks":
            return "real" if row.take <= len(SUITES["real"].entries) else "networks"
        return f"regal-style:{row.take}" if self._regal is None else f"regal:{self._regal}"


def seconds_of(job: PartitionJob) -> float:
    """Seconds of a job at most; those of searches are estimated."""
    if job.method not in HEURISTICS:
        return job.options.time_limit or 0.0
    _, _, orders = job.method.rpartition("-")
    at_100 = _ORDERS * int(orders) if orders.isdigit() else _OTHERS.get(job.method, _OTHERS["mla"])
    return at_100 * job.instance.graph.n / 100


def taken(entries: Iterable[Entry], count: int) -> list[Entry]:
    """The first of a shuffle that never changes, equal shares of each family, or of each network."""
    families: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: hashlib.sha256(entry.name.encode()).digest()):
        families.setdefault(_family(entry), []).append(entry)
    return [entry for entry in chain(*zip_longest(*families.values())) if entry is not None][:count]


def _family(entry: Entry) -> str:
    """Kind of random graph, or network."""
    name, _, seed = entry.name.rpartition("-")
    return name.rpartition("-")[0] if seed.isdigit() and name.rpartition("-")[2].isdigit() else entry.family


@cache
def _questions(suite: str, count: int, ks: tuple[int, ...]) -> list[Instance]:
    """Questions about the first graphs; one that cannot be had is an `InputWarning`."""
    whole = find_suite(suite)
    chosen = replace(whole, entries=tuple(taken(whole.entries, count)))
    graphs = [(entry, graph) for entry, graph in chosen.graphs() if graph is not None]
    return [entry.question(graph, entry.platform(k)) for entry, graph in graphs for k in ks]


@cache
def _is_there(solver: str) -> bool:
    """Whether a solver is installed, and its licence is for models of some size."""
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
#: Blocks up to which graphs in REGAL's style resemble REGAL's.
_ALIKE = 8
#: How near random-1 must come to the paper's in every column, if a folder of graphs is to be REGAL's.
_FINGERPRINT = 0.01


class PartitionMeasures:
    """Grids of the items of MTPP, and what they say of its numbers.

    Parameters
    ----------
    study : PartitionRuns
    runs : sequence of Run
        All that its jobs made.
    regal : bool
        Whether the graphs of Tables 4 to 6 are read from a folder of REGAL's.
    """

    def __init__(self, study: PartitionRuns, runs: Sequence[Run], regal: bool) -> None:
        self._study, self._runs, self._regal = study, runs, regal
        self._grids: dict[str, Grid | None] = {}
        self._frames: dict[str, pd.DataFrame] = {}

    def comparison_of(self, number: PaperNumber) -> Comparison:
        """Comparison that a number allows, with the graphs that are there."""
        stated = comparison(number)
        if number.item not in _REGAL or stated.comparable != "same":
            return stated
        if self._regal and self._is_regal:
            return stated
        if self._regal:
            return replace(stated, comparable="no", why="the graphs of the folder are read in another way than REGAL's")
        if _k(number) > _ALIKE:
            return replace(stated, comparable="no", why="graphs in REGAL's style differ from its own for k ≥ 16")
        kind = "at most" if number.item == "Table 6" else "order"
        why = "own graphs in REGAL's style: " + (
            "whether the ratio is no larger" if kind == "at most" else "only the order of rows"
        )
        return Comparison("shape", kind, Decimal(0), False, why)

    def measured(self, number: PaperNumber) -> Measured | None:
        """Measure for a number; None if nothing is measured for it."""
        kind = _REGAL.get(number.item, number.item)
        if number.paper != "mtpp" or (kind not in _TABLES and number.item not in ("Abstract", "Section 1.1")):
            return None
        if kind not in _TABLES:
            return self._sentence(number)
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
        """A table an item that was run, with the numbers of the paper beside."""
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
        """Runs of an item."""
        if item not in self._frames:
            keys = self._study.keys(item)
            self._frames[item] = run_frame(run for run in self._runs if run["key"] in keys)
        return self._frames[item]

    def _grid(self, item: str) -> Grid | None:
        if item not in self._grids:
            try:
                frame = self.frame(item)
            except InputError:  # no runs
                self._grids[item] = None
                return None
            self._grids[item] = _GRIDS[_REGAL.get(item, item)](frame)
        return self._grids[item]

    def _cell(self, item: str, row: str, k: int, parts: Sequence[Part] | None = None) -> Measured:
        grid = self._grid(item)
        if grid is None or row not in grid.labels or not (grid.questions["k"] == k).any():
            return Measured(None, note="not run in this profile")
        logs, clusters = grid.of(row, k)
        mean = means(logs, clusters)
        part = _part(logs, clusters, open=self._open(item, row, k))
        return Measured(part, mean.graphs, mean.clusters, parts)

    def _open(self, item: str, row: str, k: int) -> Open:
        """Direction in which more time would move a cell: bounds that stopped early may still grow."""
        kind, rows = _REGAL.get(item, item), [row]
        if kind == "Table 1":
            return ""
        grid = self._grid(item)
        if kind == "Table 3" and grid is not None:
            rows = grid.labels[: grid.labels.index(row) + 1]
        if any(self._hurried(item, label, k) for label in rows):
            return "low" if kind == "Table 3" else "high"
        return ""

    def _hurried(self, item: str, method: str, k: int) -> bool:
        limits = [
            (row.limit, row.paper_limit) for row in self._study.rows if item in row.items and method in row.methods
        ]
        if not any(limit is not None and paper is not None and limit < paper for limit, paper in limits):
            return False
        frame = self.frame(item)
        runs = frame[(frame["method"] == method) & (frame["k"] == k)]
        return not bool(runs["optimal"].eq(True).all())

    def _order(self, number: PaperNumber, grid: Grid) -> list[Part]:
        """Ratios of the number's row to the next larger one of the paper's column; of bounds, to *simple* as well."""
        k, parts = _k(number), []
        for less, more in _neighbours(number):
            if less in grid.labels and more in grid.labels:
                (a, clusters), (b, _) = grid.of(less, k), grid.of(more, k)
                opened = [side for row, side in ((less, "high"), (more, "low")) if self._open(number.item, row, k)]
                side: Open = "both" if len(opened) == 2 else opened[0] if opened else ""  # type: ignore[assignment]
                parts.append(_part(a - b, clusters, f"{less} over {more}", side))
        if _REGAL.get(number.item, number.item) == "Table 2" and Decimal(number.value) > 1:
            logs, clusters = grid.of(number.row, k)
            side = "low" if self._open(number.item, number.row, k) else ""
            parts.append(_part(-logs, clusters, f"simple over {number.row}", side))
        return parts

    def _sentence(self, number: PaperNumber) -> Measured:
        """Sentences on all graphs; their k, lost in our copy, is taken from the tables that they agree with."""
        if number.item == "Abstract":
            grid = self._grid("Table 2")
            ks = [] if grid is None else sorted(grid.questions["k"].unique())
            cells = [(k, self._cell("Table 2", "exact", int(k))) for k in ks]
            measured = [(k, cell) for k, cell in cells if cell.part is not None]
            if not measured:
                return Measured(None, note="not run in this profile")
            k, cell = max(measured, key=lambda pair: pair[1].part.value if pair[1].part else 0.0)
            return replace(cell, note=f"exact over simple, largest at k = {k}")
        row = "exact" if number.column.startswith("above") else "simple"
        cell = self._cell("Table 3", row, 16)
        if row == "simple" or cell.part is None:
            return cell
        part = cell.part
        return replace(
            cell,
            part=replace(
                part, value=percent_above(part.value), low=percent_above(part.low), high=percent_above(part.high)
            ),
        )

    @cached_property
    def _is_regal(self) -> bool:
        """Whether random-1 is within 0.01 of the paper in every column."""
        wanted = [number for number in numbers() if number.item == "Table 4" and number.row == "random-1"]
        cells = [(number, self._cell("Table 4", number.row, _k(number)).part) for number in wanted]
        return all(part is not None and abs(part.value - float(number.value)) <= _FINGERPRINT for number, part in cells)


def _certificates(frame: pd.DataFrame) -> Grid:
    """BRKGA's partitions, means over seeds, over the best bound of a row and those above."""
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


def _neighbours(number: PaperNumber) -> list[tuple[str, str]]:
    """Pairs of rows in the order of the paper's column: the number's with the next larger, or the next smaller one."""
    column = [entry for entry in numbers() if entry[:2] == number[:2] and entry.column == number.column]
    value = Decimal(number.value)
    larger = [entry for entry in column if Decimal(entry.value) > value]
    if larger:
        least = min(Decimal(entry.value) for entry in larger)
        return [(number.row, entry.row) for entry in larger if Decimal(entry.value) == least]
    smaller = [entry for entry in column if Decimal(entry.value) < value]
    largest = max((Decimal(entry.value) for entry in smaller), default=None)
    return [(entry.row, number.row) for entry in smaller if Decimal(entry.value) == largest]


def _part(logs: np.ndarray, clusters: list[str], text: str = "", open: Open = "") -> Part:
    """Geometric mean of ratios, with its interval."""
    with np.errstate(over="ignore"):
        return Part.of(means(logs, clusters), lambda end: float(np.exp(end)), text, open)
