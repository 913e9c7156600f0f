"""From command-line words to graphs, instances and options."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instances import ComputationGraph, InputError, Instance, Platform
from instances.devices.roofline import Device
from instances.errors import InputWarning
from instances.partitioning.constraints import Constraints
from instances.partitioning.constraints_file import read_constraints
from instances.readers import load_graph
from instances.registry import find
from instances.suites import SUITES
from mtpp.cli import options
from mtpp.text.parsing import parse_bandwidth, parse_bytes, parse_counts, parse_dims, parse_flops, parse_throughput

if TYPE_CHECKING:
    from mtpp_models import SolveOptions

__all__ = [
    "AUTO",
    "NO_ROOFS",
    "OpenQuestion",
    "PartitioningQuestion",
    "Reading",
    "Roofs",
    "Solving",
    "bandwidth_of",
    "enough_for",
    "load_targets",
    "memory_limits",
]

#: What stands for the least number of blocks that will do.
AUTO = "auto"
# What --bandwidth is if the work is in seconds [bytes/s].
_DEFAULT_BANDWIDTH = 25e9


@dataclass(frozen=True)
class Roofs:
    """The device whose roofline model prices what has no times; the fields are the words of the command line."""

    peak_flops: options.PeakFlops = None
    memory_bandwidth: options.MemoryBandwidth = None

    def device(self) -> Device | None:
        """The device, if a roof of it is given.

        Raises
        ------
        InputError
            If one is no such quantity, or not positive.
        """
        roofs = {}
        if self.peak_flops is not None:
            roofs["peak_flops"] = parse_flops(self.peak_flops, "--peak-flops")
        if self.memory_bandwidth is not None:
            roofs["memory_bandwidth"] = parse_bandwidth(self.memory_bandwidth, option="--memory-bandwidth")
        return Device(**roofs) if roofs else None


#: The usual device.
NO_ROOFS = Roofs()


@dataclass(frozen=True)
class Reading:
    """How a graph is read; the fields are the words of the command line."""

    dim: options.Dim = None
    level: options.Level = "operator"
    training: options.Training = False
    reader: options.Reader = None
    communication: options.Communication = "size"
    input_work: options.InputWork = None
    time_unit: options.TimeUnit = None
    roofs: Roofs = NO_ROOFS

    def load(self, spec: str, **options: Any) -> ComputationGraph:
        """The graph of an architecture or a file.

        Parameters
        ----------
        spec : str
        **options
            Of `load_graph`, those that are no fields here.

        Raises
        ------
        InputError
            If an option or the graph is refused.
        """
        return load_graph(
            spec, dims=parse_dims(self.dim or ()), level=self.level, training=self.training, reader=self.reader,
            communication=self.communication, input_work=self.input_work, time_unit=self.time_unit,
            device=self.roofs.device(), **options,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PartitioningQuestion:
    """What is to be partitioned; the fields are the words of the command line."""

    graph: options.Graph
    blocks: options.Blocks
    bandwidth: options.Bandwidth = None
    memory: options.Memory = None
    activation_buffer: options.ActivationBuffer = None
    fit: options.Fit = False
    constraints: options.ConstraintsFile = None
    colour_classes: options.ColourClasses = False
    runtime: options.For = None
    reading: Reading

    def instances(self) -> list[Instance]:
        """One instance for each k.

        Raises
        ------
        InputError
            If an option or the graph is refused.
        """
        return self._instances(parse_counts(self.blocks))

    def _instances(self, counts: Sequence[int] | None) -> list[Instance]:
        limits = memory_limits(self.memory, self.activation_buffer)
        graph = self.reading.load(self.graph)
        costs_given = self.bandwidth is None and self.reading.communication == "cost"
        rate = 1.0 if costs_given else bandwidth_of(graph, self.bandwidth)
        rules = Constraints() if self.constraints is None else read_constraints(self.constraints, graph)
        rules += _same_colour(graph) if self.colour_classes else Constraints()
        rules += Constraints() if self.runtime is None else _legal_for(self.runtime, graph)
        platforms = [Platform(k, rate, *limits, fit=self.fit) for k in counts or [rules.fewest_blocks]]
        return [Instance(graph, platform, constraints=rules) for platform in platforms]


@dataclass(frozen=True, kw_only=True)
class OpenQuestion(PartitioningQuestion):
    """A question that may leave k open."""

    blocks: options.BlocksOrAuto
    throughput: options.Throughput = None

    def instances(self) -> list[Instance]:
        """One instance for each k; one for the least that the constraints name if k is open.

        Raises
        ------
        InputError
            If an option or the graph is refused.
        """
        if self.blocks == AUTO:
            return self._instances(None)
        if self.throughput is not None:
            raise InputError(f"--throughput {self.throughput}: it is for -k {AUTO}; leave it out, or give that.")
        return super().instances()

    def enough(self, instance: Instance) -> float | None:
        """The bottleneck to reach if k is open, in the time unit of the work; infinite if fitting will do; else None.

        Raises
        ------
        InputError
            If there is nothing to reach.
        """
        return enough_for(instance, self.throughput) if self.blocks == AUTO else None


def enough_for(question: Instance, throughput: str | None) -> float:
    """The bottleneck that reaches a throughput, in the time unit of the work; infinite if fitting will do.

    Raises
    ------
    InputError
        If the text is none, or there is nothing to reach.
    """
    if throughput is not None:
        return 1 / parse_throughput(throughput, question.time_unit)
    if not question.platform.fit:
        raise InputError(f"{question.name}: say what the least k has to reach; give --fit, --throughput or both.")
    return math.inf


def _same_colour(graph: ComputationGraph) -> Constraints:
    classes = graph.attributes.get("colour_classes")
    if not classes:
        raise InputError(f"--colour-classes: {graph.name} has none; leave this option out.")
    told = f"{len(classes)} colour classes keep {sum(map(len, classes))} of {graph.n} nodes together."
    warnings.warn(f"{graph.name}: {told}", InputWarning, stacklevel=2)
    return Constraints.of(graph, together=classes)


@dataclass(frozen=True)
class Solving:
    """How models are solved; the fields are the words of the command line."""

    solver: options.Solver = "highs"
    time_limit: options.TimeLimit = 60.0
    gap: options.Gap = 0.0
    threads: options.Threads = 1
    seed: options.Seed = 0

    def options(self) -> SolveOptions:
        """The same as a model takes it.

        Raises
        ------
        InputError
            If a value is out of its range.
        """
        from mtpp_models import SolveOptions

        return SolveOptions(**vars(self))


def _legal_for(runtime: str, graph: ComputationGraph) -> Constraints:
    from instances.runtimes import RUNTIMES

    return find(RUNTIMES, runtime, "runtime").rules(graph)


def load_targets(
    targets: Sequence[str], blocks: str, bandwidth: str | None, memory: str | None, activation_buffer: str | None
) -> list[Instance]:
    """One instance per k of each graph of the suites, architectures and files in `targets`.

    Raises
    ------
    InputError
        If an option or a graph is refused, or `bandwidth` is given for a suite, which has its own.
    """
    counts = parse_counts(blocks)
    limits = memory_limits(memory, activation_buffer)
    found = []
    for target in targets:
        if target not in SUITES:
            graph = _load(target)
            found += [Instance(graph, Platform(k, bandwidth_of(graph, bandwidth), *limits)) for k in counts]
            continue
        if bandwidth is not None:
            raise InputError(
                f"--bandwidth {bandwidth}: the suite {target} has its own bandwidths; leave this option out."
            )
        for entry in SUITES[target].entries:
            graph = entry.build()
            found += [Instance(graph, Platform(k, entry.bandwidth, *limits), entry.name) for k in counts]
    return found


def _load(target: str) -> ComputationGraph:
    try:
        return load_graph(target)
    except InputError as error:
        if Path(target).exists() or "no file" not in str(error):
            raise
        raise InputError(f"{error} Suites are {', '.join(SUITES)}.") from None


def memory_limits(memory: str | None, activation_buffer: str | None) -> tuple[float, float | None]:
    """Memory of a block and the part of it for activations [bytes], as a `Platform` takes them.

    Raises
    ------
    InputError
        If one is no size, or there is a part without a whole.
    """
    if activation_buffer is not None and memory is None:
        raise InputError(f"--activation-buffer {activation_buffer}: it is a part of --memory; give that as well.")
    return (
        float("inf") if memory is None else parse_bytes(memory, "--memory"),
        None if activation_buffer is None else parse_bytes(activation_buffer, "--activation-buffer"),
    )


def bandwidth_of(graph: ComputationGraph, text: str | None, default: float = _DEFAULT_BANDWIDTH) -> float:
    """What ``--bandwidth`` says, or the default [bytes per unit of work time].

    Raises
    ------
    InputError
        If the text is no rate, or missing although the work of the graph is not in seconds.
    """
    if text is not None:
        return parse_bandwidth(text, graph.time_unit, plausible=_plausible_bandwidth(graph))
    if graph.time_unit != "s":
        raise InputError(
            f"{graph.name}: the work is in units of {graph.time_unit!r}; "
            f"give --bandwidth, the bytes per {graph.time_unit}."
        )
    return default


def _plausible_bandwidth(graph: ComputationGraph) -> float:
    """The rate below which to send the largest tensor takes longer than all work."""
    work = float(graph.work.sum())
    return float(graph.tensors.bytes.max(initial=0.0)) / work if work > 0 else 0.0
