"""What a run may claim, and what combining runs claims."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from instances import (
    Bound,
    ComputationGraph,
    FalseCertificateError,
    InputError,
    Instance,
    Partition,
    Platform,
    Result,
    Status,
    combine,
)
from instances.results import PROOF_TOLERANCE


@pytest.fixture
def instance() -> Instance:
    """A chain with the bottlenecks 5 and 11 for its two cuts, and 10 for none."""
    return Instance(ComputationGraph.from_edges([(0, 1), (1, 2)], [1, 4, 5], [2, 0, 0]), Platform(2, bandwidth=1))


@pytest.fixture
def best(instance: Instance) -> Partition:
    return Partition(instance, [0, 0, 1])


@pytest.fixture
def worse(instance: Instance) -> Partition:
    return Partition(instance, [0, 1, 1])


@pytest.mark.parametrize(
    "value", [2, True, np.int64(2), np.float64(2.5), np.array(2.5), Fraction(1, 3), Decimal("0.1")]
)
def test_a_bound_is_the_largest_float_that_is_no_more(value: Any) -> None:
    bound = Bound(value, "own").value
    assert type(bound) is float
    assert bound <= value < math.nextafter(bound, math.inf)


@pytest.mark.parametrize("value", ["5", None, 1j, [1.0], np.array([1.0, 2.0]), 10**400])
def test_a_bound_that_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match=r"own claims the bound .*, which is no number"):
        Bound(value, "own")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1e-12])
def test_a_bound_that_is_no_number_is_a_false_certificate(value: float) -> None:
    with pytest.raises(FalseCertificateError, match="liar claims the bound"):
        Bound(value, "liar")


def test_a_bound_above_the_bottleneck_is_a_false_certificate(instance: Instance, best: Partition) -> None:
    with pytest.raises(FalseCertificateError, match=r"bound 5.00001 of liar exceeds the bottleneck 5.0"):
        Result("any", instance, best, Bound(5.00001, "liar"))
    with pytest.raises(FalseCertificateError):
        combine(best, Result("any", instance, bound=Bound(5.00001, "liar")))


def test_rounding_is_no_false_certificate(instance: Instance, best: Partition) -> None:
    result = Result("any", instance, best, Bound(5.0 * (1 + 1e-12), "sum"))
    assert (result.ratio, result.gap, result.proved) == (1.0, 0.0, True)


@pytest.mark.parametrize(
    ("gap", "proved"), [(0.0, True), (0.5 * PROOF_TOLERANCE, True), (2 * PROOF_TOLERANCE, False), (0.005, False)]
)
def test_proved_means_a_gap_within_the_tolerance(instance: Instance, best: Partition, gap: float, proved: bool) -> None:
    result = Result("any", instance, best, Bound(5.0 / (1 + gap), "any"))
    assert result.gap == pytest.approx(gap, abs=1e-12)
    assert result.proved is proved
    assert result.status is (Status.OPTIMAL if proved else Status.FEASIBLE)
    assert PROOF_TOLERANCE == 1e-6


def test_a_bound_that_ran_to_its_end_proves_no_partition(instance: Instance, worse: Partition) -> None:
    assert not Result("any", instance, worse, Bound(5.0, "exact", optimal=True)).proved


def test_what_is_missing_stays_missing(instance: Instance, best: Partition) -> None:
    nothing, partition, bound = (Result("any", instance, *rest) for rest in ((), (best,), (None, Bound(1.0, "any"))))
    assert [result.ratio for result in (nothing, partition, bound)] == [None, None, None]
    assert [result.gap for result in (nothing, partition, bound)] == [None, None, None]
    assert [result.status for result in (nothing, partition, bound)] == [Status.NOTHING, Status.FEASIBLE, Status.BOUND]
    assert not any(result.proved for result in (nothing, partition, bound))


def test_a_bound_of_zero_says_nothing_unless_the_bottleneck_is_zero(instance: Instance, best: Partition) -> None:
    assert Result("any", instance, best, Bound(0.0, "any")).ratio == math.inf
    idle = Instance(ComputationGraph.from_edges([], [0.0]), Platform(1, bandwidth=1))
    assert Result("any", idle, Partition(idle, [0]), Bound(0.0, "any")).proved


@pytest.mark.parametrize("reverse", [False, True])
def test_combine_takes_the_best_partition_and_the_best_bound_with_its_solver(
    instance: Instance, best: Partition, worse: Partition, reverse: bool
) -> None:
    answers: list[Partition | Result] = [
        Result("a", instance, worse, Bound(3.0, "weak"), {"solve": 1.0}, solver="one"),
        Result("b", instance, None, Bound(4.0, "strong"), {"build": 2.0, "solve": 4.0}, solver="two"),
        best,
        Result("b", instance, None, Bound(3.5, "middle"), {"solve": 8.0}, solver="three"),
    ]
    combined = combine(*reversed(answers)) if reverse else combine(*answers)
    assert combined.partition is best
    assert combined.bound == Bound(4.0, "strong")
    assert combined.solver == "two"
    assert combined.seconds == {"a": 1.0, "b": 14.0}
    assert combined.ratio == 1.25
    assert not combined.interrupted


def test_combine_names_no_solver_where_the_best_bound_needed_none(instance: Instance, best: Partition) -> None:
    solved = Result("a", instance, best, Bound(3.0, "weak"), solver="one")
    assert combine(solved, Result("b", instance, bound=Bound(4.0, "formula"))).solver is None


def test_combine_of_partitions_alone_has_no_bound(best: Partition, worse: Partition) -> None:
    combined = combine(worse, best)
    assert (combined.partition, combined.bound, combined.solver) == (best, None, None)


def test_one_interrupted_run_interrupts_the_certificate(instance: Instance, best: Partition) -> None:
    assert combine(best, Result("a", instance), Result("b", instance, interrupted=True)).interrupted


def test_answers_to_different_questions_are_not_combined(instance: Instance, best: Partition) -> None:
    other = Result("a", instance.with_k(3), bound=Bound(1.0, "any"))
    with pytest.raises(InputError, match="different instances"):
        combine(best, other)
    with pytest.raises(InputError, match="another instance"):
        Result("a", instance.with_k(3), best)
    with pytest.raises(InputError, match="at least one"):
        combine()
