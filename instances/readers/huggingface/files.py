"""Files of Hugging Face models: ``config.json`` or its folder, with the headers of weights beside it; GGUF files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from instances.architectures import ARCHITECTURES
from instances.architectures.architecture import Architecture, Dim
from instances.architectures.transformers import Encoder
from instances.devices import DEFAULT_DEVICE, Device
from instances.errors import InputError, WordError, said
from instances.graph.graph import ComputationGraph
from instances.json_files import Value, check_readable, parse_json, read_text
from instances.readers.huggingface import configured_architecture, configured_record, record_architecture
from instances.readers.huggingface.configuration import levels_of, model_types, type_defaults
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
    """The file with the configuration of a model: `spec` itself, or a file of the folder `spec`; None without one.

    In a folder it is ``config.json`` or, without that, the only GGUF file that is not a tower's.
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
    """The dimension `element_bytes` by the number type that a configuration states; empty if it states none."""
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
    """The stored weights of a model: those at `weights` if given, else those beside its configuration."""
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


# Configurations of decoders as the metadata of GGUF files states them, by the names that transformers gives.


#: Model types by the architectures of llama.cpp whose layers are alike, apart from their kind of attention and experts.
_TYPES = {
    **{name: name for name in ("apertus", "arcee", "bloom", "cohere2", "dots1", "ernie4_5", "exaone4", "gemma")},
    **{name: name for name in ("gemma2", "glm4", "gpt2", "granite", "llama", "mpt", "nemotron", "olmo")},
    **{name: name for name in ("olmo2", "olmoe", "phi3", "phimoe", "qwen2", "qwen3", "seed_oss", "smollm3")},
    **{name: name for name in ("stablelm", "starcoder2")},
    **{"command-r": "cohere", "deepseek2": "deepseek_v2", "ernie4_5-moe": "ernie4_5_moe", "gemma3": "gemma3_text"},
    **{"glm4moe": "glm4_moe", "gpt-oss": "gpt_oss", "gptneox": "gpt_neox", "granitemoe": "granitemoeshared"},
    **{"hunyuan-dense": "hunyuan_v1_dense", "hunyuan-moe": "hunyuan_v1_moe", "minimax-m2": "minimax_m2"},
    **{"mistral3": "ministral3", "phi2": "phi", "qwen2moe": "qwen2_moe", "qwen2vl": "qwen2_vl_text"},
    **{"qwen3moe": "qwen3_moe", "qwen3vl": "qwen3_vl_text", "qwen3vlmoe": "qwen3_vl_moe_text"},
}
#: Sizes without which there is no configuration, and those of latent attention.
_NEEDED = ("block_count", "embedding_length", "attention.head_count")
_LATENT = ("attention.key_length", "attention.value_length", "rope.dimension_count")
#: Fields of the same name in all model types, by key of the metadata.
_FIELDS = {
    "embedding_length": "hidden_size",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "attention.sliding_window": "sliding_window",
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "expert_group_count": "n_group",
    "expert_group_used_count": "topk_group",
    "interleave_moe_layer_step": "moe_layer_interval",
    "rope.freq_base": "rope_theta",
}
#: Entries of `decoders.toml` that name a field, and the field where there is no entry; the last key in a file holds.
_NAMED = {
    "attention.head_count_kv": ("key_heads", "num_key_value_heads"),
    "attention.key_length": ("head_width", "head_dim"),
    "feed_forward_length": ("inner", "intermediate_size"),
    "expert_count": ("experts", ""),
    "expert_used_count": ("chosen", "num_experts_per_tok"),
    "expert_feed_forward_length": ("expert_inner", ""),
    "expert_shared_feed_forward_length": ("shared_inner", ""),
    "expert_shared_count": ("shared", ""),
}
#: Entries of `decoders.toml` that may name a field which says whether layers have one of these tensors.
_PRESENT = {
    "bias": ("attn_q.bias", "attn_qkv.bias", "attn_kv_a_mqa.bias"),
    "output_bias": ("attn_output.bias",),
    "feed_bias": ("ffn_down.bias", "ffn_up.bias", "ffn_down_shexp.bias"),
    "head_bias": ("output.bias",),
    "query_norm": ("attn_q_norm.weight",),
}


