"""Configurations of Hugging Face transformers: sizes by hand and as published, defaults, decoders of other models."""

import json
import warnings

import numpy as np
import pytest
from transformers_configurations import GEMMA, LLAMA, written

from instances import InputError, InputWarning, Instance, Platform
from instances.architectures import ARCHITECTURES
from instances.json_files import parse_json
from instances.readers import load_graph
from instances.readers.huggingface import configured_architecture
from instances.readers.huggingface.configuration import decoder_of, model_types
from instances.runtimes import RUNTIMES
from instances.runtimes.serving import serving_chain


def flops(path, **dims):
    return 2 * load_graph(path, dims=dims).attributes["multiply_adds"]


def test_a_llama_by_hand(tmp_path):
    path = written(tmp_path, LLAMA)
    graph = load_graph(path, dims={"sequence": 3, "element_bytes": 1})
    assert graph.attributes["parameter_count"] == 1160
    assert graph.param_bytes.sum() == 1160
    assert flops(path, sequence=3) == 6816
    assert flops(path, phase="decode", context=3) == 2272
    held = load_graph(path, dims={"phase": "decode", "context": 5, "kv_bytes": 1}).state_bytes
    assert held.sum() == 2 * 5 * 8


def test_heads_of_the_width_one_by_hand(tmp_path):
    """As many heads as the hidden width: of keys and values each of the two layers keeps 2 g numbers a token."""
    path = written(tmp_path, LLAMA | {"num_attention_heads": 8, "num_key_value_heads": 2})
    graph = load_graph(path, dims={"phase": "decode", "context": 5, "kv_bytes": 1})
    assert graph.state_bytes.sum() == 2 * 5 * 2 * 2
    assert graph.attributes["parameter_count"] == 1160 - 2 * 2 * 8 * (4 - 2)


def test_a_window_and_tied_weights_by_hand(tmp_path):
    path = written(tmp_path, GEMMA)
    assert load_graph(path).attributes["parameter_count"] == 1128
    assert flops(path, sequence=3) == 6816
    assert flops(path, phase="decode", context=3) == 2240
    graph = load_graph(path, dims={"phase": "prefill", "context": 3, "kv_bytes": 1})
    held = [sum(graph.state_bytes[v] for v in range(graph.n) if f"layers.{i}." in graph.names[v]) for i in (0, 1)]
    assert held == [8, 24]
    assert [parameter.name for parameter in graph.parameters] == ["model.embed_tokens.weight"]


def test_the_cache_of_a_serving_question_stops_at_the_window(tmp_path):
    graph = load_graph(written(tmp_path, GEMMA), dims={"phase": "decode", "context": 9, "kv_bytes": 1, "batch": 3})
    chain = serving_chain(Instance(graph, Platform(2, 1.0, 1e6, fit=True)), RUNTIMES["vllm"])
    assert chain.window.tolist() == [np.inf, 1, np.inf, np.inf]
    assert chain.token_bytes.tolist() == [0, 24, 24, 0]


def test_states_that_do_not_grow_count_as_weights(tmp_path):
    config = {"model_type": "mamba", "hidden_size": 4, "state_size": 2, "num_hidden_layers": 2, "vocab_size": 5}
    graph = load_graph(written(tmp_path, config), dims={"phase": "decode", "context": 100, "kv_bytes": 1, "batch": 2})
    chain = serving_chain(Instance(graph, Platform(2, 1.0, 1e6, fit=True)), RUNTIMES["vllm"])
    state = 2 * 8 * (2 + 4)
    assert graph.state_bytes.sum() == 2 * state
    assert not chain.token_bytes.any()
    assert chain.instance.graph.param_bytes.sum() == graph.param_bytes.sum() + 2 * state


def test_a_folder_is_its_configuration(tmp_path):
    written(tmp_path, LLAMA)
    assert load_graph(tmp_path).names == load_graph(tmp_path / "config.json").names
    assert load_graph(tmp_path, level="layer").names == (
        *("tokens", "model.embed_tokens", "model.layers.0", "model.layers.1", "model.norm", "lm_head"),
    )


