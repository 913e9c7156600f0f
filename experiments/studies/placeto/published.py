"""Scope of ``mtpp table placeto``: repeated experiments of Placeto, their budget, and figures of the paper.

Addanki et al., NeurIPS 2019: Table 1 (seconds a step on K80 cards, and placements sampled until the best one), Section
4.3 (ablations, traversal orders).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = [
    "ABLATED",
    "ABLATED_DEVICES",
    "CELLS",
    "DESIGNS",
    "K80_MEMORY",
    "ORDERED",
    "QUICK_NETWORKS",
    "Cell",
    "NetworkBudget",
]


class Cell(NamedTuple):
    """A row of Table 1: a network, devices, and the paper's figures; None is out of memory."""

    network: str  # of `PLACEMENT_NETWORKS`
    devices: int
    single: float | None  # seconds
    scotch: float | None
    expert: float | None
    placeto: float
    recurrent: float
    placeto_samples: float  # thousands of placements until the best one
    recurrent_samples: float


CELLS = (
    Cell("inception-v3", 2, 1.56, 1.28, 1.28, 1.18, 1.17, 1.6, 7.8),
    Cell("inception-v3", 4, 1.56, 1.15, 1.22, 1.13, 1.19, 5.8, 35.8),
    Cell("nmt-2-layers", 2, None, None, None, 2.32, 2.35, 20.4, 73.0),
    Cell("nmt-4-layers", 4, None, None, None, 2.63, 3.15, 94.0, 51.7),
    Cell("nasnet-mobile", 2, 1.28, 0.86, 1.54, 0.86, 0.89, 3.5, 16.3),
    Cell("nasnet-mobile", 4, 1.28, 0.84, 1.74, 0.74, 0.76, 29.0, 37.0),
)

#: The network and devices of the traversal orders, the family and devices of the ablations.
ORDERED, ABLATED, ABLATED_DEVICES = ("inception-v3", 2), "nmt", 2
#: Arguments of the published network, and by how much the paper says that placements get slower.
DESIGNS: dict[str, tuple[dict[str, Any], float | None]] = {
    "full": ({}, 0.0),
    "partitioner": ({"rounds": 0}, 0.13),
    "aggregator": ({"rounds": 0, "pooled": False}, 0.20),
    "full, sums as they are (no h)": ({"outer": False}, None),
    "full, no start times": ({"timed": False}, None),
}
#: Bytes of a device beyond which a placement does not fit: the limit of the released code.
K80_MEMORY = 11e9


@dataclass(frozen=True)
class NetworkBudget:
    """Lengths of training and searches, in placements, so that runs repeat exactly: at most two hours on one core."""

    groups: int = 100  # of operators, of each network
    published: int = 4_000  # episodes of the published network
    fast: int = 20_000  # episodes of the policy `fast`
    recurrent: int = 40_000  # placements of the recurrent planner, and of searches
    ablation: int = 3_000  # episodes of each design
    orders: int = 64  # traversal orders to train with, and as many unseen ones
    ordered: int = 4_000  # episodes with them, and five times as many placements of the planner
    graphs: int = 16  # of a family at most, for the designs, and fresh ones where the policy is a start of the search
    moves: int = 20_000  # of that search


#: A first look, in a few minutes: enough to see that all of it runs, too little to learn much.
QUICK_NETWORKS = NetworkBudget(
    published=64, fast=640, recurrent=1_600, ablation=64, orders=4, ordered=64, graphs=2, moves=5_000
)
