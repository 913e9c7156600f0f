"""The operators of a decoder's record."""

from __future__ import annotations

from collections.abc import Mapping

from instances.architectures.attention import last_token, tokens
from instances.architectures.builder import Tensor
from instances.architectures.operators import NetworkBuilder
from instances.architectures.serving import Cache, Dim
from instances.errors import InputError
from instances.readers.huggingface.record import (
    Attention,
    Decoder,
    Experts,
    FeedForward,
    LatentAttention,
    Layer,
    Linear,
    Recurrence,
)

__all__ = ["held_tokens", "other_caches", "record_network"]

_SOFTMAX_FLOPS, _ROTARY_FLOPS = 5, 3


def held_tokens(mixer: Attention | LatentAttention, context: int) -> int:
    """Tokens of a sequence that the cache of a layer holds between two steps."""
    window = mixer.window if isinstance(mixer, Attention) else None
    return context if window is None else min(context, window - 1)


def other_caches(record: Decoder, dims: Mapping[str, Dim]) -> dict[str, dict[str, int]]:
    """Layers whose cache does not grow with the context, or not for ever, by their names.

    ``window`` are the tokens that it holds at most, ``constant`` the bytes of it that do not depend on the context.
    """
    width = int(dims["kv_bytes"]) * int(dims["batch"])
    found = {}
    for number, layer in enumerate(record.layers):
        own = {}
        for mixer in layer.mixers:
            if isinstance(mixer, Recurrence):
                own["constant"] = mixer.state * width
            elif isinstance(mixer, Attention) and mixer.window is not None:
                own["window"] = mixer.window - 1
        if own:
            found[f"{record.stack}.{number}"] = own
    return found


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
    """Norms stand before the parts in turn, and those that remain after them."""
    parts: list[Tensor] = []
    norms = layer.norms
    after = norms - 1 - (layer.feed is not None)
    if layer.vectors:
        x = _scaled(net, x, "vectors", layer.vectors)
    y = _norm(net, x, norm) if norms > 0 else x
    for mixer in layer.mixers:
        if isinstance(mixer, Attention):
            parts.append(_attention(net, y, mixer, cache))
        elif isinstance(mixer, LatentAttention):
            parts.append(_latent(net, y, mixer, cache))
        else:
            parts.append(_recurrence(net, y, mixer, cache))
    for part in parts:
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


def _scaled(net: NetworkBuilder, x: Tensor, name: str, count: int) -> Tensor:
    """Parameters that are no matrix: scales of the vectors of `x`, at the cost of a product an element."""
    return net.operator("scale", [x, net.parameter(name, count)], [x.shape], flops=x.elements)[0]


def _attention(net: NetworkBuilder, x: Tensor, own: Attention, cache: Cache | None) -> Tensor:
    batch, sequence, hidden = x.shape
    with net.scope("attention"):
        query = net.linear(x, own.heads * own.width, "query", bias=own.bias)
        key = net.linear(x, own.key_heads * own.width, "key", bias=own.bias)
        value = net.linear(x, own.key_heads * own.value_width, "value", bias=own.bias)
        for count, name in zip(own.norms, ("query_norm", "key_norm"), strict=True):
            if count:
                one = _scaled(net, query if name == "query_norm" else key, name, count)
                query, key = (one, key) if name == "query_norm" else (query, one)
        query = net.elementwise("rotary", query, flops_per_element=_ROTARY_FLOPS)
        key = net.elementwise("rotary", key, flops_per_element=_ROTARY_FLOPS)
        held = 0 if cache is None else held_tokens(own, cache.context)
        kept = [
            net.state(name, batch, held, own.key_heads * width, element_bytes=cache.element_bytes)
            for name, width in (("keys", own.width), ("values", own.value_width))
            if cache is not None and held
        ]
        seen = sequence if cache is None else cache.context
        if own.window is not None and sequence < seen:
            seen = min(seen, own.window)
        more = [net.parameter("vectors", own.vectors)] if own.vectors else []
        scores = batch * own.heads * sequence * seen
        context = _attended(net, [query, key, value, *more], kept, scores, own.heads, own.width, own.value_width)
        if own.gate:
            gate = net.sigmoid(net.linear(x, context.shape[-1], "gate", bias=own.gate_bias))
            flops = context.elements
            context = net.operator("multiply", [context, gate], [context.shape], flops=flops)[0]
        return net.linear(context, hidden, "output", bias=own.output_bias)


def _attended(
    net: NetworkBuilder,
    inputs: list[Tensor],
    kept: list[Tensor],
    scores: int,
    heads: int,
    width: int,
    value_width: int,
) -> Tensor:
    """Both products of attention and the softmax between them; what is kept is read, and the newest tokens written."""
    batch, sequence, _ = inputs[0].shape
    shape = (batch, sequence, heads * value_width)
    written = sum(inputs[i].elements * state.element_bytes for i, state in enumerate(kept, start=1))
    moved = sum(tensor.bytes for tensor in (*inputs, *kept)) + batch * sequence * shape[-1] * net.element_bytes
    return net.operator(
        "attention",
        [*inputs, *kept],
        [shape],
        multiply_adds=scores * (width + value_width),
        flops=_SOFTMAX_FLOPS * scores,
        bytes_moved=moved + written,
    )[0]


