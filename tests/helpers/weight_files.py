"""Files of weights without weights: headers of safetensors and GGUF, and holes behind them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["gguf", "named_as_gguf", "shapes_of_llama", "stored", "stored_bytes", "tensors_of_gguf"]

_GGUF_NAMES = {
    **{"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output", "gate_proj": "ffn_gate"},
    **{"up_proj": "ffn_up", "down_proj": "ffn_down", "input_layernorm": "attn_norm"},
    "post_attention_layernorm": "ffn_norm",
}
_GGUF_ENDS = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def stored(tensors: Mapping[str, tuple[str, Sequence[int], int]]) -> bytes:
    """A safetensors file of (type, shape, bytes) by name, without its weights' values."""
    header, at = {}, 0
    for name, (kind, shape, size) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(at)


def stored_bytes(kind: str, width: int, shapes: Mapping[str, Sequence[int]]) -> dict[str, tuple[str, Any, int]]:
    """Tensors of a safetensors file, all of one type."""
    return {name: (kind, list(shape), width * int(np.prod(shape))) for name, shape in shapes.items()}


def shapes_of_llama() -> dict[str, list[int]]:
    """Shapes of all tensors of the tiny Llama."""
    layer = {
        **{"self_attn.q_proj": [8, 8], "self_attn.k_proj": [4, 8], "self_attn.v_proj": [4, 8]},
        **{"self_attn.o_proj": [8, 8], "mlp.gate_proj": [12, 8], "mlp.up_proj": [12, 8], "mlp.down_proj": [8, 12]},
        **{"input_layernorm": [8], "post_attention_layernorm": [8]},
    }
    shapes = {f"model.layers.{i}.{name}.weight": shape for i in (0, 1) for name, shape in layer.items()}
    return shapes | {"model.embed_tokens.weight": [10, 8], "model.norm.weight": [8], "lm_head.weight": [10, 8]}


def named_as_gguf(name: str) -> str:
    """Name that a tensor of a Llama has in GGUF."""
    parts = name.split(".")
    return _GGUF_ENDS.get(name) or f"blk.{parts[2]}.{_GGUF_NAMES[parts[-2]]}.weight"


def tensors_of_gguf(kind: int = 8) -> dict[str, tuple[int, list[int]]]:
    """Type and shape of the tensors of the tiny Llama in GGUF; matrices of layers have the type that is given."""
    shapes = {named_as_gguf(name): shape for name, shape in shapes_of_llama().items()}
    return {name: (kind if "blk" in name and len(shape) > 1 else 0, shape) for name, shape in shapes.items()}


def gguf(tensors: Mapping[str, tuple[int, Sequence[int]]], **values: str | int) -> bytes:
    """A GGUF file of (type, shape) by name, with a text, a list and other values before them; its weights are a hole.

    Values are called after their keys, with two underscores for a dot: ``split__no=1``.
    """

    def text(word: str) -> bytes:
        return struct.pack("<Q", len(word)) + word.encode()

    metadata = text("general.name") + struct.pack("<I", 8) + text("tiny")
    metadata += text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b")
    for name, value in values.items():
        is_text = isinstance(value, str)
        metadata += text(name.replace("__", ".")) + struct.pack("<I", 8 if is_text else 4)
        metadata += text(str(value)) if is_text else struct.pack("<I", int(value))
    table = b"".join(
        text(name)
        + struct.pack("<I", len(shape))
        + struct.pack(f"<{len(shape)}Q", *shape)
        + struct.pack("<IQ", kind, 0)
        for name, (kind, shape) in tensors.items()
    )
    return struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), 2 + len(values)) + metadata + table + bytes(4096)
