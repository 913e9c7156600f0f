"""What is measured of a run: period, latency, busy shares; its trace and its picture say the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from mtpp.plots.plans import trial_figure
from mtpp.plots.style import save_figure
from mtpp.stages.manifest import FileRecord, Manifest, Received, Sent, StageRecord, TensorRecord
from mtpp.stages.trial import Agreement, Trial, chrome_trace

A, B = TensorRecord("a", "float", (2,)), TensorRecord("b", "float", (2,))


def stage(inputs: tuple[Received, ...], outputs: tuple[Sent, ...], time: float) -> StageRecord:
    return StageRecord(
        block=2 * len(inputs),
        file="stage.onnx",
        sha256="",
        weights=None,
        nodes=1,
        inputs=inputs,
        outputs=outputs,
        time=time,
        work=time,
        parameter_bytes=0.0,
        peak_bytes=0.0,
    )


@pytest.fixture
def trial() -> Trial:
    """Two stages of 2 ms and 4 ms, the second one idle at first; 20 requests, with the core half of the time."""
    begin = np.arange(20)
    first = np.column_stack((begin * 4e-3, begin * 4e-3 + 2e-3, np.full(20, 1e-3)))
    second = np.column_stack((begin * 4e-3 + 2e-3, begin * 4e-3 + 6e-3, np.full(20, 2e-3)))
    manifest = Manifest(
        model="net$.onnx",
        model_sha256="",
        graph_hash="",
        question_hash="",
        k=3,
        bandwidth=None,
        bottleneck=3e-3,
        certificate=FileRecord("certificate.json", ""),
        inputs=(),
        outputs=(B,),
        samples=None,
        stages=(stage((), (A.sent((1,)),), 2e-3), stage((A.received(0),), (B.sent(()),), 3e-3)),
    )
    events = np.array([first, second]) + np.array([100.0, 100.0, 0.0])
    return Trial(manifest, events, [0, 1], Agreement(2, 1, 1e-7, 1e-3, None))


def test_measures(trial: Trial) -> None:
    assert trial.period == pytest.approx(4e-3)
    assert trial.latency == pytest.approx(6e-3)
    assert trial.over_predicted == pytest.approx(4 / 3)
    assert trial.computing == pytest.approx([2e-3, 4e-3])
    assert trial.processor == pytest.approx([1e-3, 2e-3])
    assert trial.busy == pytest.approx([20 * 2 / 78, 1.0])
    document = trial.document()
    assert [row["block"] for row in document["stages"]] == [0, 2]
    assert document["outputs"] == {"requests": 2, "exact": 1, "worst": 1e-7, "allowed": 1e-3, "name": None}


def test_requests_that_fill_the_pipeline_do_not_count(trial: Trial) -> None:
    """Two stages: the first two gaps are of 40 ms, and the median of all others is the period."""
    filling = np.concatenate((np.zeros(1), np.full(19, 36e-3)))
    filling[2:] += 36e-3
    slow = replace(trial, events=trial.events + filling[None, :, None] * [1, 1, 0])
    assert np.diff(slow.finished)[:3] == pytest.approx([40e-3, 40e-3, 4e-3])
    assert slow.period == pytest.approx(4e-3)
    assert replace(slow, events=slow.events[:, :4]).period == pytest.approx(4e-3)
    assert replace(slow, events=slow.events[:, :3]).period is None


def test_the_trace_has_all_requests_of_all_stages(trial: Trial) -> None:
    events = [event for event in chrome_trace(trial)["traceEvents"] if event["ph"] == "X"]
    assert len(events) == 40
    assert min(event["ts"] for event in events) == 0
    assert [event["dur"] for event in events[20:]] == pytest.approx([4e3] * 20)


def test_the_picture_says_what_was_measured(trial: Trial, tmp_path: Path) -> None:
    figure = trial_figure(trial)
    assert isinstance(figure, Figure)
    requests, times = figure.axes
    assert (requests.get_title(loc="left"), requests.get_xlabel()) == ("The last 12 requests", "time [ms]")
    assert len(requests.collections[0].get_paths()) == 24
    widths = [path.get_extents().width for path in times.collections[0].get_paths()]
    assert widths == pytest.approx([2, 1, 2, 3, 2, 4])
    for suffix in ("svg", "png"):
        save_figure(figure, tmp_path / f"run.{suffix}")
