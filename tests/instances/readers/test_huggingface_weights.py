"""Weights beside a configuration of Hugging Face transformers: bytes as their headers say, and damaged headers."""

import struct

import numpy as np
import pytest
from transformers_configurations import LLAMA, written
from weight_files import gguf, shapes_of_llama, stored, stored_bytes, tensors_of_gguf

from instances import InputError, InputWarning
from instances.readers import load_graph


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
    with pytest.warns(InputWarning, match="vision tower"), pytest.warns(InputWarning, match="only the decoder"):
        before = load_graph(path, level="layer")
    (tmp_path / "model.safetensors").write_bytes(stored(tensors))
    with pytest.warns(InputWarning) as told:
        graph = load_graph(path, level="layer")
    more = dict(zip(graph.names, (graph.param_bytes - before.param_bytes).tolist(), strict=True))
    assert {name: size for name, size in more.items() if size} == {"model.embed_tokens": pytest.approx(180)}
    text = " ".join(str(one.message) for one in told)
    assert "180 bytes of towers count as weights of model.embed_tokens, their work does not" in text
    assert "32 bytes of layers behind the last, as of a drafter, are left out" in text


@pytest.mark.filterwarnings("ignore::instances.InputWarning")
@pytest.mark.parametrize("stem", ["language_model.model.", "model.language_model.", "model.text_model.", "model."])
@pytest.mark.parametrize("other", ["image_newline", "connector.proj.weight", "perceiver.layers.0.norm.weight"])
def test_bug_what_lies_beside_the_decoder_counts_by_its_bytes_whatever_its_name(tmp_path, stem, other):
    """Parts that join pictures to a decoder were known by a list of names; others made it another model."""
    path = written(tmp_path, {"model_type": "llava_next", "text_config": LLAMA, "vision_config": {"hidden_size": 3}})
    shapes = {name.replace("model.", stem, 1): shape for name, shape in shapes_of_llama().items()}
    shapes |= {other: [3, 5], f"{stem}layers.1.self_attn.rotary_emb.inv_freq": [2]}
    (tmp_path / "model.safetensors").write_bytes(stored(stored_bytes("F32", 4, shapes)))
    graph = load_graph(path)
    assert any("60 bytes of towers" in text for text in graph.attributes["warnings"])
    assert graph.param_bytes.sum() == pytest.approx(4 * 1160 + 60)


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


