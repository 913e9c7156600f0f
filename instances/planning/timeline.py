"""One iteration in time: start and end of all operations, in any order of passes; and the answer of a planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from instances.errors import InputError, NothingFitsError
from instances.graph.display import Displayed, Rows, figures
from instances.graph.tensors import FloatArray, freeze
from instances.planning.operations import BACKWARD, FORWARD, INPUT, KINDS, WEIGHTS, Moments, Operation, Pass, operations
from instances.planning.plan import Plan
from instances.planning.problem import TrainingInstance

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
    """(G,) peaks of memory of a device of each group, for its passes in this order; times do not matter."""
    stored = np.where(plan.recompute, plan.input_bytes, plan.stored_bytes)
    again = np.where(plan.recompute, plan.stored_bytes, 0.0)
    fixed = plan.instance.parameter_copies * plan.param_bytes
    peaks = []
    for group, order in zip(plan.groups, orders, strict=True):
        kinds, at, _ = np.array(order).T
        forward, backward = kinds == FORWARD, (kinds == BACKWARD) | (kinds == INPUT)
        final = (kinds == BACKWARD) | (kinds == WEIGHTS)
        stages = [n for n, stage in enumerate(plan.devices) if stage == group]
        in_flight, sizes = np.zeros(len(kinds), dtype=np.int64), np.zeros(len(kinds))
        for n in stages:  # during each pass
            in_stage, complete = at == n, np.cumsum((at == n) & final) - ((at == n) & final)
            flying, running = np.cumsum(in_stage & forward) - complete, np.cumsum(in_stage & backward) - complete
            in_flight += flying
            sizes += (flying * stored[n] + running * again[n]) / len(group)
        peak_in_flight, peak_bytes = int(in_flight.max()), float(sizes.max())
        if plan.is_at_once:
            peak_in_flight = plan.instance.microbatches
            peak_bytes = float((peak_in_flight * stored[0] + again[0]) / len(group))
        peaks.append(Peak(peak_in_flight, float(fixed[stages].sum()), peak_bytes))
    return peaks


@dataclass(frozen=True, eq=False, repr=False)
class Timeline(Displayed):
    """Start and end of each operation of one iteration; the constructor refuses what cannot be executed.

    A stage is one machine, whose replicas move together; on the paper's network a channel is one machine, or one for
    each direction in full duplex. Whether transfers end in time on shared cards is for `operations.simulate` to say,
    and for ``mtpp verify`` to check.

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
        If a pass is missing, or an operation starts before what it needs has ended or overlaps with another one of its
        machine.
    NothingFitsError
        If a group does not fit into the memory of its devices.
    """

    plan: Plan
    orders: tuple[tuple[Pass, ...], ...]
    start: Moments
    end: Moments
    order_name: str = ""

    def __post_init__(self) -> None:
        freeze(*self.start, *self.end)
        self._check_shapes()
        self._check_orders()
        self._check_precedence()
        self._check_machines()
        for group, peak in zip(self.plan.groups, self.peaks, strict=True):
            if peak.total > self.plan.instance.memory:
                raise NothingFitsError(
                    f"Stage {self.plan.devices.index(group)} needs {peak.total:.6g} bytes on each device with "
                    f"{peak.in_flight} microbatches in flight; a device has {self.plan.instance.memory:.6g}. Use "
                    "another order, more stages or smaller microbatches.",
                    proved=False,
                )

    @cached_property
    def makespan(self) -> float:
        """Time of the iteration [s]."""
        return max(float(np.nanmax(values, initial=0.0)) for values in self.end)

    @property
    def busy_time(self) -> float:
        """Computing time of all devices together [s]."""
        return float(self.plan.instance.microbatches * (self.plan.replicas * self.plan.stage_time).sum())

    @property
    def utilisation(self) -> float:
        """Part of the iteration that a device of the cluster computes, on average."""
        return self.busy_time / (self.plan.instance.cluster.n * self.makespan) if self.makespan > 0 else 1.0

    @cached_property
    def peaks(self) -> list[Peak]:
        """(G,) peak of memory of a device of each group."""
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
        """Refuse orders that lack a pass, name one twice, or name one of another group."""
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

    def _check_shapes(self) -> None:
        S, M = self.plan.n_stages, self.plan.instance.microbatches
        shapes = [(S, M)] * 3 + [(S - 1, M)] * 2 + [(S,)]
        for moments in (self.start, self.end):
            for name, values, shape in zip(Moments._fields, moments, shapes, strict=True):
                if values.shape != shape:
                    raise InputError(f"The times of {name} have the shape {values.shape}; give {shape}.")
                if name != "weights" and not (np.isfinite(values) & (values >= 0)).all():
                    raise InputError(f"A time of {name} is not a finite number, 0 or more.")

    def _check_precedence(self) -> None:
        """Refuse an operation that starts before what it needs has ended."""
        start, end, slack = self.start, self.end, _ROUNDING * self.makespan
        last = end.backward if not self.split else np.where(np.isnan(end.weights), end.backward, end.weights)
        rules = (  # (name of the rule, stage of the first row, actual and earliest starts)
            ("the forward pass starts before its input is there", 1, start.forward[1:], end.send),
            ("the activations are sent before the forward pass ends", 0, start.send, end.forward[:-1]),
            ("the backward pass starts before the gradients are there", 0, start.backward[:-1], end.receive),
            ("the gradients are sent before the backward pass ends", 1, start.receive, end.backward[1:]),
            ("the backward pass starts before the forward pass ends", 0, start.backward, end.forward),
            ("the gradients of weights come before those of inputs", 0, start.weights, end.backward),
            ("the AllReduce starts before the last backward pass ends", 0, start.allreduce, last.max(axis=1)),
        )
        for what, first, starts, earliest in rules:
            for place in np.argwhere(starts < earliest - slack)[:1]:
                raise InputError(f"Stage {first + place[0]}: {what}; start it later.")

    def _check_machines(self) -> None:
        """Refuse operations of one machine that overlap."""
        start, end, slack = self.start, self.end, _ROUNDING * self.makespan
        for order in self.orders:
            at = np.array([start[_FIELD[kind]][n, m] for kind, n, m in order])
            until = np.array([end[_FIELD[kind]][n, m] for kind, n, m in order])
            for i in np.flatnonzero(at[1:] < until[:-1] - slack)[:1]:
                kind, n, m = order[i + 1]
                raise InputError(f"{n}{KINDS[kind]}{m} starts before the pass before it ends; start it later.")
        if self.plan.instance.network is not None:
            return
        for n in range(self.plan.n_stages - 1):
            ways = [(start.send[n], end.send[n]), (start.receive[n], end.receive[n])]
            for machine in [[way] for way in ways] if self.plan.instance.full_duplex else [ways]:
                starts, ends = (np.concatenate(moments) for moments in zip(*machine, strict=True))
                rank = np.lexsort((ends, starts))
                for i in np.flatnonzero(starts[rank][1:] < ends[rank][:-1] - slack)[:1]:
                    raise InputError(
                        f"Two transfers of channel {n} overlap at time {starts[rank][i + 1]:.6g}; delay one."
                    )

    def _title(self) -> str:
        return self.plan.instance.chain.name

    def _facts(self) -> dict[str, str]:
        counts = {"stages": str(self.plan.n_stages), "microbatches": str(self.plan.instance.microbatches)}
        return counts | {"makespan": figures(self.makespan, "s"), "devices compute": f"{self.utilisation:.1%}"}


_FIELD = {FORWARD: 0, BACKWARD: 1, INPUT: 1, WEIGHTS: 2}


@dataclass(frozen=True, eq=False, repr=False)
class Iteration(Displayed):
    """Answer of a planner: pipelines that run side by side, and the synchronisation of gradients after the last one.

    Parameters
    ----------
    instance : TrainingInstance
    schedules : tuple of Timeline
        One, except where every server runs a pipeline of its own on a part of the cluster, whose devices keep their
        names.
    synchronisation : float
        Time after the last pipeline has ended [s].
    """

    instance: TrainingInstance
    schedules: tuple[Timeline, ...]
    synchronisation: float = 0.0

    @cached_property
    def time(self) -> float:
        """Time of the iteration [s]."""
        return max(schedule.makespan for schedule in self.schedules) + self.synchronisation

    @property
    def cost(self) -> float:
        """Time of the iteration [s]."""
        return self.time

    @property
    def plan(self) -> Plan | None:
        """The plan, if there is only one pipeline."""
        return self.schedules[0].plan if len(self.schedules) == 1 else None

    @property
    def utilisation(self) -> float:
        """Part of the iteration that a device of the cluster computes, on average."""
        busy = sum(schedule.busy_time for schedule in self.schedules)
        return busy / (self.instance.cluster.n * self.time) if self.time > 0 else 1.0

    def _title(self) -> str:
        return self.instance.chain.name

    def _facts(self) -> dict[str, str]:
        counts = {"pipelines": str(len(self.schedules)), "microbatches": str(self.instance.microbatches)}
        return counts | {"time": figures(self.time, "s"), "devices compute": f"{self.utilisation:.1%}"}

    def _rows(self) -> Rows | None:
        return None if self.plan is None else self.plan._rows()
