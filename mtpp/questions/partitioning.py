"""Questions of partitioning: graph, devices and rules."""

from __future__ import annotations

import math
import operator
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from os import PathLike, fspath
from typing import Annotated, Any, TypedDict

import numpy as np

from instances import ComputationGraph, InputError, Partition, Platform, Result
from instances.devices import MOST_BLOCKS
from instances.errors import (
    InputWarning,
    WordError,
    assume,
    disregard,
    find,
    printable,
    said,
    unknown,
    warn_if_given,
    word,
)
from instances.graph.display import figures
from instances.graph.tensors import FloatArray
from instances.json_files import missing
from instances.machines import Kind, Machines, devices_of_text, read_kinds
from instances.partitioning.constraints import KINDS, BlockRules, Constraints, read_constraints
from instances.partitioning.problem import Instance
from instances.runtimes import RUNTIMES, Runtime
from mtpp.questions.reading import NetworkWords, ReadingWords, read_graph
from mtpp.questions.words import (
    LIMITS,
    MACHINES,
    SEARCH,
    GapWords,
    GraphLike,
    ProofWords,
    RunningWords,
    SeedWords,
    SolverOptionWords,
    SolvingWords,
    TrialWords,
    Word,
    chosen,
    pick,
)
from mtpp.text.numbers import Quantity, parse_bandwidth, parse_bytes, parse_counts, parse_throughput

# Platforms from words: bandwidth and memory of blocks.


#: Where the work is in seconds [bytes/s].
DEFAULT_BANDWIDTH = 25e9


class BandwidthWords(TypedDict, total=False):
    """Keyword arguments: the links between blocks."""

    bandwidth: Annotated[
        Quantity | None,
        Word(
            "Between blocks: 25GB/s, 200Gbps, or a bare number, the bytes per unit of work time.  "
            "[default: 25GB/s; 1 where communication is cost]",
            None,
            "RATE",
            MACHINES,
            basic=True,
        ),
    ]


class DeviceMemoryWords(TypedDict, total=False):
    """Keyword arguments: the memory of a device."""

    memory: Annotated[
        Quantity | None,
        Word(
            "Of a device: 16GB, 16GiB, or a number of bytes.  [default: no limit]", None, "BYTES", MACHINES, basic=True
        ),
    ]


class MemoryWords(TypedDict, total=False):
    """Keyword arguments: the memory for a block."""

    memory: Annotated[
        Quantity | None,
        Word(
            "Of a block: 16GB, 16GiB, or a number of bytes.  [default: no limit]", None, "BYTES", MACHINES, basic=True
        ),
    ]
    activation_buffer: Annotated[
        Quantity | None, Word("Part of the memory that is kept for activations.", None, "BYTES", MACHINES)
    ]
    fit: Annotated[bool, Word("The memory is a hard limit: what does not fit is no answer.", False, panel=MACHINES)]


class PlatformWords(BandwidthWords, MemoryWords, total=False):
    """Keyword arguments: the devices, without their number."""


def platform_of(
    graph: ComputationGraph, k: int, words: PlatformWords, stated: Mapping[str, float | None], *, costs: bool = False
) -> Platform:
    """The platform from keyword arguments or, where these are missing, from a file.

    Parameters
    ----------
    graph : ComputationGraph
    k : int
    words : PlatformWords
    stated : mapping
        Bandwidth, memory, activation_buffer and fit, as far as the file has them.
    costs : bool
        Whether the bandwidth is 1 if neither arguments nor file state it.
    """
    bandwidth, rate = words["bandwidth"], stated.get("bandwidth")
    if bandwidth is not None or rate is None:
        rate = 1.0 if bandwidth is None and costs else bandwidth_of(graph, bandwidth)
    memory, buffer = stated.get("memory"), stated.get("activation_buffer")
    if words["memory"] is not None or words["activation_buffer"] is not None:
        memory, buffer = memory_limits(words["memory"], words["activation_buffer"])
    return Platform(
        k, rate, memory_of(None) if memory is None else memory, buffer, words["fit"] or bool(stated.get("fit"))
    )


def memory_limits(
    memory: Quantity | None, activation_buffer: Quantity | None, *, by_kind: bool = False
) -> tuple[float, float | None]:
    """Memory of a block and the part of it for activations [bytes], as a `Platform` takes them.

    Parameters
    ----------
    by_kind : bool
        Whether kinds of devices may have a memory of their own.

    Raises
    ------
    InputError
        If a value is no size, or an activation buffer is given without a memory.
    """
    if activation_buffer is not None and memory is None and not by_kind:
        raise WordError("activation_buffer", activation_buffer, f"it is a part of {word('memory')}; give that as well.")
    return (
        memory_of(memory),
        None if activation_buffer is None else parse_bytes(activation_buffer, "activation_buffer"),
    )


