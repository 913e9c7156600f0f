"""Comparison of methods, and whether they differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from heuristics import Method
from instances import ComputationGraph, InputError, Instance, Platform
from instances.errors import WordError, check_one_of
from instances.graph.views import depths
from instances.json_files import check_folder
from instances.partitioning.symmetry import families, reduce_instance
from instances.suites import is_suite
from mtpp.questions.partitioning import (
    Blocks,
    CompareWords,
    FeatureWords,
    KindWords,
    PartitioningWords,
    PlatformWords,
    counts_of,
    instances_of,
)
from mtpp.questions.suites import load_targets
from mtpp.questions.words import GraphLike, budgets_of, checked, path_of, pick, seeds_of, solve_options, takes_words
from mtpp.runs.workers import is_worker
from mtpp.text.numbers import parse_names

if TYPE_CHECKING:
    import pandas as pd

    from mtpp.runs.hunting import Hunt
    from mtpp_models.registry import Model

# Whether methods differ: `significance`.


#: Columns that hold one number for each run, and whether less is better.
_VALUES = {"bottleneck": True, "ratio": True, "seconds": True, "bound": False}
_VALUES |= {"primal_integral": True, "gap_integral": True}
_COLUMNS = (
    *("first", "second", "ratio", "low", "high", "p", "holm", "better"),
    *("wins", "ties", "losses", "questions", "clusters"),
)


def significance(frame: pd.DataFrame, value: str = "bottleneck", cluster: str | None = None) -> pd.DataFrame:
    """Compare every two methods of a frame of `mtpp.compare`, and say which differences are more than chance.

    A difference counts where 1 is outside of the 95 % interval of the ratio, and p, corrected for the number of pairs,
    is below 0.05. Graphs of one network are one cluster; with fewer than 8 clusters nothing is told apart.

    Parameters
    ----------
    frame : DataFrame
        With the columns graph, k, method, solver and that of `value`; several seeds of a method are averaged.
    value : str
        Column to compare: "bottleneck", "ratio", "seconds", "primal_integral" or "gap_integral", where less is better,
        or "bound", where more is.
    cluster : str, optional
        Column with the network of a graph. By default the column "cluster" if there is one, else the name of the graph
        without "-layer" and "-training".

    Returns
    -------
    DataFrame
        A row for each two methods. `ratio` is the geometric mean of first over second over the questions (graph and k)
        that both answered, `low` and `high` its 95 % interval; `p` is that of Wilcoxon's signed-rank test on the
        means of the clusters (zeros as Pratt), `holm` its correction (Holm); `better` the better method, missing where
        they cannot be told apart; `wins`, `ties` and `losses` count questions, for the first method; `questions` and
        `clusters` are what this rests on.

    Raises
    ------
    InputError
        If a column is missing, or `value` is none of these.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [(f"g{i}", 2, m, None, c + i % 3) for i in range(12) for m, c in (("a", 10.0), ("b", 11.0))]
    >>> frame = pd.DataFrame(rows, columns=["graph", "k", "method", "solver", "bottleneck"])
    >>> significance(frame)[["first", "second", "better", "wins", "clusters"]].values.tolist()
    [['a', 'b', 'a', 12, 12]]
    """
    import numpy as np
    import pandas as pd

    from mtpp.runs.statistics import cluster_of, compare_pairs

    _check(frame, value, cluster)
    rows = frame.copy()
    if cluster is None and "cluster" not in rows:
        rows["cluster"] = rows["graph"].map(cluster_of)
    rows["label"] = _labels(rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        rows["log"] = np.log(rows[value].to_numpy(dtype=float))
    grid = rows.pivot_table(index=["graph", "k"], columns="label", values="log", aggfunc="mean", sort=False)
    networks = rows.drop_duplicates(["graph", "k"]).set_index(["graph", "k"])[cluster or "cluster"]
    columns = {str(name): np.exp(grid[name].to_numpy()) for name in dict.fromkeys(rows["label"]) if name in grid}
    if len(columns) < 2:
        raise InputError("There are no two methods with values to compare; give a frame of two methods at least.")
    less_is_better = _VALUES[value]
    made = []
    for pair in compare_pairs(columns, networks.reindex(grid.index).tolist()):
        better = None
        if pair.is_significant:
            better = pair.first if (pair.ratio < 1) == less_is_better else pair.second
        wins, losses = (pair.less, pair.more) if less_is_better else (pair.more, pair.less)
        made.append((*pair[:7], better, wins, pair.ties, losses, pair.questions, pair.clusters))
    return pd.DataFrame(made, columns=list(_COLUMNS))


def _check(frame: Any, value: str, cluster: str | None) -> None:
    check_one_of("value", value, _VALUES)
    needed = ("graph", "k", "method", value, *([cluster] if cluster else []))
    for name in needed:
        if name not in getattr(frame, "columns", ()):
            raise InputError(f"The frame has no column {name!r}; give one of mtpp.compare.")


def _labels(rows: pd.DataFrame) -> pd.Series[str]:
    """Names of methods, with their solver if a method ran with several."""
    method = rows["method"].astype(str)
    if "solver" not in rows:
        return method
    several = rows.groupby("method")["solver"].transform("nunique") > 1
    return method.where(~several, method + " " + rows["solver"].astype(str))


# Methods side by side: `compare`.


#: A name, a function or a model.
OneMethod: TypeAlias = "str | Callable[..., Any] | Method[Any, Any] | Model"
#: One of them, or several side by side.
Methods: TypeAlias = "OneMethod | Iterable[OneMethod]"


@takes_words(CompareWords)
def compare(
    graphs: GraphLike | Iterable[GraphLike] | Mapping[str, GraphLike],
    k: Blocks,
    methods: Methods,
    solvers: str | Iterable[str] = ("highs",),
    **words: Unpack[CompareWords],
) -> pd.DataFrame:
    """Run every method on every graph, and return one frame with a row for each run.

    Parameters
    ----------
    graphs : graph, iterable of graphs, or mapping of names to graphs
        A graph is what `mtpp.load` takes, a suite (``mtpp list suites``), a folder of graph files, or an `Instance`.
        Graphs of the same name are numbered.
    k : int, iterable of int, or text such as "2,4,8"
    methods : text such as "portfolio,exact", function, or iterable of these
        Names of `mtpp.HEURISTICS` and `mtpp.MODELS`, and "certify"; with +all strengthened, with :lp the linear
        relaxation, whose bound is its value, less the tolerance of the solver, also where *simple* is more. A bound
        starts from the best partition of the heuristics. One of your own is a function of an instance, a generator and
        `Limits` that returns a `Partition`, a `Formulation` or an `Algorithm`, or says where that is: "mine.py:NAME" or
        "package.module:NAME". It runs in a process of its own, its cost is computed anew, its bound is only stated.
    solvers : iterable of str, or text
        Each runs the methods that need a solver.
    bandwidth, memory, activation_buffer : float or str, optional
    fit : bool
    devices : str, Machines or file, optional
        As for `mtpp.partition`, of all graphs; for graphs of a suite they state their speeds.
    dims : mapping of str to int or str, optional
        Dimensions of all graphs, which are architectures or models.
    weights : str or path, optional
        Which weights count beside a ``config.json``; suites take none.
    time_limit : float, optional
        Seconds for each bound, 60 by default. A heuristic of your own that has no budget is ended after that, too.
    seeds : int, iterable of int, or text such as "0,1,2", optional
        Seeds of the heuristics, each of which runs with every seed; by default that of `seed`.
    budgets : float, iterable of float, or text such as "1,10,60", optional
        Seconds for the heuristics without compiling, each of which runs with all of them; by default a heuristic does
        its own number of evaluations.
    gap, threads, seed, solver_options
        As for `mtpp.bound`.
    jobs : int
        Processes. With more than one, a script calls this under ``if __name__ == "__main__":``.
    scheduler : str, optional
        Address of a scheduler of dask.distributed, whose workers are used instead.
    file : str or path, optional
        File of runs (JSON Lines). The same call goes on where an earlier one stopped; failed runs are tried again.
        So are those of a method whose code has changed since.
    accept_old : bool
        Take answers from runs of version 1 of the file as well, which do not know the code that made them.

    Returns
    -------
    DataFrame
        Columns graph, cluster (the network that the graph is a variant of), n, m, k, method, solver, seed, budget,
        bottleneck, bound, ratio (bottleneck over the best bound known for that graph and k), the bound `simple`,
        seconds, cpu_seconds, primal_integral and gap_integral [s], remark ("late": more than 1.1 of the budget; "not
        repeatable": another answer when asked again) and error, the text of a failure. What is missing is NaN or None;
        `frame.to_parquet` takes it.

    Notes
    -----
    Integrals (Berthold: Measuring the impact of primal heuristics. Operations Research Letters 41, 2013) are over the
    seconds up to the end of the longest run on the graph and k. The primal gap is the part by which the best cost of a
    run by then exceeds the least one of the frame, over that cost, the gap of `gap_integral` the part of the cost that
    is not proved by then; both are 1 while cost or bound is missing, and stay constant after the end of a run.

    Raises
    ------
    InputError
        If a graph, a name or an argument is refused, before any run is made.
    WorkersLostError
        If the scheduler is lost for good; the same call goes on with `file`.

    Examples
    --------
    >>> import mtpp
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0])
    >>> frame = mtpp.compare(graph, k=2, methods=["kahn", "simple"], bandwidth=1)
    >>> frame[["method", "bottleneck", "bound", "ratio"]].values.tolist()
    [['kahn', 6.0, nan, 1.3333333333333333], ['simple', nan, 4.5, nan]]
    """
    if words["jobs"] > 1 and is_worker():
        raise InputError('jobs: a process that was started for them came here again; use if __name__ == "__main__":.')
    from mtpp.runs.statistics import compare_methods

    options = solve_options(words, words["time_limit"])
    file = words["file"]
    return compare_methods(
        questions_of(graphs, k, pick(KindWords, words)),
        methods_of(methods),
        _texts("solvers", solvers),
        options,
        None if file is None else path_of("file", file),
        words["jobs"],
        scheduler=words["scheduler"],
        seeds=seeds_of(words["seeds"]),
        budgets=budgets_of(words["budgets"]),
        accept_old=words["accept_old"],
    )


def questions_of(graphs: Any, k: Blocks, words: PlatformWords) -> list[Instance]:
    """A question for each graph and k, with unique names; an `InputError` if one is refused."""
    counts = counts_of(k)
    used: Counter[str] = Counter()
    instances: list[Instance] = []
    for name, graph in _named(graphs):
        if isinstance(graph, str | Path) and is_suite(str(graph)):
            instances += load_targets([str(graph)], counts, words)
            continue
        questions = instances_of(graph, counts, checked(PartitioningWords, words))
        label = name or questions[0].name
        used[label] += 1
        label = label if used[label] == 1 else f"{label}-{used[label]}"
        instances += [replace(instance, name=label) for instance in questions]
    return instances


def _named(graphs: Any) -> list[tuple[str | None, Any]]:
    if isinstance(graphs, str | Path | Instance | ComputationGraph) or hasattr(graphs, "edges"):
        return [(None, graphs)]
    if isinstance(graphs, Mapping):
        return [(str(name), graph) for name, graph in graphs.items()]
    return [(None, graph) for graph in _items("graphs", graphs)]


def methods_of(methods: Any) -> list[Any]:
    """Methods, which may be names, functions and models, as a list.

    Raises
    ------
    WordError
        If a method is none of these.
    """
    several = _texts("methods", methods) if isinstance(methods, str) else _items("methods", methods, single=_is_method)
    distinct: list[Any] = []
    for method in several:
        if not (isinstance(method, str) or _is_method(method)):
            raise WordError("methods", methods, f"give names, functions or models, no {type(method).__name__}.")
        if not any(method is other or (isinstance(method, str) and method == other) for other in distinct):
            distinct.append(method)
    if not distinct:
        raise WordError("methods", methods, "name one at least.")
    return distinct


def _is_method(value: Any) -> bool:
    return callable(value) or isinstance(value, Method) or hasattr(value, "prove")


def _texts(name: str, value: Any) -> list[str]:
    names = parse_names(value) if isinstance(value, str) else _items(name, value)
    for text in names:
        if not isinstance(text, str):
            raise WordError(name, value, f"give names, no {type(text).__name__}.")
    return list(dict.fromkeys(names))


def _items(name: str, value: Any, single: Callable[[Any], bool] = lambda value: False) -> list[Any]:
    if single(value):
        return [value]
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        raise WordError(name, value, "give a text such as 'a,b', or a list.")
    try:
        return list(value)
    except TypeError:  # arrays of no dimension have an iterator, too
        raise WordError(name, value, "give a text such as 'a,b', or a list.") from None


# Measures of graphs that say which bounds close where: `features`.


@takes_words(FeatureWords)
def features(
    graphs: GraphLike | Iterable[GraphLike] | Mapping[str, GraphLike],
    k: int | Iterable[int] | str | None = None,
    most_ideals: int = 100_000,
    **words: Unpack[FeatureWords],
) -> pd.DataFrame:
    """Measure graphs, as ``mtpp features``.

    Parameters
    ----------
    graphs : graph, iterable of graphs, or mapping of names to graphs
        As for `mtpp.compare`: also suites, folders and instances.
    k : int, iterable of int, or text, optional
        Numbers of blocks; a row for each.
    most_ideals : int
        More ideals than that are not counted; a count takes about two microseconds for each.
    dims : mapping of str to int or str, optional
        Dimensions of all graphs, which are architectures or models.
    weights : str or path, optional
        Which weights count beside a ``config.json``; suites take none.
    bandwidth, memory, activation_buffer, fit
        As for `mtpp.partition`.

    Returns
    -------
    DataFrame
        Columns graph, cluster (the network that it is a variant of), n, m, k; depth (nodes of the longest path) and
        width (nodes of which none reaches another; of more than 400 nodes the most at one depth); ideals (sets of nodes
        that hold what comes before each of them; missing beyond `most_ideals`); families (of equal branches);
        communication_over_work (time to send all tensors once, over the work of all nodes); heaviest_over_share (work
        of the heaviest node over an even share of k blocks); and params_over_memory (bytes of parameters over the
        memory of all devices). What needs a k or a memory that is not given is missing.

    Raises
    ------
    InputError
        If a graph or an argument is refused.

    Examples
    --------
    >>> import mtpp
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)], work=[1, 2, 3, 2])
    >>> frame = mtpp.features(graph, k=2, bandwidth=1)
    >>> frame[["depth", "width", "ideals", "heaviest_over_share"]].values.tolist()
    [[3.0, 2.0, 6.0, 0.75]]
    """
    import pandas as pd

    if not isinstance(most_ideals, int) or isinstance(most_ideals, bool) or most_ideals < 1:
        raise WordError("most_ideals", most_ideals, "give a whole number of at least 1.")
    instances = questions_of(graphs, 1 if k is None else k, words)
    return pd.DataFrame([_features(instance, most_ideals, has_k=k is not None) for instance in instances])


def _features(instance: Instance, most_ideals: int, *, has_k: bool) -> dict[str, Any]:
    from mtpp_models.bounds.ideals.lattice import antichain

    graph, ratio, width = instance.graph, instance.communication_over_work, antichain(instance.graph)
    share, memory = graph.work.sum() / instance.k, sum(kind.count * kind.memory for kind in instance.machines.kinds)
    return {
        "graph": instance.name,
        "cluster": instance.family,
        "n": graph.n,
        "m": graph.m,
        "k": instance.k if has_k else None,
        "depth": 1 + int(depths(graph.topological_order, *graph.predecessors).max()),
        "width": width,
        "ideals": _ideals(graph, width, most_ideals),
        "families": len(families(reduce_instance(instance).instance)),
        "communication_over_work": ratio if ratio is not None and math.isfinite(ratio) else None,
        "heaviest_over_share": float(graph.work.max() / share) if has_k and share > 0 else None,
        "params_over_memory": graph.parameter_total / memory if has_k and 0 < memory < math.inf else None,
    }


def _ideals(graph: ComputationGraph, width: int, limit: int) -> int | None:
    """The number of ideals, None if there are more than `limit`."""
    from mtpp_models.bounds.ideals.ideals import count_ideals

    return None if width > math.log2(limit) else count_ideals(Instance(graph, Platform(1, math.inf)), limit)


# Test of a caller's bound or heuristic: `hunt`.


def hunt(
    method: Any,
    *,
    seconds: float = 60.0,
    seed: int = 0,
    solver: str = "highs",
    out: str | PathLike[str] | None = None,
) -> Hunt:
    """Test a bound or a heuristic on small random questions against brute force, as ``mtpp hunt``.

    The questions have up to six nodes, some of them limited memory, peaks, shared parameters, side constraints and, for
    functions and models with ``kinds="any"``, devices of several kinds with memories, rates and an order. The first one
    that the method fails ends the hunt and is made small: a bound above the optimum, a partition that breaks a rule or
    has another cost, two answers to one question, a search that takes much longer than its limit, or an error.

    Parameters
    ----------
    method : str, callable, Formulation or Algorithm
        A method of your own or where it is, "mine.py:NAME" or "package.module:NAME", or a name of this project.
    seconds : float
        Time by the clock.
    seed : int
        The same seed draws the same questions.
    solver : str
        A name of `mtpp.SOLVERS`, for formulations.
    out : str or path, optional
        Folder for the counterexample: its graph, and the whole question with its optimum.

    Returns
    -------
    Hunt
        `method`, `seed`, `asked` and `refused` (counts of questions by class) and `counterexample`: None, or a record
        of `complaint`, `instance`, `optimum` and `number`. Its text is what the verb prints.

    Raises
    ------
    InputError
        If there is no such method, or an argument is refused.

    Examples
    --------
    >>> import mtpp
    >>> print(mtpp.hunt("kahn", seconds=1).counterexample)
    None
    """
    from mtpp.runs.hunting import hunt_methods

    folder = None if out is None else path_of("out", out)
    if folder is not None:
        check_folder("out", folder)
    (outcome,) = hunt_methods([method], seconds, seed, solver)
    if folder is not None and outcome.counterexample is not None:
        outcome.counterexample.save(folder, outcome.method)
    return outcome
