"""``import mtpp``: load a graph, cut it, prove how good the cut is, run the stages; plan training, place a step.

Words and defaults are those of the command line. Each name is loaded when it is asked for.
"""

from importlib import import_module
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING

run_path(str(Path(__file__).resolve().parents[1] / "instances" / "system" / "import_guard.py"))["check_siblings"]()

if TYPE_CHECKING:
    from heuristics import HEURISTICS
    from heuristics.placement import PLACERS
    from heuristics.planning import PLANNERS
    from instances import Bound, ComputationGraph, InputError, Instance, Partition, Platform, Result
    from instances.errors import WordError
    from instances.flow.problem import FlowInstance
    from instances.machines import Kind, Machines
    from instances.partitioning.constraints import Constraints
    from instances.placement.placement import Placement
    from instances.planning import Cluster, LayerChain, Plan
    from mtpp.api.answers import explain, export, read, report
    from mtpp.api.comparison import compare, features, hunt, significance
    from mtpp.api.partitioning import bound, certify, least_k, partition, relaxation, solve
    from mtpp.api.planning import flow, place, plan, serve
    from mtpp.api.stages import run, split
    from mtpp.api.training import calibrate, train
    from mtpp.api.verification import check, verify
    from mtpp.plots.profiles import plot_trace
    from mtpp.questions.reading import load
    from mtpp_models import MODELS, SOLVERS, SolverFaultError, SolverNotAvailableError, write_model

    __version__: str

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
    "FlowInstance",
    "InputError",
    "Instance",
    "Kind",
    "LayerChain",
    "Machines",
    "Partition",
    "Placement",
    "Plan",
    "Platform",
    "Result",
    "SolverFaultError",
    "SolverNotAvailableError",
    "WordError",
    "__version__",
    "bound",
    "calibrate",
    "certify",
    "check",
    "compare",
    "explain",
    "export",
    "features",
    "flow",
    "hunt",
    "least_k",
    "load",
    "partition",
    "place",
    "plan",
    "plot_trace",
    "read",
    "relaxation",
    "report",
    "run",
    "serve",
    "significance",
    "solve",
    "split",
    "train",
    "verify",
    "write_model",
]

# Module to the names that it has.
_HOMES = {
    "heuristics": "HEURISTICS",
    "heuristics.placement": "PLACERS",
    "heuristics.planning": "PLANNERS",
    "instances": "Bound ComputationGraph InputError Instance Partition Platform Result",
    "instances.errors": "WordError",
    "instances.flow.problem": "FlowInstance",
    "instances.machines": "Kind Machines",
    "instances.partitioning.constraints": "Constraints",
    "instances.placement.placement": "Placement",
    "instances.planning": "Cluster LayerChain Plan",
    "mtpp.api.answers": "explain export read report",
    "mtpp.api.comparison": "compare features hunt significance",
    "mtpp.api.partitioning": "bound certify least_k partition relaxation solve",
    "mtpp.api.planning": "flow place plan serve",
    "mtpp.api.training": "calibrate train",
    "mtpp.api.stages": "run split",
    "mtpp.api.verification": "check verify",
    "mtpp.plots.profiles": "plot_trace",
    "mtpp.questions.reading": "load",
    "mtpp_models": "MODELS SOLVERS SolverFaultError SolverNotAvailableError write_model",
}


if not TYPE_CHECKING:  # or type checkers would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from mtpp.versions import package_version

            return package_version() or "0"
        for module, names in _HOMES.items():
            if name in names.split():
                return getattr(import_module(module), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
