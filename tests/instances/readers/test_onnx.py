"""ONNX models as computation graphs: nodes, edges, work, and the parameters that nodes hold."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from onnx_models import LIGHT, model, named_edges, onnx, read, save

from instances import InputError, SharedParameter, load_graph
from instances.devices import DEFAULT_DEVICE, Device
from instances.errors import InputWarning
from instances.readers.onnx import read_onnx
from instances.readers.onnx.graph import build
from instances.readers.onnx.model import measure

#: Work is then a count of operations, which is long for seconds.
COUNTING = Device(peak_flops=1.0, memory_bandwidth=math.inf)

# Nodes, edges, 1e9 multiply-adds of convolutions and dense layers (a bias counts as half of one), 1e6 parameters.
NETWORKS = [
    ("bvlc_alexnet", 24, 23, 0.655, 60.97),
    ("densenet121", 668, 725, 2.834, 8.15),
    ("inception_v1", 143, 169, 1.433, 7.00),
    ("inception_v2", 371, 398, 2.019, 11.23),
    ("resnet50", 176, 191, 4.089, 25.61),
    ("shufflenet", 203, 218, 0.125, 1.42),
    ("squeezenet", 66, 73, 0.350, 1.24),
    ("vgg19", 46, 45, 19.639, 143.67),
    ("zfnet512", 22, 21, 1.482, 87.25),
]


@pytest.mark.parametrize(("name", "n", "m", "multiply_adds", "parameters"), NETWORKS)
def test_published_networks(name: str, n: int, m: int, multiply_adds: float, parameters: float) -> None:
    """Sizes before views are folded; a batch of 3 takes exactly 3 times the operations."""
    path = LIGHT / f"light_{name}.onnx"
    graph, views = build(path, {}, COUNTING, "roofline")
    assert (graph.n, graph.m) == (n, m)
    kinds = {node.name: node.op_type for node in onnx.load(path).graph.node}
    products = sum(work for node, work in zip(graph.names, graph.work, strict=True) if kinds[node] in ("Conv", "Gemm"))
    assert f"{products / 2e9:.3f}" == f"{multiply_adds:.3f}"
    assert f"{graph.attributes['parameter_count'] / 1e6:.2f}" == f"{parameters:.2f}"
    assert graph.parameter_total == pytest.approx(4 * graph.attributes["parameter_count"], rel=1e-5)
    assert "unknown_operators" not in graph.attributes

    with pytest.warns(InputWarning, match="long for one pass of a network"):
        batched = load_graph(path, dims={"batch": 3}, device=COUNTING)
    assert batched.attributes["flops"] == 3 * graph.attributes["flops"]
    assert batched.work.sum() == 3 * graph.work.sum()
    assert batched.n == n - len(views)


def test_work_is_a_roofline_of_operations_and_bytes(tmp_path: Path) -> None:
    """A product of 4 x 8 by 8 x 16 takes 512 multiply-adds and moves (32 + 128 + 64) floats."""
    network = model("g (float[4,8] x) => (float[4,16] y) {y = MatMul(x, w)}", w=(8, 16))
    assert read(tmp_path, network).work.tolist() == [DEFAULT_DEVICE.time(2 * 512, 4 * 224)]
    path = save(tmp_path, network)
    assert load_graph(path, device=Device(1e3, 1e9)).work.tolist() == [1.024]
    assert load_graph(path, device=Device(1e9, 1e3)).work.tolist() == [0.896]
    assert load_graph(path).attributes["multiply_adds"] == 512


def test_half_precision_halves_the_bytes(tmp_path: Path) -> None:
    network = model(
        "g (float16[4,8] x) => (float16[4,16] y) {h = Relu(x) y = MatMul(h, w)}", dtype=np.float16, w=(8, 16)
    )
    graph = read(tmp_path, network)
    assert graph.param_bytes.tolist() == [0, 256]
    assert graph.tensors.bytes.tolist() == [64, 128]


def test_each_live_output_is_a_tensor_of_its_own(tmp_path: Path) -> None:
    """A split with three outputs: the first is read twice, the second once, and the third by nobody."""
    network = model("""g (float[2,12] x) => (float[2,4] y) {
        h = Relu(x)
        p, q, r = Split<axis=1, num_outputs=3>(h)
        a = Exp(p)
        b = Neg(p)
        ab = Add(a, b)
        y = Sub(ab, q)
    }""")
    graph = read(tmp_path, network)
    assert named_edges(graph) == {
        ("Relu h", "Split p, q, r", 96.0),
        ("Split p, q, r", "Exp a", 32.0),
        ("Split p, q, r", "Neg b", 32.0),
        ("Split p, q, r", "Sub y", 32.0),
        ("Exp a", "Add ab", 32.0),
        ("Neg b", "Add ab", 32.0),
        ("Add ab", "Sub y", 32.0),
    }
    assert np.bincount(graph.tensors.producer).tolist() == [1, 2, 1, 1, 1, 1]
    assert graph.edge_tensor[graph.edges[:, 1] == 2] == graph.edge_tensor[graph.edges[:, 1] == 3]


def test_optional_inputs_may_be_left_out(tmp_path: Path) -> None:
    """An LSTM without bias and lengths, but with a first state; both directions of its two matrices count."""
    network = model(
        """g (float[3,5,16] x) => (float[3,2,5,8] y) {
            y = LSTM<hidden_size=8, direction="bidirectional">(x, w, r, "", "", h)
        }""",
        w=(2, 32, 16),
        r=(2, 32, 8),
        h=(2, 5, 8),
    )
    graph = read(tmp_path, network)
    assert graph.attributes["multiply_adds"] == 2 * 3 * 5 * 32 * (16 + 8)
    assert graph.param_bytes.tolist() == [4 * (2 * 32 * 24 + 80)]


def test_constants_are_folded_and_stay_parameters(tmp_path: Path) -> None:
    """What is computed from constants is no node; its user holds what went in. Shapes are constants, too."""
    network = model(
        """g (float[2,8,4,4] x) => (float[2,8,4,4] y) {
            axes = Constant<value_ints=[1,2]>()
            wide = Unsqueeze(scale, axes)
            twice = Add(wide, wide)
            shape = Shape(x)
            zeros = ConstantOfShape(shape)
            h = Mul(x, twice)
            y = Add(h, zeros)
        }""",
        scale=(8,),
    )
    graph = read(tmp_path, network)
    assert graph.names == ("Mul h", "Add y")
    axes = 2 * 8
    assert graph.param_bytes.tolist() == [8 * 4 + axes, 2 * 8 * 4 * 4 * 4]


def test_a_tied_weight_counts_once_a_block_also_through_a_transpose(tmp_path: Path) -> None:
    network = model(
        """g (int64[b,s] ids) => (float[b,s,v] y) {
            e = Gather(table, ids)
            h = Relu(e)
            turned = Transpose<perm=[1,0]>(table)
            y = MatMul(h, turned)
        }""",
        table=(100, 16),
    )
    graph = read(tmp_path, network, b=2, s=5)
    assert graph.names == ("Gather e", "Relu h", "MatMul y")
    assert graph.parameters == (SharedParameter("table", 6400.0, (0, 2)),)
    assert graph.parameter_total == 6400
    # Of the table, only the rows that are taken are moved.
    assert graph.work[0] == DEFAULT_DEVICE.time(0, 8 * 10 + 2 * 4 * 10 * 16)


def test_random_numbers_are_no_constants(tmp_path: Path) -> None:
    network = model("g (float[2,8] x) => (float[2,8] y) {r = RandomNormal<shape=[2,8]>() y = Add(x, r)}")
    assert read(tmp_path, network).names == ("RandomNormal r", "Add y")


def test_initializers_may_be_listed_as_inputs(tmp_path: Path) -> None:
    """As they must up to IR version 3."""
    network = model("g (float[4,8] x, float[8,16] w) => (float[4,16] y) {y = MatMul(x, w)}", w=(8, 16))
    network.ir_version = 3
    graph = read(tmp_path, network)
    assert (graph.n, graph.m, graph.param_bytes.tolist()) == (1, 0, [512])


@pytest.mark.parametrize("present", [True, False])
def test_weights_in_another_file_are_not_needed(present: bool, tmp_path: Path) -> None:
    """Their sizes are in the model."""
    network = model("g (float[4,8] x) => (float[4,16] y) {y = MatMul(x, w)}", w=(8, 16))
    path = tmp_path / "net.onnx"
    onnx.save_model(network, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    if not present:
        (tmp_path / "weights.bin").unlink()
    assert load_graph(path).param_bytes.tolist() == [512]


def test_weights_may_be_absent(tmp_path: Path) -> None:
    """A file without them, 128 GiB large with them."""
    network = model("g (float[4,8] x) => (float[4,n] y) {y = MatMul(x, w)}")
    network.graph.initializer.append(onnx.TensorProto(name="w", data_type=1, dims=[8, 2**32]))
    assert read(tmp_path, network).param_bytes.tolist() == [2**37]


def test_sparse_weights_have_the_shape_of_dense_ones(tmp_path: Path) -> None:
    network = model("g (float[4,8] x) => (float[4,16] y) {y = MatMul(x, w)}")
    values = onnx.helper.make_tensor("w", 1, [2], [1.0, 2.0])
    places = onnx.helper.make_tensor("places", 7, [2], [3, 9])
    network.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, places, [8, 16]))
    graph = read(tmp_path, network)
    assert (graph.attributes["multiply_adds"], graph.param_bytes.tolist()) == (4 * 8 * 16, [512])


def test_unknown_operators_are_named_and_counted_by_bytes(tmp_path: Path) -> None:
    network = model("g (float[10,4] x) => (float[10,4] y) {a = Relu(x) b = my.own.Mix(a) y = my.own.Mix(b)}")
    for value in ("b",):
        network.graph.value_info.append(onnx.helper.make_tensor_value_info(value, 1, [10, 4]))
    with pytest.warns(InputWarning, match=r"unknown operators, of which only the bytes count: my\.own\.Mix"):
        graph = read(tmp_path, network)
    assert graph.attributes["unknown_operators"] == {"my.own.Mix": 2}
    assert graph.work.tolist() == [DEFAULT_DEVICE.time(40, 320)] * 3


def test_functions_of_a_model_are_read_as_their_operators(tmp_path: Path) -> None:
    network = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 18, "my.own" : 1]>
        g (float[4,8] x) => (float[4,8] y) {h = my.own.twice(x) y = my.own.twice(h)}
        <opset_import: ["" : 18], domain: "my.own"> twice (a) => (b) {c = Exp(a) b = Neg(c)}
    """)
    graph = read(tmp_path, network)
    assert [name.split()[0] for name in graph.names] == ["Exp", "Neg", "Exp", "Neg"]


