"""Schedules: start times of all operations of an iteration, and a check that they are feasible."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from instances.errors import InputError
from instances.graph.display import Displayed, figures
from instances.graph.tensors import FloatArray, IntArray, freeze
from instances.planning.operations import Operation
from instances.planning.plan import Plan

__all__ = ["Execution", "Schedule"]

#: Times are compared up to this part of the makespan.
_ROUNDING = 1e-9


class Execution(Displayed, ABC):
    """One iteration of a plan in time."""

    plan: Plan

    @property
    @abstractmethod
    def makespan(self) -> float:
        """Time of the iteration [s]."""

    @property
    def busy_time(self) -> float:
        """Computing time of all devices together [s]."""
        return float(self.plan.instance.microbatches * (self.plan.replicas * self.plan.stage_time).sum())

    @property
    def utilisation(self) -> float:
        """Part of the iteration that a device of the cluster computes, on average."""
        return self.busy_time / (self.plan.instance.cluster.n * self.makespan) if self.makespan > 0 else 1.0

    def _title(self) -> str:
        return self.plan.instance.chain.name

    def _facts(self) -> dict[str, str]:
        counts = {"stages": str(self.plan.n_stages), "microbatches": str(self.plan.instance.microbatches)}
        return counts | {"makespan": figures(self.makespan, "s"), "devices compute": f"{self.utilisation:.1%}"}


@dataclass(frozen=True, eq=False, repr=False)
class Schedule(Execution):
    """Start of each operation of one iteration; the constructor refuses what cannot be executed.

    A stage is one machine, whose replicas move together; a channel is one machine, or one for each direction in full
    duplex. An AllReduce disturbs nothing. Durations are those of the plan, and nothing is interrupted.

    Parameters
    ----------
    plan : Plan
    forward, backward : (S, M) floats
        Start of each pass of each microbatch in each stage [s].
    send, receive : (S - 1, M) floats
        Start of each transfer of activations to the next stage, and of gradients from it [s].
    allreduce : (S,) floats
        Start of each AllReduce [s]; of no matter for a stage without replicas.

    Raises
    ------
    InputError
        If the shapes do not fit, an operation starts before what it needs has ended, two operations of one machine
        overlap, or a stage keeps more microbatches than its devices have memory for.
    """

    plan: Plan
    forward: FloatArray
    backward: FloatArray
    send: FloatArray
    receive: FloatArray
    allreduce: FloatArray

    def __post_init__(self) -> None:
        stages, microbatches = self.plan.n_stages, self.plan.instance.microbatches
        shapes = dict.fromkeys(("forward", "backward"), (stages, microbatches))
        shapes |= dict.fromkeys(("send", "receive"), (stages - 1, microbatches))
        for label, shape in {**shapes, "allreduce": (stages,)}.items():
            starts = np.array(getattr(self, label), dtype=np.float64)
            if starts.shape != shape:
                raise InputError(f"The starts of {label} have the shape {starts.shape}; give {shape}.")
            if not (np.isfinite(starts) & (starts >= 0)).all():
                raise InputError(f"A start of {label} is not a finite number, 0 or more.")
            freeze(starts)
            object.__setattr__(self, label, starts)
        self._check_precedence()
        self._check_machines()
        self.plan.check_memory(self.in_flight)

    @cached_property
    def makespan(self) -> float:
        """Time of the iteration, equation (2) [s]."""
        ends = self.backward.max(axis=1) + self.plan.backward_time
        synchronised = np.where(self.plan.replicas > 1, self.allreduce + self.plan.allreduce_time, 0.0)
        return float(np.concatenate((ends, synchronised)).max())

    @cached_property
    def in_flight(self) -> IntArray:
        """(S,) largest number of microbatches between the start of their forward and the end of their backward pass."""
        ends = self.backward + self.plan.backward_time[:, None] - _ROUNDING * self.makespan
        most = np.empty(self.plan.n_stages, dtype=np.int64)
        for n, starts in enumerate(np.sort(self.forward, axis=1)):
            most[n] = (np.arange(1, starts.size + 1) - np.searchsorted(np.sort(ends[n]), starts, side="right")).max()
        return most

    @cached_property
    def memory_needed(self) -> FloatArray:
        """(S,) bytes on each device of each stage."""
        return self.plan.memory_needed(self.in_flight)

    def operations(self) -> Iterator[Operation]:
        """All operations, stage by stage; an AllReduce only where there are replicas."""
        plan = self.plan
        for kind, starts, durations in (
            ("forward", self.forward, plan.forward_time),
            ("backward", self.backward, plan.backward_time),
            ("send", self.send, plan.forward_transfer_time),
            ("return", self.receive, plan.backward_transfer_time),
        ):
            for (n, m), start in np.ndenumerate(starts):
                yield Operation(kind, n, m, start=float(start), end=float(start + durations[n]))
        for n in np.flatnonzero(plan.replicas > 1).tolist():
            ready = float(self.allreduce[n])
            yield Operation("allreduce", n, None, start=ready, end=ready + float(plan.allreduce_time[n]))

    def _check_precedence(self) -> None:
        plan = self.plan
        forward_end = self.forward + plan.forward_time[:, None]
        backward_end = self.backward + plan.backward_time[:, None]
        send_end = self.send + plan.forward_transfer_time[:, None]
        receive_end = self.receive + plan.backward_transfer_time[:, None]
        last = plan.n_stages - 1
        rules = (  # (name of the rule, stage of the first row, earliest and actual starts)
            ("activations are sent before the forward pass ends", 0, forward_end[:-1], self.send),
            ("the forward pass starts before the activations are there", 1, send_end, self.forward[1:]),
            ("the backward pass starts before the forward pass ends", last, forward_end[-1:], self.backward[-1:]),
            ("gradients are sent before the backward pass ends", 1, backward_end[1:], self.receive),
            ("the backward pass starts before the gradients are there", 0, receive_end, self.backward[:-1]),
        )
        for what, first, earliest, starts in rules:
            for row, m in np.argwhere(starts < earliest - self._tolerance)[:1]:
                raise InputError(f"Microbatch {m}, stage {first + row}: {what}; start it later.")
        replicated = plan.replicas > 1
        for n in np.flatnonzero(replicated & (self.allreduce < backward_end.max(axis=1) - self._tolerance))[:1]:
            raise InputError(f"Stage {n}: the AllReduce starts before the last backward pass ends; start it later.")

    def _check_machines(self) -> None:
        plan = self.plan
        for n in range(plan.n_stages):
            pairs = [(self.forward[n], plan.forward_time[n]), (self.backward[n], plan.backward_time[n])]
            self._check_machine(f"stage {n}", pairs)
        for n in range(plan.n_stages - 1):
            pairs = [(self.send[n], plan.forward_transfer_time[n]), (self.receive[n], plan.backward_transfer_time[n])]
            for machine in [[pair] for pair in pairs] if plan.instance.full_duplex else [pairs]:
                self._check_machine(f"channel {n}", machine)

    def _check_machine(self, machine: str, pairs: list[tuple[FloatArray, np.float64]]) -> None:
        starts = np.concatenate([start for start, _ in pairs])
        ends = np.concatenate([start + duration for start, duration in pairs])
        order = np.lexsort((ends, starts))
        for i in np.flatnonzero(starts[order][1:] < ends[order][:-1] - self._tolerance)[:1]:
            raise InputError(f"Two operations of {machine} overlap at time {starts[order][i + 1]:.6g}; delay one.")

    @property
    def _tolerance(self) -> float:
        return _ROUNDING * self.makespan
