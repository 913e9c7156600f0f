"""Shapes of ONNX models: named dimensions, computed shapes, and control flow."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import shape_inference
from onnx_models import model, named_edges, read, save

from instances import InputError
from instances.devices import DEFAULT_DEVICE
from instances.errors import InputWarning
from instances.readers.onnx.model import load_model
from instances.readers.onnx.operators import Scope

#: A view of the last axis as heads, whose target is computed from the shape of the input by `SIZE`.
HEADS = """g (float[batch,sequence,64] x) => (float[a,b,c,d] y) {
    shape = Shape(x)
    zero = Constant<value_ints=[0]>()
    one = Constant<value_ints=[1]>()
    two = Constant<value_ints=[2]>()
    b = Gather(shape, zero)
    t = Gather(shape, one)
    f = Gather(shape, two)
    eight = Constant<value_ints=[8]>()
    d = SIZE(f, eight)
    target = Concat<axis=0>(b, t, eight, d)
    r = Relu(x)
    v = Reshape(r, target)
    y = MatMul(v, w)
}"""


@pytest.mark.parametrize(("size", "way"), [("Mul(eight, one)", "inference"), ("Div(f, eight)", "symbolic")])
def test_computed_shapes_are_found(size: str, way: str, tmp_path: Path) -> None:
    """ONNX itself follows no division; onnxruntime's symbolic inference does."""
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    pytest.importorskip("sympy", reason="the extra 'onnx' is not installed")
    graph = read(tmp_path, model(HEADS.replace("SIZE(f, eight)", size), w=(8, 256)), batch=2, sequence=5)
    assert graph.names == ("Relu r", "MatMul y")
    assert graph.attributes["multiply_adds"] == 2 * 5 * 64 * 256
    assert graph.attributes["shapes"] == way


def test_a_shape_that_depends_on_values_is_found_by_a_run(tmp_path: Path) -> None:
    """All inputs are one, so all 40 elements are not zero."""
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    network = model("g (float[10,4] x) => (int64[2,n] y) {a = Relu(x) z = NonZero(a) y = Abs(z)}")
    with pytest.warns(InputWarning, match="sizes that depend on values are those for inputs of ones: z, y"):
        graph = read(tmp_path, network)
    assert graph.attributes["shapes"] == "run"
    assert ("NonZero z", "Abs y", 2.0 * 40 * 8) in named_edges(graph)


def test_an_open_shape_is_an_error_and_never_zero_operations(tmp_path: Path) -> None:
    network = model("g (float[10,4] x) => (float[n] y) {a = my.own.Mix(x) y = Exp(a)}")
    with pytest.raises(InputError, match=r"net.onnx: the shape of tensor 'a' cannot be found; export"):
        read(tmp_path, network)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({}, r"dimensions 'batch', 'x:1' have no value; give for example dims='batch=1' dims='x:1=1' \(the model has"),
        ({"batch": 2}, "dimension 'x:1' of input 'x' has no value; give for example dims='x:1=1'"),
        ({"batch": 2, "height": 3}, "there is no dimension 'height'; it has batch, x:1, x:2"),
        ({"batch": 0, "x:1": 3}, "dimension batch is 0; give a whole number from 1"),
        ({"batch": 2**31, "x:1": 3}, "dimension batch is 2147483648; give a whole number"),
    ],
)
def test_dimensions_without_a_value_are_refused(dims: dict[str, int], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, model("g (float[batch,?,4] x) => (float[n] y) {y = Relu(x)}"), **dims)


def test_proposed_sizes_are_those_that_the_model_takes(tmp_path: Path) -> None:
    """A convolution over 8 samples does not take the usual 1, and one that fits only 77 gets no number."""
    network = model("g (float[batch,1,n] x) => (float[a,b,c] y) {y = Conv(x, w)}", w=(2, 1, 8))
    with pytest.raises(InputError, match=r"give for example dims='batch=1' dims='n=512' \(the model has batch, x:1, n"):
        read(tmp_path, network)
    assert read(tmp_path, network, batch=1, n=512).n == 1
    with pytest.raises(InputError, match=r"'n' of input 'x' has no value; give for example dims='n=512'"):
        read(tmp_path, network, batch=3)
    strict = model("g (float[2,n] x) => (float[2,77] y) {y = MatMul(x, w)}", w=(77, 77))
    with pytest.raises(InputError, match=r"dims='n=N', with sizes that the model takes, as none of the usual ones fit"):
        read(tmp_path, strict)
    assert read(tmp_path, strict, n=77).n == 1


