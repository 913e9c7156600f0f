"""Weights beside a configuration of Hugging Face transformers: bytes as their headers say, and damaged headers."""

import json
import struct

import numpy as np
import pytest
from transformers_configurations import LLAMA, written

from instances import InputError, InputWarning
from instances.readers import load_graph


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
