"""Layers of decoders: kinds of layers, and what mixes positions in them."""

from __future__ import annotations

from collections.abc import Callable

from instances.architectures.architecture import Cache
from instances.architectures.builder import NetworkBuilder, Tensor
from instances.json_files import Value
from instances.readers.huggingface.record import (
    MOST_LAYERS,
    Attention,
    Fields,
    Indexer,
    LatentAttention,
    Linear,
    Recurrence,
)

# Which layers of a configuration attend to all tokens, to a window, or to none; and which have experts.


FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
#: What mixes tokens without attention: a state space, linear attention or a convolution.
LINEAR = "linear_attention"
#: Attention to tokens that an indexer of the layer chooses.
INDEXED = "indexed_attention"
#: Layers of a feed-forward network alone.
EXPERTS, DENSE = "moe", "mlp"

_WORDS = {
    **dict.fromkeys(("full_attention", "attention", "global"), FULL),
    **dict.fromkeys(("sliding_attention", "local"), SLIDING),
    "chunked_attention": CHUNKED,
    **dict.fromkeys(("linear_attention", "mamba", "conv", "recurrent"), LINEAR),
}


def kinds_of(fields: Fields) -> list[str]:
    """The kind of each layer: from the field `layer_types`, else by the rule of the model type.

    Raises
    ------
    InputError
        If there are not as many kinds as layers, or one is unknown.
    """
    rule, _, word = str(fields.word("kinds") or "full").partition(" ")
    if rule == "blocks":
        return _blocks(fields)
    layers = fields.whole("num_hidden_layers", largest=MOST_LAYERS)
    stated = fields.value("layer_types")
    if stated.data is not None and "layer_types" in fields.defaults and rule != "indexed":
        items = stated.items()
        if len(items) != layers:
            stated.fail(f"there are {len(items)} kinds of layers for {layers} layers; give one a layer.")
        words = {name: kind for name, kind in _WORDS.items() if kind != LINEAR or fields.word("mixer")}
        kinds = [_kind_of(item, words) for item in items]
    else:
        kinds = _RULES[rule](fields, layers, word)
    return [*kinds[:-1], FULL] if fields.word("last_full") else kinds


def _kind_of(item: Value, words: dict[str, str]) -> str:
    return words[item.one_of(words)]


def sparse_layers(fields: Fields, layers: int) -> list[bool]:
    """Whether each layer has experts."""
    stated = fields.value("mlp_layer_types")
    if stated.data is not None and "mlp_layer_types" in fields.defaults:
        kinds = stated.texts()
        if len(kinds) != layers:
            stated.fail(f"there are {len(kinds)} kinds of layers for {layers} layers; give one a layer.")
        return [kind != "dense" for kind in kinds]
    rule, _, word = str(fields.word("sparse") or "all").partition(" ")
    return _SPARSE[rule](fields, layers, word)


def _number(fields: Fields, word: str, least: int = 0) -> int:
    """The number that a rule states as `word`: a number, the name of a field, or ``FIELD|DEFAULT``."""
    if word.isdigit():
        return int(word)
    name, _, default = word.partition("|")
    return fields.whole_or(name, int(default or 0), least)


def _windowed(fields: Fields) -> bool:
    """Whether the configuration states a sliding window."""
    condition = fields.word("window_if")
    return (not condition or fields.truth(condition)) and bool(
        fields.value(fields.word("window") or "sliding_window").data
    )


def _period(fields: Fields, layers: int, word: str) -> list[str]:
    """Kind of each layer when every n-th layer attends to all tokens, and the others to a sliding window, if any."""
    word, _, last = word.partition(" ")
    period = _number(fields, word) if fields.has("sliding_window") else 0
    return [
        SLIDING if (period == 0 or (i + 1) % period) and not (last and i == layers - 1) else FULL for i in range(layers)
    ]


def _first(fields: Fields, layers: int, word: str) -> list[str]:
    period = _number(fields, word)
    return [SLIDING if i % period else FULL for i in range(layers)]


def _after(fields: Fields, layers: int, word: str) -> list[str]:
    """Kind of each layer: full attention in the first `max_window_layers`, then a window."""
    first = fields.whole("max_window_layers", 0) if _windowed(fields) else layers
    return [SLIDING if i >= first else FULL for i in range(layers)]


def _qwen2_moe(fields: Fields, layers: int, word: str) -> list[str]:
    """Kind of each layer: among the first `max_window_layers` every other has a window."""
    last = fields.whole("max_window_layers", 0) if _windowed(fields) else 0
    return [SLIDING if (i + 1) % 2 and i < last else FULL for i in range(layers)]


