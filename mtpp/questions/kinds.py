"""Questions over kinds of devices, from the word `devices`."""

from __future__ import annotations

import math
from dataclasses import replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Annotated, TypedDict

import numpy as np

from instances.errors import InputError, WordError, printable, said, word
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray
from instances.machines import Kind, Machines, devices_of_text, read_kinds
from instances.partitioning.constraints import BlockRules, Constraints
from instances.partitioning.problem import Instance
from mtpp.questions.reading import ReadingWords, read_graph
from mtpp.questions.words import GraphLike, Word
from mtpp.text.parsing import parse_bandwidth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from instances.runtimes import Runtime

__all__ = ["DevicesWords", "devices_of", "questions_of_kinds", "work_on_kind", "works_of_kinds"]


class DevicesWords(TypedDict, total=False):
    """The devices, if they are not alike."""

    devices: Annotated[
        Machines | str | PathLike[str] | None,
        Word(
            "Devices of several kinds, such as 4xA100,6xL4 (mtpp list devices), with the rate between kinds if wanted, "
            "as 4xA100,6xL4@1.25GB/s, or a file (mtpp-devices/2); k is then the most of them that are used.  "
            "[default: k devices that are alike]",
            metavar="KINDS|FILE",
        ),
    ]


def devices_of(given: Machines | str | PathLike[str], bandwidth: float, memory: float) -> Machines:
    """Devices of an object, a text or a file; what a file leaves out is `bandwidth` and `memory`.

    Raises
    ------
    InputError
        If they are refused.
    """
    if isinstance(given, Machines):
        return given
    if not isinstance(given, str | PathLike):
        raise WordError("devices", given, "give mtpp.Machines, a text such as 4xA100,6xL4, or a file.")
    text = fspath(given)
    kinds, at, rate = text.rpartition("@")
    apart = devices_of_text(kinds) if at else None
    if apart is not None:
        between, own = parse_bandwidth(rate, word="devices"), range(len(apart.kinds))
        return Machines(apart.kinds, apart.order, [[math.inf if s == t else between for t in own] for s in own])
    return devices_of_text(text) or read_kinds(text, bandwidth, memory)


def questions_of_kinds(
    graph: GraphLike,
    loaded: ComputationGraph,
    counts: Sequence[int] | None,
    devices: Machines,
    reading: ReadingWords,
    *,
    bandwidth: float,
    activation_buffer: float | None,
    fit: bool,
    constraints: Constraints,
    runtime: Runtime | None,
) -> list[Instance]:
    """One question for each k, by default for all devices.

    Parameters
    ----------
    graph : GraphLike
        What `loaded` was read from.
    counts : sequence of int, optional
    reading : ReadingWords
        How it was read.
    runtime : Runtime, optional
        Only cuts that it can express are legal.

    Raises
    ------
    InputError
        If a kind cannot price the graph, or there are fewer devices than k.
    """
    limited = any(kind.memory < math.inf for kind in devices.kinds)
    for name, given in (("fit", fit), ("activation_buffer", activation_buffer is not None)):
        if given and not limited:
            raise WordError(name, None, f"no kind of devices has a limit on its memory; give one, or {word('memory')}.")
    works = works_of_kinds(graph, loaded, devices, reading)
    if runtime is not None:
        works = np.array([runtime.seen(replace(loaded, work=row)).work for row in works])
        loaded = runtime.seen(loaded)
        constraints += _without_counts(runtime.rules(loaded), loaded, runtime.name)
    return [
        Instance(
            loaded,
            replace(devices, bandwidth=bandwidth),
            constraints=constraints,
            k=k,
            works=works,
            activation_buffer=activation_buffer,
            fit=fit,
        )
        for k in counts or [devices.total]
    ]


def _without_counts(rules: Constraints, graph: ComputationGraph, runtime: str) -> Constraints:
    """The rules of a runtime without what each stage needs, where all nodes that are together have it.

    Devices that idle are no stages of the runtime.
    """
    own = replace(rules, at_least=())
    group = BlockRules.of(graph, 1, own).group
    for count, nodes in rules.at_least:
        if count > 1 or set(group.tolist()) - set(group[list(nodes)].tolist()):
            why = f"what each of its stages needs cannot be combined with {word('devices')} yet; leave one of them out."
            raise WordError("runtime", runtime, why)
    return own


def works_of_kinds(graph: GraphLike, loaded: ComputationGraph, devices: Machines, reading: ReadingWords) -> FloatArray:
    """(T, n) works of the nodes on each kind; an `InputError` if one cannot price the graph."""
    return np.array([work_on_kind(graph, loaded, kind, reading) for kind in devices.kinds])


def work_on_kind(graph: GraphLike, loaded: ComputationGraph, kind: Kind, reading: ReadingWords) -> FloatArray:
    """(n,) works of the nodes on a kind; an `InputError` if it cannot price the graph.

    Parameters
    ----------
    graph : GraphLike
        What `loaded` was read from, as `reading` says.
    loaded : ComputationGraph
        Kinds with a speed divide its works by that.
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
