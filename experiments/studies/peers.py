"""Methods of this project beside solvers and searches of other packages, each with the same time on the same questions.

Solvers solve the exact program alone, from no partition; `certify` has the same time for search and proof together.
What a package cannot take, as models beyond a limited licence, counts as no answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.studies.report import Report, Section
from heuristics import Limits, kahn, slice_order
from heuristics.orders.orders import decode
from heuristics.placement import PLACERS
from instances import Instance, Partition, Platform
from instances.architectures import ARCHITECTURES
from instances.graph.tensors import FloatArray, IntArray
from instances.machines import Machines
from instances.partitioning.peaks import KernelArrays
from instances.placement.problem import PlacementInstance
from instances.random_graphs import GRAPH_MODELS, regal_style
from mtpp.plots.profiles import plot_performance
from mtpp.runs.statistics import compare_methods, geometric_means
from mtpp_models import SolveOptions, available_solvers

#: Starts of METIS, keys of a generation, and those that are decoded at the most.
_STARTS, _KEYS, _DECODED = 200, 100, 10**8


def metis(instance: Instance, rng: np.random.Generator, limits: Limits | None = None) -> Partition:
    """Parts of equal work with few bytes between them by METIS, made acyclic.

    Parts are numbered by the mean position of their nodes in a topological order. A node with a predecessor in a later
    part moves to that part, so that all edges point forwards. The best partition of many seeds is the answer.
    """
    limits = limits or Limits()
    question = PlacementInstance(instance.graph, Machines.alike(instance.k, instance.platform.bandwidth))
    best: Partition | None = None
    for _ in range(limits.allow(_STARTS)):
        part = PLACERS["metis"].run(question, rng).device
        partition = Partition(instance, _forwards(instance, part))
        if best is None or partition.bottleneck < best.bottleneck:
            best = partition
        if limits.reached(best.bottleneck):
            break
    assert best is not None
    return best


def _forwards(instance: Instance, part: IntArray) -> IntArray:
    """(n,) blocks from unordered parts: sorted by mean position, then raised until no edge points back."""
    graph, k = instance.graph, instance.k
    place = np.empty(graph.n)
    place[graph.topological_order] = np.arange(graph.n)
    middle = np.bincount(part, place, minlength=k) / np.maximum(1, np.bincount(part, minlength=k))
    block: IntArray = np.argsort(np.argsort(middle))[part]
    edges = graph.edges
    for u, v in edges[np.argsort(place[edges[:, 0]], kind="stable")].tolist():
        block[v] = max(block[v], block[u])
    return block


def pymoo_brkga(instance: Instance, rng: np.random.Generator, limits: Limits | None = None) -> Partition:
    """Random keys by pymoo's genetic algorithm, used as priorities of Kahn's algorithm and sliced."""
    from pymoo.algorithms.soo.nonconvex.brkga import BRKGA
    from pymoo.core.problem import Problem

    limits, graph, arrays = limits or Limits(), instance.graph, KernelArrays.of(instance)

    class Keys(Problem):
        def __init__(self) -> None:
            super().__init__(n_var=graph.n, n_obj=1, xl=0.0, xu=1.0)

        def _evaluate(self, keys: FloatArray, out: dict[str, FloatArray], *_: object, **__: object) -> None:
            out["F"] = decode(np.ascontiguousarray(keys), instance.k, arrays)

    shares = {"n_elites": _KEYS // 5, "n_offsprings": _KEYS * 13 // 20, "n_mutants": _KEYS * 3 // 20}
    search = BRKGA(**shares, bias=0.7, eliminate_duplicates=False)
    decoded = limits.allow(_DECODED)
    search.setup(Keys(), termination=("n_eval", decoded), seed=int(rng.integers(2**31)), verbose=False)
    while search.has_next():
        search.next()
        if limits.reached(float(search.opt[0].F[0])):
            break
    return slice_order(instance, kahn(graph, search.opt[0].X))


#: Blocks, sizes of random graphs, networks, and seconds for each run.
BLOCKS, SIZES, NETWORKS, SECONDS = (4, 8), (60, 140), ("squeezenet", "gnmt", "densenet121"), 5.0
#: Searches of this project, and those of other packages.
SEARCHES = ("kahn", "local-search", "portfolio", metis, pymoo_brkga)
_CERTIFY, _EXACT, _SEED = "certify", "exact", 8107


def questions(*, quick: bool = False) -> list[Instance]:
    """Random graphs in the style of REGAL's at bandwidth 1, and networks of batch 1 at 25 GB/s."""
    instances = []
    for k in BLOCKS[:1] if quick else BLOCKS:
        for n in SIZES[:1] if quick else SIZES:
            instances += [Instance(regal_style(family, n, _SEED + n), Platform(k, 1.0)) for family in GRAPH_MODELS]
        networks = () if quick else NETWORKS
        instances += [Instance(ARCHITECTURES[name].build(), Platform(k, 25e9)) for name in networks]
    return instances