def bandwidth_of(graph: ComputationGraph, rate: Quantity | None, default: float = DEFAULT_BANDWIDTH) -> float:
    """The bandwidth [bytes per unit of work time]; if not given, the default, and a note that it was assumed.

    Raises
    ------
    InputError
        If the value is no rate, or missing although the work of the graph is not in seconds.
    """
    if rate is not None:
        return parse_bandwidth(rate, graph.time_unit, plausible=_plausible_bandwidth(graph))
    if graph.time_unit != "s":
        raise InputError(
            f"{graph.name}: the work is in units of {graph.time_unit!r}; "
            f"give {word('bandwidth')}, the bytes per {graph.time_unit}."
        )
    return assumed_bandwidth(default)


def assumed_bandwidth(rate: float) -> float:
    """The given default bandwidth [bytes/s]; the answer notes that it was assumed."""
    assume("bandwidth", f"{figures(rate, 'bytes/s')} between devices")
    return rate


def memory_of(memory: Quantity | None) -> float:
    """The memory of a device [bytes]; if not given, no limit, and a note that this was assumed.

    Raises
    ------
    InputError
        If the value is no size.
    """
    if memory is None:
        assume("memory", "no limit on memory")
        return math.inf
    return parse_bytes(memory, "memory")


def _plausible_bandwidth(graph: ComputationGraph) -> float:
    """The rate at which the largest tensor takes as long as all work."""
    with np.errstate(over="ignore"):  # costs that exceed the largest number are refused where there is a question
        work = float(graph.work.sum())
    return float(graph.tensors.bytes.max(initial=0.0)) / work if work > 0 else 0.0


# Questions over kinds of devices, from the word `devices`.


class DevicesWords(TypedDict, total=False):
    """Keyword arguments: the devices, if there are several kinds."""

    devices: Annotated[
        Machines | str | PathLike[str] | None,
        Word(
            "Devices of several kinds, such as 4xA100,6xL4 (mtpp list devices), with the rate between kinds if wanted, "
            "as 4xA100,6xL4@1.25GB/s, or a file (mtpp-devices/2); k is then the most of them that are used.  "
            "[default: k devices that are alike]",
            metavar="KINDS|FILE",
            panel=MACHINES,
            basic=True,
        ),
    ]


def devices_of(
    source: Machines | str | PathLike[str], bandwidth: float, memory: float, order: str = "free"
) -> Machines:
    """Devices from an object, a text or a file; `bandwidth` is the default for kinds that state none.

    Parameters
    ----------
    source : Machines, text or file
    bandwidth : float
        In bytes per unit of work time.
    memory : float
        Upper limit for every device, and the default for kinds in a file that states none [bytes].
    order : {"free", "fixed"}
        Whether the devices of a table keep their order.

    Raises
    ------
    InputError
        If the devices are refused.
    """
    devices = source if isinstance(source, Machines) else _read_devices(source, memory, order)
    if all(kind.memory < math.inf for kind in devices.kinds):
        disregard("memory")
    if all(kind.bandwidth is not None for kind in devices.kinds):
        disregard("bandwidth")
        names = ", ".join(printable(kind.name) for kind in devices.kinds)
        have = "has its own" if len(devices.kinds) == 1 else "have their own"
        warn_if_given("bandwidth", f"{names} {have}; a file of devices gives others")
    kinds = tuple(replace(kind, memory=min(kind.memory, memory)) for kind in devices.kinds)
    return replace(devices, kinds=kinds, bandwidth=bandwidth)


def _read_devices(source: str | PathLike[str], memory: float, order: str) -> Machines:
    """Devices from a text or a file; `memory` is for kinds that state none, `order` for tables."""
    if not isinstance(source, str | PathLike):
        raise WordError("devices", source, "give mtpp.Machines, a text such as 4xA100,6xL4, or a file.")
    text = fspath(source)
    kinds, at, rate = text.rpartition("@")
    apart = devices_of_text(kinds) if at else None
    devices = devices_of_text(text) if apart is None else apart
    if devices is not None:
        limited = (replace(kind, memory=min(kind.memory, memory)) for kind in devices.kinds)
        rates = "; ".join(f"{kind.name}: {', '.join(kind.rates)}" for kind in limited)
        assume("devices.rates", f"full rates for numbers of any width, those to others also within servers ({rates})")
    if apart is not None:
        between = np.where(np.eye(len(apart.kinds)), math.inf, parse_bandwidth(rate, word="devices"))
        return replace(apart, rates=between.tolist())
    if devices is None and not os.path.lexists(text):
        raise missing(text, rest="give a text such as 4xA100,6xL4, or a file")
    return devices or read_kinds(text, memory, order)


