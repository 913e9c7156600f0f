"""Formulations: one or more Pyomo cases, and the way in which their bounds combine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from instances import Bound, InputError, Instance, Partition, Result
from instances.deadline import Deadline, Stopwatch
from instances.graph.tensors import IntArray
from instances.results import PROOF_TOLERANCE
from mtpp_models.formulations.case import Case, CaseResult
from mtpp_models.formulations.contradictions import contradiction
from mtpp_models.formulations.scaled_instance import ScaledInstance
from mtpp_models.simple import as_answer, one_block, simple
from mtpp_models.solvers.interface import Controls, SolverFaultError
from mtpp_models.solvers.registry import Solver, find_solver

__all__ = ["Formulation", "PreparedModel"]

# Of the time limit, at most; and relative.
_FOR_CONFLICTS, _ROUNDING = 0.2, 1e-9


class PreparedModel(NamedTuple):
    """Cases for a solver, with the data that map their answers back."""

    data: ScaledInstance
    cases: Sequence[Case]  # none of them where all is proved
    start: Partition | None  # of the instance of `data`
    group: IntArray  # (n,): the node of that instance which holds each node of the original one
    cutoff: float = np.inf  # the cases prove min(cutoff, their bounds); infinite if the models are as published


@dataclass(frozen=True)
class Formulation:
    """A lower bound on the bottleneck: the smallest optimum of its cases.

    If a constraint excludes some partition, the optimum bounds only the others: set ``is_bound=False``. Constraints
    that name nodes need `solve` with ``reduce=False``.

    Parameters
    ----------
    name, summary, reference : str
        What it is called, what it says in one line, where it is published.
    cases : callable
        The cases of an instance.
    exact : bool
        Whether a solution of the one case is a partition and its objective the bottleneck.
    is_bound : bool
        Whether every partition satisfies the constraints of a case, at no more than its bottleneck. If not, `solve`
        returns no bound, and of partitions only what the solver found.
    """

    name: str
    summary: str
    reference: str
    cases: Callable[[ScaledInstance], Sequence[Case]]
    exact: bool = False
    is_bound: bool = True

    def prepare(self, instance: Instance, start: Partition | None, margin: float, deadline: Deadline) -> PreparedModel:
        """Scale the instance and list the cases.

        Parameters
        ----------
        margin : float
            Relative tolerance of the solver.
        deadline : Deadline
            When to stop looking for facts that strengthen the model, roughly.

        Raises
        ------
        InputError
            If a strengthened model has no start.
        """
        data = ScaledInstance.near(instance, start)
        return PreparedModel(data, self.cases(data), start, np.arange(instance.graph.n))

    def prove(self, instance: Instance, start: Partition | None, controls: Controls) -> Result:
        """Solve the cases one after the other and combine what they prove.

        Parameters
        ----------
        start : Partition, optional
            Warm start, and the unit of the coefficients.
        controls : Controls
            The cases share the time.

        Returns
        -------
        Result
            Without a bound if the model is none.

        Raises
        ------
        InputError
            If the solver is unknown, or a strengthened model has no start.
        SolverNotAvailableError
            If the solver cannot run here.
        SolverFaultError
            If the solver fails, does not end in time, or states what is not true.
        ExcludedPartitionError
            If the model excludes a known partition although it says that it is a bound.
        """
        watch, solver = Stopwatch(), find_solver(controls.options.solver)
        name = f"{self.name}-lp" if controls.relaxation else self.name
        whole = self._one_block(instance)
        if whole is not None and whole.bottleneck == 0 and self.is_bound:
            return Result(name, instance, whole, Bound(0.0, name))
        prepared = self.prepare(instance, start, solver.margin, controls.deadline.share(_FOR_CONFLICTS))
        prepared_in = watch.passed
        # Below a cutoff there is nothing, where searches have done their work.
        results = _solve_in_turn(prepared, solver, replace(controls, improves=prepared.cutoff == np.inf))
        partitions, rounded = [start] if start is not None and self.is_bound else [], False
        if self.exact:
            for result in results:
                if result.superblock is None:
                    continue
                solution = self._solution(instance, result, prepared.group, solver)
                partitions += [] if solution is None else [solution]
                # What fits by the tolerances of the solver alone, or by times that are capped, is no optimum.
                tolerated = result.optimum * (1 + PROOF_TOLERANCE) + solver.margin * prepared.data.unit
                rounded |= solution is None or solution.bottleneck > tolerated
        bound = None
        if self.is_bound:
            floor = simple(instance)
            proved, closed = _combined(prepared, results, floor, solver.margin)
            answers = [*partitions, *([] if whole is None else [whole])]
            least = min(answers, key=lambda partition: partition.bottleneck, default=None)
            if least is None and proved == np.inf:
                reason = f"no partition obeys and fits, says {solver.name} of {self.name}"
                return Result(name, instance, solver=f"{solver.name} {solver.version()}", impossible=reason)
            if least is not None and proved > least.bottleneck * (1 + _ROUNDING):
                blameless = prepared.cutoff < np.inf  # what a strengthened model loses costs no less than the cutoff
                cases = () if blameless else prepared.cases
                raise contradiction(self.name, cases, prepared.data, solver.name, proved, least)
            options = {key: value for key, value in vars(controls.options).items() if key != "solver"}
            bound = Bound(max(floor, proved), name, closed and not rounded, options)
        return Result(
            method=name,
            instance=instance,
            answer=min(partitions, key=lambda partition: partition.bottleneck, default=None),
            bound=bound,
            seconds=watch.seconds(
                build=prepared_in + sum(result.build for result in results),
                solve=sum(result.solve for result in results),
            ),
            solver=f"{solver.name} {solver.version()}",
            log="\n".join(result.log for result in results),
        )

    def _one_block(self, instance: Instance) -> Partition | None:
        """All nodes in one block; None if that is no answer."""
        return as_answer(instance, one_block(instance))

    def _solution(self, instance: Instance, result: CaseResult, group: IntArray, solver: Solver) -> Partition | None:
        """Partition of a solution, its cost from the definition; None if rounding or its peak make it infeasible."""
        assert result.superblock is not None
        try:
            return as_answer(instance, Partition(instance, result.superblock[group]))
        except InputError as error:
            raise SolverFaultError(solver.name, f"gives a solution that is no partition ({error})") from None


def _solve_in_turn(prepared: PreparedModel, solver: Solver, controls: Controls) -> list[CaseResult]:
    """Solve the cases in turn, as far as there is time; a case that ends early leaves its time to the later ones."""
    data, cases, deadline = prepared.data, prepared.cases, controls.deadline
    results: list[CaseResult] = []
    for number, case in enumerate(cases):
        if deadline.passed:
            break
        case_controls = replace(
            controls.of_case(case.name, data.unit), deadline=deadline.share(1 / (len(cases) - number))
        )
        results.append(case.solve(data, solver, case_controls, prepared.start))
    return results


def _combined(
    prepared: PreparedModel, results: Sequence[CaseResult], floor: float, margin: float
) -> tuple[float, bool]:
    """The least bound of all cases [time unit], and whether solving on could not raise it."""
    finished = len(results) == len(prepared.cases)
    # A case that was not started has proved nothing beyond *simple*.
    proved = min((prepared.cutoff, *(result.bound for result in results))) if finished else floor
    most_possible = min((prepared.cutoff, *(result.optimum for result in results)))
    # What the solver found may be this much more: far below the unit it says nothing.
    surely = most_possible + margin * prepared.data.unit
    reached = proved >= most_possible * (1 - PROOF_TOLERANCE) or floor >= surely
    return proved, finished and reached and not prepared.data.leaves_out_overflow
