"""``import mtpp``: load a graph, cut it, prove how good the cut is, run the stages; plan training, place a step.

The words and their defaults are those of the command line. Each name is loaded at its first use.
"""

from importlib import import_module
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING

run_path(str(Path(__file__).resolve().parents[1] / "instances" / "import_guard.py"))["check_siblings"]()

if TYPE_CHECKING:
    from heuristics import HEURISTICS
    from heuristics.placement import PLACERS
    from heuristics.planning import PLANNERS
    from instances import Bound, ComputationGraph, InputError, Instance, Partition, Platform, Result
    from instances.partitioning.constraints import Constraints
    from instances.placement.placement import Placement
    from instances.planning import Cluster, LayerChain, Plan
    from mtpp.api.comparison import compare
    from mtpp.api.least_k import least_k
    from mtpp.api.partitioning import bound, certify, partition, solve
    from mtpp.api.placement import place
    from mtpp.api.planning import plan
    from mtpp.api.stages import run, split
    from mtpp.questions.reading import load
    from mtpp_models import MODELS, SOLVERS, SolverNotAvailableError

__all__ = [
    "HEURISTICS",
    "MODELS",
    "PLACERS",
    "PLANNERS",
    "SOLVERS",
    "Bound",
    "Cluster",
    "ComputationGraph",
    "Constraints",
    "InputError",
    "Instance",
    "LayerChain",
    "Partition",
    "Placement",
    "Plan",
    "Platform",
    "Result",
    "SolverNotAvailableError",
    "bound",
    "certify",
    "compare",
    "least_k",
    "load",
    "partition",
    "place",
    "plan",
    "run",
    "solve",
    "split",
]

# Module to the names that it has.
_HOMES = {
    "heuristics": ("HEURISTICS",),
    "heuristics.placement": ("PLACERS",),
    "heuristics.planning": ("PLANNERS",),
    "instances": ("Bound", "ComputationGraph", "InputError", "Instance", "Partition", "Platform", "Result"),
    "instances.partitioning.constraints": ("Constraints",),
    "instances.placement.placement": ("Placement",),
    "instances.planning": ("Cluster", "LayerChain", "Plan"),
    "mtpp.api.comparison": ("compare",),
    "mtpp.questions.reading": ("load",),
    "mtpp.api.least_k": ("least_k",),
    "mtpp.api.partitioning": ("bound", "certify", "partition", "solve"),
    "mtpp.api.stages": ("run", "split"),
    "mtpp.api.placement": ("place",),
    "mtpp.api.planning": ("plan",),
    "mtpp_models": ("MODELS", "SOLVERS", "SolverNotAvailableError"),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
