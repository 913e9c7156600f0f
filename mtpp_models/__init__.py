"""Lower bounds and exact optima: declarative models, and the solvers that run them."""

from importlib import import_module
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING

run_path(str(Path(__file__).resolve().parents[1] / "instances" / "system" / "import_guard.py"))["check_siblings"]()

from mtpp_models.simple import simple

if TYPE_CHECKING:
    from mtpp_models.bounds.cuts import Algorithm
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
    from mtpp_models.registry import MODELS
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

# Where a name is found when it is asked for: most bring Pyomo along, for which a search must not wait.
_HOMES = {
    "MODELS": "registry",
    "SOLVERS": "solvers.registry",
    "Algorithm": "bounds.cuts",
    "BuiltModel": "exchange.files",
    "Case": "formulations.formulation",
    "Formulation": "formulations.formulation",
    "Progress": "solvers.interface",
    "Relaxation": "formulations.formulation",
    "CostedPlan": "planning.solve",
    "ScaledInstance": "formulations.scaled_instance",
    "Solution": "exchange.files",
    "SolveOptions": "solvers.interface",
    "SolverFaultError": "solvers.interface",
    "SolverNotAvailableError": "solvers.interface",
    "Strengthening": "formulations.strengthening",
    "available_solvers": "solvers.registry",
    "BuiltReplication": "planning.solve",
    "InfeasibleRow": "exchange.files",
    "build": "exchange.files",
    "build_replication": "planning.solve",
    "catalogue": "exchange.catalogue",
    "cases": "exchange.files",
    "explain_infeasible": "exchange.files",
    "iteration_bound": "planning.bounds",
    "read_partition": "exchange.files",
    "read_plan": "planning.solve",
    "read_solution": "exchange.files",
    "relaxation": "solve_model",
    "solve": "solve_model",
    "solve_replication": "planning.solve",
    "write_model": "exchange.files",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"mtpp_models.{_HOMES[name]}"), name)
