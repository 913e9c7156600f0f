"""The nodes of an ONNX graph that depend on its inputs, the constants that they use, and the types of tensors."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto

from instances.readers.onnx.model_file import captured, subgraphs, whole_numbers
from instances.readers.onnx.operators import is_view
from instances.readers.onnx.types import TensorType, TypedNode

__all__ = ["LiveNode", "Scope", "tensor_type", "type_of"]

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

    A node is constant if nothing that it reads varies with the inputs. The shape of a tensor is, as all are fixed.

    Attributes
    ----------
    live : list of LiveNode
        In the order of the file.
    places : list of int
        Number of each of them among all nodes of the graph.
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
        """A whole number that the file holds, or None."""
        values = self._numbers.get(name)
        return int(values.item()) if values is not None and values.size == 1 else None

    def operator(self, node: NodeProto) -> TypedNode:
        """Node with the types of its tensors; outputs without readers are left out."""
        return TypedNode(
            kind=node.op_type,
            domain=node.domain,
            attributes={attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute},
            inputs=tuple(self.types[name] if name else None for name in _operands(node)),
            outputs=tuple(self.types[name] if name in self.wanted else None for name in node.output),
        )

    def missing(self) -> Iterator[str]:
        """Tensors without a shape that matter for the cost."""
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
        """Keep a node, or note that its outputs are constant."""
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
        """Constants that the nodes use, and those that are outputs."""
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
    """Inputs that are data; of a view only the first, as the others describe the shape."""
    return node.input[:1] if is_view(node.op_type, node.domain) else node.input
