"""Hugging Face accelerate: the device of each module, as ``device_map`` of `from_pretrained` or `dispatch_model`."""

from __future__ import annotations

import json

from instances.runtimes.layer_cut import LayerCut
from instances.runtimes.module_names import TRANSFORMERS
from instances.runtimes.runtime import LayerRuntime

__all__ = ["ACCELERATE"]


def _write(cut: LayerCut) -> str:
    """The device of each module; empty stages take no device, and tied parameters are on all that use them."""
    names = cut.naming.modules(TRANSFORMERS, "transformers", ends=True)
    device = dict(zip(sorted(set(cut.unit_stage)), cut.ranks, strict=False))
    devices = (
        dict.fromkeys(names.before, device[cut.first])
        | {names.layer(layer): device[stage] for layer, stage in enumerate(cut.unit_stage[1:-1])}
        | dict.fromkeys(names.after, device[cut.last])
    )
    for name, (unit, *_) in cut.naming.units.items():
        if not any(f"{name}.".startswith(f"{module}.") for module in devices):
            devices[name] = device[cut.unit_stage[unit]]
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
    one_device=True,
    version="1.15",
    names=(TRANSFORMERS, "transformers"),
)
