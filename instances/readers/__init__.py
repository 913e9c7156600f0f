"""Graphs from files and from named architectures."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instances.architectures import ARCHITECTURES, LEVELS, Dim
from instances.architectures.architecture import FORWARD
from instances.devices import Device, assumed_device
from instances.errors import InputError, InputWarning, Registry, assume, check_one_of, find, nearest, said, word
from instances.graph.graph import ComputationGraph
from instances.graph.graph_file import read_graph
from instances.json_files import beside, missing, read_text
from instances.readers.costgraph import read_costgraph, recognises_costgraph
from instances.readers.dot import read_dot, recognises_dot
from instances.readers.huggingface.files import (
    configuration_file,
    find_architecture,
    read_configuration,
    recognises_configuration,
)
from instances.readers.onnx import read_onnx, recognises_onnx
from instances.readers.parsing import with_doubts
from instances.readers.profiles import (
    read_msr,
    read_pipedream,
    read_piper,
    recognises_msr,
    recognises_pipedream,
    recognises_piper,
)
from instances.readers.pytorch.export import read_torch, recognises_torch

__all__ = ["READERS", "Reader", "load_graph"]
# How default dimensions are said, if not by name and value.
_DIMS = {"context": "{} tokens of context", "element_bytes": "numbers of {} bytes"}
# Bytes that tell a binary format.
_BINARY_HEAD = 4096


@dataclass(frozen=True)
class Reader:
    """One file format."""

    name: str  # to ask for
    summary: str  # one line
    read: Callable[..., ComputationGraph]  # from the path to the graph
    # Whether the text of a file looks like this format; of a binary format, whether the first bytes do.
    recognises: Callable[..., bool]
    # As `read`, for formats that hold a cost of their own for each edge, to be used with bandwidth 1.
    read_costs: Callable[[str | Path], ComputationGraph] | None = None
    suffix: str = ""  # of the files of a binary format
    # Which of the keywords dims, training, device, cost, input_work, time_unit and weights `read` takes.
    options: tuple[str, ...] = ()


#: All readers by name. Recognition asks them in this order: the last one takes all other JSON.
READERS = Registry(
    (
        Reader(
            "msr",
            "JSON profiles of Tarnawski et al. (2020), work in ms",
            read_msr,
            recognises_msr,
            lambda path: read_msr(path, communication="cost"),
        ),
        Reader(
            "onnx",
            "ONNX models, priced by a roofline model or measured",
            read_onnx,
            recognises_onnx,
            suffix=".onnx",
            options=("dims", "device", "cost"),
        ),
        Reader(
            "torch",
            "programs of torch.export.save, priced by a roofline model",
            read_torch,
            recognises_torch,
            suffix=".pt2",
            options=("device",),
        ),
        Reader(
            "piper",
            "JSON workloads of Piper (Tarnawski et al., 2021), training",
            read_piper,
            recognises_piper,
            options=("time_unit",),
        ),
        Reader(
            "costgraph",
            "TensorFlow's CostGraphDef as text, compute costs in µs",
            read_costgraph,
            recognises_costgraph,
            lambda path: read_costgraph(path, communication="cost"),
        ),
        Reader("dot", "Graphviz digraphs with weights, as of dagP", read_dot, recognises_dot, options=("time_unit",)),
        Reader(
            "pipedream",
            "graph.txt of PipeDream, times in ms",
            read_pipedream,
            recognises_pipedream,
            options=("training", "input_work"),
        ),
        Reader(
            "huggingface",
            "config.json of Hugging Face transformers, or its folder, priced by a roofline model",
            read_configuration,
            recognises_configuration,
            options=("dims", "level", "training", "device", "weights"),
        ),
        Reader("json", "mtpp-graph/1, the format of this project", read_graph, lambda text: text.lstrip()[:1] in "{["),
    ),
    "mtpp.readers",
)


#: Suffixes of files that hold weights alone.
_WEIGHTS = (".safetensors", ".gguf", ".bin", ".pth")


def load_graph(
    spec: str | Path,
    *,
    dims: Mapping[str, Dim] | None = None,
    level: str = "operator",
    training: bool = False,
    reader: str | None = None,
    communication: str = "size",
    device: Device | None = None,
    cost: str | None = None,
    input_work: str | None = None,
    time_unit: str | None = None,
    weights: str | Path | None = None,
) -> ComputationGraph:
    """Build a named architecture or read a file.

    What a file leaves in doubt is an `InputWarning` each, and stands in the attribute ``warnings`` of the graph.

    Parameters
    ----------
    spec : str or path
        Name of an architecture, or a file. A name wins; write ``./name`` for a file that is called like one.
    dims : mapping of str to int or str, optional
        Dimensions of the architecture or network, such as batch and sequence; the phase of a decoder is a word.
    level : {"operator", "layer"}
        What a node of an architecture is, or of a configuration.
    training : bool
        Whether the backward pass of an architecture or a configuration, or of a PipeDream profile, counts too.
    reader : str, optional
        Name of the file's format in `READERS`; by default it is recognised by content.
    communication : {"size", "cost"}
        "size": tensors in bytes, work in seconds, except that `mtpp-graph/1` files keep their own time unit.
        "cost": the file's own edge costs and time unit, to be used with bandwidth 1; `msr` and `costgraph` only.
    device : Device, optional
        What an architecture or a network without times runs on.
    cost : {"roofline", "measured"}, optional
        Where the work of an ONNX model comes from; by default from the roofline model of `device`.
    input_work : {"keep", "drop"}, optional
        Whether the Input nodes of a PipeDream profile take their time; by default they do, with a warning.
    time_unit : {"s", "ms", "us"}, optional
        Of the times of a format that has no unit, which `piper` and `dot` are; by default seconds, with a warning if
        the work is too much for that.
    weights : str or path, optional
        File of weights of a configuration, or its index or folder; by default those beside it.

    Raises
    ------
    InputError
        If there is no such architecture, file or format, or the content is refused.

    Examples
    --------
    >>> load_graph("bert-base", dims={"batch": 8, "sequence": 128}).name
    'bert-base'
    """
    check_one_of("communication", communication, ("size", "cost"))
    chosen = None if reader is None else find(READERS, reader, "reader")
    if cost is not None:
        check_one_of("cost", cost, ("roofline", "measured"))
    if cost == "measured" and device is not None:
        raise InputError(f"{spec}: measured work takes no device; leave out peak_flops and memory_bandwidth.")
    if reader is None and spec in ARCHITECTURES:
        if communication == "cost":
            raise InputError(f"{spec}: an architecture has no edge costs; use communication 'size'.")
        if cost == "measured":
            raise InputError(f"{spec}: an architecture cannot be measured; give an ONNX model.")
        for name, value in (("input_work", input_work), ("time_unit", time_unit), ("weights", weights)):
            if value is not None:
                raise InputError(f"{spec}: an architecture takes no {name}; leave it out.")
        architecture = ARCHITECTURES[str(spec)]
        sizes: dict[str, Any] = architecture.checked(dims or {})
        graph = architecture.build(level=level, training=training, device=device or assumed_device(), **sizes)
        return _assuming(graph, spec, dims, level)
    if not os.path.exists(spec):
        if reader is not None:
            raise missing(spec)
        end = nearest([*ARCHITECTURES, *beside(spec)], os.path.basename(spec), "all are in mtpp list architectures")
        raise InputError(f"There is no file and no architecture {str(spec)!r}{end}")
    chosen = chosen or _recognise(spec)
    options = {
        "dims": dims,
        "level": None if level == LEVELS[0] else level,
        "training": training,
        "device": device,
        "cost": cost,
        "input_work": input_work,
        "time_unit": time_unit,
        "weights": weights,
    }
    set_options = {name: value for name, value in options.items() if value or value == ""}
    for name in set_options:
        if name not in chosen.options:
            details = {"dims": ", ".join(dims or ()), "device": "peak_flops, memory_bandwidth"}
            option = f"{name} ({details[name]})" if name in details else name
            takers = [other.name for other in READERS.values() if name in other.options]
            if name not in ("input_work", "time_unit", "weights"):
                takers = ["architectures", *takers]
            raise InputError(f"{spec}: '{chosen.name}' files take no {option}; leave it out ({', '.join(takers)} do).")
    for dim, size in (dims or {}).items():
        if isinstance(size, str) and chosen.read is not read_configuration:
            raise InputError(f"{spec}: dimension {dim} is {size}; give a whole number.")
    if communication == "size":
        if device is None and "device" in chosen.options and cost != "measured":
            set_options["device"] = assumed_device()
        _assume_words(chosen, input_work, time_unit)
        graph = _assuming(chosen.read(spec, **set_options), spec, dims, level)
    elif chosen.read_costs is None:
        raise InputError(f"{spec}: '{chosen.name}' files have no edge costs; use communication 'size'.")
    else:
        graph = chosen.read_costs(spec)
    if chosen.read is read_graph:  # the project's own format says all there is to say, and what was in doubt before
        return graph
    graph = with_doubts(graph, _unit_remedy(chosen) if time_unit is None else "")
    for text in graph.attributes.get("warnings", ()):
        warnings.warn(f"{spec}: {text}", InputWarning, stacklevel=2)
    return graph


def _assuming(
    graph: ComputationGraph, spec: str | Path, dims: Mapping[str, Dim] | None, level: str
) -> ComputationGraph:
    """The graph; of an architecture or a configuration the defaults are named that it was built with."""
    architecture = find_architecture(spec)
    if architecture is None:
        return graph
    sizes = {"phase": FORWARD} | graph.attributes["dims"]
    for name in (*architecture.dims, *(["context"] if "context" in sizes else [])):
        # What follows from the phase is no default of its own.
        if name not in (dims or {}) and (name != "sequence" or "context" not in sizes):
            assume(f"dims.{name}", _DIMS.get(name, f"{name} {{}}").format(sizes[name]))
    if level == LEVELS[0]:
        assume("level", "a node for each operator")
    return graph


def _assume_words(reader: Reader, input_work: str | None, time_unit: str | None) -> None:
    """Name the defaults of files that leave something open."""
    if reader.read_costs is not None:
        assume("communication", "tensors by their size")
    if input_work is None and "input_work" in reader.options:
        assume("input_work", "Input nodes with their time")
    if time_unit is None and "time_unit" in reader.options:
        assume("time_unit", "times in s")


def _unit_remedy(reader: Reader) -> str:
    """Advice for a graph whose work is suspiciously large."""
    if "time_unit" in reader.options:
        return f"if the file gives milliseconds, say {said('time_unit', 'ms')}"
    if "device" in reader.options:
        return f"check {word('peak_flops')} and {word('memory_bandwidth')}"
    return "check the unit of the file's times"


def _recognise(path: str | Path) -> Reader:
    """The binary format of the suffix or the first bytes, else the first that takes the text."""
    file = Path(path)
    if file.is_dir() and configuration_file(file) is not None:
        return READERS["huggingface"]
    if file.is_file():
        with file.open("rb") as stream:
            head = stream.read(_BINARY_HEAD)
        for reader in READERS.values():
            if reader.suffix and (file.suffix == reader.suffix or reader.recognises(head)):
                return reader
        if file.suffix in _WEIGHTS and b"\0" in head:
            instead = f"give the config.json of their model, with {said('weights', file.name)}"
            raise InputError(f"{path}: these are weights without the sizes of their layers; {instead}.")
    text = read_text(path)
    if file.suffix == ".json" and '"format"' not in text and '"nodes"' not in text:
        if '"peft_type"' in text:
            raise InputError(f"{path}: this is an adapter; give the config.json of the model that it adapts.")
        if configuration_file(file) is None and (model := configuration_file(file.absolute().parent)) is not None:
            raise InputError(f"{path}: this is no graph; the configuration of the model beside it is {model.name}.")
    for reader in READERS.values():
        if not reader.suffix and reader.recognises(text):
            return reader
    raise InputError(f"{path}: the format is not recognised; name the reader, one of {', '.join(READERS)}.")