def _no_rope(fields: Fields, layers: int, word: str) -> list[str]:
    """Kind of each layer where some have no rotary positions: these attend to all tokens, in SmolLM to a window."""
    stated, chunked = fields.value("no_rope_layers"), fields.word("window") == "attention_chunk_size"
    if stated.data:
        rotary = [bool(number) for number in stated.whole_numbers()]
        if len(rotary) != layers:
            stated.fail(f"there are {len(rotary)} numbers for {layers} layers; give one a layer.")
    else:
        interval = fields.whole("no_rope_layer_interval")
        rotary = [bool((i + 1) % interval) for i in range(layers)]
    if chunked:
        return [CHUNKED if is_rotary else FULL for is_rotary in rotary]
    windowed = fields.truth("use_sliding_window") and fields.has("sliding_window")
    return [SLIDING if windowed and not is_rotary else FULL for is_rotary in rotary]


def _gpt_neo(fields: Fields, layers: int, word: str) -> list[str]:
    """Kind of each layer: all attend to all tokens; a wrong list of kinds is refused."""
    kinds: list[str] = []
    for item in fields.value("attention_types").items() if fields.has("attention_types") else ():
        pair = item.items()
        if len(pair) != 2 or not 0 <= pair[1].whole() <= layers:
            item.fail('give kinds and how often they follow each other, such as [["global", "local"], 12].')
        kinds += pair[0].texts() * pair[1].whole()
    kinds = kinds or ["global", "local"] * 12
    if len(kinds) != layers or not set(kinds) <= set(_WORDS):
        fields.value("attention_types").fail(f"there are {len(kinds)} kinds of layers for {layers} layers.")
    return [FULL] * layers  # its window only hides scores: all are computed, and all tokens kept


def _cohere2_moe(fields: Fields, layers: int, word: str) -> list[str]:
    """Kind of each layer: a window, but full attention in every n-th, counted anew after the dense layers."""
    dense = min(layers, _number(fields, "first_k_dense_replace|0"))
    first, rest = (fields.whole(name) for name in ("prefix_dense_sliding_window_pattern", "sliding_window_pattern"))
    return [
        SLIDING if (place + 1) % period else FULL
        for count, period in ((dense, first), (layers - dense, rest))
        for place in range(count)
    ]


def _flint(fields: Fields, layers: int, word: str) -> list[str]:
    return [FULL if i < 2 or i % 4 == 1 or i == layers - 1 else SLIDING for i in range(layers)]


def _linear_but_each(fields: Fields, layers: int, word: str) -> list[str]:
    """Kind of each layer: linear attention, but for every `word`-th, which attends to all tokens."""
    period = _number(fields, word, 1)
    return [LINEAR if (i + 1) % period else FULL for i in range(layers)]


def _some_full(fields: Fields, layers: int, word: str) -> list[str]:
    """Kind of each layer as `_linear_but_each` has it, but the last attends to all tokens if no other layer does."""
    kinds = _linear_but_each(fields, layers, word)
    return kinds if FULL in kinds else [*kinds[:-1], FULL]


def _blocks(fields: Fields) -> list[str]:
    """The kind of each layer, for layers that are either a mixer or a feed-forward network, from names or letters."""
    stated, pattern = fields.value("layer_types"), fields.value("hybrid_override_pattern")
    if stated.data is not None:
        kinds = [_kind_of(item, _WORDS | {EXPERTS: EXPERTS, DENSE: DENSE}) for item in stated.items()]
    elif pattern.data is not None:
        letters = {"M": LINEAR, "*": FULL, "E": EXPERTS, "-": DENSE}
        if not set(pattern.text()) <= set(letters):
            pattern.fail("a letter of it is not known; known are M, *, E and -.")
        kinds = [letters[letter] for letter in pattern.text()]
    else:
        kinds = [LINEAR, EXPERTS, FULL, DENSE]
    if not 1 <= len(kinds) <= MOST_LAYERS:
        fields.whole_file.fail(f"it has {len(kinds)} layers; there must be from 1 to {MOST_LAYERS}.")
    return kinds


