"""Phases of a decoder: over a whole text at once, or served, with a cache of keys and values.

In a served decoder each layer keeps the keys and values of every token that it has seen, so that they are computed
once. *Prefill* computes the tokens of a prompt and fills the cache; *decode* computes one token after the other, of
each sequence of the batch, and reads all weights and the whole cache for it.

For each sequence a layer with `g` heads of keys of width `d` keeps ``2 g d context`` elements. A token that is computed
is multiplied with each weight once, and with `context` keys and as many values in each head of the queries. As in a
pass over a whole text, products that a causal mask hides count, too. Only the last token has its scores over the
vocabulary computed, as only they say what comes next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from instances.errors import InputError

__all__ = ["DECODE", "FORWARD", "PHASES", "PREFILL", "Cache", "Dim", "served_dims"]

#: The value of a dimension: a number, or the name of a phase.
Dim = int | str

PHASES = FORWARD, PREFILL, DECODE = "forward", "prefill", "decode"
_OF_CACHES = ("context", "kv_bytes")


@dataclass(frozen=True)
class Cache:
    """Keys and values that each layer of a served decoder keeps."""

    context: int  # tokens that are kept of each sequence, those that are being computed included
    element_bytes: int  # width of an element [bytes]


def served_dims(defaults: Mapping[str, Dim], given: Mapping[str, Dim]) -> dict[str, Dim]:
    """All dimensions of a decoder in its phase.

    Parameters
    ----------
    defaults : mapping
        For batch, sequence and element_bytes.
    given : mapping
        Those given by the caller: also ``phase``, ``context`` (tokens that the cache holds of each sequence, those that
        are being computed included) and ``kv_bytes`` (width of an element of the cache).

    Returns
    -------
    dict
        The tokens to compute, `sequence`, are those of the context in prefill and one in decode, and the context is
        `sequence` in prefill and its default in decode, unless given. Elements of the cache are as wide as others.
        The phase *forward* has neither a phase nor a cache.

    Raises
    ------
    InputError
        If there is no such phase, the context is shorter than what is computed, or there is a context without a cache.
    """
    phase = given.get("phase", FORWARD)
    if phase not in PHASES:
        raise InputError(f"phase is {phase}; give one of {', '.join(PHASES)}.")
    chosen = {**defaults, **given}
    if phase == FORWARD:
        for dim in _OF_CACHES:
            if dim in given:
                raise InputError(f"{dim} is {given[dim]}, but only phase={PREFILL} and phase={DECODE} have a cache.")
        return {dim: value for dim, value in chosen.items() if dim != "phase"}
    length = defaults["sequence"]
    tokens = given.get("sequence", given.get("context", length) if phase == PREFILL else 1)
    context = given.get("context", tokens if phase == PREFILL else max(int(tokens), int(length)))
    if int(context) < int(tokens):
        raise InputError(f"context is {context}, less than the sequence of {tokens} that it includes; give more.")
    kv_bytes = given.get("kv_bytes", chosen["element_bytes"])
    return {**chosen, "sequence": tokens, "phase": phase, "context": context, "kv_bytes": kv_bytes}
