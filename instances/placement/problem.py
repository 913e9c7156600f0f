"""Device placement: which device runs each node of one training step, and how long the step takes.

- `PlacementInstance`: one question; `Placement`: one answer, its step time and its peak memory
- `instances.placement.timeline`: when each node runs and each transfer moves; the only definition of time

Unlike a `Partition`, a placement may send data back and forth between devices. Source: Addanki et al., "Learning
generalizable device placement algorithms for distributed machine learning", NeurIPS 2019 (Placeto).
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray, IntArray, freeze
from instances.partitioning.problem import Platform
from instances.placement.timeline import Timeline, peak_activations, run

__all__ = ["MEASURED_GAPS", "OVERFLOW_WEIGHT", "Placement", "PlacementInstance"]

#: Gaps that Placeto's authors fitted to measurements on Tesla K80 devices [s]; they belong to work in seconds.
MEASURED_GAPS = {"node_gap": 5.7e-6, "transfer_gap": 25e-6}

_ROUNDING, _MOST_DEVICES = 1e-9, 4096

#: What a device pays, in work of the whole graph, for needing twice its memory.
OVERFLOW_WEIGHT = 2.0


@dataclass(frozen=True, eq=False)
class PlacementInstance:
    """One question: on which of some equal devices each node of `graph` should run.

    Parameters
    ----------
    graph : ComputationGraph
        With some work.
    devices : int
        Number of devices, 1 to 4096.
    bandwidth : float
        Bytes per unit of work time on the bus out of each device, positive; infinite makes communication free.
    memory : float
        Memory of each device [bytes], positive; infinite by default.
    node_gap : float
        Time that a device rests after a node with work.
    transfer_gap : float
        Time that a bus rests after a transfer.
    broadcast : bool
        Whether one transfer of a tensor serves all devices that read it. By default each device needs its own.

    Raises
    ------
    InputError
        If a value is out of its range.
    """

    graph: ComputationGraph
    devices: int
    bandwidth: float
    memory: float = math.inf
    node_gap: float = 0.0
    transfer_gap: float = 0.0
    broadcast: bool = False

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "devices", operator.index(self.devices))
        except TypeError:
            raise InputError(f"devices is {self.devices}; it must be a whole number.") from None
        if self.devices > _MOST_DEVICES:
            raise InputError(f"devices is {self.devices}; it must be {_MOST_DEVICES} or less.")
        if self.devices < 1:
            raise InputError(f"devices is {self.devices}; there must be at least 1.")
        platform = Platform(self.devices, self.bandwidth, self.memory)
        object.__setattr__(self, "bandwidth", platform.bandwidth)
        object.__setattr__(self, "memory", platform.memory)
        if self.memory == 0:
            raise InputError("memory is 0; it must be positive.")
        for name in ("node_gap", "transfer_gap"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name} is {getattr(self, name)}; it must be finite, 0 or more.")
        if self.total_work == 0:
            raise InputError(f"{self.graph.name}: no node has work; there is nothing to place.")
        longest = self.total_work + self.graph.n * self.node_gap
        longest += self.devices * float(self.tensor_time.sum() + len(self.tensor_time) * self.transfer_gap)
        if not math.isfinite(longest):
            raise InputError(
                f"At a bandwidth of {self.bandwidth:g} a step of {self.graph.name!r} can take longer than the largest "
                "number; give times and sizes in larger units."
            )

    @cached_property
    def total_work(self) -> float:
        """Time of all nodes one after the other, what step times are compared with."""
        return float(self.graph.work.sum())

    @cached_property
    def lower_bound(self) -> float:
        """Step time that no placement goes below: the work of a longest path, and an even share of all work.

        Nodes on a path run one after the other, and a device runs one node at a time. It is rounded down.
        """
        start, before = self.graph.predecessors
        end = self.graph.work.copy()
        for v in self.graph.topological_order:
            end[v] += end[before[start[v] : start[v + 1]]].max(initial=0.0)
        return max(float(end.max()), self.total_work / self.devices) * (1 - _ROUNDING)

    @cached_property
    def tensor_time(self) -> FloatArray:
        """(t,) time of one transfer of each tensor: bytes over bandwidth."""
        with np.errstate(over="ignore"):  # an infinite one is refused
            return self.graph.tensors.bytes / self.bandwidth


@dataclass(frozen=True, eq=False)
class Placement:
    """One answer: a device for every node; all costs are computed from `timeline`.

    Parameters
    ----------
    instance : PlacementInstance
    device : (n,) integers
        Device of each node, 0 to `devices` - 1; devices may be idle.

    Raises
    ------
    InputError
        If there is not one device per node, or it does not exist.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[6, 6, 0])
    >>> Placement(PlacementInstance(graph, devices=2, bandwidth=3), [0, 1, 0]).step_time
    13.0
    """

    instance: PlacementInstance
    device: IntArray

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
        """When each node runs and each transfer moves."""
        return run(self.instance, self.device)

    @property
    def step_time(self) -> float:
        """Time from the start of the first node to the end of the last one."""
        return float(self.timeline.end.max())

    @property
    def relative_time(self) -> float:
        """Step time over the time of all nodes on one device without gaps."""
        return self.step_time / self.instance.total_work

    @cached_property
    def param_bytes(self) -> FloatArray:
        """(k,) parameters on each device [bytes]; a shared one counts once on each device that uses it."""
        graph, k = self.instance.graph, self.instance.devices
        total = np.bincount(self.device, graph.param_bytes, minlength=k).astype(np.float64)
        for parameter in graph.parameters:
            total[np.unique(self.device[list(parameter.users)])] += parameter.bytes
        return total

    @cached_property
    def peak_memory(self) -> FloatArray:
        """(k,) largest memory in use on each device, parameters included [bytes]."""
        return self.param_bytes + peak_activations(self.instance, self.device, self.timeline)

    @property
    def fits(self) -> bool:
        """Whether no device needs more than its memory."""
        return bool((self.peak_memory <= self.instance.memory).all())

    @property
    def penalised_time(self) -> float:
        """What searches minimise: relative time, and `OVERFLOW_WEIGHT` for each memory's worth of overflow."""
        if math.isinf(self.instance.memory):
            return self.relative_time
        overflow = np.maximum(0.0, self.peak_memory / self.instance.memory - 1)
        return self.relative_time + OVERFLOW_WEIGHT * float(overflow.sum())
