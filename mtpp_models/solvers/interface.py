"""Types that all solvers share: options, controls of a run, outcome and errors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import Any

from instances.deadline import LONGEST_TIME, Deadline, refuse_no_time
from instances.errors import WordError, said, word
from instances.json_files import check_folder

# Seconds that a solver is always given.
_SHORTEST = 0.01
_MOST_THREADS = 64
# Characters of the name of a file.
_LONGEST = 150


class SolverNotAvailableError(Exception):
    """Error: a solver is not installed; the message is one line that says what to install or to choose."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))  # a solver may have printed anything


class SolverFaultError(SolverNotAvailableError):
    """Error: a solver failed or contradicts itself, so that none of its answers for this model counts.

    Parameters
    ----------
    solver : str
    symptom : str
        The fault, as a clause that continues "Solver NAME", without a full stop.
    """

    def __init__(self, solver: str, symptom: str) -> None:
        super().__init__(f"Solver {solver} {symptom}; choose another {word('solver')}.")


class SolverOptionsError(SolverNotAvailableError):
    """Error: a solver does not run with the options given by the user.

    Parameters
    ----------
    options : SolveOptions
    reason : str
        Message of the solver about them.
    """

    def __init__(self, options: SolveOptions, reason: str) -> None:
        texts = ", ".join(f"{name}={value}" for name, value in options.solver_options.items())
        super().__init__(f"Solver {options.solver} fails with {said('solver_options', texts)}: {reason.rstrip('.')}.")


class Termination(Enum):
    """Why a solver stopped."""

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
        Threads of the solver, and of the branch-and-bound trees of *priced*. If there are several, `certify` gives one
        to a heuristic search in another process, beside the proofs.
    seed : int
    solver_options : mapping of str to str, int, float or bool
        Options by the solver's names, passed on unchecked. Those that the fields above determine, and tolerances on
        which bounds depend, are refused. With any others, bounds have a margin of 1e-4. An option that makes the solver
        lose solutions invalidates its bound; files name all options.
    log : path, optional
        Folder for the solver's output, with a file for each case of a model, to which later output is appended.

    Raises
    ------
    InputError
        If a value is out of its range, or `log` is a file.
    """

    solver: str = "highs"
    time_limit: float | None = None
    gap: float = 0.0
    threads: int = 1
    seed: int = 0
    solver_options: Mapping[str, str | float] = field(default_factory=dict, hash=False)
    log: str | PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.time_limit is not None:
            refuse_no_time("time_limit", self.time_limit)
        if not 0 <= self.gap < 1:
            raise WordError("gap", self.gap, "it must be at least 0 and below 1.")
        if not 1 <= self.threads <= _MOST_THREADS:
            raise WordError("threads", self.threads, f"use 1 to {_MOST_THREADS}.")
        if not 0 <= self.seed < 2**31:
            raise WordError("seed", self.seed, "it must be at least 0 and below 2^31.")
        for name, value in self.solver_options.items():
            is_number = isinstance(value, int | float) and math.isfinite(value)
            if not (isinstance(name, str) and name and (isinstance(value, str) or is_number)):
                option = f"{name!r}: {value!r}"
                raise WordError("solver_options", option, "give names, and texts or finite numbers as their values.")
        if self.log is not None:
            check_folder("log", self.log)

    def doubled(self) -> SolveOptions:
        """These options with twice the time, half of which a search takes before the bounds."""
        return self if self.time_limit is None else replace(self, time_limit=min(2 * self.time_limit, LONGEST_TIME))

    @property
    def identity(self) -> dict[str, Any]:
        """Options on which a bound depends besides solver and question, for files and keys of runs."""
        fields = {"time_limit": self.time_limit, "gap": self.gap, "threads": self.threads, "seed": self.seed}
        return fields | self.user_options

    @property
    def user_options(self) -> dict[str, Any]:
        """The solver options given by the user, as a member of files."""
        return {"solver_options": dict(self.solver_options)} if self.solver_options else {}


@dataclass(frozen=True)
class Progress:
    """Progress of a running solver, in the time unit of the instance.

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
    lower: float = 0.0  # a lower bound that others state; it says where to begin, and nothing rests on it
    improves: bool = True  # whether a solver that can switch this off also seeks better solutions in its proof
    label: str = ""  # of the question and the case, for the file of the log

    @property
    def time_limit(self) -> float | None:
        """Time limit for the solver: the seconds left, but always a few; None without a limit."""
        remaining = self.deadline.time_limit
        return None if remaining is None else max(_SHORTEST, remaining)

    def of_case(self, case: str, unit: float) -> Controls:
        """The controls for one case of a model, whose solver reports objectives in multiples of `unit`."""

        def report(moment: Progress) -> None:
            incumbent, bound = (None if x is None else x * unit for x in (moment.incumbent, moment.bound))
            self.report(replace(moment, case=case, incumbent=incumbent, bound=bound))

        return replace(self, report=report, label=f"{self.label} {case}")

    def with_user_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options that this project sets for a solver, updated by those of the user.

        Raises
        ------
        SolverOptionsError
            If the user sets one of the project's options.
        """
        for name in self.options.solver_options:
            if name in options:
                raise SolverOptionsError(self.options, f"{name} is set here already, and bounds rest on that")
        return {**options, **self.options.solver_options}

    def keep_log(self, text: str) -> None:
        """Append a solver's output to the log file of its case, if there is a folder for logs.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        if self.options.log is None or not text:
            return
        file = Path(self.options.log, re.sub(r"[^A-Za-z0-9.+]+", "-", self.label).strip("-.")[:_LONGEST] + ".log")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a", encoding="utf-8") as stream:
                stream.write(text)
        except OSError as error:
            raise WordError("log", self.options.log, f"{file} cannot be written ({error.strerror}).") from None


@dataclass(frozen=True)
class SolverOutcome:
    """Outcome of a solver run."""

    termination: Termination
    bound: float | None = None  # proved dual bound as the solver states it; None if it has none
    # Objective of the solution that is left in the variables of the model; None if there is none.
    objective: float | None = None
    log: str = ""  # output of the solver
