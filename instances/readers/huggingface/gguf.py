"""Configurations of decoders as the metadata of GGUF files states them, with the names that transformers gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from instances.errors import InputError, said
from instances.json_files import Value
from instances.readers.huggingface.configuration import model_types, type_defaults
from instances.readers.huggingface.weights import Stored

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
    """The field that an entry of `decoders.toml` names as deciding; empty if none decides."""
    text = word if isinstance(word, str) else ""
    return text.rpartition(" if ")[2] if " if " in text or "_" in text or text == "bias" else ""


def _sizes(words: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """Fields whose names depend on the model type, and those of latent attention and of dense layers."""
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
