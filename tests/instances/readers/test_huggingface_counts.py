"""Counts of configurations against transformers and torch's counter of operations.

All model types with 20 configurations each: ``python tests/helpers/transformers_counts.py`` (two minutes).
"""

import json
from random import Random

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from model_defaults import defaults_of
from transformers_counts import counted, random_configuration, read

from instances.readers.huggingface.configuration import _defaults, model_types


@pytest.mark.parametrize("kind", list(model_types()))
def test_parameters_are_those_of_transformers(kind):
    config = random_configuration(kind, Random(kind))
    expected, found = counted(config, flops=False), read(json.dumps(json.loads(config.to_json_string())))
    assert (found.parameters, found.layers) == (expected.parameters, expected.layers)


@pytest.mark.parametrize(
    "kind", ["llama", "gemma3_text", "gpt2", "mixtral", "deepseek_v3", "cohere", "bloom", "gpt_oss"]
)
def test_operations_and_caches_are_those_of_torch(kind):
    config = random_configuration(kind, Random(f"{kind} again"))
    expected = counted(config, flops=True)
    assert expected.differences(read(json.dumps(json.loads(config.to_json_string()))), kind) == []


@pytest.mark.parametrize("kind", list(model_types()))
def test_defaults_are_those_of_transformers(kind):
    assert _defaults()[kind] == defaults_of(kind)
