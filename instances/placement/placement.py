"""Answer of device placement: a device for every node, its step time and its peak memory."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from instances.errors import InputError
from instances.graph.display import Displayed, Rows, figures
from instances.graph.groups import parameters_by
from instances.graph.tensors import FloatArray, IntArray, freeze, sums_by
from instances.placement.problem import OVERFLOW_WEIGHT, PlacementInstance
from instances.placement.timeline import Timeline, peak_activations, run

__all__ = ["Placement"]


@dataclass(frozen=True, eq=False, repr=False)
class Placement(Displayed):
    """Answer of placement: a device for every node; all costs are computed from `timeline`.

    Raises
    ------
    InputError
        If there is not one device per node, or it does not exist.

    Examples
    --------
    >>> from instances import ComputationGraph
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[6, 6, 0])
    >>> Placement(PlacementInstance(graph, devices=2, bandwidth=3), [0, 1, 0]).step_time
    13.0
    """

    instance: PlacementInstance
    device: IntArray  # (n,): device of each node, 0 to `devices` - 1; devices may be idle

    cost_name: ClassVar[str] = "step time"

    def __init__(self, instance: PlacementInstance, device: ArrayLike) -> None:
        try:
            places = np.array([operator.index(d) for d in np.asarray(device).tolist()], dtype=np.int64)
        except (TypeError, ValueError, OverflowError):
            raise InputError("The devices of a placement must be a plain list of whole numbers.") from None
        n, k = instance.graph.n, instance.devices
        if len(places) != n:
            raise InputError(f"There are {n} nodes but {len(places)} devices in the placement; give one per node.")
        for v in np.flatnonzero((places < 0) | (places >= k))[:1]:
            raise InputError(f"Node {v} ({instance.graph.names[v]}) is on device {places[v]}; use 0 to {k - 1}.")
        freeze(places)
        object.__setattr__(self, "instance", instance)
        object.__setattr__(self, "device", places)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        freeze(self.device)  # pickling forgets it

    @cached_property
    def timeline(self) -> Timeline:
        """Run times of nodes and transfers."""
        return run(self.instance, self.device)

    @property
    def step_time(self) -> float:
        """Time from the start of the first node to the end of the last one."""
        return float(self.timeline.end.max())

    @property
    def cost(self) -> float:
        """The step time."""
        return self.step_time

    @property
    def relative_time(self) -> float:
        """Step time over the time of all nodes on one device without gaps."""
        return self.step_time / self.instance.total_work

    @cached_property
    def param_bytes(self) -> FloatArray:
        """(k,) parameters on each device [bytes]; a shared one counts once on each device that uses it."""
        return parameters_by(self.instance.graph, self.device, self.instance.devices)

    @cached_property
    def state_bytes(self) -> FloatArray:
        """(k,) what the nodes on each device keep from step to step [bytes]."""
        return sums_by(self.device, self.instance.graph.state_bytes, self.instance.devices)

    @cached_property
    def peak_memory(self) -> FloatArray:
        """(k,) largest memory in use on each device, parameters and states included [bytes]."""
        return self.param_bytes + self.state_bytes + peak_activations(self.instance, self.device, self.timeline)

    @property
    def fits(self) -> bool:
        """Whether no device needs more than its memory."""
        return bool((self.peak_memory <= self.instance.memories).all())

    @property
    def penalised_time(self) -> float:
        """Objective of searches: relative time + `OVERFLOW_WEIGHT` · Σ_d max(0, peak_d / memory_d − 1)."""
        if np.isinf(self.instance.memories).all():
            return self.relative_time
        overflow = np.maximum(0.0, self.peak_memory / self.instance.memories - 1)
        return self.relative_time + OVERFLOW_WEIGHT * float(overflow.sum())

    def _title(self) -> str:
        return self.instance.graph.name

    def _facts(self) -> dict[str, str]:
        return {
            "devices": str(self.instance.devices),
            "step time": figures(self.step_time, self.instance.graph.time_unit),
            "relative time": figures(self.relative_time),
            "fits": "yes" if self.fits else "no",
        }

    def _rows(self) -> Rows:
        k, unit = self.instance.devices, self.instance.graph.time_unit
        nodes = np.bincount(self.device, minlength=k).tolist()
        work = np.bincount(self.device, self.instance.graph.work, k)
        columns = np.column_stack((work, self.peak_memory)).tolist()
        rows = [[str(d), str(nodes[d]), *map(figures, row)] for d, row in enumerate(columns)]
        return ["device", "nodes", f"work [{unit}]", "peak memory [bytes]"], rows
