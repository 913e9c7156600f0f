"""The operators that architectures are made of, on tensors small enough to count by hand."""

import pytest

from instances.architectures import NetworkBuilder
from instances.architectures.architecture import attention
from instances.devices import Device
from instances.errors import InputError


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"kernel": 3}, (10, 8)),
        ({"kernel": 3, "stride": 2}, (5, 4)),
        ({"kernel": 3, "padding": 0}, (8, 6)),
        ({"kernel": (1, 7)}, (10, 8)),
        ({"kernel": (1, 7), "padding": 0}, (10, 2)),
        ({"kernel": 2, "stride": 2, "padding": 0}, (5, 4)),
    ],
)
def test_convolution_shapes(options, size):
    net = NetworkBuilder()
    assert net.conv(net.input("image", 2, 6, 10, 8), 5, **options).shape == (2, 5, *size)


def test_groups_divide_the_work_of_a_convolution():
    """A depthwise convolution does one multiply-add per channel, output pixel and kernel entry."""
    net = NetworkBuilder()
    net.conv(net.input("image", 2, 6, 10, 8), 6, kernel=3, groups=6)
    assert net.operators[-1].multiply_adds == 2 * 6 * 10 * 8 * 9
    assert net.graph(Device()).attributes["parameter_count"] == 6 * 9


def test_views_make_no_node_and_keep_the_elements():
    net = NetworkBuilder()
    x = net.input("x", 2, 6)
    recorded = len(net.operators)
    assert x.view(3, 4).bytes == x.bytes
    assert len(net.operators) == recorded
    with pytest.raises(ValueError, match="cannot be seen as"):
        x.view(5)


def test_matrix_product_broadcasts_and_refuses_other_shapes():
    net = NetworkBuilder()
    x, y = net.input("x", 2, 1, 3, 4), net.input("y", 5, 4, 7)
    assert net.matmul(x, y).shape == (2, 5, 3, 7)
    assert net.operators[-1].multiply_adds == 2 * 5 * 3 * 7 * 4
    with pytest.raises(ValueError, match="cannot be multiplied"):
        net.matmul(y, x)


def test_embedding_reads_rows_and_not_the_table():
    net = NetworkBuilder()
    net.embedding(net.input("tokens", 2, 3, element_bytes=8), net.parameter("words", 1000, 16))
    assert net.operators[-1].bytes_moved == 6 * 8 + 2 * (6 * 16 * 4)


def test_lstm_reads_the_recurrent_matrix_at_every_step():
    net = NetworkBuilder(element_bytes=1)
    x, (weight, recurrent, bias) = net.input("x", 1, 5, 3), parameters_of_lstm(net, features=3, hidden=2)
    outputs, hidden, cell = net.lstm(x, weight, recurrent, bias)
    assert (outputs.shape, hidden.shape, cell.shape) == ((1, 5, 2), (1, 2), (1, 2))
    assert net.operators[-1].bytes_moved == 15 + 3 * 8 + 5 * (2 * 8) + 8 + 10 + 2 + 2
    assert net.operators[-1].multiply_adds == 5 * (3 + 2) * 8


def parameters_of_lstm(net, features, hidden):
    shapes = {"weight": (features, 4 * hidden), "recurrent": (hidden, 4 * hidden), "bias": (4 * hidden,)}
    return [net.parameter(name, *shape) for name, shape in shapes.items()]


def test_concat_and_split_are_inverse_and_a_single_piece_makes_no_node():
    net = NetworkBuilder()
    x = net.input("x", 2, 7, 3)
    pieces = net.split(x, [2, 5], axis=1)
    assert [piece.shape for piece in pieces] == [(2, 2, 3), (2, 5, 3)]
    assert net.concat(*pieces, axis=1).shape == x.shape
    assert net.concat(x, axis=1) is x
    assert net.split(x, [7], axis=1) == (x,)


