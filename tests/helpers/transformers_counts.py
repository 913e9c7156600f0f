"""Counts of random small models of transformers, by torch: parameters, cache, matrix operations.

`python tests/helpers/transformers_counts.py [TYPE…] [--seeds 20]` compares them with those of the reader of
configurations, for all model types that it knows, and prints a line for each type.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from model_defaults import defaults_of
from transformers_configurations import random_configuration, random_sizes

from instances.readers.huggingface.configuration import model_types

__all__ = ["BATCH", "PROMPT", "WITHOUT_HEAD", "Counts", "causal_model", "counted", "read", "states_of_fields"]

BATCH, PROMPT = 2, 11
#: Whose operations torch counts otherwise: its scans by chunks, and experts that all see all tokens.
MODELLED = (
    *("mamba", "falcon_mamba", "mamba2", "jamba", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "lfm2", "bamba"),
    *("falcon_h1", "granitemoehybrid", "llama4_text", "lfm2_moe", "lfm3", "olmo_hybrid", "minimax", "kimi_linear"),
    "nemotron_h",
    "lara_mini",
)
#: Decoders of multimodal models, which transformers builds without a head; their operations are not compared.
WITHOUT_HEAD = (
    *("qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text"),
    *("glm4v_text", "glm4v_moe_text", "glm_ocr_text", "mistral4", "qwen2_5_omni_text", "qwen3_omni_moe_text"),
    *("paddleocr_vl_text", "hunyuan_vl_text", "granite4_vision_text", "granite_docling_text"),
)
#: Without a cache of keys and values, or with one that repeats the keys that heads share.
OTHER_CACHE = ("openai-gpt", "falcon", "mamba", "falcon_mamba", "mamba2")


@dataclass(frozen=True)
class Counts:
    """Counts that are compared."""

    parameters: int
    layers: tuple[int, ...]  # parameters of each layer
    cache: int  # elements after the prompt
    prefill: int  # matrix operations over the prompt, all scores computed
    decode: int  # of one more token

    def differences(self, other: Counts, kind: str) -> list[str]:
        """Differences, but for what transformers does otherwise."""
        names = ["parameters", "layers"]
        if kind in WITHOUT_HEAD:
            return self._unlike(other, names)
        names += [] if kind in OTHER_CACHE else ["cache"]
        names += [] if kind in MODELLED else ["prefill"] if kind == "openai-gpt" else ["prefill", "decode"]
        return self._unlike(other, names)

    def _unlike(self, other: Counts, names: list[str]) -> list[str]:
        return [
            f"{name} {getattr(self, name)} {getattr(other, name)}"
            for name in names
            if getattr(self, name) != getattr(other, name)
        ]


#: Models of configurations that transformers knows as parts of others alone.
_OF_PARTS = {
    "emu3_text_model": "Emu3ForCausalLM",
    "granite4_vision_text": "Granite4VisionTextModel",
    "paddleocr_vl_text": "PaddleOCRTextModel",
    "qwen2_5_omni_text": "Qwen2_5OmniThinkerTextModel",
    "qwen3_omni_moe_text": "Qwen3OmniMoeThinkerTextModel",
}


def causal_model(config: Any, **words: Any) -> Any:
    """The model with its head, or without one where transformers has none."""
    import transformers

    name = _OF_PARTS.get(config.model_type)
    if name is not None:
        module = importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))
        return getattr(module, name)._from_config(config, **words)
    auto = transformers.AutoModel if config.model_type in WITHOUT_HEAD else transformers.AutoModelForCausalLM
    return auto.from_config(config, **words)


def _parameters(model: Any) -> int:
    """Parameters of a model, and of the head that its wrapper gives it."""
    kind, config = model.config.model_type, model.config
    count = sum(parameter.numel() for parameter in model.parameters())
    tied = defaults_of(kind)["defaults"]["tie_word_embeddings"]
    if kind in WITHOUT_HEAD and not getattr(config, "tie_word_embeddings", tied):
        count += config.vocab_size * config.hidden_size
    return int(count)


def counted(config: Any, *, flops: bool) -> Counts:
    """Counts of the model that transformers builds, by torch."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"):
        model = causal_model(config)
    layers = next(
        module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.ModuleList) and name.count(".") <= 2 and len(module) == config.num_hidden_layers
    )
    parameters = _parameters(model)
    by_layer = tuple(sum(parameter.numel() for parameter in layer.parameters()) for layer in layers)
    if not flops:
        return Counts(parameters, by_layer, 0, 0, 0)
    torch.manual_seed(0)
    config._attn_implementation = config._experts_implementation = "eager"
    model = causal_model(config, attn_implementation="eager").eval().float().requires_grad_(False)

    def run(tokens: Any, **more: Any) -> tuple[int, Any]:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            output = model(tokens, use_cache=True, **more)
        flops_by_module = counter.get_flop_counts()
        tables = sum(sum(count.values()) for name, count in flops_by_module.items() if name.endswith("rotary_emb"))
        return counter.get_total_flops() - tables, output

    prefill, output = run(torch.randint(3, 90, (BATCH, PROMPT)))
    cache = getattr(output, "past_key_values", None)
    elements = 0 if cache is None else sum(_elements(layer) for layer in cache.layers)
    elements += sum(state.numel() for state in getattr(cache, "linear_cache", ()) if len(state))  # of MiniMax
    decode, _ = run(torch.randint(3, 90, (BATCH, 1)), past_key_values=cache) if cache is not None else (0, None)
    return Counts(parameters, by_layer, elements, prefill, decode)


