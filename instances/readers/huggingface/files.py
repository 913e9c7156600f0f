"""Files of a model: its configuration and its weights."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from instances.architectures import ARCHITECTURES
from instances.architectures.architecture import Architecture
from instances.architectures.phases import Dim
from instances.architectures.transformers import Encoder
from instances.devices import DEFAULT_DEVICE, Device
from instances.errors import InputError
from instances.graph.display import figures
from instances.graph.graph import ComputationGraph
from instances.json_files import Value, check_readable, parse_json, read_json, read_text
from instances.readers.huggingface import configured_architecture
from instances.readers.huggingface.configuration import decoder_of, encoder_of, is_encoder
from instances.readers.huggingface.network import other_caches
from instances.readers.huggingface.record import Decoder, StoredTensor, read_headers

# True bytes of a decoder's parameters, from the headers of the weights that lie beside its configuration.


_INDEX = "model.safetensors.index.json"
_MOST_FILES = 2_000
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|blk)\.([0-9]{1,5})\.")
#: Parts of a multimodal model that are no decoder: towers for pictures and sound, and what joins them to it.
_TOWERS = re.compile(
    r"^(?:v|a|mm)\.|(?:^|\.)(?:vision\w*|visual|audio\w*|vit|multi_modal\w*|mm_projector|image\w*|embed_(?:vision|audio))\."
)
#: Layers that draft further tokens.
_DRAFTS = re.compile(r"(?:^|\.)mtp\.")
#: Files of GGUF that hold the towers alone.
_TOWER_FILES = "mmproj"
#: Tensors that some files hold beside parameters.
_BUFFERS = re.compile(r"(inv_freq|attn\.bias|attn\.masked_bias|rope_freqs\.weight|attention\.bias|rotary_emb\..*)$")


def with_true_bytes(graph: ComputationGraph, record: Decoder, folder: Path) -> tuple[ComputationGraph, list[str]]:
    """The graph with the bytes of stored parameters, and what is in doubt; the same graph if there are no weights.

    The bytes of a layer are those of its tensors, spread over its nodes as its parameters are. Those of towers for
    pictures and sound count where the embedding does, as runtimes have them. Times stay those of `element_bytes`.

    Raises
    ------
    InputError
        If the weights are those of another model.
    """
    tensors, source = _stored(folder)
    if not tensors:
        return graph, [source] if source else []
    by_part: dict[int, list[StoredTensor]] = defaultdict(list)
    for tensor in tensors:
        part = _part(tensor.name, record)
        if part is not None:
            by_part[part].append(tensor)
    _check_layers(by_part, record, source)
    width = int(graph.attributes["dims"]["element_bytes"])
    parts = [_part_of_node(name, record) for name in graph.names]
    sizes: dict[int, float] = defaultdict(float)
    for part, size in zip(parts, graph.param_bytes.tolist(), strict=True):
        sizes[part] += size
    shared = [(parameter, parts[parameter.users[0]]) for parameter in graph.parameters]
    for parameter, part in shared:
        sizes[part] += parameter.bytes
    ratio = {}
    for part, size in sizes.items():
        stored = by_part.get(part, [])
        if all(tensor.plain for tensor in stored) and sum(tensor.elements for tensor in stored) * width != size:
            where = f"layer {part}" if part >= 0 else "its ends"
            raise InputError(
                f"{source}: the tensors of {where} have {sum(tensor.elements for tensor in stored)} elements, and the "
                f"configuration asks for {size / width:.0f}; these are weights of another model: move them elsewhere."
            )
        ratio[part] = sum(tensor.bytes for tensor in stored) / size if size else 1.0
    scaled = replace(
        graph,
        param_bytes=graph.param_bytes * [ratio[part] for part in parts],
        parameters=tuple(replace(parameter, bytes=parameter.bytes * ratio[part]) for parameter, part in shared),
        source=f"{graph.source}; bytes of parameters as in {source}",
    )
    towers = sum(tensor.bytes for tensor in tensors if _is_of_tower(tensor.name))
    drafts = sum(tensor.bytes for tensor in tensors if _is_behind(tensor.name, record))
    doubts = [f"{figures(drafts, 'bytes')} of layers behind the last, as of a drafter, are left out."] if drafts else []
    if not towers:
        return scaled, doubts
    embedding = next(v for v, name in enumerate(graph.names) if name.startswith(record.before[0]))
    param_bytes = scaled.param_bytes.copy()
    param_bytes[embedding] += towers
    doubts.append(f"{figures(towers, 'bytes')} of towers count as weights of {record.before[0]}, their work does not.")
    return replace(scaled, param_bytes=param_bytes), doubts


def _stored(folder: Path) -> tuple[list[StoredTensor], str]:
    """All tensors of the weights in a folder, and their file; or none, and what is wrong with the files."""
    files = sorted(folder.glob("*.safetensors"))
    source = str(folder / "*.safetensors")
    index = folder / _INDEX
    if files and index.is_file():
        named = read_json(index).open_members(("weight_map",))["weight_map"].open_members(())
        wanted = {name.text() for name in named.values()}
        missing = sorted(wanted - {file.name for file in files})
        if missing:
            return [], f"of {len(wanted)} files of weights {missing[0]} is missing; bytes are those of element_bytes."
        files = [file for file in files if file.name in wanted]
    if not files:
        of_towers = {_TOWER_FILES in file.name: file for file in sorted(folder.glob("*.gguf"), reverse=True)}
        files = [of_towers[kind] for kind in sorted(of_towers)]
        source = str(files[0]) if files else ""
    if len(files) > _MOST_FILES:
        raise InputError(f"{folder}: there are {len(files)} files of weights; {_MOST_FILES} are the most that is read.")
    return [tensor for file in files for tensor in read_headers(file)], source


def _part(name: str, record: Decoder) -> int | None:
    """The layer of a tensor, −1 for the ends, None for what is no part of the decoder."""
    if _BUFFERS.search(name) or _DRAFTS.search(name) or _is_of_tower(name):
        return None
    if match := _LAYER.search(name):
        number = int(match[1])
        return number if number < len(record.layers) else None
    head = name.startswith(("output.", "lm_head.", "embed_out.")) or name == "output.weight"
    return None if head and record.tied else -1


def _is_of_tower(name: str) -> bool:
    """Whether a tensor is of an encoder of images or sounds beside the decoder; `blk.` is GGUF's own decoder."""
    return bool(_TOWERS.search(name)) and not name.startswith("blk.")


