"""Configurations of Hugging Face transformers: sizes by hand, refusals, weights beside them."""

import json
import struct
import warnings

import numpy as np
import pytest

from instances import InputError, InputWarning, Platform
from instances.json_files import parse_json
from instances.readers import load_graph
from instances.readers.huggingface import configured_architecture
from instances.readers.huggingface.configuration import decoder_of, model_types
from instances.runtimes import RUNTIMES
from instances.runtimes.serving_chain import serving_chain

LLAMA = {
    **{"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2},
    **{"num_key_value_heads": 1, "intermediate_size": 12, "vocab_size": 10, "tie_word_embeddings": False},
}
GEMMA = LLAMA | {
    **{"model_type": "gemma3_text", "head_dim": 4, "sliding_window": 2, "tie_word_embeddings": True},
    "layer_types": ["sliding_attention", "full_attention"],
}


def written(folder, config):
    path = folder / "config.json"
    path.write_text(config if isinstance(config, str) else json.dumps(config), encoding="utf-8")
    return path


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
    chain = serving_chain(graph, Platform(2, 1.0, 1e6, fit=True), RUNTIMES["vllm"])
    assert chain.window.tolist() == [np.inf, 1, np.inf, np.inf]
    assert chain.token_bytes.tolist() == [0, 24, 24, 0]


def test_states_that_do_not_grow_count_as_weights(tmp_path):
    config = {"model_type": "mamba", "hidden_size": 4, "state_size": 2, "num_hidden_layers": 2, "vocab_size": 5}
    graph = load_graph(written(tmp_path, config), dims={"phase": "decode", "context": 100, "kv_bytes": 1, "batch": 2})
    chain = serving_chain(graph, Platform(2, 1.0, 1e6, fit=True), RUNTIMES["vllm"])
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
    assert (window.width, window.key_heads, window.own_values, window.window) == (16, 4, True, 512)
    assert (full.width, full.key_heads, full.own_values, full.window) == (32, 1, False, None)
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        graph = load_graph(
            written(tmp_path, {"model_type": kind} | more | sizes), dims={"phase": "decode", "context": 9}
        )
    assert graph.attributes["parameter_count"] == sum(
        (graph.param_bytes.sum() / 4, *(parameter.bytes / 4 for parameter in graph.parameters))
    )


GEMMA4 = {"model_type": "gemma4_text", "hidden_size_per_layer_input": 0}
BAD = {
    "heads do not divide": (LLAMA | {"num_attention_heads": 3}, "num_attention_heads: 3 heads do not divide"),
    "heads of keys": (LLAMA | {"num_key_value_heads": 3}, "num_key_value_heads: 3 heads of keys do not divide 2"),
    "layers": (LLAMA | {"num_hidden_layers": 10**9}, "num_hidden_layers: the number is 1000000000; it must be from 1"),
    "digits": (LLAMA | {"hidden_size": 10**40}, "hidden_size: the whole number is too large"),
    "parameters": (LLAMA | {"hidden_size": 2**28, "intermediate_size": 2**28}, "parameters; check its sizes"),
    "text": (LLAMA | {"hidden_size": "8"}, "hidden_size: expected a whole number"),
    "null": (LLAMA | {"hidden_size": None}, "hidden_size: it is missing; add this field"),
    "infinite": (json.dumps(LLAMA).replace('"hidden_size": 8', '"hidden_size": Infinity'), "expected a whole number"),
    "nan": (json.dumps(LLAMA).replace('"hidden_size": 8', '"hidden_size": NaN'), "NaN is not a JSON number"),
    "twice": (json.dumps(LLAMA).replace("}", ', "vocab_size": 3}'), "field 'vocab_size' is given twice"),
    "unknown": ({"model_type": "lama"}, "the model type 'lama' is not known; near names are llama"),
    "without type": ({"architectures": ["A"]}, "missing field 'model_type'"),
    "own code": ({"model_type": "mine", "auto_map": {"AutoModel": "a.B"}}, "is code of its own, which is never run"),
    "inner text": ({"model_type": "llava", "text_config": [1]}, "text_config: expected an object"),
    "experts": ({"model_type": "mixtral", "num_experts_per_tok": 9}, "9 experts are chosen of 8"),
    "kinds": (GEMMA | {"layer_types": ["full_attention"]}, "there are 1 kinds of layers for 2 layers"),
    "kind": (GEMMA | {"layer_types": ["full_attention", "x"]}, r"layer_types\[1\]: the kind of layer 'x' is not known"),
    "no window": (GEMMA | {"sliding_window": None}, "sliding_window: it is missing"),
    "mamba": ({"model_type": "mamba2", "num_heads": 3}, "3 heads of 64 do not make the width 8192"),
    "own inputs": ({"model_type": "gemma4_text"}, "hidden_size_per_layer_input: nothing is known of layers with it"),
    "sizes of layers": (
        GEMMA4 | {"per_layer_config": {"0": {}}},
        "per_layer_config: it must name the layers that attend",
    ),
    "unlike layers": (
        GEMMA4 | {"per_layer_config": {"5": {}, "11": {"head_dim": 3}}},
        "per_layer_config: its layers differ",
    ),
    "no kinds": ({"model_type": "lfm2_moe"}, "layer_types: it is missing; give the kind of each layer"),
    "letters": (
        {"model_type": "nemotron_h", "hybrid_override_pattern": "MX"},
        "hybrid_override_pattern: a letter of it",
    ),
    "no layers": ({"model_type": "nemotron_h", "layers_block_type": []}, "it has 0 layers; there must be from 1"),
    "indexers": (
        {"model_type": "glm_moe_dsa", "indexer_types": ["full"]},
        "there are 1 kinds of indexers for 78 layers",
    ),
    "attention types": ({"model_type": "gpt_neo", "attention_types": [[["local"], 10**12]]}, "how often they follow"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_configurations_are_refused_in_a_line(tmp_path, name):
    config, message = BAD[name]
    path = written(tmp_path, config)
    with pytest.raises(InputError, match=message) as caught:
        load_graph(path)
    assert str(path) in str(caught.value)


def test_doubts_are_warnings(tmp_path):
    config = LLAMA | {"auto_map": {"A": "b.C"}, "num_experts": 4, "quantization_config": {"bits": 4}}
    outer = {"model_type": "llava", "text_config": config, "vision_config": {"hidden_size": 3}}
    with pytest.warns(InputWarning) as told:
        load_graph(written(tmp_path, outer))
    text = " ".join(str(one.message) for one in told)
    for part in (
        "only the decoder of its text_config counts",
        "a vision tower",
        "never run",
        "quantised",
        "num_experts",
    ):
        assert part in text


@pytest.mark.parametrize("name", ["dtype", "torch_dtype"])
def test_numbers_of_another_width_are_told_unless_it_is_given(tmp_path, name):
    path = written(tmp_path, LLAMA | {name: "bfloat16"})
    with pytest.warns(InputWarning, match="its numbers are bfloat16; they count as 4 bytes each, with element_bytes=2"):
        load_graph(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_graph(path, dims={"element_bytes": 2})
        load_graph(path, dims={"element_bytes": 4})
        load_graph(written(tmp_path, LLAMA | {name: "float32"}))
        load_graph(written(tmp_path, LLAMA | {name: ["float16"]}))


def test_an_infinite_limit_of_time_is_no_fault(tmp_path):
    config = '{"model_type": "mamba2", "num_hidden_layers": 1, "time_step_limit": [0.0, Infinity]}'
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_graph(written(tmp_path, config)).attributes["parameter_count"] > 0


def stored(tensors):
    """A safetensors file of (type, shape, bytes) by name, without its weights' values."""
    header, at = {}, 0
    for name, (kind, shape, size) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(at)


def shapes_of_llama():
    layer = {
        **{"self_attn.q_proj": [8, 8], "self_attn.k_proj": [4, 8], "self_attn.v_proj": [4, 8]},
        **{"self_attn.o_proj": [8, 8], "mlp.gate_proj": [12, 8], "mlp.up_proj": [12, 8], "mlp.down_proj": [8, 12]},
        **{"input_layernorm": [8], "post_attention_layernorm": [8]},
    }
    found = {f"model.layers.{i}.{name}.weight": shape for i in (0, 1) for name, shape in layer.items()}
    return found | {"model.embed_tokens.weight": [10, 8], "model.norm.weight": [8], "lm_head.weight": [10, 8]}


def test_headers_say_the_true_bytes(tmp_path):
    path = written(tmp_path, LLAMA)
    tensors = {name: ("BF16", shape, 2 * int(np.prod(shape))) for name, shape in shapes_of_llama().items()}
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = ("F32", [2], 8)
    (tmp_path / "model.safetensors").write_bytes(stored(tensors))
    graph = load_graph(path)
    assert graph.param_bytes.sum() == pytest.approx(2 * 1160)
    assert "bytes of parameters as in" in graph.source


def test_towers_count_where_the_embedding_does_and_drafters_are_told(tmp_path):
    """Bytes of a vision tower and its projector lie on the first stage; layers behind the last are left out."""
    path = written(tmp_path, {"model_type": "llava", "text_config": LLAMA, "vision_config": {"hidden_size": 3}})
    tensors = {f"language_model.{name}": ("BF16", s, 2 * int(np.prod(s))) for name, s in shapes_of_llama().items()}
    bare = dict(tensors)
    tensors["vision_tower.vision_model.encoder.layers.0.self_attn.q_proj.weight"] = ("F32", [5, 5], 100)
    tensors["multi_modal_projector.linear_1.weight"] = ("F16", [5, 8], 80)
    tensors["language_model.model.layers.2.eh_proj.weight"] = ("F32", [7], 28)
    tensors["mtp.layers.0.proj.weight"] = ("F32", [1], 4)
    (tmp_path / "model.safetensors").write_bytes(stored(bare))
    with pytest.warns(InputWarning, match="vision tower"):
        before = load_graph(path, level="layer")
    (tmp_path / "model.safetensors").write_bytes(stored(tensors))
    with pytest.warns(InputWarning) as told:
        graph = load_graph(path, level="layer")
    more = dict(zip(graph.names, (graph.param_bytes - before.param_bytes).tolist(), strict=True))
    assert {name: size for name, size in more.items() if size} == {"model.embed_tokens": pytest.approx(180)}
    text = " ".join(str(one.message) for one in told)
    assert "180 bytes of towers count as weights of model.embed_tokens, their work does not" in text
    assert "32 bytes of layers behind the last, as of a drafter, are left out" in text


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 5}, "LlamaForCausalLMEagle3; a llama with"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "it is a LlamaForSequenceClassification"),
        ({"medusa_num_heads": 4}, "heads that draft"),
        ({"mm_vision_tower": "openai/clip"}, "a vision tower"),
    ],
)
def test_parts_that_are_not_counted_are_told(tmp_path, more, words):
    with pytest.warns(InputWarning, match=words):
        load_graph(written(tmp_path, LLAMA | more))


