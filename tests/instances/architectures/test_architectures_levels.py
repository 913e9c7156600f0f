"""Layers and backward operators of the parametric architectures."""

from collections import Counter
from functools import cache

import numpy as np
import pytest

from instances.architectures import ARCHITECTURES, NetworkBuilder
from instances.architectures.architecture import backward_operators, merge_layers
from instances.devices import Device
from instances.errors import InputError

every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)
both_steps = pytest.mark.parametrize("training", [False, True])


@cache
def build(name, level, training):
    return ARCHITECTURES[name].build(level=level, training=training)


@both_steps
@every_architecture
def test_layers_hold_all_work_and_parameters_of_their_operators(name, training):
    operators, layers = build(name, "operator", training), build(name, "layer", training)
    assert layers.n < operators.n
    assert layers.work.sum() == pytest.approx(operators.work.sum(), rel=1e-12)
    assert layers.parameter_total == operators.parameter_total
    assert {**layers.attributes, "level": "operator"} == operators.attributes


@both_steps
@every_architecture
def test_layers_read_from_each_other_what_their_operators_read(name, training):
    """The layer of an operator is the longest that begins its name."""
    operators, layers = build(name, "operator", training), build(name, "layer", training)
    layer = [longest_prefix(operator, set(layers.names)) for operator in operators.names]
    work = Counter()
    for label, seconds in zip(layer, operators.work.tolist(), strict=True):
        work[label] += seconds
    assert work == pytest.approx(dict(zip(layers.names, layers.work.tolist(), strict=True)))
    assert traffic(operators, layer) == traffic(layers, layers.names)


def longest_prefix(name, layers):
    while name not in layers:
        name = name.rpartition(".")[0]
    return name


def traffic(graph, labels):
    """Bytes from label to label, each tensor once per reading label."""
    moved = Counter()
    reads = {(t, labels[u], labels[v]) for t, (u, v) in zip(graph.edge_tensor, graph.edges.tolist(), strict=True)}
    for tensor, source, target in reads:
        if source != target:
            moved[source, target] += int(graph.tensors.bytes[tensor])
    return moved


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("bert-base", 3 + 1 + 12 + 1),  # inputs, embeddings, layers, pooler
        ("llama-3-70b", 1 + 1 + 80 + 1),  # tokens, embeddings, layers, head
        ("mixtral-8x7b", 1 + 1 + 32 * (1 + 8 + 1) + 1),  # experts are layers of their own
        ("resnet50", 1 + 1 + 16 + 1),  # image, stem, blocks, classifier
        ("vgg19", 1 + 16 + 5 + 1 + 3),  # image, convolutions, poolings
        ("gnmt", (1 + 3 + 7 + 1) + (1 + 8 + 1) + 1),  # encoder with embeddings, decoder with attention, head
        ("dlrm", 1 + 26 + 4 + 1 + 3),
    ],
)
def test_number_of_layers(name, count):
    assert build(name, "layer", False).n == count


def test_an_unknown_level_is_refused():
    with pytest.raises(InputError, match="gpt2: level is 'block'; give one of operator, layer"):
        ARCHITECTURES["gpt2"].build(level="block")


def test_layers_that_read_from_each_other_are_refused():
    net = NetworkBuilder()
    x = net.input("x", 4)
    for layer in ("a", "b", "a"):
        with net.scope(layer):
            x = net.relu(x)
    with pytest.raises(InputError, match="cycle"):
        merge_layers(net.graph(Device()), net.operators)


@every_architecture
def test_training_appends_a_mirror_image(name):
    """Forward operators stay; where a tensor flows forward between two trained operators, its gradient flows back."""
    forward, both = build(name, "operator", False), build(name, "operator", True)
    n = forward.n
    assert both.names[:n] == forward.names
    assert np.array_equal(both.work[:n], forward.work)
    assert both.parameter_total == forward.parameter_total
    back = {label.removeprefix("backward."): v for v, label in enumerate(both.names) if v >= n}
    sent, received = gradients(both, n), Counter()
    for tensor, (u, v) in zip(forward.edge_tensor, forward.edges.tolist(), strict=True):
        if forward.names[u] in back and forward.names[v] in back:
            pair = (back[forward.names[v]], back[forward.names[u]])
            received[pair] += int(forward.tensors.bytes[tensor])
    assert sent == received
    assert not any(u >= n > v for u, v in both.edges.tolist())


