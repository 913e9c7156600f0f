"""Masks and angles of language models are no parameters of a chain, whatever the sequence."""

from __future__ import annotations

import pytest

from instances.planning.chains import collapse
from instances.readers import load_graph
from mtpp.questions.planning import PlanningWords, chain_of
from mtpp.questions.words import checked


@pytest.mark.parametrize(("name", "parameters"), [("llama-3-8b", 8_030_261_248), ("mixtral-8x7b", 46_702_792_704)])
def test_bug_masks_and_angles_counted_as_trained_in_every_layer(name: str, parameters: int) -> None:
    for sequence in (128, 1024):
        graph = load_graph(name, dims={"sequence": sequence})
        assert collapse(graph, trained_only=True).param_bytes.sum() / 4 == parameters
        assert collapse(graph).param_bytes.sum() / 4 > parameters


def test_bug_loaded_graphs_were_planned_with_their_masks() -> None:
    by_name, loaded = (
        chain_of(chain, checked(PlanningWords, {}), None) for chain in ("llama-3-8b", load_graph("llama-3-8b"))
    )
    assert loaded.param_bytes.sum() / 4 == by_name.param_bytes.sum() / 4 == 8_030_261_248


def test_chains_say_what_is_shared_and_that_attention_keeps_its_scores() -> None:
    said = collapse(load_graph("gpt2"), trained_only=True).source.split("; ")[2:]
    assert said == ["attention is unfused", "embeddings.words counts in each of 2 layers"]
    assert collapse(load_graph("resnet50")).source.count(";") == 1