def _indexed(fields: Fields, layers: int, word: str) -> list[str]:
    """Kind of each layer: layers without an indexer use the tokens that the last indexer has chosen."""
    stated = fields.value("indexer_types")
    if stated.data is None:
        stated = fields.value("index_topk_pattern")
    if stated.data is not None:
        indexed = [item in ("full", "F") for item in (stated.data if isinstance(stated.data, str) else stated.texts())]
        if len(indexed) != layers:
            stated.fail(f"there are {len(indexed)} kinds of indexers for {layers} layers; give one a layer.")
    else:
        period, offset = fields.whole_or("index_topk_freq", 1, 0), fields.whole_or("index_skip_topk_offset", 2, 0)
        indexed = [max(i - offset + 1, 0) % max(period, 1) == 0 for i in range(layers)]
    return [INDEXED if has_indexer else FULL for has_indexer in indexed]


def _kimi(fields: Fields, layers: int, word: str) -> list[str]:
    """Kind of each layer: full attention where its number, from 1, is listed; without a list every fourth."""
    if not fields.has("full_attn_layers"):
        return [FULL if i and i % 4 == 0 else LINEAR for i in range(layers)]
    chosen = set(fields.value("full_attn_layers").whole_numbers())
    return [FULL if i + 1 in chosen else LINEAR for i in range(layers)]


def _stated(fields: Fields, layers: int, word: str) -> list[str]:
    fields.value("layer_types").fail("it is missing; give the kind of each layer.")


def _jamba(fields: Fields, layers: int, word: str) -> list[str]:
    period, offset = fields.whole("attn_layer_period"), fields.whole("attn_layer_offset", 0)
    return [FULL if i % period == offset else LINEAR for i in range(layers)]


def _listed(name: str) -> Callable[[Fields, int, str], list[str]]:
    def rule(fields: Fields, layers: int, word: str) -> list[str]:
        """Kind of each layer: attention in the listed layers; without a list in all, or in none."""
        if not fields.has(name):
            return [FULL if name == "full_attn_idxs" else LINEAR] * layers
        chosen = set(fields.value(name).whole_numbers())
        return [FULL if i in chosen else LINEAR for i in range(layers)]

    return rule


_RULES: dict[str, Callable[[Fields, int, str], list[str]]] = {
    "full": lambda fields, layers, word: [FULL] * layers,
    "all": lambda fields, layers, word: [SLIDING if _windowed(fields) else FULL] * layers,
    "period": _period,
    "first": _first,
    "after": _after,
    "qwen2_moe": _qwen2_moe,
    "no_rope": _no_rope,
    "gpt_neo": _gpt_neo,
    "cohere2_moe": _cohere2_moe,
    "flint": _flint,
    "linear": _linear_but_each,
    "jamba": _jamba,
    "lfm2": _listed("full_attn_idxs"),
    "bamba": _listed("attn_layer_indices"),
    "ends": lambda fields, layers, word: [
        FULL if i == 0 or (i + 1) % int(word) == 0 else SLIDING for i in range(layers)
    ],
    "lfm3": lambda fields, layers, word: [
        FULL if i % 4 == 2 else SLIDING if i % 4 == 0 and i else LINEAR for i in range(layers)
    ],
    "lara": lambda fields, layers, word: [(LINEAR, SLIDING, LINEAR, FULL, SLIDING)[i % 5] for i in range(layers)],
    "odd": lambda fields, layers, word: [LINEAR if i % 2 else FULL for i in range(layers)],
    "some_full": _some_full,
    "indexed": _indexed,
    "kimi": _kimi,
    "stated": _stated,
    "granitemoehybrid": lambda fields, layers, word: [LINEAR] * layers,
}


def _first_dense(fields: Fields, layers: int, word: str) -> list[bool]:
    """Whether each layer has experts: all but the first n."""
    dense = _number(fields, word)
    return [i >= dense for i in range(layers)]


def _step(fields: Fields, layers: int, word: str) -> list[bool]:
    """Whether each layer has experts: the last of every n, unless it is listed as dense."""
    step = fields.whole_or("decoder_sparse_step", 1)
    only = fields.value("mlp_only_layers")
    dense = (
        set(only.whole_numbers()) if only.data is not None else ({0, 1} if fields.word("kinds") == "flint" else set())
    )
    return [i not in dense and (i + 1) % step == 0 for i in range(layers)]


def _moe_layers(fields: Fields, layers: int, word: str) -> list[bool]:
    """Whether each layer has experts: those listed, else the last of every n."""
    if fields.has("moe_layers"):
        chosen = set(fields.value("moe_layers").whole_numbers())
        return [i in chosen for i in range(layers)]
    step = fields.whole("interleave_moe_layer_step")
    return [(i + 1) % step == 0 for i in range(layers)]


