"""Counts of configurations against transformers and torch's counter of operations.

All model types with 20 configurations each: ``python tests/helpers/transformers_counts.py`` (two minutes).
"""

import json
from random import Random

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from model_defaults import defaults_of
from transformers import CONFIG_MAPPING
from transformers_configurations import random_configuration
from transformers_counts import BATCH, PROMPT, WITHOUT_HEAD, causal_model, counted, read, states_of_fields
from transformers_modules import encoded, uncovered

from instances import InputError
from instances.json_files import parse_json
from instances.readers import load_graph
from instances.readers.huggingface import configured_architecture
from instances.readers.huggingface.configuration import model_types, type_defaults


def released(kinds):
    """Model types that the installed release of transformers has; some are of a later one."""
    return [kind for kind in kinds if kind in CONFIG_MAPPING]


@pytest.mark.parametrize("kind", released(model_types()))
def test_parameters_are_those_of_transformers(kind):
    config = random_configuration(kind, Random(kind))
    expected, found = counted(config, flops=False), read(json.dumps(json.loads(config.to_json_string())))
    assert (found.parameters, found.layers) == (expected.parameters, expected.layers)


@pytest.mark.parametrize("kind", released(model_types()))
@pytest.mark.filterwarnings("ignore::instances.InputWarning")
def test_weights_that_transformers_saves_are_those_of_their_configuration(kind, tmp_path):
    model = causal_model(random_configuration(kind, Random(kind)))
    model.save_pretrained(tmp_path)
    graph = load_graph(tmp_path)
    stored = graph.param_bytes.sum() + sum(parameter.bytes for parameter in graph.parameters)
    assert stored >= 4 * sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("kind", released(model_types()))
def test_each_state_of_each_field_is_read_as_transformers_reads_it_or_refused(kind):
    for name, state, stated, parameters in states_of_fields(kind):
        try:
            architecture, _ = configured_architecture(parse_json(json.dumps(stated), "config.json"), kind)
        except InputError:
            continue
        found = architecture.build(level="layer", batch=1, sequence=1).attributes["parameter_count"]
        assert found == parameters, (name, state)


@pytest.mark.parametrize(
    "kind", ["llama", "gemma3_text", "gpt2", "mixtral", "deepseek_v3", "cohere", "bloom", "gpt_oss"]
)
def test_operations_and_caches_are_those_of_torch(kind):
    config = random_configuration(kind, Random(f"{kind} again"))
    expected = counted(config, flops=True)
    assert expected.differences(read(json.dumps(json.loads(config.to_json_string()))), kind) == []


@pytest.mark.parametrize("kind", released(model_types("encoders")))
def test_encoders_are_those_of_transformers(kind):
    config = random_configuration(kind, Random(kind))
    stated = parse_json(json.dumps(json.loads(config.to_json_string())), "config.json")
    graph = configured_architecture(stated, kind)[0].build(batch=BATCH, sequence=PROMPT)
    assert (graph.attributes["parameter_count"], 2 * graph.attributes["multiply_adds"]) == encoded(config)


@pytest.mark.parametrize("kind", released(sorted({*model_types(), *model_types("encoders")} - {*WITHOUT_HEAD})))
def test_modules_are_those_of_transformers(kind):
    assert uncovered(random_configuration(kind, Random(kind))) == []


@pytest.mark.parametrize("kind", released([*model_types(), *model_types("encoders")]))
def test_defaults_are_those_of_transformers(kind):
    assert type_defaults(kind) == defaults_of(kind)
