"""Upper bounds: searches that answer an instance with a partition."""

from pathlib import Path
from runpy import run_path

run_path(str(Path(__file__).resolve().parents[1] / "instances" / "system" / "import_guard.py"))["check_siblings"]()

from heuristics.local_search.searches import local_search, portfolio
from heuristics.method import Limits, Method
from heuristics.orders.genetic import BRKGAParameters
from heuristics.orders.orders import kahn
from heuristics.orders.searches import brkga
from heuristics.orders.slicing import segment_costs, slice_order, slice_order_for_all_k
from heuristics.registry import HEURISTICS
from heuristics.search import search

__all__ = [
    "HEURISTICS",
    "BRKGAParameters",
    "Limits",
    "Method",
    "brkga",
    "kahn",
    "local_search",
    "portfolio",
    "search",
    "segment_costs",
    "slice_order",
    "slice_order_for_all_k",
]
