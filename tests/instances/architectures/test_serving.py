"""Decoders as they are served: published figures, and closed forms written down independently."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from instances import ComputationGraph, InputError, Instance, Partition, Platform, load_graph
from instances.architectures import ARCHITECTURES
from instances.devices import Device
from instances.planning.chains import collapse


class Decoder(NamedTuple):
    """Sizes as their papers give them; `active` counts the weights of a layer that a token is multiplied with."""

    layers: int
    hidden: int
    heads: int
    key_heads: int
    width: int
    active: int
    vocabulary: int


DECODERS = {
    "gpt2": Decoder(12, 768, 12, 12, 64, 12 * 768**2, 50257),
    "llama-2-7b": Decoder(32, 4096, 32, 32, 128, 4 * 4096**2 + 3 * 4096 * 11008, 32000),
    "llama-3-8b": Decoder(32, 4096, 32, 8, 128, 2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336, 128256),
    "llama-3-70b": Decoder(80, 8192, 64, 8, 128, 2 * 8192**2 + 2 * 8192 * 1024 + 3 * 8192 * 28672, 128256),
    "mixtral-8x7b": Decoder(
        32, 4096, 32, 8, 128, 2 * 4096**2 + 2 * 4096 * 1024 + 4096 * 8 + 2 * 3 * 4096 * 14336, 32000
    ),
}
every_decoder = pytest.mark.parametrize("name", DECODERS)


def build(name: str, **dims: Any) -> ComputationGraph:
    return ARCHITECTURES[name].build(**dims)


def test_those_are_all_decoders() -> None:
    assert {name for name, architecture in ARCHITECTURES.items() if architecture.served} == set(DECODERS)


@pytest.mark.parametrize(
    ("name", "per_token"),
    [
        ("llama-3-8b", 2 * 8 * 128 * 32 * 2),
        ("llama-3-70b", 320 * 2**10),
        ("mixtral-8x7b", 128 * 2**10),
        ("llama-2-7b", 512 * 2**10),  # so that 4096 tokens take the 2 GB that are told of it
    ],
)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_published_bytes_of_keys_and_values_of_a_token(name: str, per_token: int, phase: str) -> None:
    """In 16 bits; the cache is no parameter, and no tensor that is sent."""
    graph = build(name, phase=phase, context=4096, sequence=16, batch=2, element_bytes=2)
    assert graph.state_bytes.sum() == per_token * 2 * 4096
    half = build(name, phase=phase, context=4096, sequence=16, batch=2, element_bytes=2, kv_bytes=1)
    assert half.state_bytes.sum() == per_token * 4096
    assert half.parameter_total == graph.parameter_total


@pytest.mark.parametrize(
    ("name", "gigabytes"), [("llama-2-7b", 13.5), ("llama-3-8b", 16.1), ("llama-3-70b", 141), ("mixtral-8x7b", 93.4)]
)
def test_published_bytes_of_weights(name: str, gigabytes: float) -> None:
    """Size of the checkpoint in 16 bits."""
    assert build(name, phase="decode", element_bytes=2).parameter_total / 1e9 == pytest.approx(gigabytes, rel=0.004)


@pytest.mark.parametrize(("sequence", "context"), [(1, 1), (1, 1000), (3, 64), (128, 128), (128, 1000)])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
@every_decoder
def test_operations_and_cache_in_closed_form(name: str, phase: str, sequence: int, context: int) -> None:
    """Each token meets the weights of a layer, and all keys and values; the head sees one token a sequence."""
    d = DECODERS[name]
    batch = 4
    graph = build(name, phase=phase, sequence=sequence, context=context, batch=batch, element_bytes=2, kv_bytes=1)
    layer = sequence * d.active + 2 * sequence * context * d.heads * d.width
    assert graph.attributes["multiply_adds"] == batch * (d.layers * layer + d.hidden * d.vocabulary)
    assert graph.state_bytes.sum() == 2 * d.layers * d.key_heads * d.width * context * batch
    assert (graph.state_bytes > 0).sum() == 2 * d.layers
    layers = build(name, level="layer", phase=phase, sequence=sequence, context=context, batch=batch, kv_bytes=1)
    assert layers.state_bytes.sum() == graph.state_bytes.sum()
    assert set(layers.state_bytes.tolist()) == {0, graph.state_bytes.sum() / d.layers}


@every_decoder
def test_prefill_of_a_text_is_the_pass_over_it_but_for_the_head(name: str) -> None:
    """With the same elements the products are the same; 127 tokens have no scores."""
    forward, prefill = build(name), build(name, phase="prefill")
    d = DECODERS[name]
    less = forward.attributes["multiply_adds"] - prefill.attributes["multiply_adds"]
    assert less == 127 * d.hidden * d.vocabulary
    assert prefill.parameter_total == forward.parameter_total
    assert prefill.attributes["parameter_count"] == forward.attributes["parameter_count"]
    assert not forward.state_bytes.any()
    assert build(name, phase="forward").content_hash == forward.content_hash


@pytest.mark.parametrize("name", ["gpt2", "llama-2-7b", "llama-3-8b", "llama-3-70b"])
def test_decode_reads_all_weights_and_the_cache_once(name: str) -> None:
    """On a device that only memory slows down, at 1 byte per second; activations are what is left, below 2 %."""
    device = Device(1e30, 1.0)
    graph = build(name, phase="decode", context=1000, element_bytes=2, device=device)
    looked_up = DECODERS[name].vocabulary * DECODERS[name].hidden * 2 if name != "gpt2" else 0
    read = graph.parameter_total - looked_up + graph.state_bytes.sum()
    assert read * 0.99 < graph.work.sum() < read * 1.02


def test_bytes_of_attention_in_decode_by_hand() -> None:
    """Llama 3, one token: a query of 4096, a key of 1024, read and written, the keys kept, 32 times 500 scores."""
    device = Device(1e30, 1.0)
    dims = {"phase": "decode", "context": 500, "element_bytes": 2, "kv_bytes": 1}
    graph = build("llama-3-8b", device=device, **dims)
    first = graph.names.index("decoder.0.attention.matmul")
    assert graph.work[first] == 2 * 4096 + 2 * 1024 + 1024 + 500 * 1024 + 2 * 32 * 500
    assert graph.state_bytes[first] == 500 * 1024
    twice = build("llama-3-8b", device=device, **{**dims, "context": 1000})
    assert twice.work[first] - graph.work[first] == 500 * 1024 + 2 * 32 * 500


@pytest.mark.parametrize(("batch", "busy"), [(1, 2), (2, 4), (3, 6), (4, 8), (16, 8)])
def test_only_busy_experts_work_and_all_are_held(batch: int, busy: int) -> None:
    """Their weights are read as often as they are busy, each of the eight alike."""
    device = Device(1e30, 1.0)
    graph = build("mixtral-8x7b", level="layer", phase="decode", batch=batch, element_bytes=2, device=device)
    experts = np.array([name.startswith("decoder.0.expert") for name in graph.names])
    weights = 3 * 4096 * 14336 * 2
    assert set(graph.param_bytes[experts].tolist()) == {weights}
    assert len(set(graph.work[experts].tolist())) == 1
    assert graph.work[experts].sum() == pytest.approx(busy * weights, rel=0.003)
    assert graph.attributes["multiply_adds"] % batch == 0


@pytest.mark.parametrize(
    ("dims", "expected"),
    [
        ({"phase": "prefill"}, (128, 128)),
        ({"phase": "prefill", "sequence": 64}, (64, 64)),
        ({"phase": "prefill", "context": 512}, (512, 512)),
        ({"phase": "prefill", "context": 512, "sequence": 64}, (64, 512)),
        ({"phase": "decode"}, (1, 128)),
        ({"phase": "decode", "context": 512}, (1, 512)),
        ({"phase": "decode", "sequence": 4}, (4, 128)),
    ],
)
def test_sequence_and_context_follow_each_other(dims: dict[str, Any], expected: tuple[int, int]) -> None:
    chosen = load_graph("gpt2", dims=dims).attributes["dims"]
    assert (chosen["sequence"], chosen["context"], chosen["kv_bytes"]) == (*expected, 4)


@pytest.mark.parametrize(
    ("name", "dims", "message"),
    [
        (
            "gpt2",
            {"phase": "decoding"},
            r"gpt2: phase is 'decoding'; did you mean decode\? Give one of",
        ),
        ("gpt2", {"phase": 1}, "phase is 1"),
        ("gpt2", {"context": 64}, "gpt2: context is 64, but only phase=prefill and phase=decode have a cache"),
        ("gpt2", {"kv_bytes": 1, "phase": "forward"}, "kv_bytes is 1, but only"),
        ("gpt2", {"phase": "decode", "context": 0}, "dimension context is 0"),
        ("gpt2", {"phase": "decode", "context": "long"}, "dimension context is long"),
        ("gpt2", {"phase": "prefill", "sequence": 64, "context": 63}, "gpt2: context is 63, less than the sequence"),
        ("gpt2", {"phase": "decode", "context": 1025}, "gpt2: context is 1025, but the network knows 1024"),
        ("llama-2-7b", {"phase": "prefill", "sequence": 4097}, "llama-2-7b: context is 4097, but the network knows"),
        ("bert-base", {"phase": "decode"}, "bert-base: there is no dimension 'phase'"),
        ("gpt2", {"phase": "decode", "training": True}, "gpt2: phase is decode, but training keeps no cache"),
    ],
)
def test_what_cannot_be_served_is_refused(name: str, dims: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(name, **dims)


def test_a_training_plan_has_no_cache() -> None:
    with pytest.raises(InputError, match=r"gpt2: node .* keeps 98304 bytes from run to run"):
        collapse(build("gpt2", phase="decode", context=32))


def test_weights_as_nodes_leave_the_cache_where_it_is() -> None:
    plain, graph = (build("gpt2", phase="decode", weights_as_nodes=nodes) for nodes in (False, True))
    kept = {name: size for name, size in zip(graph.names, graph.state_bytes.tolist(), strict=True) if size}
    assert kept == {name: size for name, size in zip(plain.names, plain.state_bytes.tolist(), strict=True) if size}


def test_memory_of_a_stage_is_weights_cache_and_activations() -> None:
    """Llama 3 in four equal stages: each holds a quarter of the cache."""
    graph = build("llama-3-8b", level="layer", phase="decode", context=8192, batch=8, element_bytes=2)
    names = [name for name in graph.names if name.startswith("decoder.")]
    stage = {name: i // 8 for i, name in enumerate(names)}
    block = [stage.get(name, 3 if name == "head" else 0) for name in graph.names]
    partition = Partition(Instance(graph, Platform(4, 25e9, memory=8e9)), block)
    assert partition.state_bytes.tolist() == [2 * 8 * 128 * 8 * 2 * 8192 * 8] * 4
    assert partition.param_bytes.sum() >= graph.parameter_total
    held = partition.param_bytes + partition.state_bytes + partition.peaks
    assert partition.costs.overflow * 25e9 == pytest.approx(np.maximum(0, held - 8e9))
    assert (partition.peaks < 0.01 * held).all()