def test_quantised_layers_have_the_bytes_of_their_tensors(tmp_path):
    path = written(tmp_path, LLAMA)
    tensors = {name: ("F32", shape, 4 * int(np.prod(shape))) for name, shape in shapes_of_llama().items()}
    tensors["model.layers.1.mlp.down_proj.weight"] = ("I32", [8, 2], 64)
    (tmp_path / "model.safetensors").write_bytes(stored(tensors))
    sizes = dict(zip((graph := load_graph(path, level="layer")).names, graph.param_bytes.tolist(), strict=True))
    assert sizes["model.layers.0"] == pytest.approx(4 * 496)
    assert sizes["model.layers.1"] == pytest.approx(4 * 496 - 4 * 96 + 64)


def test_weights_of_another_model_are_refused(tmp_path):
    path = written(tmp_path, LLAMA | {"intermediate_size": 13})
    tensors = {name: ("F32", shape, 4 * int(np.prod(shape))) for name, shape in shapes_of_llama().items()}
    (tmp_path / "model.safetensors").write_bytes(stored(tensors))
    with pytest.raises(InputError, match="layer 0 have 496 elements, and the configuration asks for 520"):
        load_graph(path)
    del tensors["model.layers.1.mlp.down_proj.weight"]
    (tmp_path / "model.safetensors").write_bytes(
        stored({name: own for name, own in tensors.items() if ".1." not in name})
    )
    with pytest.raises(InputError, match="there is no tensor of layer 1 of 2"):
        load_graph(path)


