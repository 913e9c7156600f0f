"""Runs of the partitioning of the plan: which graphs, which jobs, and the runs of each item."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, zip_longest

import pyomo.environ as pyo

from experiments.studies.papers.plan import Row
from heuristics import HEURISTICS
from instances import Instance
from instances.deadline import Deadline
from instances.suites import SUITES, Entry, find_suite
from mtpp.runs.partition_job import PartitionJob, jobs_of
from mtpp_models import SolveOptions
from mtpp_models.solvers.interface import Controls, SolverFaultError, SolverNotAvailableError
from mtpp_models.solvers.registry import find_solver

__all__ = ["PartitionRuns", "seconds_of", "taken"]

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
            made = list(self._jobs(row))
            jobs |= {job.key: job for job in made}
            keys = {job.key: None for job in made if job.method in (*row.methods, "simple")}
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
    return name.rpartition("-")[0] if seed.isdigit() and name.rpartition("-")[2].isdigit() else entry.cluster


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