def _ernie(fields: Fields, layers: int, word: str) -> list[bool]:
    """Whether each layer has experts: within a stated range every `moe_layer_interval`-th, counted from 1."""
    start, interval = fields.whole("moe_layer_start_index", 0), fields.whole("moe_layer_interval")
    end = fields.whole("moe_layer_end_index", -1)
    end = layers - 1 if end == -1 else end
    return [(i + 1) % interval == 0 and start <= i <= end for i in range(layers)]


def _axk1(fields: Fields, layers: int, word: str) -> list[bool]:
    """Whether each layer has experts: behind the first dense ones every `moe_layer_freq`-th, counted from 0."""
    first, step = fields.whole_or("first_k_dense_replace", 1, 0), fields.whole_or("moe_layer_freq", 1)
    return [i >= first and i % step == 0 for i in range(layers)]


def _every(fields: Fields, layers: int, word: str) -> list[bool]:
    period, offset = fields.whole("expert_layer_period"), fields.whole("expert_layer_offset", 0)
    return [i % period == offset for i in range(layers)]


_SPARSE: dict[str, Callable[[Fields, int, str], list[bool]]] = {
    **dict.fromkeys(("all", "any"), lambda fields, layers, word: [True] * layers),
    "first": _first_dense,
    "step": _step,
    "moe_layers": _moe_layers,
    "ernie": _ernie,
    "axk1": _axk1,
    "jamba": _every,
}


# The operators that mix the tokens of a layer: attention, state spaces and the like.


_SOFTMAX_FLOPS, _ROTARY_FLOPS = 5, 3


def held_tokens(mixer: Attention | LatentAttention, context: int) -> int:
    """Number of tokens of a sequence that the cache of a layer holds between two steps."""
    window = mixer.window if isinstance(mixer, Attention) else None
    return context if window is None else min(context, window - 1)


def mix(net: NetworkBuilder, x: Tensor, mixer: Attention | LatentAttention | Recurrence, cache: Cache | None) -> Tensor:
    """Record the mixer of tokens of a layer, with the reads and writes of its cache."""
    if isinstance(mixer, Attention):
        return _attention(net, x, mixer, cache)
    if isinstance(mixer, LatentAttention):
        return _latent(net, x, mixer, cache)
    return _recurrence(net, x, mixer, cache)


def scaled(net: NetworkBuilder, x: Tensor, name: str, count: int) -> Tensor:
    """Record a scaling of `x` by vectors of `count` parameters in all, a multiplication for each element."""
    return net.operator("scale", [x, net.parameter(name, count)], [x.shape], flops=x.elements)[0]


def _attention(net: NetworkBuilder, x: Tensor, attention: Attention, cache: Cache | None) -> Tensor:
    """Record the attention of a layer, whose keys and values come from the cache if there is one."""
    batch, sequence, hidden = x.shape
    with net.scope("attention"):
        query = net.linear(x, attention.heads * attention.width, "query", bias=attention.bias)
        key = net.linear(x, attention.key_heads * attention.width, "key", bias=attention.bias)
        value = (
            net.linear(x, attention.key_heads * attention.value_width, "value", bias=attention.bias)
            if attention.separate_values
            else key
        )
        for count, name in zip(attention.norms, ("query_norm", "key_norm"), strict=True):
            if count:
                normed = scaled(net, query if name == "query_norm" else key, name, count)
                query, key = (normed, key) if name == "query_norm" else (query, normed)
        query = net.elementwise("rotary", query, flops_per_element=_ROTARY_FLOPS)
        key = net.elementwise("rotary", key, flops_per_element=_ROTARY_FLOPS)
        cached_tokens = 0 if cache is None else held_tokens(attention, cache.context)
        cached = [
            net.state(name, batch, cached_tokens, attention.key_heads * width, element_bytes=cache.element_bytes)
            for name, width in (("keys", attention.width), ("values", attention.value_width))
            if cache is not None and cached_tokens
        ]
        keys = sequence if cache is None else cache.context
        if attention.window is not None and sequence < keys:
            keys = min(keys, attention.window)
        more = [net.parameter("vectors", attention.vectors)] if attention.vectors else []
        scores = attention.passes * batch * attention.heads * sequence * keys
        context = _attended(
            net, [query, key, value, *more], cached, scores, attention.heads, attention.width, attention.value_width
        )
        if attention.gate:
            gate = net.sigmoid(net.linear(x, attention.gate, "gate", bias=attention.gate_bias))
            flops = context.elements
            context = net.operator("multiply", [context, gate], [context.shape], flops=flops)[0]
        return net.linear(context, hidden, "output", bias=attention.output_bias)