def _latent(net: NetworkBuilder, x: Tensor, own: LatentAttention, cache: Cache | None) -> Tensor:
    batch, sequence, hidden = x.shape
    width = own.plain + own.rotary
    with net.scope("attention"):
        source = x
        if own.query_rank is not None:
            down = net.linear(x, own.query_rank, "query_down", bias=own.bias)
            source = _scaled(net, down, "query_norm", own.query_rank)
        query = net.linear(source, own.heads * width, "query", bias=False)
        latent = net.linear(x, own.rank + own.rotary, "latent", bias=own.bias)
        latent = _scaled(net, latent, "latent_norm", own.rank)
        query = net.elementwise("rotary", query, flops_per_element=_ROTARY_FLOPS)
        seen = sequence if cache is None else cache.context
        made = own.heads * (own.plain + own.value_width)
        with net.scope("keys_values"):
            inputs = [latent, net.parameter("weight", own.rank, made)]
            if cache is not None:
                inputs.append(net.state("latents", batch, seen, own.token_elements, element_bytes=cache.element_bytes))
            expanded = net.operator(
                "matmul", inputs, [(batch, seen, made)], multiply_adds=batch * seen * own.rank * made
            )[0]
        more = [net.parameter("vectors", own.vectors)] if own.vectors else []
        scores = batch * own.heads * sequence * seen
        context = _attended(net, [query, expanded, latent, *more], [], scores, own.heads, width, own.value_width)
        return net.linear(context, hidden, "output", bias=own.bias)


def _recurrence(net: NetworkBuilder, x: Tensor, own: Recurrence, cache: Cache | None) -> Tensor:
    batch, sequence, _ = x.shape
    with net.scope(own.kind):
        made = [_linear(net, x, linear, f"before_{i}") for i, linear in enumerate(own.before)]
        mixed = made[0]
        if own.channels:
            with net.scope("convolution"):
                inputs = [mixed, net.parameter("weight", own.channels, own.kernel)]
                if own.conv_bias:
                    inputs.append(net.parameter("bias", own.channels))
                shape = (batch, sequence, own.channels)
                elements = batch * sequence * own.channels
                mixed = net.operator("conv", inputs, [shape], multiply_adds=elements * own.kernel)[0]
        inner: list[Tensor] = []
        source = mixed
        for i, linear in enumerate(own.inner):
            if source.shape[-1] != linear.inputs:
                source = net.slice(source, batch, sequence, linear.inputs)
            source = _linear(net, source, linear, f"inner_{i}")
            inner.append(source)
        kept = [net.parameter("vectors", own.vectors)] if own.vectors else []
        if cache is not None:
            kept.append(net.state("state", batch, own.state, element_bytes=cache.element_bytes))
        shape = (batch, sequence, own.after.inputs)
        work = batch * sequence * own.multiply_adds
        mixed = net.operator("scan", [mixed, *made[1:], *inner, *kept], [shape], multiply_adds=work)[0]
        return _linear(net, mixed, own.after, "output")


def _linear(net: NetworkBuilder, x: Tensor, own: Linear, name: str) -> Tensor:
    return net.linear(x, own.outputs, name, bias=own.bias)


def _feed_forward(net: NetworkBuilder, x: Tensor, own: FeedForward) -> Tensor:
    with net.scope("feed_forward"):
        if own.experts is not None:
            return _experts(net, x, own, own.experts)
        return _dense(net, x, own.inner, own)


def _dense(net: NetworkBuilder, x: Tensor, inner: int, own: FeedForward) -> Tensor:
    y = net.silu(net.linear(x, inner, "gate", bias=own.bias)) if own.gated else None
    up = net.linear(x, inner, "up", bias=own.bias)
    y = net.gelu(up) if y is None else net.multiply(y, up)
    if own.vectors:
        y = _scaled(net, y, "vectors", own.vectors)
    return net.linear(y, x.shape[-1], "down", bias=own.bias)


def _experts(net: NetworkBuilder, x: Tensor, feed: FeedForward, own: Experts) -> Tensor:
    batch, sequence, hidden = x.shape
    wide = (2 if feed.gated else 1) * own.inner
    rows = batch * sequence * own.chosen
    with net.scope("router"):
        scores = net.matmul(x, net.parameter("weight", hidden, own.count))
        if own.router_vectors:
            scores = _scaled(net, scores, "vectors", own.router_vectors)
        chosen = net.operator("top_k", [scores], [(batch, sequence, own.chosen)], flops=6 * scores.elements)[0]
    with net.scope("experts"):
        y = _grouped(net, x, chosen, "up", own, (hidden, wide), rows)
        flops = 5 * rows * own.inner
        y = net.operator("activation", [y], [(rows, own.inner)], flops=flops)[0]
        y = _grouped(net, y, chosen, "down", own, (own.inner, hidden), rows)
        total = net.operator("combine", [y, chosen], [x.shape], flops=2 * rows * hidden)[0]
    if not own.shared:
        return total
    with net.scope("shared"):
        y = _dense(net, x, own.shared, feed)
        if own.shared_gate:
            gate = net.sigmoid(net.matmul(x, net.parameter("weight", hidden, 1)))
            y = net.multiply(y, gate)
        return net.add(total, y)


def _grouped(
    net: NetworkBuilder, x: Tensor, chosen: Tensor, name: str, own: Experts, matrix: tuple[int, int], rows: int
) -> Tensor:
    """Product of each token with the matrices of its experts; only the matrices of busy experts are read."""
    inputs, outputs = matrix
    with net.scope(name):
        weights = [net.parameter("weight", own.count, inputs, outputs)]
        if own.bias:
            weights.append(net.parameter("bias", own.count, outputs))
        busy = min(own.count, rows)
        read = sum(weight.bytes for weight in weights) // own.count * busy
        return net.operator(
            "matmul",
            [x, chosen, *weights],
            [(rows, outputs)],
            multiply_adds=rows * inputs * outputs,
            bytes_moved=x.bytes + chosen.bytes + read + rows * outputs * net.element_bytes,
        )[0]
