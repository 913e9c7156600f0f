"""Sizes of a network from its configuration and its weights."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, NoReturn

from instances.architectures.transformers import Encoder
from instances.errors import UnknownLayersError, nearest
from instances.json_files import Value
from instances.readers.huggingface.layers import DENSE, EXPERTS, FULL, kinds_of, sparse_layers
from instances.readers.huggingface.network import mixers_of
from instances.readers.huggingface.record import MOST_LAYERS, Decoder, Experts, FeedForward, Fields, Layer

# Configurations of Hugging Face transformers, ``config.json``, as records of decoders.


_SHOWN = 5
_MOST_LABELS = 1_000_000
#: Fields of multimodal models that hold the configuration of their decoder, or of what holds it.
_INSIDE = ("thinker_config", "text_config", "llm_config", "language_config")
#: Fields of parts that are no decoder, or no part of its forward pass, in words.
_TOWERS = {
    "vision_config": "a vision tower",
    "mm_vision_tower": "a vision tower",
    "audio_config": "an audio tower",
    "speech_config": "a tower for speech",
    "talker_config": "a decoder that speaks",
}
_DRAFTERS = {
    "num_nextn_predict_layers": "layers that draft further tokens",
    "medusa_num_heads": "heads that draft further tokens",
    "draft_vocab_size": "a table that maps the words of a drafter",
}
#: How the names of classes end whose models are a decoder with its head, and with another one: its outputs (None: those
#: that are stated) and whether it has a bias.
_HEADED = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "DoubleHeadsModel")
_OTHER_HEADS: dict[str, tuple[int | None, bool]] = {
    "ForSequenceClassification": (None, False),
    "ForTokenClassification": (None, True),
    "ForQuestionAnswering": (2, True),
    "Model": (0, False),
}
#: Model types that transformers reads as others.
_SAME = {"kimi_k2": "deepseek_v3", "code_llama": "llama"}
_TIED = "tie_word_embeddings"


@cache
def model_types(family: str = "decoders") -> dict[str, dict[str, Any]]:
    """The entries of `decoders.toml` for each model type of this family."""
    table = tomllib.loads(files(__package__).joinpath(f"{family}.toml").read_text(encoding="utf-8"))

    def words(name: str) -> dict[str, Any]:
        members = dict(table[name])
        like = members.pop("like", None)
        return {**(words(like) if like else {}), **members}

    return {name: words(name) for name in table}


def type_defaults(kind: str) -> dict[str, Any]:
    """Defaults and aliases of the fields of a model type, as transformers has them."""
    return _defaults()[kind]


@cache
def _defaults() -> dict[str, dict[str, Any]]:
    """Fields of all model types with their defaults, as in ``defaults.json``."""
    text = files(__package__).joinpath("defaults.json").read_text(encoding="utf-8")
    defaults: dict[str, dict[str, Any]] = json.loads(text)
    return defaults


@cache
def _unread() -> dict[str, list[str]]:
    """Patterns for names of model types that are not supported, by the feature of their layers that is not known."""
    text = files(__package__).joinpath("unread.toml").read_text(encoding="utf-8")
    forms: dict[str, list[str]] = tomllib.loads(text)
    return forms


def levels_of(config: Value) -> list[tuple[str, dict[str, Value]]]:
    """Model type and fields of a configuration, then of each that it wraps, down to its decoder."""
    members = config.open_members(("model_type",))
    levels = [(members["model_type"].text(), members)]
    while _SAME.get(levels[-1][0], levels[-1][0]) not in model_types():
        whole, members = levels[-1]
        inside = next((name for name in _INSIDE if name in members), None)
        if inside is None:
            break
        members = members[inside].open_members(())
        usual = f"{whole}_text" if f"{whole}_text" in model_types() else ""
        default = model_types("wrappers").get(whole, {}).get("text", usual)
        levels.append((members["model_type"].text() if "model_type" in members else default, members))
    return levels


def decoder_of(config: Value) -> tuple[Decoder, list[str]]:
    """The record of the decoder that a configuration describes, and sentences about doubts.

    Raises
    ------
    InputError
        If the model type is unknown, or a field is missing, absurd or contradicts another.
    """
    warnings: list[str] = []
    levels = levels_of(config)
    (inner, members), outer = levels[-1], levels[0][1]
    whole, wrapper = levels[-2:][0]
    kind = _SAME.get(inner, inner)
    if len(levels) > 1:
        inside = next(name for name in _INSIDE if name in wrapper)
        warnings.append(f"only the decoder of its {inside} counts, a {kind}.")
    elif kind not in model_types() and f"{kind}_text" in model_types():
        kind = f"{kind}_text"  # as these models had it before their decoders had a configuration of their own
        warnings.append(f"only its decoder counts, a {kind}.")
    if kind not in model_types():
        _refuse([name for name, _ in reversed(levels)], members, config)
    if "auto_map" in members:
        warnings.append("its auto_map names code of its own, which is never run; the type of transformers counts.")
    type_fields, type_words = type_defaults(kind), model_types()[kind]
    if kind != whole:
        members, doubts = _with_ties(whole, wrapper, members, bool(type_fields["defaults"].get(_TIED)))
        warnings += doubts
    fields = Fields(_flat(members, type_words), type_fields["defaults"], type_fields["aliases"], type_words, config)
    for name, part in {**_TOWERS, **_DRAFTERS}.items():
        if any(name in source and source[name].data for _, source in levels):
            but = "; with weights beside it its bytes count" if name in _TOWERS else ""
            warnings.append(f"{part} ({name}) is left out{but}.")
    classes = outer["architectures"].texts() if "architectures" in outer and outer["architectures"].data else []
    labels, biased = _labels(classes, outer)
    if labels is None and classes and not classes[0].endswith(_HEADED):
        warnings.append(f"it is a {classes[0]}; a {kind} with its head counts, which may have other parts.")
    if unknown := _unknown(members, type_fields, type_words):
        listed = ", ".join(unknown[:_SHOWN]) + (", …" if len(unknown) > _SHOWN else "")
        warnings.append(f"fields that a {kind} does not have are left out: {listed}.")
    stated = next((source[name].data for _, source in levels[::-1] for name in _QUANTIZED if name in source), None)
    record = replace(_decoder(kind, fields), quantized=_quantized(stated))
    return record if labels is None else replace(record, tied=False, labels=labels, head_bias=biased), warnings


def _refuse(kinds: Sequence[str], members: Mapping[str, Value], config: Value) -> NoReturn:
    """Raise an error for unknown model types, innermost first: it names the unknown feature, else a similar type."""
    place, error = members.get("model_type", config), UnknownLayersError
    if "auto_map" in members:
        problem = f"the model type '{kinds[0]}' is code of its own, which is never run; {_REMEDY}."
        members["auto_map"].fail(problem, error)
    for kind in kinds:
        for what, forms in _unread().items():
            if any(fnmatchcase(kind, form) for form in forms):
                place.fail(f"the model type '{kind}' is not known, which has {what}; {_REMEDY}.", error)
    if not kinds[0]:
        config.fail("the configuration of its decoder states no model_type; add that of the decoder, such as llama.")
    place.fail(f"the model type '{kinds[0]}' is not known{nearest(model_types(), kinds[0], _REMEDY)}", error)


_QUANTIZED = ("quantization_config", "compression_config", "quantization")
# Methods that keep a single kind of numbers.
_OF_METHOD = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "fp4", "NVFP4": "fp4", "FP8": "fp8"}


def _quantized(stated: Any) -> str | None:
    """Number type of quantised weights; "" if unknown, None if the weights are not quantised."""
    if not stated:
        return None
    parts = [stated] if isinstance(stated, dict) else []
    groups = stated.get("config_groups") if parts else None
    if isinstance(groups, dict):  # of compressed tensors
        parts += [group["weights"] for group in groups.values() if isinstance(group, dict) and "weights" in group]
    numbers = {name for part in parts if isinstance(part, dict) and (name := _numbers(part)) is not None}
    return numbers.pop() if len(numbers) == 1 else ""


def _numbers(part: Mapping[str, Any]) -> str | None:
    """Number type that a description of quantised weights states, such as int4; None if unknown."""
    for name in ("quant_method", "quant_algo"):
        if isinstance(part.get(name), str) and part[name] in _OF_METHOD:
            return _OF_METHOD[part[name]]
    loading_bits = next((bits for bits in (4, 8) if part.get(f"load_in_{bits}bit") is True), None)
    bits = loading_bits or part.get("bits", part.get("w_bit", part.get("num_bits")))
    if type(bits) is not int or bits not in (4, 8):
        return None
    return f"{'fp' if part.get('type') == 'float' else 'int'}{bits}"


def _labels(classes: Sequence[str], members: Mapping[str, Value]) -> tuple[int | None, bool]:
    """Outputs of the head of a model class, None for a head over the vocabulary, and whether that head has a bias."""
    if not classes or classes[0].endswith(_HEADED):
        return None, False
    stated, biased = next((head for end, head in _OTHER_HEADS.items() if classes[0].endswith(end)), (None, None))
    if biased is None or classes[0].endswith("RewardModel"):
        return None, False
    if stated is not None:
        return stated, biased
    names = members["id2label"].open_members(()) if "id2label" in members and members["id2label"].data else {}
    if not names and "num_labels" in members and members["num_labels"].data is not None:
        count = members["num_labels"].whole()
        if not 1 <= count <= _MOST_LABELS:
            members["num_labels"].fail(f"the number is {count}; it must be from 1 to {_MOST_LABELS}.")
        return count, biased
    return len(names) or 2, biased


def _with_ties(
    whole: str, outer: Mapping[str, Value], members: Mapping[str, Value], default: bool
) -> tuple[dict[str, Value], list[str]]:
    """Fields of a wrapper's decoder, with whether head and embedding are tied; and sentences about doubts.

    The wrapper, its decoder or neither may state it; which of them transformers follows depends on the model type.
    """
    words, inner, stated = model_types("wrappers").get(whole), members.get(_TIED), outer.get(_TIED)
    text = default if inner is None else inner.data is not None and inner.truth()
    of_text = words is not None and words["tied"] == "text"
    alone = words is not None and words.get("alone", False)
    if stated is not None and not alone and not (of_text and stated.data is None):
        tied = stated.data is not None and stated.truth()
    else:
        tied = text if words is None or of_text else words["tied"]
    doubts = []
    if words is None and stated is None and members is not outer:
        doubts.append(
            f"whether its head is its table of words is what its decoder says ({tied}); a {whole} is unknown."
        )
    if words is not None and words.get("or_text"):
        tied = tied or text
    source = stated or inner or next(iter(outer.values()))
    return {**members, _TIED: Value(tied, source.file, _TIED)}, doubts


def _flat(members: Mapping[str, Value], words: Mapping[str, Any]) -> dict[str, Value]:
    """All fields of a configuration at one level, under the names of its model type."""
    flat = dict(members)
    for outer, names in words.get("inside", {}).items():
        inner = members[outer].open_members(()) if outer in members and members[outer].data is not None else {}
        flat |= {names[name]: value for name, value in inner.items() if name in names}
    renamed = words.get("renamed", {}).items()
    flat |= {name: members[old] for old, name in renamed if old in members and members[old].data is not None}
    if words.get("full_layers"):
        flat |= _full_layers(members)
    return flat


def _full_layers(members: Mapping[str, Value]) -> dict[str, Value]:
    """Sizes of the full-attention layers: as stated for each layer, else by fields of their own."""
    stated = members.get("per_layer_config")
    if stated is not None and stated.data:
        layers = list(stated.open_members(()).values())
        if any(layer.data != layers[0].data for layer in layers):
            stated.fail("its layers differ; only the same sizes for all layers that attend to all tokens are known.")
        sizes = {"head_dim": members.get("head_dim"), **layers[0].open_members(())}
        full = {"full_head_dim": sizes["head_dim"], "full_key_heads": sizes.get("num_key_value_heads")}
    else:
        same = "attention_k_eq_v" in members and members["attention_k_eq_v"].data
        keys = members.get("num_global_key_value_heads") if same else None
        full = {"full_head_dim": members.get("global_head_dim"), "full_key_heads": keys}
    return {name: value for name, value in full.items() if value is not None}


def _unknown(members: Mapping[str, Value], type_fields: Mapping[str, Any], words: Mapping[str, Any]) -> list[str]:
    """Fields that the model type does not have and that could change sizes."""
    names = {
        *type_fields["defaults"],
        *type_fields["others"],
        *type_fields["aliases"],
        *type_fields["aliases"].values(),
        *_TOWERS,
        *_DRAFTERS,
        *_QUANTIZED,
    }
    names |= {"num_labels", *_defaults()[""]["others"], *words.get("earlier", ()), *words.get("inside", ())}
    names |= {*words.get("renamed", ())}
    return [
        name
        for name, value in members.items()
        if name not in names and (value.data is True or isinstance(value.data, list | dict) or type(value.data) is int)
    ]


#: Types of scaled rotary positions whose factor lengthens the context that is stated.
_SCALED = ("linear", "dynamic", "yarn")
_REMEDY = "in Python, give the module itself: mtpp.load(module, args=(example,))"


def _decoder(kind: str, fields: Fields) -> Decoder:
    """Sizes of a decoder of this model type."""
    words = fields.words
    hidden = fields.whole("hidden_size")
    norm = words.get("norm", "rms")
    if "norm_if" in words and not fields.truth(words["norm_if"]):
        norm = "none"
    final, rows = words.get("final_norm", True), words.get("positions", False)
    return Decoder(
        kind=kind,
        hidden=hidden,
        vocabulary=fields.whole("vocab_size"),
        tied=fields.truth("tie_word_embeddings") and not fields.word("untied"),
        norm=norm,
        layers=_layers(fields, hidden),
        embedding=fields.whole_or(words["embedding"], hidden) if "embedding" in words else hidden,
        positions=0 if rows is False else fields.whole("max_position_embeddings") + rows,
        embedding_norm=bool(words.get("embedding_norm")),
        final_norm=final if isinstance(final, bool) else fields.truth(final),
        head_bias=fields.says("head_bias"),
        stack=words.get("stack", "model.layers"),
        before=tuple(words.get("before", ("model.embed_tokens",))),
        after=tuple(words.get("after", ("model.norm", "lm_head"))),
        rotary_base=_rotary_base(fields),
        longest=_longest(kind, fields),
    )


def _longest(kind: str, fields: Fields) -> int | None:
    """Largest number of tokens of a sequence that the model takes; None if nothing states it.

    Scaled rotary positions reach `factor` times as far as in training: types linear and dynamic scale
    `max_position_embeddings`, yarn the original length. For llama3 and longrope the length reached is stated, as
    it is by Gemma 3 and by Phi-3, whose yarn is longrope by another name.
    """
    longest = fields.value("max_seq_len" if kind == "mpt" else "max_position_embeddings").data
    scaling = {name: value.data for name, value in _rotary(fields).items()}
    factor: Any = scaling.get("factor")
    way = scaling.get("rope_type", scaling.get("type"))
    reaches = way in _SCALED and not kind.startswith("gemma3") and (kind, way) != ("phi3", "yarn")
    scaled = reaches and type(factor) in (int, float) and 1 <= factor < 2**20
    if scaled and way == "yarn":
        longest = scaling.get("original_max_position_embeddings") or longest
    if type(longest) not in (int, float) or not 1 <= longest < 2**63 or longest != int(longest):
        return None
    return int(longest * factor if scaled else longest)


def _rotary(fields: Fields) -> dict[str, Value]:
    """Fields of the rotary positions, under their old name if that is there, else under the new one.

    Where they differ by kind of layer, those of layers that attend to all tokens.
    """
    stated = (fields.members.get(name) for name in ("rope_scaling", "rope_parameters"))
    entry = next((value for value in stated if value is not None and value.data and isinstance(value.data, dict)), None)
    if entry is None:
        return {}
    members = entry.open_members(())
    whole = members.get(FULL) if "layer_types" in fields.defaults else None
    return members if whole is None or not isinstance(whole.data, dict) else whole.open_members(())


def _rotary_base(fields: Fields) -> float | None:
    """Base of the rotary angles, on which no cost depends; None where it is missing or not a number."""
    base = {**fields.members, **_rotary(fields)}.get("rope_theta")
    return float(base.data) if base is not None and type(base.data) in (int, float) and 1 <= base.data < 2**63 else None


def _layers(fields: Fields, hidden: int) -> tuple[Layer, ...]:
    """The layers of the decoder; layers of the same kind are the same object."""
    for name in fields.words.get("without", ()):
        if fields.value(name).data not in (None, 0, False, "vision"):
            fields.value(name).fail(f"nothing is known of layers with it; {_REMEDY}.")
    kinds, norms = kinds_of(fields), _norms(fields)
    stated = fields.value("per_layer_config")
    if fields.word("full_layers") and stated.data:
        named = {name.lstrip("0") or "0" for name in stated.data}  # numbers may have leading zeros
        if named != {str(i) for i, kind in enumerate(kinds) if kind == FULL}:
            stated.fail("it must name the layers that attend to all tokens, and no others.")
    count = len(kinds)
    sparse = _sparse(fields, count)

    @cache
    def layer(kind: str, has_experts: bool, last: bool) -> Layer:
        alone = kind in (EXPERTS, DENSE)
        bare = fields.word("mixer") and norms == 1 and not alone  # a mixer without a feed-forward network beside it
        return Layer(
            mixers=() if alone else mixers_of(fields, hidden, kind, last),
            feed=None if bare else _feed_forward(fields, hidden, has_experts and kind != DENSE),
            norms=norms if has_experts else fields.words.get("dense_norms", norms),
            vectors=fields.word("vectors") or 0,
        )

    return tuple(layer(kinds[i], sparse[i], i == count - 1) for i in range(count))


#: The least number of experts that makes layers sparse, by the rule for layers; other types are refused with none.
_LEAST_EXPERTS = {"step": 1, "any": 1, "jamba": 2}


def _sparse(fields: Fields, layers: int) -> list[bool]:
    """Whether each layer has experts."""
    name, condition = fields.word("experts"), fields.word("experts_if")
    least = _LEAST_EXPERTS.get(fields.word("sparse"), 0)
    if not name or (condition and not fields.truth(condition)) or (least and fields.whole(name, 0) < least):
        return [False] * layers
    return sparse_layers(fields, layers)


def _norms(fields: Fields) -> int:
    """Number of norms in a layer."""
    norms = fields.words.get("norms", 2)
    if norms == "falcon":
        stated = fields.value("num_ln_in_parallel_attn").data
        two = fields.truth("new_decoder_architecture") if stated is None else stated == 2
        return 1 + (two or not fields.truth("parallel_attn"))
    for condition in fields.words.get("norms_if", {}):
        norms += 2 * fields.truth(condition)
    for condition, count in fields.words.get("norms_unless", {}).items():
        norms = count if fields.truth(condition) else norms
    return int(norms)


def _feed_forward(fields: Fields, hidden: int, sparse: bool) -> FeedForward:
    """The feed-forward network of a layer, with experts if it is sparse."""
    gated = fields.words.get("gated", True)
    if sparse:
        return FeedForward(0, gated, fields.says("feed_bias"), experts=_experts(fields, hidden))
    inner = _inner(fields, hidden)
    vectors = inner if fields.word("feed_vectors") else 0
    return FeedForward(inner, gated, fields.says("feed_bias"), vectors)


def _inner(fields: Fields, hidden: int) -> int:
    """Inner width of a feed-forward network without experts: a field, or a multiple of the hidden width."""
    name, times = fields.words.get("inner", "intermediate_size"), fields.word("inner_times")
    if name == "lfm2":
        return _lfm2_inner(fields)
    for field in name.split("|"):
        if field and fields.has(field):
            return fields.whole(field)
    if name and not times:
        return fields.whole(name.split("|")[-1])
    return hidden * (fields.whole(times) if isinstance(times, str) else int(times or 4))


def _lfm2_inner(fields: Fields) -> int:
    """Inner width of an LFM2 layer: two thirds of what is stated, scaled, and rounded up to a multiple."""
    inner = fields.whole("block_ff_dim" if "block_ff_dim" in fields.members else "intermediate_size")
    if not fields.truth("block_auto_adjust_ff_dim"):
        return inner
    inner = 2 * inner // 3
    if fields.has("block_ffn_dim_multiplier"):
        inner = int(fields.value("block_ffn_dim_multiplier").number() * inner)
        multiple = fields.whole("block_multiple_of")
        inner = multiple * -(-inner // multiple)
    return inner


def _experts(fields: Fields, hidden: int) -> Experts:
    """Experts of a layer, with the network beside them that all tokens take."""
    words: Mapping[str, Any] = fields.words
    count, inner = fields.whole(words["experts"]), fields.whole(words["expert_inner"])
    chosen = fields.whole(words.get("chosen", "num_experts_per_tok"))
    if chosen > count:
        fields.value(words.get("chosen", "num_experts_per_tok")).fail(
            f"{chosen} experts are chosen of {count}; give at most that."
        )
    shared = words.get("shared", 0)
    times = shared if isinstance(shared, int) else fields.whole_or(shared, 0, least=words.get("least_shared", 0))
    wide = times * inner
    if "shared_inner" in words:
        wide = fields.whole_or(words["shared_inner"], 0, least=0)
    return Experts(
        count=count,
        chosen=chosen,
        inner=inner,
        shared=wide,
        shared_gate=bool(words.get("shared_gate")),
        bias=bool(words.get("expert_bias")),
        router_vectors=(count if words.get("router_bias") else 0)
        + hidden * (words.get("router_vectors_hidden", 0) or (bool(words.get("shared_gate")) and not wide)),
        width=fields.whole_or(words["expert_width"], 0) if "expert_width" in words else 0,
        groups=_groups(fields),
    )


def _groups(fields: Fields) -> tuple[int, int]:
    """Largest number of expert groups a token uses, and number of groups; 1 and 1 without groups."""
    chosen, every = (fields.whole_or(name, 1) for name in ("topk_group", "n_group"))
    return (chosen, every) if chosen < every else (1, 1)


# Configurations of encoders of text, ``config.json``, as sizes of `Encoder`.


#: Fields that make decoders of them.
_DECODES = ("is_decoder", "add_cross_attention")


def is_encoder(config: Value) -> bool:
    """Whether the configuration is that of a known encoder."""
    members = config.open_members(())
    return "model_type" in members and members["model_type"].text() in model_types("encoders")


def encoder_of(config: Value) -> tuple[Encoder, list[str]]:
    """The sizes of the encoder that a configuration describes, and sentences about doubts.

    Raises
    ------
    InputError
        If a field is absurd or contradicts another, or makes the network a decoder.
    """
    members = config.open_members(("model_type",))
    kind = members["model_type"].text()
    words, type_fields = model_types("encoders")[kind], type_defaults(kind)
    fields = Fields(members, type_fields["defaults"], type_fields["aliases"], words, config)
    for name in _DECODES:
        if fields.truth(name):
            members[name].fail(f"a {kind} that decodes is not known; in Python, give the module itself to mtpp.load.")
    hidden, heads = fields.whole("hidden_size"), fields.whole("num_attention_heads")
    if hidden % heads:
        fields.value("num_attention_heads").fail(f"{heads} heads do not divide the width {hidden}; give a divisor.")
    rows = fields.whole("max_position_embeddings")
    unused = fields.whole("pad_token_id", least=0) + 1 if fields.says("padded") else 0
    if unused >= rows:
        fields.value("max_position_embeddings").fail(f"{rows} positions leave none for tokens; give more.")
    sizes = Encoder(
        layers=fields.whole("num_hidden_layers", largest=MOST_LAYERS),
        hidden=hidden,
        heads=heads,
        inner=fields.whole(words.get("inner", "intermediate_size")),
        vocabulary=fields.whole("vocab_size"),
        positions=rows,
        unused_positions=unused,
        segments=fields.whole("type_vocab_size") if words.get("segments", True) else 0,
        tasks=fields.whole("task_type_vocab_size") if fields.says("tasks") else 0,
        embedding=fields.whole(words["embedding"]) if "embedding" in words else None,
        embedding_norm=words.get("embedding_norm", True),
        pooled=words.get("pooled", True),
        stack=words.get("stack", "encoder.layer"),
        final=words.get("final", ""),
    )
    named = members["architectures"].texts() if "architectures" in members and members["architectures"].data else []
    headed = [name for name in named[:1] if not name.endswith("Model")]
    return sizes, [f"it is a {name}; a {kind} without its head counts, as AutoModel has it." for name in headed]