def test_bug_one_proposed_size_may_be_larger_than_the_others(tmp_path: Path) -> None:
    """A convolution over the samples of one sequence, whose state is added to its result."""
    two = model("g (float[1,1,n] x, float[m,3] h) => (float[1,2,c] y) {a = Conv(x, w) y = Add(a, h)}", w=(2, 1, 510))
    with pytest.raises(InputError, match=r"give for example dims='n=512' dims='m=1'"):
        read(tmp_path, two)
    assert read(tmp_path, two, n=512, m=1).n == 2


def test_bug_branches_are_run_where_all_else_is_known(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    inner = "q = NonZero(h) s = Shape(q) f = ConstantOfShape(s) z = ReduceSum<keepdims=0>(f) b = Add(h, z)"
    text = BRANCHES.replace("b = Neg(h)", inner)
    graph = read(tmp_path, model(text, w=(8, 8)))
    assert graph.attributes["shapes"] == "run"


def test_a_dimension_without_a_name_has_its_place(tmp_path: Path) -> None:
    network = model("g (float[batch,?,4] x) => (float[a,b,c] y) {h = Relu(x) y = Relu(h)}")
    assert read(tmp_path, network, **{"batch": 2, "x:1": 3}).tensors.bytes.tolist() == [96, 96]


def test_a_fixed_batch_can_be_changed_and_reshape_targets_follow(tmp_path: Path) -> None:
    """Two nodes read the target, and an older batch stands in value_info; another fixed number is an error."""
    text = """g (float[1,4,4] x) => (float[1,16] y) <float[1,16] v> {
        target = Constant<value=int64[2] {1, 16}>()
        v = Reshape(x, target)
        w = Exp(v)
        u = Reshape(w, target)
        y = Relu(u)
    }"""
    graph = read(tmp_path, model(text), batch=3)
    assert graph.tensors.bytes.tolist() == [192, 192]
    with pytest.raises(
        InputError, match=r"node Reshape 'v' .* makes \(2, 8\) of \(3, 4, 4\); its target is a constant"
    ):
        read(tmp_path, model(text.replace("{1, 16}", "{2, 8}")), batch=3)


def test_bug_types_of_weights_survive_another_batch(tmp_path: Path) -> None:
    """Exporters list the types of weights among those that may depend on the batch."""
    network = model("g (float[1,4] x) => (float[1,500] y) <float[4,500] w> {y = MatMul(x, w)}", w=(4, 500))
    graph = read(tmp_path, network, batch=3)
    assert graph.attributes["multiply_adds"] == 3 * 4 * 500


BRANCHES = """g (float[4,8] x, bool c) => (float[4,8] y) {
    h = Relu(x)
    y = If(c) <
        then_branch = t () => (float[4,8] a) {a = MatMul(h, w)},
        else_branch = e () => (float[4,8] b) {b = Neg(h)}
    >
}"""


def test_a_branch_costs_what_the_longer_one_costs(tmp_path: Path) -> None:
    """What the branches capture is read, and what they hold is held."""
    graph = read(tmp_path, model(BRANCHES, w=(8, 8)))
    assert named_edges(graph) == {("Relu h", "If y", 128.0)}
    assert graph.work[1] == DEFAULT_DEVICE.time(2 * 4 * 8 * 8, 4 * (32 + 64 + 32))
    assert graph.param_bytes.tolist() == [0, 256]


def test_a_branch_may_hand_out_a_constant(tmp_path: Path) -> None:
    network = model(BRANCHES.replace("(float[4,8] b) {b = Neg(h)}", "(float[4,8] w) {b = Neg(h)}"), w=(4, 8), v=(8, 8))
    network.graph.node[1].attribute[0].g.node[0].input[1] = "v"
    graph = read(tmp_path, network)
    assert graph.param_bytes.tolist() == [0, 4 * (64 + 32)]


OPEN_BRANCHES = """g (float[4,8] x, bool c) => (int64[n,m] y) {
    h = Relu(x)
    y = If(c) <
        then_branch = t () => (int64[a0,a1] a) {
            a = If(c) <
                then_branch = u () => (int64[d0,d1] d) {z = NonZero(h) d = Neg(z)},
                else_branch = v () => (int64[f0,f1] f) {p = MatMul(h, w) f = NonZero(p)}
            >
        },
        else_branch = e () => (int64[b0,b1] b) {i = Size(h) o = ODD q = NonZero(o) b = Abs(q)}
    >
}"""


@pytest.mark.parametrize(("odd", "open_shapes"), [("Relu(h)", set()), ("Gather(h, i)", {"i", "o", "q", "b"})])
def test_shapes_in_branches_are_found_by_running_each(odd: str, open_shapes: set[str], tmp_path: Path) -> None:
    """Also of the branch that is not taken, and of a condition in a branch; one that cannot run stays open."""
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    from instances.readers.onnx.shape_process import run_once

    path = save(tmp_path, model(OPEN_BRANCHES.replace("ODD", odd), w=(8, 3)))
    scope = Scope(shape_inference.infer_shapes(load_model(path)).graph)
    assert {"z", "d", "f", "a", "y"} <= set(scope.missing())
    found = Scope(run_once(load_model(path), path, {}).graph)
    assert set(found.missing()) == open_shapes
    (condition,) = [live for live in found.live if live.bodies]
    inner = condition.bodies[0].live[0].bodies[1]
    assert inner.types["f"].shape == (2, 12)


LOOP = """g (float[4,8] x) => (float[5,4,8] k) {
    h = Relu(x)
    n = COUNT
    y, z = Loop(n, "", h) <body = b (int64 i, bool go, float[] s) => (bool still, float[] t, float[] u) {
        still = Identity(go)
        p = MatMul(s, w)
        t = Add(p, h)
        u = Neg(t)
    }>
    k = Relu(z)
}"""


def test_a_loop_costs_its_body_times_its_trip_count(tmp_path: Path) -> None:
    """The state keeps its shape, and the last output stacks one entry of each trip."""
    graph = read(tmp_path, model(LOOP.replace("COUNT", "Constant<value_int=5>()"), w=(8, 8)))
    assert named_edges(graph) == {("Relu h", "Loop y, z", 128.0), ("Loop y, z", "Relu k", 640.0)}
    assert graph.attributes["multiply_adds"] == 5 * 4 * 8 * 8
    body = [DEFAULT_DEVICE.time(512, 512), DEFAULT_DEVICE.time(32, 384), DEFAULT_DEVICE.time(32, 256)]
    assert graph.work[1] == pytest.approx(5 * sum(body))
    assert "approximate_loops" not in graph.attributes


def test_a_loop_of_unknown_length_counts_once_and_is_reported(tmp_path: Path) -> None:
    text = LOOP.replace("COUNT", "Cast<to=7>(m)").replace("8] x", "8] x, float m").replace("Relu(z)", "Relu(y)")
    with pytest.warns(InputWarning, match="loops with a guessed cost: y, z"):
        graph = read(tmp_path, model(text, w=(8, 8)))
    assert graph.attributes["multiply_adds"] == 4 * 8 * 8
    assert graph.attributes["approximate_loops"] == ["y, z"]


def test_a_scan_costs_its_body_for_each_entry(tmp_path: Path) -> None:
    network = model(
        """g (float[10,4,8] x, float[4,8] s) => (float[4,8] y, float[10,4,8] z) {
            y, z = Scan<num_scan_inputs=1, body = b (float[4,8] a, float[4,8] e) => (float[4,8] t, float[4,8] u) {
                p = MatMul(a, w)
                t = Add(p, e)
                u = Neg(t)
            }>(s, x)
        }""",
        w=(8, 8),
    )
    graph = read(tmp_path, network)
    assert graph.attributes["multiply_adds"] == 10 * 4 * 8 * 8
    assert graph.param_bytes.tolist() == [256]
    assert graph.tensors.bytes.tolist() == [128, 1280]


def test_control_flow_in_control_flow(tmp_path: Path) -> None:
    """An initializer of a branch in a loop belongs to the loop."""
    network = model(
        """g (float[4,8] x) => (float[4,8] y) {
            n = Constant<value_int=3>()
            h = Relu(x)
            y = Loop(n, "", h) <body = b (int64 i, bool go, float[] s) => (bool still, float[] t) {
                still = Identity(go)
                t = If(still) <
                    then_branch = f () => (float[] a) <float[8,8] w = {0}> {a = MatMul(s, w)},
                    else_branch = e () => (float[] b) {b = Neg(s)}
                >
            }>
        }""".replace("<float[8,8] w = {0}>", ""),
        w=(8, 8),
    )
    (w,) = network.graph.initializer
    branch = network.graph.node[2].attribute[0].g.node[1].attribute[0].g
    branch.initializer.append(w)
    del network.graph.initializer[:]
    graph = read(tmp_path, network)
    assert graph.attributes["multiply_adds"] == 3 * 4 * 8 * 8
    assert graph.param_bytes.tolist() == [0, 256 + 8]
