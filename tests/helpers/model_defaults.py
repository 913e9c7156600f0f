"""Defaults and aliases of configurations, taken from an installed transformers.

`python tests/helpers/model_defaults.py` writes `instances/readers/huggingface/defaults.json` anew, for the model types
of `decoders.toml` and `encoders.toml`.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import instances.readers.huggingface as package
from instances.readers.huggingface.configuration import model_types

__all__ = ["defaults_of"]


_EARLIER = (
    *("model_type", "auto_map", "torch_dtype", "rope_scaling", "rope_theta", "rope_parameters", "quantization_config"),
    *("sliding_window_pattern", "first_k_dense_replace", "task_specific_params", "layer_types", "n_ctx", "head_dim"),
    *(
        "full_attention_interval",
        "moe_layer_freq",
        "ep_size",
        "rotary_dim",
        "rotary",
        "use_bfloat16",
        "model_max_length",
    ),
    *("use_mrope", "pretraining_tp", "tie_word_embeddings", "eos_token_id", "bos_token_id", "pad_token_id"),
    *("num_logits_to_keep", "attention_types", "n_layers", "sep_token_id", "gradient_checkpointing", "use_cache"),
)


def defaults_of(kind: str) -> dict[str, Any]:
    """Defaults and aliases of a model type's configuration."""
    from transformers import CONFIG_MAPPING, PreTrainedConfig

    base = {field.name for field in dataclasses.fields(PreTrainedConfig)} - {"tie_word_embeddings"}
    config = CONFIG_MAPPING[kind]
    defaults = {
        field.name: field.default
        for field in dataclasses.fields(config)
        if field.name not in base and _plain(field.default)
    }
    for outer, names in model_types().get(kind, {}).get("inside", {}).items():
        inner = dataclasses.fields(config.sub_configs[outer]) if outer in config.sub_configs else ()
        defaults |= {names[field.name]: field.default for field in inner if field.name in names}
    if "tie_word_embeddings" not in defaults:  # the whole model says it
        whole = CONFIG_MAPPING[kind.removesuffix("_text")]
        defaults["tie_word_embeddings"] = next(
            (field.default for field in dataclasses.fields(whole) if field.name == "tie_word_embeddings"), True
        )
    others = [field.name for field in dataclasses.fields(config) if field.name not in {*base, *defaults}]
    return {"defaults": defaults, "aliases": dict(config.attribute_map), "others": others}


def common_fields() -> list[str]:
    """Fields that all configurations may have, also those of earlier versions."""
    from transformers import PreTrainedConfig

    return sorted({*(field.name for field in dataclasses.fields(PreTrainedConfig)), *_EARLIER})


def _plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


if __name__ == "__main__":
    table = {"": {"others": common_fields()}} | {
        kind: defaults_of(kind) for kind in sorted({*model_types(), *model_types("encoders")})
    }
    lines = ",\n".join(f" {json.dumps(kind)}: {json.dumps(row)}" for kind, row in table.items())
    folder = Path(next(iter(package.__path__)))
    (folder / "defaults.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
