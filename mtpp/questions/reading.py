"""How a graph is read: from an architecture, a file or an object."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

from instances.devices.roofline import Device
from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.readers import load_graph
from mtpp.questions.words import Word, chosen, takes_words
from mtpp.text.parsing import Quantity, parse_bandwidth, parse_flops

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["ChainWords", "DecoderWords", "DeviceWords", "ReadingWords", "StepWords", "device_of", "load", "read_graph"]

_DEVICE = "The device"


class _SourceWords(TypedDict, total=False):
    dims: Annotated[
        Mapping[str, int | str] | None,
        Word("Dimension of a network, such as batch=8 or phase=decode; may be repeated.", metavar="NAME=N"),
    ]
    input_work: Annotated[
        str | None,
        Word(
            "Whether the Input nodes of a PipeDream profile take their time.  [default: keep, with a warning]",
            metavar="keep|drop",
        ),
    ]
    time_unit: Annotated[str | None, Word("Of the times of a Piper or DOT file.  [default: s]", metavar="s|ms|us")]


class DeviceWords(TypedDict, total=False):
    """The device whose roofline model prices a graph that has no times."""

    peak_flops: Annotated[
        Quantity | None,
        Word(
            "What prices an architecture, an ONNX model or a .pt2: 312TFLOP/s, or a bare number of operations per "
            "second.  [default: 100T]",
            metavar="FLOP/S",
            panel=_DEVICE,
        ),
    ]
    memory_bandwidth: Annotated[
        Quantity | None,
        Word(
            "Of that device to its own memory: 1.5TB/s, or a bare number of bytes per second.  [default: 1.5TB/s]",
            metavar="RATE",
            panel=_DEVICE,
        ),
    ]


class ChainWords(_SourceWords, DeviceWords, total=False):
    """How an architecture or a file becomes a chain of layers."""


class _FileWords(ChainWords, total=False):
    reader: Annotated[
        str | None, Word("Format of the file, if it is not recognised (mtpp list readers).", metavar="NAME")
    ]
    cost: Annotated[
        str | None,
        Word(
            "Work of an ONNX model: from the options below, or from onnxruntime on this machine.  [default: roofline]",
            metavar="roofline|measured",
            panel=_DEVICE,
        ),
    ]


class StepWords(_FileWords, total=False):
    """How an architecture or a file becomes the graph of a step."""

    training: Annotated[bool, Word("An architecture's forward and backward pass.", False)]


class DecoderWords(_FileWords, total=False):
    """How an architecture or a file becomes the graph of a decoder."""

    communication: Annotated[str, Word("Sizes of tensors, or the edge costs of an MSR file.", "size", "size|cost")]


class ReadingWords(StepWords, DecoderWords, total=False):
    """How an architecture or a file becomes a graph."""

    level: Annotated[str, Word("What a node of an architecture is.", "operator", "operator|layer")]


@takes_words(ReadingWords)
def load(
    graph: str | PathLike[str] | ComputationGraph | nx.DiGraph[Any], **words: Unpack[ReadingWords]
) -> ComputationGraph:
    """Load a graph.

    Frames of pandas and lists of edges become graphs by `ComputationGraph.from_frames` and
    `ComputationGraph.from_edges`.

    Parameters
    ----------
    graph : str, path, ComputationGraph or networkx.DiGraph
        An architecture (``mtpp list architectures``), a file, or a graph. Nodes of a digraph have the attributes work,
        output_bytes, param_bytes and name.
    **words
        Of architectures and files: dims, level, training, reader, communication, cost, input_work and time_unit as for
        `instances.load_graph`; peak_flops and memory_bandwidth, as 312e12 or "312TFLOP/s", of the device that turns
        operations into seconds.

    Returns
    -------
    ComputationGraph

    Raises
    ------
    InputError
        If there is no such graph, or its content or a word is refused.

    Examples
    --------
    >>> import mtpp
    >>> mtpp.load("bert-base", dims={"batch": 8}, level="layer").n
    17
    """
    return read_graph(graph, words)


def read_graph(graph: object, words: ReadingWords) -> ComputationGraph:
    """As `load`, with words that are checked."""
    if isinstance(graph, str | PathLike):
        given: dict[str, Any] = {name: value for name, value in words.items() if value is not None}
        for name in ("peak_flops", "memory_bandwidth"):
            given.pop(name, None)
        return load_graph(fspath(graph), **given, device=device_of(words))
    if names := chosen(ReadingWords, words):
        raise InputError(f"Only architectures and files are read; leave out {', '.join(names)}.")
    if isinstance(graph, ComputationGraph):
        return graph
    if hasattr(graph, "columns"):
        raise InputError("This is a frame; give mtpp.ComputationGraph.from_frames(nodes, edges).")
    return ComputationGraph.from_networkx(graph)  # type: ignore[arg-type]


def device_of(words: DeviceWords) -> Device | None:
    """The device of the words; None if they say nothing of it.

    Raises
    ------
    InputError
        If one is no such quantity, or not positive.
    """
    roofs = {}
    if (speed := words.get("peak_flops")) is not None:
        roofs["peak_flops"] = parse_flops(speed, "peak_flops")
    if (rate := words.get("memory_bandwidth")) is not None:
        roofs["memory_bandwidth"] = parse_bandwidth(rate, word="memory_bandwidth")
    return Device(**roofs) if roofs else None