def _attended(
    net: NetworkBuilder,
    inputs: list[Tensor],
    cached: list[Tensor],
    scores: int,
    heads: int,
    width: int,
    value_width: int,
) -> Tensor:
    """Record both matrix products of attention and the softmax between them, with reads and writes of the cache."""
    batch, sequence, _ = inputs[0].shape
    shape = (batch, sequence, heads * value_width)
    written = sum(inputs[i].elements * state.element_bytes for i, state in enumerate(cached, start=1))
    moved = sum(tensor.bytes for tensor in (*inputs, *cached)) + batch * sequence * shape[-1] * net.element_bytes
    return net.operator(
        "attention",
        [*inputs, *cached],
        [shape],
        multiply_adds=scores * (width + value_width),
        flops=_SOFTMAX_FLOPS * scores,
        bytes_moved=moved + written,
    )[0]


def _latent(net: NetworkBuilder, x: Tensor, attention: LatentAttention, cache: Cache | None) -> Tensor:
    """Record attention whose keys and values come from a latent vector of each token, which alone is cached."""
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
        keys = sequence if cache is None else cache.context
        outputs = attention.heads * (attention.plain + attention.value_width)
        with net.scope("keys_values"):
            inputs = [latent, net.parameter("weight", attention.rank, outputs)]
            if cache is not None:
                inputs.append(
                    net.state("latents", batch, keys, attention.token_elements, element_bytes=cache.element_bytes)
                )
            expanded = net.operator(
                "matmul", inputs, [(batch, keys, outputs)], multiply_adds=batch * keys * attention.rank * outputs
            )[0]
        more = [net.parameter("vectors", attention.vectors)] if attention.vectors else []
        if attention.indexer is not None:
            more.append(_chosen(net, x, source, attention.indexer, cache))
        scores = batch * attention.heads * sequence * keys
        context = _attended(
            net, [query, expanded, latent, *more], [], scores, attention.heads, width, attention.value_width
        )
        return net.linear(context, hidden, "output", bias=attention.bias)


def _chosen(net: NetworkBuilder, x: Tensor, source: Tensor, indexer: Indexer, cache: Cache | None) -> Tensor:
    """Record the choice of the tokens that each token attends to, by the indexer's scores."""
    batch, sequence, _ = x.shape
    with net.scope("indexer"):
        query = net.linear(source, indexer.heads * indexer.width, "query", bias=False)
        key = scaled(net, net.linear(x, indexer.width, "key", bias=False), "key_norm", 2 * indexer.width)
        weights = net.linear(x, indexer.heads, "weights", bias=False)
        keys = sequence if cache is None else cache.context
        inputs = [query, key, weights]
        if cache is not None:
            inputs.append(net.state("keys", batch, keys, indexer.width, element_bytes=cache.element_bytes))
        scores = batch * sequence * keys * indexer.heads
        shape = (batch, sequence, min(indexer.chosen, keys))
        return net.operator("top_k", inputs, [shape], multiply_adds=scores * (indexer.width + 1), flops=6 * scores)[0]


def _recurrence(net: NetworkBuilder, x: Tensor, recurrence: Recurrence, cache: Cache | None) -> Tensor:
    """Record a layer with a recurrent state in place of attention: convolution, scan and the products around them."""
    batch, sequence, _ = x.shape
    with net.scope(recurrence.kind):
        projected = [_linear(net, x, linear, f"before_{i}") for i, linear in enumerate(recurrence.before)]
        mixed = projected[0]
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
        states = [net.parameter("vectors", recurrence.vectors)] if recurrence.vectors else []
        if cache is not None:
            states.append(net.state("state", batch, recurrence.state, element_bytes=cache.element_bytes))
        shape = (batch, sequence, recurrence.after.inputs)
        work = batch * sequence * recurrence.multiply_adds
        mixed = net.operator("scan", [mixed, *projected[1:], *inner, *states], [shape], multiply_adds=work)[0]
        return _linear(net, mixed, recurrence.after, "output")


def _linear(net: NetworkBuilder, x: Tensor, linear: Linear, name: str) -> Tensor:
    """Record a matrix product, or two of low rank."""
    if linear.between:
        x = net.linear(x, linear.between, f"{name}_narrow", bias=False)
    return net.linear(x, linear.outputs, name, bias=linear.bias)
