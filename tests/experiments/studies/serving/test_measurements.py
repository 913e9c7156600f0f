"""Predictions of deployments beside published measurements."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.studies.serving.measurements import FIRST, RATE, TOKEN, factors, measured_section, measurements

ROWS = measurements()


@pytest.mark.parametrize(
    ("metric", "source", "mean", "part"),
    [
        (RATE, "v0.14", 1.20, 1.40),
        (RATE, "never in the fit", 1.20, 1.40),
        (RATE, "v1.0 docs perf-overview.md", 1.20, 1.75),
        (TOKEN, "online", 1.20, 1.40),
        (FIRST, "online", 1.20, 1.50),
    ],
)
def test_predictions_are_near_measurements(metric: str, source: str, mean: float, part: float) -> None:
    apart = np.abs(factors([row for row in ROWS if row.metric == metric and source in row.source]))
    assert np.exp(apart.mean()) <= mean
    assert np.exp(np.quantile(apart, 0.9)) <= part


@pytest.mark.parametrize("left_out", ["llama-3-70b", "mixtral-8x7b", "A100", "H200", "L40S"])
def test_no_model_or_device_is_far_off(left_out: str) -> None:
    rows = [row for row in ROWS if row.metric == RATE and left_out in (row.model, row.device)]
    assert np.exp(np.abs(factors(rows)).mean()) <= 1.25


def test_the_table_has_a_row_for_each_source_and_number() -> None:
    section = measured_section()
    assert sum(int(row[2]) for row in section.rows) == len(ROWS) == 478
