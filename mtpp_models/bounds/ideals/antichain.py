"""Width of a graph: a quick sign that it has too many ideals to list.

Each set of nodes of which none reaches another has the predecessors of its members in an ideal of its own: w such nodes
make :math:`2^w` ideals.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from instances import ComputationGraph
from instances.graph.layers import depths
from mtpp_models.cuts.max_flow import reachability

__all__ = ["antichain"]

# Of larger graphs, and where paths connect more pairs of nodes than these, in number and as a part of all pairs, the
# matching would take longer than a listing that comes to its limit.
_MOST_MATCHED, _MANY_PAIRS, _MOST_PAIRS = 400, 2_000, 0.7


def antichain(graph: ComputationGraph) -> int:
    """A number of nodes of which none reaches another.

    That is the most there are, by Dilworth's theorem the least number of chains that cover the nodes. Of graphs of more
    than 400 nodes, and of those where most nodes follow one another, it is the most with a longest path of equal length
    from the sources.

    Examples
    --------
    >>> antichain(ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3)], work=[1, 1, 1, 1], output_bytes=[1, 1, 1, 1]))
    2
    """
    if graph.n <= _MOST_MATCHED:
        reach = reachability(*graph.successors, graph.topological_order)
        np.fill_diagonal(reach, False)
        if reach.sum() <= max(_MANY_PAIRS, _MOST_PAIRS * graph.n * (graph.n - 1) / 2):
            return int((maximum_bipartite_matching(csr_array(reach), perm_type="column") < 0).sum())
    return int(np.bincount(depths(graph.topological_order, *graph.predecessors)).max())