def _without_counts(rules: Constraints, graph: ComputationGraph, runtime: str) -> Constraints:
    """The rules of a runtime without `at_least` rules; a `WordError` unless its groups already imply them.

    On several kinds some devices may idle, and an idle device is no stage of the runtime.
    """
    free = replace(rules, at_least=())
    group = BlockRules.of(graph, 1, free).group
    for count, nodes in rules.at_least:
        if count > 1 or set(group.tolist()) - set(group[list(nodes)].tolist()):
            why = f"what each of its stages needs cannot be combined with {word('devices')} yet; leave one of them out."
            raise WordError("runtime", runtime, why)
    return free


def works_of_kinds(graph: GraphLike, loaded: ComputationGraph, devices: Machines, reading: ReadingWords) -> FloatArray:
    """(T, n) work of each node on each kind; an `InputError` if a kind cannot price the graph."""
    disregard_device(devices)
    return np.array([work_on_kind(graph, loaded, kind, reading) for kind in devices.kinds])


def disregard_device(devices: Machines) -> None:
    """Do not mention the default device if the kinds of devices price the graph."""
    if all(kind.roofline is not None for kind in devices.kinds):
        disregard("peak_flops", "memory_bandwidth")


def work_on_kind(graph: GraphLike, loaded: ComputationGraph, kind: Kind, reading: ReadingWords) -> FloatArray:
    """(n,) work of each node on a kind; an `InputError` if it cannot price the graph.

    Parameters
    ----------
    graph : GraphLike
        Source of `loaded`, read with the keyword arguments `reading`.
    loaded : ComputationGraph
        The graph; kinds with a speed divide its works by the speed.
    """
    if kind.roofline is None:
        return loaded.work / (1.0 if kind.speed is None else kind.speed)
    if not isinstance(graph, str | PathLike):
        raise InputError(
            f"kind {printable(kind.name)}: only what has no times of its own is priced by peak_flops and "
            "memory_bandwidth; give its speed, 1 for the device on which the works of the graph were measured."
        )
    for name in ("peak_flops", "memory_bandwidth", "cost"):
        if reading.get(name) is not None:
            raise InputError(f"{said(name, reading[name])}: kind {printable(kind.name)} has its own; leave it out.")
    roofs = {"peak_flops": kind.roofline.peak_flops, "memory_bandwidth": kind.roofline.memory_bandwidth}
    return read_graph(graph, {**reading, **roofs}).work  # type: ignore[typeddict-item]


# The question of partitioning: graph, number of blocks, platform, side constraints; and how it is solved.


#: In place of k: the least number of blocks that fits, or reaches a throughput.
AUTO = "auto"
#: One number of blocks, or several, also as a text such as "2,4,8".
Blocks = int | str | Iterable[int]
#: Constraints, their words by kind, or a file.
Rules = Constraints | Mapping[str, Any] | str | PathLike[str] | None


class PartitioningWords(DevicesWords, PlatformWords, ReadingWords, total=False):
    """Keyword arguments of partitioning, without graph and k."""

    constraints: Annotated[
        Rules,
        Word(
            "Nodes that stay together, windows of stages, outputs that are never cut (mtpp-constraints/1).",
            metavar="FILE",
        ),
    ]
    colour_classes: Annotated[bool, Word("Nodes of a colour class of an MSR inference profile stay together.", False)]
    runtime: Annotated[
        str | None, Word("Only cuts that this runtime can express (mtpp list runtimes).", metavar="NAME", basic=True)
    ]


class StartWords(TypedDict, total=False):
    """Keyword arguments: start of a proof."""

    start: Annotated[
        Partition | Result | str | PathLike[str] | None,
        Word("Partition to start from (mtpp-answer/1).", metavar="FILE", panel=SEARCH),
    ]


class PartitionWords(PartitioningWords, SeedWords, total=False):
    """Keyword arguments of `mtpp.partition`."""

    time_limit: Annotated[float | None, Word("For each k.  [default: none]", None, "SECONDS", LIMITS, basic=True)]


class SolveWords(PartitioningWords, SolvingWords, total=False):
    """Keyword arguments of `mtpp.solve` and `mtpp.least_k`."""


