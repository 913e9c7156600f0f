"""Cliques of nodes that share no block: they hold the wanted pairs, and no pair that may share one."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from instances.deadline import Deadline
from mtpp_models.formulations.constraints import cliques, successions


@settings(max_examples=100)
@given(st.integers(1, 9), st.randoms(use_true_random=False))
def test_cliques_hold_the_wanted_pairs_and_no_others(n: int, random: object) -> None:
    rng = np.random.default_rng(random.randrange(2**32))  # type: ignore[attr-defined]
    apart = np.triu(rng.random((n, n)) < rng.random(), 1)
    apart |= apart.T
    wanted = np.triu(rng.random((n, n)) < 0.5, 1)
    wanted = apart & (wanted | wanted.T)
    found = cliques(apart, wanted, Deadline())
    for clique in found:
        assert len(set(clique)) == len(clique) > 1
        assert all(apart[u, v] for u, v in itertools.combinations(clique, 2))
    held = {pair for clique in found for pair in itertools.permutations(clique, 2)}
    if len(found) < n:
        assert set(map(tuple, np.argwhere(wanted).tolist())) <= held


def test_only_the_nearest_pairs_of_a_chain_are_kept() -> None:
    """Where no two nodes fit together, each follows the one before it; the other pairs say no more."""
    reach = np.triu(np.ones((5, 5), dtype=bool))
    apart = ~np.eye(5, dtype=bool)
    assert successions(apart, reach, Deadline()).tolist() == [[v, v + 1] for v in range(4)]
