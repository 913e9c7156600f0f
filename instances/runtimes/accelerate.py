"""Hugging Face accelerate: the device of each module, as ``device_map`` of `from_pretrained` or `dispatch_model`."""

from __future__ import annotations

import json

from instances.errors import InputError
from instances.runtimes.layer_cut import LayerCut
from instances.runtimes.runtime import LayerRuntime

__all__ = ["ACCELERATE"]

#: Modules before the layers, the layers, and modules after them, in transformers: of GPT-2, and of other decoders.
_GPT2 = (("transformer.wte", "transformer.wpe"), "transformer.h", ("transformer.ln_f", "lm_head"))
_OTHERS = (("model.embed_tokens",), "model.layers", ("model.norm", "lm_head"))


def _write(cut: LayerCut) -> str:
    if cut.tied:
        raise InputError(
            f"accelerate keeps tied parameters on one device, and {cut.tied[0]} of {cut.network} is used in stages "
            f"{cut.first} and {cut.last}; untie them, or export for another runtime."
        )
    before, stem, after = _GPT2 if cut.network.startswith("gpt2") or cut.stem == _GPT2[1] else _OTHERS
    devices = (
        dict.fromkeys(before, cut.first)
        | {f"{stem}.{layer}": stage for layer, stage in enumerate(cut.unit_stage[1:-1])}
        | dict.fromkeys(after, cut.last)
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
)
