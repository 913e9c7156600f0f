"""Answer to a question of serving: all Pareto-optimal cuts, and the chosen cut that is written for a runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instances.errors import InputError
from instances.graph.display import Displayed, Rows, figures
from instances.partitioning.partition import Partition
from instances.partitioning.serving import ServedPartition, ServingInstance
from instances.partitioning.stated import StatedFront, StatedPoint, StatedStage
from instances.records import written
from instances.runtimes import RUNTIMES


@dataclass(frozen=True, eq=False, repr=False)
class Front(Displayed):
    """All Pareto-optimal cuts by speed and context; its cost is the least time from batch to batch."""

    instance: ServingInstance
    points: tuple[ServedPartition, ...]  # from the fastest to the one with the largest context
    chosen: ServedPartition  # one of them
    runtime: str  # a name of `RUNTIMES`
    #: Throughput of each point at its usable context [1/time unit]; None where the decoder cannot be priced there.
    full_throughput: tuple[float | None, ...] = ()

    @property
    def cost(self) -> float:
        """Time for each batch of the fastest cut [time unit of the question]."""
        return self.points[0].cost

    @property
    def partition(self) -> Partition:
        """The chosen cut."""
        return self.chosen.partition

    @property
    def bottleneck(self) -> float:
        """Bottleneck of the chosen cut [time unit of the question]."""
        return self.chosen.bottleneck

    @property
    def capacity(self) -> float:
        """Largest context of the chosen cut [tokens of each sequence]."""
        return self.chosen.capacity

    @property
    def settings(self) -> str:
        """The chosen cut in the runtime's settings; empty if the runtime cannot express it."""
        return "" if self.unsettled else RUNTIMES[self.runtime].settings(self.chosen)

    @property
    def unsettled(self) -> str:
        """Reason why the runtime cannot express the chosen cut; empty if it can."""
        try:
            RUNTIMES[self.runtime].settings(self.chosen)
        except InputError as error:
            return str(error)
        return ""

    @property
    def measures(self) -> dict[str, str]:
        """Texts by label: runtime, batches in flight, time and context of the chosen cut, and number of cuts."""
        in_flight, time = self.instance.in_flight, figures(self.chosen.cost, self.instance.time_unit)
        return {
            "runtime": self.runtime,
            **({} if in_flight is None else {"batches in flight": str(in_flight)}),
            **({} if self.chosen is self.points[0] else {f"{self.instance.cost_name} of the chosen cut": time}),
            "context": figures(self.chosen.usable_context, "tokens"),
            "cuts": str(len(self.points)),
        }

    def _title(self) -> str:
        return self.instance.label

    def _facts(self) -> Mapping[str, str]:
        return {self.instance.cost_name: figures(self.cost, self.instance.time_unit), **self.measures}

    def _rows(self) -> Rows | None:
        rows = [list(map(figures, (point.cost, point.usable_context, point.capacity))) for point in self.points]
        header = (f"{self.instance.cost_name} [{self.instance.time_unit}]", "context [tokens]", "has room for [tokens]")
        return header, rows


def front_document(front: Front) -> dict[str, Any]:
    """The front as the member `answer` of its file: its cuts, and the chosen one for its runtime."""
    points = tuple(map(_stated, front.points))
    stated = StatedFront(
        front=points, chosen=front.points.index(front.chosen), runtime=front.runtime, settings=front.settings
    )
    return written(stated)


def _stated(point: ServedPartition) -> StatedPoint:
    """A cut as a member of a file."""
    partition = point.partition
    sizes = (partition.param_bytes.tolist(), point.cache_bytes(1).tolist(), partition.peaks.tolist())
    stages = map(StatedStage, *sizes, point.stage_capacity)
    kind = None if partition.instance.is_alike else tuple(partition.kinds_by_name)
    return StatedPoint(tuple(partition.block.tolist()), point.bottleneck, point.capacity, tuple(stages), kind)
