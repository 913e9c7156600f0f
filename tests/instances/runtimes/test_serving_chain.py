"""From a decoder to its serving question."""

from __future__ import annotations

import pytest

from instances import Platform
from instances.architectures import ARCHITECTURES
from instances.runtimes import RUNTIMES
from instances.runtimes.serving import serving_chain

BATCH, BYTES = 4, 2  # sequences, and bytes of an element


@pytest.mark.parametrize(
    ("name", "before", "layer", "after"),
    [
        # The positions are the same for all sequences; GELU reads and writes 4 * 768 numbers a sequence.
        ("gpt2", BYTES * (2 * BATCH * 768 + 768), BYTES * BATCH * 2 * 3072, BYTES * BATCH * (768 + 50257)),
        # Numbers of tokens have 8 bytes; the two halves of the gate and their product are live together.
        ("llama-2-7b", BATCH * (8 + BYTES * 4096), BYTES * BATCH * 3 * 11008, BYTES * BATCH * (4096 + 32000)),
    ],
)
def test_a_layer_needs_room_for_its_largest_node_not_for_all_of_them(
    name: str, before: int, layer: int, after: int
) -> None:
    """Activations of one token of each sequence by hand, from the sizes in the papers."""
    graph = ARCHITECTURES[name].build(phase="decode", batch=BATCH, context=100, element_bytes=BYTES)
    question = serving_chain(graph, Platform(2, 64e9, 1e13, fit=True), RUNTIMES["vllm"])
    layers = len(question.instance.graph.names) - 2
    assert question.instance.needs.tolist() == [before, *[layer] * layers, after]
