"""Configurations of encoders of text, ``config.json``, as sizes of `Encoder`."""

from __future__ import annotations

from instances.architectures.encoders import Encoder
from instances.json_files import Value
from instances.readers.huggingface.configuration import model_types, type_defaults
from instances.readers.huggingface.fields import MOST_LAYERS, Fields

__all__ = ["encoder_of", "is_encoder"]

#: Fields that make decoders of them.
_DECODES = ("is_decoder", "add_cross_attention")


def is_encoder(config: Value) -> bool:
    """Whether the configuration is one of a known encoder."""
    members = config.open_members(())
    return "model_type" in members and members["model_type"].text() in model_types("encoders")


def encoder_of(config: Value) -> tuple[Encoder, list[str]]:
    """The sizes of the encoder that a configuration describes, and what is in doubt.

    Raises
    ------
    InputError
        If a field is absurd or contradicts another, or makes a decoder of it.
    """
    members = config.open_members(("model_type",))
    kind = members["model_type"].text()
    words, type_fields = model_types("encoders")[kind], type_defaults(kind)
    fields = Fields(members, type_fields["defaults"], type_fields["aliases"], words, config)
    for name in _DECODES:
        if fields.truth(name):
            members[name].fail(f"a {kind} that decodes is not known; in Python, give the module itself to mtpp.load.")
    hidden, heads = fields.whole("hidden_size"), fields.whole("num_attention_heads")
    if hidden % heads:
        fields.value("num_attention_heads").fail(f"{heads} heads do not divide the width {hidden}; give a divisor.")
    rows = fields.whole("max_position_embeddings")
    unused = fields.whole("pad_token_id", least=0) + 1 if fields.says("padded") else 0
    if unused >= rows:
        fields.value("max_position_embeddings").fail(f"{rows} positions leave none for tokens; give more.")
    sizes = Encoder(
        layers=fields.whole("num_hidden_layers", most=MOST_LAYERS),
        hidden=hidden,
        heads=heads,
        inner=fields.whole(words.get("inner", "intermediate_size")),
        vocabulary=fields.whole("vocab_size"),
        positions=rows,
        unused_positions=unused,
        segments=fields.whole("type_vocab_size") if words.get("segments", True) else 0,
        tasks=fields.whole("task_type_vocab_size") if fields.says("tasks") else 0,
        embedding=fields.whole(words["embedding"]) if "embedding" in words else None,
        embedding_norm=words.get("embedding_norm", True),
        pooled=words.get("pooled", True),
        stack=words.get("stack", "encoder.layer"),
        final=words.get("final", ""),
    )
    named = members["architectures"].texts() if "architectures" in members and members["architectures"].data else []
    headed = [name for name in named[:1] if not name.endswith("Model")]
    return sizes, [f"it is a {name}; a {kind} without its head counts, as AutoModel has it." for name in headed]