def gguf_configuration(stored: Stored) -> Value:
    """The configuration that transformers would have of the model in a GGUF file.

    Its model type is that of the file's architecture. Which biases and norms its layers have, and whether head and
    embedding are tied, follows from the names of the tensors. Its numbers have two bytes, as those that llama.cpp
    keeps in caches by default.

    Raises
    ------
    InputError
        If nothing is known of the architecture, or the metadata lacks a size or has one for each layer.
    """
    architecture = str(stored.values.get("general.architecture", ""))
    numbers = {name: value for name, value in stored.values.items() if type(value) in (int, float)}
    stated = {name.removeprefix(f"{architecture}."): number for name, number in numbers.items()}
    kind = _TYPES.get(architecture, "")
    if kind == "llama" and stated.get("expert_count"):
        kind = "mixtral"
    if not kind:
        _refuse(stored, f"nothing is known of its architecture '{architecture:.40}'")
    names = {tensor.name for tensor in stored.tensors}
    words = model_types()[kind]
    for name in (*_NEEDED, *(_LATENT if words.get("latent") else ())):
        if type(stated.get(name)) is not int or stated[name] < 1:
            _refuse(stored, f"its metadata has no single number {architecture}.{name}")
    fields = {*type_defaults(kind)["defaults"], *type_defaults(kind)["aliases"]}
    embedding = next((tensor.elements for tensor in stored.tensors if tensor.name == "token_embd.weight"), 0)
    config: dict[str, Any] = {
        "model_type": kind,
        "dtype": "float16",
        "num_hidden_layers": stated["block_count"] - stated.get("nextn_predict_layers", 0),
        "vocab_size": embedding // stated["embedding_length"],
        "tie_word_embeddings": "output.weight" not in names,
        **{field: stated[name] for name, field in _FIELDS.items() if name in stated and field in fields},
        **_sizes(words, stated),
    }
    for word, forms in _PRESENT.items():
        if field := _deciding(words.get(word)):
            config[field] = not names.isdisjoint((*forms, *(f"blk.0.{form}" for form in forms)))
    if "use_parallel_residual" in words.get("norms_unless", ()):
        config["use_parallel_residual"] = "blk.0.ffn_norm.weight" not in names
    return Value(config, stored.source)


def _deciding(word: object) -> str:
    """The field that decides an entry of `decoders.toml`; empty if no field does."""
    text = word if isinstance(word, str) else ""
    return text.rpartition(" if ")[2] if " if " in text or "_" in text or text == "bias" else ""


def _sizes(words: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """Fields with names that depend on the model type, fields of latent attention, and number of dense layers."""
    sizes = {}
    for name, (word, usual) in _NAMED.items():
        field = words.get(word, usual)
        if name in stated and isinstance(field, str) and field:
            sizes[field.partition("|")[0]] = stated[name]
    if words.get("latent"):
        width, value_width, rotary = (stated.get(f"{name}_mla", stated[name]) for name in _LATENT)
        sizes |= {"qk_rope_head_dim": rotary, "qk_nope_head_dim": width - rotary, "v_head_dim": value_width}
        sizes["num_key_value_heads"] = stated["attention.head_count"]
    rule, _, field = str(words.get("sparse")).partition(" ")
    if rule == "ernie" or (rule == "first" and not field.isdigit()):
        sizes[field or "moe_layer_start_index"] = stated.get("leading_dense_block_count", 0)
    return sizes


def _refuse(stored: Stored, why: str) -> NoReturn:
    instead = f"give the config.json of its model, with {said('weights', Path(stored.source).name)}"
    raise InputError(f"{stored.source}: {why}; {instead}.")