def _is_behind(name: str, record: Decoder) -> bool:
    """Whether a tensor is of a layer that the decoder does not have."""
    match = _LAYER.search(name)
    return not _is_of_tower(name) and (
        bool(_DRAFTS.search(name)) or (match is not None and int(match[1]) >= len(record.layers))
    )


def _part_of_node(name: str, record: Decoder) -> int:
    """Number of the layer that a node of the graph is in, -1 outside of all layers."""
    rest = name.removeprefix(f"{record.stack}.")
    return int(rest.partition(".")[0]) if rest != name else -1


def _check_layers(by_part: dict[int, list[StoredTensor]], record: Decoder, source: str) -> None:
    """Refuse weights that lack a layer of the model."""
    for number in range(len(record.layers)):
        if number not in by_part:
            raise InputError(
                f"{source}: there is no tensor of layer {number} of {len(record.layers)}; these are weights of another "
                "model or a part of them: move them elsewhere."
            )


# Files of Hugging Face models: ``config.json`` or its folder, with the headers of weights beside it.


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
    """The configuration that a path names, or that is in the folder that it names; None if there is none."""
    if not isinstance(spec, str | os.PathLike):
        return None
    path = Path(spec)
    if path.is_dir():
        path = path / CONFIGURATION
    try:
        if path.suffix != ".json" or not path.is_file() or path.stat().st_size > _MOST:
            return None
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return None
    return path if recognises_configuration(text) else None


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
) -> ComputationGraph:
    """The graph of the decoder or encoder that a configuration describes.

    Parameters
    ----------
    path : str or path
        ``config.json``, or its folder. Where ``*.safetensors`` or ``*.gguf`` lie beside that of a decoder, their
        headers say the bytes of the parameters; no weight is read.
    dims : mapping, optional
        As of served architectures: batch, sequence, element_bytes, phase, context and kv_bytes.
    level, training, device
        As for `Architecture.build`.

    Raises
    ------
    InputError
        If the configuration is refused, or the weights beside it are those of another model.
    """
    file = Path(path) / CONFIGURATION if Path(path).is_dir() else Path(path)
    config = _read(file)
    architecture, warnings = configured_architecture(config, _name(file))
    try:
        sizes: dict[str, Any] = architecture.checked(dims or {})
        graph = architecture.build(level=level, training=training, device=device or DEFAULT_DEVICE, **sizes)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    count = int(graph.attributes["parameter_count"])
    if count > _MOST_PARAMETERS:
        raise InputError(f"{file}: the model would have {count:.3g} parameters; check its sizes.")
    if not architecture.served:
        graph = replace(graph, attributes={**graph.attributes, "modules": encoder_of(config)[0].modules})
    else:
        record, _ = decoder_of(config)
        if _is_alone(config, record):
            graph = replace(graph, attributes={**graph.attributes, "modules": record.modules})
        if "phase" in graph.attributes["dims"]:
            caches = other_caches(record, graph.attributes["dims"])
            graph = replace(graph, attributes={**graph.attributes, "caches": caches})
        if not training:
            graph, more = with_true_bytes(graph, record, file.parent)
            warnings += more
    if "element_bytes" not in (dims or {}):
        warnings += _other_width(config, int(graph.attributes["dims"]["element_bytes"]))
    if warnings:
        graph = replace(graph, attributes={**graph.attributes, "warnings": warnings})
    return graph


