"""Recurrent networks, and networks of recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from instances.architectures.architecture import INDEX_BYTES, Architecture
from instances.architectures.builder import NetworkBuilder, Tensor
from instances.errors import InputError

# Recurrent networks: GNMT, WaveRNN.


_VOCABULARY = 32000
_INDEX_BYTES = 8
_LEVELS = 256  # of eight bits of audio
_GATED_UNIT_FLOPS = 24  # per hidden unit: three gates with their inputs and activations, and the state

Chunks = list[Tensor]  # (batch, steps, features) each, in the order of time


def gnmt(net: NetworkBuilder, *, batch: int, sequence: int, chunks: int, layers: int, hidden: int) -> None:
    """Google's neural machine translation with teacher forcing (Wu et al. 2016, Sections 3.1 to 3.3).

    `layers` in the encoder, the first in both directions, and in the decoder; residual connections from
    the third layer on. The bottom decoder layer queries the attention, whose context joins the input of
    every layer above. Each recurrence is unrolled over time into `chunks` operators: 1 makes one operator
    a layer, `sequence` one operator a cell.
    """
    if chunks > sequence:
        raise InputError(f"chunks is {chunks}, more than the sequence of {sequence}; give at most that.")
    ends = [sequence * (i + 1) // chunks for i in range(chunks)]
    steps = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    with net.scope("encoder.embeddings"):
        xs = _embed(net, batch, sequence, steps, hidden)
    xs = _both_directions(net, xs, hidden)
    for layer in range(1, layers):
        with net.scope(f"encoder.{layer}"):
            xs = _residual(net, xs, _lstm(net, xs, hidden), layer)
    with net.scope("encoder.memory"):
        memory = net.concat(*xs, axis=1)
    with net.scope("decoder.embeddings"):
        xs = _embed(net, batch, sequence, steps, hidden)
    with net.scope("decoder.0"):
        xs = _lstm(net, xs, hidden)
    with net.scope("decoder.attention"):
        contexts = _attention(net, xs, memory)
    for layer in range(1, layers):
        with net.scope(f"decoder.{layer}"):
            joint = [net.concat(x, context, axis=2) for x, context in zip(xs, contexts, strict=True)]
            xs = _residual(net, xs, _lstm(net, joint, hidden), layer)
    with net.scope("head"):
        weight, bias = net.parameter("weight", hidden, _VOCABULARY), net.parameter("bias", _VOCABULARY)
        for x in xs:
            net.softmax(net.add(net.matmul(x, weight), bias))


def _embed(net: NetworkBuilder, batch: int, sequence: int, steps: Sequence[int], hidden: int) -> Chunks:
    tokens = net.input("tokens", batch, sequence, element_bytes=_INDEX_BYTES)
    x = net.embedding(tokens, net.parameter("words", _VOCABULARY, hidden))
    return list(net.split(x, steps, axis=1))


def _lstm(net: NetworkBuilder, xs: Chunks, hidden: int) -> Chunks:
    """One layer over all chunks; hidden and cell state pass from each chunk to the next."""
    weight = net.parameter("weight", xs[0].shape[-1], 4 * hidden)
    recurrent = net.parameter("recurrent", hidden, 4 * hidden)
    bias = net.parameter("bias", 4 * hidden)
    outputs: Chunks = []
    state: Sequence[Tensor] = ()
    for x in xs:
        y, *state = net.lstm(x, weight, recurrent, bias, state)
        outputs.append(y)
    return outputs


def _both_directions(net: NetworkBuilder, xs: Chunks, hidden: int) -> Chunks:
    with net.scope("encoder.0.forward"):
        forward = _lstm(net, xs, hidden)
    with net.scope("encoder.0.backward"):
        backward = _lstm(net, xs[::-1], hidden)[::-1]
    with net.scope("encoder.0"):
        return [net.concat(x, y, axis=2) for x, y in zip(forward, backward, strict=True)]


def _residual(net: NetworkBuilder, xs: Chunks, ys: Chunks, layer: int) -> Chunks:
    return [net.add(x, y) for x, y in zip(xs, ys, strict=True)] if layer >= 2 else ys


def _attention(net: NetworkBuilder, xs: Chunks, memory: Tensor) -> Chunks:
    """Additive attention: a network of one hidden layer scores each pair of positions (equation 4)."""
    batch, sequence, hidden = memory.shape
    of_query, of_key = (net.parameter(name, hidden, hidden) for name in ("query", "key"))
    score = net.parameter("score", hidden, 1)
    keys = net.matmul(memory, of_key).view(batch, 1, sequence, hidden)
    contexts = []
    for x in xs:
        steps = x.shape[1]
        queries = net.matmul(x, of_query).view(batch, steps, 1, hidden)
        scores = net.matmul(net.tanh(net.add(queries, keys)), score).view(batch, steps, sequence)
        contexts.append(net.matmul(net.softmax(scores), memory))
    return contexts


def wavernn(net: NetworkBuilder, *, batch: int, samples: int, hidden: int) -> None:
    """WaveRNN with two softmax layers, teacher forcing (Kalchbrenner et al. 2018, equation 2).

    A gated recurrent cell for each of the audio's `samples`, whose state is split into the half that predicts
    the coarse eight bits and the half that predicts the fine eight bits.
    """
    with net.scope("cell"):
        recurrent = net.parameter("recurrent", hidden, 3 * hidden)
        bias = net.parameter("bias", 3 * hidden)
        # Both halves see the last sample, the fine one also the coarse bits of this sample.
        coarse_input = net.parameter("coarse_input", 2, 3 * hidden // 2)
        fine_input = net.parameter("fine_input", 3, 3 * hidden // 2)
    heads = {half: _head_parameters(net, half, hidden // 2) for half in ("coarse", "fine")}
    state = net.input("state", batch, hidden)
    for step in range(samples):
        with net.scope(f"{step}.cell"):
            coarse = net.matmul(net.input("last", batch, 2), coarse_input)
            fine = net.matmul(net.input("last_and_coarse", batch, 3), fine_input)
            gates = net.add(net.matmul(state, recurrent), bias)
            flops = _GATED_UNIT_FLOPS * state.elements
            state = net.operator("gated_unit", [gates, coarse, fine, state], [state.shape], flops=flops)[0]
            halves = net.split(state, 2 * [hidden // 2], axis=1)
        for (half, (first, first_bias, last, last_bias)), x in zip(heads.items(), halves, strict=True):
            with net.scope(f"{step}.{half}"):
                y = net.relu(net.add(net.matmul(x, first), first_bias))
                net.softmax(net.add(net.matmul(y, last), last_bias))


def _head_parameters(net: NetworkBuilder, half: str, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    with net.scope(half):
        return (
            net.parameter("weight", width, width),
            net.parameter("bias", width),
            net.parameter("logits", width, _LEVELS),
            net.parameter("logits_bias", _LEVELS),
        )


RECURRENT = (
    Architecture(
        "gnmt",
        "GNMT, 8 encoder and 8 decoder layers of 1024 with attention, unrolled into chunks of the sequence",
        partial(gnmt, layers=8, hidden=1024),
        {"batch": 1, "sequence": 32, "chunks": 4},
        "Wu et al., Google's neural machine translation system, arXiv:1609.08144, 2016",
    ),
    Architecture(
        "wavernn",
        "WaveRNN, 896 hidden units, unrolled over audio samples",
        partial(wavernn, hidden=896),
        {"batch": 1, "samples": 16},
        "Kalchbrenner et al., Efficient neural audio synthesis, ICML 2018",
    ),
)


# Recommendation: DLRM.


#: Distinct values of the 26 categorical features in the Criteo Kaggle data.
_CRITEO = (
    *(1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194),
    *(27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572),
)
_NUMBERS = 13  # features that are numbers
_WIDTH = 16  # of an embedding


def dlrm(net: NetworkBuilder, *, batch: int) -> None:
    """Deep learning recommendation model on the Criteo Kaggle data (Naumov et al. 2019, Section 5.1).

    All pairs of the embeddings and the output of the bottom network interact by dot products.
    """
    x = net.input("numbers", batch, _NUMBERS)
    x = _perceptron(net, "bottom", x, (512, 256, 64, _WIDTH))
    vectors = [x]
    for feature, values in enumerate(_CRITEO):
        with net.scope(f"feature{feature}"):
            index = net.input("index", batch, element_bytes=INDEX_BYTES)
            vectors.append(net.embedding(index, net.parameter("table", values, _WIDTH)))
    with net.scope("interaction"):
        count = len(vectors)
        joint = net.concat(*(vector.view(batch, 1, _WIDTH) for vector in vectors), axis=1)
        pairs = net.matmul(joint, joint.view(batch, _WIDTH, count))
        x = net.concat(x, net.slice(pairs, batch, count * (count - 1) // 2), axis=1)
    x = _perceptron(net, "top", x, (512, 256))
    with net.scope("top.2"):
        net.sigmoid(net.linear(x, 1))


def _perceptron(net: NetworkBuilder, name: str, x: Tensor, features: Sequence[int]) -> Tensor:
    for layer, width in enumerate(features):
        with net.scope(f"{name}.{layer}"):
            x = net.relu(net.linear(x, width))
    return x


RECOMMENDATION = (
    Architecture(
        "dlrm",
        "DLRM on the Criteo Kaggle data, 26 embeddings of 16",
        dlrm,
        {"batch": 1},
        "Naumov et al., Deep learning recommendation model for personalization, arXiv:1906.00091, 2019",
    ),
)
