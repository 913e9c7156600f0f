"""Heads of configurations: tied or not, as wrappers say it, none, or classifiers; with and without their weights."""

from __future__ import annotations

import json
import warnings
from itertools import product

import pytest
from transformers_configurations import GEMMA, LLAMA, written
from weight_files import gguf, shapes_of_llama, stored, stored_bytes, tensors_of_gguf

import mtpp
from instances import InputError, InputWarning
from instances.json_files import parse_json
from instances.readers import load_graph
from instances.readers.huggingface.configuration import decoder_of, model_types

COUNT, TABLE = 1160, 80
BODY = {name: shape for name, shape in shapes_of_llama().items() if name != "lm_head.weight"}
STATES = ("absent", True, False, None)


def read(folder, config, **words):
    """The graph of a configuration, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        return load_graph(written(folder, config), **words)


def said(value):
    """A field that says it, or none."""
    return {} if value == "absent" else {"tie_word_embeddings": value}


@pytest.mark.parametrize("kind", ["llama4", "idefics3", "mistral3", "internvl", "llava", "perception_lm"])
def test_the_wrapper_says_whether_the_head_is_the_table(tmp_path, kind):
    """Its default counts, not that of its decoder; in LLaVA either may say so, in Perception LM the decoder decides."""
    words = model_types("wrappers")[kind]
    bare = {name: value for name, value in LLAMA.items() if name != "tie_word_embeddings"}
    for outer, inner in product(STATES, STATES):
        config = {"model_type": kind, "text_config": bare | said(inner)} | said(outer)
        text = inner is True
        if kind == "perception_lm":
            tied = text if outer in ("absent", None) else outer
        else:
            tied = words["tied"] if outer == "absent" else outer is True
            tied = tied or (kind == "llava" and text)
        assert read(tmp_path, config).attributes["parameter_count"] == COUNT - TABLE * tied, (outer, inner)


def test_all_wrappers_of_transformers_are_read_as_it_reads_them():
    """Over all classes that hold a decoder of a known type: tied alike, or a warning that the wrapper is unknown.

    A state that transformers refuses says nothing, nor does a class that cannot be made of a text_config alone, or one
    whose decoder never shares its table or is refused.
    """
    transformers = pytest.importorskip("transformers", reason="the extra 'networks' is not installed")
    seen = 0
    for kind, made in transformers.CONFIG_MAPPING.items():
        if "text_config" not in (getattr(made, "sub_configs", None) or {}):
            continue
        for outer, inner in product(STATES, STATES):
            try:
                text = made().text_config.model_type
                config = made(text_config={"model_type": text} | said(inner), **said(outer))
                tied = bool(config.tie_word_embeddings)
            except Exception:  # transformers has many ways to refuse, and another one for a class that does not say it
                continue
            if text not in model_types() or model_types()[text].get("untied"):
                continue
            stated = {"model_type": kind, "text_config": {"model_type": text} | said(inner)} | said(outer)
            try:
                record, doubts = decoder_of(parse_json(json.dumps(stated), "config.json"))
            except InputError:
                continue
            seen += 1
            unknown = any("is unknown" in doubt for doubt in doubts)
            assert record.tied == tied or unknown, (kind, outer, inner)
    assert seen > 100


def test_a_text_config_without_a_type_has_that_of_its_wrapper(tmp_path):
    inner = {name: value for name, value in LLAMA.items() if name != "model_type"}
    config = {"model_type": "llava", "text_config": inner}
    assert read(tmp_path, config).attributes["parameter_count"] == COUNT
    for kind in model_types("wrappers"):
        text = model_types("wrappers")[kind].get("text")
        assert text is None or text in {*model_types(), *model_types("wrappers")}


def test_a_decoder_within_a_thinker_counts(tmp_path):
    """Its type, its numbers and the tie of its head; the decoder that speaks is named."""
    inner = {name: value for name, value in LLAMA.items() if name not in ("model_type", "tie_word_embeddings")}
    for tied in (False, True):
        thinker = {"text_config": inner | {"dtype": "bfloat16"}, "tie_word_embeddings": tied}
        config = {"model_type": "qwen2_5_omni", "thinker_config": thinker, "talker_config": {"hidden_size": 9}}
        with pytest.warns(InputWarning) as told:
            graph = load_graph(written(tmp_path, config))
        assert graph.attributes["parameter_count"] == COUNT + 2 * 16 - TABLE * tied  # with biases of queries and keys
        assert graph.attributes["dims"]["element_bytes"] == 2
        assert any("a decoder that speaks" in str(one.message) for one in told)


def test_bug_a_decoder_without_a_type_had_one_that_nobody_stated(tmp_path):
    with pytest.raises(InputError, match="its decoder states no model_type; add that of the decoder, such as llama"):
        read(tmp_path, {"model_type": "mine", "llm_config": {"hidden_size": 8}})
    with pytest.raises(InputError, match="the model type 'clip' is not known, which has parts for several kinds"):
        read(tmp_path, {"model_type": "clip", "text_config": {}})


def test_a_tie_that_is_no_truth_is_refused(tmp_path):
    with pytest.raises(InputError, match="tie_word_embeddings: expected true or false"):
        read(tmp_path, {"model_type": "llava", "text_config": LLAMA, "tie_word_embeddings": "yes"})


def test_what_is_not_known_of_a_wrapper_is_said(tmp_path):
    unknown = pytest.warns(InputWarning, match=r"what its decoder says \(True\); a mine is unknown")
    with unknown, pytest.warns(InputWarning, match="only the decoder of its text_config counts"):
        load_graph(written(tmp_path, {"model_type": "mine", "text_config": GEMMA}))


@pytest.mark.parametrize(
    ("name", "more", "head"),
    [
        ("LlamaForCausalLM", {}, TABLE),
        ("LlamaModel", {}, 0),
        ("LlamaForSequenceClassification", {}, 16),
        ("LlamaForSequenceClassification", {"id2label": {"0": "A"}}, 8),
        ("LlamaForSequenceClassification", {"num_labels": 5}, 40),
        ("LlamaForTokenClassification", {"id2label": {"0": "A", "1": "B", "2": "C"}}, 27),
        ("LlamaForQuestionAnswering", {}, 18),
    ],
)
def test_the_class_says_which_head_there_is(tmp_path, name, more, head):
    """A head that yields words, a classifier with or without a bias, or none; tied or not."""
    for tied in (False, True):
        config = LLAMA | more | {"architectures": [name], "tie_word_embeddings": tied}
        count = read(tmp_path, config).attributes["parameter_count"]
        assert count == COUNT - TABLE + (head if not (tied and head == TABLE) else 0)
        assert read(tmp_path, config, level="layer", dims={"phase": "decode"}).n > 2


@pytest.mark.parametrize("name", ["LlamaForSequenceClassification", "LlamaForTokenClassification", "LlamaModel"])
def test_bug_what_yields_no_words_is_not_served(tmp_path, name):
    """The head counted as that of a decoder; that a class has labels is known."""
    path = written(tmp_path, LLAMA | {"architectures": [name], "num_labels": 3})
    refused = pytest.raises(InputError, match="predicts no tokens one after the other; give a decoder with its head")
    with refused:
        mtpp.serve(path, k=2, memory="1GB")
    with refused:
        mtpp.flow(path, devices="2xT4", dims={"batch": 4})


def test_labels_are_of_a_sane_number(tmp_path):
    config = LLAMA | {"architectures": ["LlamaForSequenceClassification"], "num_labels": 10**9}
    with pytest.raises(InputError, match="num_labels: the number is 1000000000; it must be from 1 to 1000000"):
        read(tmp_path, config)


#: Class of the model, what its weights have beside the body, and bytes of it that count.
OWN = {
    "decoder without a head": ("LlamaModel", {}, 0),
    "decoder of a class with a head": ("LlamaForCausalLM", {}, 0),
    "embedder with a pooling": ("LlamaModel", {"score.weight": [3, 8]}, 24),
    "sequence classifier": ("LlamaForSequenceClassification", {"score.weight": [2, 8]}, 16),
    "token classifier": ("LlamaForTokenClassification", {"score.weight": [2, 8], "score.bias": [2]}, 18),
    "classifier of other sizes": ("LlamaForSequenceClassification", {"score.weight": [7, 8]}, 56),
    "reward model": (
        "LlamaForRewardModel",
        {"score.0.weight": [8, 8], "score.0.bias": [8], "score.2.weight": [1, 8]},
        80,
    ),
    "value head": ("LlamaForCausalLMWithValueHead", {"v_head.summary.weight": [1, 8], "v_head.summary.bias": [1]}, 9),
}


@pytest.mark.parametrize("name", OWN)
def test_decoders_with_other_heads_read_their_own_weights(tmp_path, name):
    kind, more, head = OWN[name]
    (tmp_path / "model.safetensors").write_bytes(stored(stored_bytes("BF16", 2, BODY | more)))
    for tied in (False, True):
        graph = read(tmp_path, LLAMA | {"architectures": [kind], "tie_word_embeddings": tied}, level="layer")
        sizes = graph.param_bytes.sum() + sum(parameter.bytes for parameter in graph.parameters)
        assert sizes == pytest.approx(2 * (COUNT - TABLE + head))


def test_a_missing_head_is_said(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(stored(stored_bytes("BF16", 2, BODY)))
    with pytest.warns(InputWarning, match="its weights have no head; it counts without one"):
        load_graph(written(tmp_path, LLAMA | {"architectures": ["LlamaForCausalLM"]}))


def test_a_reranker_of_gguf_has_its_classifier(tmp_path):
    tensors = {name: own for name, own in tensors_of_gguf(0).items() if name != "output.weight"}
    (tmp_path / "q.gguf").write_bytes(gguf(tensors | {"cls.output.weight": (0, [8, 2])}))
    graph = read(tmp_path, LLAMA | {"architectures": ["LlamaForSequenceClassification"]})
    assert graph.parameter_total == pytest.approx(4 * (COUNT - TABLE + 16))


BERT = {
    **{"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2},
    **{"intermediate_size": 16, "vocab_size": 10, "max_position_embeddings": 16, "architectures": ["BertModel"]},
}


def shapes_of_bert(prefix, pooled=True):
    """Shapes of all tensors of the tiny BERT."""
    wide = {f"attention.self.{name}": (8, 8) for name in ("query", "key", "value")}
    wide |= {"attention.output.dense": (8, 8), "intermediate.dense": (16, 8), "output.dense": (8, 16)}
    shapes = {f"embeddings.{name}_embeddings.weight": [rows, 8] for name, rows in (("word", 10), ("position", 16))}
    shapes |= {"embeddings.token_type_embeddings.weight": [2, 8], "embeddings.position_ids": [1, 16]}
    norms = ["embeddings.LayerNorm"]
    for number in range(2):
        layer = f"encoder.layer.{number}"
        for name, (rows, columns) in wide.items():
            shapes |= {f"{layer}.{name}.weight": [rows, columns], f"{layer}.{name}.bias": [rows]}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    shapes |= {f"{norm}.{part}": [8] for norm in norms for part in ("weight", "bias")}
    shapes |= {"pooler.dense.weight": [8, 8], "pooler.dense.bias": [8]} if pooled else {}
    return {f"{prefix}{name}": shape for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("prefix", "pooled", "more"),
    [("", True, {}), ("bert.", True, {"classifier.weight": [3, 8]}), ("bert.", False, {"cls.predictions.bias": [10]})],
)
def test_encoders_read_their_own_weights(tmp_path, prefix, pooled, more):
    shapes = shapes_of_bert(prefix, pooled) | more
    (tmp_path / "model.safetensors").write_bytes(stored(stored_bytes("F16", 2, shapes)))
    graph = read(tmp_path, BERT, level="layer", dims={"sequence": 8})
    counted = {name: shape for name, shape in shapes.items() if "position_ids" not in name}
    elements = sum(shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in counted.values())
    assert graph.parameter_total == pytest.approx(2 * elements)
    with pytest.raises(InputError, match="weights of another model"):
        read(tmp_path, BERT | {"intermediate_size": 17}, dims={"sequence": 8})


def test_kimi_k2_is_a_deepseek(tmp_path):
    sizes = {"num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 100, "auto_map": {"AutoConfig": "a.B"}}
    counts = {
        kind: read(tmp_path, sizes | {"model_type": kind}).attributes["parameter_count"]
        for kind in ("kimi_k2", "deepseek_v3")
    }
    assert len(set(counts.values())) == 1
    inner = {"model_type": "kimi_k25", "text_config": sizes | {"model_type": "kimi_k2"}}
    assert read(tmp_path, inner).attributes["parameter_count"] == counts["kimi_k2"] - 100 * 64
