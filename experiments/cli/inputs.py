"""From command-line words to instances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from experiments.cli.units import parse_bandwidth, parse_bytes, parse_counts, parse_dims
from instances import ComputationGraph, InputError, Instance, Platform
from instances.readers import load_graph
from instances.suites import SUITES

__all__ = ["load_instances", "load_targets"]

#: What --bandwidth is if the work is in seconds [bytes/s].
DEFAULT_BANDWIDTH = 25e9


def load_instances(
    spec: str,
    blocks: str,
    *,
    bandwidth: str | None = None,
    memory: str | None = None,
    activation_buffer: str | None = None,
    dims: Iterable[str] = (),
    level: str = "operator",
    training: bool = False,
    reader: str | None = None,
    communication: str = "size",
    input_work: str | None = None,
    time_unit: str | None = None,
) -> list[Instance]:
    """One instance per k of a graph.

    Raises
    ------
    InputError
        If an option or the graph is refused.
    """
    counts = parse_counts(blocks)
    limits = _memory_limits(memory, activation_buffer)
    graph = load_graph(
        spec, dims=parse_dims(dims), level=level, training=training, reader=reader, communication=communication,
        input_work=input_work, time_unit=time_unit,
    )  # fmt: skip
    rate = _bandwidth(graph, bandwidth, communication)
    return [Instance(graph, Platform(k, rate, *limits)) for k in counts]


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
    limits = _memory_limits(memory, activation_buffer)
    found = []
    for target in targets:
        if target not in SUITES:
            graph = _load(target)
            found += [Instance(graph, Platform(k, _bandwidth(graph, bandwidth, "size"), *limits)) for k in counts]
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


def _memory_limits(memory: str | None, activation_buffer: str | None) -> tuple[float, float | None]:
    if activation_buffer is not None and memory is None:
        raise InputError(f"--activation-buffer {activation_buffer}: it is a part of --memory; give that as well.")
    return (
        float("inf") if memory is None else parse_bytes(memory, "--memory"),
        None if activation_buffer is None else parse_bytes(activation_buffer, "--activation-buffer"),
    )


def _bandwidth(graph: ComputationGraph, text: str | None, communication: str) -> float:
    if text is not None:
        return parse_bandwidth(text, graph.time_unit)
    if communication == "cost":
        return 1.0
    if graph.time_unit != "s":
        raise InputError(
            f"{graph.name}: the work is in units of {graph.time_unit!r}; "
            f"give --bandwidth, the bytes per {graph.time_unit}."
        )
    return DEFAULT_BANDWIDTH