def test_published_sizes(tmp_path):
    """Parameters that the publications and the files of these models state."""
    known = {
        "llama": ({"num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256}, 8_030_261_248),
        "gpt2": ({}, 124_439_808),
        "mixtral": ({"num_key_value_heads": 8}, 46_702_792_704),
        "deepseek_v3": ({}, 671_026_404_352),
        "qwen3_next": ({}, 79_674_391_296),
        "deepseek_v32": ({}, 671_877_929_216),
    }
    for kind, (more, count) in known.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            graph = load_graph(written(tmp_path, {"model_type": kind} | more))
        assert graph.attributes["parameter_count"] == count, kind


DEFAULTS = {
    "lfm2_moe": ({"layer_types": ["conv", "full_attention"] * 16}, 11_230_351_360),
    "olmo_hybrid": ({}, 7_430_870_688),
    "minimax": ({}, 47_373_946_880),
    "mimo_v2_flash": ({}, 308_778_768_832),
    "diffllama": ({}, 1_204_885_504),
    "lfm3": ({}, 1_728_801_536),
    "dbrx": (
        {"d_model": 6144, "n_heads": 48, "n_layers": 40, "vocab_size": 100352, "attn_config": {"kv_n_heads": 8}}
        | {"ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}},
        131_596_523_520,
    ),
    "gemma4_unified_text": ({}, 3_010_758_400),
    "gemma4_text": (
        {"hidden_size_per_layer_input": 0, "attention_k_eq_v": True, "num_global_key_value_heads": 2}
        | {"enable_moe_block": True, "num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704},
        21_670_120_960,
    ),
    "glm_moe_dsa": ({}, 743_911_199_232),
    "kimi_linear": ({}, 49_133_074_464),
    "nemotron_h": ({}, 1_968_355_712),
    "glm4_moe": ({}, 103_481_200_640),  # 96 heads of 42, at a width of 4096
}


@pytest.mark.parametrize("kind", list(DEFAULTS))
def test_parameters_of_the_defaults_of_transformers(kind):
    """As transformers 5.23 builds them on its meta device."""
    more, count = DEFAULTS[kind]
    config = parse_json(json.dumps({"model_type": kind} | more), "config.json")
    graph = configured_architecture(config, kind)[0].build(level="layer", batch=1, sequence=1)
    assert graph.attributes["parameter_count"] == count


def test_contexts_are_those_of_the_papers(tmp_path):
    """Llama 2 (Table 1), Llama 3 (Section 3.4.2 and its first release), Mixtral (Table 1); as their configurations."""
    papers = {"llama-2-7b": 4096, "llama-3-8b": 8192, "llama-3-70b": 8192, "mixtral-8x7b": 32768, "gpt2": 1024}
    assert {name: ARCHITECTURES[name].longest for name in papers} == papers
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    configurations = {
        4096: {"max_position_embeddings": 4096, "rope_scaling": None},
        8192: {"max_position_embeddings": 8192, "rope_theta": 500000.0},
        131072: {
            "max_position_embeddings": 131072,
            "rope_scaling": scaling | {"original_max_position_embeddings": 8192},
        },
    }
    for longest, fields in configurations.items():
        graph = load_graph(written(tmp_path, LLAMA | fields), dims={"phase": "decode"})
        assert graph.attributes["longest"] == longest
    mixtral = written(tmp_path, {"model_type": "mixtral", "max_position_embeddings": 32768, "sliding_window": None})
    assert load_graph(mixtral, dims={"phase": "decode"}, level="layer").attributes["longest"] == 32768


def test_layers_of_one_part_by_letters(tmp_path):
    sizes = {"hidden_size": 8, "intermediate_size": 12, "head_dim": 4, "num_attention_heads": 2, "vocab_size": 10}
    config = {"model_type": "nemotron_h", "hybrid_override_pattern": "M-*-", "num_key_value_heads": 1} | sizes
    words = {"layers_block_type": ["mamba", "mlp", "attention", "mlp"]}
    graph, same = (load_graph(written(tmp_path, config | more), level="layer") for more in ({}, words))
    assert graph.names[2:6] == tuple(f"model.layers.{i}" for i in range(4))
    assert graph.param_bytes[3] / 4 == 2 * 8 * 12 + 8
    assert graph.param_bytes[4] / 4 == 2 * 8 * 8 + 2 * 8 * 4 + 8
    assert graph.names == same.names
    assert (graph.param_bytes == same.param_bytes).all()


def test_an_indexer_keeps_keys_and_may_be_shared(tmp_path):
    sizes = {"num_hidden_layers": 2, "index_head_dim": 16, "index_n_heads": 2, "n_routed_experts": 4}
    config = {"model_type": "glm_moe_dsa", "num_experts_per_tok": 2, "indexer_types": ["full", "shared"]} | sizes
    graph = load_graph(written(tmp_path, config), dims={"phase": "decode", "context": 9}, level="layer")
    own, shared = (graph.state_bytes[graph.names.index(f"model.layers.{i}")] for i in range(2))
    assert own - shared == 9 * 16 * 4


def test_layers_that_attend_to_all_may_have_sizes_of_their_own():
    given = {"model_type": "gemma4_text", "num_hidden_layers": 2, "hidden_size_per_layer_input": 0, "head_dim": 16}
    kinds = {"layer_types": ["sliding_attention", "full_attention"]}
    own = {"global_head_dim": 32, "num_global_key_value_heads": 1, "attention_k_eq_v": True}
    stated = {"per_layer_config": {"01": {"head_dim": 32, "num_key_value_heads": 1}}, "attention_k_eq_v": True}
    records = [
        decoder_of(parse_json(json.dumps(given | kinds | more), "config.json")) for more in (own, stated, stated | own)
    ]
    assert records[0] == records[1] == records[2]
    record, doubts = records[0]
    window, full = (layer.mixers[0] for layer in record.layers)
    assert (window.width, window.key_heads, window.separate_values, window.window) == (16, 4, True, 512)
    assert (full.width, full.key_heads, full.separate_values, full.window) == (32, 1, False, None)
    assert doubts == []


def test_fields_inside_others_count(tmp_path):
    linear = {"full_attn_layers": [2], "kda_layers": [1], "head_dim": 8, "num_heads": 3, "short_conv_kernel_size": 2}
    config = parse_json(
        json.dumps({"model_type": "kimi_linear", "num_hidden_layers": 2, "linear_attn_config": linear}), "config.json"
    )
    record, doubts = decoder_of(config)
    assert [type(layer.mixers[0]).__name__ for layer in record.layers] == ["Recurrence", "LatentAttention"]
    assert record.layers[0].mixers[0].state == 24 * (8 + 3 * 2)
    assert doubts == []


@pytest.mark.parametrize("kind", list(model_types()))
def test_each_model_type_has_defaults_that_make_a_graph(tmp_path, kind):
    more = {"num_hidden_layers": 2, "attention_types": [[["global", "local"], 1]], "num_layers": 2, "moe_layers": [1]}
    sizes = {
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "num_experts": 4,
        "sliding_window": 5,
        "hidden_size": 64,
    }
    sizes |= {"layers_block_type": ["mamba", "attention"], "head_dim": 32, "num_heads": 4, "mamba_n_heads": 4}
    sizes |= {"hidden_size_per_layer_input": 0, "top_k_experts": 2}
    sizes |= {"layer_types": ["conv", "full_attention"]} if kind.startswith("lfm") else {}
    sizes |= {"num_experts_per_tok": 2, "moe_topk": 2, "moe_k": 2, "mamba_d_head": 32, "mamba_d_ssm": 128}
    sizes |= {"n_routed_experts": 4} if kind == "dots1" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        graph = load_graph(
            written(tmp_path, {"model_type": kind} | more | sizes), dims={"phase": "decode", "context": 9}
        )
    assert graph.attributes["parameter_count"] == sum(
        (graph.param_bytes.sum() / 4, *(parameter.bytes / 4 for parameter in graph.parameters))
    )


@pytest.mark.parametrize("inside", ["text_config", "llm_config", "language_config"])
def test_the_decoder_of_a_multimodal_model_counts(tmp_path, inside):
    path = written(tmp_path, {"model_type": "of_pictures", inside: LLAMA})
    counts = pytest.warns(InputWarning, match=f"only the decoder of its {inside} counts, a llama")
    with counts, pytest.warns(InputWarning, match="a of_pictures is unknown"):
        assert load_graph(path).attributes["parameter_count"] == 1160


def test_an_earlier_multimodal_configuration_has_its_fields_outside(tmp_path):
    path = written(tmp_path, LLAMA | {"model_type": "qwen2_vl", "vision_config": {"depth": 3}})
    counts = pytest.warns(InputWarning, match="only its decoder counts, a qwen2_vl_text")
    with counts, pytest.warns(InputWarning, match="a vision tower"):
        assert load_graph(path).attributes["parameter_count"] == 1160 + 2 * 16


@pytest.mark.parametrize(
    ("scaling", "longest"),
    [
        (None, 2048),
        ({"rope_type": "linear", "factor": 2.0}, 4096),
        ({"type": "dynamic", "factor": 2.5}, 5120),
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}, 4096),
        ({"type": "yarn", "factor": 4.0}, 8192),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 1024}, 2048),
        ({"type": "longrope", "factor": 3.0, "original_max_position_embeddings": 1024}, 2048),
        ({"type": "linear", "factor": None}, 2048),
    ],
)
@pytest.mark.parametrize("name", ["rope_scaling", "rope_parameters"])
def test_scaled_rotary_positions_lengthen_the_longest_context(tmp_path, name, scaling, longest):
    """As transformers and vLLM read it; a lengthened one that is stated as such is not lengthened again."""
    for model, reached in ((LLAMA, longest), (GEMMA, 2048)):
        path = written(tmp_path, model | {"max_position_embeddings": 2048, name: scaling})
        assert load_graph(path, dims={"phase": "decode"}).attributes["longest"] == reached


