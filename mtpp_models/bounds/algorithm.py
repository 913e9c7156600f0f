"""A bound that needs no solver, as the registry holds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from instances import Instance, Partition, Result
from instances.deadline import Stopwatch
from mtpp_models.simple import one_block
from mtpp_models.solvers.interface import Controls

__all__ = ["Algorithm"]


@dataclass(frozen=True)
class Algorithm:
    """A lower bound that is computed by a procedure of its own; its name, summary and reference are for people."""

    name: str
    summary: str
    reference: str
    run: Callable[[Partition, Controls], Result]  # of a partition of the instance, the better the faster
    exact: bool = False  # whether the bound is the optimum when it runs to its end
    is_bound: ClassVar[bool] = True

    def prove(self, instance: Instance, start: Partition | None, controls: Controls) -> Result:
        """Run; without a start, the partition counts only if the algorithm has found it."""
        watch = Stopwatch()
        result = self.run(start or one_block(instance), controls)
        result = replace(result, seconds=watch.seconds(solve=watch.passed))
        return result if start is not None or self.exact else replace(result, answer=None)
