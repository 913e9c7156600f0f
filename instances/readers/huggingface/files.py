"""Files of Hugging Face models: ``config.json`` or its folder, with the headers of weights beside it; GGUF files."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from instances.architectures import ARCHITECTURES
from instances.architectures.architecture import Architecture, Dim
from instances.architectures.transformers import Encoder
from instances.devices import DEFAULT_DEVICE, Device
from instances.errors import InputError, WordError
from instances.graph.graph import ComputationGraph
from instances.json_files import Value, check_readable, parse_json, read_text
from instances.readers.huggingface import configured_architecture, configured_record, record_architecture
from instances.readers.huggingface.configuration import levels_of
from instances.readers.huggingface.gguf import gguf_configuration
from instances.readers.huggingface.network import other_caches
from instances.readers.huggingface.record import Decoder
from instances.readers.huggingface.weights import (
    GGUF,
    Parts,
    Stored,
    as_stored,
    only_gguf,
    stored_weights,
    stored_widths,
    with_others,
    without_part,
)

CONFIGURATION = "config.json"
#: Bytes of a configuration; the largest have 200,000.
_MOST = 4 * 2**20
#: Parameters of a model; the largest have some 10^12.
_MOST_PARAMETERS = 10**15
#: Bytes of a number.
_WIDTHS = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
#: How the names of classes end whose modules are those of a decoder with its head.
_HEADED = ("ForCausalLM", "LMHeadModel")
#: Fields of which every configuration has one.
_MARKS = ("model_type", "text_config", "architectures", "auto_map")

_INFINITE = re.compile(r"(?<=[\[\s,:])Infinity(?=[\s,\]}])")


def configuration_file(spec: object) -> Path | None:
    """The file that says the sizes of a model: a configuration, a GGUF file, or the one in a folder; None without.

    In a folder, ``config.json`` goes before GGUF files, of which there must be one, apart from towers.
    """
    if not isinstance(spec, str | os.PathLike):
        return None
    path = Path(spec)
    if os.path.isdir(path):
        file = path / CONFIGURATION
        return file if os.path.lexists(file) else only_gguf(path)
    return path if is_configuration(path) or (path.suffix.lower() == GGUF and path.is_file()) else None


def is_configuration(path: Path) -> bool:
    """Whether a file can be read, and is a JSON file with the configuration of a model."""
    try:
        if path.suffix != ".json" or not path.is_file() or path.stat().st_size > _MOST:
            return False
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return False
    return recognises_configuration(text)


def recognises_configuration(text: str) -> bool:
    """Whether a text is the configuration of a model."""
    if len(text) > _MOST or not any(f'"{mark}"' in text for mark in _MARKS):
        return False
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and "format" not in data and any(mark in data for mark in _MARKS)


def read_configuration(
    path: str | Path,
    *,
    dims: dict[str, Dim] | None = None,
    level: str = "operator",
    training: bool = False,
    device: Device | None = None,
    weights: str | Path | None = None,
) -> ComputationGraph:
    """The graph of the decoder or encoder that a configuration describes.

    Parameters
    ----------
    path : str or path
        ``config.json``, or its folder. Where ``*.safetensors``, ``*.gguf`` or files of PyTorch lie beside it, their
        headers say the bytes of the parameters; no weight is read. Or a GGUF file, whose metadata say the sizes.
    dims : mapping, optional
        As for served architectures: batch, sequence, element_bytes (by default the width of the number type of the
        configuration, 4 if it states none), phase, context and kv_bytes.
    level, training, device
        As for `Architecture.build`.
    weights : str or path, optional
        A file or folder of weights, beside the configuration or elsewhere; by default those beside it.

    Raises
    ------
    InputError
        If the configuration is refused, or the weights beside it are those of another model.
    """
    file = configuration_file(path) or (Path(path) / CONFIGURATION if Path(path).is_dir() else Path(path))
    config = _read(file)
    record, warnings = configured_record(config)
    if isinstance(record, Decoder) and record.quantized is not None:
        warnings.append("its weights are quantised: bytes are those of element_bytes, but with the weights beside it.")
    stored = None if training else _stored(file, weights)
    if training and weights is not None:
        raise WordError("weights", str(weights), "a step of training holds numbers of element_bytes; leave it out.")
    if stored is not None:
        record, doubts = as_stored(record, stored)
        warnings += [*stored.doubts, *doubts]
    architecture = record_architecture(record, _name(file), str(file))
    build = partial(architecture.build, level=level, training=training, device=device or DEFAULT_DEVICE)
    try:
        sizes: dict[str, Any] = architecture.checked({**_width(config), **(dims or {})})
        graph = build(**sizes)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    count = int(graph.attributes["parameter_count"])
    if count > _MOST_PARAMETERS:
        raise InputError(f"{file}: the model would have {count:.3g} parameters; check its sizes.")
    if stored is not None and stored.tensors:
        parts = Parts.of(record, stored)
        graph = build(**sizes, widths=stored_widths(graph, parts, stored))
        graph = replace(graph, source=f"{graph.source}; bytes of parameters as in {stored.source}")
        graph, more = with_others(graph, parts, stored)
        warnings += more
    architecture.assume_defaults(graph, dims or {})
    attributes = dict(graph.attributes)
    if isinstance(record, Encoder) or _is_alone(config, record):
        attributes["modules"] = record.modules
    if isinstance(record, Decoder) and "phase" in attributes["dims"]:
        attributes["caches"] = other_caches(record, attributes["dims"])
    if isinstance(record, Decoder) and record.labels is not None:
        attributes["labels"] = record.labels
    if warnings:
        attributes["warnings"] = warnings
    return replace(graph, attributes=attributes)


def _is_alone(config: Value, record: Decoder) -> bool:
    """Whether the decoder with its head is the whole model, so that the paths of its modules are known."""
    members = config.open_members(("model_type",))
    classes = members["architectures"].data if "architectures" in members else None
    headed = not classes or (isinstance(classes, list) and str(classes[0]).endswith(_HEADED))
    return members["model_type"].data == record.kind and record.embedding == record.hidden and headed


def _width(config: Value) -> dict[str, Dim]:
    """Bytes of a number, by the type that the configuration states; empty if it states none."""
    texts = [level[name].data for _, level in levels_of(config) for name in ("dtype", "torch_dtype") if name in level]
    stated = [text for text in texts if text is not None][:1]
    sizes = [size for name, size in _WIDTHS.items() if name in stated]
    return {"element_bytes": sizes[0]} if sizes else {}


def _name(file: Path) -> str:
    """Name of a model: that of its folder, above the folders of a hub's cache, or of its configuration file."""
    if file.name != CONFIGURATION:
        return without_part(file)
    folder = Path(os.path.abspath(file)).parent
    if folder.parent.name == "snapshots":
        return folder.parent.parent.name.rpartition("--")[2]
    return Path(os.path.realpath(file)).parent.name or file.stem


