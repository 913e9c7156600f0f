"""Language models by name, with the sizes of their publications."""

from __future__ import annotations

from functools import partial

from instances.planning.grid.transformer import Transformer

__all__ = ["TRANSFORMERS"]

_llama = partial(Transformer.uniform, vocabulary=128256)
_gpt = partial(Transformer.uniform, vocabulary=50257, positions=1024, gated=False, biases=True, dropout=True, tied=True)
_bert = partial(
    Transformer.uniform,
    vocabulary=30522,
    positions=512,
    segments=2,
    gated=False,
    biases=True,
    dropout=True,
    causal=False,
)

_ALL = (
    _gpt(name="gpt2", layers=12, hidden=768, heads=12, key_heads=12, inner=3072),
    _bert(name="bert-base", layers=12, hidden=768, heads=12, key_heads=12, inner=3072),
    _bert(name="bert-large", layers=24, hidden=1024, heads=16, key_heads=16, inner=4096),
    _bert(name="bert-48", layers=48, hidden=1024, heads=16, key_heads=16, inner=4096),
    _llama(name="llama-2-7b", layers=32, hidden=4096, heads=32, key_heads=32, inner=11008, vocabulary=32000),
    _llama(name="llama-3-8b", layers=32, hidden=4096, heads=32, key_heads=8, inner=14336),
    _llama(name="llama-3-70b", layers=80, hidden=8192, heads=64, key_heads=8, inner=28672),
    _llama(
        name="mixtral-8x7b",
        layers=32,
        hidden=4096,
        heads=32,
        key_heads=8,
        inner=14336,
        vocabulary=32000,
        experts=8,
        chosen=2,
    ),
)

#: Name to sizes.
TRANSFORMERS = {one.name: one for one in _ALL}
