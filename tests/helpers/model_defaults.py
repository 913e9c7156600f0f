"""Defaults and aliases of configurations, taken from an installed transformers: `python -m tests.helpers.model_defaults`.

It writes `instances/readers/huggingface/defaults.json` anew, for the model types of `decoders.toml`.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import instances.readers.huggingface as package
from instances.readers.huggingface.configuration import model_types

__all__ = ["defaults_of"]


def defaults_of(kind: str) -> dict[str, Any]:
    """Defaults and aliases of a model type's configuration."""
    from transformers import CONFIG_MAPPING, PreTrainedConfig

    base = {field.name for field in dataclasses.fields(PreTrainedConfig)} - {"tie_word_embeddings"}
    own = CONFIG_MAPPING[kind]
    defaults = {
        field.name: field.default
        for field in dataclasses.fields(own)
        if field.name not in base and _plain(field.default)
    }
    defaults.setdefault("tie_word_embeddings", True)
    return {"defaults": defaults, "aliases": dict(own.attribute_map)}


def _plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | str)


if __name__ == "__main__":
    found = {kind: defaults_of(kind) for kind in sorted(model_types())}
    lines = ",\n".join(f" {json.dumps(kind)}: {json.dumps(own)}" for kind, own in found.items())
    folder = Path(next(iter(package.__path__)))
    (folder / "defaults.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
