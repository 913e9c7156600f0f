"""What a run may claim: a partition, a bound, and how far they are apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from instances.errors import FalseCertificateError, InputError
from instances.partitioning.partition import Partition
from instances.partitioning.problem import Instance

__all__ = ["PROOF_TOLERANCE", "Bound", "Result", "Status", "certify"]

#: A partition is called optimal when its bottleneck exceeds a proved bound by at most this relative amount.
PROOF_TOLERANCE = 1e-6
_ROUNDING = 1e-9


class Status(Enum):
    """What is known after a run."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    BOUND = "bound only"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Bound:
    """No partition of the instance has a bottleneck below `value`.

    Parameters
    ----------
    value : float
        In the time unit of the work.
    method : str
        What proved it.
    optimal : bool
        Whether the method ran to its end, so that it cannot prove more.
    witness : mapping
        What lets others check the bound again, such as the nodes it rests on.
    """

    value: float
    method: str
    optimal: bool = True
    witness: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.value < math.inf:
            raise FalseCertificateError(f"{self.method} claims the bound {self.value}; please report this as a bug.")


@dataclass(frozen=True, eq=False)
class Result:
    """Outcome of one run of one method on one instance.

    Parameters
    ----------
    method : str
    instance : Instance
    partition : Partition, optional
    bound : Bound, optional
    seconds : mapping of str to float
        Wall time of each phase.
    solver : str, optional
        Name and version of the solver, if one was used.
    log : str
        What the solver printed.
    interrupted : bool
        Whether Ctrl-C ended the run early; partition and bound are what was known by then.

    Raises
    ------
    FalseCertificateError
        If the bound exceeds the bottleneck.
    InputError
        If the partition answers another question.
    """

    method: str
    instance: Instance
    partition: Partition | None = None
    bound: Bound | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    solver: str | None = None
    log: str = ""
    interrupted: bool = False

    def __post_init__(self) -> None:
        if self.partition is None:
            return
        if self.partition.instance.key != self.instance.key:
            raise InputError("The partition belongs to another instance; combine results of the same one.")
        if self.bound is not None and self.bound.value > self.partition.bottleneck * (1 + _ROUNDING):
            raise FalseCertificateError(
                f"{self.instance.name}, k = {self.instance.k}: bound {self.bound.value!r} of {self.bound.method} "
                f"exceeds the bottleneck {self.partition.bottleneck!r}; please report this as a bug."
            )

    @property
    def ratio(self) -> float | None:
        """Bottleneck over bound, at least 1 up to rounding; infinite if the bound is 0 and the bottleneck is not."""
        if self.partition is None or self.bound is None:
            return None
        bottleneck, bound = self.partition.bottleneck, self.bound.value
        if bound > 0:
            return max(1.0, bottleneck / bound)
        return 1.0 if bottleneck == 0 else math.inf

    @property
    def gap(self) -> float | None:
        """Ratio minus one."""
        return None if self.ratio is None else self.ratio - 1

    @property
    def proved(self) -> bool:
        """Whether the partition is optimal within `PROOF_TOLERANCE`."""
        return self.gap is not None and self.gap <= PROOF_TOLERANCE

    @property
    def status(self) -> Status:
        """What is known."""
        if self.partition is None:
            return Status.NOTHING if self.bound is None else Status.BOUND
        return Status.OPTIMAL if self.proved else Status.FEASIBLE

    def summary(self) -> str:
        """A few aligned lines for people."""
        unit = self.instance.graph.time_unit
        lines = [("instance", f"{self.instance.name}, k = {self.instance.k}"), ("method", self.method)]
        if self.solver is not None:
            lines.append(("solver", self.solver))
        lines.append(("status", self.status.value))
        if self.partition is not None:
            lines.append(("bottleneck", f"{self.partition.bottleneck:.6g} {unit}"))
            lines.append(("throughput", f"{self.partition.throughput:.6g} per {unit}"))
            lines.append(("latency", f"{self.partition.latency:.6g} {unit}"))
        if self.bound is not None:
            lines.append(("bound", f"{self.bound.value:.6g} {unit} ({self.bound.method})"))
        if self.ratio is not None:
            lines.append(("ratio", f"{self.ratio:.6f}"))
        lines.append(("seconds", f"{sum(self.seconds.values()):.2f}"))
        return "\n".join(f"{label:<11} {text}" for label, text in lines)


def certify(*answers: Partition | Result) -> Result:
    """Combine answers to one question: the best partition with the best bound.

    Parameters
    ----------
    *answers : Partition or Result
        At least one; all of the same instance.

    Returns
    -------
    Result
        Method "certify", whose bound keeps the method that proved it.

    Raises
    ------
    InputError
        If the answers belong to different instances.
    FalseCertificateError
        If a bound exceeds the bottleneck of a partition.
    """
    if not answers:
        raise InputError("Nothing to certify; give at least one partition or result.")
    instance = answers[0].instance
    if any(answer.instance.key != instance.key for answer in answers):
        raise InputError("The answers belong to different instances; certify one instance at a time.")
    results = [answer for answer in answers if isinstance(answer, Result)]
    partitions = [answer for answer in answers if isinstance(answer, Partition)]
    partitions += [result.partition for result in results if result.partition is not None]
    proof = max((r for r in results if r.bound), key=lambda r: r.bound.value if r.bound else 0.0, default=None)
    seconds: dict[str, float] = {}
    for result in results:
        seconds[result.method] = seconds.get(result.method, 0.0) + sum(result.seconds.values())
    return Result(
        method="certify",
        instance=instance,
        partition=min(partitions, key=lambda partition: partition.bottleneck, default=None),
        bound=None if proof is None else proof.bound,
        seconds=seconds,
        solver=None if proof is None else proof.solver,
        interrupted=any(result.interrupted for result in results),
    )
