"""What was known when, of single methods, certifications of all problems, two processes, and results combined."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import mtpp
from heuristics import search
from instances import ComputationGraph, Instance, Platform, Result, combine
from instances.random_graphs import layered
from instances.results import MOST_MOMENTS, Moment, Recorder, thinned
from mtpp.certifying.certify import certify
from mtpp.runs.statistics import gap_integral, primal_integral
from mtpp_models import SolveOptions, solve

GRAPH = layered(30, 60, 0)
QUESTION = Instance(GRAPH, Platform(4, 1e6))


def check(result: Result) -> None:  # type: ignore[type-arg]
    """Time goes on, costs fall, bounds rise, and the last row is the result."""
    trace = result.trace
    assert list(trace.columns) == ["method", "began", "seconds", "cpu_seconds", "cost", "bound"]
    assert 1 <= len(trace) <= MOST_MOMENTS
    assert (np.diff(trace.seconds) >= 0).all()
    assert (np.diff(trace.cpu_seconds) >= -0.05).all()
    assert (trace.began <= trace.seconds + 1e-9).all()
    assert (np.diff(trace.cost.dropna()) <= 0).all()
    assert (np.diff(trace.bound.dropna()) >= 0).all()
    last = trace.iloc[-1]
    assert (None if math.isnan(last.cost) else last.cost) == result.cost
    assert (None if math.isnan(last.bound) else last.bound) == (result.bound and result.bound.value)


@pytest.mark.parametrize("threads", [1, 2])
def test_certify(threads: int) -> None:
    result = certify(QUESTION, SolveOptions(time_limit=2, threads=threads))
    check(result)
    assert {"simple", "kahn"} <= set(result.trace.method)
    assert result.trace.cpu_seconds.iloc[-1] > 0


def test_single_methods() -> None:
    found = search(QUESTION, "local-search", np.random.default_rng(0))
    check(found)
    proof = solve(QUESTION, "ideals", SolveOptions(time_limit=5), start=found.partition)
    check(proof)
    assert proof.trace.cost.iloc[0] == found.cost  # what it began with
    check(mtpp.partition(GRAPH, 4, bandwidth=1e6))
    check(mtpp.bound(GRAPH, 4, bandwidth=1e6, model="exact", time_limit=2))


def test_combined_results_are_one_run_behind_the_other() -> None:
    first = search(QUESTION, "kahn", np.random.default_rng(0))
    second = solve(QUESTION, "pinned", start=None)
    both = combine(first, second)
    check(both)
    assert len(both.moments) == len(first.moments) + len(second.moments)
    assert both.trace.seconds.iloc[-1] == first.trace.seconds.iloc[-1] + second.trace.seconds.iloc[-1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: mtpp.place(GRAPH, 2, bandwidth=1e6, time_limit=1),
        lambda: mtpp.flow("llama-2-7b", devices="2xA100,2xL4@1.25GB/s", time_limit=1),
    ],
)
@pytest.mark.slow
def test_other_problems(make) -> None:  # type: ignore[no-untyped-def]
    check(make())


def test_files_hold_no_trace(tmp_path) -> None:  # type: ignore[no-untyped-def]
    certificate = mtpp.certify(GRAPH, 4, bandwidth=1e6, time_limit=1).save(tmp_path / "c.json")
    assert mtpp.read(certificate).trace.empty


def test_many_moments_are_thinned() -> None:
    recorder = Recorder()
    for i in range(5 * MOST_MOMENTS):
        recorder.note("x", 1e6 - i, float(i), end=False)
    recorder.note("x", 1.0, 1.0, end=True)
    assert 1 < len(recorder.moments) <= MOST_MOMENTS
    assert (recorder.moments[0].cost, recorder.moments[-1].cost) == (1e6, 1.0)
    row = [Moment(method="x", began=0.0, seconds=float(i), cpu_seconds=0.0) for i in range(7)]
    assert [moment.seconds for moment in thinned(row, 4)] == [0.0, 1.0, 5.0, 6.0]


def test_bounds_that_do_not_hold_are_forgotten() -> None:
    """A solver has stated more than is known at the end of its turn, or found less."""
    recorder = Recorder()
    recorder.note("simple", 8.0, 2.0, end=True)
    recorder.note("exact", 6.0, 7.0, end=False)
    recorder.note("exact", 6.5, 5.0, end=True)
    assert [(moment.cost, moment.bound) for moment in recorder.moments] == [(8.0, 2.0), (6.5, 5.0), (6.5, 5.0)]


def test_integrals_by_hand() -> None:
    """Steps that hold until the next one, 1 before the first."""
    points = [(1.0, 8.0, 2.0), (3.0, 4.0, 4.0)]
    assert primal_integral(points, 4.0, 10.0) == 1 + 2 * 0.5
    assert gap_integral(points, 10.0) == 1 + 2 * 0.75
    assert primal_integral(points, 4.0, 2.0) == 1 + 1 * 0.5  # the end cuts
    assert primal_integral([(0.0, 0.0, None)], 0.0, 3.0) == 0.0
    assert primal_integral([(2.0, None, None)], 1.0, 3.0) == 3.0
    assert gap_integral([(2.0, 5.0, None)], 3.0) == 3.0


def test_columns_of_compare() -> None:
    chain = ComputationGraph.from_edges([(i, i + 1) for i in range(9)], np.arange(1, 11), [1.0] * 10)
    frame = mtpp.compare(chain, 3, ["kahn", "simple", "certify"], bandwidth=1, time_limit=1).set_index("method")
    assert frame.primal_integral.notna().tolist() == [True, False, True]
    assert frame.gap_integral.notna().tolist() == [False, True, True]
    end = frame.seconds.max()
    assert (
        (
            (frame[["primal_integral", "gap_integral"]].fillna(0) >= 0)
            & (frame[["primal_integral"]].max() <= end + 1e-9).all()
        )
        .all()
        .all()
    )


def test_bug_a_trace_of_another_form_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line whose trace holds something else than numbers is damaged, and the rest goes on."""
    file = tmp_path / "runs.jsonl"
    chain = ComputationGraph.from_edges([(i, i + 1) for i in range(9)], np.arange(1, 11), [1.0] * 10)
    words = {"bandwidth": 1, "time_limit": 1, "file": file}
    mtpp.compare(chain, 3, ["kahn", "certify"], **words)
    kahn, certified = (json.loads(line) for line in file.read_text().splitlines())
    assert len(certified["trace"][0]) == 3
    for trace in ([["x", 1, 2]], [[1.0, 2.0]], "x", [[True, 1, 1]], [3], []):
        file.write_text("\n".join(json.dumps(run) for run in (kahn, certified | {"trace": trace})) + "\n")
        assert mtpp.compare(chain, 3, ["kahn", "certify"], **words).error.isna().all()
        assert "line 2 is not a run" in capsys.readouterr().err
