"""A bound that needs no solver, as the registry holds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from instances import Bound, Instance, Partition, Result
from instances.deadline import Stopwatch
from instances.results import PROOF_TOLERANCE
from mtpp_models.simple import as_answer, one_block, simple
from mtpp_models.solvers.interface import Controls

__all__ = ["Algorithm"]


@dataclass(frozen=True)
class Algorithm:
    """Lower bound that is computed by a procedure of its own; name, summary and reference are shown to users."""

    name: str
    summary: str
    reference: str
    run: Callable[[Partition, Controls], Result]  # of a partition of the instance, the better the faster
    most_nodes: int | None = None  # of larger graphs, which would take too much memory, it says what *simple* says
    exact: bool = False  # whether the bound is the optimum when it runs to its end
    is_bound: ClassVar[bool] = True

    def is_too_large(self, instance: Instance) -> bool:
        """Whether it says of a graph of that size what *simple* says."""
        return self.most_nodes is not None and instance.graph.n > self.most_nodes

    def prove(self, instance: Instance, start: Partition | None, controls: Controls) -> Result:
        """Run; without a start, the partition counts only if the algorithm has found it.

        Algorithms leave constraints out, and those that are not exact a hard limit of the memory: what they prove holds
        for more partitions. An exact one is then at its end only if it has found an answer of that cost.
        """
        watch = Stopwatch()
        question = instance.without_constraints() if self.exact else instance.relaxed()
        incumbent = one_block(instance) if start is None else start
        if self.is_too_large(instance):
            result = Result(self.name, instance, incumbent, Bound(simple(instance), "simple", optimal=False))
        else:
            result = self.run(Partition(question, incumbent.block, incumbent.order), controls)
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
