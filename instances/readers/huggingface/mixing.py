"""The operators that mix the tokens of a layer: attention, state spaces and the like."""

from __future__ import annotations

from instances.architectures.builder import Tensor
from instances.architectures.operators import NetworkBuilder
from instances.architectures.serving import Cache
from instances.readers.huggingface.record import Attention, Indexer, LatentAttention, Linear, Recurrence

__all__ = ["held_tokens", "mix", "scaled"]

_SOFTMAX_FLOPS, _ROTARY_FLOPS = 5, 3


def held_tokens(mixer: Attention | LatentAttention, context: int) -> int:
    """Tokens of a sequence that the cache of a layer holds between two steps."""
    window = mixer.window if isinstance(mixer, Attention) else None
    return context if window is None else min(context, window - 1)


def mix(net: NetworkBuilder, x: Tensor, own: Attention | LatentAttention | Recurrence, cache: Cache | None) -> Tensor:
    """Record a mixer of tokens; what a cache keeps for it is read and written."""
    if isinstance(own, Attention):
        return _attention(net, x, own, cache)
    if isinstance(own, LatentAttention):
        return _latent(net, x, own, cache)
    return _recurrence(net, x, own, cache)


def scaled(net: NetworkBuilder, x: Tensor, name: str, count: int) -> Tensor:
    """Parameters that are no matrix: scales of the vectors of `x`, at the cost of a product an element."""
    return net.operator("scale", [x, net.parameter(name, count)], [x.shape], flops=x.elements)[0]


def _attention(net: NetworkBuilder, x: Tensor, own: Attention, cache: Cache | None) -> Tensor:
    batch, sequence, hidden = x.shape
    with net.scope("attention"):
        query = net.linear(x, own.heads * own.width, "query", bias=own.bias)
        key = net.linear(x, own.key_heads * own.width, "key", bias=own.bias)
        value = net.linear(x, own.key_heads * own.value_width, "value", bias=own.bias) if own.own_values else key
        for count, name in zip(own.norms, ("query_norm", "key_norm"), strict=True):
            if count:
                one = scaled(net, query if name == "query_norm" else key, name, count)
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
        scores = own.passes * batch * own.heads * sequence * seen
        context = _attended(net, [query, key, value, *more], kept, scores, own.heads, own.width, own.value_width)
        if own.gate:
            gate = net.sigmoid(net.linear(x, own.gate, "gate", bias=own.gate_bias))
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
            source = scaled(net, down, "query_norm", own.query_rank)
        query = net.linear(source, own.heads * width, "query", bias=False)
        latent = net.linear(x, own.rank + own.rotary, "latent", bias=own.bias)
        latent = scaled(net, latent, "latent_norm", own.rank)
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
        if own.indexer is not None:
            more.append(_chosen(net, x, source, own.indexer, cache))
        scores = batch * own.heads * sequence * seen
        context = _attended(net, [query, expanded, latent, *more], [], scores, own.heads, width, own.value_width)
        return net.linear(context, hidden, "output", bias=own.bias)


def _chosen(net: NetworkBuilder, x: Tensor, source: Tensor, own: Indexer, cache: Cache | None) -> Tensor:
    """The tokens that each token attends to, the best by the indexer's scores."""
    batch, sequence, _ = x.shape
    with net.scope("indexer"):
        query = net.linear(source, own.heads * own.width, "query", bias=False)
        key = scaled(net, net.linear(x, own.width, "key", bias=False), "key_norm", 2 * own.width)
        weights = net.linear(x, own.heads, "weights", bias=False)
        seen = sequence if cache is None else cache.context
        inputs = [query, key, weights]
        if cache is not None:
            inputs.append(net.state("keys", batch, seen, own.width, element_bytes=cache.element_bytes))
        scores = batch * sequence * seen * own.heads
        shape = (batch, sequence, min(own.chosen, seen))
        return net.operator("top_k", inputs, [shape], multiply_adds=scores * (own.width + 1), flops=6 * scores)[0]


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
    if own.between:
        x = net.linear(x, own.between, f"{name}_narrow", bias=False)
    return net.linear(x, own.outputs, name, bias=own.bias)
