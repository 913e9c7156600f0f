"""Upper bounds: searches that answer an instance with a partition."""

from heuristics.brkga import BRKGAParameters, brkga
from heuristics.limits import Limits
from heuristics.local_search import local_search
from heuristics.orders import kahn
from heuristics.portfolio import portfolio
from heuristics.registry import HEURISTICS, Heuristic, HeuristicSpec
from heuristics.slicing import segment_costs, slice_order, slice_order_for_all_k

__all__ = [
    "HEURISTICS",
    "BRKGAParameters",
    "Heuristic",
    "HeuristicSpec",
    "Limits",
    "brkga",
    "kahn",
    "local_search",
    "portfolio",
    "segment_costs",
    "slice_order",
    "slice_order_for_all_k",
]