def test_gguf_headers_say_the_true_bytes(tmp_path):
    tensors = tensors_of_gguf()
    path = written(tmp_path, LLAMA)
    (tmp_path / "model.gguf").write_bytes(gguf(tensors))
    sizes = dict(zip((graph := load_graph(path, level="layer")).names, graph.param_bytes.tolist(), strict=True))
    blocks = sum(-(-int(np.prod(shape)) // 32) for _, shape in tensors.values() if len(shape) > 1 and shape[0] != 10)
    assert sizes["model.layers.0"] == pytest.approx(34 * blocks / 2 + 4 * 16)
    assert sizes["lm_head"] == pytest.approx(4 * 80)
    (tmp_path / "model.gguf").write_bytes(gguf(tensors)[:200])
    with pytest.raises(InputError, match=r"model\.gguf: "):
        load_graph(path)


#: What the metadata of a GGUF file of the tiny Llama say.
_METADATA = {
    **{"general__architecture": "llama", "llama__block_count": 2, "llama__embedding_length": 8},
    **{"llama__attention__head_count": 2, "llama__attention__head_count_kv": 1, "llama__feed_forward_length": 12},
    **{"llama__context_length": 99, "split__count": 1},
}


def test_a_gguf_file_alone_says_the_sizes_of_its_model(tmp_path):
    """Its graph is that of the configuration with these weights, also in parts, in a folder, with towers beside it."""
    expected = load_graph(written(tmp_path, LLAMA), weights=_file(tmp_path / "w.gguf", tensors_of_gguf(), _METADATA))
    alone, parts, folder = tmp_path / "tiny-Q8_0.gguf", tmp_path / "parts", tmp_path / "folder"
    _file(alone, tensors_of_gguf(), _METADATA)
    folder.mkdir(), parts.mkdir()
    _file(folder / "any.gguf", tensors_of_gguf(), _METADATA)
    _file(folder / "mmproj-any.gguf", {}, {"general__architecture": "clip"})
    items = [*tensors_of_gguf().items()]
    for number, tensors, values in ((0, items[:3], _METADATA), (1, items[3:], {})):
        path = parts / f"tiny-0000{number + 1}-of-00002.gguf"
        _file(path, dict(tensors), values | {"split__no": number, "split__count": 2})
    for path in (alone, folder, parts, parts / "tiny-00002-of-00002.gguf"):
        graph = load_graph(path)
        assert graph.param_bytes.tolist() == expected.param_bytes.tolist()
        assert graph.names == expected.names
        assert graph.attributes["dims"]["element_bytes"] == 2
    assert load_graph(alone).name == "tiny-Q8_0"
    assert load_graph(parts).name == "tiny"


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"general__architecture": "rwkv7"}, "nothing is known of its architecture 'rwkv7'; give the config.json"),
        ({"llama__block_count": "2"}, "no single number llama.block_count; give the config.json"),
        ({"llama__attention__head_count": 0}, "no single number llama.attention.head_count"),
        ({"general__architecture": "deepseek2"}, "no single number deepseek2.block_count"),
        ({"llama__feed_forward_length": 13}, "the configuration asks for"),
        ({"llama__nextn_predict_layers": 2}, "num_hidden_layers: the number is 0"),
    ],
)
def test_gguf_files_whose_sizes_are_not_clear_are_refused(tmp_path, changed, match):
    path = tmp_path / "m.gguf"
    _file(path, tensors_of_gguf(kind=0), _METADATA | changed)
    with pytest.raises(InputError, match=match) as refused:
        load_graph(path)
    assert "m.gguf" in str(refused.value)


def _file(path, tensors, values):
    path.write_bytes(gguf(tensors, **values))
    return path