@pytest.mark.parametrize(
    ("kind", "stated", "longest"),
    [
        ("phi3", {"rope_scaling": {"type": "yarn", "factor": 4.0}}, 2048),  # its name for longrope
        ("olmo3", {"rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 4.0}}}, 8192),
        ("llama", {"rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 4.0}}}, 2048),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": {"type": "yarn"}}, 4096),
        ("llama", {"rope_scaling": {}, "rope_parameters": {"type": "yarn", "factor": 4}}, 8192),
        ("mpt", {"max_seq_len": 512}, 512),
    ],
)
def test_rotary_positions_are_read_as_transformers_reads_them(kind, stated, longest):
    config = LLAMA | {"model_type": kind, "max_position_embeddings": 2048} | stated
    assert decoder_of(parse_json(json.dumps(config), "config.json"))[0].longest == longest
    transformers = pytest.importorskip("transformers")
    if kind in ("phi3", "mpt"):
        return  # longrope asks for lists of factors; a table of positions has no scale
    standard = transformers.CONFIG_MAPPING[kind](**{k: v for k, v in config.items() if k != "model_type"})
    rotary = standard.rope_parameters
    rotary = rotary.get("full_attention", rotary) if kind == "olmo3" else rotary
    reached = rotary.get("original_max_position_embeddings", standard.max_position_embeddings)
    assert reached * rotary.get("factor", 1) == longest


def test_bug_a_longest_context_that_was_written_as_a_float_was_unknown():
    sizes = {4096.0: 4096, 1e300: None, 10**400: None, 4096.5: None, 0: None, True: None, "4096": None}
    for stated, longest in sizes.items():
        config = LLAMA | {"max_position_embeddings": stated}
        assert decoder_of(parse_json(json.dumps(config), "config.json"))[0].longest == longest


@pytest.mark.parametrize(
    ("kind", "stated", "hidden"),
    [
        ("bloom", {"n_embed": 1024}, 1024),  # as bloom-560m states its width, which was that of the type
        ("bloom", {"n_embed": None, "hidden_size": 32}, 32),
        ("falcon", {"n_embed": 142, "hidden_size": 71}, 142),
        ("gpt2", {"n_embd": 48, "hidden_size": 24}, 24),
        ("gpt2", {"hidden_size": 24, "n_embd": 48}, 24),
        ("mpt", {"d_model": 64, "hidden_size": 32}, 32),
    ],
)
def test_bug_names_of_a_width_that_transformers_prefers_were_left_out(kind, stated, hidden):
    assert decoder_of(parse_json(json.dumps({"model_type": kind} | stated), "config.json"))[0].hidden == hidden
    transformers = pytest.importorskip("transformers")
    assert transformers.CONFIG_MAPPING[kind](**stated).hidden_size == hidden


def test_bug_other_names_that_transformers_reads_were_left_out():
    def read(kind, **stated):
        return decoder_of(parse_json(json.dumps({"model_type": kind} | stated), "config.json"))[0]

    assert not read("lfm2", tie_embedding=False).tied
    assert read("deepseek_v32", num_experts=16, n_group=1, topk_group=1).layers[-1].feed.experts.count == 16
    own, earlier = ("n_groups", "conv_kernel", "expand"), ("mamba_n_groups", "mamba_d_conv", "mamba_expand")
    one, other = (read("nemotron_h", **dict(zip(names, (4, 3, 1), strict=True))) for names in (own, earlier))
    assert one == other != read("nemotron_h")


@pytest.mark.parametrize(("kind", "name"), [("gpt2", "add_cross_attention"), ("opt", "_remove_final_layer_norm")])
def test_bug_parts_that_a_field_adds_or_removes_were_left_out(kind, name):
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 99}
    config = {"model_type": kind, name: True} | sizes
    with pytest.raises(InputError, match=f"{name}: nothing is known of layers with it"):
        decoder_of(parse_json(json.dumps(config), "config.json"))
    assert decoder_of(parse_json(json.dumps(config | {name: False}), "config.json"))[0].hidden == 64


SMALL = {
    **{"vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
    **{"intermediate_size": 48, "tie_word_embeddings": False, "moe_intermediate_size": 24, "num_experts_per_tok": 2},
}
PARALLEL = {"parallel_attn": True, "num_key_value_heads": 4, "new_decoder_architecture": True}
STATE_SPACES = {"mamba_d_ssm": 128, "mamba_n_heads": 4, "mamba_d_head": 32, "mamba_n_groups": 1, "mamba_d_state": 8}


@pytest.mark.parametrize(
    ("kind", "stated", "parameters"),
    [
        ("falcon", PARALLEL | {"num_ln_in_parallel_attn": 3}, 110_976),  # other numbers than 2 are one norm
        ("falcon", PARALLEL | {"num_ln_in_parallel_attn": 2, "new_decoder_architecture": False}, 98_944),
        (
            "granitemoehybrid",
            {"num_local_experts": 0, "shared_intermediate_size": 32, "layer_types": ["attention"] * 2},
            49_472,
        ),
        ("lfm2", {"block_multiple_of": 32}, 49_536),  # rounded, as the multiplier is 1 if it is not said
        ("qwen3_moe", {"num_experts": 4, "num_local_experts": 6}, 93_312),  # what is no field is set last
        ("mamba", {"intermediate_size": 96}, 61_440),
        ("falcon_h1", STATE_SPACES | {"mamba_proj_bias": True}, 109_344),  # not of the last product
        ("qwen2_moe", {"num_experts": 4, "shared_expert_intermediate_size": 0}, 74_944),  # its gate remains
    ],
)
def test_bug_states_of_fields_were_read_otherwise_than_transformers_reads_them(kind, stated, parameters):
    config = parse_json(json.dumps({"model_type": kind} | SMALL | stated), "config.json")
    graph = configured_architecture(config, kind)[0].build(level="layer", batch=1, sequence=1)
    assert graph.attributes["parameter_count"] == parameters


@pytest.mark.parametrize(
    ("kind", "stated", "message"),
    [
        ("mixtral", {"num_local_experts": 0}, "num_local_experts: the number is 0; it must be from 1"),
        ("deepseek_v2", {"n_shared_experts": 0, "q_lora_rank": None}, "n_shared_experts: the number is 0"),
        ("helium", {"head_dim": 8}, "4 heads of 8 do not make the width 64; give 16"),
        ("granitemoe", {"hidden_size": 3}, "4 heads do not divide the hidden width 3"),
    ],
)
def test_bug_states_of_fields_that_transformers_cannot_run_were_read(kind, stated, message):
    with pytest.raises(InputError, match=message):
        decoder_of(parse_json(json.dumps({"model_type": kind} | SMALL | stated), "config.json"))


def test_the_longest_context_of_gpt2_is_that_of_transformers():
    configuration = pytest.importorskip("transformers").GPT2Config()
    assert ARCHITECTURES["gpt2"].longest == configuration.n_positions


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert"])
def test_a_text_is_no_longer_than_a_small_model_takes(kind: str) -> None:
    """Random models for tests have few positions; a default of 128 tokens was refused."""
    fields = {"model_type": kind, "n_positions" if kind == "gpt2" else "max_position_embeddings": 64}
    architecture, _ = configured_architecture(parse_json(json.dumps(fields), "c.json"), kind)
    assert architecture.build().attributes["dims"]["sequence"] == 64
    if architecture.served:
        assert architecture.build(phase="decode").attributes["dims"]["context"] == 64
