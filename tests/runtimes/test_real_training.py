"""Runs of plans for a global batch, judged by the installed programs; `make runtimes` installs them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any

import pytest
from installed_programs import needs
from megatron_arguments import arguments_of, padded_rows, parameters_of
from transformers_configurations import random_sizes

import mtpp
from instances import InputError
from instances.json_files import json_text, parse_json
from instances.planning.grid import GridPlan
from instances.planning.grid.transformer import TRANSFORMERS, Transformer, transformer_of
from instances.readers.huggingface.configuration import decoder_of, model_types
from instances.runtimes.training import grid_settings

SIZES: dict[str, Any] = {
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 512,
    "vocab_size": 1024,
}
EXPERTS = {"moe_intermediate_size": 128, "num_experts_per_tok": 2}
LATENT = {"kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 24}
ROUTED = {"n_routed_experts": 8, "n_shared_experts": 2, "first_k_dense_replace": 1, "num_key_value_heads": 8}
MODELS: dict[str, dict[str, Any]] = {
    "qwen2": {"tie_word_embeddings": True},
    "qwen3": {"head_dim": 64},
    "gemma": {"head_dim": 64, "num_key_value_heads": 1},
    "mistral": {"sliding_window": 128},
    "starcoder2": {},
    "qwen2_moe": {**EXPERTS, "num_experts": 8, "shared_expert_intermediate_size": 256},
    "qwen3_moe": {**EXPERTS, "num_experts": 8, "mlp_only_layers": [1]},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 1},
    "deepseek_v2": {**EXPERTS, **LATENT, **ROUTED, "q_lora_rank": None},
    "deepseek_v3": {**EXPERTS, **LATENT, **ROUTED, "q_lora_rank": 96, "n_group": 4, "topk_group": 2},
}


def model_of(name: str) -> Transformer:
    if name in TRANSFORMERS:
        return TRANSFORMERS[name]
    config = parse_json(json_text({"model_type": name, **SIZES, **MODELS[name]}), "config.json")
    return transformer_of(decoder_of(config)[0], name)


@pytest.fixture
def core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Megatron-Core with groups of one process, without which it makes no module, on a machine without a card."""
    module, torch = needs("megatron-core", "megatron.core"), needs("torch")
    state = needs("megatron-core", "megatron.core.parallel_state")
    latent = needs("megatron-core", "megatron.core.transformer.multi_latent_attention")
    monkeypatch.setattr(latent, "TELinear", torch.nn.Linear)  # of Transformer Engine, which needs a graphics card
    monkeypatch.setattr(torch.cuda, "current_device", lambda: "cpu")
    store = f"file://{tmp_path}/store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    state.initialize_model_parallel()
    yield module
    state.destroy_model_parallel()
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("name", ["llama-3-8b", "gpt2", "mixtral-8x7b", *MODELS])
def test_megatron_makes_the_model_of_the_plan(name: str, core: Any) -> None:
    """Its GPTModel has the parameters of the plan's model, but for rows that it adds to the table of tokens."""
    model = model_of(name)
    arguments = arguments_for(model)
    count = parameters_there(core, arguments)
    assert count == parameters_of(arguments)
    assert count == model.parameters + added(arguments, model)


@pytest.mark.parametrize("kind", sorted(model_types()))
def test_megatron_makes_models_of_random_sizes(kind: str, core: Any) -> None:
    """Where the script has sizes, they are those of the model; the biases of a router are no parameters there."""
    sizes = {**random_sizes(kind, Random(kind)), "num_hidden_layers": 4, "layer_types": None, "indexer_types": None}
    config = parse_json(json_text({"model_type": kind, **sizes}), "config.json")
    try:
        model = transformer_of(decoder_of(config)[0], kind)
        arguments = arguments_for(model, sequence=8)
    except InputError:
        pytest.skip("no costs are known of its layers, or they do not fit these words")
    if "num-layers" not in arguments:
        pytest.skip("Megatron-LM has no arguments for it")
    assert parameters_there(core, arguments) == model.parameters + added(arguments, model)


