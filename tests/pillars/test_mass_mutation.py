"""One random change in a true file of each format: refused, false, another question, or no change of what is said."""

from __future__ import annotations

import random

import pytest
from mass_mutation import alike, mutant, outcome, tried
from true_files import originals

from instances.json_files import Value
from mtpp.problems.checking import verify


def test_the_originals_hold(subtests: pytest.Subtests) -> None:
    """Otherwise nothing that is refused would say anything; they are made here, not when tests are collected."""
    for name, original in originals().items():
        with subtests.test(name):
            verdict = verify(Value(original, "c.json"), time_limit=20.0)
            assert verdict.faults == ()
            assert verdict.certificate.true_hash == original["question_hash"]


@pytest.mark.parametrize("seed", range(4))
def test_no_change_is_accepted(seed: int) -> None:
    counts, forged = tried(150, 1000 + seed)
    assert not forged
    assert counts["false"] > 5
    assert counts["refused"] > 50


def test_the_judge_sees_differences() -> None:
    """Numbers are the same up to rounding; kinds and lengths are not."""
    assert alike({"a": [1, 2.0]}, {"a": [1.0, 2.0 * (1 + 1e-12)]})
    for other in ({"a": [1, 2.1]}, {"a": [1]}, {"a": [True, 2.0]}, {"b": [1, 2.0]}, {"a": None}):
        assert not alike({"a": [1, 2.0]}, other)


def test_a_seed_draws_the_same_mutants() -> None:
    assert mutant(random.Random(5)) == mutant(random.Random(5))
    assert outcome(mutant(random.Random(5))) == outcome(mutant(random.Random(5)))
