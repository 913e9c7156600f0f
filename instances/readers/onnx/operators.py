"""Costs of operators: floating-point operations, bytes, and times that are measured."""

from __future__ import annotations

import math
from collections import ChainMap, Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto

from instances.devices import Device
from instances.errors import InputError
from instances.readers.onnx.model import captured, subgraphs, whole_numbers

# Types of tensors, and nodes with the types of what they read and write.


class TensorType(NamedTuple):
    """Shape of a tensor, and the width of its elements [bits]."""

    shape: tuple[int, ...]
    bits: int

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size [bytes]; elements narrower than a byte are packed."""
        return -(-self.elements * self.bits // 8)


@dataclass(frozen=True)
class TypedNode:
    """A node with the types of what it reads and writes."""

    kind: str  # such as Conv
    domain: str  # the operator set that it belongs to; "" is that of ONNX
    attributes: Mapping[str, Any]
    inputs: tuple[TensorType | None, ...]  # None where an optional tensor is left out
    outputs: tuple[TensorType | None, ...]  # None where nobody reads an output, or it is left out

    def input(self, i: int) -> TensorType:
        """A required input of the operator."""
        tensor = self.inputs[i] if i < len(self.inputs) else None
        if tensor is None:
            raise ValueError(f"input {i} is missing")
        return tensor

    @property
    def written(self) -> int:
        """Elements of the first output that some node reads."""
        return next((tensor.elements for tensor in self.outputs if tensor is not None), 0)


# Cost of one ONNX operator: multiply-adds, operations, and bytes moved.
#
# Operations are counted as publications do: a multiply-add is two, and each call of a function such as exp is one.
# Shapes are those of the ONNX operator specification.


# Which input is the bias.
_BIAS = {"Conv": 2, "FusedConv": 2, "ConvTranspose": 2, "Gemm": 2, "DeformConv": 3, "QLinearConv": 8}
# Operations per hidden unit and step besides the products: gates with their activations, and the new state.
_RECURRENT = {"RNN": 4, "GRU": 20, "LSTM": 30}


class Count(NamedTuple):
    """Cost of an operator; `is_known` is false if only its bytes could be counted."""

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
        selected = sum(tensor.bytes for tensor in operator.outputs if tensor is not None)
        return Count(0, 0, moved - source + min(source, selected))
    if kind in _PER_OUTPUT:
        return Count(0, _PER_OUTPUT[kind] * operator.written, moved)
    if kind in _PER_INPUT:
        return Count(0, _PER_INPUT[kind] * operator.input(0).elements, moved)
    if kind in _SPECIAL:
        return Count(0, _SPECIAL[kind](operator), moved)
    return Count(0, 0, moved, is_known=kind in _MOVING)


def is_view(kind: str, domain: str) -> bool:
    """Whether an operator only reshapes or renames its data, at no cost."""
    return kind in _VIEWS and _is_listed(kind, domain)


def _is_listed(kind: str, domain: str) -> bool:
    """Whether the tables of costs cover an operator of this kind and domain."""
    listed = _DOMAINS.get(domain, frozenset())
    return listed is None or kind in listed


def _bias(op: TypedNode) -> int:
    """Additions of a bias: one per element if the operator has one, else 0."""
    place = _BIAS.get(op.kind, len(op.inputs))
    return op.written if any(tensor is not None for tensor in op.inputs[place : place + 1]) else 0


def _convolution(weight: int) -> Callable[[TypedNode], int]:
    """Multiply-adds of a convolution; `weight` is the number of the input with its weight."""

    def products(op: TypedNode) -> int:
        kernel = op.input(weight).shape
        _require_fit(op.input(0).shape[1], kernel[1] * op.attributes.get("group", 1))
        return op.written * math.prod(kernel[1:])

    return products


def _transposed_convolution(op: TypedNode) -> int:
    """Multiply-adds: each element of the input meets each weight of its channel."""
    kernel = op.input(1).shape
    _require_fit(op.input(0).shape[1], kernel[0])
    return op.input(0).elements * math.prod(kernel[1:])


def _matrix_product(right: int) -> Callable[[TypedNode], int]:
    """Multiply-adds of a matrix product; `right` is the number of the input with the right matrix."""

    def products(op: TypedNode) -> int:
        columns = _axis(op.input(0), last=not op.attributes.get("transA", 0))
        _require_fit(columns, _axis(op.input(right), last=bool(op.attributes.get("transB", 0))))
        return op.written * columns

    return products


def _axis(matrix: TensorType, last: bool) -> int:
    """Size of the last axis of a matrix, or of the one before it."""
    return matrix.shape[-1 if last or len(matrix.shape) == 1 else -2]


def _require_fit(size: int, expected: int) -> None:
    if size != expected:  # shape inference may not look
        raise ValueError(f"{size} channels or columns meet weights for {expected}")


def _einstein_sum(op: TypedNode) -> int:
    """Multiply-adds: the product of the sizes of all labels."""
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
    """Operations of pooling: each element of a window once."""
    return op.written * math.prod(op.attributes["kernel_shape"])


def _local_response(op: TypedNode) -> int:
    """Operations of squares and their sums over a window, then scale, shift, power and division."""
    return op.written * (2 * op.attributes["size"] + 4)


def _variadic(op: TypedNode) -> int:
    return op.written * max(1, len(op.inputs) - 1)


def _top(op: TypedNode) -> int:
    """Operations to find the largest elements along an axis with a heap: log2 of the length for each element."""
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


# The nodes of an ONNX graph that depend on its inputs, the constants that they use, and the types of tensors.


# Their results are known before any input, whatever they read.
_SHAPES = ("Shape", "Size")
# Their results from constants are constants of their own, not parts of what they read.
_MAKERS = ("Constant", "ConstantOfShape", "EyeLike", "Expand", "Range", "Tile")
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
# Width of elements [bits]; texts have none.
_WIDTHS = {
    2: "INT2 UINT2",
    4: "INT4 UINT4 FLOAT4E2M1",
    6: "FLOAT6E2M3 FLOAT6E3M2",
    8: "BOOL INT8 UINT8 FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ FLOAT8E8M0",
    16: "INT16 UINT16 FLOAT16 BFLOAT16",
    32: "INT32 UINT32 FLOAT",
    64: "INT64 UINT64 DOUBLE COMPLEX64",
    128: "COMPLEX128",
}
_BITS = {
    number: bits
    for bits, names in _WIDTHS.items()
    for name, number in TensorProto.DataType.items()
    if name in names.split()
}


@dataclass(frozen=True)
class LiveNode:
    """A node that depends on an input."""

    node: NodeProto
    reads: tuple[str, ...]  # tensors that depend on an input, those that its bodies capture included
    # Constants of the file that it uses, directly or by what was computed from them; also those of its bodies.
    weights: frozenset[str]
    bodies: tuple[Scope, ...]  # of a control-flow node


class Scope:
    """Graph or body of control flow, with access to the names of the graphs around it.

    A node is constant if nothing that it reads varies with the inputs. All shapes are fixed, so they are constant.

    Attributes
    ----------
    live : list of LiveNode
        Nodes that depend on an input, in the order of the file.
    places : list of int
        Index of each live node among all nodes of the graph.
    wanted : set of str
        Tensors that some live node reads, or that are outputs of the graph.
    weights : dict of str to TensorType or None
        Type of each constant that the file holds, those of other scopes included.
    """

    def __init__(self, graph: GraphProto, outer: Scope | None = None) -> None:
        self.graph = graph
        self.types: MutableMapping[str, TensorType] = ChainMap({}, outer.types) if outer else {}
        self.weights: dict[str, TensorType | None] = outer.weights if outer else {}
        # Which constants of the file each tensor comes from; None if it varies.
        self._origins: MutableMapping[str, frozenset[str] | None] = ChainMap({}, outer._origins) if outer else {}
        self._numbers: MutableMapping[str, NDArray[np.int64]] = ChainMap({}, outer._numbers) if outer else {}
        self._numbers.update(whole_numbers(graph))
        self._collect_types()
        visited = [self._visit(node) for node in graph.node]
        self.live = [node for node in visited if node is not None]
        self.places = [i for i, node in enumerate(visited) if node is not None]
        self.wanted = {name for node in self.live for name in node.reads}
        self.wanted |= {value.name for value in graph.output if self._origins.get(value.name) is None}

    def number(self, name: str) -> int | None:
        """A whole number that is a constant of the file, or None."""
        values = self._numbers.get(name)
        return int(values.item()) if values is not None and values.size == 1 else None

    def operator(self, node: NodeProto) -> TypedNode:
        """A node with the types of its tensors; outputs that no node reads are left out."""
        return TypedNode(
            kind=node.op_type,
            domain=node.domain,
            attributes={attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute},
            inputs=tuple(self.types[name] if name else None for name in _operands(node)),
            outputs=tuple(self.types[name] if name in self.wanted else None for name in node.output),
        )

    def missing(self) -> Iterator[str]:
        """Yield names of tensors that have no shape although a cost depends on it."""
        for live in self.live:
            names = [name for name in live.node.output if name in self.wanted]
            yield from (name for name in (*names, *_operands(live.node)) if name and name not in self.types)
            yield from (name for name in live.weights if self.weights[name] is None)
            for body in live.bodies:
                yield from body.missing()

    def _collect_types(self) -> None:
        graph = self.graph
        for value in (*graph.input, *graph.value_info, *graph.output):
            value_type = type_of(value)
            if value_type is not None:
                self.types[value.name] = value_type
        self._origins.update(dict.fromkeys((value.name for value in graph.input), None))
        sparse = [(tensor.values, tensor.dims) for tensor in graph.sparse_initializer]
        for tensor, dims in (*((tensor, tensor.dims) for tensor in graph.initializer), *sparse):
            value_type = tensor_type(tensor.data_type, dims)
            if value_type is not None:
                self.types[tensor.name] = value_type
            self._note_weight(tensor.name)

    def _visit(self, node: NodeProto) -> LiveNode | None:
        """The live node if a node depends on an input; else None, and its outputs are noted as constant."""
        names = [*dict.fromkeys(name for name in (*node.input, *captured(node)) if name)]
        reads = tuple(name for name in names if self._origins.get(name) is None)
        bodies = subgraphs(node)
        kind = node.op_type if node.domain in ("", "ai.onnx") else None
        if kind in _SHAPES or not (reads or kind in _RANDOM):
            for name in filter(None, node.output):
                if kind in _MAKERS or bodies:
                    self._note_weight(name)
                else:
                    self._origins[name] = frozenset() if kind in _SHAPES else self._union(names)
            return None
        self._origins.update(dict.fromkeys(node.output, None))
        scopes = tuple(Scope(body, self) for body in bodies)
        weights = self._union(_operands(node)).union(*(scope._used_weights() for scope in scopes))
        return LiveNode(node, reads, weights, scopes)

    def _used_weights(self) -> frozenset[str]:
        """Constants that live nodes read, and constants that are outputs of the graph."""
        outputs = self._union([value.name for value in self.graph.output])
        return outputs.union(*(live.weights for live in self.live))

    def _union(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset().union(*(self._origins.get(name) or () for name in names))

    def _note_weight(self, name: str) -> None:
        key = name
        while key in self.weights:  # two branches may use one name
            key += "'"
        self.weights[key] = self.types.get(name)
        self._origins[name] = frozenset((key,))


def type_of(value: ValueInfoProto) -> TensorType | None:
    """Type of a value; None if it is no tensor or its shape is unknown."""
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        return None
    dims = value.type.tensor_type.shape.dim
    if not all(dim.HasField("dim_value") for dim in dims):
        return None
    return tensor_type(value.type.tensor_type.elem_type, [dim.dim_value for dim in dims])


def tensor_type(element: int, dims: Sequence[int]) -> TensorType | None:
    """Type of a tensor from the number of its element type and its shape; None if it has none."""
    bits = _BITS.get(element)
    return None if bits is None or min(dims, default=0) < 0 else TensorType(tuple(dims), bits)


def _operands(node: NodeProto) -> Sequence[str]:
    """Names of the inputs that are data: for a view the first input alone, as the others describe the shape."""
    return node.input[:1] if is_view(node.op_type, node.domain) else node.input


# Cost of a live node; control flow costs as much as its bodies.


@dataclass
class Price:
    """Cost of a node."""

    multiply_adds: int = 0
    flops: int = 0
    seconds: float = 0.0  # by the roofline model; for control flow the sum over what runs
    unknown_operators: Counter[str] = field(default_factory=Counter)  # operators of which only the bytes are counted
    # Loops that count once, as the file does not say how often they run, or as if their state kept its first shape.
    approximate_loops: list[str] = field(default_factory=list)

    def add(self, other: Price, times: int = 1) -> None:
        """Add another price, several times."""
        self.multiply_adds += times * other.multiply_adds
        self.flops += times * other.flops
        self.seconds += times * other.seconds
        self.unknown_operators.update(other.unknown_operators)
        self.approximate_loops += other.approximate_loops


def price(live: LiveNode, scope: Scope, device: Device) -> Price:
    """Price a node on a device.

    A branch costs as much as the one that takes longer, a loop its body times its trip count.

    Raises
    ------
    InputError
        If inputs or attributes are not those of the ONNX specification.
    """
    node = live.node
    label = node.name or ", ".join(node.output)
    try:
        if not live.bodies:
            return _operator(live, scope, device)
        bodies = [_body(body, device) for body in live.bodies]
        if node.op_type == "If":
            return max(bodies, key=lambda body: body.seconds)
        (body,) = bodies
        result = Price()
        trips = _trips(live, scope)
        result.add(body, 1 if trips is None else trips)
        if trips is None or _changes_shape(live):
            result.approximate_loops.append(label)
        return result
    except (AssertionError, AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise InputError(f"node {node.op_type} '{label}' does not fit its inputs ({error}).") from None


def _operator(live: LiveNode, scope: Scope, device: Device) -> Price:
    """Price of an operator without bodies."""
    operator = scope.operator(live.node)
    first = operator.outputs[:1]
    if first and first[0] is not None and is_view(operator.kind, operator.domain):
        old, new = operator.input(0), first[0]
        if old.elements != new.elements:
            raise ValueError(f"it makes {new.shape} of {old.shape}; its target is a constant")
    counts = count(operator)
    kind = f"{operator.domain}.{operator.kind}" if operator.domain else operator.kind
    return Price(
        counts.multiply_adds,
        counts.flops,
        device.time(counts.flops, counts.bytes_moved),
        Counter() if counts.is_known else Counter([kind]),
    )


def _body(body: Scope, device: Device) -> Price:
    """Cost of running once all nodes of a body that depend on its inputs."""
    result = Price()
    for live in body.live:
        result.add(price(live, body, device))
    return result


def _trips(live: LiveNode, scope: Scope) -> int | None:
    """Number of times that a body runs, None if unknown; of a loop the largest number."""
    node = live.node
    if node.op_type == "Loop":
        trips = scope.number(node.input[0])
        return None if trips is None else max(0, trips)
    if node.op_type == "Scan":
        attributes = scope.operator(node).attributes
        first = node.input[-attributes["num_scan_inputs"]]
        return scope.types[first].shape[attributes.get("scan_input_axes", [0])[0]]
    return None


def _changes_shape(live: LiveNode) -> bool:
    """Whether an iteration of a loop changes the shape of some state."""
    (body,) = live.bodies
    states = zip(body.graph.input[2:], body.graph.output[1:], strict=False) if live.node.op_type == "Loop" else ()
    return any(body.types.get(before.name) != body.types.get(after.name) for before, after in states)