def arguments_for(model: Transformer, sequence: int = 256) -> dict[str, str]:
    """Arguments of a run of the model in two stages."""
    words: dict[str, Any] = {"bandwidth": "300GB/s", "micro_batch": "1", "sequence": sequence, "memory": "1TB"}
    plan = mtpp.train(model, "1x4", global_batch=8, fix="pp=2,tp=1,v=1", runtime="megatron", **words).answer
    assert isinstance(plan, GridPlan)
    return arguments_of(grid_settings(plan, "megatron"))


def added(arguments: dict[str, str], model: Transformer) -> int:
    """Parameters of the rows that Megatron-LM adds to the tables of tokens."""
    return (padded_rows(arguments) - model.vocabulary) * model.hidden * (1 + (not model.tied))


def parameters_there(core: Any, arguments: dict[str, str]) -> int:
    """Parameters of the GPTModel that Megatron-Core makes, with the biases of its routers."""
    torch, config, norm = needs("torch"), config_of(core, arguments), arguments["normalization"]
    specs = needs("megatron-core", "megatron.core.models.gpt.gpt_layer_specs")
    if "num-experts" in arguments:
        block = specs.get_gpt_decoder_block_spec(config, use_transformer_engine=False, normalization=norm)
        layers = block.layer_specs
    else:
        latent = "multi-latent-attention" in arguments
        block = specs.get_gpt_layer_local_spec(None, False, config.qk_layernorm, latent, normalization=norm)
        layers = [block]
    for layer in layers:  # its own scores need the sizes of a graphics card's kernels, and have no parameters
        layer.submodules.self_attention.submodules.core_attention = torch.nn.Identity
    with torch.device("meta"):
        made = core.models.gpt.GPTModel(
            config,
            block,
            padded_rows(arguments),
            int(arguments["max-position-embeddings"]),
            share_embeddings_and_output_weights="untie-embeddings-and-output-weights" not in arguments,
            position_embedding_type=arguments["position-embedding-type"],
        )
    biases = [buffer for name, buffer in made.named_buffers() if name.endswith("expert_bias")]
    return sum(parameter.numel() for parameter in [*made.parameters(), *biases])


def config_of(core: Any, arguments: dict[str, str]) -> Any:
    """Its record of a model, as megatron/training/arguments.py makes it of these arguments."""
    torch = needs("torch")
    transformer = core.transformer
    kind = transformer.MLATransformerConfig if "multi-latent-attention" in arguments else transformer.TransformerConfig
    names = {field.name for field in fields(kind)}
    values: dict[str, Any] = {}
    for argument, word in arguments.items():
        name = argument.replace("-", "_")
        parallel = "parallel" in name or name in ("seq_length", "micro_batch_size", "bf16", "attention_backend")
        if name in names and not parallel:
            values[name] = (
                int(word) if word.isdigit() else float(word) if word.replace(".", "").isdigit() else word or True
            )
    for name in ("moe_layer_freq", "window_attn_skip_freq"):
        values |= {name: eval(values[name])} if name in values else {}
    if "multi-latent-attention" in arguments:
        values.setdefault("q_lora_rank", None)  # as the argument, other than the record, has it by default
    if "window-size" in arguments:
        values["window_size"] = tuple(map(int, arguments["window-size"].split(",")))
    return kind(
        **values
        | {
            "num_moe_experts": int(arguments["num-experts"]) if "num-experts" in arguments else None,
            "add_bias_linear": "disable-bias-linear" not in arguments,
            "gated_linear_unit": "swiglu" in arguments,
            "activation_func": torch.nn.functional.silu if "swiglu" in arguments else torch.nn.functional.gelu,
            "moe_token_dispatcher_type": "allgather",  # the other one opens a stream of a graphics card
            "moe_grouped_gemm": False,
            "use_cpu_initialization": True,
            "perform_initialization": False,
        }
    )
