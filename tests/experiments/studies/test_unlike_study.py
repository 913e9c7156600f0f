"""The table of rules of thumb for devices that are not alike: rules, optima, runs, and published clusters."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.studies.report import Report
from experiments.studies.unlike import (
    CLUSTERS,
    NETWORKS,
    PHASES,
    RULES,
    divided,
    flow_jobs,
    make_unlike_tables,
    ratio_of,
    unlike_jobs,
)
from mtpp.runs.workers import this_process

SMALL = {
    "format": "helix-instance",
    "source": "made up",
    "name": "two",
    "layers": 4,
    "kinds": [
        {"devices": [0, 1], "capacity_by_layers": {"1": 12, "2": 5}},
        {"devices": [2], "capacity_by_layers": {"1": 6, "2": 2, "3": 1}},
    ],
    "links": [
        ["source", 0, 99], ["source", 1, 99], ["source", 2, 99], [0, 1, 99], [1, 0, 99], [1, 2, 99], [2, 1, 99],
        [0, 2, 99], [2, 0, 99], [0, "sink", 99], [1, "sink", 99], [2, "sink", 99],
    ],
    "published": {"intervals": {"0": [0, 1], "1": [1, 2], "2": [2, 4]}, "flow": 2},
}  # fmt: skip


def test_counts_are_in_proportion() -> None:
    """As whole numbers that sum up, none more than one away from its share."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        weights, layers = rng.uniform(0.1, 10, rng.integers(1, 9)).tolist(), int(rng.integers(1, 90))
        counts = divided(layers, weights)
        shares = layers * np.array(weights) / sum(weights)
        assert sum(counts) == layers
        assert np.abs(counts - shares).max() < 1
    assert divided(7, [1, 1]) == [4, 3]


def test_rules_of_a_cluster() -> None:
    """By hand: 32 layers on an A100, two L4 and a T4."""
    run = next(job for job in unlike_jobs(["llama-3-8b"]) if job.cluster == "1xA100,2xL4,1xT4").run()
    found = {rule: [count for _, count in run["rules"][rule]["layers"]] for rule in RULES}
    assert found["even"] == [8, 8, 8, 8]
    assert found["memory"] == [18, 5, 5, 4]
    assert found["flops"] == [16, 6, 6, 4]
    assert found["speed"][0] > found["speed"][1] == found["speed"][2] > found["speed"][3]


@pytest.mark.parametrize("phase", PHASES)
def test_no_rule_beats_the_optimum(phase: str) -> None:
    """And equal layers cost more than twice as much on the smallest cluster in decoding."""
    job = next(job for job in unlike_jobs(["llama-3-8b"]) if (job.phase, job.cluster) == (phase, CLUSTERS[0]))
    run = job.run()
    assert run["error"] is None
    assert sum(count for _, count in run["best"]["layers"]) == 32
    for rule in RULES:
        ratio = ratio_of(run, rule)
        assert ratio is not None
        assert ratio >= 1 - 1e-9
    if phase == "decode":
        assert (ratio_of(run, "even") or 0) > 2


def test_six_networks_on_six_clusters_in_two_phases() -> None:
    """Each question once."""
    jobs = unlike_jobs()
    assert len({job.key for job in jobs}) == len(NETWORKS) * len(CLUSTERS) * len(PHASES) == 72


def test_tables_go_on_where_they_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second call makes no run; the published cluster has its flow beside ours and a proved bound."""
    folder = tmp_path / "helix"
    folder.mkdir()
    (folder / "two.json").write_text(json.dumps(SMALL))
    monkeypatch.setenv("MTPP_DATA", str(tmp_path))
    for folder in (None, tmp_path / "tables"):
        report = Report(tmp_path / "runs.jsonl", folder, "csv", quiet=True)
        with this_process() as workers:
            assert make_unlike_tables(workers, report, ["gpt2"], None) == 0
        assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 13
    out = capsys.readouterr().out
    assert "two,2.0,5.0,5.0" in out
    pictures = {path.name for path in (tmp_path / "tables").glob("*.png")}
    assert pictures == {"unlike-prefill.png", "unlike-decode.png", "unlike-flow.png"}


def test_without_published_clusters_it_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In one line, and the rest goes on."""
    monkeypatch.delenv("MTPP_DATA", raising=False)
    assert "MTPP_DATA does not name" in str(flow_jobs())
    monkeypatch.setenv("MTPP_DATA", str(tmp_path))
    assert "there are none in" in str(flow_jobs())
