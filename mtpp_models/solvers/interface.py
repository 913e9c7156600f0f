"""Interface of all solvers: their controls, and their outcome."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from instances import InputError
from instances.deadline import Deadline
from instances.errors import word

# Seconds that a solver is always given.
_SHORTEST = 0.01
_MOST_THREADS = 64


class SolverNotAvailableError(Exception):
    """Solver that cannot be used here; the message is one line that says what to install or to choose."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))  # a solver may have printed anything


class SolverFaultError(SolverNotAvailableError):
    """Solver that runs, but failed or contradicts itself: none of its answers for this model counts.

    Parameters
    ----------
    solver : str
    symptom : str
        What it did, without a full stop.
    """

    def __init__(self, solver: str, symptom: str) -> None:
        super().__init__(f"Solver {solver} {symptom}; choose another {word('solver')}.")


class Termination(Enum):
    """Reason why a solver stopped."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    STOPPED = "stopped"


@dataclass(frozen=True)
class SolveOptions:
    """Options for the solution of a model, as the user gives them.

    Parameters
    ----------
    solver : str
        See `SOLVERS`.
    time_limit : float, optional
        Seconds of wall time; None lets every method run to its end.
    gap : float
        Relative gap that is good enough.
    threads : int
        Of the solver, and of the trees of prices. Of several, `certify` gives one to a search in a process of its own,
        beside the proofs.
    seed : int

    Raises
    ------
    InputError
        If a value is out of its range.
    """

    solver: str = "highs"
    time_limit: float | None = None
    gap: float = 0.0
    threads: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.time_limit is not None and not 0 < self.time_limit < math.inf:
            raise InputError(f"The time limit is {self.time_limit}; it must be positive and finite.")
        if not 0 <= self.gap < 1:
            raise InputError(f"The gap is {self.gap}; it must be at least 0 and below 1.")
        if not 1 <= self.threads <= _MOST_THREADS:
            raise InputError(f"There are {self.threads} threads; use 1 to {_MOST_THREADS}.")
        if not 0 <= self.seed < 2**31:
            raise InputError(f"The seed is {self.seed}; it must be at least 0 and below 2^31.")


@dataclass(frozen=True)
class Progress:
    """A moment of a running solve, in the time unit of the instance.

    Parameters
    ----------
    case : str
        The case that is being solved.
    seconds : float
        Since the case was started.
    incumbent, bound : float, optional
        Objective of the best solution of the case and its dual bound, as the solver states them.
    nodes : int, optional
        Branch-and-bound nodes.
    """

    case: str
    seconds: float
    incumbent: float | None
    bound: float | None
    nodes: int | None


@dataclass(frozen=True)
class Controls:
    """Controls of one run of a solver."""

    options: SolveOptions = SolveOptions()  # a solver takes gap, threads and seed from it; its time ends at `deadline`
    deadline: Deadline = field(default_factory=Deadline)
    tolerance: float = 1e-7  # feasibility and integrality tolerance where the solver lets it be chosen
    report: Callable[[Progress], None] = lambda moment: None  # called now and then
    # Receives the linear relaxation, which is solved in place of the model; None if that is not asked for.
    relaxation: Callable[[Any], None] | None = None
    known: float = 0.0  # a lower bound that others state; it says where to begin, and nothing rests on it
    improves: bool = True  # whether a solver that can tell the two apart shall search beside its proof

    @property
    def time_limit(self) -> float | None:
        """Seconds that are left, and always a few; None without a limit."""
        remaining = self.deadline.time_limit
        return None if remaining is None else max(_SHORTEST, remaining)

    def of_case(self, case: str, unit: float) -> Controls:
        """Controls of one case, whose solver reports in multiples of `unit`."""

        def report(moment: Progress) -> None:
            incumbent, bound = (None if x is None else x * unit for x in (moment.incumbent, moment.bound))
            self.report(replace(moment, case=case, incumbent=incumbent, bound=bound))

        return replace(self, report=report)


@dataclass(frozen=True)
class SolverOutcome:
    """Answer of a solver."""

    termination: Termination
    bound: float | None = None  # proved dual bound as the solver states it; None if it has none
    # Objective of the solution that is left in the variables of the model; None if there is none.
    objective: float | None = None
    log: str = ""  # output of the solver
