"""Scope of ``mtpp table placeto``: repeated experiments of Placeto, their budget, and figures of the paper.

Addanki et al., NeurIPS 2019: Table 1 (seconds a step on K80 cards, and placements sampled until the best one), Section
4.3 (ablations, traversal orders).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from experiments.studies.papers.verdicts import value_of


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


#: Networks of the paper, and as they are called here with 2 and 4 devices.
NETWORKS = {
    "Inception-V3": ("inception-v3", "inception-v3"),
    "NMT": ("nmt-2-layers", "nmt-4-layers"),
    "NASNet": ("nasnet-mobile", "nasnet-mobile"),
}


def _cell(network: str, devices: int) -> Cell:
    name = NETWORKS[network][devices // 4]
    single = value_of("placeto", "Table 1", network, "single GPU")
    columns = ("scotch", "expert", "Placeto", "RNN", "Placeto placements sampled", "RNN placements sampled")
    row = f"{network} {devices} GPUs"
    return Cell(name, devices, single, *(value_of("placeto", "Table 1", row, column) for column in columns))  # type: ignore[arg-type]


CELLS = tuple(_cell(network, devices) for network in NETWORKS for devices in (2, 4))


def _slower(row: str, column: str) -> float | None:
    percent = value_of("placeto", "Section 4.3", row, column)
    return None if percent is None else percent / 100


#: The network and devices of the traversal orders, the family and devices of the ablations.
ORDERED, ABLATED, ABLATED_DEVICES = ("inception-v3", 2), "nmt", 2
#: Arguments of the published network and its training, and by how much the paper says that placements get slower.
DESIGNS: dict[str, tuple[dict[str, Any], float | None]] = {
    "full": ({}, 0.0),
    "partitioner": ({"rounds": 0}, _slower("simple partitioner against Placeto", "slower on average")),
    "aggregator": (
        {"rounds": 0, "pooled": False},
        _slower("simple aggregator against Placeto", "worse on average, about"),
    ),
    "full, sums as they are (no h)": ({"outer": False}, None),
    "full, no start times": ({"timed": False}, None),
    "full, reward at the end": ({"reward": "terminal"}, None),
}
#: Bytes of a device beyond which a placement does not fit: the limit of the released code.
K80_MEMORY = 11e9


@dataclass(frozen=True)
class NetworkBudget:
    """Lengths of training and searches, in placements, so that runs repeat exactly: at most two hours on one core."""

    groups: int = 100  # of operators, of each network
    published: int = 4_000  # episodes of the published network
    recurrent: int = 40_000  # placements of the recurrent planner, and of searches
    ablation: int = 3_000  # episodes of each design
    orders: int = 64  # traversal orders to train with, and as many unseen ones
    ordered: int = 4_000  # episodes with them, and five times as many placements of the planner
    graphs: int = 16  # of a family at most, for the designs


#: A first look, in a few minutes: enough to see that all of it runs, too little to learn much.
QUICK_NETWORKS = NetworkBudget(published=64, recurrent=1_600, ablation=64, orders=4, ordered=64, graphs=2)
