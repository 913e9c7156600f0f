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


def mix(net: NetworkBuilder, x: Tensor, mixer: Attention | LatentAttention | Recurrence, cache: Cache | None) -> Tensor:
    """Record a mixer of tokens; what a cache keeps for it is read and written."""
    if isinstance(mixer, Attention):
        return _attention(net, x, mixer, cache)
    if isinstance(mixer, LatentAttention):
        return _latent(net, x, mixer, cache)
    return _recurrence(net, x, mixer, cache)


def scaled(net: NetworkBuilder, x: Tensor, name: str, count: int) -> Tensor:
    """Parameters that are no matrix: scales of the vectors of `x`, at the cost of a product an element."""
    return net.operator("scale", [x, net.parameter(name, count)], [x.shape], flops=x.elements)[0]


def _attention(net: NetworkBuilder, x: Tensor, attention: Attention, cache: Cache | None) -> Tensor:
    batch, sequence, hidden = x.shape
    with net.scope("attention"):
        query = net.linear(x, attention.heads * attention.width, "query", bias=attention.bias)
        key = net.linear(x, attention.key_heads * attention.width, "key", bias=attention.bias)
        value = (
            net.linear(x, attention.key_heads * attention.value_width, "value", bias=attention.bias)
            if attention.own_values
            else key
        )
        for count, name in zip(attention.norms, ("query_norm", "key_norm"), strict=True):
            if count:
                normed = scaled(net, query if name == "query_norm" else key, name, count)
                query, key = (normed, key) if name == "query_norm" else (query, normed)
        query = net.elementwise("rotary", query, flops_per_element=_ROTARY_FLOPS)
        key = net.elementwise("rotary", key, flops_per_element=_ROTARY_FLOPS)
        cached_tokens = 0 if cache is None else held_tokens(attention, cache.context)
        kept = [
            net.state(name, batch, cached_tokens, attention.key_heads * width, element_bytes=cache.element_bytes)
            for name, width in (("keys", attention.width), ("values", attention.value_width))
            if cache is not None and cached_tokens
        ]
        seen = sequence if cache is None else cache.context
        if attention.window is not None and sequence < seen:
            seen = min(seen, attention.window)
        more = [net.parameter("vectors", attention.vectors)] if attention.vectors else []
        scores = attention.passes * batch * attention.heads * sequence * seen
        context = _attended(
            net, [query, key, value, *more], kept, scores, attention.heads, attention.width, attention.value_width
        )
        if attention.gate:
            gate = net.sigmoid(net.linear(x, attention.gate, "gate", bias=attention.gate_bias))
            flops = context.elements
            context = net.operator("multiply", [context, gate], [context.shape], flops=flops)[0]
        return net.linear(context, hidden, "output", bias=attention.output_bias)


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


def _latent(net: NetworkBuilder, x: Tensor, attention: LatentAttention, cache: Cache | None) -> Tensor:
    batch, sequence, hidden = x.shape
    width = attention.plain + attention.rotary
    with net.scope("attention"):
        source = x
        if attention.query_rank is not None:
            down = net.linear(x, attention.query_rank, "query_down", bias=attention.bias)
            source = scaled(net, down, "query_norm", attention.query_rank)
        query = net.linear(source, attention.heads * width, "query", bias=False)
        latent = net.linear(x, attention.rank + attention.rotary, "latent", bias=attention.bias)
        latent = scaled(net, latent, "latent_norm", attention.rank)
        query = net.elementwise("rotary", query, flops_per_element=_ROTARY_FLOPS)
        seen = sequence if cache is None else cache.context
        made = attention.heads * (attention.plain + attention.value_width)
        with net.scope("keys_values"):
            inputs = [latent, net.parameter("weight", attention.rank, made)]
            if cache is not None:
                inputs.append(
                    net.state("latents", batch, seen, attention.token_elements, element_bytes=cache.element_bytes)
                )
            expanded = net.operator(
                "matmul", inputs, [(batch, seen, made)], multiply_adds=batch * seen * attention.rank * made
            )[0]
        more = [net.parameter("vectors", attention.vectors)] if attention.vectors else []
        if attention.indexer is not None:
            more.append(_chosen(net, x, source, attention.indexer, cache))
        scores = batch * attention.heads * sequence * seen
        context = _attended(
            net, [query, expanded, latent, *more], [], scores, attention.heads, width, attention.value_width
        )
        return net.linear(context, hidden, "output", bias=attention.bias)


def _chosen(net: NetworkBuilder, x: Tensor, source: Tensor, indexer: Indexer, cache: Cache | None) -> Tensor:
    """The tokens that each token attends to, the best by the indexer's scores."""
    batch, sequence, _ = x.shape
    with net.scope("indexer"):
        query = net.linear(source, indexer.heads * indexer.width, "query", bias=False)
        key = scaled(net, net.linear(x, indexer.width, "key", bias=False), "key_norm", 2 * indexer.width)
        weights = net.linear(x, indexer.heads, "weights", bias=False)
        seen = sequence if cache is None else cache.context
        inputs = [query, key, weights]
        if cache is not None:
            inputs.append(net.state("keys", batch, seen, indexer.width, element_bytes=cache.element_bytes))
        scores = batch * sequence * seen * indexer.heads
        shape = (batch, sequence, min(indexer.chosen, seen))
        return net.operator("top_k", inputs, [shape], multiply_adds=scores * (indexer.width + 1), flops=6 * scores)[0]


def _recurrence(net: NetworkBuilder, x: Tensor, recurrence: Recurrence, cache: Cache | None) -> Tensor:
    batch, sequence, _ = x.shape
    with net.scope(recurrence.kind):
        made = [_linear(net, x, linear, f"before_{i}") for i, linear in enumerate(recurrence.before)]
        mixed = made[0]
        if recurrence.channels:
            with net.scope("convolution"):
                inputs = [mixed, net.parameter("weight", recurrence.channels, recurrence.kernel)]
                if recurrence.conv_bias:
                    inputs.append(net.parameter("bias", recurrence.channels))
                shape = (batch, sequence, recurrence.channels)
                elements = batch * sequence * recurrence.channels
                mixed = net.operator("conv", inputs, [shape], multiply_adds=elements * recurrence.kernel)[0]
        inner: list[Tensor] = []
        source = mixed
        for i, linear in enumerate(recurrence.inner):
            if source.shape[-1] != linear.inputs:
                source = net.slice(source, batch, sequence, linear.inputs)
            source = _linear(net, source, linear, f"inner_{i}")
            inner.append(source)
        kept = [net.parameter("vectors", recurrence.vectors)] if recurrence.vectors else []
        if cache is not None:
            kept.append(net.state("state", batch, recurrence.state, element_bytes=cache.element_bytes))
        shape = (batch, sequence, recurrence.after.inputs)
        work = batch * sequence * recurrence.multiply_adds
        mixed = net.operator("scan", [mixed, *made[1:], *inner, *kept], [shape], multiply_adds=work)[0]
        return _linear(net, mixed, recurrence.after, "output")


def _linear(net: NetworkBuilder, x: Tensor, linear: Linear, name: str) -> Tensor:
    if linear.between:
        x = net.linear(x, linear.between, f"{name}_narrow", bias=False)
    return net.linear(x, linear.outputs, name, bias=linear.bias)