def test_nodes_keep_their_names_where_these_are_their_own(tmp_path: Path) -> None:
    network = model("g (float[4] x) => (float[4] y) {a = Relu(x) b = Exp(a) y = Neg(b)}")
    for node, name in zip(network.graph.node, ("twice", "twice", "once"), strict=True):
        node.name = name
    assert read(tmp_path, network).names == ("Relu a", "Exp b", "once")


def test_views_are_folded(tmp_path: Path) -> None:
    """A reshaped tensor is the same tensor: whoever reads either of them receives its bytes once."""
    network = model("""g (float[2,8] x) => (float[4,4] y, float[2,8] z) {
        h = Relu(x)
        shape = Constant<value_ints=[4,4]>()
        v = Reshape(h, shape)
        w = Identity(v)
        y = Exp(w)
        z = Neg(h)
    }""")
    graph = read(tmp_path, network)
    assert graph.names == ("Relu h", "Exp y", "Neg z")
    assert graph.edge_tensor.tolist() == [0, 0]
    assert graph.attributes["views_folded"] == 2
    raw, views = build(save(tmp_path, network), {}, DEFAULT_DEVICE, "roofline")
    assert (raw.n, raw.work[views].tolist(), raw.param_bytes.tolist()) == (5, [0, 0], [0] * 5)