class UserMethodsWords(TypedDict, total=False):
    """Keyword arguments: methods of the caller that run beside the built-in methods."""

    methods: Annotated[
        str | Callable[..., Any] | Iterable[Any] | None,
        Word(
            "Searches and bounds of your own that take turns, too: mine.py:NAME, package.module:NAME.",
            metavar="NAME[,…]",
            panel=SEARCH,
        ),
    ]


class CertifyWords(PartitioningWords, SolvingWords, StartWords, UserMethodsWords, total=False):
    """Keyword arguments of `mtpp.certify`."""


class RelaxationWords(PartitioningWords, SolvingWords, StartWords, total=False):
    """Keyword arguments of `mtpp.relaxation`."""


class BoundWords(RelaxationWords, total=False):
    """Keyword arguments of `mtpp.bound`."""

    relaxation: Annotated[bool, Word("Solve the linear relaxation.", False, panel=SEARCH)]


class ExplainWords(PartitioningWords, ProofWords, total=False):
    """Keyword arguments of `mtpp.explain`."""

    time_limit: Annotated[float, Word("To prove a bound.", 10.0, "SECONDS", LIMITS, basic=True)]


class ReportWords(PartitioningWords, total=False):
    """Keyword arguments of `mtpp.report`."""

    time_limit: Annotated[float, Word("To check each answer.", 20.0, "SECONDS", LIMITS, basic=True)]


class FeatureWords(PlatformWords, NetworkWords, total=False):
    """Keyword arguments: the devices without their number, and the dimensions and weights of a network."""


class KindWords(DevicesWords, FeatureWords, total=False):
    """Keyword arguments of `FeatureWords`, with several kinds of devices."""


class CompareWords(KindWords, SeedWords, SolverOptionWords, GapWords, TrialWords, RunningWords, total=False):
    """Keyword arguments of `mtpp.compare`."""

    file: Annotated[str | PathLike[str] | None, Word("File of runs.", metavar="FILE")]


def instances_of(
    graph: GraphLike, k: Blocks | None, words: PartitioningWords, *, is_open: bool = False
) -> list[Instance]:
    """One question for each k.

    Parameters
    ----------
    graph : GraphLike
        As for `mtpp.load`; an `Instance` is a whole question, of which at most k changes.
    k : int, iterable of int or text such as "2,4,8"
        Optional for an instance.
    words : PartitioningWords
        Keyword arguments, completed by defaults.
    is_open : bool
        Whether the least k is sought; the instance then has the least number of blocks that its constraints need.

    Raises
    ------
    InputError
        If a keyword argument or the graph is refused.
    """
    runtime = None if words["runtime"] is None else runtime_of(words["runtime"])
    if isinstance(graph, Instance):
        for name in chosen(PartitioningWords, words):
            raise InputError(f"{word(name)}: the instance {graph.name!r} has its own; leave it out, or give its graph.")
        return [graph] if k is None else [graph.with_k(count) for count in _few_enough(k)]
    devices, machines, works = words["devices"], None, None
    if k is None and not is_open and devices is None:
        raise InputError(f"{word('k')} is missing; give the number of blocks.")
    counts = None if k is None else _few_enough(k)
    memory, buffer = memory_limits(words["memory"], words["activation_buffer"], by_kind=devices is not None)
    loaded = read_graph(graph, pick(ReadingWords, words))
    costs_given = words["bandwidth"] is None and words["communication"] == "cost"
    rate = 1.0 if costs_given else bandwidth_of(loaded, words["bandwidth"])
    if costs_given:
        assume("bandwidth", "edge costs at bandwidth 1")
    rules = rules_of(words["constraints"], loaded)
    rules += _same_colour(loaded) if words["colour_classes"] else Constraints()
    if devices is not None:
        machines = devices_of(devices, rate, memory)
        _check_limits(machines, buffer, fit=words["fit"], is_open=is_open)
        works = works_of_kinds(graph, loaded, machines, pick(ReadingWords, words))
    if runtime is not None:
        needed, whole = runtime_rules(runtime.name, loaded, counts if counts and works is None else ()), loaded
        loaded = runtime.seen(whole)
        if works is not None:
            works = np.array([runtime.seen(replace(whole, work=row)).work for row in works])
            needed = _without_counts(needed, loaded, runtime.name)
        rules += needed
    if machines is None:
        platforms = [Platform(count, rate, memory, buffer, words["fit"]) for count in counts or [rules.fewest_blocks]]
        return [Instance(loaded, platform, constraints=rules) for platform in platforms]
    return [
        Instance(
            loaded,
            machines,
            constraints=rules,
            k=count,
            works=works,
            activation_buffer=buffer,
            fit=words["fit"],
        )
        for count in counts or [machines.total]
    ]


