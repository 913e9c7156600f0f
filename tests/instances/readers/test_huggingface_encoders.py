"""Configurations of encoders: counts as published, the graph of the built-in BERT, names of modules, refusals."""

import json

import numpy as np
import pytest
from transformers_configurations import LLAMA, written

import mtpp
from instances import InputError, InputWarning
from instances.architectures import ARCHITECTURES
from instances.readers import load_graph

BERT = {"model_type": "bert"}


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (BERT, 109_482_240),
        ({"model_type": "roberta", "max_position_embeddings": 514, "type_vocab_size": 1}, 124_645_632),
        ({"model_type": "distilbert"}, 66_362_880),
        (
            {
                **{"model_type": "xlm-roberta", "vocab_size": 250002},
                **{"max_position_embeddings": 514, "type_vocab_size": 1},
            },
            278_043_648,
        ),
        (
            {
                **{"model_type": "bert", "hidden_size": 1024, "num_hidden_layers": 24},
                **{"num_attention_heads": 16, "intermediate_size": 4096},
            },
            335_141_888,
        ),
    ],
)
def test_parameters_are_those_of_published_models(tmp_path, config, parameters):
    """BERT base and large (Devlin et al. 2019), RoBERTa base, DistilBERT, XLM-R base, without heads."""
    assert load_graph(written(tmp_path, config)).attributes["parameter_count"] == parameters


def test_a_bert_is_the_built_in_one(tmp_path):
    graph, known = load_graph(written(tmp_path, BERT), dims={"batch": 2}), ARCHITECTURES["bert-base"].build(batch=2)
    assert np.array_equal(graph.work, known.work)
    assert np.array_equal(graph.param_bytes, known.param_bytes)
    assert graph.edges.tolist() == known.edges.tolist()


@pytest.mark.parametrize(
    ("config", "devices"),
    [
        (BERT | {"num_hidden_layers": 2}, ["embeddings", "encoder.layer.0", "encoder.layer.1", "pooler"]),
        (
            {"model_type": "electra", "num_hidden_layers": 2},
            ["embeddings", "embeddings_project", "encoder.layer.0", "encoder.layer.1"],
        ),
        (
            {"model_type": "megatron-bert", "num_hidden_layers": 2},
            ["embeddings", "encoder.layer.0", "encoder.layer.1", "encoder.ln", "pooler"],
        ),
        (LLAMA, ["model.embed_tokens", "model.layers.0", "model.layers.1", "model.norm", "lm_head"]),
    ],
)
def test_device_maps_name_the_modules_of_transformers(tmp_path, config, devices):
    """A model whose type is known needs no weights and no module to be placed."""
    path = written(tmp_path, config)
    result = mtpp.partition(path, 2, method="kahn", bandwidth="25GB/s", runtime="accelerate")
    assert [*json.loads(mtpp.export(result, "accelerate"))] == devices


@pytest.mark.filterwarnings("ignore::instances.InputWarning")
def test_a_decoder_within_another_model_has_other_names(tmp_path):
    for config in ({"model_type": "llava", "text_config": LLAMA}, LLAMA | {"architectures": ["LlamaModel"]}):
        path = written(tmp_path, config)
        with pytest.raises(InputError, match="nothing tells the names of its modules"):
            mtpp.partition(path, 2, method="kahn", bandwidth="25GB/s", runtime="accelerate")


def test_a_head_is_left_out_with_a_warning(tmp_path):
    path = written(tmp_path, BERT | {"architectures": ["BertForMaskedLM"]})
    with pytest.warns(InputWarning, match="it is a BertForMaskedLM; a bert without its head counts"):
        mtpp.load(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_attention_heads": 7}, "num_attention_heads: 7 heads do not divide the width 768; give a divisor."),
        ({"hidden_size": 10**9}, "hidden_size: the number is 1000000000; it must be from 1 to"),
        ({"model_type": {"bert": 1}}, "model_type: expected a string"),
        ({"is_decoder": True}, "is_decoder: a bert that decodes is not known"),
        ({"model_type": "roberta", "max_position_embeddings": 2}, "max_position_embeddings: 2 positions leave none"),
    ],
)
def test_refusals(tmp_path, change, said):
    with pytest.raises(InputError) as refused:
        load_graph(written(tmp_path, BERT | change))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_sequence_has_at_most_the_positions(tmp_path):
    path = written(tmp_path, {"model_type": "roberta", "max_position_embeddings": 514})
    assert load_graph(path, dims={"sequence": 512}).n > 0
    with pytest.raises(InputError, match="sequence is 513, but the network knows 512 positions"):
        load_graph(path, dims={"sequence": 513})


def test_a_plan_of_an_encoder_is_that_of_the_same_model_by_name(tmp_path):
    words = {"global_batch": 8, "bandwidth": "100GB/s", "sequence": 128}
    named, read = (mtpp.train(one, "1x2", **words) for one in ("bert-base", written(tmp_path, BERT)))
    assert read.answer.cost == named.answer.cost
    unpooled = mtpp.train(written(tmp_path, {"model_type": "distilbert"}), "1x2", **words)
    assert unpooled.answer.cost < named.answer.cost  # with six of twelve layers
