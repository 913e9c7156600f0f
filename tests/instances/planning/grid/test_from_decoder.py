"""Language models from configurations: counts are those of the architecture or published, other layers are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from command_line import mtpp
from transformers_configurations import random_sizes

from instances.errors import InputError, UnknownLayersError
from instances.json_files import parse_json
from instances.planning.grid import Servers
from instances.planning.grid.accelerators import ACCELERATORS
from instances.planning.grid.layers import Clockwork, LayerCosts
from instances.planning.grid.transformer import Transformer, transformer_of
from instances.readers.huggingface import configured_architecture
from instances.readers.huggingface.configuration import decoder_of, encoder_of, model_types
from instances.readers.huggingface.files import find_architecture, find_record
from instances.readers.huggingface.record import Attention, LatentAttention, Layer
from instances.serving.transformers import served_model

SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "vocab_size": 100,
}
TYPES: dict[str, dict[str, Any]] = {
    "llama": {"num_key_value_heads": 2},
    "qwen2": {"num_key_value_heads": 2, "tie_word_embeddings": True},
    "qwen3": {"num_key_value_heads": 2, "head_dim": 16},
    "mixtral": {"num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2},
    "gpt2": {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_inner": 96, "n_positions": 50},
    "phi": {"num_key_value_heads": 4},
}


FAMILIES = ("decoders", "encoders")
#: Published models, and their numbers of trained parameters.
PUBLISHED: dict[str, tuple[int, dict[str, Any]]] = {
    "deepseek_v3": (
        671_026_419_200 - 58 * 256,  # without the biases that choose experts, which no gradient changes
        {
            **{"hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128, "vocab_size": 129280},
            **{"num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048},
            **{"n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3},
            **{"kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64},
            "v_head_dim": 128,
        },
    ),
    "deepseek_v2": (
        15_706_484_224,
        {
            **{"hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16, "vocab_size": 102400},
            **{"num_key_value_heads": 16, "intermediate_size": 10944, "moe_intermediate_size": 1408},
            **{"n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1},
            **{"kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64},
            "v_head_dim": 128,
        },
    ),
    "gemma2": (
        9_241_705_984,
        {
            **{"hidden_size": 3584, "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8},
            **{"head_dim": 256, "intermediate_size": 14336, "vocab_size": 256000},
        },
    ),
    "qwen2_moe": (
        14_315_784_192,
        {
            **{"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16},
            **{"moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts": 60},
            **{"num_experts_per_tok": 4, "vocab_size": 151936},
        },
    ),
    "qwen3_moe": (
        30_532_122_624,
        {
            **{"hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4},
            **{"head_dim": 128, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8},
            "vocab_size": 151936,
        },
    ),
    "gpt_oss": (
        116_829_156_672,
        {
            **{"hidden_size": 2880, "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8},
            **{"head_dim": 64, "intermediate_size": 2880, "num_local_experts": 128, "num_experts_per_tok": 4},
            "vocab_size": 201088,
        },
    ),
}
#: What is in the way of plans for other model types of decoders, where they have such layers.
REFUSED = {
    **dict.fromkeys(("mamba", "falcon_mamba", "jamba"), "mamba in a layer"),
    **dict.fromkeys(("mamba2", "bamba", "falcon_h1", "granitemoehybrid"), "mamba2 in a layer"),
    **dict.fromkeys(
        ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "olmo_hybrid", "lara_mini"), "delta_rule in a layer"
    ),
    "nemotron_h": "(mamba2 in a layer|a layer that is not attention and a feed-forward network)",
    "kimi_linear": "delta_rule in a layer",
    "minimax": "linear_attention in a layer",
    **dict.fromkeys(("lfm2", "lfm2_moe", "lfm3"), "convolution in a layer"),
    **dict.fromkeys(("deepseek_v32", "glm_moe_dsa"), "attention whose tokens an indexer chooses"),
    "diffllama": "attention that computes its scores 2 times",
}


def write(folder: Path, kind: str, **others: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps({"model_type": kind, **SMALL, **TYPES.get(kind, {}), **others}))
    return path


@pytest.mark.parametrize("kind", TYPES)
def test_parameters_are_those_of_the_architecture(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path, kind)
    found, architecture = find_record(path), find_architecture(path)
    assert found is not None
    assert architecture is not None
    name, record, _ = found
    graph = architecture.build(sequence=8)
    assert transformer_of(record, name).parameters == graph.attributes["parameter_count"]


@pytest.mark.parametrize("name", ["LlamaModel", "LlamaForSequenceClassification", "LlamaForTokenClassification"])
def test_a_head_that_yields_no_words_has_its_parameters_and_is_not_served(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, "llama", architectures=[name], tie_word_embeddings=True, num_labels=7)
    found, architecture = find_record(path), find_architecture(path)
    assert found is not None
    assert architecture is not None
    model = transformer_of(found[1], name)
    assert model.parameters == architecture.build(sequence=8).attributes["parameter_count"]
    assert not model.head
    with pytest.raises(InputError, match="it predicts no tokens one after the other; give a decoder with its head"):
        served_model(model)


@pytest.mark.parametrize(("kind", "encoder"), [(k, f == "encoders") for f in FAMILIES for k in model_types(f)])
def test_all_types_have_the_counts_of_their_graphs_or_are_refused(kind: str, encoder: bool) -> None:
    """Parameters, and operations of products where all tokens attend to all, as the graphs count; of small sizes."""
    for seed in range(4):
        text = json.dumps({"model_type": kind, **random_sizes(kind, Random(f"{kind} {seed}"))})
        stated = parse_json(text, "config.json")
        record = (encoder_of if encoder else decoder_of)(stated)[0]
        if not encoder and not all(map(plain, record.layers)):
            with pytest.raises(UnknownLayersError, match=f"^{kind}: no costs are known of {REFUSED[kind]}.$"):
                transformer_of(record, kind)
            continue
        model = transformer_of(record, kind)
        graph = configured_architecture(stated, kind)[0].build(sequence=11)
        assert model.parameters == graph.attributes["parameter_count"]
        assert operations(replace(model, causal=False), 11) == 2 * graph.attributes["multiply_adds"]


@pytest.mark.parametrize("kind", PUBLISHED)
def test_parameters_are_those_of_the_published_models(kind: str) -> None:
    parameters, sizes = PUBLISHED[kind]
    text = json.dumps({"model_type": kind, "tie_word_embeddings": kind == "gemma2", **sizes})
    assert transformer_of(decoder_of(parse_json(text, "config.json"))[0], kind).parameters == parameters


def plain(layer: Layer) -> bool:
    """Whether it is attention to all tokens or a window, and a network."""
    if len(layer.mixers) != 1 or layer.feed is None:
        return False
    (own,) = layer.mixers
    return own.passes == 1 if isinstance(own, Attention) else isinstance(own, LatentAttention) and own.indexer is None


def operations(model: Transformer, sequence: int) -> float:
    return LayerCosts(
        model, Clockwork(ACCELERATORS["A100-80"], 300e9), 1, sequence, 2, Servers(1, 8, 300e9, 25e9)
    ).operations


@pytest.mark.parametrize("kind", ["llama", "gemma3_text", "deepseek_v3", "qwen2_moe", "llama4_text", "electra"])
def test_a_configuration_is_planned(kind: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": kind, **random_sizes(kind, Random(kind))}))
    assert (
        mtpp("train config.json --cluster 1x2 --bandwidth 100GB/s --global-batch 4 --sequence 64 --out plan.json") == 0
    )
    assert mtpp("verify plan.json") == 0


def test_models_without_costs_say_what_can_be_done_instead(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("mamba", "deepseek_v32", "t5"):
        write(folder, kind)
        assert mtpp("train config.json --cluster 1x2 --bandwidth 100GB/s --global-batch 4") != 0
        message = capsys.readouterr().err.splitlines()[-1]
        assert message.endswith("or --microbatches to plan, which takes any graph or module.")
