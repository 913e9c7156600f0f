"""Hugging Face accelerate: the device of each module, as ``device_map`` of `from_pretrained` or `dispatch_model`."""

from __future__ import annotations

import json

from instances.errors import InputError
from instances.runtimes.layer_cut import LayerCut
from instances.runtimes.module_names import TRANSFORMERS
from instances.runtimes.runtime import LayerRuntime

__all__ = ["ACCELERATE"]


def _write(cut: LayerCut) -> str:
    """The device of each module; empty stages take no device, and tied parameters are on all that use them."""
    names = cut.naming.modules(TRANSFORMERS, "transformers", ends=True)
    twice = sorted(set(names.before) & set(names.after))
    if twice and cut.first != cut.last:
        raise InputError(
            f"accelerate keeps a module on one device, and {twice[0]} of {cut.network} runs in stages {cut.first} and "
            f"{cut.last}; keep both ends in one stage, or give the head a module of its own."
        )
    device = dict(zip(sorted(set(cut.unit_stage)), cut.ranks, strict=False))
    devices = (
        dict.fromkeys(names.before, device[cut.first])
        | {names.layer(layer): device[stage] for layer, stage in enumerate(cut.unit_stage[1:-1])}
        | dict.fromkeys(names.after, device[cut.last])
    )
    return json.dumps(devices, indent=1) + "\n"


ACCELERATE = LayerRuntime(
    "accelerate",
    "device_map of transformers and accelerate, JSON",
    "huggingface.co/docs/accelerate/concept_guides/big_model_inference",
    None,
    _write,
    every_stage=None,
    front_with_first=False,
    back_with_last=False,
    orders_devices=True,
    version="1.15",
    names=(TRANSFORMERS, "transformers"),
)
