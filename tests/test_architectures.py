"""Parametric architectures: published sizes, closed forms, and the rules of the graphs they make."""

import numpy as np
import pytest

from instances.architectures import ARCHITECTURES
from instances.costs import Device
from instances.errors import InputError

every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)

TORCHVISION = "documentation of torchvision's pre-trained weights (num_params, GFLOPS as multiply-adds)"
HUGGING_FACE = "parameter counts of the published BertModel and GPT2LMHeadModel checkpoints"

# name, parameters, multiply-adds / 1e9 at batch 1, source
PUBLISHED = [
    ("vgg16", 138_357_544, 15.47, TORCHVISION),
    ("vgg19", 143_667_240, 19.63, TORCHVISION),
    ("resnet50", 25_557_032, 4.09, TORCHVISION),
    ("resnet152", 60_192_808, 11.51, TORCHVISION),
    ("mobilenet-v2", 3_504_872, 0.30, TORCHVISION),
    # torchvision publishes 27,161,264; its auxiliary classifier, absent at inference, holds the difference.
    ("inception-v3", 27_161_264 - 3_326_696, 5.71, TORCHVISION),
    ("densenet121", 7_978_856, 2.83, TORCHVISION),
    ("vit-b16", 86_567_656, 17.56, TORCHVISION),
    ("bert-base", 109_482_240, 22.347 / 2, HUGGING_FACE),
    ("bert-large", 335_141_888, None, HUGGING_FACE),
    ("gpt2", 124_439_808, None, HUGGING_FACE),
]


def totals(name, **dims):
    return ARCHITECTURES[name].build(**dims).attributes


@pytest.mark.parametrize(("name", "parameters", "giga", "source"), PUBLISHED)
def test_published_parameters_and_multiply_adds(name, parameters, giga, source):
    """Parameters are exact, multiply-adds within the rounding of what is published."""
    found = totals(name)
    assert found["parameter_count"] == parameters, source
    if giga is not None:
        assert found["multiply_adds"] / 1e9 == pytest.approx(giga, rel=0.005), source


def transformer_layers(layers, tokens, hidden):
    """Multiply-adds: 12 h² weights a layer and token, and two products of tokens by tokens by h."""
    return layers * (tokens * 12 * hidden**2 + 2 * tokens**2 * hidden)


@pytest.mark.parametrize("sequence", [1, 128, 512])
@pytest.mark.parametrize(("name", "layers", "hidden"), [("bert-base", 12, 768), ("bert-large", 24, 1024)])
def test_bert_multiply_adds_in_closed_form(name, layers, hidden, sequence):
    """The encoder, and a pooler that sees the first token."""
    expected = transformer_layers(layers, sequence, hidden) + hidden**2
    assert totals(name, sequence=sequence)["multiply_adds"] == expected


@pytest.mark.parametrize("sequence", [1, 128, 1024])
def test_gpt2_multiply_adds_in_closed_form(sequence):
    """The decoder, and a head that scores the vocabulary at every position."""
    expected = transformer_layers(12, sequence, 768) + sequence * 768 * 50257
    assert totals("gpt2", sequence=sequence)["multiply_adds"] == expected


@pytest.mark.parametrize("chunks", [1, 3, 20])
def test_gnmt_size_in_closed_form_and_whatever_the_chunks(chunks):
    """17 recurrent layers, attention, two embeddings and a head; unrolling changes no total."""
    h, vocabulary, s = 1024, 32000, 20
    inputs = [h, h, 2 * h] + 6 * [h] + [h] + 7 * [2 * h]  # encoder both ways, encoder above, decoder
    weights = sum(4 * h * (size + h) for size in inputs)
    parameters = weights + 17 * 4 * h + (2 * h * h + h) + 2 * vocabulary * h + vocabulary * (h + 1)
    multiply_adds = s * (weights + 2 * h * h + h * vocabulary) + 2 * s * s * h
    found = totals("gnmt", sequence=s, chunks=chunks)
    assert found["parameter_count"] == parameters
    assert found["multiply_adds"] == multiply_adds


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
    split = graph.names.index("encoder.split")
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
    ],
)
def test_graphs_are_at_operator_level(name, least):
    assert ARCHITECTURES[name].build().n >= least


