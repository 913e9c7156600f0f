"""Graphs from files and from named architectures."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instances.architectures import ARCHITECTURES, LEVELS, Dim
from instances.devices import Device, assumed_device
from instances.errors import InputError, InputWarning, Registry, assume, check_one_of, find, said, word
from instances.graph.graph import ComputationGraph, read_graph
from instances.json_files import missing, read_text
from instances.readers.costgraph import read_costgraph, recognises_costgraph
from instances.readers.dot import read_dot, recognises_dot
from instances.readers.huggingface.files import (
    CONFIGURATION,
    configuration_file,
    is_configuration,
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

__all__ = ["READERS", "Reader", "is_model", "load_graph"]
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

    @property
    def files(self) -> str:
        """Text that names the files it reads, for messages."""
        return f"'{self.name}' files" if self.name in READERS else "architectures"

    @property
    def remedy(self) -> str:
        """Advice for a graph whose work is suspiciously large."""
        if "time_unit" in self.options:
            return f"if the file gives milliseconds, say {said('time_unit', 'ms')}"
        if "device" in self.options:
            return f"check {word('peak_flops')} and {word('memory_bandwidth')}"
        return "check the unit of the file's times"


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
            "config.json of Hugging Face transformers, or its folder, or GGUF, priced by a roofline model",
            read_configuration,
            recognises_configuration,
            options=("dims", "level", "training", "device", "weights"),
        ),
        Reader("json", "mtpp-graph/1, the format of this project", read_graph, lambda text: text.lstrip()[:1] in "{["),
    ),
    "mtpp.readers",
)


#: First bytes of archives, as `torch.save` makes them.
_ZIP = b"PK\x03\x04"
#: Suffixes of files that hold weights alone.
_WEIGHTS = (".safetensors", ".bin", ".pth")


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

    Each doubt about the contents of a file is an `InputWarning`, and a sentence in the attribute ``warnings``.

    Parameters
    ----------
    spec : str or path
        Name of an architecture, or a file. A name wins; write ``./name`` for a file that is called like one.
    dims : mapping of str to int or str, optional
        Dimensions of the architecture or network, such as batch and sequence; the phase of a decoder is a word.
    level : {"operator", "layer"}
        Whether a node of an architecture or configuration is an operator or a layer.
    training : bool
        Whether the backward pass of an architecture or a configuration, or of a PipeDream profile, counts too.
    reader : str, optional
        Name of the file's format in `READERS`; by default it is recognised by content.
    communication : {"size", "cost"}
        "size": tensors in bytes, work in seconds, except that `mtpp-graph/1` files keep their own time unit.
        "cost": the file's own edge costs and time unit, to be used with bandwidth 1; `msr` and `costgraph` only.
    device : Device, optional
        Device for which an architecture or a network without times is priced.
    cost : {"roofline", "measured"}, optional
        Source of the work of an ONNX model; by default the roofline model of `device`.
    input_work : {"keep", "drop"}, optional
        Whether the Input nodes of a PipeDream profile take their time; by default they do, with a warning.
    time_unit : {"s", "ms", "us"}, optional
        Unit of the times in formats that state none, `piper` and `dot`; by default seconds, with a warning if the work
        is implausibly large.
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
    if cost is not None:
        check_one_of("cost", cost, ("roofline", "measured"))
    if cost == "measured" and device is not None:
        raise InputError(f"{spec}: measured work takes no device; leave out peak_flops and memory_bandwidth.")
    source = _source(spec, reader)
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
    stated = {name: value for name, value in options.items() if value or value == ""}
    _check_options(spec, source, stated)
    if communication == "cost":
        if source.read_costs is None:
            raise InputError(f"{spec}: {source.files} have no edge costs; use communication 'size'.")
        graph = source.read_costs(spec)
    else:
        _assume_words(source, stated)
        roofline = {"device": device or assumed_device()} if "device" in source.options and cost != "measured" else {}
        graph = source.read(spec, **stated | roofline)
    if source.read in (_build, read_graph):  # they say all there is to say, the format with what was in doubt before
        return graph
    graph = with_doubts(graph, source.remedy if time_unit is None else "")
    for text in graph.attributes.get("warnings", ()):
        warnings.warn(f"{spec}: {text}", InputWarning, stacklevel=2)
    return graph


def _build(
    name: str | Path,
    *,
    dims: Mapping[str, Dim] | None = None,
    level: str = "operator",
    training: bool = False,
    device: Device,
) -> ComputationGraph:
    """The graph of a named architecture."""
    architecture = ARCHITECTURES[str(name)]
    sizes: dict[str, Any] = architecture.checked(dims or {})
    graph = architecture.build(level=level, training=training, device=device, **sizes)
    architecture.assume_defaults(graph, sizes)
    return graph


#: How the graphs of named architectures come about; no format of files, so not in `READERS`.
_NAMED = Reader(
    "architecture",
    "named architectures",
    _build,
    ARCHITECTURES.__contains__,
    options=("dims", "level", "training", "device"),
)


def _source(spec: str | Path, reader: str | None) -> Reader:
    """The reader with this name, else the one for the named architecture or for the contents of the file."""
    chosen = None if reader is None else find(READERS, reader, "reader")
    if chosen is None and spec in ARCHITECTURES:
        return _NAMED
    if os.path.exists(spec):
        return chosen or _recognise(spec)
    if chosen is not None:
        raise missing(spec)
    others = "all architectures are in mtpp list architectures; for others give a file, such as a config.json"
    raise missing(spec, "file or architecture", others, ARCHITECTURES)


def is_model(spec: str | Path) -> bool:
    """Whether this names an architecture, or a file or folder with a model; graphs and answers in JSON are none."""
    path = Path(spec)
    if not path.exists():
        return str(spec) in ARCHITECTURES
    if configuration_file(path) is not None:
        return True
    try:
        return path.is_file() and path.suffix != ".json" and bool(_recognise(path).suffix)
    except InputError:
        return False


def _check_options(spec: str | Path, source: Reader, stated: Mapping[str, Any]) -> None:
    """Refuse options that the reader does not take, and say which readers do."""
    for name in stated:
        if name not in source.options:
            names = ("peak_flops", "memory_bandwidth") if name == "device" else (name,)
            option = " or ".join(map(word, names)) + (f" ({', '.join(stated[name])})" if name == "dims" else "")
            takers = [other.name for other in READERS.values() if name in other.options]
            if name in _NAMED.options:
                takers = ["architectures", *takers]
            raise InputError(f"{spec}: {source.files} take no {option}; leave it out ({', '.join(takers)} do).")


def _assume_words(reader: Reader, stated: Mapping[str, Any]) -> None:
    """Note the defaults of a reader whose files leave something open."""
    if reader.read_costs is not None:
        assume("communication", "tensors by their size")
    if "input_work" not in stated and "input_work" in reader.options:
        assume("input_work", "Input nodes with their time")
    if "time_unit" not in stated and "time_unit" in reader.options:
        assume("time_unit", "times in s")


def _recognise(path: str | Path) -> Reader:
    """The reader of a file: a binary format by suffix or first bytes, else the first that recognises the text."""
    file = Path(path)
    if file.suffix != ".json" and configuration_file(file) is not None:
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
        if head.startswith(_ZIP):
            instead = "save a module of PyTorch by torch.export, as .pt2, or give it to mtpp.load in Python"
            raise InputError(f"{path}: this is an archive, of which nothing is run; {instead}.")
    text = read_text(path)
    if file.suffix == ".json" and '"format"' not in text and '"nodes"' not in text:
        if '"peft_type"' in text:
            raise InputError(f"{path}: this is an adapter; give the config.json of the model that it adapts.")
        if not is_configuration(file) and is_configuration(file.absolute().parent / CONFIGURATION):
            raise InputError(f"{path}: this is no graph; the configuration of the model beside it is {CONFIGURATION}.")
    for reader in READERS.values():
        if not reader.suffix and reader.recognises(text):
            return reader
    raise InputError(f"{path}: the format is not recognised; name the reader, one of {', '.join(READERS)}.")
