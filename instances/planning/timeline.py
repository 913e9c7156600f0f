"""Start and end times of all operations of an iteration, in any order of passes and on shared network cards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from instances.errors import InputError
from instances.graph.tensors import FloatArray, freeze
from instances.planning.operations import BACKWARD, FORWARD, INPUT, KINDS, WEIGHTS, Moments, Operation, Pass, operations
from instances.planning.plan import Plan
from instances.planning.schedule import Execution

__all__ = ["Peak", "Timeline", "memory_peaks"]

#: Times are compared up to this part of the makespan.
_ROUNDING = 1e-9


class Peak(NamedTuple):
    """Memory of each device of a group at its peak."""

    in_flight: int  # microbatches between the start of their forward and the end of their backward passes
    fixed: float  # parameters, gradients and the optimizer's state [bytes a device]
    activations: float  # activations kept for backward passes [bytes a device]

    @property
    def total(self) -> float:
        """Sum of both parts [bytes a device]."""
        return self.fixed + self.activations


def memory_peaks(plan: Plan, orders: Sequence[Sequence[Pass]]) -> list[Peak]:
    """(G,) what each group holds at most if it takes its passes in this order; times do not matter."""
    kept = np.where(plan.recompute, plan.input_bytes, plan.stored_bytes) / plan.replicas
    again = np.where(plan.recompute, plan.stored_bytes, 0.0) / plan.replicas
    fixed = plan.instance.parameter_copies * plan.param_bytes
    peaks = []
    for group, order in zip(plan.groups, orders, strict=True):
        count = most = 0
        held = largest = 0.0
        for kind, n, _ in order:
            if kind == FORWARD:
                count, held = count + 1, held + kept[n]
            elif kind != WEIGHTS:
                held += again[n]
            most, largest = max(most, count), max(largest, held)
            if kind in (BACKWARD, WEIGHTS):
                count, held = count - 1, held - kept[n] - again[n]
        stages = [n for n, stage in enumerate(plan.devices) if stage == group]
        if plan.is_at_once:
            most = plan.instance.microbatches
            largest = float(most * kept[0] + again[0])
        peaks.append(Peak(most, float(fixed[stages].sum()), float(largest)))
    return peaks


@dataclass(frozen=True, eq=False, repr=False)
class Timeline(Execution):
    """Start and end of each operation of one iteration; the constructor refuses what cannot be executed.

    Whether transfers end in time on shared cards is for `operations.simulate` to say, and for ``mtpp verify`` to check.

    Parameters
    ----------
    plan : Plan
    orders : tuple of G tuples of Pass
        Passes of each group of `Plan.groups`, in the order in which it takes them.
    start, end : Moments
    order_name : str
        Name of this order.

    Raises
    ------
    InputError
        If a pass is missing, an operation starts before what it needs has ended or overlaps with another one of its
        group, or a group does not fit into the memory of its devices.
    """

    plan: Plan
    orders: tuple[tuple[Pass, ...], ...]
    start: Moments
    end: Moments
    order_name: str = ""

    def __post_init__(self) -> None:
        freeze(*self.start, *self.end)
        self._check_orders()
        self._check_precedence()
        for group, peak in zip(self.plan.groups, self.peaks, strict=True):
            if peak.total > self.plan.instance.memory:
                raise InputError(
                    f"Stage {self.plan.devices.index(group)} needs {peak.total:.6g} bytes on each device with "
                    f"{peak.in_flight} microbatches in flight; a device has {self.plan.instance.memory:.6g}. Use "
                    "another order, more stages or smaller microbatches."
                )

    @cached_property
    def makespan(self) -> float:
        """Time of the iteration [s]."""
        return max(float(np.nanmax(values, initial=0.0)) for values in self.end)

    @cached_property
    def peaks(self) -> list[Peak]:
        """(G,) what each group holds at most."""
        return memory_peaks(self.plan, self.orders)

    @property
    def memory_needed(self) -> FloatArray:
        """(S,) bytes on each device of each stage, with all stages of its group."""
        return np.array([self.peaks[self.plan.groups.index(stage)].total for stage in self.plan.devices])

    @property
    def split(self) -> bool:
        """Whether backward passes are split into their two parts."""
        return any(kind == WEIGHTS for order in self.orders for kind, _, _ in order)

    @property
    def interleaved(self) -> bool:
        """Whether a group runs several stages."""
        return len(self.plan.groups) < self.plan.n_stages

    def operations(self) -> Iterator[Operation]:
        """All operations, kind by kind; an AllReduce only where there are replicas."""
        for operation in operations(self.start, self.end):
            if operation.kind != "allreduce" or self.plan.replicas[operation.stage] > 1:
                yield operation

    def _check_orders(self) -> None:
        plan, M = self.plan, self.plan.instance.microbatches
        if len(self.orders) != len(plan.groups):
            raise InputError(f"There are {len(self.orders)} orders for {len(plan.groups)} groups of devices.")
        for group, order in zip(plan.groups, self.orders, strict=True):
            counts = Counter(order)
            for n in (n for n, stage in enumerate(plan.devices) if stage == group):
                for m in range(M):
                    kinds = [kind for kind in range(4) if counts.pop((kind, n, m), 0) == 1]
                    if kinds not in ([FORWARD, BACKWARD], [FORWARD, INPUT, WEIGHTS]):
                        raise InputError(f"Stage {n} does not run both passes of microbatch {m} once; say each once.")
            for kind, n, m in counts:
                raise InputError(f"The order names {n}{KINDS[kind]}{m}, which its group does not run; leave it out.")

    def _check_precedence(self) -> None:
        start, end, slack = self.start, self.end, _ROUNDING * self.makespan
        last = end.backward if not self.split else np.where(np.isnan(end.weights), end.backward, end.weights)
        rules = (
            ("the forward pass starts before its input is there", start.forward[1:], end.send),
            ("the activations are sent before the forward pass ends", start.send, end.forward[:-1]),
            ("the backward pass starts before the gradients are there", start.backward[:-1], end.receive),
            ("the gradients are sent before the backward pass ends", start.receive, end.backward[1:]),
            ("the backward pass starts before the forward pass ends", start.backward, end.forward),
            ("the gradients of weights come before those of inputs", start.weights, end.backward),
            ("the AllReduce starts before the last backward pass ends", start.allreduce, last.max(axis=1)),
        )
        for what, starts, earliest in rules:
            for place in np.argwhere(starts < earliest - slack)[:1]:
                raise InputError(f"Stage {place[0]}: {what}; start it later.")
        for order in self.orders:
            at = np.array([start[_FIELD[kind]][n, m] for kind, n, m in order])
            until = np.array([end[_FIELD[kind]][n, m] for kind, n, m in order])
            for i in np.flatnonzero(at[1:] < until[:-1] - slack)[:1]:
                kind, n, m = order[i + 1]
                raise InputError(f"{n}{KINDS[kind]}{m} starts before the pass before it ends; start it later.")


_FIELD = {FORWARD: 0, BACKWARD: 1, INPUT: 1, WEIGHTS: 2}