def _read(file: Path) -> Value:
    """The content of a configuration file, in which time limits may be the literal Infinity, which JSON lacks."""
    if file.suffix.lower() == GGUF:
        return gguf_configuration(_stored(file, None))
    check_readable(file, _MOST)
    return parse_json(_INFINITE.sub("1e999", read_text(file)), str(file))


def _stored(file: Path, weights: str | Path | None) -> Stored:
    """The weights beside a configuration, or those of a GGUF file with its other parts; `weights` names others."""
    return stored_weights(file.parent, file if weights is None and file.suffix.lower() == GGUF else weights)


def find_stored(spec: object, record: Decoder, weights: str | Path | None) -> tuple[Decoder, Stored, list[str]]:
    """The decoder of a configuration, the weights stored beside it, if any, and sentences about doubts.

    Raises
    ------
    InputError
        As `stored_weights`.
    """
    file = configuration_file(spec)
    assert file is not None
    stored = _stored(file, weights)
    decoder, doubts = as_stored(record, stored)
    assert isinstance(decoder, Decoder)
    return decoder, stored, [*(stored.doubts if stored.tensors else []), *doubts]


def find_record(spec: object) -> tuple[str, Decoder | Encoder, list[str]] | None:
    """Name, record and doubts of the configuration with this path; None if there is none.

    Raises
    ------
    InputError
        If the configuration is refused.
    """
    file = configuration_file(spec)
    if file is None:
        return None
    config = _read(file)
    record, doubts = configured_record(config)
    if isinstance(record, Decoder) and record.labels:
        doubts.append("of its head, which yields no words, the parameters count, its work does not.")
    return _name(file), record, doubts


def find_architecture(spec: object) -> Architecture | None:
    """The architecture of this name, or that of the configuration with this path; None for anything else."""
    if isinstance(spec, str) and spec in ARCHITECTURES:
        return ARCHITECTURES[spec]
    file = configuration_file(spec)
    if file is None:
        return None
    name, config = _name(file), _read(file)
    return configured_architecture(config, name)[0]
