"""Searches of other packages answer as searches of this project do, and the table beside them counts what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from brute_force import optimum

from experiments.studies.peers import metis, peer_section, peers, pymoo_brkga, questions
from experiments.studies.report import Report
from heuristics import Limits
from instances import Instance, Platform
from instances.random_graphs import regal_style


@pytest.mark.parametrize(("search", "package"), [(metis, "pymetis"), (pymoo_brkga, "pymoo")])
def test_partitions_of_others_are_valid_and_repeatable(search, package) -> None:
    """A partition is checked where it is made; none is below the optimum of brute force."""
    pytest.importorskip(package, reason=f"{package} is not installed")
    for seed in range(4):
        instance = Instance(regal_style("erdos-renyi", 8, seed), Platform(3, 2.0))
        found, again = (search(instance, np.random.default_rng(seed), Limits(evaluations=200)) for _ in range(2))
        assert found.bottleneck >= optimum(instance) * (1 - 1e-9)
        assert found.block.tolist() == again.block.tolist()


def test_a_search_stops_at_its_target() -> None:
    """A bottleneck that is good enough ends it."""
    pytest.importorskip("pymetis", reason="pymetis is not installed")
    instance = Instance(regal_style("watts-strogatz", 12, 1), Platform(2, 1.0))
    assert metis(instance, np.random.default_rng(0), Limits(target=1e12)).bottleneck < 1e12


def test_rows_compare_the_same_questions() -> None:
    """By hand: two graphs, of which the second method answers one and proves it."""
    frame = pd.DataFrame(
        {
            "graph": ["a", "b", "a", "b"],
            "cluster": ["a", "b", "a", "b"],
            "k": 2,
            "method": ["ours", "ours", "theirs", "theirs"],
            "bottleneck": [2.0, 3.0, 4.0, np.nan],
            "bound": [np.nan, np.nan, 4.0, 1.0],
            "cpu_seconds": [1.0, 3.0, 1.0, 1.0],
        }
    )
    ours, theirs = peer_section(frame).rows
    assert ours == ["ours", "2 of 2", "1.0000", "–", "–", "2.0"]
    assert theirs == ["theirs", "1 of 2", "2.0000", "1.0000", "1", "1.0"]


@pytest.mark.slow
def test_all_rows_are_made(tmp_path: Path) -> None:
    """Searches, certify and each installed solver on one question; what fails has no number."""
    frame = peers(questions(quick=True)[:1], 0.3, Report(tmp_path / "runs.jsonl", quiet=True), 1)
    assert {"kahn", "certify", "exact, highs"} <= set(frame["method"])
    proved = frame[frame["bound"].notna() & frame["bottleneck"].notna()]
    assert (proved["bound"] <= proved["bottleneck"] * (1 + 1e-6)).all()
    assert len(peer_section(frame).rows) == frame["method"].nunique()