@every_architecture
def test_only_the_inputs_of_the_network_have_no_work(name):
    """Views are no nodes, so whatever is not an input moves bytes at least."""
    graph = ARCHITECTURES[name].build()
    idle = np.flatnonzero(graph.work == 0)
    labels = {graph.names[v].split(".")[-1] for v in idle}
    assert len(set(graph.names)) == graph.n
    assert not np.isin(graph.edges[:, 1], idle).any()
    assert labels in ({"image"}, {"tokens"}, {"tokens", "segments", "attention_mask"})
    assert graph.time_unit == "s"


@every_architecture
def test_a_batch_multiplies_the_operations_and_not_the_parameters(name):
    single, triple = totals(name), totals(name, batch=3)
    assert triple["multiply_adds"] == 3 * single["multiply_adds"]
    assert triple["parameter_count"] == single["parameter_count"]
    assert 2 * single["multiply_adds"] < single["flops"] < 2.2 * single["multiply_adds"]


@every_architecture
def test_same_dimensions_same_graph_and_other_dimensions_another(name):
    build = ARCHITECTURES[name].build
    assert build().content_hash == build(batch=1).content_hash
    assert build().content_hash != build(batch=2).content_hash


@every_architecture
def test_half_the_width_halves_tensors_and_parameters(name):
    """Token indices and masks keep their eight bytes."""
    wide, narrow = (ARCHITECTURES[name].build(element_bytes=width) for width in (4, 2))
    is_input = wide.work[wide.tensors.producer] == 0
    assert np.array_equal(wide.tensors.bytes[~is_input], 2 * narrow.tensors.bytes[~is_input])
    assert wide.parameter_total == 2 * narrow.parameter_total


@every_architecture
def test_weights_as_nodes_moves_parameters_to_sources(name):
    """Each parameter is a source that holds and outputs its bytes; the rest of the graph is as before."""
    plain = ARCHITECTURES[name].build()
    graph = ARCHITECTURES[name].build(weights_as_nodes=True)
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
    assert ARCHITECTURES["vgg16"].build().parameter_total == 4 * 138_357_544


def test_gpt2_ties_the_head_to_the_embedding():
    """One parameter, used by two nodes."""
    graph = ARCHITECTURES["gpt2"].build()
    words = next(p for p in graph.parameters if p.name == "embeddings.words")
    assert words.bytes == 50257 * 768 * 4
    assert [graph.names[v] for v in words.users] == ["embeddings.embedding", "head.matmul"]


@pytest.mark.parametrize("name", ["gpt2", "vit-b16"])
def test_query_key_and_value_are_three_outputs_of_a_split(name):
    """Each is a third of the joint projection and has one reader."""
    graph = ARCHITECTURES[name].build()
    splits = [v for v, label in enumerate(graph.names) if label.endswith(".split")]
    assert len(splits) == 12
    for v in splits:
        tensors = slice(graph.output_start[v], graph.output_start[v + 1])
        joint = graph.predecessors[1][graph.predecessors[0][v]]
        assert list(graph.tensors.bytes[tensors]) == 3 * [graph.tensors.bytes[graph.output_start[joint]] / 3]
        assert list(np.diff(graph.tensors.start)[tensors]) == [1, 1, 1]


def test_attention_mask_of_bert_reaches_every_layer():
    graph = ARCHITECTURES["bert-base"].build()
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


@pytest.mark.parametrize("value", [0, -1, 1.5, float("nan"), "8"])
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
        ("vit-b16", {"image": 15}, "vit-b16: embeddings.conv: .* 15 by 15 .* larger image"),
    ],
)
def test_a_dimension_that_does_not_suit_the_network_is_refused(name, dims, message):
    with pytest.raises(InputError, match=message):
        ARCHITECTURES[name].build(**dims)


def test_registry_keys_are_the_names():
    assert [architecture.name for architecture in ARCHITECTURES.values()] == list(ARCHITECTURES)
    assert all(architecture.dims["batch"] == 1 for architecture in ARCHITECTURES.values())
