"""True bytes of a decoder's parameters, from the headers of the weights that lie beside its configuration."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from instances.errors import InputError
from instances.graph.display import figures
from instances.graph.graph import ComputationGraph
from instances.json_files import read_json
from instances.readers.huggingface.headers import StoredTensor, read_headers
from instances.readers.huggingface.record import Decoder

__all__ = ["with_true_bytes"]

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
    return bool(_TOWERS.search(name)) and not name.startswith("blk.")


def _is_behind(name: str, record: Decoder) -> bool:
    """Whether a tensor is of a layer that the decoder does not have."""
    match = _LAYER.search(name)
    return not _is_of_tower(name) and (
        bool(_DRAFTS.search(name)) or (match is not None and int(match[1]) >= len(record.layers))
    )


def _part_of_node(name: str, record: Decoder) -> int:
    rest = name.removeprefix(f"{record.stack}.")
    return int(rest.partition(".")[0]) if rest != name else -1


def _check_layers(by_part: dict[int, list[StoredTensor]], record: Decoder, source: str) -> None:
    for number in range(len(record.layers)):
        if number not in by_part:
            raise InputError(
                f"{source}: there is no tensor of layer {number} of {len(record.layers)}; these are weights of another "
                "model or a part of them: move them elsewhere."
            )
