"""Phases of a network: its graph when it serves, and when it trains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from instances.architectures.builder import PARAMETER, Operator, Tensor
from instances.errors import InputError, check_one_of

# Phases of a decoder: over a whole text at once, or served, with a cache of keys and values.
#
# In a served decoder each layer keeps the keys and values of every token that it has seen, so that they are computed
# once. *Prefill* computes the tokens of a prompt and fills the cache; *decode* computes one token after the other, of
# each sequence of the batch, and reads all weights and the whole cache for it.
#
# For each sequence a layer with `g` heads of keys of width `d` keeps ``2 g d context`` elements. A token that is
# computed is multiplied with each weight once, and with `context` keys and as many values in each head of the queries.
# As in a pass over a whole text, products that a causal mask hides count, too. Only the last token has its scores over
# the vocabulary computed, as only they say what comes next.


#: The value of a dimension: a number, or the name of a phase.
Dim = int | str

PHASES = FORWARD, PREFILL, DECODE = "forward", "prefill", "decode"
_OF_CACHES = ("context", "kv_bytes")


@dataclass(frozen=True)
class Cache:
    """Keys and values that each layer of a served decoder keeps."""

    context: int  # tokens that are kept of each sequence, those that are being computed included
    element_bytes: int  # width of an element [bytes]


def served_dims(defaults: Mapping[str, Dim], stated: Mapping[str, Dim]) -> dict[str, Dim]:
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
    phase = stated.get("phase", FORWARD)
    check_one_of("phase", phase, PHASES)
    chosen = {**defaults, **stated}
    if phase == FORWARD:
        for dim in _OF_CACHES:
            if dim in stated:
                raise InputError(f"{dim} is {stated[dim]}, but only phase={PREFILL} and phase={DECODE} have a cache.")
        return {dim: value for dim, value in chosen.items() if dim != "phase"}
    length = defaults["sequence"]
    tokens = stated.get("sequence", stated.get("context", length) if phase == PREFILL else 1)
    context = stated.get("context", tokens if phase == PREFILL else max(int(tokens), int(length)))
    if int(context) < int(tokens):
        raise InputError(f"context is {context}, less than the sequence of {tokens} that it includes; give more.")
    kv_bytes = stated.get("kv_bytes", chosen["element_bytes"])
    return {**chosen, "sequence": tokens, "phase": phase, "context": context, "kv_bytes": kv_bytes}


# The backward half of a training step, derived from the record of the forward half.


#: Kinds whose gradient does not depend on the values that they read.
_LINEAR = frozenset({"add", "adaptive_average_pool", "average_pool", "concat", "scale", "slice", "split", "upsample"})


def backward_operators(operators: Sequence[Operator]) -> list[Operator]:
    """Operators that compute the gradients of all parameters, to be recorded after the forward ones.

    Each operator that depends on a parameter gets one backward operator, named ``backward.`` and its name, in the
    layer ``backward.`` and its layer:

    - It reads the gradients of its outputs, one from each reader of each output; an operator that ends the network
      has none, and its outputs are read instead, from which the loss follows. It also reads the parameters and,
      unless the operator is linear, whatever else the forward operator read: the saved activations.
    - It outputs a gradient of the same size for each activation that depends on a parameter. Gradients of
      parameters stay where they are computed.
    - It costs (multiply-adds, other operations, bytes moved) as much as the forward operator for each such
      activation, and as much again for the parameters, but at most twice as much. So a product with a weight or of
      two activations costs twice its forward multiply-adds, but once if it reads the input of the network, and an
      activation function costs once. Adding up the gradients of one tensor is not counted.

    Both records are in topological order; the new tensors are numbered as if appended to `operators`.
    """
    trained = _depends_on_parameters(operators)
    gradients: dict[tuple[int, int], list[Tensor]] = defaultdict(list)
    result: list[Operator] = []
    for v, operator in reversed(list(enumerate(operators))):
        if operator.kind == PARAMETER or not trained[v]:
            continue
        parameters = [tensor for tensor in operator.inputs if operators[tensor.operator].kind == PARAMETER]
        operands = [x for x in operator.inputs if trained[x.operator] and x not in parameters]
        received = [gradient for output in operator.outputs for gradient in gradients[_key(output)]]
        saved = parameters if operator.kind in _LINEAR else operator.inputs
        wanted = {_key(tensor): tensor for tensor in operands}
        number = len(operators) + len(result)
        sent = tuple(replace(x, operator=number, output=i) for i, x in enumerate(wanted.values()))
        for key, gradient in zip(wanted, sent, strict=True):
            gradients[key].append(gradient)
        passes = min(2, len(operands) + bool(parameters))
        result.append(
            Operator(
                name=f"backward.{operator.name}",
                kind=operator.kind,
                layer=f"backward.{operator.layer}",
                inputs=(*(received or operator.outputs), *saved),
                outputs=sent,
                multiply_adds=passes * operator.multiply_adds,
                flops=passes * operator.flops,
                bytes_moved=passes * operator.bytes_moved,
            )
        )
    return result


def _depends_on_parameters(operators: Sequence[Operator]) -> list[bool]:
    """Whether each operator is a parameter or reads, directly or not, one."""
    trained: list[bool] = []
    for operator in operators:
        trained.append(operator.kind == PARAMETER or any(trained[tensor.operator] for tensor in operator.inputs))
    return trained


def _key(tensor: Tensor) -> tuple[int, int]:
    return tensor.operator, tensor.output
