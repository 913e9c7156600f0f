"""How a graph is read: from an architecture, a file or an object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import isroutine
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

from instances.devices import Device, assumed_device
from instances.errors import InputError, assume, word
from instances.graph.graph import ComputationGraph
from instances.readers import load_graph
from instances.readers.huggingface.files import find_architecture
from instances.readers.pytorch.export import decompose, export, from_exported_program, trace
from mtpp.questions.words import MACHINES, Word, checked, chosen, path_of, takes_words
from mtpp.text.numbers import Quantity, parse_bandwidth, parse_flops

if TYPE_CHECKING:
    import networkx as nx
    from torch.export import ExportedProgram


#: Words of PyTorch modules alone.
_OF_MODULES = ("args", "kwargs", "observe")


class TimeUnitWords(TypedDict, total=False):
    """Keyword arguments: the unit of times in files that state none."""

    time_unit: Annotated[str | None, Word("Of the times of a Piper or DOT file.  [default: s]", metavar="s|ms|us")]


class WeightsWords(TypedDict, total=False):
    """Keyword arguments: weight files of a configuration."""

    weights: Annotated[
        str | PathLike[str] | None,
        Word("Which weights count, of several beside a config.json, or those elsewhere.", metavar="FILE"),
    ]


class NetworkWords(WeightsWords, total=False):
    """Keyword arguments: dimensions and weights of a network."""

    dims: Annotated[
        Mapping[str, int | str] | None,
        Word("Dimension of a network, such as batch=8 or phase=decode; may be repeated.", metavar="NAME=N", basic=True),
    ]


class _SourceWords(TimeUnitWords, NetworkWords, total=False):
    input_work: Annotated[
        str | None,
        Word(
            "Whether the Input nodes of a PipeDream profile take their time.  [default: keep, with a warning]",
            metavar="keep|drop",
        ),
    ]
    args: Annotated[Sequence[Any] | None, Word("Example inputs of a PyTorch module.", only_python=True)]
    kwargs: Annotated[Mapping[str, Any] | None, Word("The same, by name.", only_python=True)]
    observe: Annotated[
        bool, Word("A module runs once on its example, to see sizes that depend on values.", False, only_python=True)
    ]


class DeviceWords(TypedDict, total=False):
    """Keyword arguments: the device whose roofline model prices graphs without times."""

    peak_flops: Annotated[
        Quantity | None,
        Word(
            "What prices an architecture, an ONNX model or a .pt2: 312TFLOP/s, or a bare number of operations per "
            "second.  [default: 100T]",
            metavar="FLOP/S",
            panel=MACHINES,
        ),
    ]
    memory_bandwidth: Annotated[
        Quantity | None,
        Word(
            "Of that device to its own memory: 1.5TB/s, or a bare number of bytes per second.  [default: 1.5TB/s]",
            metavar="RATE",
            panel=MACHINES,
        ),
    ]


class ChainWords(_SourceWords, DeviceWords, total=False):
    """Keyword arguments: how a named architecture or a file is read as a chain of layers."""


class _FileWords(ChainWords, total=False):
    reader: Annotated[
        str | None, Word("Format of the file, if it is not recognised (mtpp list readers).", metavar="NAME")
    ]
    cost: Annotated[
        str | None,
        Word(
            "Work of an ONNX model: by a roofline, or measured by onnxruntime on this machine.  [default: roofline]",
            metavar="roofline|measured",
            panel=MACHINES,
        ),
    ]


class StepWords(_FileWords, total=False):
    """Keyword arguments: how a named architecture or a file is read as the graph of one run, or training step."""

    training: Annotated[bool, Word("An architecture's forward and backward pass.", False)]


class DecoderWords(_FileWords, total=False):
    """Keyword arguments: how a named architecture or a file is read as the graph of a decoder."""

    communication: Annotated[str, Word("Sizes of tensors, or the edge costs of an MSR file.", "size", "size|cost")]


class ReadingWords(StepWords, DecoderWords, total=False):
    """Keyword arguments: how a named architecture or a file is read as a graph."""

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
    graph : str, path, ComputationGraph, networkx.DiGraph, torch.nn.Module or torch.export.ExportedProgram
        An architecture (``mtpp list architectures``), a file, a graph, or a module with examples of its inputs; a
        function that builds the module needs no memory for its weights. Nodes of a digraph have the attributes work,
        output_bytes, param_bytes and name.
    args, kwargs : sequence, mapping
        Inputs of a module, of which the shapes count.
    observe : bool
        Whether a module is run once on them, to see sizes that depend on values of tensors; ``dims={"u0": 64}`` gives
        them by name.

    Returns
    -------
    ComputationGraph

    Raises
    ------
    InputError
        If there is no such graph, or its content or a keyword argument is refused.

    Examples
    --------
    >>> import mtpp
    >>> mtpp.load("bert-base", dims={"batch": 8}, level="layer").n
    17
    """
    return read_graph(graph, words)


