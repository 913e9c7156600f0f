"""Masks and angles of language models are no parameters of a chain, whatever the sequence."""

from __future__ import annotations

import pytest

from instances.planning.from_graph import collapse
from instances.planning.plan_files import load_chain
from instances.readers import load_graph


@pytest.mark.parametrize(("name", "parameters"), [("llama-3-8b", 8_030_261_248), ("mixtral-8x7b", 46_702_792_704)])
def test_bug_masks_and_angles_counted_as_trained_in_every_layer(name: str, parameters: int) -> None:
    for sequence in (128, 1024):
        chain = load_chain(name, trained_only=True, dims={"sequence": sequence})
        assert chain.param_bytes.sum() / 4 == parameters
        assert load_chain(name, dims={"sequence": sequence}).param_bytes.sum() / 4 > parameters


def test_chains_say_what_is_shared_and_that_attention_keeps_its_scores() -> None:
    said = collapse(load_graph("gpt2"), trained_only=True).source.split("; ")[2:]
    assert said == ["attention is unfused", "embeddings.words counts in each of 2 layers"]
    assert collapse(load_graph("resnet50")).source.count(";") == 1
