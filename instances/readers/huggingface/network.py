"""The operators of a decoder's record."""

from __future__ import annotations

from collections.abc import Mapping

from instances.architectures.attention import last_token, tokens
from instances.architectures.builder import Tensor
from instances.architectures.operators import NetworkBuilder
from instances.architectures.serving import Cache, Dim
from instances.errors import InputError
from instances.readers.huggingface.mixing import mix, scaled
from instances.readers.huggingface.record import Attention, Decoder, Experts, FeedForward, Layer, Recurrence

__all__ = ["other_caches", "record_network"]


def other_caches(record: Decoder, dims: Mapping[str, Dim]) -> dict[str, dict[str, int]]:
    """Layers whose cache does not grow with the context, or not for ever, by their names.

    ``window`` are the tokens that it holds at most, ``constant`` the bytes of it that do not depend on the context.
    """
    width = int(dims["kv_bytes"]) * int(dims["batch"])
    caches = {}
    for number, layer in enumerate(record.layers):
        cache = {}
        for mixer in layer.mixers:
            if isinstance(mixer, Recurrence):
                cache["constant"] = mixer.state * width
            elif isinstance(mixer, Attention) and mixer.window is not None:
                cache["window"] = mixer.window - 1
        if cache:
            caches[f"{record.stack}.{number}"] = cache
    return caches


def record_network(
    net: NetworkBuilder, *, batch: int, sequence: int, record: Decoder, cache: Cache | None = None
) -> None:
    """Record the operators of a decoder.

    Attention is one operator, as in kernels that keep no scores; the experts of a layer are two grouped products, which
    read the weights of as many experts as tokens can keep busy. Layers are called after their modules.
    """
    text = tokens(net, batch, sequence)
    first, *others = record.before
    with net.scope(first):
        table = net.parameter("weight", record.vocabulary, record.embedding)
        x = net.embedding(text, table)
        if record.embedding != record.hidden:
            x = net.linear(x, record.hidden, "project_in", bias=False)
    if record.positions:
        with net.scope(others[0] if others else first):
            x = net.add(x, _positions(net, record.positions, sequence, record.hidden, cache))
    if record.embedding_norm:
        with net.scope(others[-1] if others else first):
            x = _norm(net, x, record.norm)
    for number, layer in enumerate(record.layers):
        with net.scope(f"{record.stack}.{number}"):
            x = _layer(net, x, layer, record.norm, cache)
    *befores, head = record.after
    with net.scope(befores[0] if befores else head):
        x = last_token(net, x, cache)
        if record.final_norm:
            x = _norm(net, x, record.norm)
        if record.embedding != record.hidden:
            x = net.linear(x, record.embedding, "project_out", bias=False)
    with net.scope(head):
        weight = table.view(record.embedding, record.vocabulary) if record.tied else None
        if weight is None:
            weight = net.parameter("weight", record.embedding, record.vocabulary)
        x = net.matmul(x, weight)
        if record.head_bias:
            net.add(x, net.parameter("bias", record.vocabulary))


def _positions(net: NetworkBuilder, rows: int, sequence: int, hidden: int, cache: Cache | None) -> Tensor:
    """The rows of the table of positions that the sequence needs."""
    if max(sequence, 0 if cache is None else cache.context) > rows:
        raise InputError(f"the network knows {rows} positions; give a sequence and a context of at most that.")
    return net.slice(net.parameter("weight", rows, hidden), sequence, hidden)


def _norm(net: NetworkBuilder, x: Tensor, kind: str) -> Tensor:
    if kind == "layer":
        return net.layer_norm(x)
    if kind in ("rms", "plain"):
        return net.rms_norm(x)
    return net.elementwise("norm", x, flops_per_element=4)


