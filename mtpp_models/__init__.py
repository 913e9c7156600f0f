"""Lower bounds and exact optima: declarative models, and the solvers that run them."""

from mtpp_models.export import write_model
from mtpp_models.formulations.formulation import Algorithm, Case, Formulation, ScaledInstance
from mtpp_models.formulations.parts import Strengthening
from mtpp_models.planning.guarantees import iteration_bound
from mtpp_models.planning.solve import CostedPlan, solve_replication
from mtpp_models.registry import MODELS
from mtpp_models.simple import simple
from mtpp_models.solve import Progress, solve
from mtpp_models.solvers.interface import SolveOptions, SolverFaultError, SolverNotAvailableError
from mtpp_models.solvers.registry import SOLVERS, available_solvers

__all__ = [
    "MODELS",
    "SOLVERS",
    "Algorithm",
    "Case",
    "CostedPlan",
    "Formulation",
    "Progress",
    "ScaledInstance",
    "SolveOptions",
    "SolverFaultError",
    "SolverNotAvailableError",
    "Strengthening",
    "available_solvers",
    "iteration_bound",
    "simple",
    "solve",
    "solve_replication",
    "write_model",
]
