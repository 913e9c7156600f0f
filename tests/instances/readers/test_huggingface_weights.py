"""Weights beside a configuration of Hugging Face transformers: bytes as their headers say, and damaged headers."""

import struct

import numpy as np
import pytest
from transformers_configurations import LLAMA, written
from weight_files import gguf, shapes_of_llama, stored, tensors_of_gguf

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