def peers(instances: list[Instance], seconds: float, report: Report, jobs: int) -> pd.DataFrame:
    """A frame of `mtpp.compare` with a row for each run; solvers are methods by their names."""
    options = SolveOptions(time_limit=seconds)
    words: dict[str, Any] = {"file": report.out, "jobs": jobs, "accept_old": report.accept_old}
    searches = compare_methods(instances, [*SEARCHES, _CERTIFY], ["highs"], options, budgets=[seconds], **words)
    proofs = compare_methods(instances, [_EXACT], list(available_solvers()), options, **words)
    proofs["method"] = _EXACT + ", " + proofs["solver"]
    return pd.concat([searches, proofs], ignore_index=True)


def peer_section(frame: pd.DataFrame) -> Section:
    """Table of methods: questions answered, costs over the best, bounds below the best, proofs."""
    frame = frame.assign(question=frame["graph"] + " " + frame["k"].astype(str))
    best = frame.groupby("question")["bottleneck"].min()
    bound = frame.groupby("question")["bound"].max()
    rows = []
    for method, runs in frame.groupby("method", sort=False):
        runs = runs.set_index("question")
        costs, bounds = (runs["bottleneck"] / best[runs.index]).dropna(), (bound[runs.index] / runs["bound"]).dropna()
        proved = int((runs["bound"] * (1 + 1e-6) >= runs["bottleneck"]).sum())
        rows.append(
            [
                str(method),
                f"{len(costs)} of {len(runs)}",
                _mean(costs, runs),
                "–" if bounds.empty else _mean(bounds, runs),
                "–" if bounds.empty else str(proved),
                f"{runs['cpu_seconds'].mean():.1f}",
            ]
        )
    header = ["method", "answered", "cost over the best", "best bound over its", "proved", "processor [s]"]
    note = (
        "Geometric means over the questions that a method answered, with 95 % intervals over graphs;\n"
        "the best of a question is that of all rows. Proved: cost and bound are equal."
    )
    numbers = frame.drop(columns="question")
    return Section("peers", "The same questions for the same time", header, rows, note, numbers=numbers)


def _mean(ratios: pd.Series[float], runs: pd.DataFrame) -> str:
    """Geometric mean with its interval, if there are enough graphs for one."""
    mean = geometric_means([ratios.to_numpy()], runs.loc[ratios.index, "cluster"].tolist())
    interval = "" if np.isnan(mean.low[0]) else f" [{mean.low[0]:.4f}, {mean.high[0]:.4f}]"
    return f"{mean.value[0]:.4f}{interval}"


def plot_peers(frame: pd.DataFrame) -> Mapping[str, Axes]:
    """Performance profile of the costs."""
    costs = frame.pivot_table(index=["graph", "k"], columns="method", values="bottleneck", dropna=False, sort=False)
    return {"peers": plot_performance({str(name): costs[name].to_numpy() for name in costs})}


def make_peer_tables(report: Report, jobs: int, *, quick: bool = False) -> int:
    """Make the runs that are missing, print and write the table and its picture; the exit code."""
    frame = peers(questions(quick=quick), SECONDS / 5 if quick else SECONDS, report, jobs)
    report.publish([peer_section(frame)], lambda: plot_peers(frame))
    return 0