def test_a_missing_part_of_the_weights_is_told(tmp_path):
    path = written(tmp_path, LLAMA)
    (tmp_path / "model-1.safetensors").write_bytes(stored({"a": ("F32", [1], 4)}))
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.warns(InputWarning, match=r"of 2 files of weights model-2\.safetensors is missing"):
        assert load_graph(path).param_bytes.sum() == 4 * 1160


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"12345678",
        struct.pack("<Q", 2**60) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 2) + b"{x",
        stored({"a": ("F32", [3], 8)}),
        stored({"a": ("F32", [-1], 8)}),
        stored({"a": ("odd", [2], 8)}),
        stored({"a": ("F32", [2], 8)})[:-1],
    ],
)
def test_damaged_headers_are_refused(tmp_path, content):
    path = written(tmp_path, LLAMA)
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(InputError, match=r"model\.safetensors: "):
        load_graph(path)


def gguf(tensors):
    """A GGUF file of (type, shape) by name, with a text and a list before them; its weights are a hole."""

    def text(word):
        return struct.pack("<Q", len(word)) + word.encode()

    values = text("general.name") + struct.pack("<I", 8) + text("tiny")
    values += text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b")
    found = b"".join(
        text(name)
        + struct.pack("<I", len(shape))
        + struct.pack(f"<{len(shape)}Q", *shape)
        + struct.pack("<IQ", kind, 0)
        for name, (kind, shape) in tensors.items()
    )
    return struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), 2) + values + found + bytes(4096)