def _check_limits(machines: Machines, buffer: float | None, *, fit: bool, is_open: bool) -> None:
    """Raise an `InputError` for keyword arguments that do not apply to these machines."""
    if is_open and machines.is_fixed:
        raise WordError("k", AUTO, f"in a fixed order of {word('devices')} each has its block; leave k out.")
    for name, present in (("fit", fit), ("activation_buffer", buffer is not None)):
        if present and not machines.is_limited:
            why = f"no kind of devices has a limit on its memory; give one, or {word('memory')}."
            raise WordError(name, None, why)


def counts_of(k: Blocks) -> list[int]:
    """Numbers of blocks, without repetitions.

    Raises
    ------
    InputError
        If a number is not whole, or below 1.
    """
    if isinstance(k, str):
        if k == AUTO:
            raise WordError("k", k, "the least number of blocks is a question of its own: mtpp.least_k.")
        return parse_counts(k)
    why = "give the number of blocks, or a list of such numbers."
    if isinstance(k, bytes | Mapping):
        raise WordError("k", k, why)
    several: Any = k  # an array without dimensions is one number
    numbers = list(several) if isinstance(several, Iterable) and getattr(several, "ndim", True) else [several]
    counts = []
    for count in numbers:
        try:
            counts.append(operator.index(count))
        except TypeError:
            raise WordError("k", k, why) from None
        if isinstance(count, bool):
            raise WordError("k", k, why)
        if counts[-1] < 1:
            raise WordError("k", count, "the number of blocks must be 1 or more.")
    if not counts:
        raise InputError("There is no k; give at least one number of blocks.")
    return list(dict.fromkeys(counts))


def _few_enough(k: Blocks) -> list[int]:
    """Numbers of blocks that platforms have, without repetitions."""
    counts = counts_of(k)
    if max(counts) > MOST_BLOCKS:
        count = max(counts) if max(counts) < 10**30 else "a number of many digits"
        raise WordError("k", count, f"the number of blocks must be {MOST_BLOCKS} or less.")
    return counts


def rules_of(constraints: Rules, graph: ComputationGraph) -> Constraints:
    """Constraints of a graph, from an object, a file or a mapping by kind of constraint.

    Raises
    ------
    InputError
        If the constraints are refused.
    """
    if isinstance(constraints, Constraints):
        return constraints
    if isinstance(constraints, str | PathLike):
        return read_constraints(fspath(constraints), graph)
    if constraints is not None and not isinstance(constraints, Mapping):
        raise WordError("constraints", constraints, "give a file, a mapping or mtpp.Constraints.")
    members = dict(constraints or {})
    for name in members:
        if name not in KINDS:
            raise InputError(unknown(KINDS, name, "kind of constraint"))
    return Constraints.of(graph, **members)


def _same_colour(graph: ComputationGraph) -> Constraints:
    classes = graph.attributes.get("colour_classes")
    if not classes:
        raise InputError(f"{word('colour_classes')}: {graph.name} has none; leave this option out.")
    note = f"{len(classes)} colour classes keep {sum(map(len, classes))} of {graph.n} nodes together."
    warnings.warn(f"{graph.name}: {note}", InputWarning, stacklevel=2)
    return Constraints.of(graph, together=classes)


def runtime_rules(runtime: str, graph: ComputationGraph, counts: Iterable[int] = ()) -> Constraints:
    """The constraints of a runtime on partitions; an `InputError` if the runtime is unknown."""
    rules = runtime_of(runtime).rules(graph)
    for k in counts:
        for least, nodes in rules.at_least:
            if k * least > len(nodes):
                why = f"each stage of {runtime} has one or more of {len(nodes)} layers; give a smaller k."
                raise WordError("k", k, why)
    return rules


def runtime_of(name: str) -> Runtime:
    """The runtime of this name; an `InputError` if it is unknown."""
    return find(RUNTIMES, name, "runtime")


def enough_for(question: Instance, throughput: Quantity | None) -> float:
    """The bottleneck that gives a throughput [time unit of the work]; infinite without a throughput.

    Raises
    ------
    InputError
        If the throughput is refused, or neither a throughput nor a hard memory limit is given.
    """
    if throughput is not None:
        return 1 / parse_throughput(throughput, question.time_unit)
    if not question.platform.fit:
        raise InputError(
            f"{question.name}: say what the least k has to reach; give {word('fit')}, {word('throughput')} or both."
        )
    return math.inf
