"""Predicted steps of training beside published ones, and constants that measured steps calibrate."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.studies.training import MeasuredStep, families_section, measured_steps
from instances.errors import InputError
from instances.planning.grid.accelerators import Constants
from instances.planning.grid.estimates import (
    Calibration,
    Estimate,
    Step,
    calibrated,
    calibration_document,
    read_calibration,
    spread,
)

STEPS = {step.row["id"]: step for step in measured_steps()}
#: How far predictions may be from published steps, by family; the last has a later release of the same software.
BARS = {"dense bf16": 1.12, "dense fp8": 1.20, "ZeRO 3": 1.15, "experts": 1.34}


def taken(step: MeasuredStep, seconds: float | None = None) -> Step:
    estimate = step.question.estimate
    assert estimate is not None
    return Step(estimate, step.plan, step.seconds if seconds is None else seconds)


@pytest.mark.parametrize("family", BARS)
def test_predictions_are_near_published_steps(family: str) -> None:
    factors = [step.plan.time / step.seconds for step in STEPS.values() if step.family == family]
    assert len(factors) >= 14
    assert max(max(factors), 1 / min(factors)) <= BARS[family]
    assert 0.97 < np.exp(np.log(factors).mean()) < 1.04


def test_ranges_hold_four_of_five_steps_or_more() -> None:
    inside = [step.is_in_range for step in STEPS.values()]
    assert 0.7 <= sum(inside) / len(inside) <= 0.95
    rows = families_section([STEPS["8b-8"], STEPS["8b-64"]]).rows
    assert [row[:3] for row in rows] == [["dense bf16", "2", "1.027"]]


def test_one_step_moves_the_others_towards_what_was_measured() -> None:
    """All runs of 8 billion parameters are slower than predicted by the same part, here by a tenth."""
    calibration = calibrated([taken(STEPS["8b-8"], 1.1 * STEPS["8b-8"].plan.time)])
    other = STEPS["70b-64"]
    estimate = other.question.estimate
    assert estimate is not None
    moved = replace(estimate, constants=calibration.constants).retimed(other.plan)
    assert 1.05 < moved.time / other.plan.time < 1.1
    assert 1 < spread(estimate, moved, calibration) < math.exp(1.28 * 0.2)


def test_constants_of_simulated_steps_are_found_again() -> None:
    truth = Constants(gemm=0.6, attention=0.45, tp_exposed=0.0)
    steps = []
    for name in ("8b-8", "8b-64", "70b-64", "15b-16", "340b-128", "175b-128"):
        step = STEPS[name]
        estimate = step.question.estimate
        assert estimate is not None
        steps.append(taken(step, replace(estimate, constants=truth).retimed(step.plan).time))
    calibration = calibrated(steps)
    for step in calibration.steps:
        assert step.fitted == pytest.approx(step.seconds, rel=0.01)
    assert calibration.constants.gemm == pytest.approx(0.6, rel=0.03)


def test_bug_constants_that_steps_do_not_tell_are_kept() -> None:
    """Without tensor degree none of its collectives counts; a twentieth of their time was exposed."""
    estimate = STEPS["8b-8"].question.estimate
    assert estimate is not None
    fitted = calibrated([taken(STEPS["8b-8"])]).constants
    for name in ("tp_exposed", "zero3_exposed", "row", "scale"):
        assert getattr(fitted, name) == getattr(estimate.constants, name)


@pytest.mark.parametrize("seconds", [1e9, 1e-9])
def test_bug_an_absurd_step_is_named(seconds: float) -> None:
    """In place of a constant that is out of its range."""
    with pytest.raises(InputError, match=r"Step 0 \(llama-3-8b on 1x8, 128 samples\) took .* predicted; check its"):
        calibrated([taken(STEPS["8b-8"], seconds)])


def test_what_is_left_unknown_shrinks_with_steps() -> None:
    one, two = (calibrated([taken(STEPS[name]) for name in names]) for names in (("8b-8",), ("8b-8", "70b-64")))
    assert (
        np.trace(two.covariance) < np.trace(one.covariance) < 0.08**2 + 0.2**2 + 0.3**2 + 0.5**2 * 2 + 0.4**2 + 0.7**2
    )


def test_steps_that_contradict_each_other_are_named() -> None:
    with pytest.raises(InputError, match=r"Step 1 \(llama-3-8b on 2x8, 256 samples\) took 65 s, .* check it"):
        calibrated([taken(STEPS["8b-8"]), taken(STEPS["8b-16"], 65.0), taken(STEPS["8b-64"])])
    with pytest.raises(InputError, match="The steps are of H100-80 bf16 megatron and H100-80 fp8 megatron"):
        calibrated([taken(STEPS["8b-8"]), taken(STEPS["8b-fp8-8"])])
    with pytest.raises(InputError, match="There is no step"):
        calibrated([])


def test_a_calibration_is_read_as_it_was_written_and_false_ones_are_refused(tmp_path: Path) -> None:
    calibration = calibrated([taken(STEPS["8b-8"])])
    document = calibration_document(calibration)
    file = tmp_path / "c.json"
    file.write_text(json.dumps(document))
    assert read_calibration(str(file)) == calibration
    estimate: Estimate | None = STEPS["8b-fp8-8"].question.estimate
    assert estimate is not None
    with pytest.raises(InputError, match="is for dtype bf16, and this question has fp8"):
        calibration.check(estimate.device.name, estimate.dtype, estimate.runtime)
    for name, value in (
        ("sigma", 0),
        ("covariance", [[1.0]]),
        ("covariance", [[-1.0] * 7] * 7),
        ("constants", {"gemm": -1}),
    ):
        file.write_text(json.dumps({**document, "calibration": {**document["calibration"], name: value}}))
        with pytest.raises(InputError, match=r"c\.json"):
            read_calibration(str(file))
    assert isinstance(calibration, Calibration)