def _layer(net: NetworkBuilder, x: Tensor, layer: Layer, norm: str, cache: Cache | None) -> Tensor:
    """A layer: a norm before each of its parts in turn; norms that remain come after them."""
    norms = layer.norms
    after = norms - 1 - (layer.feed is not None)
    if layer.vectors:
        x = scaled(net, x, "vectors", layer.vectors)
    y = _norm(net, x, norm) if norms > 0 and layer.mixers else x
    for part in [mix(net, y, mixer, cache) for mixer in layer.mixers]:
        if after > 0:
            part, after = _norm(net, part, norm), after - 1
        x = net.add(x, part)
    if layer.feed is None:
        return x
    y = _norm(net, x, norm) if norms > 1 or (norms == 1 and not layer.mixers) else x
    part = _feed_forward(net, y, layer.feed)
    while after > 0:
        part, after = _norm(net, part, norm), after - 1
    return net.add(x, part)


def _feed_forward(net: NetworkBuilder, x: Tensor, feed: FeedForward) -> Tensor:
    with net.scope("feed_forward"):
        if feed.experts is not None:
            return _experts(net, x, feed, feed.experts)
        return _dense(net, x, feed.inner, feed)


def _dense(net: NetworkBuilder, x: Tensor, inner: int, feed: FeedForward) -> Tensor:
    y = net.silu(net.linear(x, inner, "gate", bias=feed.bias)) if feed.gated else None
    up = net.linear(x, inner, "up", bias=feed.bias)
    y = net.gelu(up) if y is None else net.multiply(y, up)
    if feed.vectors:
        y = scaled(net, y, "vectors", feed.vectors)
    return net.linear(y, x.shape[-1], "down", bias=feed.bias)


def _experts(net: NetworkBuilder, x: Tensor, feed: FeedForward, experts: Experts) -> Tensor:
    batch, sequence, hidden = x.shape
    wide = (2 if feed.gated else 1) * experts.inner
    rows = batch * sequence * experts.chosen
    with net.scope("router"):
        scores = net.matmul(x, net.parameter("weight", hidden, experts.count))
        if experts.router_vectors:
            scores = scaled(net, scores, "vectors", experts.router_vectors)
        chosen = net.operator("top_k", [scores], [(batch, sequence, experts.chosen)], flops=6 * scores.elements)[0]
    with net.scope("experts"):
        source = net.linear(x, experts.width, "narrow", bias=feed.bias) if experts.width else x
        y = _grouped(net, source, chosen, "up", experts, (source.shape[-1], wide), rows)
        flops = 5 * rows * experts.inner
        y = net.operator("activation", [y], [(rows, experts.inner)], flops=flops)[0]
        y = _grouped(net, y, chosen, "down", experts, (experts.inner, source.shape[-1]), rows)
        total = net.operator("combine", [y, chosen], [source.shape], flops=2 * rows * source.shape[-1])[0]
        if experts.width:
            total = net.linear(total, hidden, "wide", bias=feed.bias)
    if not experts.shared:
        return total
    with net.scope("shared"):
        y = _dense(net, x, experts.shared, feed)
        if experts.shared_gate:
            gate = net.sigmoid(net.matmul(x, net.parameter("weight", hidden, 1)))
            y = net.multiply(y, gate)
        return net.add(total, y)


def _grouped(
    net: NetworkBuilder, x: Tensor, chosen: Tensor, name: str, experts: Experts, matrix: tuple[int, int], rows: int
) -> Tensor:
    """Product of each token with the matrices of its experts; only the matrices of busy experts are read."""
    inputs, outputs = matrix
    with net.scope(name):
        weights = [net.parameter("weight", experts.count, inputs, outputs)]
        if experts.bias:
            weights.append(net.parameter("bias", experts.count, outputs))
        busy = min(experts.count, rows)
        read = sum(weight.bytes for weight in weights) // experts.count * busy
        return net.operator(
            "matmul",
            [x, chosen, *weights],
            [(rows, outputs)],
            multiply_adds=rows * inputs * outputs,
            bytes_moved=x.bytes + chosen.bytes + read + rows * outputs * net.element_bytes,
        )[0]
