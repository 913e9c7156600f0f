"""Operation counts of ONNX operators against loops that count, and operators that are each other's equal."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx_models import model, onnx, read

from instances.readers.onnx.operators import Count, TensorType, TypedNode, count


def counted(
    kind: str, inputs: list[tuple[int, ...] | None], *outputs: tuple[int, ...], domain: str = "", **attributes: Any
) -> Count:
    types = [None if shape is None else TensorType(shape, 32) for shape in inputs]
    return count(TypedNode(kind, domain, attributes, tuple(types), tuple(TensorType(shape, 32) for shape in outputs)))


sizes = st.integers(1, 4)


@given(sizes, sizes, sizes, sizes, st.integers(1, 2), st.integers(1, 3), st.integers(3, 6))
def test_convolutions(batch: int, inner: int, outer: int, groups: int, stride: int, window: int, image: int) -> None:
    """Every pair of an output and an input that its window holds; transposed, the other way round."""
    small = (image - window) // stride + 1
    products = 0
    for _ in itertools.product(range(batch), range(groups * outer), range(small), range(small)):
        products += inner * window * window
    x, y = (batch, groups * inner, image, image), (batch, groups * outer, small, small)
    weight = (groups * outer, inner, window, window)
    assert counted("Conv", [x, weight], y, group=groups).multiply_adds == products
    assert counted("Conv", [x, weight, (groups * outer,)], y, group=groups).flops == 2 * products + np.prod(y)
    assert counted("ConvTranspose", [y, weight], x).multiply_adds == products


@given(sizes, sizes, sizes, sizes, sizes)
def test_products_of_matrices_in_four_ways(batch: int, heads: int, m: int, k: int, n: int) -> None:
    """MatMul, Einsum with and without dots, and Gemm for each pair."""
    a, b, c = (batch, heads, m, k), (batch, heads, k, n), (batch, heads, m, n)
    products = batch * heads * m * k * n
    assert counted("MatMul", [a, b], c).multiply_adds == products
    assert counted("MatMul", [a, (k, n)], c).multiply_adds == products
    for equation in (b"bhmk, bhkn -> bhmn", b"...mk,...kn->...mn"):
        assert counted("Einsum", [a, b], c, equation=equation).multiply_adds == products
    for turned, shape in ((0, (m, k)), (1, (k, m))):
        assert batch * heads * counted("Gemm", [shape, (k, n)], (m, n), transA=turned).multiply_adds == products


@given(sizes, sizes, sizes, sizes, sizes)
def test_attention_is_two_products(batch: int, heads: int, queries: int, keys: int, width: int) -> None:
    """Whether the heads have an axis of their own or not."""
    scores = counted("MatMul", [(batch, heads, queries, width), (width, keys)], (batch, heads, queries, keys))
    mixed = counted("MatMul", [(batch, heads, queries, keys), (keys, width)], (batch, heads, queries, width))
    q, kv = (batch, heads, queries, width), (batch, heads, keys, width)
    products = scores.multiply_adds + mixed.multiply_adds
    assert counted("Attention", [q, kv, kv], q).multiply_adds == products
    q, kv = (batch, queries, heads * width), (batch, keys, heads * width)
    found = counted("Attention", [q, kv, kv], q, q_num_heads=heads, kv_num_heads=heads)
    assert found.multiply_adds == products


@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("layout", [0, 1])
def test_recurrence_reads_its_state_matrix_at_every_step(kind: str, gates: int, layout: int) -> None:
    steps, batch, features, hidden = 7, 2, 5, 3
    x = (batch, steps, features) if layout else (steps, batch, features)
    weight, recurrent, y = (2, gates * hidden, features), (2, gates * hidden, hidden), (steps, 2, batch, hidden)
    found = counted(kind, [x, weight, recurrent], y, layout=layout)
    assert found.multiply_adds == steps * batch * 2 * gates * hidden * (features + hidden)
    read_once = 4 * (np.prod(x) + np.prod(weight) + np.prod(y))
    assert found.bytes_moved == read_once + steps * 4 * np.prod(recurrent)


def test_cheap_operators() -> None:
    x = (2, 3, 4)
    assert counted("Add", [x, (4,)], x)[:3] == (0, 24, 4 * (24 + 4 + 24))
    assert counted("Add", [(4,), x], x).flops == 24
    assert counted("ReduceMean", [x], (2, 3, 1)).flops == 24
    assert counted("MaxPool", [(1, 1, 4, 4)], (1, 1, 2, 2), kernel_shape=[2, 2]).flops == 16
    assert counted("Transpose", [x], (4, 3, 2))[:3] == (0, 0, 192)
    assert counted("Reshape", [x], (24,))[:3] == (0, 0, 0)
    assert counted("Gather", [(1000, 8), (5,)], (5, 8))[:3] == (0, 0, 4 * (5 + 40 + 40))
    assert counted("Sum", [x, x, x], x).flops == 48


STEPS = {
    "Relu": "maximum",
    "Clip": "minimum, maximum",
    "LeakyRelu": "compare, multiply",
    "BatchNormalization": "multiply, add",
    "DequantizeLinear": "subtract, multiply",
    "Softplus": "exp, add, log",
    "Softsign": "abs, add, divide",
    "Elu": "exp, subtract, multiply",
    "Sigmoid": "negate, exp, add, divide",
    "HardSwish": "add, clip, multiply, divide",
    "Swish": "negate, exp, add, divide, multiply",
    "Mish": "exp, add, log, tanh, multiply",
    "Softmax": "maximum, subtract, exp, sum, divide",
    "RMSNormalization": "square, sum, root, divide, multiply",
    "LayerNormalization": "sum, subtract, square, sum, root, divide, multiply, add",
    "ReduceSum": "add",
    "ReduceL2": "square, add",
    "ReduceLogSumExp": "subtract, exp, add",
}


@pytest.mark.parametrize("kind", STEPS)
def test_operators_cost_the_steps_of_their_formulas(kind: str) -> None:
    """For each element, of the input if the output is a sum of many."""
    shape = (3, 5)
    found = counted(kind, [shape], (3, 1) if kind.startswith("Reduce") else shape)
    assert found.flops == 15 * len(STEPS[kind].split(", "))


def test_operators_of_other_domains() -> None:
    """Those that onnxruntime fuses are known, if they mean the same as in ONNX; another Attention is not."""
    x = (2, 3, 4)
    assert counted("FusedMatMul", [x, (4, 5)], (2, 3, 5), domain="com.microsoft").multiply_adds == 120
    for kind, domain in (("Attention", "com.microsoft"), ("Add", "my.own"), ("Reshape", "my.own"), ("Mix", "")):
        found = counted(kind, [x], x, domain=domain)
        assert (found.flops, found.bytes_moved, found.is_known) == (0, 192, False)


def test_packed_elements_take_whole_bytes() -> None:
    assert TensorType((3, 3), 4).bytes == 5
    assert TensorType((), 32).bytes == 4
    assert TensorType((2, 0), 32).bytes == 0


def test_nearly_every_operator_of_onnx_has_a_cost() -> None:
    """What has none handles texts, sequences and optional values, or depends on values; it would be reported."""
    x = (2, 2, 4, 4)
    attributes: dict[str, Any] = {"equation": b"abcd,abcd->", "kernel_shape": [1, 1], "size": 1}
    first: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            first[schema.name] = min(schema.since_version, first.get(schema.name, schema.since_version))
    kinds = {kind for kind, version in first.items() if version <= 24} - {"If", "Loop", "Scan"}
    unknown = {
        kind for kind in kinds if not counted(kind, [x] * (2 if kind == "Einsum" else 4), x, **attributes).is_known
    }
    families = ("Sequence", "Optional", "String", "Regex", "TfIdf")
    others = {"ImageDecoder", "MaxUnpool", "MelWeightMatrix", "NonMaxSuppression", "RoiAlign", "STFT"}
    training = {"Adagrad", "Adam", "Gradient", "Momentum"}
    assert {kind for kind in unknown if not any(family in kind for family in families)} <= others | training
    assert len(kinds - unknown) > 150


def test_sizes_of_a_batch_are_its_multiple(tmp_path: Path) -> None:
    network = model(
        """g (float[batch,3,8,8] x) => (float[batch,5] y) {
            c = Conv<kernel_shape=[3,3]>(x, w)
            p = GlobalAveragePool(c)
            f = Flatten(p)
            y = Gemm(f, v)
        }""",
        w=(4, 3, 3, 3),
        v=(4, 5),
    )
    one, many = read(tmp_path, network, batch=1), read(tmp_path, network, batch=7)
    assert many.attributes["flops"] == 7 * one.attributes["flops"]
    assert many.tensors.bytes.tolist() == (7 * one.tensors.bytes).tolist()
