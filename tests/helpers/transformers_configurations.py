"""Configurations of transformers: a tiny Llama and a tiny Gemma, files, and small random ones of any model type."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from instances.readers.huggingface.configuration import model_types

__all__ = ["GEMMA", "LLAMA", "random_configuration", "random_sizes", "written"]

LLAMA = {
    **{"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2},
    **{"num_key_value_heads": 1, "intermediate_size": 12, "vocab_size": 10, "tie_word_embeddings": False},
}
GEMMA = LLAMA | {
    **{"model_type": "gemma3_text", "head_dim": 4, "sliding_window": 2, "tie_word_embeddings": True},
    "layer_types": ["sliding_attention", "full_attention"],
}


def written(folder: Path, config: dict[str, Any] | str) -> Path:
    """The file of a configuration, or of any text, under the name that all configurations have."""
    path = folder / "config.json"
    path.write_text(config if isinstance(config, str) else json.dumps(config), encoding="utf-8")
    return path


def random_configuration(kind: str, random: Random) -> Any:
    """A configuration of this type with small random sizes, as an object of transformers."""
    from transformers import CONFIG_MAPPING

    fields = {*CONFIG_MAPPING[kind]().to_dict(), *CONFIG_MAPPING[kind].attribute_map}
    fields |= set(model_types().get(kind, {}).get("earlier", ()))
    sizes = {name: value for name, value in random_sizes(kind, random).items() if name in fields}
    return CONFIG_MAPPING[kind](**sizes)


def random_sizes(kind: str, random: Random) -> dict[str, Any]:
    """Small sizes, by the names that any model type has for them."""
    heads = random.choice((4, 8))
    width = random.choice((16, 24, 32))
    hidden = heads * width
    layers = random.choice((2, 3, 5))
    experts = random.choice((4, 6))
    inner = random.choice((48, 96, 136))
    kinds = [random.choice(("full_attention", "sliding_attention")) for _ in range(layers)]
    truth = lambda: random.random() < 0.5  # noqa: E731
    free = 16 if kind in ("glm", "glm4") else random.choice((8, 16, 24))
    sizes: dict[str, Any] = {
        "vocab_size": random.choice((97, 128)),
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": random.choice((1, 2, heads)),
        "num_kv_heads": random.choice((1, 2, heads)),
        "head_dim": free,
        "intermediate_size": inner,
        "moe_intermediate_size": random.choice((24, 40)),
        "intermediate_size_mlp": random.choice((56, 72)),
        "shared_expert_intermediate_size": random.choice((32, 56)),
        "shared_intermediate_size": random.choice((0, 32, 56)),
        "max_position_embeddings": 64,
        "rotary_dim": 8,
        "ffn_dim": inner,
        "dff": inner,
        "n_inner": random.choice((None, inner)),
        "ffn_hidden_size": random.choice((None, inner)),
        "expansion_ratio": random.choice((2, 3)),
        "intermediate_multiple_size": random.choice((2, 3)),
        "tie_word_embeddings": truth(),
        "sliding_window": random.choice((4, 7, 30)),
        "type_vocab_size": random.choice((1, 2)),
        "embedding_size": random.choice((hidden, 16)),
        "use_task_id": truth(),
        "dim": hidden,
        "hidden_dim": inner,
        "n_layers": layers,
        "n_heads": heads,
        "attention_chunk_size": 32,
        "use_sliding_window": truth(),
        "max_window_layers": 1,
        "first_k_dense_replace": random.choice((0, 1, 2)),
        "num_dense_layers": random.choice((0, 1, 2)),
        "mlp_only_layers": random.choice(([], [1])),
        "decoder_sparse_step": random.choice((1, 2)),
        "kv_lora_rank": random.choice((16, 24)),
        "q_lora_rank": random.choice((None, 20, 32)[kind == "deepseek_v32" :])
        if kind.startswith(("deepseek", "youtu"))
        else 20,
        "qk_nope_head_dim": random.choice((8, 12)),
        "qk_rope_head_dim": 8,
        "v_head_dim": random.choice((12, 20)),
        "n_group": 1,
        "topk_group": 1,
        "moe_layer_start_index": random.choice((0, 1)),
        "moe_layer_end_index": -1,
        "word_embed_proj_dim": random.choice((hidden, 24)),
        "gate_logit_softcapping": None,
    }
    for name in ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"):
        sizes[name] = experts
    for name in ("num_experts_per_tok", "moe_topk", "moe_k"):
        sizes[name] = random.choice((1, 2, 3))
    for name in ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"):
        sizes[name] = random.choice((1, 2))
    for name in (
        *("attention_bias", "mlp_bias", "use_bias", "bias", "qkv_bias", "use_qkv_bias", "use_qk_norm", "qk_layernorm"),
        *("attention_out_bias", "use_parallel_residual", "multi_query", "parallel_attn", "new_decoder_architecture"),
        *("enable_bias", "layer_norm_elementwise_affine", "lm_head_bias", "use_post_norm"),
    ):
        sizes[name] = truth()
    if kind in ("granitemoe", "granitemoeshared"):
        sizes["attention_bias"] = False
    if kind in ("gemma3_text", "gemma2", "gpt_oss", "olmo3", "ministral", "afmoe", "mellum") and truth():
        sizes["layer_types"] = kinds
    if kind == "cohere_compass_text":
        sizes |= {
            "layer_types": ["full_attention"] * layers,
            "rope_parameters": {"full_attention": {"rope_theta": 1e4, "rope_type": "default"}},
        }
    if kind == "lara_mini":
        words = ("linear_attention", "full_attention", "sliding_attention")
        sizes["layer_types"] = ["full_attention"] + [random.choice(words) for _ in range(layers - 1)]
    if kind == "gpt_neo":
        sizes |= {"attention_types": [[["global"], layers]], "num_layers": layers}
    if kind in ("helium", "hunyuan_v1_dense"):
        sizes["head_dim"] = width
    if kind in ("deepseek_v3", "deepseek_v2", "glm4_moe_lite", "axk1", "youtu", "minicpm3", "mistral4"):
        sizes["head_dim"] = sizes["qk_rope_head_dim"]
        sizes["num_key_value_heads"] = heads
    if kind in ("deepseek_v32", "glm_moe_dsa"):
        sizes |= {"index_n_heads": random.choice((2, 4)), "index_head_dim": random.choice((8, 12))}
        sizes |= {"index_topk": random.choice((5, 64)), "num_key_value_heads": heads}
        sizes["indexer_types"] = ["full"] + [random.choice(("full", "shared")) for _ in range(layers - 1)]
    if kind == "lfm3":
        sizes["layer_types"] = ["full_attention"] + [random.choice(("conv", *kinds)) for _ in range(layers - 1)]
        sizes |= {"use_sandwich_norm": truth(), "use_attention_gate": truth()}
    if kind == "dbrx":
        sizes["d_model"] = hidden
        sizes |= {
            "tie_word_embeddings": False,
            "attn_config": {"kv_n_heads": random.choice((1, 2, heads)), "rope_theta": 1e4, "clip_qkv": 8},
        }
        sizes["ffn_config"] = {"ffn_hidden_size": inner, "moe_num_experts": experts, "moe_top_k": random.choice((1, 2))}
    if kind.startswith("gemma4"):
        sizes |= {"hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "enable_moe_block": truth()}
        sizes |= {"attention_k_eq_v": truth(), "top_k_experts": 2, "global_head_dim": random.choice((32, 40))}
        sizes["num_global_key_value_heads"] = random.choice((None, 1, 2))
    if kind in ("mimo_v2_flash", "diffllama"):
        sizes["num_key_value_heads"] = 2
    if kind == "kimi_linear":
        sizes["num_key_value_heads"] = heads
        sizes["q_lora_rank"] = random.choice((None, 20))
    if kind == "internlm3":
        sizes["mlp_bias"] = sizes["bias"] = sizes["qkv_bias"] = sizes["attention_bias"]
    if kind == "phimoe":
        sizes["num_experts_per_tok"] = 2
    if kind.startswith("qwen3_5") or kind == "qwen3_next":
        sizes["layer_types"] = ["full_attention"] + ["linear_attention"] * (layers - 1)
    if kind == "falcon" and not sizes["new_decoder_architecture"]:
        sizes["num_kv_heads"] = None
    if kind in ("phi3", "openai-gpt"):
        sizes["pad_token_id"] = 0
    return sizes | _recurrent_sizes(random, hidden, heads, layers, kind)


def _recurrent_sizes(random: Random, hidden: int, heads: int, layers: int, kind: str) -> dict[str, Any]:
    """Of state spaces, linear attention and convolutions."""
    inner = 2 * hidden
    sizes: dict[str, Any] = {
        "state_size": random.choice((8, 16)),
        "mamba_d_state": random.choice((8, 16)),
        "mamba_n_heads": heads,
        "mamba_d_head": inner // heads,
        "mamba_n_groups": random.choice((1, 2)),
        "mamba_d_ssm": inner,
        "n_groups": random.choice((1, 2)),
        "mamba_dt_rank": random.choice((4, 7)),
        "time_step_rank": random.choice((4, 7)),
        "linear_num_key_heads": 2,
        "linear_num_value_heads": random.choice((2, 4)),
        "linear_key_head_dim": 8,
        "linear_value_head_dim": random.choice((8, 12)),
        "conv_L_cache": 3,
        "use_mamba_kernels": False,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "attn_layer_indices": [1],
        "full_attn_idxs": [1],
        "block_multiple_of": 8,
    }
    if kind == "mamba2":
        sizes |= {"num_heads": heads, "head_dim": inner // heads}
    if kind in ("mamba", "falcon_mamba"):
        sizes["intermediate_size"] = inner
    if kind in ("lfm2_moe", "minimax", "kimi_linear"):
        linear = "conv" if kind == "lfm2_moe" else "linear_attention"
        sizes["layer_types"] = [random.choice((linear, "full_attention")) for _ in range(layers)]
    if kind == "nemotron_h":
        words = ("linear_attention", "full_attention", "moe", "mlp")
        sizes["layers_block_type"] = ["full_attention"] + [random.choice(words) for _ in range(layers)]
        sizes |= {"mamba_num_heads": heads, "mamba_head_dim": 12, "ssm_state_size": sizes["state_size"]}
        sizes |= {"moe_shared_expert_intermediate_size": 40, "moe_latent_size": random.choice((None, 32))}
    if kind in ("kimi_linear", "nemotron_h"):
        sizes |= {"linear_num_heads": 2, "linear_head_dim": random.choice((8, 12))}
    if kind == "granitemoehybrid":
        sizes["layer_types"] = ["mamba"] * (layers - 1) + ["attention"]
    return sizes
