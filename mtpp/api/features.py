"""Measures of graphs that say which bounds close where: `features`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from instances import ComputationGraph, Instance, Platform
from instances.errors import WordError
from instances.graph.views import depths
from instances.partitioning.symmetry import families, reduce_instance
from mtpp.api.comparison import questions_of
from mtpp.questions.partitioning import PlatformWords
from mtpp.questions.words import GraphLike, takes_words

if TYPE_CHECKING:
    import pandas as pd


@takes_words(PlatformWords)
def features(
    graphs: GraphLike | Iterable[GraphLike] | Mapping[str, GraphLike],
    k: int | Iterable[int] | str | None = None,
    most_ideals: int = 100_000,
    **words: Unpack[PlatformWords],
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
        If a graph or a word is refused.

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


def _ideals(graph: ComputationGraph, width: int, most: int) -> int | None:
    """The number of ideals, None beyond `most`; each set of nodes of an antichain makes another one."""
    from mtpp_models.bounds.ideals.ideals import count_ideals

    return None if width > math.log2(most) else count_ideals(Instance(graph, Platform(1, math.inf)), most)
