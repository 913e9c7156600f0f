"""Estimates of training steps: with the constants of a device, calibrated by measured steps, with their spread.

Of n steps that took y as logarithms over what is predicted, constants move by
:math:`θ = C_0 J^T (J C_0 J^T + R)^{-1} (y + J θ)`, four times, J the derivatives of the logarithms of predictions by
those of the constants: a linear fit with what was known before, C_0, and the errors of a measured step, R. What is left
unknown is :math:`C = C_0 - C_0 J^T (J C_0 J^T + R)^{-1} J C_0`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from instances.errors import InputError, printable
from instances.graph.tensors import FloatArray
from instances.json_files import read_json
from instances.planning.grid.accelerators import DTYPES, MEASURED, RUNTIMES, Accelerator, Constants, constants_of
from instances.planning.grid.configurations import ConfiguredChain, Degrees
from instances.planning.grid.layers import DIVIDED, REACHED, Clockwork, LayerCosts, Routing, configured
from instances.planning.grid.plan import GridPlan
from instances.planning.grid.problem import GridInstance, Servers
from instances.planning.grid.transformer import Transformer
from instances.records import read, written

#: Latency of a transfer or an exchange between servers [s]; bytes that the optimizer moves for each parameter.
_LATENCY, UPDATE_BYTES = 20e-6, 42


@dataclass(frozen=True)
class Estimate:
    """Model, device and constants on which the times of layers rest.

    Parameters
    ----------
    model : Transformer
    sequence : int
        Tokens of a sample.
    dtype : str
        One of `DTYPES`.
    device : Accelerator
    runtime : str, optional
        One of `RUNTIMES`.
    constants : Constants
    servers : Servers
        With the bandwidths of data sheets.
    fused : bool
        Whether attention is one kernel.
    routing : Routing
        Routing of tokens to experts.
    modes : tuple of str
        Modes of recomputation that layers may use.
    """

    model: Transformer
    sequence: int
    dtype: str
    device: Accelerator
    runtime: str | None
    constants: Constants
    servers: Servers
    fused: bool = True
    routing: Routing = DIVIDED
    modes: tuple[str, ...] = ()

    @property
    def peak_flops(self) -> float:
        """Peak rate of matrix products in the model's number type [FLOP/s]."""
        return self.device.peak_flops * (self.device.eight if self.dtype == "fp8" else 1.0)

    @property
    def longer(self) -> float:
        """Factor by which a step on all devices takes longer than its operators."""
        return self.constants.longer(self.servers.devices)

    @property
    def reached(self) -> Servers:
        """The servers with the bandwidths that transfers actually reach."""
        return replace(self.servers, reached=REACHED / self.longer, latency=_LATENCY * self.longer)

    @property
    def update_time(self) -> float:
        """Time that the optimizer takes for each parameter [s]."""
        return self.longer * UPDATE_BYTES / (REACHED * self.device.memory_bandwidth)

    def chain(self, micro_batch: int, degrees: tuple[Degrees, ...]) -> ConfiguredChain:
        """The layers with these degrees, for microbatches of `micro_batch` samples."""
        eight = self.constants.gemm if self.dtype == "fp8" else None
        sixteen = self.constants if eight is None else constants_of(self.device, "bf16", self.runtime)
        constants = replace(self.constants, gemm=sixteen.gemm)
        clock = Clockwork(self.device, self.servers.inner, constants, eight, self.longer)
        width, routing, modes = DTYPES[self.dtype], self.routing, self.modes
        costs = LayerCosts(
            self.model, clock, micro_batch, self.sequence, width, self.reached, self.fused, routing, modes
        )
        return configured(costs, degrees, self.dtype)

    def timed(self, question: GridInstance) -> GridInstance:
        """The question with the bandwidths and constants of this estimate; its chains stay the same."""
        return replace(
            question,
            servers=self.reached,
            update_time=self.update_time,
            exposed=min(1.0, self.constants.zero3_exposed),
            whole_experts=self.routing.whole,
        )

    def retimed(self, plan: GridPlan) -> GridPlan:
        """The same plan with the times of this estimate."""
        degrees = tuple(sorted({(t, plan.context, plan.expert) for t in plan.tensor}))
        question = replace(plan.instance, chains=(self.chain(plan.micro_batch, degrees),))
        return replace(plan, instance=self.timed(question))

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm of measured over predicted steps, without calibration."""
        if self.device.name not in MEASURED:
            return _UNMEASURED
        if self.model.experts:
            return _EXPERTS
        return _EIGHT if self.dtype == "fp8" else _SIXTEEN


#: Relative error within which the ratio of two times of a model, with different degrees on the same devices, is
#: predicted for 80 % of the 87 pairs of published steps.
ALIKE = 0.08
#: Standard deviations of the logarithm of measured over predicted time of published steps, and for other devices.
_SIXTEEN, _EIGHT, _EXPERTS, _UNMEASURED = 0.06, 0.075, 0.12, 0.2

#: Constants that measured steps move, with the standard deviations of their logarithms before any step.
_SPREADS = {
    "gemm": 0.08,
    "attention": 0.2,
    "vector": 0.3,
    "tp_exposed": 0.5,
    "zero3_exposed": 0.4,
    "row": 0.5,
    "scale": 0.7,
}
_GEMM_EIGHT = 0.12
_LEAST_EXPOSED, _LEAST, _STEP, _ROUNDS = 0.05, 1e-12, 0.01, 4
#: Quantile of the standard normal distribution for 80 %; how far a step may be from the fit to all steps (logarithm).
_EIGHTY, _CONTRADICTION = 1.28, 0.25
#: Steps are refused that are more than this factor longer or shorter than predicted.
_ABSURD = 10.0


@dataclass(frozen=True)
class Step:
    """A measured step."""

    estimate: Estimate
    plan: GridPlan
    seconds: float
    source: str = ""


@dataclass(frozen=True)
class FittedStep:
    """A measured step used in a calibration, with the time that the fitted constants predict."""

    question: str
    seconds: float
    fitted: float  # [s]
    source: str = ""


@dataclass(frozen=True)
class Calibration:
    """Constants of a device, a type of numbers and a runtime, fitted to measured steps; as in ``mtpp-calibration/1``.

    Parameters
    ----------
    name, device, dtype, runtime, software : str
    constants : Constants
    covariance : 7 rows of 7 floats
        Covariance of the logarithms of the constants, in their order.
    sigma : float
        Standard deviation of the logarithm of a step.
    steps : tuple of FittedStep
    """

    name: str
    device: str
    dtype: str
    runtime: str
    constants: Constants
    covariance: tuple[tuple[float, ...], ...]
    sigma: float
    software: str = ""
    steps: tuple[FittedStep, ...] = ()

    def check(self, device: str, dtype: str, runtime: str | None) -> None:
        """Refuse another device, type or runtime, in one line."""
        others = {"device": (self.device, device), "dtype": (self.dtype, dtype)}
        others["runtime"] = self.runtime, runtime or RUNTIMES[0]
        for what, (measured, asked) in others.items():
            if measured != asked:
                raise InputError(
                    f"The calibration {printable(self.name)} is for {what} {printable(measured)}, and this question "
                    f"has {asked}; calibrate with steps of that."
                )


#: Files of calibrations, and of the steps that they are made of.
CALIBRATION_FORMAT, STEPS_FORMAT = "mtpp-calibration/1", "mtpp-steps/1"


def calibration_document(calibration: Calibration) -> dict[str, Any]:
    """The calibration as JSON."""
    return {"format": CALIBRATION_FORMAT, "calibration": written(calibration)}


def read_calibration(path: str) -> Calibration:
    """Read a file ``mtpp-calibration/1``; an `InputError` names the place of an error."""
    document = read_json(path)
    document.check_format(CALIBRATION_FORMAT)
    value = document.members(("format", "calibration"))["calibration"]
    calibration = read(value, Calibration)
    rows = calibration.covariance
    if len(rows) != len(_SPREADS) or any(len(row) != len(_SPREADS) for row in rows):
        value.fail(f"covariance has not {len(_SPREADS)} rows of {len(_SPREADS)} numbers.")
    if not 0 < calibration.sigma < 1 or np.linalg.eigvalsh(np.array(rows)).min() < -1e-9:
        value.fail("sigma is not between 0 and 1, or covariance is none; calibrate again.")
    return calibration


def _movable(estimate: Estimate) -> Estimate:
    """The estimate with all constants made positive, as their logarithms are fitted."""
    constants = estimate.constants
    floors = {name: _LEAST_EXPOSED if name == "tp_exposed" else _LEAST for name in _SPREADS}
    values = {name: max(getattr(constants, name), least) for name, least in floors.items()}
    return replace(estimate, constants=replace(constants, **values))


def _moved(constants: Constants, theta: FloatArray) -> Constants:
    """Constants whose logarithms are changed by `theta`; fractions are at most 1."""
    values = {
        name: getattr(constants, name) * math.exp(part) for name, part in zip(_SPREADS, theta.tolist(), strict=True)
    }
    parts = {name: min(1.0, value) for name, value in values.items() if name.endswith("exposed")}
    return replace(constants, **values | parts)


def _log_time(estimate: Estimate, plan: GridPlan, theta: FloatArray) -> float:
    moved = replace(estimate, constants=_moved(estimate.constants, theta))
    return math.log(moved.retimed(plan).time)


def _slopes(estimate: Estimate, plan: GridPlan, theta: FloatArray) -> tuple[float, FloatArray]:
    """Logarithm of the time of a plan, and its derivatives by the logarithms of the constants."""
    here = _log_time(estimate, plan, theta)
    steps = _STEP * np.eye(len(theta))
    return here, np.array([(_log_time(estimate, plan, theta + step) - here) / _STEP for step in steps])


def calibrated(steps: Sequence[Step], name: str = "calibration", software: str = "") -> Calibration:
    """Fit the constants to measured steps of one device, type and runtime, beginning with the general ones.

    Raises
    ------
    InputError
        If there is no step, they are of several devices, types or runtimes, or one contradicts the others.
    """
    if not steps:
        raise InputError("There is no step to calibrate with; give at least one.")
    kinds = {(step.estimate.device.name, step.estimate.dtype, step.estimate.runtime or "megatron") for step in steps}
    if len(kinds) > 1:
        raise InputError(
            f"The steps are of {' and '.join(' '.join(kind) for kind in sorted(kinds))}; give one of them."
        )
    unmoved = steps[0].estimate.constants
    steps = [replace(step, estimate=_movable(step.estimate)) for step in steps]
    first = steps[0].estimate
    spreads = np.array([*_SPREADS.values()])
    spreads[0] = _GEMM_EIGHT if first.dtype == "fp8" else spreads[0]
    before, sigma = np.diag(spreads**2), max(step.estimate.sigma for step in steps)
    errors = sigma**2 / 4 * np.eye(len(steps))
    theta = np.zeros(len(spreads))
    for _ in range(_ROUNDS):
        rows = [_slopes(step.estimate, step.plan, theta) for step in steps]
        J = np.array([slopes for _, slopes in rows])
        y = np.array([math.log(step.seconds) - here for step, (here, _) in zip(steps, rows, strict=True)])
        if not theta.any():
            _check_apart(steps, y, math.log(_ABSURD), "what is predicted; check its seconds and words")
        gain = before @ J.T @ np.linalg.inv(J @ before @ J.T + errors)
        theta = gain @ (y + J @ theta)
    residuals = [math.log(step.seconds) - _log_time(step.estimate, step.plan, theta) for step in steps]
    if len(steps) > 1:
        tolerance = max(_CONTRADICTION, 4 * sigma)
        _check_apart(steps, residuals, tolerance, "what all steps together say; check it, or leave it out")
    untold = {name: getattr(unmoved, name) for name, part in zip(_SPREADS, theta.tolist(), strict=True) if part == 0}
    ((device, dtype, runtime),) = kinds
    covariance = before - gain @ J @ before
    return Calibration(
        name,
        device,
        dtype,
        runtime,
        replace(_moved(first.constants, theta), **untold),
        tuple(tuple(row) for row in covariance.tolist()),
        sigma,
        software,
        tuple(
            FittedStep(step.plan.instance.label, step.seconds, step.seconds / math.exp(residual), step.source)
            for step, residual in zip(steps, residuals, strict=True)
        ),
    )


def _check_apart(steps: Sequence[Step], logs: FloatArray | list[float], tolerance: float, what: str) -> None:
    """Refuse the step whose time is furthest from the others, if the logarithms differ by more than `tolerance`."""
    worst = int(np.argmax(np.abs(logs)))
    if abs(logs[worst]) > tolerance:
        step, factor = steps[worst], math.exp(logs[worst])
        times = f"{factor:.2f}" if 0.1 < factor < 100 else f"{factor:.2g}"
        raise InputError(f"Step {worst} ({step.plan.instance.label}) took {step.seconds:g} s, {times} times {what}.")


def spread(estimate: Estimate, plan: GridPlan, calibration: Calibration | None = None) -> float:
    """Factor s such that 80 % of measured steps take from 1 / s to s times the prediction."""
    if calibration is None:
        return math.exp(_EIGHTY * estimate.sigma)
    _, slopes = _slopes(_movable(estimate), plan, np.zeros(len(_SPREADS)))
    variance = float(slopes @ np.array(calibration.covariance) @ slopes) + calibration.sigma**2
    return math.exp(_EIGHTY * math.sqrt(variance))
