"""Models as runtimes that train are told them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from instances.errors import InputError
from instances.planning.grid.transformer import Transformer, norm_parameters
from instances.readers.huggingface.record import Attention, FeedForward, LatentAttention, Layer

# Megatron-LM: the arguments of pretrain_gpt.py that are a model's.


_NORMS = {"rms": "RMSNorm", "layer": "LayerNorm"}
#: What divides the rows of the table of tokens on each device: the first that adds none, else the default.
_ROWS = (128, 64, 32, 16, 8)

#: A value, whether a flag stands there, or None for neither.
_Arguments = dict[str, str | int | bool | None]


def megatron_model(model: Transformer, sequence: int, tensor: int) -> list[str]:
    """Arguments of Megatron-LM for a model of these sizes, without their dashes.

    Raises
    ------
    InputError
        If there are none for a part of it; the message names the part.
    """
    if why := _strange_ends(model):
        raise InputError(f"{model.name}: Megatron-LM has no arguments for {why}.")
    arguments: _Arguments = {"num-layers": len(model.layers), "hidden-size": model.hidden}
    for layer in model.kinds:
        if why := _strange_part(layer, model.norm):
            raise InputError(f"{model.name}: Megatron-LM has no arguments for {why} of its layers.")
        for name, value in _of_layer(layer).items():
            if arguments.setdefault(name, value) != value:
                raise InputError(f"{model.name}: its layers differ in --{name}, and Megatron-LM has one for all.")
    arguments |= _of_kinds(model) | _of_ends(model, sequence, tensor)
    return [name if value is True else f"{name} {value}" for name, value in arguments.items() if value]


def _strange_ends(model: Transformer) -> str | None:
    """A part before or after the layers that its GPT does not have, in words."""
    norm = norm_parameters(model.norm, model.hidden)
    if not (model.causal and model.head):
        return "an encoder, which pretrain_gpt.py does not train"
    if model.norm not in _NORMS:
        return f"its norms, {model.norm}"
    if model.table_width != model.hidden:
        return "a table of tokens of another width than its layers"
    if (model.before, model.after, model.pooled) != (model.positions * model.hidden, norm, False):
        return "parameters before or after its layers beside tokens, positions and a norm"
    return None


def _strange_part(layer: Layer, norm: str) -> str | None:
    """The part of a layer that is not as arguments would make it."""
    mixer, feed = layer.mixers[0], layer.feed
    assert feed is not None
    mixing: Attention | LatentAttention
    if isinstance(mixer, LatentAttention):
        sizes = (mixer.heads, mixer.rank, mixer.rotary, mixer.plain, mixer.value_width, mixer.query_rank)
        mixing = LatentAttention(*sizes)
    else:
        assert isinstance(mixer, Attention)
        norms = norm_parameters(norm, mixer.width) if any(mixer.norms) else 0
        mixing = Attention(
            mixer.heads,
            mixer.key_heads,
            mixer.width,
            mixer.width,
            window=mixer.window,
            bias=mixer.bias or feed.bias,
            output_bias=feed.bias,
            norms=(norms, norms),
        )
    experts = feed.experts
    if experts is None:
        network = FeedForward(feed.inner, feed.gated, feed.bias)
    else:
        vectors = experts.count if experts.router_vectors else 0
        network = FeedForward(0, feed.gated, experts=replace(experts, bias=False, width=0, router_vectors=vectors))
    if mixer != mixing:
        return "the attention"
    if feed != network:
        return "the experts" if experts else "the feed-forward network"
    return None if layer == Layer((mixing,), network, norms=2) else "the norms or vectors"


def _of_layer(layer: Layer) -> _Arguments:
    """Arguments of a layer, which must be the same for all layers that have them."""
    mixer, feed = layer.mixers[0], layer.feed
    assert feed is not None
    shared: _Arguments = {"swiglu": feed.gated, "disable-bias-linear": not feed.bias}
    experts = feed.experts
    if experts is None:
        shared |= {"ffn-hidden-size": feed.inner}
    else:
        chosen, groups = experts.groups if experts.groups != (1, 1) else (None, None)
        shared |= {
            "moe-router-num-groups": groups,
            "moe-router-group-topk": chosen,
            "num-experts": experts.count,
            "moe-router-topk": experts.chosen,
            "moe-router-pre-softmax": experts.chosen == 1,  # shares of a single expert would all be 1
            "moe-ffn-hidden-size": experts.inner,
            "moe-grouped-gemm": True,
            "moe-token-dispatcher-type": "alltoall",
            "moe-shared-expert-intermediate-size": experts.shared,
            "moe-shared-expert-gate": experts.shared_gate,
            "moe-router-enable-expert-bias": experts.router_vectors > 0,
            "moe-router-score-function": "sigmoid" if experts.router_vectors else None,
        }
    if isinstance(mixer, LatentAttention):
        return shared | {
            "num-attention-heads": mixer.heads,
            "kv-channels": mixer.value_width,
            "multi-latent-attention": True,
            "q-lora-rank": mixer.query_rank,
            "kv-lora-rank": mixer.rank,
            "qk-head-dim": mixer.plain,
            "qk-pos-emb-head-dim": mixer.rotary,
            "v-head-dim": mixer.value_width,
            "qk-layernorm": True,  # of the latent vectors
            "rope-type": "rope",
        }
    assert isinstance(mixer, Attention)
    grouped = mixer.key_heads != mixer.heads
    return shared | {
        "num-attention-heads": mixer.heads,
        "kv-channels": mixer.width,
        "group-query-attention": grouped,
        "num-query-groups": mixer.key_heads if grouped else None,
        "multi-latent-attention": False,
        "add-qkv-bias": mixer.bias and not feed.bias,
        "qk-layernorm": any(mixer.norms),
    }


def _of_kinds(model: Transformer) -> _Arguments:
    """Arguments that say which layers have experts, and which a window."""
    mixers = [layer.mixers[0] for layer in model.layers]
    windows = [mixer.window if isinstance(mixer, Attention) else None for mixer in mixers]
    sizes = sorted({window for window in windows if window is not None})
    if len(sizes) > 1:
        raise InputError(f"{model.name}: its layers differ in --window-size, and Megatron-LM has one for all.")
    return {
        "moe-layer-freq": _pattern(
            [layer.feed is not None and layer.feed.experts is not None for layer in model.layers]
        ),
        "window-size": f"{sizes[0] - 1},0" if sizes else None,
        "window-attn-skip-freq": _pattern([window is not None for window in windows]),
    }


def _pattern(flags: Sequence[bool]) -> str | None:
    """The layers with something as the sum of lists that Megatron-LM evaluates; None if all layers are alike."""
    runs = [f"[{int(flag)}]*{len([*run])}" for flag, run in groupby(flags)]
    return f'"({"+".join(runs)})"' if len(runs) > 1 else None


def _of_ends(model: Transformer, sequence: int, tensor: int) -> _Arguments:
    """Arguments of the table of tokens, of positions, norms and the head, and of data that need no files."""
    rows = next((rows for rows in _ROWS if model.vocabulary % (rows * tensor) == 0), _ROWS[0])
    learned = model.positions > 0
    return {
        "normalization": _NORMS[model.norm],
        "position-embedding-type": "learned_absolute" if learned else "rope",
        "max-position-embeddings": model.positions or sequence,
        "rotary-base": None if learned or model.rotary_base is None else int(model.rotary_base),
        "untie-embeddings-and-output-weights": not model.tied,
        "attention-dropout": None if model.dropout else "0.0",
        "hidden-dropout": None if model.dropout else "0.0",
        "tokenizer-type": "NullTokenizer",
        "vocab-size": model.vocabulary - 1,  # it adds a token, the end of a text
        "make-vocab-size-divisible-by": rows if rows != _ROWS[0] else None,
    }


# torchtitan: names and flavors of the models that it has.


#: Parameters, layers, width and heads of a model to its name and flavor in torchtitan 0.2.
_FLAVORS = {
    (8_030_261_248, 32, 4096, 32): ("llama3", "8B"),
    (70_553_706_496, 80, 8192, 64): ("llama3", "70B"),
    (405_853_388_800, 126, 16384, 128): ("llama3", "405B"),
    (596_049_920, 28, 1024, 16): ("qwen3", "0.6B"),
    (1_720_574_976, 28, 2048, 16): ("qwen3", "1.7B"),
    (4_022_468_096, 36, 2560, 32): ("qwen3", "4B"),
    (8_190_735_360, 36, 4096, 32): ("qwen3", "8B"),
    (14_768_307_200, 40, 5120, 40): ("qwen3", "14B"),
    (32_762_123_264, 64, 5120, 64): ("qwen3", "32B"),
    (30_532_122_624, 48, 2048, 32): ("qwen3", "30B-A3B"),
    (235_093_634_560, 94, 4096, 64): ("qwen3", "235B-A22B"),
    (15_706_484_224, 27, 2048, 16): ("deepseek_v3", "16B"),
    (235_741_434_880, 60, 5120, 128): ("deepseek_v3", "236B"),
    (671_026_404_352, 61, 7168, 128): ("deepseek_v3", "671B"),
    (20_914_757_184, 24, 2880, 64): ("gpt_oss", "20b"),
    (116_829_156_672, 36, 2880, 64): ("gpt_oss", "120b"),
}


def torchtitan_model(model: Transformer) -> tuple[str, str]:
    """Name and flavor of a model.

    Raises
    ------
    InputError
        If torchtitan has none of these sizes; the message says which a flavor would need.
    """
    kinds = model.kinds.values()
    heads = {sizes.attention.heads for sizes in kinds}
    key = (model.parameters, len(model.layers), model.hidden, max(heads))
    if key in _FLAVORS:
        return _FLAVORS[key]
    numbers = {
        "n_layers": {len(model.layers)},
        "dim": {model.hidden},
        "n_heads": heads,
        "n_kv_heads": {sizes.key_heads for sizes in kinds},
        "hidden_dim": {sizes.inner for sizes in kinds if sizes.inner},
        "moe_inter_dim": {sizes.experts.inner for sizes in kinds if sizes.experts is not None},
        "num_experts": {*model.experts},
        "vocab_size": {model.vocabulary},
    }
    sizes = ", ".join(f"{name} {' or '.join(map(str, sorted(values)))}" for name, values in numbers.items() if values)
    raise InputError(f"{model.name}: no flavor of torchtitan 0.2 has its {model.parameters} parameters, with {sizes}.")
