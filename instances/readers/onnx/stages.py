"""Stages of a partition as ONNX models.

A stage holds the nodes of its block. Views, such as Reshape, and what is computed from constants are copied into each
stage that reads them, so that what is sent is the tensor itself, once to each reader: this is what the cost of a
partition counts. A shape becomes the constant that it is. A constant goes into each stage that uses it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto

from instances.errors import InputError
from instances.partitioning.partition import Partition
from instances.readers.onnx.graph import check_weights, node_names, typed_scope
from instances.readers.onnx.model import captured, inputs_of, load_model, set_dims
from instances.readers.onnx.operators import Scope, is_view


class TensorSpec(NamedTuple):
    """Name, element type (a number of `onnx.TensorProto.DataType`) and shape of a tensor."""

    name: str
    element: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class OnnxStage:
    """The model of a stage, with its block and its inputs and outputs."""

    block: int
    model: ModelProto
    received: tuple[tuple[TensorSpec, int | None], ...]  # inputs, each with its block of origin; None for an input
    sent: tuple[TensorSpec, ...]  # outputs: to other stages, or of the whole model


@dataclass(frozen=True)
class Cut:
    """A model cut into stages; empty blocks have none."""

    model: ModelProto  # the whole, with fixed shapes
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    stages: tuple[OnnxStage, ...]


def cut_model(path: str | Path, dims: Mapping[str, int], partition: Partition) -> Cut:
    """Cut a model into a stage for each block that has nodes; weights in other files stay there.

    Parameters
    ----------
    path : path of an ONNX file
    dims : mapping of str to int
        As for `read_onnx`.
    partition : Partition
        Partition of the graph that `read_onnx` makes of the file with these dimensions.

    Raises
    ------
    InputError
        If the file is not a valid model or its weights do not lie beside it, the partition is of another one, or the
        shape of a tensor that must be known is not, or depends on values.
    """
    scope, _, is_open = typed_scope(path, dims)
    model = load_model(path)
    set_dims(model, dims, path)
    try:
        check_weights(model, Path(path).parent)
        return _Cutter(model, scope, partition, is_open).cut()
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


class _Cutter:
    """Maps from the tensors of a model to their producers, and from nodes to blocks, used to cut stages."""

    def __init__(self, model: ModelProto, scope: Scope, partition: Partition, is_open: frozenset[str]) -> None:
        graph = model.graph
        self._model = model
        self._nodes: list[NodeProto] = list(graph.node)
        self._producer = {name: i for i, node in enumerate(self._nodes) for name in node.output if name}
        self._weights = {tensor.name: tensor for tensor in graph.initializer}
        self._sparse = {tensor.values.name: tensor for tensor in graph.sparse_initializer}
        self._given = [value.name for value in inputs_of(graph)]
        self._outputs = list(dict.fromkeys(value.name for value in graph.output))
        self._types = dict(_types_of(scope))
        self._open = is_open
        self._live = set(scope.places)
        self._home = _homes(scope, partition)
        self._blocks: dict[int, list[int]] = {}
        for i, block in self._home.items():
            self._blocks.setdefault(block, []).append(i)

    def cut(self) -> Cut:
        """The model, its inputs and outputs, and a stage for each block that is not empty."""
        blocks = sorted(self._blocks)
        results: dict[int, list[str]] = {block: [] for block in blocks}
        for name in (name for name in self._outputs if name not in self._given):
            results[self._block_of(name, blocks[0])].append(name)
        parts = {block: self._collect(block, results[block]) for block in blocks}
        sent: dict[int, dict[str, None]] = {block: dict.fromkeys(results[block]) for block in blocks}
        for part in parts.values():
            for name, block in part.received.items():
                if block is not None:
                    sent[block][name] = None
        for block in blocks:
            if not sent[block]:  # nothing in it matters, but a model has an output
                sent[block] = dict.fromkeys(self._loose_ends(block))
        return Cut(
            model=self._model,
            inputs=tuple(self._spec(name) for name in self._given),
            outputs=tuple(self._spec(name) for name in self._outputs),
            stages=tuple(self._stage(block, parts[block], list(sent[block])) for block in blocks),
        )

    def _collect(self, block: int, results: Iterable[str]) -> _Part:
        """Contents of a stage: its nodes and copied views, weights, and tensors received from earlier stages."""
        part = _Part(set(self._blocks[block]), {}, [], {})
        open_names = [name for i in self._blocks[block] for name in _reads(self._nodes[i])] + list(results)
        seen: set[str] = set()
        while open_names:
            name = open_names.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in self._weights or name in self._sparse:
                part.weights.append(name)
                continue
            i = self._producer.get(name)
            if i is None:
                part.received[name] = None
            elif i in self._home:
                if self._home[i] != block:
                    part.received[name] = self._earlier(name, i, block)
            elif (shape := self._shape(i)) is not None:
                part.shapes[name] = shape
            elif i not in part.nodes:
                part.nodes.add(i)
                open_names += _reads(self._nodes[i])
        return part

    def _stage(self, block: int, part: _Part, sent: list[str]) -> OnnxStage:
        """The model of a block, with its inputs and outputs and the blocks that its inputs come from."""
        place = {name: i for i, name in enumerate(self._given)}
        received = sorted(part.received, key=lambda name: (name not in place, place.get(name, 0), name))
        specs = [self._spec(name) for name in received]
        outputs = [self._spec(name) for name in sent]
        model = ModelProto(ir_version=self._model.ir_version, producer_name="mtpp")
        model.opset_import.extend(self._model.opset_import)
        graph = model.graph
        graph.name = f"{self._model.graph.name or 'model'}, block {block}"
        graph.node.extend(self._nodes[i] for i in sorted(part.nodes))
        for name in sorted(part.weights):
            if name in self._weights:
                graph.initializer.append(self._weights[name])
            else:
                graph.sparse_initializer.append(self._sparse[name])
        graph.initializer.extend(part.shapes[name] for name in sorted(part.shapes))
        graph.input.extend(map(_value, specs))
        graph.output.extend(map(_value, outputs))
        if model.ir_version < 4:  # there, each initializer is an input as well
            graph.input.extend(_value(_tensor_spec(tensor)) for tensor in graph.initializer)
        senders = [part.received[name] for name in received]
        return OnnxStage(block, model, tuple(zip(specs, senders, strict=True)), tuple(outputs))

    def _earlier(self, name: str, i: int, block: int) -> int:
        """Block of node `i`, which produces a tensor for `block`; an `InputError` if it is a later block."""
        if self._home[i] > block:
            raise InputError(
                f"stage {block} reads '{name}' of the later stage {self._home[i]}; the partition is of another model."
            )
        return self._home[i]

    def _block_of(self, name: str, first: int) -> int:
        """The last block among the producers of an output, through views; `first` if there is none."""
        open_names, block, seen = [name], first, set()
        while open_names:
            i = self._producer.get(open_names.pop())
            if i in self._home:
                block = max(block, self._home[i])
            elif i is not None and i in self._live and i not in seen:
                seen.add(i)
                open_names += _reads(self._nodes[i])
        return block

    def _loose_ends(self, block: int) -> list[str]:
        """Name of an output for a block that sends nothing: preferably a result that none of its nodes reads."""
        names = [name for i in self._blocks[block] for name in self._nodes[i].output if name]
        read = {name for i in self._blocks[block] for name in _reads(self._nodes[i])}
        return [name for name in names if name not in read][:1] or names[:1]

    def _shape(self, i: int) -> TensorProto | None:
        """The constant result of a Shape or Size operator; None for other nodes."""
        node = self._nodes[i]
        if i in self._live or node.op_type not in ("Shape", "Size") or node.domain not in ("", "ai.onnx"):
            return None
        spec = self._spec(node.input[0])
        if node.op_type == "Size":
            value = np.array(np.prod(spec.shape, dtype=np.int64), np.int64)
        else:
            ends = {attribute.name: attribute.i for attribute in node.attribute}
            value = np.array(spec.shape[ends.get("start", 0) : ends.get("end")], np.int64)
        return onnx.numpy_helper.from_array(value, node.output[0])

    def _spec(self, name: str) -> TensorSpec:
        """Type of a tensor that is sent, or whose shape becomes a constant."""
        if name in self._open:
            raise InputError(
                f"the shape of tensor '{name}' depends on values, and stages need fixed ones; cut where it is not "
                "sent, or export the model without it."
            )
        spec = self._types.get(name)
        if spec is None and name in self._weights:
            spec = _tensor_spec(self._weights[name])
        if spec is None:
            raise InputError(_no_shape(name))
        return spec


class _Part(NamedTuple):
    """Contents of a stage: nodes, tensors received, weights, constant shapes."""

    nodes: set[int]
    received: dict[str, int | None]  # tensor to the block that it comes from; None for an input of the model
    weights: list[str]
    shapes: dict[str, TensorProto]


def _homes(scope: Scope, partition: Partition) -> dict[int, int]:
    """Block of each node of the graph, by the node's index in the model."""
    graph = partition.instance.graph
    blocks = dict(zip(graph.names, partition.block.tolist(), strict=True))
    names = node_names(scope)
    for name, count in Counter(names).items():
        if count > 1 and name in blocks:
            raise InputError(f"{count} nodes of the model are called '{name}'; give each a name of its own.")
    home = {}
    for i, live, name in zip(scope.places, scope.live, names, strict=True):
        if name in blocks:
            home[i] = blocks[name]
        elif not is_view(live.node.op_type, live.node.domain):
            raise InputError(f"the partition has no node '{name}'; it is of another model.")
    if len(home) < graph.n:
        other = next(name for name in graph.names if name not in set(names))
        raise InputError(f"the model has no node '{other}' that runs; the partition is of another model.")
    return home


def _reads(node: NodeProto) -> list[str]:
    """Names of the tensors that a node reads, in its bodies as well."""
    return [name for name in (*node.input, *captured(node)) if name]


def _types_of(scope: Scope) -> Iterator[tuple[str, TensorSpec]]:
    """Names and types of the tensors whose shapes are known."""
    for value in (*scope.graph.value_info, *scope.graph.input, *scope.graph.output):
        if value.name in scope.types:
            element = value.type.tensor_type.elem_type
            yield value.name, TensorSpec(value.name, element, scope.types[value.name].shape)


def _tensor_spec(tensor: TensorProto) -> TensorSpec:
    return TensorSpec(tensor.name, tensor.data_type, tuple(tensor.dims))


def _value(spec: TensorSpec) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(spec.name, spec.element, spec.shape)


def _no_shape(name: str) -> str:
    return (
        f"the shape of tensor '{name}' cannot be found; export the model with fixed shapes, or add it to the model's "
        "value_info."
    )
