"""Configurations of Hugging Face transformers, ``config.json``, as architectures.

- `configuration`: `decoder_of`, what a configuration means; `fields`, its numbers with the defaults of its type
- `encoders`: `encoder_of`, the same for encoders of text, as `encoders.toml` says
- `layer_kinds`, `mixers`: which layers attend to what, and what mixes the tokens of a layer
- `record`: sizes alone; `network`: the operators of a record; `mixing`: those that mix tokens
- `decoders.toml`: what is fixed for each model type; `defaults.json`: defaults of their fields, from transformers
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from instances.architectures.architecture import Architecture
from instances.architectures.transformers import encode
from instances.json_files import Value
from instances.readers.huggingface.configuration import decoder_of, encoder_of, is_encoder
from instances.readers.huggingface.network import record_network

__all__ = ["configured_architecture"]

_TEXT = {"batch": 1, "sequence": 128}


def configured_architecture(config: Value, name: str) -> tuple[Architecture, list[str]]:
    """The architecture that a configuration describes, and what is in doubt.

    Raises
    ------
    InputError
        If the configuration is refused; `decoder_of` says why.
    """
    if is_encoder(config):
        sizes, warnings = encoder_of(config)
        summary = f"encoder, {sizes.layers} layers of {sizes.hidden}"
        return Architecture(name, summary, partial(encode, sizes=sizes), _TEXT, str(Path(config.file))), warnings
    record, warnings = decoder_of(config)
    count = len(record.layers)
    summary = f"{record.kind}, {count} layers of {record.hidden}"
    network = partial(record_network, record=record)
    return Architecture(name, summary, network, _TEXT, str(Path(config.file)), served=True), warnings
