"""Questions of placement, and placements as files state them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np

from instances.certificates import PLACE, Envelope, envelope, opened, stated_answer
from instances.devices import memory_in_words
from instances.errors import InputError, printable
from instances.graph.display import exact_figures, figures
from instances.graph.memory import held_alone, touched_bytes
from instances.graph.questions import GraphQuestion, digest_of, graph_in_words
from instances.graph.tensors import FloatArray, IntArray, freeze
from instances.json_files import Value
from instances.machines import Machines, devices_document, devices_from_document
from instances.partitioning.problem import GraphMember
from instances.records import By, Floats

# A question of placement, and what shows that nothing fits.


# Question of device placement: a device for each node of one training step, and the time of the step to minimise.
#
# `PlacementInstance` is one question. `instances.placement.placement` says when each node runs and each transfer moves;
# it is the only definition of time.
#
# Unlike a `Partition`, a placement may send data back and forth between devices. Source: Addanki et al., "Learning
# generalizable device placement algorithms for distributed machine learning", NeurIPS 2019 (Placeto).


#: Gaps that Placeto's authors fitted to measurements on Tesla K80 devices [s]; they belong to work in seconds.
MEASURED_GAPS = {"node_gap": 5.7e-6, "transfer_gap": 25e-6}

_ROUNDING = 1e-9

#: Penalty of a device that needs twice its memory, in work of the whole graph.
OVERFLOW_WEIGHT = 2.0


@dataclass(frozen=True, eq=False, repr=False)
class PlacementInstance(GraphQuestion):
    """Question of placement: put each node of a graph on a device so that a step ends as early as possible.

    An answer is a `Placement`; data may go back and forth between devices.

    Parameters
    ----------
    graph : ComputationGraph
        With some work.
    machines : Machines
        At most 4096 devices, which are numbered in the order of their kinds. The bus out of a device moves data at its
        rate to the device that reads it, which no bandwidth of either exceeds. A transfer that serves several devices
        takes as long as that to the slowest.
    node_gap : float
        Time that a device rests after a node with work.
    transfer_gap : float
        Time that a bus rests after a transfer.
    broadcast : bool
        Whether one transfer of a tensor serves all devices that read it. By default each device needs its own.
    works : (T, n) floats, optional
        Time of each node on a device of each kind, 0 on all kinds or on none. By default the work of the graph over the
        speed of the kind.

    Raises
    ------
    InputError
        If a value is out of its range.
    """

    problem: ClassVar[str] = "place"
    cost_name: ClassVar[str] = "step time"
    fit: ClassVar[bool] = True  # memory is a hard limit

    graph: GraphMember
    machines: Annotated[Machines, By(devices_from_document, devices_document)]
    node_gap: float = 0.0
    transfer_gap: float = 0.0
    broadcast: bool = False
    works: Annotated[FloatArray, Floats("T", "n")] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "machines", self.machines.in_sequence)
        for kind in self.machines.kinds:
            if kind.memory == 0:
                raise InputError(f"kind {printable(kind.name)}: memory is 0; it must be positive.")
            if self.works is None and kind.roofline is not None:
                raise InputError(f"kind {printable(kind.name)} has no speed; give the works of all nodes on it.")
        if self.works is not None:
            object.__setattr__(self, "works", self._checked(np.array(self.works, dtype=np.float64)))
        for name in ("node_gap", "transfer_gap"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name} is {getattr(self, name)}; it must be finite, 0 or more.")
        if not self.work.any() or self.total_work == 0:
            raise InputError(f"{self.graph.name}: no node has work; there is nothing to place.")
        with np.errstate(over="ignore"):
            transfers = float((self.graph.tensors.bytes / self.rates.min()).sum())
            longest = float(self.times.max(axis=0).sum()) + self.graph.n * self.node_gap
            longest += self.devices * (transfers + len(self.tensor_time) * self.transfer_gap)
        if not math.isfinite(longest):
            raise InputError(
                f"At a bandwidth of {self.rates.min():g} a step of {self.graph.name!r} can take longer than the "
                "largest number; give times and sizes in larger units."
            )

    def _checked(self, works: FloatArray) -> FloatArray:
        """The works; an `InputError` unless they are times, and a node with work 0 has it on all kinds."""
        names = [kind.name for kind in self.machines.kinds]
        if works.shape != (len(names), self.graph.n):
            raise InputError(f"There are works for {works.shape}; give {len(names)} kinds times {self.graph.n} nodes.")
        for t, v in np.argwhere(~((works >= 0) & (works < math.inf) & ((works > 0) == (works[0] > 0))))[:1].tolist():
            where = f"the work of node {v} ({self.graph.names[v]}) on {printable(names[t])}"
            raise InputError(f"{where} is {works[t, v]}; it must be finite, and 0 on all kinds or on none.")
        freeze(works)
        return works

    @property
    def label(self) -> str:
        """Name of the graph and number of devices, as messages and tables show them."""
        return f"{self.graph.name} on {self.devices} devices"

    @property
    def _figures(self) -> list[list[Any]]:
        """For each kind: count, memory, rates, and its speed or the times of all nodes on it."""
        kinds = self.machines.kinds
        speeds = [kind.speed or 1.0 for kind in kinds] if self.works is None else self.works.tolist()
        columns = zip(kinds, self.rates.tolist(), speeds, strict=True)
        return [[kind.count, kind.memory, rates, speed] for kind, rates, speed in columns]

    @property
    def question_words(self) -> str:
        """The question in one line, with sizes and digests but no names of graph, nodes or devices."""
        rate = exact_figures(self.bandwidth, f"bytes/{self.time_unit}")
        unlike = f"unlike devices, up to {rate} {digest_of(self._figures)}"
        words = [f"k {self.devices}", rate if self.is_symmetric and self.works is None else unlike]
        least = min(kind.memory for kind in self.machines.kinds)
        most = f" to {memory_in_words(self.memory).removeprefix('memory ')}" if least < self.memory else ""
        words += [memory_in_words(least) + most, *(["broadcast"] if self.broadcast else [])]
        if self.node_gap or self.transfer_gap:
            gaps = (exact_figures(gap, self.time_unit) for gap in (self.node_gap, self.transfer_gap))
            words.append(f"gaps {' and '.join(gaps)}")
        return f"{', '.join(words)}; {graph_in_words(self.graph)}"

    @property
    def devices(self) -> int:
        """Number of devices, k."""
        return self.machines.total

    @property
    def is_symmetric(self) -> bool:
        """Whether any two devices can be exchanged: they are of one kind."""
        return len(self.machines.kinds) == 1

    @cached_property
    def kind(self) -> IntArray:
        """(k,) kind of each device."""
        return np.array(self.machines.sequence)

    @cached_property
    def bandwidth(self) -> float:
        """Bytes per unit of work time between the two kinds with the fastest link."""
        return float(self.rates.max())

    @cached_property
    def memory(self) -> float:
        """Memory of the largest device [bytes]."""
        return max(kind.memory for kind in self.machines.kinds)

    @cached_property
    def work(self) -> FloatArray:
        """(n,) time of each node at speed 1: its work in the graph or, with works by kind, the least of these."""
        return self.graph.work if self.works is None else self.works.min(axis=0)

    @cached_property
    def times(self) -> FloatArray:
        """(T, n) time of each node on a device of each kind [time unit of the graph]."""
        if self.works is not None:
            return self.works
        return np.array([self.graph.work / (kind.speed or 1.0) for kind in self.machines.kinds])

    @cached_property
    def total_work(self) -> float:
        """Time of all nodes in sequence on the fastest device [time unit of the graph]; the unit of relative times."""
        return float(self.work.sum()) / float(self.speeds.max())

    @cached_property
    def lower_bound(self) -> float:
        """Lower bound on the step time [time unit of the graph]: the work of a longest path, and an even share of all.

        Nodes on a path run one after the other, and a device runs one node at a time. All nodes count as on the
        fastest device, shares are by speed. It is rounded down.
        """
        start, before = self.graph.predecessors
        end = self.work / self.speeds.max()
        for v in self.graph.topological_order:
            end[v] += end[before[start[v] : start[v + 1]]].max(initial=0.0)
        return max(float(end.max()), float(self.work.sum()) / float(self.speeds.sum())) * (1 - _ROUNDING)

    @cached_property
    def speeds(self) -> FloatArray:
        """(k,) highest speed of each device over all nodes, relative to `work`."""
        if self.works is None:
            return np.array([kind.speed or 1.0 for kind in self.machines.kinds])[self.kind]
        worked = self.work > 0
        return (self.work[worked] / self.works[:, worked]).max(axis=1, initial=0.0)[self.kind]

    @cached_property
    def memories(self) -> FloatArray:
        """(k,) memory of each device [bytes]."""
        return np.array([kind.memory for kind in self.machines.kinds])[self.kind]

    @property
    def rates(self) -> FloatArray:
        """(T, T) bytes per unit of time from a device of each kind to another one of each kind."""
        return self.machines.pair_rates

    @cached_property
    def tensor_time(self) -> FloatArray:
        """(t,) time to transfer each tensor over the fastest link [time unit of the graph]."""
        with np.errstate(over="ignore"):  # an infinite one is refused
            return self.graph.tensors.bytes / self.bandwidth

    def node_time(self, v: int, device: int) -> float:
        """Time of node v on a device [time unit of the graph]."""
        return float(self.times[self.kind[device], v])

    def transfer_time(self, t: int, source: int, targets: Sequence[int]) -> float:
        """Time of the bus out of `source` to move tensor t to the slowest of the targets [time unit of the graph]."""
        rate = self.rates[self.kind[source], self.kind[list(targets)]].min()
        return float(self.graph.tensors.bytes[t] / rate)

    def _title(self) -> str:
        return self.graph.name

    def _facts(self) -> dict[str, str]:
        facts = {"nodes": str(self.graph.n), "edges": str(self.graph.m), "devices": str(self.devices)}
        facts["bandwidth"] = figures(self.bandwidth, f"bytes/{self.graph.time_unit}")
        return facts | ({"memory": figures(self.memory, "bytes")} if math.isfinite(self.memory) else {})


# Proof that no placement fits into the memory of the devices.


#: Sums of bytes may be rounded by this part.
_SLACK = 1e-9


def proof_of_no_fit(instance: PlacementInstance) -> str | None:
    """A sentence that proves that no placement fits into memory; None if that cannot be shown.

    Parameters and states are somewhere all the time, shared ones at least once. While a node runs that takes time, its
    device holds its parameters and state, and the tensors that it reads and makes.
    """
    graph, largest = instance.graph, float(instance.memories.max())
    if not np.isfinite(largest):
        return None
    resident = float(graph.held_bytes.sum()) + sum(parameter.bytes for parameter in graph.parameters)
    total = float(instance.memories.sum())
    if resident * (1 - _SLACK) > total:
        return f"parameters and states need {resident:.6g} bytes, all devices together have {total:.6g}"
    needed = _while_running(instance)
    v = int(needed.argmax())
    if needed[v] * (1 - _SLACK) > largest:
        return (
            f"node {v} ({graph.names[v]}) needs {needed[v]:.6g} bytes with what it reads and makes, the largest device "
            f"has {largest:.6g}"
        )
    return None


def _while_running(instance: PlacementInstance) -> FloatArray:
    """(n,) bytes on a device while each node runs: what only this node uses, and the tensors it touches."""
    graph = instance.graph
    return held_alone(graph) + np.where(instance.work > 0, touched_bytes(graph), 0.0)


# Placements in files as raw records: statements that are not checked.


@dataclass(frozen=True, kw_only=True)
class PlacementMembers:
    """Fields of a placement in its answer file."""

    device: tuple[int, ...]
    sequence: tuple[int, ...]  # nodes in the order in which they start
    peak_memory: tuple[float, ...]
    nodes: tuple[tuple[str, ...], ...]  # names of the nodes on each device
    # Nodes of each device and transfers of each bus in sequence; None where the first that is ready is served first.
    device_order: tuple[tuple[int, ...], ...] | None = None
    bus_order: tuple[tuple[tuple[int, ...], ...], ...] | None = None


@dataclass(frozen=True, kw_only=True)
class StatedPlacement(PlacementMembers, Envelope):
    """Placement of a file: its question, devices, and costs that are not checked yet."""

    instance: PlacementInstance

    answer_name: ClassVar[str] = "placement"


def placement_from_document(document: Value) -> StatedPlacement:
    """The placement of a file with its question.

    Raises
    ------
    InputError
        If this is no placement, it does not hold its question, or it names a field or a method that this project does
        not have; the message names the place.
    """
    fields = opened(document, PLACE)
    instance, members = PlacementInstance.of_document(fields["question"]), stated_answer(fields, PlacementMembers)
    if (members.device_order is None) != (members.bus_order is None):
        fields["answer"].fail("there is one of device_order and bus_order; give both, or neither.")
    return StatedPlacement(**envelope(fields, PLACE), instance=instance, **vars(members))
