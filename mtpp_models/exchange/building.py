"""Models for use in Python: built for a question, for rows of one's own and any solver of Pyomo, and read back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyomo.environ as pyo

from instances import InputError, Instance, Partition
from instances.deadline import Deadline
from instances.graph.tensors import IntArray
from instances.partitioning.reductions import contract_groups
from mtpp_models.exchange.names import Labels
from mtpp_models.formulations.case import Case
from mtpp_models.formulations.formulation import Formulation
from mtpp_models.formulations.scaled_instance import ScaledInstance
from mtpp_models.registry import Model, find_model

__all__ = ["BuiltModel", "build", "builders", "read_partition"]

# How far from 0 or 1 a solver may leave a binary variable.
_INTEGRAL = 1e-4


@dataclass(frozen=True, kw_only=True)
class BuiltModel:
    """A model of a question, to which rows may be added."""

    # y[v, b] = 1: node v lies in block b or before; x[v, b] = 1: it lies in block b. Blocks count from 1.
    model: pyo.ConcreteModel
    name: str  # of the formulation
    instance: Instance  # the question
    data: ScaledInstance  # coefficients of the model; its unit is the time that 1 stands for
    node: IntArray  # (n,): the node of the model that holds each node of the graph
    cutoff: float  # in time: the model may lose partitions that are no faster; infinite if it keeps all
    exact: bool  # whether a solution is a partition

    @property
    def unit(self) -> float:
        """Time of an objective of 1, in the time unit of the instance."""
        return self.data.unit

    @cached_property
    def labels(self) -> Labels:
        """The names of variables and rows in files."""
        return Labels(self.data.instance.graph)


def build(instance: Instance, model: str | Model = "exact", *, start: Partition | None = None) -> BuiltModel:
    """Build a model of one's own: add rows to it, solve it with any solver of Pyomo, and read the partition back.

    A row of your own restricts the question. What a solver then proves is a bound of that restricted question only and
    says nothing about `instance`; so there is nothing here that makes a `Bound` of it. A partition stays one, and
    its cost is that of the definition. For a bound of the question itself ask `solve` or `certify`, without the row.

    Parameters
    ----------
    instance : Instance
        The question.
    model : str or Formulation
        One whose solutions are partitions, to read them back.
    start : Partition, optional
        Its bottleneck is the unit of the coefficients, as in `solve`; needed by a strengthened model, which loses
        partitions that are no faster. Nodes that have to share a block are one node in the model.

    Raises
    ------
    InputError
        If the model is unknown, needs no solver, has several cases or none, or lacks its start.

    Examples
    --------
    >>> from instances import ComputationGraph, Platform
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[3.0, 1.0, 2.0])
    >>> built = build(Instance(graph, Platform(2, 1.0)))
    >>> built.model.own = pyo.Constraint(expr=built.model.x[1, 2] == 1)
    >>> _ = pyo.SolverFactory("appsi_highs").solve(built.model)
    >>> read_partition(built).block.tolist()
    [0, 1, 1]
    """
    cases = builders(instance, model, start)
    if len(cases) > 1:
        raise InputError(f"This model has {len(cases)} cases, each a model of its own; take the model exact.")
    return cases[0]()


def builders(instance: Instance, model: str | Model, start: Partition | None = None) -> list[Callable[[], BuiltModel]]:
    """Return a function for each case of a model, which builds it; the model's bound is the smallest of its cases'.

    Raises
    ------
    InputError
        As `build`, several cases apart.
    """
    formulation = find_model(model)
    if not isinstance(formulation, Formulation):
        raise InputError(f"The model {formulation.name} needs no solver; there is nothing to write.")
    contraction = contract_groups(instance)
    question, warm_start = contraction.instance.modelled(), None if start is None else contraction.restrict(start)
    warm_start = None if warm_start is None else Partition(question, warm_start.block, warm_start.order)
    prepared = formulation.prepare(question, warm_start, 0.0, Deadline())
    if not prepared.cases:
        raise InputError(f"The start is optimal, so that of {formulation.name} nothing is left to write.")

    def built(case: Case) -> BuiltModel:
        return BuiltModel(
            model=case.build(),
            name=formulation.name,
            instance=instance,
            data=prepared.data,
            node=prepared.group[contraction.group],
            cutoff=prepared.cutoff,
            exact=formulation.exact,
        )

    return [partial(built, case) for case in prepared.cases]


def read_partition(built: BuiltModel) -> Partition:
    """Read the partition from the values of the variables; its cost is computed from the definition.

    Raises
    ------
    InputError
        If the model is one of superblocks, a variable has no value or is neither 0 nor 1, this is no partition, or it
        does not fit where it has to; the message names the variable, the edge or the block.
    """
    if not built.exact:
        raise InputError(f"A solution of {built.name} is no partition, as its blocks are merged; take the model exact.")
    m, labels = built.model, built.labels
    free = [variable for variable in m.y.values() if not variable.fixed]
    if free and all(variable.value is None for variable in free):
        raise InputError("The variables y have no values; solve the model first.")
    y = np.array([[_binary(m.y[v, b], labels) for b in m.B_or_0] for v in m.V])
    for v, b in np.argwhere(np.diff(y, axis=1) < 0)[:1].tolist():
        early, late = labels(m.y[v, b]), labels(m.y[v, b + 1])
        raise InputError(f"{early} is 1 and {late} is 0; a node that lies in a block or before stays there.")
    partition = Partition(built.instance, (len(m.B) - y[:, 1:].sum(axis=1))[built.node])
    if not partition.bottleneck < np.inf:
        block = int(partition.excess.argmax())
        raise InputError(f"Block {block} needs {partition.excess[block]:g} bytes more than there are, and has to fit.")
    return partition


def _binary(variable: pyo.Var, labels: Labels) -> int:
    value = variable.value or 0.0  # one that no row mentions has none; either would do
    if not min(abs(value), abs(value - 1)) <= _INTEGRAL:
        raise InputError(f"{labels(variable)} is {value:g}, neither 0 nor 1: this is no solution of whole numbers.")
    return round(value)
