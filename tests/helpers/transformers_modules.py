"""Modules of models of transformers, and counts of its encoders."""

from __future__ import annotations

import json
from typing import Any

from transformers_counts import BATCH, PROMPT, causal_model

from instances.json_files import parse_json
from instances.readers.huggingface.configuration import decoder_of, encoder_of, is_encoder

__all__ = ["encoded", "uncovered"]


def uncovered(config: Any) -> list[str]:
    """Modules that a configuration names and the model does not have, and weights that are in none of them."""
    import torch
    from transformers import AutoModel

    stated = parse_json(json.dumps(json.loads(config.to_json_string())), "config.json")
    encodes = is_encoder(stated)
    with torch.device("meta"):
        model = AutoModel.from_config(config) if encodes else causal_model(config)
    modules = (encoder_of if encodes else decoder_of)(stated)[0].modules
    named = [*modules["before"], modules["layers"], *modules["after"]]
    present = {name for name, _ in model.named_modules()}
    weights = (name for name in model.state_dict() if not any(name.startswith(f"{module}.") for module in named))
    return [name for name in named if name not in present] + [*weights]


def encoded(config: Any) -> tuple[int, int]:
    """Parameters and matrix operations of an encoder that transformers builds, by torch."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import AutoModel

    model = AutoModel.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.full((BATCH, PROMPT), 5), attention_mask=torch.ones(BATCH, PROMPT, dtype=torch.long))
    return sum(parameter.numel() for parameter in model.parameters()), counter.get_total_flops()
