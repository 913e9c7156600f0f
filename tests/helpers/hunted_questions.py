"""Questions of hunts with their answers by brute force, and what results are held against."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from extremes import build
from subset_oracle import Case, block_costs, least_block_around, numbers, optimum

from instances import Instance, Partition, Result
from instances.results import PROOF_TOLERANCE

__all__ = ["NOTHING", "Question", "ViolationError", "check_best", "check_claim", "check_partition", "is_impossible"]

#: Times up to it are ones that floats cannot tell from 0.
NOTHING = Fraction(1, 10**300)
# How far above the optimum a bound may be by rounding.
_TOLERANCE = Fraction(1, 10**9)
# Beyond this relative error of floats, fractions decide.
_DOUBT = 1e-10


class ViolationError(AssertionError):
    """A number that is false."""


@dataclass(frozen=True, eq=False)
class Question:
    """A case with its answers by brute force, each computed when it is asked for."""

    case: Case
    seed: int

    @cached_property
    def instance(self) -> Instance:
        """The same for the project."""
        return build(self.case)

    @cached_property
    def start(self) -> Partition | None:
        """Nothing, or a random partition."""
        r = random.Random(self.seed)
        if r.random() < 0.4:
            return None
        graph, k = self.instance.graph, self.case.k
        position = {int(v): i for i, v in enumerate(graph.topological_order)}
        ends = sorted(r.randint(0, graph.n) for _ in range(min(k, graph.n) - 1))
        return Partition(self.instance, [sum(end <= position[v] for end in ends) for v in range(graph.n)])

    @property
    def some_partition(self) -> Partition:
        """The start, or else some partition, for what needs one."""
        return self.start or Partition(self.instance, [0] * self.case.n)

    @property
    def always_answered(self) -> bool:
        """Whether each search has to find a partition."""
        return True

    @cached_property
    def optimum(self) -> float:
        """In floats."""
        return float(optimum(numbers(self.case, exact=False)))

    @cached_property
    def exact(self) -> Fraction:
        """In fractions."""
        return Fraction(optimum(numbers(self.case, exact=True)))

    @cached_property
    def exact_of_orders(self) -> Fraction | float:
        """In fractions, where a peak counts as the least one of all orders."""
        return Fraction(optimum(numbers(self.case, exact=True), orders=True))

    @cached_property
    def doubtful(self) -> bool:
        """Whether overflows are small differences of large numbers."""
        if not self.case.overflows:
            return False
        held = sum(self.case.params) + sum(size for size, _ in self.case.shared) + (self.case.buffer or 0.0)
        return not held * 2.0**-50 <= _DOUBT * self.optimum * self.case.bandwidth

    def check_bound(self, value: float, *, orders: bool = False) -> float:
        """How far a bound exceeds the optimum, as a part of it.

        Parameters
        ----------
        value : float
        orders : bool
            Whether it may count more than needs: all that is live in each order.

        Raises
        ------
        ViolationError
            If that is more than rounding.
        """
        excess = value / self.optimum - 1 if self.optimum > 0 else 0.0
        if (excess <= _DOUBT and not self.doubtful) or value <= float(NOTHING):
            return excess
        exact = self.exact_of_orders if orders else self.exact
        if value > exact * (1 + _TOLERANCE) + NOTHING:
            raise ViolationError(f"the bound {value!r} exceeds the optimum {float(exact)!r}")
        return float(value / exact - 1) if exact > 0 else 0.0

    def check_allowed(self, partition: Partition) -> None:
        """Whether it is an answer; without rules it could not have been made otherwise."""


def is_impossible(question: Question, result: Result) -> bool:
    """Whether a result says that there is no answer, which brute force has to say as well."""
    if result.impossible is not None and question.optimum < math.inf and question.exact_of_orders < math.inf:
        raise ViolationError(f"{result.impossible!r} is said, but there is a partition of {question.optimum!r}")
    return result.impossible is not None


def check_claim(question: Question, result: Result) -> None:
    """Whether what says that it can prove no more is right, where that is known."""
    assert result.bound is not None
    least: float | Fraction = 0.0
    doubtful = question.doubtful
    if result.method in ("exact", "ideals", "exact+all"):
        least = question.exact if doubtful else question.optimum
        if least == math.inf:  # needs are sums of floats: by their rounding something fits
            return
        if question.start is not None:  # of no interest above it
            least = min(least, question.start.bottleneck)
    elif result.method == "pinned":
        least = float(least_block_around(numbers(question.case, exact=False)))
        least = min(least, question.exact if doubtful else question.optimum)
    # What was found may itself be rounded.
    rounding = float(NOTHING)
    if question.case.overflows:
        rounding += 2.0**-48 * question.instance.graph.parameter_total / question.case.bandwidth
    if result.bound.value < float(least) * (1 - 3 * PROOF_TOLERANCE) - rounding:
        raise ViolationError(f"{result.method} stops at {result.bound.value!r}, said to be all, below {float(least)!r}")


def check_partition(question: Question, partition: Partition) -> None:
    """Whether it is an answer, and its cost is right, in fractions."""
    question.check_allowed(partition)
    case, blocks, order = question.case, partition.block.tolist(), partition.order.tolist()
    if not question.doubtful:
        cost = max(block_costs(numbers(case, exact=False), blocks, order))
        if abs(partition.bottleneck - cost) <= _DOUBT * cost and cost >= question.optimum * (1 - _DOUBT):
            return
    times = numbers(case, exact=True)
    costs = block_costs(times, blocks, order)
    held = Fraction(0)
    if case.overflows:  # what the sum of the parameters is rounded by
        held = (sum(times.params) + sum(times.shared)) / times.rate
    error = abs(Fraction(partition.bottleneck) - max(costs))
    if error > _TOLERANCE * max(costs) + Fraction(1, 2**48) * held + NOTHING:
        raise ViolationError(f"the bottleneck {partition.bottleneck!r} should be {float(max(costs))!r}")
    if partition.bottleneck < question.exact * (1 - _TOLERANCE) - Fraction(1, 2**48) * held - NOTHING:
        raise ViolationError(f"the bottleneck {partition.bottleneck!r} is below the optimum {float(question.exact)!r}")


def check_best(question: Question, partition: Partition | None) -> None:
    """Whether what a search found is an answer, and whether it found one where it has to."""
    if partition is not None:
        check_partition(question, partition)
    elif question.always_answered:
        raise ViolationError("there is no partition")
