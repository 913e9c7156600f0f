"""Operators of the decoder of a configuration, and the mixers (attention, recurrences) of its layers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from instances.architectures.architecture import Cache, Dim, last_token, tokens
from instances.architectures.builder import NetworkBuilder, Tensor
from instances.errors import InputError
from instances.readers.huggingface.layers import CHUNKED, FULL, INDEXED, LINEAR, SLIDING, mix, scaled
from instances.readers.huggingface.record import (
    Attention,
    Decoder,
    Experts,
    FeedForward,
    Fields,
    Indexer,
    LatentAttention,
    Layer,
    Linear,
    Recurrence,
)

# Attention, state spaces and the like of a layer, read from a configuration.


_WINDOWED = (SLIDING, CHUNKED)


def mixers_of(
    fields: Fields, hidden: int, kind: str, last: bool
) -> tuple[Attention | LatentAttention | Recurrence, ...]:
    """The mixers of the tokens of a layer of this kind; `last` says whether it is the last layer."""
    mixer = fields.word("mixer")
    if fields.word("both"):
        return _RECURRENCES[mixer](fields, hidden), _attention(fields, hidden, kind, last)
    if mixer and (kind == LINEAR or not fields.word("kinds")):
        return (_RECURRENCES[mixer](fields, hidden),)
    if fields.word("latent"):
        return (_latent(fields, hidden, kind == INDEXED),)
    return (_attention(fields, hidden, kind, last),)


def _attention(fields: Fields, hidden: int, kind: str, last: bool) -> Attention:
    """Attention of a layer of this kind, with its window and norms."""
    heads = fields.whole("num_attention_heads")
    width = _head_width(fields, hidden, heads)
    key_heads = _key_heads(fields, heads)
    full = kind == FULL and fields.word("full_layers")
    if full:
        width, key_heads = fields.whole_or("full_head_dim", 512), fields.whole_or("full_key_heads", key_heads)
    if kind in _WINDOWED:
        key_heads *= fields.word("window_key_heads") or 1
    if heads % key_heads:
        fields.value("num_key_value_heads").fail(
            f"{key_heads} heads of keys do not divide {heads} heads of queries; give a divisor."
        )
    window = None
    if kind in _WINDOWED:
        name = fields.word("window") or "sliding_window"
        window = fields.whole(name)
        if fields.word("window_before") and fields.has(fields.words["window_before"]):
            window = fields.whole(fields.words["window_before"]) + 1
    scale = 2 if fields.word("norm") == "layer" else 1
    scope, _, condition = str(fields.word("query_norm") or "").partition(" if ")
    norms = {"head": (width, width), "full": (heads * width, key_heads * width)}.get(scope)
    norms = norms or ((heads * width, key_heads * width) if scope == "heads" else (0, 0))
    if condition and not fields.truth(condition):
        norms = (0, 0)
    if scope == "heads":
        scale = 1
    sinks = fields.word("sinks")
    vectors = heads if sinks is True or (sinks == "window" and window) else 0
    vectors += hidden * (fields.word("vectors_hidden") or 0) + width * (fields.word("vectors_width") or 0)
    return Attention(
        heads=heads,
        key_heads=key_heads,
        width=width,
        value_width=fields.whole(fields.words["value_width"]) if "value_width" in fields.words else width,
        window=window,
        chunked=kind == CHUNKED,
        bias=fields.says("bias"),
        output_bias=fields.says("output_bias") or bool(last and fields.word("last_output_bias")),
        norms=(norms[0] * scale, norms[1] * scale),
        gate=_gate(fields, heads, width),
        gate_bias=fields.word("gate") == "query" and fields.says("bias"),
        vectors=vectors,
        passes=fields.word("passes") or 1,
        separate_values=not (full and fields.truth("attention_k_eq_v")),
    )


def _gate(fields: Fields, heads: int, width: int) -> int:
    """Width of the gate on the outputs of attention, 0 without one."""
    scope, _, condition = str(fields.word("gate") or "").partition(" if ")
    if not scope or (condition and not fields.truth(condition)):
        return 0
    return heads if scope == "head" else heads * width


def _head_width(fields: Fields, hidden: int, heads: int) -> int:
    """Width of a head: as stated, else the hidden width over the number of heads."""
    name = fields.words.get("head_width", "head_dim")
    if name and fields.has(name):
        width = fields.whole(name)
        if fields.word("square") and heads * width != hidden:
            fields.value(name).fail(f"{heads} heads of {width} do not make the width {hidden}; give {hidden // heads}.")
        return width
    if hidden < heads or (hidden % heads and fields.words.get("even_heads", not name)):
        fields.value("num_attention_heads").fail(
            f"{heads} heads do not divide the hidden width {hidden}; give a divisor."
        )
    return hidden // heads


def _key_heads(fields: Fields, heads: int) -> int:
    """Number of heads of keys and values, by the rule of the model type."""
    rule = fields.words.get("key_heads", "num_key_value_heads")
    if rule == "multi_query":
        return 1 if fields.truth("multi_query") else heads
    if rule == "falcon":
        if fields.truth("new_decoder_architecture"):
            return fields.whole_or("num_kv_heads", heads)
        return 1 if fields.truth("multi_query") else heads
    return fields.whole_or(rule, heads) if rule else heads


def _latent(fields: Fields, hidden: int, indexed: bool) -> LatentAttention:
    """Latent attention, with an indexer if the layer has one of its own."""
    indexer = None
    if indexed:
        sizes = (fields.whole(f"index_{name}") for name in ("n_heads", "head_dim", "topk"))
        indexer = Indexer(*sizes)
    heads = fields.whole("num_attention_heads")
    return LatentAttention(
        heads=heads,
        rank=fields.whole("kv_lora_rank"),
        rotary=fields.whole("qk_rope_head_dim"),
        plain=fields.whole("qk_nope_head_dim"),
        value_width=fields.whole_or("v_head_dim", max(1, hidden // heads)),
        query_rank=fields.whole("q_lora_rank") if fields.has("q_lora_rank") else None,
        bias=fields.says("bias"),
        indexer=indexer,
    )


def _mamba(fields: Fields, hidden: int) -> Recurrence:
    """Sizes of a selective state space (Gu and Dao, 2023)."""
    inner, state = fields.whole_or("intermediate_size", fields.whole("expand") * hidden), fields.whole("state_size")
    rank = _step_rank(fields, "time_step_rank", hidden)
    bias = fields.truth("use_bias")
    return _selective(hidden, inner, state, rank, fields.whole("conv_kernel"), bias, fields.truth("use_conv_bias"), 0)


def _jamba(fields: Fields, hidden: int) -> Recurrence:
    """Sizes of a selective state space with norms of its step sizes and of the projections of its state."""
    inner, state = fields.whole("mamba_expand") * hidden, fields.whole("mamba_d_state")
    rank = _step_rank(fields, "mamba_dt_rank", hidden)
    bias, conv_bias = fields.truth("mamba_proj_bias"), fields.truth("mamba_conv_bias")
    return _selective(hidden, inner, state, rank, fields.whole("mamba_d_conv"), bias, conv_bias, rank + 2 * state)


def _step_rank(fields: Fields, name: str, hidden: int) -> int:
    """Rank of the matrices that yield the step sizes: as stated, else a sixteenth of the width."""
    return math.ceil(hidden / 16) if fields.value(name).data in (None, "auto") else fields.whole(name)


def _selective(
    hidden: int, inner: int, state: int, rank: int, kernel: int, bias: bool, conv_bias: bool, norms: int
) -> Recurrence:
    """A selective state space of these sizes; `norms` are parameters of its norms."""
    return Recurrence(
        kind="mamba",
        before=(Linear(hidden, inner, bias), Linear(hidden, inner, bias)),
        channels=inner,
        kernel=kernel,
        conv_bias=conv_bias,
        inner=(Linear(inner, rank + 2 * state), Linear(rank, inner, True)),
        after=Linear(inner, hidden, bias),
        multiply_adds=3 * inner * state,
        state=inner * (state + kernel),
        vectors=inner * state + inner + norms,
    )


def _mamba2(fields: Fields, hidden: int) -> Recurrence:
    """State space duality (Dao and Gu, 2024)."""
    names = fields.words.get("mamba", {})
    heads, state, groups, kernel = (
        fields.whole(names.get(name, name)) for name in ("num_heads", "state_size", "n_groups", "conv_kernel")
    )
    name = names.get("head_dim", "head_dim")
    if expand := names.get("expand", "expand"):
        inner = fields.whole("mamba_d_ssm") if fields.has("mamba_d_ssm") else fields.whole(expand) * hidden
        width = inner // heads if fields.value(name).data in (None, "auto") else fields.whole(name)
    else:
        width = fields.whole(name)
        inner = heads * width
    if heads * width != inner:
        fields.value(name).fail(f"{heads} heads of {width} do not make the width {inner}; give {inner // heads}.")
    bias = fields.truth(names.get("use_bias", "use_bias"))
    channels = inner + 2 * groups * state
    norm = inner if not fields.word("both") or fields.truth("mamba_rms_norm") else 0
    return Recurrence(
        kind="mamba2",
        before=(Linear(hidden, channels, bias), Linear(hidden, inner + heads, bias)),
        channels=channels,
        kernel=kernel,
        conv_bias=fields.truth(names.get("use_conv_bias", "use_conv_bias")),
        inner=(),
        after=Linear(inner, hidden, fields.truth("projectors_bias") if fields.word("both") else bias),
        multiply_adds=2 * inner * state,
        state=inner * state + channels * kernel,
        vectors=3 * heads + norm,
    )


def _delta(fields: Fields, hidden: int) -> Recurrence:
    """Gated delta rule (Yang et al., 2024)."""
    heads = fields.whole("num_attention_heads")
    keys, values = (fields.whole_or(f"linear_num_{name}_heads", heads) for name in ("key", "value"))
    key_width = fields.whole_or("linear_key_head_dim", max(1, 3 * hidden // (4 * keys)))
    value_width = fields.whole_or("linear_value_head_dim", 2 * key_width)
    inner, channels = values * value_width, 2 * keys * key_width + values * value_width
    kernel = fields.whole("linear_conv_kernel_dim")
    return Recurrence(
        kind="delta_rule",
        before=(Linear(hidden, channels), Linear(hidden, inner), Linear(hidden, 2 * values)),
        channels=channels,
        kernel=kernel,
        conv_bias=False,
        inner=(),
        after=Linear(inner, hidden),
        multiply_adds=3 * inner * key_width,
        state=inner * key_width + channels * kernel,
        vectors=2 * values + value_width,
    )


def _kimi(fields: Fields, hidden: int) -> Recurrence:
    """Delta rule with a decay for each channel (Kimi team, 2025)."""
    heads, width, kernel = (fields.whole(f"linear_{name}") for name in ("num_heads", "head_dim", "conv_kernel_dim"))
    inner = heads * width
    gate = Linear(hidden, inner, between=width)
    return Recurrence(
        kind="delta_rule",
        before=(Linear(hidden, 3 * inner), gate, gate, Linear(hidden, heads)),
        channels=3 * inner,
        kernel=kernel,
        conv_bias=False,
        inner=(),
        after=Linear(inner, hidden),
        multiply_adds=3 * inner * width,
        state=inner * (width + 3 * kernel),
        vectors=inner + heads + width,
    )


def _lightning(fields: Fields, hidden: int) -> Recurrence:
    """Linear attention with a decay for each head (Qin et al., 2024)."""
    heads = fields.whole("num_attention_heads")
    width = _head_width(fields, hidden, heads)
    inner = heads * width
    return Recurrence(
        kind="linear_attention",
        before=(Linear(hidden, 3 * inner), Linear(hidden, inner)),
        channels=0,
        kernel=0,
        conv_bias=False,
        inner=(),
        after=Linear(inner, hidden),
        multiply_adds=2 * inner * width,
        state=inner * width,
        vectors=inner,
    )


def _short(fields: Fields, hidden: int) -> Recurrence:
    """A short convolution between two gates."""
    kernel, bias = fields.whole("conv_L_cache"), fields.truth("conv_bias")
    return Recurrence(
        kind="convolution",
        before=(Linear(hidden, hidden, bias), Linear(hidden, 2 * hidden, bias)),
        channels=hidden,
        kernel=kernel,
        conv_bias=bias,
        inner=(),
        after=Linear(hidden, hidden, bias),
        multiply_adds=0,
        state=hidden * kernel,
    )


_RECURRENCES = {
    "mamba": _mamba,
    "jamba": _jamba,
    "mamba2": _mamba2,
    "delta": _delta,
    "kimi": _kimi,
    "lightning": _lightning,
    "short": _short,
}


# The operators of a decoder's record.


def other_caches(record: Decoder, dims: Mapping[str, Dim]) -> dict[str, dict[str, int]]:
    """Caches of layers that do not grow with the context, or only up to a limit, by name of the layer.

    ``window`` is the largest number of tokens in the cache, ``constant`` its bytes that do not depend on the context.
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
    if record.labels:
        net.linear(x, record.labels, "score", bias=record.head_bias)
    if record.labels is not None:
        return
    with net.scope(head):
        weight = table.view(record.embedding, record.vocabulary) if record.tied else None
        if weight is None:
            weight = net.parameter("weight", record.embedding, record.vocabulary)
        x = net.matmul(x, weight)
        if record.head_bias:
            net.add(x, net.parameter("bias", record.vocabulary))


def _positions(net: NetworkBuilder, rows: int, sequence: int, hidden: int, cache: Cache | None) -> Tensor:
    """The rows of the table of positions for the sequence."""
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
    """Record a layer: a norm before each of its parts, further norms after them."""
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
    """Record the experts of a layer with their router and shared expert."""
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
