"""Record of a method for lower bounds that calls no solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from instances import InputError, Instance, Partition, Result
from instances.deadline import Stopwatch
from instances.results import PROOF_TOLERANCE
from mtpp_models.simple import as_answer, one_block, simple_bound
from mtpp_models.solvers.interface import Controls


@dataclass(frozen=True)
class Algorithm:
    """A method for lower bounds that calls no solver; users see its name, summary and reference."""

    name: str
    summary: str
    reference: str
    run: Callable[[Partition, Controls], Result]  # takes a start; the better that is, the faster it ends
    most_nodes: int | None = None  # for larger graphs, which would take too much memory, it returns the bound *simple*
    exact: bool = False  # whether the bound is the optimum when it runs to its end
    in_order: bool = False  # whether it counts all that is live as an order runs a block, not only the largest need
    literal: bool = False  # whether it takes a graph without reductions, and hard limits of memory, as exact ones do
    kinds: Literal["one", "any"] = "one"  # whether it works for a single kind of devices only
    is_bound: ClassVar[bool] = True

    def is_too_large(self, instance: Instance) -> bool:
        """Whether the graph has so many nodes that the method only returns the bound *simple*."""
        return self.most_nodes is not None and instance.graph.n > self.most_nodes

    def prove(self, instance: Instance, start: Partition | None, controls: Controls) -> Result:
        """The result of the algorithm for the instance, or for a relaxation of it if it ignores constraints.

        In a relaxation, the bound of an exact algorithm counts as optimal only if an answer to the instance reaches it.
        """
        watch, question = Stopwatch(), self._question(instance)
        if start is not None:
            begin = start.under(question)
        elif self.exact:  # the first blocks that windows allow
            begin = Partition(question, question.rules.first, kind=question.machines.sequence[: question.k])
        else:
            begin = one_block(instance)
        if self.is_too_large(instance):
            result = Result(self.name, begin.instance, begin, simple_bound(instance, optimal=False))
        else:
            result = self.run(begin, controls)
        if not isinstance(result, Result):
            raise InputError(f"{self.name} returned {type(result).__name__}, not a Result with its Bound.")
        answer = result.partition if start is not None or self.exact else None
        answer = None if answer is None else as_answer(instance, answer)
        if start is not None and (answer is None or start.bottleneck <= answer.bottleneck):
            answer = start
        bound = result.bound
        if bound is not None and self.exact and question is not instance:
            reached = answer is not None and bound.value >= answer.bottleneck * (1 - PROOF_TOLERANCE)
            bound = replace(bound, optimal=bound.optimal and reached)
        spent = watch.seconds(solve=watch.passed)
        return replace(result, instance=instance, answer=answer, bound=bound, seconds=spent)

    def _question(self, instance: Instance) -> Instance:
        """The instance that the algorithm solves: a relaxation of `instance`, which admits all of its partitions.

        It has no constraints and, unless the algorithm takes it, no hard limit of memory. Over kinds of devices, exact
        algorithms keep the constraints, and the others drop hard limits of memory themselves.
        """
        if instance.is_alike:
            return (
                instance.without_constraints()
                if self.exact or self.literal
                else instance.relaxed(modelled=not self.in_order)
            )
        return instance if self.exact else instance.without_constraints()
