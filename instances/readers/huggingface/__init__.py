"""Configurations of Hugging Face transformers, ``config.json``, as architectures.

- `configuration`: `decoder_of` and `encoder_of`, what a configuration means
- `record`: its numbers with the defaults of its type, and sizes alone
- `layers`, `network`: which layers attend to what, what mixes the tokens of a layer, and the operators of a record
- `files`, `weights`, `headers`: the files of a model, which weights are meant, and what their headers say
- `gguf`: the configuration that the metadata of a GGUF file state
- `decoders.toml`, `encoders.toml`: what is fixed for each model type; `defaults.json`: defaults of their fields, from
  transformers
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from instances.architectures.architecture import Architecture
from instances.architectures.transformers import Encoder, encode
from instances.json_files import Value
from instances.readers.huggingface.configuration import decoder_of, encoder_of, is_encoder
from instances.readers.huggingface.network import record_network
from instances.readers.huggingface.record import Decoder

__all__ = ["configured_architecture", "configured_record", "record_architecture"]

#: Tokens of a text by default, where the network takes as many.
_SEQUENCE = 128


def configured_record(config: Value) -> tuple[Decoder | Encoder, list[str]]:
    """The record of the network that a configuration describes, and sentences about doubts.

    Raises
    ------
    InputError
        If the configuration is refused; `decoder_of` says why.
    """
    return encoder_of(config) if is_encoder(config) else decoder_of(config)


def record_architecture(record: Decoder | Encoder, name: str, reference: str) -> Architecture:
    """The architecture of a record."""
    if isinstance(record, Encoder):
        summary = f"encoder, {record.layers} layers of {record.hidden}"
        text = _text(record.positions - record.unused_positions)
        return Architecture(name, summary, partial(encode, sizes=record), text, reference)
    summary = f"{record.kind}, {len(record.layers)} layers of {record.hidden}"
    network, text = partial(record_network, record=record), _text(record.longest or record.positions)
    return Architecture(name, summary, network, text, reference, served=True, longest=record.longest)


def _text(longest: int) -> dict[str, int]:
    """Default dimensions of a network with this longest context; 0 means unknown."""
    return {"batch": 1, "sequence": min(_SEQUENCE, longest or _SEQUENCE)}


def configured_architecture(config: Value, name: str) -> tuple[Architecture, list[str]]:
    """The architecture that a configuration describes, and sentences about doubts.

    Raises
    ------
    InputError
        If the configuration is refused; `decoder_of` says why.
    """
    record, warnings = configured_record(config)
    return record_architecture(record, name, str(Path(config.file))), warnings
