"""From a decoder to its serving question."""

from __future__ import annotations

import pytest

from instances import ComputationGraph, Instance, Platform
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
    question = serving_chain(Instance(graph, Platform(2, 64e9, 1e13, fit=True)), RUNTIMES["vllm"])
    layers = len(question.instance.graph.names) - 2
    assert question.instance.needs.tolist() == [before, *[layer] * layers, after]


def test_bug_layers_passed_nothing_between_them_where_each_is_a_node() -> None:
    """Only scores take no room: layers that are whole keep caches, too, and send their tensors to the next one."""
    dims = {"phase": "prefill", "sequence": 64, "element_bytes": 2}
    chains = [
        serving_chain(Instance(graph, Platform(2, 1e6, 1e12)), RUNTIMES["vllm"]).instance.graph
        for level in ("operator", "layer")
        for graph in [ARCHITECTURES["llama-2-7b"].build(level=level, **dims)]
    ]
    fine, coarse = (graph.tensors.bytes.tolist() for graph in chains)
    assert fine == coarse
    assert min(coarse) > 0


def test_bug_parameters_between_two_states_of_a_layer_were_dropped() -> None:
    """What passes from the state of a convolution to that of a scan are no scores."""
    graph = ComputationGraph.from_edges(
        [(v, v + 1) for v in range(5)],
        [1.0] * 6,
        [8.0] * 6,
        [0.0, 64.0, 0.0] * 2,
        names=[f"layers.{i}.mixer.{part}" for i in range(2) for part in ("convolution", "product", "scan")],
        state_bytes=[16.0, 0.0, 16.0] * 2,
        attributes={"dims": {"context": 4, "batch": 1, "sequence": 1}},
    )
    question = serving_chain(Instance(graph, Platform(2, 1.0, 1e6)), RUNTIMES["vllm"])
    assert question.source is not None
    operators = question.source.operators
    assert operators.param_bytes.sum() == 128.0
    assert operators.tensors.bytes.tolist() == graph.tensors.bytes.tolist()