@pytest.mark.parametrize("dims", [{}, {"batch": 2}])
def test_measured_work_has_a_time_for_every_node(dims: dict[str, int]) -> None:
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    graph = load_graph(LIGHT / "light_squeezenet.onnx", cost="measured", dims=dims)
    assert (graph.n, graph.m, graph.time_unit) == (66, 73, "s")
    assert (graph.work >= 0).all()
    assert 0 < graph.work.sum() < 60
    assert "onnxruntime" in graph.source


def test_bug_operators_that_are_functions_of_others_are_measured(tmp_path: Path) -> None:
    """HardSwish, Mish and GroupNormalization were not in the profile: nodes without names ran in their place."""
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    text = """g (float[2,8,64,64] x, float[8] b) => (float[2,8,64,64] y) <float[8] s = {1,1,1,1,1,1,1,1}> {
        a = HardSwish(x)
        m = Mish(a)
        n = GroupNormalization<num_groups=4>(m, s, b)
        r = Relu(n)
        h = HardSwish(r)
        y = Mish(h)
    }"""
    path = save(tmp_path, onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 22]> {text}'))
    seconds = measure(path, {})
    assert seconds.keys() == {"a", "m", "n", "r", "h", "y"}
    graph = read_onnx(path, cost="measured")
    assert graph.names == ("HardSwish a", "Mish m", "GroupNormalization n", "Relu r", "HardSwish h", "Mish y")
    assert (graph.work > 0).all()
    assert graph.work[2] > graph.work[3]  # some twenty nodes against one


def test_what_cannot_be_run_cannot_be_measured(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    path = save(tmp_path, model("g (float[10,4] x) => (float[10,4] y) {y = my.own.Mix(x)}"))
    with pytest.raises(InputError, match="onnxruntime does not run the model"):
        read_onnx(path, cost="measured")
    with pytest.raises(InputError, match="give one of roofline, measured"):
        read_onnx(path, cost="guessed")