def _is_alone(config: Value, record: Decoder) -> bool:
    """Whether the decoder with its head is the whole model, so that the paths of its modules are known."""
    members = config.open_members(("model_type",))
    classes = members["architectures"].data if "architectures" in members else None
    headed = not classes or (isinstance(classes, list) and str(classes[0]).endswith(_HEADED))
    return members["model_type"].data == record.kind and record.embedding == record.hidden and headed


def _other_width(config: Value, width: int) -> list[str]:
    """A doubt where the configuration states a type of other bytes than a number has by default."""
    members = config.open_members(())
    stated = [members[name].data for name in ("dtype", "torch_dtype") if name in members][:1]
    return [
        f"its numbers are {name}; they count as {width} bytes each, with element_bytes={size} as {size}."
        for name, size in _WIDTHS.items()
        if name in stated and size != width
    ]


def _name(file: Path) -> str:
    """Name of a model: that of its folder, or of a configuration with a name of its own."""
    return (file.resolve().parent.name if file.name == CONFIGURATION else file.stem) or file.stem


def _read(file: Path) -> Value:
    """The content of a configuration; limits of times in it may be infinite, which JSON has no word for."""
    check_readable(file, _MOST)
    return parse_json(_INFINITE.sub("1e999", read_text(file)), str(file))


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
    record: tuple[Decoder | Encoder, list[str]] = (encoder_of if is_encoder(config) else decoder_of)(config)
    return (_name(file), *record)


def find_architecture(spec: object) -> Architecture | None:
    """The architecture of this name, or that of the configuration with this path; None for anything else."""
    if isinstance(spec, str) and spec in ARCHITECTURES:
        return ARCHITECTURES[spec]
    file = configuration_file(spec)
    return None if file is None else configured_architecture(_read(file), _name(file))[0]
