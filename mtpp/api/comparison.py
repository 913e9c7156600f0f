"""Methods side by side: `compare`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from instances import ComputationGraph, InputError, Instance
from instances.suites import is_suite
from mtpp.questions.partitioning import Blocks, CompareWords, PartitioningWords, counts_of, instances_of
from mtpp.questions.platforms import PlatformWords
from mtpp.questions.suites import load_targets
from mtpp.questions.words import GraphLike, checked, pick, takes_words
from mtpp.runs.workers import is_worker
from mtpp.text.parsing import parse_names
from mtpp_models import SolveOptions

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compare"]


@takes_words(CompareWords)
def compare(
    graphs: GraphLike | Iterable[GraphLike] | Mapping[str, GraphLike],
    k: Blocks,
    methods: str | Iterable[str],
    solvers: str | Iterable[str] = ("highs",),
    **words: Unpack[CompareWords],
) -> pd.DataFrame:
    """Run every method on every graph, and return one frame with a row a run.

    Parameters
    ----------
    graphs : graph, iterable of graphs, or mapping of names to graphs
        A graph is what `mtpp.load` takes, a suite (``mtpp list suites``), a folder of graph files, or an `Instance`.
        Graphs of the same name are numbered.
    k : int, iterable of int, or text such as "2,4,8"
    methods : iterable of str, or text such as "portfolio,exact"
        Names of `mtpp.HEURISTICS` and `mtpp.MODELS`, and "certify"; with -lp a relaxation, with +all strengthened. A
        bound starts from the best partition of the heuristics.
    solvers : iterable of str, or text
        Each runs the methods that need a solver.
    bandwidth, memory, activation_buffer : float or str, optional
    fit : bool
        As for `mtpp.partition`, of all graphs.
    time_limit : float, optional
        Seconds for each bound, 60 by default.
    gap, threads, seed
        As for `mtpp.bound`.
    jobs : int
        Processes. With more than one, a script calls this under ``if __name__ == "__main__":``.
    file : str or path, optional
        File of runs (JSON Lines). The same call goes on where an earlier one stopped; failed runs are tried again.

    Returns
    -------
    DataFrame
        Columns graph, n, m, k, method, solver, bottleneck, bound, ratio (bottleneck over the best bound known for that
        graph and k), seconds and error. A method that fails leaves the text of the failure in `error`.

    Raises
    ------
    InputError
        If a graph, a name or a word is refused, before any run is made.

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
    from mtpp.runs.comparison import compare_methods

    jobs, file = words["jobs"], words["file"]
    options = SolveOptions("highs", words["time_limit"], words["gap"], words["threads"], words["seed"])
    return compare_methods(
        _instances(graphs, k, pick(PlatformWords, words)),
        _names(methods),
        _names(solvers),
        options,
        None if file is None else Path(file),
        jobs,
    )


def _instances(graphs: Any, k: Blocks, words: PlatformWords) -> list[Instance]:
    counts = counts_of(k)
    used: Counter[str] = Counter()
    found: list[Instance] = []
    for name, graph in _named(graphs):
        if isinstance(graph, str | Path) and is_suite(str(graph)):
            found += load_targets([str(graph)], counts, words)
            continue
        asked = instances_of(graph, counts, checked(PartitioningWords, words))
        label = name or asked[0].name
        used[label] += 1
        label = label if used[label] == 1 else f"{label}-{used[label]}"
        found += [replace(instance, name=label) for instance in asked]
    return found


def _named(graphs: Any) -> list[tuple[str | None, Any]]:
    if isinstance(graphs, str | Path | Instance | ComputationGraph) or hasattr(graphs, "edges"):
        return [(None, graphs)]
    if isinstance(graphs, Mapping):
        return [(str(name), graph) for name, graph in graphs.items()]
    return [(None, graph) for graph in graphs]


def _names(names: str | Iterable[str]) -> list[str]:
    return parse_names(names) if isinstance(names, str) else list(dict.fromkeys(names))
