"""BERT as a chain of layers, priced analytically."""

from __future__ import annotations

import numpy as np

from instances.errors import InputError
from instances.planning.chain import LayerChain

__all__ = ["bert_chain"]

_ELEMENT_BYTES = 4
_VOCABULARY, _POSITIONS, _SEGMENTS = 30522, 512, 2
_HIDDEN, _HEADS = 1024, 16  # of BERT-large


def bert_chain(
    layers: int = 24,
    *,
    microbatch: int = 6,
    sequence: int = 384,
    flops: float = 6e12,
    activation_scale: float = 1.0,
) -> LayerChain:
    r"""BERT-large with any number of transformer layers: embedding, `layers` transformer layers, pooler, head.

    With h = 1024 and s tokens, a transformer layer has :math:`12 h^2 + 13 h` parameters and takes, for a sample,
    :math:`24 s h^2 + 4 s^2 h` operations; its backward pass takes twice as long. Until then it keeps
    :math:`66 s h + 9 a s^2` bytes, a = 16 heads: the count of Korthikanti et al. (2022) with elements of 4 bytes.
    The embedding is a lookup, the pooler a dense layer on one token, the head marks the spans of answers (SQuAD).

    Parameters
    ----------
    layers : int
        Transformer layers.
    microbatch : int
        Samples of a microbatch.
    sequence : int
        Tokens of a sample.
    flops : float
        Operations a second that a device sustains. The profile of the paper is not published; the default makes an
        iteration take about as long as there.
    activation_scale : float
        Factor of all bytes between layers (Fig. 10).

    Returns
    -------
    LayerChain
        Of `layers` + 3 layers.

    Raises
    ------
    InputError
        If a value is not positive.

    Examples
    --------
    >>> chain = bert_chain()
    >>> chain.n, round(chain.param_bytes.sum() / 4e6)
    (27, 335)
    """
    given = {"layers": layers, "microbatch": microbatch, "sequence": sequence, "flops": flops}
    for label, value in given.items():
        if not value > 0:
            raise InputError(f"bert_chain: {label} is {value}; it must be positive.")
    hidden, heads = _HIDDEN, _HEADS
    body = 24 * sequence * hidden**2 + 4 * sequence**2 * hidden
    operations = [5 * sequence * hidden, *[body] * layers, 2 * hidden**2, 4 * sequence * hidden]
    parameters = [
        (_VOCABULARY + _POSITIONS + _SEGMENTS + 2) * hidden,
        *[12 * hidden**2 + 13 * hidden] * layers,
        hidden**2 + hidden,
        2 * hidden + 2,
    ]
    output = _ELEMENT_BYTES * sequence * hidden
    kept = [output, *[66 * sequence * hidden + 9 * heads * sequence**2] * layers, output, output]
    forward = np.array(operations) * microbatch / flops
    between = np.full(layers + 2, output * microbatch * activation_scale)
    return LayerChain(
        forward=forward,
        backward=2 * forward,
        forward_bytes=between,
        backward_bytes=between,
        param_bytes=np.array(parameters) * _ELEMENT_BYTES,
        stored_bytes=np.array(kept) * microbatch,
        names=("embedding", *(f"encoder.{layer}" for layer in range(layers)), "pooler", "head"),
        name=f"bert-{layers}",
        source=f"analytic; microbatch {microbatch}, sequence {sequence}, {flops:g} flop/s, activations x "
        f"{activation_scale:g}",
    )