def test_scopes_prefix_names_and_repeated_names_are_numbered():
    net = NetworkBuilder()
    x = net.input("x", 4)
    with net.scope("layer"), net.scope("branch"):
        x = net.relu(net.relu(x))
    net.relu(x)
    assert [operator.name for operator in net.operators] == ["x", "layer.branch.relu", "layer.branch.relu_2", "relu"]


def test_a_buffer_takes_bytes_and_is_no_parameter():
    """Running moments of batch norm: four vectors in memory, two of them trained."""
    net = NetworkBuilder()
    net.batch_norm(net.input("image", 1, 6, 2, 2))
    graph = net.graph(Device())
    assert graph.attributes["parameter_count"] == 2 * 6
    assert graph.parameter_total == 4 * 6 * 4


def test_a_window_larger_than_its_image_is_refused_with_its_scope():
    net = NetworkBuilder()
    with net.scope("stem"), pytest.raises(InputError, match=r"stem\.max_pool: its input of 2 by 2 is smaller"):
        net.max_pool(net.input("image", 1, 6, 2, 2), kernel=3, stride=1)


@pytest.mark.parametrize(("size", "expected"), [(7, 3), (8, 4), (9, 4), (10, 5)])
def test_a_pooling_that_is_rounded_up_keeps_the_rest_of_the_image(size, expected):
    """Windows of 3 every 2 pixels, the last one incomplete where the size is even."""
    net = NetworkBuilder()
    x = net.input("image", 1, 2, size, size)
    assert net.max_pool(x, kernel=3, stride=2, round_up=True).shape == (1, 2, expected, expected)
    assert net.max_pool(x, kernel=3, stride=2).shape == (1, 2, (size - 1) // 2, (size - 1) // 2)


def test_upsampling_repeats_pixels():
    net = NetworkBuilder(element_bytes=1)
    assert net.upsample(net.input("image", 2, 3, 4, 5), 2).shape == (2, 3, 8, 10)
    assert net.operators[-1].bytes_moved == 5 * (2 * 3 * 4 * 5)


@pytest.mark.parametrize(
    ("norm", "shape", "parameters"),
    [("layer_norm", (2, 5, 6), 12), ("rms_norm", (2, 5, 6), 6), ("group_norm", (2, 6, 4, 4), 12)],
)
def test_norms_scale_the_features_and_some_shift_them(norm, shape, parameters):
    net = NetworkBuilder()
    assert getattr(net, norm)(net.input("x", *shape)).shape == shape
    assert net.graph(Device()).attributes["parameter_count"] == parameters


@pytest.mark.parametrize("shared", [1, 2, 4])
def test_attention_with_grouped_queries_scores_every_head(shared):
    """Four heads of three; keys and values of fewer heads are smaller, the products are as many."""
    net = NetworkBuilder(element_bytes=1)
    query, key, value = (
        net.input("query", 2, 5, 12),
        net.input("key", 2, 7, 3 * shared),
        net.input("value", 2, 7, 3 * shared),
    )
    mask = net.input("mask", 5, 7)
    assert attention(net, query, key, value, 4, mask, bias=False).shape == (2, 5, 12)
    operators = {operator.name: operator for operator in net.operators}
    assert operators["matmul"].multiply_adds == operators["matmul_2"].multiply_adds == 2 * 4 * 5 * 7 * 3
    assert operators["softmax"].outputs[0].bytes == 2 * 4 * 5 * 7
    assert operators["add"].bytes_moved == 2 * (2 * 4 * 5 * 7) + 5 * 7


def test_the_layer_of_an_operator_is_its_outermost_scope_or_itself():
    net = NetworkBuilder()
    x = net.input("x", 4)
    with net.scope("a.b"), net.scope("c"):
        x = net.relu(x)
    net.relu(net.relu(x))
    assert [operator.layer for operator in net.operators] == ["x", "a.b", "relu", "relu_2"]
