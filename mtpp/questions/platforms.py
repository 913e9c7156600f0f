"""Platforms from words: bandwidth and memory of blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, TypedDict

from instances import ComputationGraph, InputError, Platform
from instances.errors import WordError, word
from mtpp.questions.words import Word
from mtpp.text.parsing import Quantity, parse_bandwidth, parse_bytes

__all__ = [
    "DEFAULT_BANDWIDTH",
    "DeviceMemoryWords",
    "MemoryWords",
    "PlatformWords",
    "bandwidth_of",
    "memory_limits",
    "platform_of",
]

#: Where the work is in seconds [bytes/s].
DEFAULT_BANDWIDTH = 25e9


class BandwidthWords(TypedDict, total=False):
    """The links between blocks."""

    bandwidth: Annotated[
        Quantity | None,
        Word(
            "Between blocks: 25GB/s, 200Gbps, or a bare number, the bytes per unit of work time.  "
            "[default: 25GB/s; 1 where communication is cost]",
            metavar="RATE",
        ),
    ]


class DeviceMemoryWords(TypedDict, total=False):
    """The memory of a device."""

    memory: Annotated[
        Quantity | None,
        Word("Of a device: 16GB, 16GiB, or a bare number of bytes.  [default: no limit]", metavar="BYTES"),
    ]


class MemoryWords(TypedDict, total=False):
    """The memory of a block."""

    memory: Annotated[
        Quantity | None,
        Word("Fast memory of a block: 16GB, 16GiB, or a bare number of bytes.  [default: no limit]", metavar="BYTES"),
    ]
    activation_buffer: Annotated[
        Quantity | None, Word("Part of the memory that is kept for activations.", metavar="BYTES")
    ]
    fit: Annotated[bool, Word("The memory is a hard limit: what does not fit is no answer.", False)]


class PlatformWords(BandwidthWords, MemoryWords, total=False):
    """The devices, but for their number."""


def platform_of(
    graph: ComputationGraph, k: int, words: PlatformWords, stated: Mapping[str, float | None], *, costs: bool = False
) -> Platform:
    """The platform of the words where they are given, or else that which a file states.

    Parameters
    ----------
    graph : ComputationGraph
    k : int
    words : PlatformWords
    stated : mapping
        Bandwidth, memory, activation_buffer and fit, as far as the file has them.
    costs : bool
        Whether the bandwidth is 1 where nobody gives it.
    """
    given, rate = words["bandwidth"], stated.get("bandwidth")
    if given is not None or rate is None:
        rate = 1.0 if given is None and costs else bandwidth_of(graph, given)
    memory, buffer = stated.get("memory"), stated.get("activation_buffer")
    if words["memory"] is not None or words["activation_buffer"] is not None:
        memory, buffer = memory_limits(words["memory"], words["activation_buffer"])
    return Platform(k, rate, math.inf if memory is None else memory, buffer, words["fit"] or bool(stated.get("fit")))


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
        If one is no size, or there is a part without a whole.
    """
    if activation_buffer is not None and memory is None and not by_kind:
        raise WordError("activation_buffer", activation_buffer, f"it is a part of {word('memory')}; give that as well.")
    return (
        math.inf if memory is None else parse_bytes(memory, "memory"),
        None if activation_buffer is None else parse_bytes(activation_buffer, "activation_buffer"),
    )


def bandwidth_of(graph: ComputationGraph, given: Quantity | None, default: float = DEFAULT_BANDWIDTH) -> float:
    """The bandwidth, or the default [bytes per unit of work time].

    Raises
    ------
    InputError
        If it is no rate, or missing although the work of the graph is not in seconds.
    """
    if given is not None:
        return parse_bandwidth(given, graph.time_unit, plausible=_plausible_bandwidth(graph))
    if graph.time_unit != "s":
        raise InputError(
            f"{graph.name}: the work is in units of {graph.time_unit!r}; "
            f"give {word('bandwidth')}, the bytes per {graph.time_unit}."
        )
    return default


def _plausible_bandwidth(graph: ComputationGraph) -> float:
    """The rate below which to send the largest tensor takes longer than all work."""
    work = float(graph.work.sum())
    return float(graph.tensors.bytes.max(initial=0.0)) / work if work > 0 else 0.0
