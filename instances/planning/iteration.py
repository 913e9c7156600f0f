"""What a planner answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from instances.graph.display import Displayed, Rows, figures
from instances.planning.plan import Plan
from instances.planning.problem import TrainingInstance
from instances.planning.schedule import Schedule
from instances.planning.timeline import Timeline

__all__ = ["Iteration"]


@dataclass(frozen=True, eq=False, repr=False)
class Iteration(Displayed):
    """What a planner answers: pipelines that run side by side, and what all of them wait for at the end.

    Parameters
    ----------
    instance : TrainingInstance
    schedules : tuple of Schedule or Timeline
        One, except where every server runs a pipeline of its own on a part of the cluster, whose devices keep their
        names.
    synchronisation : float
        Time after the last pipeline has ended [s].
    """

    instance: TrainingInstance
    schedules: tuple[Schedule | Timeline, ...]
    synchronisation: float = 0.0

    cost_name: ClassVar[str] = "time"

    @cached_property
    def time(self) -> float:
        """Time of the iteration [s]."""
        return max(schedule.makespan for schedule in self.schedules) + self.synchronisation

    @property
    def cost(self) -> float:
        """The time of the iteration."""
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
