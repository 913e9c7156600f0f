"""Parametric architectures: the rules of the graphs they make."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from instances.architectures import ARCHITECTURES
from instances.devices import Device
from instances.errors import InputError, assuming

every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)

INPUTS = {
    *("tokens", "segments", "attention_mask", "source", "target", "image", "spectrogram", "state", "last"),
    *("last_and_coarse", "numbers", "index", "latent", "step", "prompt"),
}


@cache
def build(name, **dims):
    return ARCHITECTURES[name].build(**dims)


@pytest.mark.parametrize("chunks", [1, 3, 20])
def test_gnmt_has_one_lstm_per_layer_and_chunk(chunks):
    graph = ARCHITECTURES["gnmt"].build(sequence=20, chunks=chunks)
    cells = [v for v, name in enumerate(graph.names) if name.split(".")[-1].startswith("lstm")]
    assert len(cells) == 17 * chunks
    assert {graph.output_start[v + 1] - graph.output_start[v] for v in cells} == {3}


@pytest.mark.parametrize(("direction", "order"), [("forward", [0, 1, 2]), ("backward", [2, 1, 0])])
def test_gnmt_passes_hidden_and_cell_state_along_the_sequence(direction, order):
    """Each cell reads its chunk and both states of the cell before; backwards from the last chunk."""
    graph = ARCHITECTURES["gnmt"].build(sequence=12, chunks=3)
    split = graph.names.index("encoder.embeddings.split")
    cells = [v for v, name in enumerate(graph.names) if name.startswith(f"encoder.0.{direction}.lstm")]
    for i, cell in enumerate(cells):
        state = [(cells[i - 1], 1), (cells[i - 1], 2)] if i > 0 else []
        assert inputs_of(graph, cell) == {(split, order[i]), *state}


def inputs_of(graph, node):
    """Producer and output number of each tensor that the node reads."""
    start, tensors = graph.inputs
    read = tensors[start[node] : start[node + 1]]
    producers = graph.tensors.producer[read]
    return set(zip(producers.tolist(), (read - graph.output_start[producers]).tolist(), strict=True))


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("bert-base", 150),
        ("bert-large", 300),
        ("gpt2", 150),
        ("vit-b16", 150),
        ("resnet50", 120),
        ("resnet152", 400),
        ("inception-v3", 250),
        ("densenet121", 300),
        ("mobilenet-v2", 120),
        ("gnmt", 100),
        ("vgg19", 40),
        ("llama-3-70b", 1500),
        ("mixtral-8x7b", 1800),
        ("t5-base", 450),
        ("whisper-base", 300),
        ("nasnet-mobile", 800),
        ("unet-sd1", 800),
        ("wavernn", 300),
        ("dlrm", 70),
    ],
)
def test_graphs_are_at_operator_level(name, least):
    assert build(name).n >= least


@every_architecture
def test_only_the_inputs_of_the_network_have_no_work(name):
    """Views are no nodes, so whatever is not an input moves bytes at least."""
    graph = build(name)
    idle = np.flatnonzero(graph.work == 0)
    labels = {graph.names[v].split(".")[-1] for v in idle}
    assert len(set(graph.names)) == graph.n
    assert not np.isin(graph.edges[:, 1], idle).any()
    assert labels <= INPUTS
    assert graph.time_unit == "s"


@every_architecture
def test_a_batch_multiplies_the_operations_and_not_the_parameters(name):
    single, triple = build(name).attributes, build(name, batch=3).attributes
    assert triple["multiply_adds"] == 3 * single["multiply_adds"]
    assert triple["parameter_count"] == single["parameter_count"]
    assert 2 * single["multiply_adds"] < single["flops"] < 2.2 * single["multiply_adds"]


@every_architecture
def test_same_dimensions_same_graph_and_other_dimensions_another(name):
    assert build(name).content_hash == build(name, batch=1).content_hash
    assert build(name).content_hash != build(name, batch=3).content_hash


@every_architecture
def test_half_the_width_halves_tensors_and_parameters(name):
    """Token indices and masks keep their eight bytes."""
    wide, narrow = build(name), build(name, element_bytes=2)
    is_input = wide.work[wide.tensors.producer] == 0
    assert np.array_equal(wide.tensors.bytes[~is_input], 2 * narrow.tensors.bytes[~is_input])
    assert wide.parameter_total == 2 * narrow.parameter_total


@every_architecture
def test_weights_as_nodes_moves_parameters_to_sources(name):
    """Each parameter is a source that holds and outputs its bytes; the rest of the graph is as before."""
    plain, graph = build(name), build(name, weights_as_nodes=True)
    held = np.flatnonzero(graph.param_bytes > 0)
    assert not graph.parameters
    assert not np.isin(graph.edges[:, 1], held).any()
    assert (graph.work[held] == 0).all()
    assert np.array_equal(graph.tensors.bytes[graph.output_start[held]], graph.param_bytes[held])
    assert (np.diff(graph.tensors.start)[graph.output_start[held]] > 0).all()
    assert graph.parameter_total == plain.parameter_total

    others = [v for v in range(graph.n) if v not in set(held.tolist())]
    assert [graph.names[v] for v in others] == list(plain.names)
    assert np.array_equal(graph.work[others], plain.work)
    assert sorted(named_edges(graph, skip=held)) == sorted(named_edges(plain, skip=[]))


def named_edges(graph, skip):
    kept = ~np.isin(graph.edges[:, 0], skip)
    return [(graph.names[u], graph.names[v]) for u, v in graph.edges[kept].tolist()]


def test_the_parameters_of_an_image_network_weigh_four_bytes_each():
    """VGG has no running moments, so its bytes are its published parameters."""
    assert build("vgg16").parameter_total == 4 * 138_357_544


def test_gpt2_ties_the_head_to_the_embedding():
    """One parameter, used by two nodes."""
    graph = build("gpt2")
    words = next(p for p in graph.parameters if p.name == "embeddings.words")
    assert words.bytes == 50257 * 768 * 4
    assert [graph.names[v] for v in words.users] == ["embeddings.embedding", "head.matmul"]


@pytest.mark.parametrize("name", ["gpt2", "vit-b16"])
def test_query_key_and_value_are_three_outputs_of_a_split(name):
    """Each is a third of the joint projection and has one reader."""
    graph = build(name)
    splits = [v for v, label in enumerate(graph.names) if label.endswith(".split")]
    assert len(splits) == 12
    for v in splits:
        tensors = slice(graph.output_start[v], graph.output_start[v + 1])
        joint = graph.predecessors[1][graph.predecessors[0][v]]
        assert list(graph.tensors.bytes[tensors]) == 3 * [graph.tensors.bytes[graph.output_start[joint]] / 3]
        assert list(np.diff(graph.tensors.start)[tensors]) == [1, 1, 1]


def test_attention_mask_of_bert_reaches_every_layer():
    graph = build("bert-base")
    mask = graph.names.index("embeddings.mask")
    assert np.count_nonzero(graph.edges[:, 0] == mask) == 12


def test_work_is_the_roofline_of_the_device():
    """The first convolution of ResNet-50, computed by hand, on a device where each roof binds."""
    flops = 2 * 64 * 112 * 112 * 3 * 7 * 7
    moved = 4 * (3 * 224 * 224 + 64 * 3 * 7 * 7 + 64 * 112 * 112)
    for device, expected in [(Device(1.0, 1e12), flops), (Device(1e12, 1.0), moved)]:
        graph = ARCHITECTURES["resnet50"].build(device=device)
        assert graph.work[graph.names.index("stem.conv")] == pytest.approx(expected)


def test_source_names_the_dimensions_and_the_device():
    graph = ARCHITECTURES["bert-base"].build(batch=8, device=Device(3e14, 2e12))
    assert graph.name == "bert-base"
    assert "batch=8, sequence=128, element_bytes=4" in graph.source
    assert "3e+14 flop/s and 2e+12 bytes/s" in graph.source
    assert graph.attributes["dims"] == {"batch": 8, "sequence": 128, "element_bytes": 4}


@every_architecture
def test_an_unknown_dimension_is_refused_and_the_valid_ones_are_named(name):
    with pytest.raises(InputError, match=r"no dimension 'colour'; it has batch, .*element_bytes"):
        ARCHITECTURES[name].build(colour=3)


@pytest.mark.parametrize("value", [0, -1, 2**31, 1.5, float("nan"), "8"])
@every_architecture
def test_a_dimension_must_be_a_positive_whole_number(name, value):
    with pytest.raises(InputError, match=f"{name}: dimension batch is {value}; give .* batch, .*element_bytes"):
        ARCHITECTURES[name].build(batch=value)


@pytest.mark.parametrize(
    ("name", "dims", "message"),
    [
        ("bert-base", {"sequence": 513}, "bert-base: sequence is 513, but the network knows 512"),
        ("gpt2", {"sequence": 1025}, "gpt2: sequence is 1025, but the network knows 1024"),
        ("gnmt", {"chunks": 33}, "gnmt: chunks is 33, more than the sequence of 32"),
        ("vgg16", {"image": 31}, "vgg16: stage4.max_pool: .* 1 by 1 .* larger image"),
        ("whisper-base", {"sequence": 449}, "whisper-base: sequence is 449, but the network knows 448"),
        ("resnet50", {"image": 2**31 - 1}, "resnet50: .*too large"),
        ("unet-sd1", {"latent": 60}, "unet-sd1: latent is 60; give a multiple of 8"),
        ("vit-b16", {"image": 15}, "vit-b16: embeddings.conv: .* 15 by 15 .* larger image"),
    ],
)
def test_a_dimension_that_does_not_suit_the_network_is_refused(name, dims, message):
    with pytest.raises(InputError, match=message):
        ARCHITECTURES[name].build(**dims)


def test_too_many_operators_are_refused(monkeypatch):
    monkeypatch.setattr("instances.architectures.builder._MOST_OPERATORS", 1000)
    with pytest.raises(InputError, match="wavernn: more than 1000 operators; choose smaller dimensions"):
        ARCHITECTURES["wavernn"].build(samples=10**6)


def test_registry_keys_are_the_names():
    assert [architecture.name for architecture in ARCHITECTURES.values()] == list(ARCHITECTURES)
    assert all(architecture.dims["batch"] == 1 for architecture in ARCHITECTURES.values())


def test_queries_of_llama_share_their_keys():
    """Eight heads of keys and values for 32 of queries, in Llama 3 alone."""
    for name, width in (("llama-2-7b", 4096), ("llama-3-8b", 1024)):
        graph = build(name)
        for part, expected in (("query", 4096), ("key", width), ("value", width)):
            v = graph.names.index(f"decoder.5.attention.{part}.matmul")
            assert graph.tensors.bytes[graph.output_start[v]] == 128 * expected * 4


def test_each_expert_of_mixtral_sees_a_quarter_of_the_tokens():
    """Two of eight experts a token; together they hold all but 1.6 billion parameters."""
    graph = build("mixtral-8x7b")
    dispatch = graph.names.index("decoder.0.router.dispatch")
    sizes = graph.tensors.bytes[graph.output_start[dispatch] : graph.output_start[dispatch + 1]]
    assert list(sizes) == 8 * [128 // 4 * 4096 * 4]
    experts = [".expert" in name for name in graph.names]
    assert graph.param_bytes[experts].sum() / 4 == 32 * 8 * 3 * 4096 * 14336


def test_decoders_read_the_memory_in_every_layer():
    """Keys and values of each cross-attention."""
    for name, memory, layers in (
        ("t5-small", "encoder.norm.rms_norm", 6),
        ("whisper-base", "encoder.norm.layer_norm", 6),
        ("transformer-base", "encoder.5.feed_forward.layer_norm", 6),
    ):
        graph = build(name)
        assert np.count_nonzero(graph.edges[:, 0] == graph.names.index(memory)) == 2 * layers


def test_t5_ties_its_three_uses_of_the_words():
    graph = build("t5-small")
    words = next(p for p in graph.parameters if p.name == "words")
    users = ["encoder.embeddings.embedding", "decoder.embeddings.embedding", "head.matmul"]
    assert [graph.names[v] for v in words.users] == users


def test_skips_of_the_unet_join_images_of_one_size():
    """Twelve images skip the lower half, the last one in first."""
    graph = build("unet-sd1", level="layer")
    joined = [
        (graph.names[u], graph.names[v])
        for u, v in graph.edges.tolist()
        if graph.names[u].startswith(("down", "stem")) and graph.names[v].startswith("up")
    ]
    assert len(joined) == 12
    assert ("down3.residual1", "up3.residual0") in joined
    assert ("stem", "up0.residual2") in joined


def test_a_normal_cell_of_nasnet_reads_the_two_cells_before():
    graph = build("nasnet-mobile", level="layer")
    read = {(graph.names[u], graph.names[v]) for u, v in graph.edges.tolist()}
    assert {("stage1.1.join", "stage1.3.fit"), ("stage1.2.join", "stage1.3.project")} <= read


def test_pairs_of_all_features_interact_in_dlrm():
    graph = build("dlrm", batch=2)
    v = graph.names.index("interaction.matmul")
    assert graph.tensors.bytes[graph.output_start[v]] == 2 * 27 * 27 * 4
    assert np.count_nonzero(graph.edges[:, 1] == graph.names.index("interaction.concat")) == 27


def test_t5_does_not_scale_its_scores():
    """Only what the tied head reads is scaled."""
    assert [name for name in build("t5-small").names if name.endswith(".scale")] == ["head.scale"]


def test_attention_of_the_unet_has_eight_heads():
    """Each pixel scores each pixel, and each token of the prompt, in each head."""
    graph = build("unet-sd1", latent=32)
    for branch, keys in (("attention", 32 * 32), ("cross_attention", 77)):
        v = graph.names.index(f"down0.attention0.{branch}.softmax")
        assert graph.tensors.bytes[graph.output_start[v]] == 8 * 32 * 32 * keys * 4


def test_wavernn_passes_its_state_from_sample_to_sample():
    """Each cell reads the state before, in its matrix product and in its gate; each half of it has a head."""
    graph = build("wavernn", samples=3)
    named = {(graph.names[u], graph.names[v]) for u, v in graph.edges.tolist()}
    cells = [f"{step}.cell.gated_unit" for step in range(3)]
    for step, (before, after) in enumerate(zip(["state", *cells], cells, strict=False)):
        assert {(before, f"{step}.cell.matmul_3"), (before, after)} <= named
        split = after.replace("gated_unit", "split")
        assert {(after, split), (split, f"{step}.coarse.matmul"), (split, f"{step}.fine.matmul")} <= named


@pytest.mark.parametrize(
    ("name", "dims", "stated"),
    [
        ("bert-base", {"batch": 3}, {"dims.sequence", "dims.element_bytes", "level"}),
        ("gpt2", {"phase": "decode"}, {"dims.batch", "dims.context", "dims.element_bytes", "level"}),
    ],
)
def test_defaults_are_those_of_dimensions_that_nobody_states(name: str, dims: dict[str, Any], stated: set[str]) -> None:
    """The sequence of a served decoder follows from its phase."""
    with assuming({"level"}) as said:
        ARCHITECTURES[name].assume_defaults(build(name, **dims), dims)
    assert said.keys() == stated
