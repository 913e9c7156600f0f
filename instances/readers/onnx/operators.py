"""Cost of one ONNX operator: multiply-adds, operations, and bytes moved.

Operations are counted as publications do: a multiply-add is two, and each call of a function such as exp is one.
Shapes are those of the ONNX operator specification.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from instances.readers.onnx.types import TensorType, TypedNode

__all__ = ["Count", "count", "is_view"]
# Which input is the bias.
_BIAS = {"Conv": 2, "FusedConv": 2, "ConvTranspose": 2, "Gemm": 2, "DeformConv": 3, "QLinearConv": 8}
# Operations per hidden unit and step besides the products: gates with their activations, and the new state.
_RECURRENT = {"RNN": 4, "GRU": 20, "LSTM": 30}


class Count(NamedTuple):
    """Cost of an operator; `known` is false if only its bytes could be counted."""

    multiply_adds: int
    flops: int
    bytes_moved: int
    is_known: bool = True


def count(operator: TypedNode) -> Count:
    """Count the operations of an operator; not of If, Loop and Scan, whose bodies are counted.

    Raises
    ------
    ValueError, IndexError, TypeError
        If inputs or attributes are not those of the specification.
    """
    kind = operator.kind
    if is_view(kind, operator.domain):
        return Count(0, 0, 0)
    moved = sum(tensor.bytes for tensor in (*operator.inputs, *operator.outputs) if tensor is not None)
    if not _is_listed(kind, operator.domain):
        return Count(0, 0, moved, is_known=False)
    if kind in _PRODUCTS:
        products = _PRODUCTS[kind](operator)
        return Count(products, 2 * products + _bias(operator), moved)
    if kind in _RECURRENT:
        return _recurrence(operator, moved)
    if kind in _TAKING:
        source = operator.input(0).bytes
        taken = sum(tensor.bytes for tensor in operator.outputs if tensor is not None)
        return Count(0, 0, moved - source + min(source, taken))
    if kind in _PER_OUTPUT:
        return Count(0, _PER_OUTPUT[kind] * operator.written, moved)
    if kind in _PER_INPUT:
        return Count(0, _PER_INPUT[kind] * operator.input(0).elements, moved)
    if kind in _SPECIAL:
        return Count(0, _SPECIAL[kind](operator), moved)
    return Count(0, 0, moved, is_known=kind in _MOVING)


def is_view(kind: str, domain: str) -> bool:
    """Whether an operator gives the same data in another shape or under another name, at no cost."""
    return kind in _VIEWS and _is_listed(kind, domain)


def _is_listed(kind: str, domain: str) -> bool:
    listed = _DOMAINS.get(domain, frozenset())
    return listed is None or kind in listed


def _bias(op: TypedNode) -> int:
    """Additions of a bias: one per element if the operator has one, else 0."""
    place = _BIAS.get(op.kind, len(op.inputs))
    return op.written if any(tensor is not None for tensor in op.inputs[place : place + 1]) else 0


def _convolution(weight: int) -> Callable[[TypedNode], int]:
    def products(op: TypedNode) -> int:
        kernel = op.input(weight).shape
        _require_fit(op.input(0).shape[1], kernel[1] * op.attributes.get("group", 1))
        return op.written * math.prod(kernel[1:])

    return products


def _transposed_convolution(op: TypedNode) -> int:
    kernel = op.input(1).shape
    _require_fit(op.input(0).shape[1], kernel[0])
    return op.input(0).elements * math.prod(kernel[1:])


def _matrix_product(right: int) -> Callable[[TypedNode], int]:
    def products(op: TypedNode) -> int:
        columns = _axis(op.input(0), last=not op.attributes.get("transA", 0))
        _require_fit(columns, _axis(op.input(right), last=bool(op.attributes.get("transB", 0))))
        return op.written * columns

    return products


def _axis(matrix: TensorType, last: bool) -> int:
    return matrix.shape[-1 if last or len(matrix.shape) == 1 else -2]


def _require_fit(size: int, expected: int) -> None:
    if size != expected:  # shape inference may not look
        raise ValueError(f"{size} channels or columns meet weights for {expected}")


def _einstein_sum(op: TypedNode) -> int:
    terms = op.attributes["equation"].decode().replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, int] = {}
    batch = 1
    for term, tensor in zip(terms, op.inputs, strict=True):
        assert tensor is not None
        before, dots, after = term.partition("...")
        hidden = len(tensor.shape) - len(before) - len(after)
        if hidden < 0 or (hidden and not dots):
            raise ValueError(f"the term '{term}' does not fit a tensor with {len(tensor.shape)} dimensions")
        middle = tensor.shape[len(before) : len(before) + hidden]
        labelled = tensor.shape[: len(before)] + tensor.shape[len(before) + hidden :]
        for label, size in zip(before + after, labelled, strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
        batch = max(batch, math.prod(middle))
    return batch * math.prod(sizes.values())


def _attention(op: TypedNode) -> int:
    """Multiply-adds of scores and weighted sum.

    Q is (batch, heads, q, d), K (…, kv, d) and V (…, kv, e); or heads and d are one axis.
    """
    q, v = op.input(0), op.input(2)
    present = next((tensor for tensor in op.outputs[1:2] if tensor is not None), op.input(1))
    heads = q.shape[1] if len(q.shape) == 4 else op.attributes["q_num_heads"]
    queries, keys = q.shape[-2], present.shape[-2]
    width = q.shape[-1] if len(q.shape) == 4 else q.shape[-1] // heads
    out = v.shape[-1] if len(v.shape) == 4 else v.shape[-1] // op.attributes["kv_num_heads"]
    return q.shape[0] * heads * queries * keys * (width + out)


def _recurrence(op: TypedNode, moved: int) -> Count:
    """Costs of a recurrent layer: X (steps, batch, features), W and R (directions, gates, ·).

    R is read in each step, as a step needs the result of the last one.
    """
    x, weight, recurrent = op.input(0), op.input(1), op.input(2)
    steps, batch = (x.shape[1], x.shape[0]) if op.attributes.get("layout", 0) else (x.shape[0], x.shape[1])
    products = steps * batch * (weight.elements + recurrent.elements)
    hidden = steps * batch * recurrent.shape[0] * recurrent.shape[-1]
    return Count(products, 2 * products + _RECURRENT[op.kind] * hidden, moved + max(0, steps - 1) * recurrent.bytes)


def _window(op: TypedNode) -> int:
    return op.written * math.prod(op.attributes["kernel_shape"])


def _local_response(op: TypedNode) -> int:
    """Operations of squares and their sums over a window, then scale, shift, power and division."""
    return op.written * (2 * op.attributes["size"] + 4)


def _variadic(op: TypedNode) -> int:
    return op.written * max(1, len(op.inputs) - 1)


def _top(op: TypedNode) -> int:
    return op.input(0).elements * max(1, op.input(0).shape[op.attributes.get("axis", -1)].bit_length())


def _fourier(op: TypedNode) -> int:
    """Operations of a fast Fourier transform: 5 n log2 n, the usual count."""
    return 5 * op.written * max(1, op.input(0).shape[-2].bit_length())


def _kinds(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _each(flops: int, kinds: str) -> dict[str, int]:
    return dict.fromkeys(kinds.split(), flops)


#: Operators per domain; where None, all below.
_DOMAINS: dict[str, frozenset[str] | None] = {
    "": None,
    "ai.onnx": None,
    "com.microsoft": _kinds(
        "BiasGelu FastGelu FusedConv FusedMatMul Gelu QuickGelu SkipLayerNormalization SkipSimplifiedLayerNormalization"
    ),
}

# Dropout does nothing when a network is used.
_VIEWS = _kinds("Reshape Flatten Squeeze Unsqueeze Identity Dropout")

_PRODUCTS: dict[str, Callable[[TypedNode], int]] = {
    "Conv": _convolution(1),
    "FusedConv": _convolution(1),
    "ConvInteger": _convolution(1),
    "DeformConv": _convolution(1),
    "QLinearConv": _convolution(3),
    "ConvTranspose": _transposed_convolution,
    "Gemm": _matrix_product(1),
    "MatMul": _matrix_product(1),
    "FusedMatMul": _matrix_product(1),
    "MatMulInteger": _matrix_product(1),
    "QLinearMatMul": _matrix_product(3),
    "Einsum": _einstein_sum,
    "Attention": _attention,
}


# A part of the first input is read, as much as is written.
_TAKING = _kinds("Gather GatherElements GatherND Slice Compress")

_PER_OUTPUT = {
    **_each(
        1,
        "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Cos "
        "Cosh CumProd CumSum Div Equal Erf Exp Floor Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Log Max Min "
        "Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Shrink Sign Sin Sinh Sqrt Sub Tan Tanh ThresholdedRelu Xor",
    ),
    **_each(2, "BatchNormalization Clip LeakyRelu Celu DequantizeLinear"),
    **_each(3, "Elu Selu HardSigmoid Softplus Softsign QuantizeLinear"),
    **_each(4, "Sigmoid HardSwish RotaryEmbedding DynamicQuantizeLinear"),
    **_each(5, "Softmax LogSoftmax Hardmax Swish Mish QuickGelu RMSNormalization SimplifiedLayerNormalization"),
    **_each(6, "SkipSimplifiedLayerNormalization"),
    **_each(8, "Gelu FastGelu BiasGelu LayerNormalization SkipLayerNormalization InstanceNormalization"),
    **_each(8, "GroupNormalization MeanVarianceNormalization LpNormalization Resize Upsample GridSample AffineGrid"),
    **_each(10, "Bernoulli RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial"),
}

_PER_INPUT = {
    **_each(1, "ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ArgMax ArgMin GlobalAveragePool GlobalMaxPool Det"),
    **_each(2, "ReduceL1 ReduceL2 ReduceLogSum ReduceSumSquare GlobalLpPool NegativeLogLikelihoodLoss MaxRoiPool"),
    **_each(3, "ReduceLogSumExp"),
    **_each(6, "SoftmaxCrossEntropyLoss"),
}

_SPECIAL: dict[str, Callable[[TypedNode], int]] = {
    "AveragePool": _window,
    "MaxPool": _window,
    "LpPool": _window,
    "LRN": _local_response,
    "Sum": _variadic,
    "Mean": _variadic,
    "TopK": _top,
    "DFT": _fourier,
}

# No arithmetic: what they cost are the bytes they move.
_MOVING = _kinds(
    "BitCast BlackmanWindow Cast CastLike CenterCropPad Col2Im Concat Constant ConstantOfShape DepthToSpace Expand "
    "EyeLike HammingWindow HannWindow NonZero OneHot Pad Range ReverseSequence Scatter ScatterElements ScatterND Shape "
    "Size SpaceToDepth Split TensorScatter Tile Transpose Trilu Unique Where"
)