def gradients(graph, n):
    sent = Counter()
    for tensor, (u, v) in zip(graph.edge_tensor, graph.edges.tolist(), strict=True):
        if u >= n:
            sent[u, v] += int(graph.tensors.bytes[tensor])
    return sent


def test_backward_operators_of_a_small_network_by_hand():
    """x → linear → relu → split → product of the halves, and the loss from its output."""
    net = NetworkBuilder(element_bytes=1)
    y = net.relu(net.linear(net.input("x", 3, 5), 8))
    left, right = net.split(y, [4, 4], axis=1)
    net.matmul(left, right.view(4, 3))
    forward = {operator.name: operator for operator in net.operators}
    back = {operator.name.removeprefix("backward."): operator for operator in backward_operators(net.operators)}
    assert list(back) == ["matmul", "split", "relu", "linear.add", "linear.matmul"]
    assert {name: len(operator.outputs) for name, operator in back.items()} == {
        "matmul": 2,
        "split": 1,
        "relu": 1,
        "linear.add": 1,
        "linear.matmul": 0,  # x needs no gradient
    }
    assert [t.bytes for t in back["matmul"].outputs] == [12, 12]
    costs = {name: (op.multiply_adds, op.flops, op.bytes_moved) for name, op in back.items()}
    assert costs == {
        "matmul": (2 * 3 * 4 * 3, 2 * 2 * 3 * 4 * 3, 2 * (12 + 12 + 9)),
        "split": (0, 0, 24 + 24),
        "relu": (0, 24, 24 + 24),
        "linear.add": (0, 2 * 24, 2 * (24 + 8 + 24)),  # gradients of the sum's operand and of the bias
        "linear.matmul": (3 * 5 * 8, 2 * 3 * 5 * 8, 15 + 40 + 24),
    }
    reads = {name: [net_name(net, back, t) for t in operator.inputs] for name, operator in back.items()}
    assert reads == {
        "matmul": ["matmul", "split", "split"],  # its own output, from which the loss follows
        "split": ["backward.matmul", "backward.matmul"],
        "relu": ["backward.split", "linear.add"],
        "linear.add": ["backward.relu", "linear.bias"],
        "linear.matmul": ["backward.linear.add", "x", "linear.weight"],
    }
    assert forward["linear.matmul"].multiply_adds == 3 * 5 * 8


def net_name(net, back, tensor):
    return [operator.name for operator in (*net.operators, *back.values())][tensor.operator]


def test_a_tensor_with_two_readers_gets_two_gradients():
    """A residual connection: the producer's backward operator reads both."""
    net = NetworkBuilder()
    x = net.layer_norm(net.input("x", 2, 4))
    net.add(x, net.gelu(x))
    add, gelu, norm = backward_operators(net.operators)
    assert [t.operator for t in norm.inputs[:2]] == [add.outputs[0].operator, gelu.outputs[0].operator]
    assert len(add.outputs) == 2


def test_what_no_parameter_reaches_has_no_backward_operator():
    """The mask of BERT, and inputs of the network."""
    names = build("bert-base", "operator", True).names
    assert {"embeddings.mask", "backward.embeddings.embedding", "backward.embeddings.layer_norm"} <= set(names)
    assert not {"backward.embeddings.mask", "backward.tokens", "backward.attention_mask"} & set(names)


def test_a_parameter_is_shared_by_forward_and_backward():
    graph = build("resnet50", "operator", True)
    weight = next(p for p in graph.parameters if p.name == "stem.conv.weight")
    assert [graph.names[v] for v in weight.users] == ["stem.conv", "backward.stem.conv"]
    assert len({p.name for p in graph.parameters}) == len(graph.parameters)


def test_parameters_as_nodes_are_read_forward_and_backward():
    graph = ARCHITECTURES["squeezenet"].build(weights_as_nodes=True, training=True)
    weight = graph.names.index("stem.conv.weight")
    readers = [graph.names[v] for u, v in graph.edges.tolist() if u == weight]
    assert readers == ["stem.conv", "backward.stem.conv"]


def test_source_and_attributes_say_how_the_graph_was_made():
    graph = build("gnmt", "layer", True)
    assert "at layer level, forward and backward, batch=1, sequence=32, chunks=4" in graph.source
    assert (graph.attributes["level"], graph.attributes["training"]) == ("layer", True)