def _elements(layer: Any) -> int:
    import torch

    names = ("keys", "values", "indexer_keys", "conv_states", "recurrent_states")
    states = [getattr(layer, name, None) for name in names]
    flat = [item for state in states for item in (state.values() if isinstance(state, dict) else [state])]
    return sum(tensor.numel() for tensor in flat if isinstance(tensor, torch.Tensor))


def states_of_fields(kind: str) -> Iterator[tuple[str, object, dict[str, Any], int]]:
    """Configurations of a type with one field absent, true, false, null or small, and the parameters of each.

    What transformers refuses or does not build says nothing.
    """
    import torch
    from transformers import CONFIG_MAPPING

    config_class, random = CONFIG_MAPPING[kind], random_configuration(kind, Random(kind)).to_dict()
    fields = {*(field.name for field in dataclasses.fields(config_class)), *config_class.attribute_map}
    fields -= {"hidden_size"} if kind == "dbrx" else set()  # its experts keep the default, so that it cannot run
    base = {name: value for name, value in random_sizes(kind, Random(kind)).items() if name in {*fields, *random}}
    for name in sorted(fields):
        numbers = () if isinstance(base.get(name, random.get(name)), str | list | dict | float) else (0, 1, 2, 3, 8)
        for state in ("absent", True, False, None, *numbers):
            stated = {other: value for other, value in base.items() if other != name} | {"model_type": kind}
            if state != "absent":
                stated[name] = state
            try:
                config = config_class.from_dict(json.loads(json.dumps(stated)))
                with torch.device("meta"):
                    parameters = _parameters(causal_model(config))
            except Exception:  # transformers has many ways to refuse
                continue
            yield name, state, stated, parameters


def read(text: str) -> Counts:
    """The same counts by the reader of configurations."""
    from instances.json_files import parse_json
    from instances.readers.huggingface import configured_architecture

    architecture, _ = configured_architecture(parse_json(text, "config.json"), "model")
    forward = architecture.build(batch=BATCH, sequence=PROMPT, element_bytes=1)
    held = architecture.build(batch=BATCH, phase="prefill", context=PROMPT, element_bytes=1)
    decode = architecture.build(batch=BATCH, phase="decode", context=PROMPT + 1, element_bytes=1)
    per_layer: dict[str, float] = {}
    merged = architecture.build(level="layer", batch=BATCH, sequence=PROMPT, element_bytes=1)
    for name, size in zip(merged.names, merged.param_bytes.tolist(), strict=True):
        if name.rpartition(".")[2].isdigit():
            per_layer[name] = size
    return Counts(
        parameters=forward.attributes["parameter_count"],
        layers=tuple(int(size) for size in per_layer.values()),
        cache=int(held.state_bytes.sum()),
        prefill=2 * forward.attributes["multiply_adds"],
        decode=2 * decode.attributes["multiply_adds"],
    )


def _compare(kind: str, seeds: int) -> None:
    wrong: list[str] = []
    failed: list[str] = []
    for seed in range(seeds):
        try:
            config = random_configuration(kind, Random(f"{kind} {seed}"))
            text = json.dumps(json.loads(config.to_json_string()))
            expected = counted(config, flops=kind not in WITHOUT_HEAD)
        except Exception as error:
            failed.append(f"{type(error).__name__}: {error}"[:150])
            continue
        try:
            counts = read(text)
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}"[:250])
            continue
        if differences := expected.differences(counts, kind):
            wrong.append("; ".join(differences)[:330])
    built = f"{len(wrong)} of {seeds - len(failed)} differ. {wrong[:1]}"
    print(f"{kind:22} {built} {f'{len(failed)} FAILED, such as {failed[-1]}' if failed else ''}", flush=True)


if __name__ == "__main__":
    names = [word for word in sys.argv[1:] if not word.startswith("--") and not word.isdigit()]
    seeds = int(sys.argv[sys.argv.index("--seeds") + 1]) if "--seeds" in sys.argv else 20
    for kind in names or model_types():
        _compare(kind, seeds)