@pytest.mark.parametrize(
    ("config", "shapes"),
    [
        (
            {"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 5, "vocab_size": 10},
            {
                **{"wte.weight": [10, 8], "wpe.weight": [5, 8], "ln_f.weight": [8], "ln_f.bias": [8]},
                **{"h.0.attn.bias": [1, 1, 5, 5], "h.0.attn.c_attn.bias": [24], "h.0.attn.c_attn.weight": [8, 24]},
                **{"h.0.attn.c_proj.bias": [8], "h.0.attn.c_proj.weight": [8, 8], "h.0.ln_1.weight": [8]},
                **{"h.0.ln_1.bias": [8], "h.0.ln_2.weight": [8], "h.0.ln_2.bias": [8], "h.0.mlp.c_fc.bias": [32]},
                **{"h.0.mlp.c_fc.weight": [8, 32], "h.0.mlp.c_proj.bias": [8], "h.0.mlp.c_proj.weight": [32, 8]},
            },
        ),
        (
            {"model_type": "gptj", "n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 10, "rotary_dim": 4}
            | {"tie_word_embeddings": True},
            {
                **{"transformer.wte.weight": [10, 8], "lm_head.bias": [10], "transformer.ln_f.weight": [8]},
                **{"transformer.ln_f.bias": [8], "transformer.h.0.ln_1.weight": [8], "transformer.h.0.ln_1.bias": [8]},
                **{f"transformer.h.0.attn.{name}_proj.weight": [8, 8] for name in ("q", "k", "v", "out")},
                **{"transformer.h.0.mlp.fc_in.weight": [8, 32], "transformer.h.0.mlp.fc_in.bias": [32]},
                **{"transformer.h.0.mlp.fc_out.weight": [32, 8], "transformer.h.0.mlp.fc_out.bias": [8]},
            },
        ),
        (
            {"model_type": "glm4_moe", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
            | {"num_key_value_heads": 1, "head_dim": 4, "vocab_size": 10, "n_routed_experts": 2, "n_shared_experts": 1}
            | {"num_experts_per_tok": 1, "moe_intermediate_size": 6, "first_k_dense_replace": 0},
            {
                **{"model.embed_tokens.weight": [10, 8], "model.norm.weight": [8], "lm_head.weight": [10, 8]},
                **{f"model.layers.0.{name}_layernorm.weight": [8] for name in ("input", "post_attention")},
                **{f"model.layers.0.self_attn.{name}_proj.weight": [8, 8] for name in ("q", "o")},
                **{f"model.layers.0.self_attn.{name}_proj.weight": [4, 8] for name in ("k", "v")},
                **{"model.layers.0.mlp.gate.weight": [2, 8], "model.layers.0.mlp.gate.e_score_correction_bias": [2]},
                **{
                    f"model.layers.0.mlp.{part}.{name}_proj.weight": [6, 8]
                    for part in ("experts.0", "experts.1", "shared_experts")
                    for name in ("gate", "up", "down")
                },
            },
        ),
    ],
    ids=lambda value: value.get("model_type", "") if isinstance(value, dict) else "",
)
def test_bug_weights_of_gpt2_gptj_and_glm_are_their_own(tmp_path, config, shapes):
    """A bias was taken for the mask that GPT-2 keeps, that of a tied head left out, those of experts not expected."""
    (tmp_path / "model.safetensors").write_bytes(stored(stored_bytes("F16", 2, shapes)))
    graph = load_graph(written(tmp_path, config), level="layer")
    outside = {"h.0.attn.bias": 25}
    expected = sum(int(np.prod(shape)) for name, shape in shapes.items() if name not in outside)
    assert graph.param_bytes.sum() + sum(item.bytes for item in graph.parameters) == pytest.approx(2 * expected)


def test_the_head_of_an_encoder_that_fills_in_words_counts_by_its_bytes(tmp_path):
    config = {
        **{"model_type": "roberta", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2},
        **{"intermediate_size": 12, "vocab_size": 10, "max_position_embeddings": 6, "type_vocab_size": 1},
    }
    layer = "roberta.encoder.layer.0."
    shapes = {
        **{f"roberta.embeddings.{name}_embeddings.weight": [n, 8] for name, n in (("word", 10), ("position", 6))},
        **{"roberta.embeddings.token_type_embeddings.weight": [1, 8]},
        **{f"roberta.embeddings.LayerNorm.{name}": [8] for name in ("weight", "bias")},
        **{
            f"{layer}attention.{name}.weight": [8, 8]
            for name in ("self.query", "self.key", "self.value", "output.dense")
        },
        **{f"{layer}attention.{name}.bias": [8] for name in ("self.query", "self.key", "self.value", "output.dense")},
        **{
            f"{layer}{name}.{kind}": [8]
            for name in ("attention.output.LayerNorm", "output.LayerNorm")
            for kind in ("weight", "bias")
        },
        **{f"{layer}intermediate.dense.weight": [12, 8], f"{layer}intermediate.dense.bias": [12]},
        **{f"{layer}output.dense.weight": [8, 12], f"{layer}output.dense.bias": [8]},
    }
    head = {
        "lm_head.dense.weight": [8, 8],
        "lm_head.dense.bias": [8],
        "lm_head.bias": [10],
        "lm_head.layer_norm.weight": [8],
    }
    path = written(tmp_path, config)
    (tmp_path / "model.safetensors").write_bytes(stored(stored_bytes("F32", 4, shapes)))
    bare = load_graph(path).param_bytes.sum()
    (tmp_path / "model.safetensors").write_bytes(stored(stored_bytes("F32", 4, shapes | head)))
    with pytest.warns(InputWarning, match="360 bytes of its head count"):
        assert load_graph(path).param_bytes.sum() - bare == pytest.approx(360)
