"""ONNX Runtime GenAI: the stages of a decoder as a pipeline of models, each with its own session.

A session holds one instance of an execution provider, so that each device has a stage file of its own. Between two
stages goes the tensor ``hidden_states.N``, that which layer N reads first. These names are a convention that stage
files have to follow: a cut tells of layers, not of the tensors of a file. Files of `mtpp split` keep the names that
tensors have in their model; for those, take inputs and outputs of each stage from the manifest.
"""

from __future__ import annotations

import json
from typing import Any

from instances.runtimes.layer_cut import LayerCut
from instances.runtimes.runtime import LayerRuntime

__all__ = ["ONNXRUNTIME_GENAI"]


def _write(cut: LayerCut) -> str:
    stages: dict[str, Any] = {f"stage-{n}": _stage(cut, n) for n in range(cut.k)}
    decoder = {
        "num_hidden_layers": cut.layers,
        "inputs": {
            "input_ids": "input_ids",
            "attention_mask": "attention_mask",
            "past_key_names": "past_key_values.%d.key",
            "past_value_names": "past_key_values.%d.value",
        },
        "outputs": {
            "logits": "logits",
            "present_key_names": "present.%d.key",
            "present_value_names": "present.%d.value",
        },
        "pipeline": [stages],
    }
    return json.dumps({"model": {"type": "decoder-pipeline", "decoder": decoder}}, indent=1) + "\n"


def _stage(cut: LayerCut, n: int) -> dict[str, Any]:
    layers = cut.members(n)
    kinds = ("key", "value")
    reads = "input_ids" if n == cut.first else f"hidden_states.{layers[0]}"
    writes = "logits" if n == cut.last else f"hidden_states.{layers[-1] + 1}"
    return {
        "filename": f"stage-{n}.onnx",
        "inputs": [reads, "attention_mask", *(f"past_key_values.{i}.{kind}" for i in layers for kind in kinds)],
        "outputs": [writes, *(f"present.{i}.{kind}" for i in layers for kind in kinds)],
        "run_on_prompt": True,
        "run_on_token_gen": True,
        "session_options": {"provider_options": [{"cuda": {"device_id": str(n)}}]},
    }


ONNXRUNTIME_GENAI = LayerRuntime(
    "onnxruntime-genai",
    "genai_config.json with a decoder-pipeline of stage files",
    "onnxruntime.ai/docs/genai/reference/config.html",
    None,
    _write,
)