def test_gguf_headers_say_the_true_bytes(tmp_path):
    names = {
        **{
            "q_proj": "attn_q",
            "k_proj": "attn_k",
            "v_proj": "attn_v",
            "o_proj": "attn_output",
            "gate_proj": "ffn_gate",
        },
        **{"up_proj": "ffn_up", "down_proj": "ffn_down", "input_layernorm": "attn_norm"},
        "post_attention_layernorm": "ffn_norm",
    }
    ends = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    ends["lm_head.weight"] = "output.weight"
    tensors = {}
    for name, shape in shapes_of_llama().items():
        parts = name.split(".")
        own = ends.get(name) or f"blk.{parts[2]}.{names[parts[-2]]}.weight"
        tensors[own] = (8, shape) if "blk" in own and len(shape) > 1 else (0, shape)
    path = written(tmp_path, LLAMA)
    (tmp_path / "model.gguf").write_bytes(gguf(tensors))
    sizes = dict(zip((graph := load_graph(path, level="layer")).names, graph.param_bytes.tolist(), strict=True))
    blocks = sum(-(-int(np.prod(shape)) // 32) for _, shape in tensors.values() if len(shape) > 1 and shape[0] != 10)
    assert sizes["model.layers.0"] == pytest.approx(34 * blocks / 2 + 4 * 16)
    assert sizes["lm_head"] == pytest.approx(4 * 80)
    (tmp_path / "model.gguf").write_bytes(gguf(tensors)[:200])
    with pytest.raises(InputError, match=r"model\.gguf: "):
        load_graph(path)


@pytest.mark.parametrize("inside", ["text_config", "llm_config", "language_config"])
def test_the_decoder_of_a_multimodal_model_counts(tmp_path, inside):
    path = written(tmp_path, {"model_type": "of_pictures", inside: LLAMA})
    with pytest.warns(InputWarning, match=f"only the decoder of its {inside} counts, a llama"):
        assert load_graph(path).attributes["parameter_count"] == 1160


def test_an_earlier_multimodal_configuration_has_its_fields_outside(tmp_path):
    path = written(tmp_path, LLAMA | {"model_type": "qwen2_vl", "vision_config": {"depth": 3}})
    with pytest.warns(InputWarning, match="only its decoder counts, a qwen2_vl_text"):
        assert load_graph(path).attributes["parameter_count"] == 1160 + 2 * 16