def read_graph(graph: object, words: ReadingWords) -> ComputationGraph:
    """The same as `load`, with checked keyword arguments."""
    device = device_of(words)
    if is_module(graph):
        return read_module(graph, words, device)
    if isinstance(graph, str | PathLike):
        values: dict[str, Any] = {name: value for name, value in words.items() if value is not None}
        for name in ("peak_flops", "memory_bandwidth", *_OF_MODULES):
            values.pop(name, None)
        if "weights" in values:
            values["weights"] = path_of("weights", values["weights"])
        _refuse(words, _OF_MODULES, f"{fspath(graph)}: only PyTorch modules take examples")
        return load_graph(fspath(graph), **values, device=device)
    if names := chosen(ReadingWords, words):
        raise InputError(f"Only architectures and files are read; leave out {', '.join(map(word, names))}.")
    if isinstance(graph, ComputationGraph):
        return graph
    if hasattr(graph, "columns"):
        raise InputError("This is a frame; give mtpp.ComputationGraph.from_frames(nodes, edges).")
    if not hasattr(graph, "is_directed"):
        raise InputError(
            "A graph is the name of an architecture, a file, a module, a mtpp.ComputationGraph or a networkx.DiGraph, "
            f"no {type(graph).__name__}."
        )
    return ComputationGraph.from_networkx(graph)  # type: ignore[arg-type]


def is_decoder(graph: object) -> bool:
    """Whether this is an architecture or a configuration of a decoder."""
    network = find_architecture(graph)
    return network is not None and network.served


def decoder_words(words: DecoderWords, *, served: bool) -> ReadingWords:
    """Keyword arguments for reading a decoder; a `served` architecture is priced for decoding by default."""
    reading = checked(ReadingWords, words)
    if served:
        reading["dims"] = decode_dims(reading["dims"])
    return reading


def decode_dims(dims: Mapping[str, int | str] | None) -> dict[str, int | str]:
    """Dimensions of a decoder, with the phase decode, which is noted, if they name none."""
    if "phase" not in (dims or {}):
        assume("dims.phase", "phase decode")
    return {"phase": "decode", **(dims or {})}


def is_module(graph: object) -> bool:
    """Whether an object is a PyTorch module, an exported program, or a function that builds a module."""
    kinds = {kind.__module__.partition(".")[0] for kind in type(graph).__mro__}
    return not isinstance(graph, ComputationGraph) and ("torch" in kinds or isroutine(graph) or isinstance(graph, type))


def read_program(model: Any, words: DeviceWords) -> tuple[ExportedProgram, ComputationGraph]:
    """The program of a module in core operators, and its graph; all shapes must be fixed.

    Raises
    ------
    InputError
        As `read_module`.
    """
    values: Any = words
    name = _name(model)
    _refuse(values, ("dims", "cost"), f"{name}: stages are cut from a program of fixed shapes")
    if type(model).__name__ == "ExportedProgram":
        _refuse(values, _OF_MODULES, f"{name}: a program has its shapes")
        program = decompose(model)
    else:
        program = export(model, *_example(name, values))
    return program, from_exported_program(program, device_of(words) or assumed_device(), name)


def save_module(model: Any, words: DeviceWords, path: Path) -> None:
    """Write a module as an ONNX model.

    Raises
    ------
    InputError
        If its examples are missing, or it cannot be exported to ONNX.
    """
    from instances.readers.pytorch.files import save_onnx

    save_onnx(model, *_example(_name(model), words), path)


def read_module(graph: Any, words: ReadingWords, device: Device | None) -> ComputationGraph:
    """The graph of a module or an exported program.

    Raises
    ------
    InputError
        If examples are missing or superfluous, or it cannot be exported.
    """
    values: Any = words
    name = _name(graph)
    allowed = (*_OF_MODULES, "dims", "peak_flops", "memory_bandwidth")
    _refuse(values, [word for word in chosen(ReadingWords, values) if word not in allowed], f"{name}: it is no file")
    sizes = values.get("dims")
    for size, value in (sizes or {}).items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InputError(f"{word('dims')}: {size} is {value!r}; give a whole number.")
    device = device or assumed_device()
    if type(graph).__name__ != "ExportedProgram":
        args, kwargs = _example(name, values)
        return trace(graph, args, kwargs, device, name, sizes, bool(values.get("observe")))
    _refuse(values, ("args", "kwargs"), f"{name}: a program has its shapes")
    example = graph.example_inputs if values.get("observe") else None
    return from_exported_program(graph, device, name, sizes, example)


def _name(graph: Any) -> str:
    return str(getattr(graph, "__name__", type(graph).__name__)).replace("<lambda>", "module")


def _example(name: str, words: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The example inputs of a module."""
    args, kwargs = words.get("args"), words.get("kwargs")
    if args is None and not kwargs:
        raise InputError(f"{name}: the shapes of its inputs are missing; give args=(example,).")
    if isinstance(args, str | Mapping) or (args is not None and not isinstance(args, Sequence)):
        raise InputError(f"{word('args')}: give the inputs in a tuple, as in args=(example,).")
    return args or (), kwargs or {}


def _refuse(words: Mapping[str, Any], names: Sequence[str], why: str) -> None:
    if present := [name for name in names if words.get(name)]:
        raise InputError(f"{why}; leave out {', '.join(present)}.")


def device_of(words: DeviceWords) -> Device | None:
    """The device from keyword arguments; None if they state none.

    Raises
    ------
    InputError
        If a rate is no quantity of its kind, or not positive.
    """
    rates = rates_of_device(words)
    return assumed_device(**rates) if rates else None


def rates_of_device(words: Mapping[str, Any]) -> dict[str, float]:
    """Peak [1/s] and memory bandwidth [bytes/s] of a device, as far as keyword arguments state them.

    Raises
    ------
    InputError
        If a rate is no quantity of its kind, or not positive.
    """
    rates = {}
    if (speed := words.get("peak_flops")) is not None:
        rates["peak_flops"] = parse_flops(speed, "peak_flops")
    if (rate := words.get("memory_bandwidth")) is not None:
        rates["memory_bandwidth"] = parse_bandwidth(rate, word="memory_bandwidth")
    return rates
