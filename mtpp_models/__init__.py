"""Lower bounds and exact optima: declarative models, and the solvers that run them."""

from importlib import import_module
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING

run_path(str(Path(__file__).resolve().parents[1] / "instances" / "system" / "import_guard.py"))["check_siblings"]()

from mtpp_models.simple import simple

if TYPE_CHECKING:
    from mtpp_models.exchange.catalogue import catalogue
    from mtpp_models.exchange.files import (
        BuiltModel,
        InfeasibleRow,
        Solution,
        build,
        cases,
        explain_infeasible,
        read_partition,
        read_solution,
        write_model,
    )
    from mtpp_models.formulations.formulation import Case, Formulation, Relaxation
    from mtpp_models.formulations.scaled_instance import ScaledInstance
    from mtpp_models.formulations.strengthening import Strengthening
    from mtpp_models.planning.bounds import iteration_bound
    from mtpp_models.planning.solve import BuiltReplication, CostedPlan, build_replication, read_plan, solve_replication
    from mtpp_models.registry import MODELS, Algorithm
    from mtpp_models.solve_model import relaxation, solve
    from mtpp_models.solvers.interface import Progress, SolveOptions, SolverFaultError, SolverNotAvailableError
    from mtpp_models.solvers.registry import SOLVERS, available_solvers

__all__ = [
    "MODELS",
    "SOLVERS",
    "Algorithm",
    "BuiltModel",
    "BuiltReplication",
    "Case",
    "CostedPlan",
    "Formulation",
    "InfeasibleRow",
    "Progress",
    "Relaxation",
    "ScaledInstance",
    "Solution",
    "SolveOptions",
    "SolverFaultError",
    "SolverNotAvailableError",
    "Strengthening",
    "available_solvers",
    "build",
    "build_replication",
    "cases",
    "catalogue",
    "explain_infeasible",
    "iteration_bound",
    "read_partition",
    "read_plan",
    "read_solution",
    "relaxation",
    "simple",
    "solve",
    "solve_replication",
    "write_model",
]

# Module to the names that it has, found when asked for: most bring Pyomo along, for which a search must not wait.
_HOMES = {
    "exchange.catalogue": "catalogue",
    "exchange.files": "BuiltModel InfeasibleRow Solution build "
    "cases explain_infeasible read_partition read_solution write_model",
    "formulations.formulation": "Case Formulation Relaxation",
    "formulations.scaled_instance": "ScaledInstance",
    "formulations.strengthening": "Strengthening",
    "planning.bounds": "iteration_bound",
    "planning.solve": "BuiltReplication CostedPlan build_replication read_plan solve_replication",
    "registry": "MODELS Algorithm",
    "solve_model": "relaxation solve",
    "solvers.interface": "Progress SolveOptions SolverFaultError SolverNotAvailableError",
    "solvers.registry": "SOLVERS available_solvers",
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"mtpp_models.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
